"""The kinds of events: one class for each, with what it holds, who may write it, when it may follow, and what it does.

A new kind is one class here. Stored events are read by the same checks as new ones are written. The rules hold for
writing and for replay alike; those on new names (`warpgauge.project.names`) for writing only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from warpgauge.core.kernels import FAMILIES
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.io.inside import name_problem
from warpgauge.project.content_checks import Matrix, Vector, number, points, text, vector, whole
from warpgauge.project.errors import ConflictError, NotAllowedError, ProjectError
from warpgauge.project.names import check_new_name, checked_name
from warpgauge.project.settings import Settings
from warpgauge.project.state import State
from warpgauge.project.values import (
    DESIGNS,
    ORGANISER,
    ORIGINS,
    REVOKED,
    ROLES,
    SKIP_REASONS,
    AlignmentRecord,
    AuditRound,
    Cell,
    ControlsRecord,
    Entry,
    FitRecord,
    NoteRecord,
    Placed,
    Placement,
    Proposal,
    QueryRecord,
    RaterRecord,
    SealRecord,
    Settled,
    Skipped,
    Stamp,
    Step,
    TransformRecord,
    Unsealed,
    canonical,
)

KINDS: dict[str, type[Event]] = {}
_LARGEST_PAYLOAD = 1_000_000
_HEADER = ("rater", "query", "duration", "base_generation", "batch")


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event that is to be written, or that was read from the log.

    A subclass declares the keys of its payload as fields, each with its check, and says in `_rule` what it may follow
    and in `_apply` what it does.

    Attributes
    ----------
    rater : str
        Who acts.
    query : int or None
        Number of the query that it is about.
    duration : float or None
        Seconds that the rater took.
    base_generation : int or None
        Generation of the state that the rater saw; a newer change by the same rater of the same query is a conflict.
    batch : str or None
        The import that it belongs to.
    """

    kind: ClassVar[str] = ""
    about_query: ClassVar[bool | None] = True
    """Whether it names a query; None where it may."""
    organisers_only: ClassVar[bool] = False
    """Whether only organisers may write it; all others are for everybody who is not revoked."""
    undoable: ClassVar[bool] = False
    """Whether it is an action of a rater on an answer of their own, which undo and redo go over."""
    words: ClassVar[str] = ""
    """What a person does by it, after "may not"; the name of the kind by default."""

    rater: str
    query: int | None = None
    duration: float | None = None
    base_generation: int | None = None
    batch: str | None = None

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @classmethod
    def read(cls, payload: Mapping[str, Any], d: int, **header: Any) -> Self:
        """Check the content of a payload, here and nowhere else, and return the event."""
        checked = {one.name: one.metadata["read"](payload, one.name, d) for one in fields(cls) if one.metadata}
        return cls(**cls._content(payload, d, checked), **header)

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        """Check fields that depend on each other or have no check of their own; return all fields."""
        return checked

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps, in values that JSON has; without the batch, which `stored_text` adds."""
        return self._fields()

    @property
    def at(self) -> int:
        """Number of the query, 0 where there is none."""
        return self.query or 0

    @property
    def whose(self) -> str:
        """Whose answer it changes."""
        return self.rater

    def allowed(self, role: str, state: State) -> bool:
        """Return whether somebody of this role may write it."""
        return role == ORGANISER or (role != REVOKED and not self.organisers_only)

    def check(self, state: State) -> None:
        """Raise when it may not follow this state."""
        self._check_query(state)
        self._check_conflict(state)
        self._rule(state)

    def _check_query(self, state: State) -> None:
        if self.query is not None and not 0 <= self.query < len(state.queries):
            raise InvalidInputError(f"There is no query {self.query}; the list has {len(state.queries)}, from 0 on.")

    def _rule(self, state: State) -> None:
        """Raise when the rule of this kind does not allow it."""

    def _check_conflict(self, state: State) -> None:
        """Refuse what is based on a state after which the same rater changed the same query."""
        newer = None if self.base_generation is None else self._newest(state)
        if newer is not None and newer.generation > (self.base_generation or 0):
            # Without its number, which raters know by another one.
            raise ConflictError(
                f"{newer.rater} changed this answer at {newer.time} (generation {newer.generation}, "
                f"{newer.kind}), after generation {self.base_generation} on which this {self.kind} was based; look at "
                f"it and decide again.",
                newer,
            )

    def _newest(self, state: State) -> Stamp | None:
        return state.touched.get((self.whose, self.at))

    def _check_asked(self, state: State) -> None:
        """Refuse what is about a query that this rater is not asked."""
        if self.query is not None and not state.queries[self.query].asks(self.rater):
            raise InvalidInputError(
                f"Query {self.query} is for {state.queries[self.query].for_rater} only, not for {self.rater}."
            )

    def _apply(self, state: State, stamp: Stamp) -> None:
        """Change the state, in place; only `advance` calls this."""

    def _fields(self) -> dict[str, Any]:
        """Return the fields of the subclass, for a record that has the same."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _HEADER}


def _read_by(check: Callable[..., Any], *about: Any, optional: bool = False) -> dict[str, Any]:
    """Return the metadata of a field that is read by ``check(value, *about)``; an optional one may be missing."""

    def read(payload: Mapping[str, Any], key: str, d: int) -> Any:
        value = payload.get(key)
        return None if optional and value is None else check(value, *about)

    return {"read": read}


def _point(what: str, check: Callable[..., Any] = vector, *, optional: bool = False) -> dict[str, Any]:
    """Return the metadata of a field with a point, or, with `points`, with several."""

    def read(payload: Mapping[str, Any], key: str, d: int) -> Any:
        value = payload.get(key)
        return None if optional and value is None else check(value, d, what)

    return {"read": read}


_TEXT = {"read": lambda payload, key, d: text(payload, key)}
_WHOLE = {"read": lambda payload, key, d: int(payload[key])}


@dataclass(frozen=True, kw_only=True)
class Ask(Event):
    """A location enters the list; see `QueryRecord`."""

    kind = "query"
    words = "ask again"
    point: Vector = field(metadata=_point("The queried point"))
    origin: str
    candidate: int | None = field(default=None, metadata=_read_by(whole))
    same_as: int | None = field(default=None, metadata=_read_by(whole))
    for_rater: str | None = field(default=None, metadata=_read_by(checked_name, optional=True))
    gain: float | None = field(default=None, metadata=_read_by(number, "The gain of a query", optional=True))
    name: str = field(default="", metadata=_TEXT)
    audit: tuple[int, int] | None = None
    known: Vector | None = field(default=None, metadata=_point("The known match", optional=True))
    sealed: bool = False

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        origin, drawn = payload.get("origin"), payload.get("audit")
        if origin not in ORIGINS:
            raise InvalidInputError(f"The origin of a query must be one of {', '.join(ORIGINS)}, got {origin!r}.")
        if (drawn is None) != (origin != "audit"):
            raise InvalidInputError("A query of the origin audit, and no other, names its round and its place in it.")
        if (checked["known"] is None) != (origin != "control"):
            raise InvalidInputError("A query of the origin control, and no other, names its known match.")
        place = None if drawn is None else (int(drawn["round"]), int(drawn["place"]))
        sealed, new = payload.get("sealed", False), checked["same_as"] is None and origin in ("suggested", "given")
        if not isinstance(sealed, bool) or (sealed and not new):
            raise InvalidInputError("Only a suggested or imported location that is new can be drawn to be sealed.")
        return {**checked, "origin": origin, "audit": place, "sealed": sealed}

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps; ``audit``, ``known`` and ``sealed`` only where they are set."""
        told = self._fields()
        audit, known, sealed = told.pop("audit"), told.pop("known"), told.pop("sealed")
        drawn = {} if audit is None else {"audit": {"round": audit[0], "place": audit[1]}}
        return {**told, **drawn, **({} if known is None else {"known": known}), **({"sealed": True} if sealed else {})}

    def allowed(self, role: str, state: State) -> bool:
        """Return whether somebody of this role may write it: asking again is for organisers."""
        return super().allowed(role, state) and (role == ORGANISER or self.origin != "again")

    def _check_query(self, state: State) -> None:
        """Pass: the query enters the list by this event."""

    def _rule(self, state: State) -> None:
        if self.query != len(state.queries):
            raise InvalidInputError(f"The next query has the number {len(state.queries)}, not {self.query}.")
        first = self.same_as
        if first is not None and (not 0 <= first < self.query or state.queries[first].same_as is not None):
            raise InvalidInputError(f"Query {self.query} cannot repeat query {first}: that is not a first query.")
        if self.audit is not None:
            self._check_audit(state, *self.audit)
        if self.known is not None:
            controls = state.controls
            pairs = () if controls is None else zip(controls.fixed, controls.moving, strict=True)
            if (self.point, self.known) not in list(pairs):
                raise InvalidInputError(f"Query {self.query} is not one of the control questions of the project.")

    def _check_audit(self, state: State, number: int, place: int) -> None:
        """Questions of a round are asked in the order drawn, each once, at the point drawn, of all raters."""
        if not 0 <= number < len(state.audits):
            raise InvalidInputError(f"There is no round {number} of the audit; there are {len(state.audits)}.")
        drawn = state.audits[number]
        asked = sum(query.audit is not None and query.audit[0] == number for query in state.queries)
        if place != asked or place >= len(drawn.targets) or self.point != drawn.points[place]:
            raise InvalidInputError(f"Query {self.query} is not question {asked} of round {number} of the audit.")
        if self.for_rater is not None or self.same_as is not None:
            raise InvalidInputError("An audit question is a new location that all raters are asked.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        number, told = len(state.queries), self._fields()
        state.queries.append(QueryRecord(number=number, generation=stamp.generation, batch=self.batch, **told))


@dataclass(frozen=True, kw_only=True)
class Withdraw(Event):
    """A suggestion that nobody has answered or put aside is taken from the list."""

    kind = "withdraw"

    def _rule(self, state: State) -> None:
        if state.queries[self.at].origin != "suggested" or self.at in state.withdrawn or state.is_taken(self.at):
            raise InvalidInputError(f"Query {self.at} is not an open suggestion, so it cannot be withdrawn.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.withdrawn[self.at] = stamp


@dataclass(frozen=True, kw_only=True)
class Action(Event):
    """An action of a rater on an answer of their own; ``needs`` lists the states of the answer that allow it."""

    undoable = True
    needs: ClassVar[tuple[str, ...]] = ()

    def _rule(self, state: State) -> None:
        self._check_asked(state)
        answer = state.answer(self.rater, self.at)
        has = {Placed: "placed", Skipped: "skipped", type(None): "not answered"}[type(answer)]
        if has not in self.needs:
            raise InvalidInputError(
                f"{self.rater} cannot {self.kind} this query, which is {has}; it would have to be "
                f"{' or '.join(self.needs)}."
            )

    def _after(self, before: Cell, stamp: Stamp) -> Cell:
        """Return what the action makes of a cell."""
        return Cell()

    def _apply(self, state: State, stamp: Stamp) -> None:
        before = state.cell(self.rater, self.at)
        after = self._after(before, stamp)
        step = Step(stamp.generation, self.at, before, after, self.batch)
        state.done.setdefault(self.rater, []).append(step)
        _count_batch(state, self.batch, 1)
        state.undone[self.rater] = []
        state.last_action[self.rater] = stamp
        _set_cell(state, self.rater, self.at, after, stamp)


@dataclass(frozen=True, kw_only=True)
class Place(Action):
    """A match is placed."""

    kind = "place"
    needs: ClassVar[tuple[str, ...]] = ("not answered", "skipped")
    placement: Placement

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        return {"placement": Placement.read(payload, d)}

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps."""
        return self.placement.payload()

    def _after(self, before: Cell, stamp: Stamp) -> Cell:
        return Cell(Placed(placement=self.placement, stamp=stamp, batch=self.batch))


@dataclass(frozen=True, kw_only=True)
class Edit(Place):
    """A placement is changed; one that was switched off stays so."""

    kind = "edit"
    needs = ("placed",)

    def _after(self, before: Cell, stamp: Stamp) -> Cell:
        came_with = before.answer.batch if isinstance(before.answer, Placed) else None
        return Cell(Placed(placement=self.placement, stamp=stamp, batch=came_with), before.disabled)


@dataclass(frozen=True, kw_only=True)
class Skip(Action):
    """A query is declined, for one of `SKIP_REASONS`."""

    kind = "skip"
    needs = ("not answered", "placed")
    text: str = field(default="", metadata=_TEXT)
    reason: str

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        reason = payload.get("reason")
        if reason not in SKIP_REASONS:
            raise InvalidInputError(f"The reason of a skip must be one of {', '.join(SKIP_REASONS)}, got {reason!r}.")
        return {**checked, "reason": reason}

    def _after(self, before: Cell, stamp: Stamp) -> Cell:
        return Cell(Skipped(reason=self.reason, text=self.text, stamp=stamp))


@dataclass(frozen=True, kw_only=True)
class Restore(Action):
    """A skip is taken back: the query is open again."""

    kind = "restore"
    needs = ("skipped",)


@dataclass(frozen=True, kw_only=True)
class Defer(Action):
    """A query is put aside."""

    kind = "defer"
    needs = ("not answered",)
    undoable = False

    def _apply(self, state: State, stamp: Stamp) -> None:
        _extend_trail(state, self.rater, self.at)
        state.deferred[self.rater, self.at] = stamp.generation


@dataclass(frozen=True, kw_only=True)
class Snap(Event):
    """A better place for a mark was asked of the images, and perhaps shown; no answer changes. See `Proposal`."""

    kind = "snap"
    about_query = None
    fixed: Vector = field(metadata=_point("The point of the fixed image"))
    mark: Vector = field(metadata=_point("The mark"))
    proposed: Vector | None = field(default=None, metadata=_point("The proposed place", optional=True))

    def _rule(self, state: State) -> None:
        self._check_asked(state)

    def _apply(self, state: State, stamp: Stamp) -> None:
        found = Proposal(self.fixed, self.mark, self.proposed, stamp.generation)
        state.proposals.setdefault((self.rater, self.query), []).append(found)


@dataclass(frozen=True, kw_only=True)
class Undo(Event):
    """The rater's last action is taken back; ``target`` is its generation."""

    kind = "undo"
    about_query = False
    target: int = field(metadata=_WHOLE)

    def _newest(self, state: State) -> Stamp | None:
        return state.last_action.get(self.rater)

    @staticmethod
    def steps(state: State) -> dict[str, list[Step]]:
        """Return the actions of each rater that can be undone (or redone), the next one last."""
        return state.done

    def _rule(self, state: State) -> None:
        steps = self.steps(state).get(self.rater, [])
        if not steps:
            raise InvalidInputError(f"{self.rater} has nothing to {self.kind}.")
        if self.target != steps[-1].generation:
            raise InvalidInputError(
                f"The next action to {self.kind} is not the one of generation {self.target}; look again."
            )

    def _apply(self, state: State, stamp: Stamp) -> None:
        taken = self.steps(state)
        back = taken is state.done
        step = taken[self.rater].pop()
        (state.undone if back else state.done).setdefault(self.rater, []).append(step)
        state.last_action[self.rater] = stamp
        _count_batch(state, step.batch, -1 if back else 1)
        _set_cell(state, self.rater, step.query, step.before if back else step.after, stamp)


@dataclass(frozen=True, kw_only=True)
class Redo(Undo):
    """What was undone last is done again."""

    kind = "redo"

    @staticmethod
    def steps(state: State) -> dict[str, list[Step]]:
        """Return the actions of each rater that can be redone, the next one last."""
        return state.undone


@dataclass(frozen=True, kw_only=True)
class Disable(Action):
    """A placement is taken out of the model by its rater, without being lost."""

    kind = "disable"
    needs = ("placed",)
    text: str = field(default="", metadata=_TEXT)

    def _rule(self, state: State) -> None:
        super()._rule(state)
        if state.cell(self.rater, self.at).disabled == (self.kind == "disable"):
            raise InvalidInputError(f"This placement of {self.rater} is {self.kind}d already.")

    def _after(self, before: Cell, stamp: Stamp) -> Cell:
        return Cell(before.answer, self.kind == "disable")


@dataclass(frozen=True, kw_only=True)
class Enable(Disable):
    """A disabled placement is taken into the model again."""

    kind = "enable"


@dataclass(frozen=True, kw_only=True)
class Exclude(Event):
    """The organiser takes a rater's mark out of the model; ``of`` says whose."""

    kind = "exclude"
    organisers_only = True
    of: str = field(metadata=_read_by(checked_name))
    text: str = field(default="", metadata=_TEXT)

    @property
    def whose(self) -> str:
        """Whose answer it changes."""
        return self.of

    def _rule(self, state: State) -> None:
        excluded = (self.of, self.at) in state.excluded
        if excluded or state.placement(self.of, self.at) is None:
            raise InvalidInputError(
                f"{self.of} has no mark at query {self.at} that could be excluded"
                f"{': it is excluded already' if excluded else ''}."
            )

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.excluded[self.of, self.at] = stamp
        given = _in_force(state.cell(self.of, self.at))
        if given is not None:
            state.removed[given] = stamp.generation
        self._note_change(state, stamp)

    def _note_change(self, state: State, stamp: Stamp) -> None:
        state.changed_at[state.queries[self.at].location] = stamp.generation
        state.model_generation = stamp.generation


@dataclass(frozen=True, kw_only=True)
class Include(Exclude):
    """An excluded mark is put back into the model."""

    kind = "include"

    def _rule(self, state: State) -> None:
        if (self.of, self.at) not in state.excluded:
            raise InvalidInputError(f"The mark of {self.of} at query {self.at} is not excluded.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        del state.excluded[self.of, self.at]
        state.removed.pop(_in_force(state.cell(self.of, self.at)) or 0, None)
        self._note_change(state, stamp)


@dataclass(frozen=True, kw_only=True)
class Resolve(Event):
    """The organiser settles a location as it stands."""

    kind = "resolve"
    organisers_only = True
    text: str = field(default="", metadata=_TEXT)

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.resolved[state.queries[self.at].location] = Settled(text=self.text, stamp=stamp)


@dataclass(frozen=True, kw_only=True)
class Register(Event):
    """A person is registered, or their role or token is changed."""

    kind = "rater"
    about_query = False
    organisers_only = True
    words = "register or revoke people"
    name: str = field(metadata=_read_by(checked_name))
    role: str
    token_hash: str | None = None
    revoked: bool = field(default=False, metadata=_read_by(bool))

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        role, token = payload.get("role"), payload.get("token_hash")
        if role not in ROLES:
            raise InvalidInputError(f"A role must be one of {', '.join(ROLES)}, got {role!r}.")
        if token is not None and not (isinstance(token, str) and 0 < len(token) <= 500):
            raise InvalidInputError("The hash of a rater's token must be a short text.")
        return {**checked, "role": role, "token_hash": token}

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.raters[self.name] = RaterRecord(**self._fields(), generation=stamp.generation)


@dataclass(frozen=True, kw_only=True)
class SkipStart(Event):
    """A rater skips the guided start."""

    kind = "start"
    about_query = False
    skipped: bool = field(default=True, metadata={"read": lambda payload, key, d: bool(payload.get(key, True))})

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.starts_skipped[self.rater] = stamp


@dataclass(frozen=True, kw_only=True)
class Align(Event):
    """A rough alignment is proposed (``accepted`` is None), or answered."""

    kind = "align"
    about_query = False
    accepted: bool | None
    matrix: Matrix
    offset: Vector = field(metadata=_point("The offset of an alignment"))
    score: float = field(metadata=_read_by(number, "The score of an alignment"))
    rival: float = field(metadata=_read_by(number, "The rival of an alignment"))
    method: str = field(metadata=_TEXT)

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        accepted = payload.get("accepted")
        if accepted not in (None, True, False):
            raise InvalidInputError(
                f"An alignment is accepted (true), refused (false) or proposed (null), got {accepted!r}."
            )
        rows = points(payload.get("matrix") or [], d, "The matrix of an alignment")
        if len(rows) != d or not abs(float(np.linalg.det(np.array(rows)))) > 0:
            raise InvalidInputError(f"The matrix of an alignment must be an invertible {d} x {d} matrix.")
        return {**checked, "accepted": accepted, "matrix": rows}

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.alignment = AlignmentRecord(**self._fields(), stamp=stamp)
        state.model_generation = stamp.generation


@dataclass(frozen=True, kw_only=True)
class Fit(Event):
    """Learned weights; ``told`` is the whole payload, unknown keys included.

    Keys are family, scales, weights, noise; own in projects with regions; and in all but early versions linear_sd,
    translation_sd, report, source, annotations, at_generation, rests_on, fitted_noise, replaces, projects.
    """

    kind = "fit"
    about_query = False
    told: Mapping[str, Any]

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        for key in ("scales", "weights"):
            values = [number(value, f"Each of the {key}") for value in payload[key]]
            if not values or min(values) <= 0 or len(values) != len(payload["scales"]):
                raise InvalidInputError(f"A fit needs one positive weight for each positive scale, got {key} {values}.")
        own = [number(value, "Each share of the regions' own") for value in payload.get("own", ())]
        if own and (len(own) != len(payload["scales"]) or min(own) < 0 or max(own) > 1):
            raise InvalidInputError(f"A fit needs a share from 0 to 1 of the regions' own for each scale, got {own}.")
        family = payload.get("family")
        if family not in FAMILIES:
            raise InvalidInputError(f"A fit names the kernel family {str(family)[:40]!r}, which is unknown.")
        for key in ("noise", "linear_sd", "translation_sd"):
            if key in payload and payload[key] is not None and number(payload[key], f"The {key} of a fit") < 0:
                raise InvalidInputError(f"The {key} of a fit must not be negative, got {payload[key]!r}.")
        number(payload.get("noise"), "The noise of a fit")
        told = dict(payload)
        if "rests_on" in told:
            told["rests_on"] = sorted(int(generation) for generation in told["rests_on"])
        return {"told": told}

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps."""
        return dict(self.told)

    def _rule(self, state: State) -> None:
        """Refuse a fit that does not replace the last one: another process has refitted meanwhile."""
        replaces = self.told.get("replaces")
        if replaces is not None and state.fits and state.fits[-1].generation != replaces:
            newer = state.fits[-1].stamp
            late = f"The weights were fitted anew at generation {newer.generation}; this fit is late."
            raise ConflictError(late, newer)

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.fits.append(FitRecord.of(self.told, stamp))
        known = () if state.fits[-1].from_projects else self.told.get("rests_on")
        if known is None:  # fits of earlier versions say only when they looked
            seen = self.told.get("at_generation", stamp.generation)
            known = [
                cell.answer.generation
                for (rater, query), cell in state.cells.items()
                if cell.answer is not None and cell.answer.generation <= seen and state.in_model(rater, query)
            ]
        state.fit_marks[stamp.generation] = frozenset(known)


@dataclass(frozen=True, kw_only=True)
class SetTransform(Event):
    """A registration result is added, or, without files, removed; ``more`` are keys of other versions."""

    kind = "transform"
    about_query = False
    name: str
    files: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    reference: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        files, hashes, options = payload.get("files", []), payload.get("hashes", []), payload.get("options", {})
        texts = isinstance(files, list) and isinstance(hashes, list) and all(isinstance(t, str) for t in files + hashes)
        if not texts or len(files) != len(hashes) or len(files) > 1000 or not isinstance(options, dict):
            raise InvalidInputError("A transform needs a list of files, a hash for each, and options.")
        for file in files:
            if not file.startswith("transforms/") or name_problem(file) is not None:
                raise InvalidInputError(
                    f"The file {file[:80]!r} of a transform does not lie in the folder 'transforms'."
                )
        name, reference = checked_name(payload.get("name"), "The name of a transform"), payload.get("reference", False)
        if not isinstance(reference, bool):
            raise InvalidInputError("Whether a transform is a reference is true or false.")
        own = ("name", "files", "hashes", "options", "reference")
        more = {key: value for key, value in payload.items() if key not in own}
        about = {"options": options, "reference": reference, "more": more}
        return {"name": name, "files": tuple(files), "hashes": tuple(hashes), **about}

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps."""
        told = {"name": self.name, "files": list(self.files), **self.more}
        if self.reference:
            told["reference"] = True
        return {**told, "hashes": list(self.hashes), "options": dict(self.options)} if self.files else told

    def allowed(self, role: str, state: State) -> bool:
        """Return whether somebody of this role may write it; nobody else touches a reference of the organisers."""
        known = state.transforms.get(self.name)
        touched = self.reference or (known is not None and known.reference)
        return super().allowed(role, state) and (role == ORGANISER or not touched)

    def _rule(self, state: State) -> None:
        if not self.files and self.name not in state.transforms:
            raise InvalidInputError(f"There is no transform {self.name!r} to remove.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        if not self.files:
            del state.transforms[self.name]
            return
        record = TransformRecord(
            self.name, self.files, self.hashes, dict(self.options), stamp.generation, self.reference
        )
        state.transforms[self.name] = record
        state.first_added.setdefault(record.content, stamp.generation)


@dataclass(frozen=True, kw_only=True)
class ChangeSettings(Event):
    """Settings are changed, for all who use the project."""

    kind = "settings"
    about_query = False
    organisers_only = True
    words = "change the settings"
    changes: Mapping[str, Any]

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        changes = payload.get("changes")
        if not isinstance(changes, dict) or not changes:
            raise InvalidInputError("A change of settings needs the settings that change.")
        clean = Settings.from_dict(changes).to_dict()
        return {"changes": {name: clean[name] for name in changes}}

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.settings.update(self.changes)
        state.settings_generation = stamp.generation


@dataclass(frozen=True, kw_only=True)
class DrawAudit(Event):
    """A round of audit questions is drawn."""

    kind = "audit"
    about_query = False
    drawn: AuditRound

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        targets = tuple(int(target) for target in payload["targets"])
        shares = tuple(number(share, "An inclusion probability") for share in payload["probabilities"])
        rows = points(payload["points"], d, "The points of an audit")
        candidates = tuple(whole(one) for one in payload["candidates"])
        population, before = int(payload["population"]), int(payload["drawn_before"])
        design, known = payload.get("design"), payload.get("transforms", {})
        if design not in DESIGNS or not len(targets) == len(shares) == len(rows) == len(candidates) > 0:
            raise InvalidInputError(
                "A round of an audit needs a design, and for each target a point and a probability."
            )
        if len(set(targets)) < len(targets) or not 0 <= min(targets) <= max(targets) < population:
            raise InvalidInputError("A round of an audit draws each target at most once, from those that there are.")
        if not all(0 < share <= 1 + 1e-9 for share in shares) or not 0 <= before < population:
            raise InvalidInputError("The inclusion probabilities of an audit must lie above 0 and not above 1.")
        round_, sealed, seed = int(payload["round"]), bool(payload.get("sealed", False)), int(payload["seed"])
        names = {checked_name(name, "The name of a transform"): int(at) for name, at in known.items()}
        drawn = AuditRound(
            round_, design, sealed, population, before, seed, targets, rows, candidates, shares, names,
            sequential=bool(payload.get("sequential", False)),
        )  # fmt: skip
        return {"drawn": drawn}

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps."""
        told = dict(vars(self.drawn))
        del told["generation"]
        if not told["sequential"]:  # as older logs have it
            del told["sequential"]
        return {"round": told.pop("number"), **told}

    def _rule(self, state: State) -> None:
        if self.drawn.number != len(state.audits):
            raise InvalidInputError(f"The next round of the audit is {len(state.audits)}, not {self.drawn.number}.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.audits.append(replace(self.drawn, generation=stamp.generation))


@dataclass(frozen=True, kw_only=True)
class AddControls(Event):
    """Pairs with known matches are mixed into the questions from now on, one in ``every``."""

    kind = "controls"
    about_query = False
    organisers_only = True
    words = "add control questions"
    fixed: tuple[Vector, ...] = field(metadata=_point("The fixed points of controls", points))
    moving: tuple[Vector, ...] = field(metadata=_point("The moving points of controls", points))
    every: int = field(metadata=_WHOLE)
    seed: int = field(metadata=_WHOLE)

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        fixed, moving = checked["fixed"], checked["moving"]
        if not fixed or len(fixed) != len(moving) or not 2 <= checked["every"] <= 1000:
            raise InvalidInputError(
                "Controls are pairs of a fixed and a moving point; one is asked among 2 questions or more."
            )
        return checked

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.controls = ControlsRecord(**self._fields(), stamp=stamp)


@dataclass(frozen=True, kw_only=True)
class Seal(Event):
    """From now on, suggested locations are drawn to be sealed: a share of them, at most so many at a time.

    The seed fixes the draws before any question is asked. Of an import (``batch``) it says how its locations were
    drawn.
    """

    kind = "seal"
    about_query = False
    seed: int = field(metadata=_WHOLE)
    share: float = field(metadata=_read_by(number, "The share of sealed answers"))
    most: int = field(metadata=_WHOLE)

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        if not 0 < checked["share"] <= 1 or checked["most"] < 1 or checked["seed"] < 0:
            raise InvalidInputError("Sealing needs a seed, a share above 0 and up to 1, and at least one answer.")
        return checked

    def _rule(self, state: State) -> None:
        if self.batch is None and state.seal is not None:
            raise InvalidInputError("How answers are drawn to be sealed was fixed before; it stays as it is.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        if self.batch is None:
            state.seal = SealRecord(seed=self.seed, share=self.share, most=self.most, stamp=stamp)


@dataclass(frozen=True, kw_only=True)
class Unseal(Event):
    """Sealed answers are opened, for a verdict; with the digest of a certificate where one was written."""

    kind = "unseal"
    about_query = False
    organisers_only = True
    words = "open sealed answers"
    certificate: str = field(default="", metadata=_TEXT)

    def _rule(self, state: State) -> None:
        if not state.sealed_locations():
            raise InvalidInputError("No answer is sealed, so there is nothing to unseal.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.unsealed.append(Unsealed(certificate=self.certificate, stamp=stamp))
        state.model_generation = stamp.generation


@dataclass(frozen=True, kw_only=True)
class Relink(Event):
    """Images are linked anew in ``project.json``: path and content hash of each, by role."""

    kind = "relink"
    about_query = False
    organisers_only = True
    words = "link images"
    images: Mapping[str, Mapping[str, str]]

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        images = payload.get("images")
        if not isinstance(images, dict) or not images:
            raise InvalidInputError("Linking images anew needs the images.")
        return {
            "images": {
                checked_name(role, "The role of an image"): {key: text(one, key) for key in ("path", "content_hash")}
                for role, one in images.items()
            }
        }

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.images_generation = stamp.generation


@dataclass(frozen=True, kw_only=True)
class Note(Event):
    """A remark for people; with a code, a doubt about a subject that is repeated until it is accepted."""

    kind = "note"
    about_query = False
    text: str = field(default="", metadata=_TEXT)
    subject: str = field(default="", metadata=_TEXT)
    code: str = field(default="", metadata=_TEXT)
    numbers: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def _content(cls, payload: Mapping[str, Any], d: int, checked: dict[str, Any]) -> dict[str, Any]:
        numbers = payload.get("numbers", {})
        if not isinstance(numbers, dict) or len(numbers) > 100 or bool(checked["code"]) != bool(checked["subject"]):
            raise InvalidInputError("A doubt needs what it is about, a code, and numbers by name.")
        return {**checked, "numbers": {str(key): number(one, f"{key} of a note") for key, one in numbers.items()}}

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps; a plain remark has its text alone."""
        return self._fields() if self.code else {"text": self.text}

    def _apply(self, state: State, stamp: Stamp) -> None:
        if self.code:
            state.notes[self.subject, self.code] = NoteRecord(**self._fields(), stamp=stamp)


@dataclass(frozen=True, kw_only=True)
class Accept(Event):
    """An organiser has looked at a doubt and keeps what it is about as it is."""

    kind = "accept"
    about_query = False
    organisers_only = True
    words = "accept a doubt"
    subject: str = field(metadata=_TEXT)
    code: str = field(metadata=_TEXT)

    def _rule(self, state: State) -> None:
        if not self.subject or not self.code:
            raise InvalidInputError("Accepting a doubt needs what it is about and its code.")

    def _apply(self, state: State, stamp: Stamp) -> None:
        state.accepted[self.subject, self.code] = stamp


def _set_cell(state: State, rater: str, query: int, cell: Cell, stamp: Stamp) -> None:
    """Write an answer into the state, with all that follows from it."""
    before = _in_force(state.cell(rater, query))
    after = None if (rater, query) in state.excluded else _in_force(cell)
    if before != after:
        if before is not None:
            state.removed[before] = stamp.generation
        state.removed.pop(after or 0, None)
    location = state.queries[query].location
    _extend_trail(state, rater, query)
    if (rater, query) not in state.cells:
        state.cells_at.setdefault(location, []).append((rater, query))
    state.cells[rater, query] = cell
    state.changed_at[location] = stamp.generation
    state.touched[rater, query] = stamp
    state.deferred.pop((rater, query), None)
    state.model_generation = stamp.generation


def _extend_trail(state: State, rater: str, query: int) -> None:
    """Add a query to a rater's trail before it is answered or put aside, unless it was before."""
    if (rater, query) not in state.cells and (rater, query) not in state.deferred:
        state.trails.setdefault(rater, []).append(query)


def _in_force(cell: Cell) -> int | None:
    """Return the generation of an answer that counts, or None."""
    return None if cell.answer is None or cell.disabled else cell.answer.generation


def _count_batch(state: State, batch: str | None, change: int) -> None:
    if batch is not None:
        state.batches[batch] = state.batches.get(batch, 0) + change


def read_event(entry: Entry | Event, d: int) -> Event:
    """Check an entry of the log, or an event that is to be written, without regard to the state.

    Parameters
    ----------
    entry : Entry or Event
    d : int
        Dimension of the project's points.

    Returns
    -------
    Event
        With plain values only, which can be stored.
    """
    kind = KINDS.get(entry.kind)
    if kind is None:
        raise InvalidInputError(f"An event must be one of {', '.join(KINDS)}, got {entry.kind!r}.")
    rater, query, base = checked_name(entry.rater), entry.query, entry.base_generation
    told: Mapping[str, Any] = entry.payload() if isinstance(entry, Event) else entry.payload
    batch = entry.batch if isinstance(entry, Event) else told.get("batch")
    if kind.about_query is not None and kind.about_query != (query is not None):
        raise InvalidInputError(f"An event {entry.kind!r} {'needs' if query is None else 'has no'} query.")
    if entry.duration is not None and not number(entry.duration, "The duration") >= 0:
        raise InvalidInputError(f"The duration must be seconds, at least 0, got {entry.duration!r}.")
    event = kind.read(
        told,
        d,
        rater=rater,
        query=None if query is None else int(query),
        duration=None if entry.duration is None else float(entry.duration),
        base_generation=None if base is None else int(base),
    )
    if (kind.undoable or kind in (Ask, Seal)) and batch is not None:
        event = replace(event, batch=checked_name(batch, "The name of a batch"))
    stored_text(event)
    return event


def stored_text(event: Event) -> str:
    """Return the payload of an event as the log stores it."""
    payload = event.payload() if event.batch is None else {**event.payload(), "batch": event.batch}
    try:
        stored = canonical(payload)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The payload of an event {event.kind!r} is not plain JSON: {error}.") from error
    if len(stored) > _LARGEST_PAYLOAD:
        raise InvalidInputError(
            f"The payload of an event {event.kind!r} has {len(stored)} characters, more than a million."
        )
    return stored


def authorise(state: State, event: Event) -> None:
    """Raise when the role of the person who acts does not allow the event."""
    role = state.role(event.rater)
    if not event.allowed(role, state):
        words = event.words or event.kind
        if role == REVOKED:
            raise NotAllowedError(f"{event.rater}'s access to this project was revoked, so they may not {words}.")
        article = "an" if role[0] in "aeiou" else "a"
        raise NotAllowedError(f"{event.rater} is {article} {role} of this project and may not {words}.")
    if isinstance(event, Register) and (event.revoked or event.role != ORGANISER):
        organisers = [name for name in state.raters if state.role(name) == ORGANISER]
        if organisers == [event.name]:
            raise NotAllowedError(
                f"{event.name} is the only organiser: register another one first, or nobody could register people."
            )


def check_names(state: State, event: Event) -> None:
    """Check the names that a new event would bring into the project."""
    known = {*state.raters, *state.trails}  # a trail has everybody who ever answered or put something aside
    names = [event.name] if isinstance(event, Register) else []
    names = names if names and not state.raters else [event.rater, *names]
    for name in names:
        if name not in known:
            check_new_name(name, known)
    if isinstance(event, SetTransform) and event.name not in state.transforms:
        check_new_name(event.name, state.transforms, "The name of a transform")


def advance(state: State, event: Event, stamp: Stamp) -> None:
    """Apply one event to the state, in place; raise where it cannot follow, as the log is damaged then."""
    try:
        if stamp.generation != state.generation + 1:
            raise ProjectError(f"generation {state.generation + 1} was expected")
        event.check(state)
        event._apply(state, stamp)
    except (WarpgaugeError, KeyError, TypeError, IndexError) as error:
        raise ProjectError(f"Event {stamp.generation} of the log cannot be applied: {error}") from error
    state.generation = stamp.generation


def replay(entries: Iterable[Entry], d: int, state: State | None = None) -> State:
    """Apply entries of a log to a state (an empty one by default), in place, and return it.

    They are checked as strictly as new events: the log may come from anywhere.
    """
    result = State() if state is None else state
    for entry in entries:
        try:
            event = read_event(entry, d)
        except InvalidInputError as error:
            raise ProjectError(
                f"Event {entry.generation} of the log ({entry.kind!s:.20}) is damaged: {one_line(error)}."
            ) from error
        advance(result, event, entry.stamp)
    return result


def check_sequence(state: State, events: Iterable[Event]) -> None:
    """Check new events in order, each on the state that the previous ones leave; raise at the first that fails."""
    new = list(events)
    after = state if len(new) == 1 else state.copy()
    for event in new:
        authorise(after, event)
        check_names(after, event)
        event.check(after)
        if len(new) > 1:
            stamp = Stamp(event.rater, event.kind, event.query, after.generation + 1, "", event.duration)
            advance(after, replace(event, base_generation=None), stamp)
