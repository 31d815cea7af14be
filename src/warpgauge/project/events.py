"""The kinds of events: one class for each, with what it holds, who may write it, when it may follow, and what it does.

An event that was written is the record: the state holds events. A new kind is one class here. Stored events are read
by the same checks as new ones are written. The rules hold for writing and for replay alike; those on new names
(`warpgauge.project.names`) for writing only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field

from warpgauge.core.kernels import FAMILIES
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.io.inside import name_problem
from warpgauge.project.errors import ConflictError, NotAllowedError, ProjectError
from warpgauge.project.log import Row
from warpgauge.project.names import check_new_name
from warpgauge.project.settings import Settings
from warpgauge.project.state import State
from warpgauge.project.values import (
    ORGANISER,
    SECRET,
    Cell,
    Design,
    Doubt,
    Flag,
    Matrix,
    Name,
    Number,
    Origin,
    Placement,
    Role,
    SkipReason,
    Step,
    Text,
    Value,
    Vector,
    Whole,
)

KINDS: dict[str, type[Event]] = {}
LARGEST_PAYLOAD = 1_000_000
_LONGEST_TIME = 40
# What has a column of its own in the log; all else is the payload.
_HEADER = ("rater", "query", "duration", "base_generation", "generation", "time")


class Event(Value):
    """An event that is to be written, or that stands in the log.

    A subclass declares its fields, and says in `_check` what it may follow and in `_apply` what it does.
    """

    kind: ClassVar[str] = ""
    about_query: ClassVar[bool | None] = True
    """Whether it names a query; None where it may."""
    organisers_only: ClassVar[bool] = False
    """Whether only organisers may write it; all others are for everybody."""
    words: ClassVar[str] = ""
    """What a person does by it, after "may not"; the name of the kind by default."""

    rater: Name
    """Who acts."""
    query: Whole | None = None
    """Number of the query that it is about."""
    duration: Annotated[float, Field(strict=True, ge=0)] | None = None
    """Seconds that the rater took."""
    base_generation: Whole | None = None
    """Generation of the state that the rater saw; a newer change by the same rater of the same query is a conflict."""
    generation: Whole = 0
    """Counts the events of the log from 1, without gaps; 0 until it is written."""
    time: str = ""
    """When it was written, UTC."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @classmethod
    def named(cls) -> str:
        """Return what a sentence calls it."""
        return f"an event {cls.kind!r}"

    @property
    def at(self) -> int:
        """Number of the query, 0 where there is none."""
        return self.query or 0

    @property
    def _whose(self) -> str:
        """Whose answer it changes."""
        return self.rater

    @property
    def _vectors(self) -> Iterable[Vector]:
        """All that must have as many coordinates as the images."""
        return ()

    def columns(self) -> Row:
        """Return what the log keeps, but for number, time and digest."""
        payload = self.model_dump_json(exclude=set(_HEADER), exclude_defaults=True)
        if len(payload) > LARGEST_PAYLOAD:
            raise InvalidInputError(
                f"The payload of an event {self.kind!r} has {len(payload)} characters, more than a million."
            )
        return self.rater, self.kind, self.query, self.duration, self.base_generation, payload

    def _allowed(self, role: str, state: State) -> bool:
        """Return whether somebody of this role may write it."""
        return role == ORGANISER or not self.organisers_only

    def _check(self, state: State) -> None:
        """Raise when it may not follow this state."""
        if self.query is not None and self.query >= len(state.queries):
            raise InvalidInputError(f"There is no query {self.query}; the list has {len(state.queries)}, from 0 on.")
        newer = None if self.base_generation is None else self._newest(state)
        if newer is not None and newer.generation > (self.base_generation or 0):
            # Without the number of the query, which raters know by another one.
            raise ConflictError(
                f"{newer.rater} changed this answer at {newer.time} (generation {newer.generation}, "
                f"{newer.kind}), after generation {self.base_generation} on which this {self.kind} was based; look at "
                f"it and decide again.",
                newer,
            )

    def _newest(self, state: State) -> Event | None:
        """Return the last event that changed what this one is about."""
        return None if self.query is None else state.touched.get((self._whose, self.query))

    def _apply(self, state: State) -> None:
        """Change the state, in place; only `apply` calls this."""


class Ask(Event):
    """A location enters the list."""

    kind = "query"
    words = "ask again"

    point: Vector
    """In the fixed image's world."""
    origin: Annotated[Origin, Field(json_schema_extra=SECRET)]
    """Chosen by the model; a location asked a second time to measure the error within raters; asked again by the
    organiser; brought along by an import; chosen by the rater; drawn at random for an audit; or a control question."""
    candidate: Whole | None = None
    """Which candidate it is; None for a location from elsewhere."""
    same_as: Annotated[Whole | None, Field(json_schema_extra=SECRET)] = None
    """The query that a repeat or a further asking repeats."""
    for_rater: Name | None = None
    """Only this rater is asked; None for all."""
    gain: Number | None = None
    """Expected gain when it was chosen, in nats."""
    name: Text = ""
    """Of a given location."""
    batch: Name | None = None
    """The import that brought it along."""
    audit: Annotated[tuple[Whole, Whole] | None, Field(json_schema_extra=SECRET)] = None
    """Round and place in it of an audit question."""
    known: Annotated[Vector | None, Field(json_schema_extra=SECRET)] = None
    """The known match of a control question."""

    @property
    def number(self) -> int:
        """Place in the shared list, from 0."""
        return self.at

    @property
    def location(self) -> int:
        """Number of the first query at this location."""
        return self.at if self.same_as is None else self.same_as

    @property
    def _vectors(self) -> Iterable[Vector]:
        return (self.point,) if self.known is None else (self.point, self.known)

    def asks(self, rater: str) -> bool:
        """Return whether this rater is asked."""
        return self.for_rater is None or self.for_rater == rater

    def _allowed(self, role: str, state: State) -> bool:
        return super()._allowed(role, state) and (role == ORGANISER or self.origin != "again")

    def _check(self, state: State) -> None:
        if self.query != len(state.queries):
            raise InvalidInputError(f"The next query has the number {len(state.queries)}, not {self.query}.")
        if (self.audit is None) != (self.origin != "audit"):
            raise InvalidInputError("A query of the origin audit, and no other, names its round and its place in it.")
        if (self.known is None) != (self.origin != "control"):
            raise InvalidInputError("A query of the origin control, and no other, names its known match.")
        first = self.same_as
        if first is not None and (first >= self.query or state.queries[first].same_as is not None):
            raise InvalidInputError(f"Query {self.query} cannot repeat query {first}: that is not a first query.")
        if self.audit is not None:
            self._check_audit(state, *self.audit)
        if self.known is not None and (state.controls is None or (self.point, self.known) not in state.controls.pairs):
            raise InvalidInputError(f"Query {self.query} is not one of the control questions of the project.")

    def _check_audit(self, state: State, number: int, place: int) -> None:
        """Questions of a round are asked in the order drawn, each once, at the point drawn, of all raters."""
        if number >= len(state.audits):
            raise InvalidInputError(f"There is no round {number} of the audit; there are {len(state.audits)}.")
        drawn = state.audits[number]
        asked = state.asked_in.get(number, 0)
        if place != asked or place >= len(drawn.targets) or self.point != drawn.points[place]:
            raise InvalidInputError(f"Query {self.query} is not question {asked} of round {number} of the audit.")
        if self.for_rater is not None or self.same_as is not None:
            raise InvalidInputError("An audit question is a new location that all raters are asked.")

    def _apply(self, state: State) -> None:
        state.queries.append(self)
        if self.audit is not None:
            state.asked_in[self.audit[0]] = self.audit[1] + 1


class Action(Event):
    """An action of a rater on an answer of their own, which undo and redo go over."""

    needs: ClassVar[tuple[str, ...]] = ()
    """The states of the answer that allow it."""
    batch: Name | None = None
    """The import that it belongs to."""

    def _check(self, state: State) -> None:
        super()._check(state)
        if not state.queries[self.at].asks(self.rater):
            only = state.queries[self.at].for_rater
            raise InvalidInputError(f"Query {self.query} is for {only} only, not for {self.rater}.")
        answer = state.answer(self.rater, self.at)
        has = "not answered" if answer is None else {"place": "placed", "skip": "skipped"}[answer.kind]
        if has not in self.needs:
            raise InvalidInputError(
                f"{self.rater} cannot {self.kind} this query, which is {has}; it would have to be "
                f"{' or '.join(self.needs)}."
            )

    def _after(self, before: Cell) -> Cell:
        """Return what the action makes of a cell."""
        return Cell()

    def _apply(self, state: State) -> None:
        before = state.cell(self.rater, self.at)
        after = self._after(before)
        state.done.setdefault(self.rater, []).append(Step(self.generation, self.at, before, after, self.batch))
        state.count_batch(self.batch, 1)
        state.undone[self.rater] = []
        state.last_action[self.rater] = self
        state.set_cell(self.rater, self.at, after, self)


class Place(Action):
    """A match is placed, or moved; one that was switched off stays so."""

    kind = "place"
    needs = ("not answered", "skipped", "placed")

    placement: Placement
    doubt: Annotated[Doubt | None, Field(json_schema_extra=SECRET)] = None
    """Why it was asked about before it was saved, if it was."""

    @property
    def _vectors(self) -> Iterable[Vector]:
        return self.placement.vectors

    def _after(self, before: Cell) -> Cell:
        if before.placement is None:
            return Cell(self, batch=self.batch)
        return Cell(self, before.disabled, before.batch)


class Skip(Action):
    """A query is declined."""

    kind = "skip"
    needs = ("not answered", "placed")

    reason: SkipReason
    text: Text = ""

    def _after(self, before: Cell) -> Cell:
        return Cell(self)


class Restore(Action):
    """A skip is taken back: the query is open again."""

    kind = "restore"
    needs = ("skipped",)


class Disable(Action):
    """A placement is taken out of the model by its rater, without being lost, or taken in again."""

    kind = "disable"
    needs = ("placed",)

    disabled: Flag = True
    text: Text = ""

    def _check(self, state: State) -> None:
        super()._check(state)
        if state.cell(self.rater, self.at).disabled == self.disabled:
            raise InvalidInputError(
                f"This placement of {self.rater} is {'disabled' if self.disabled else 'enabled'} already."
            )

    def _after(self, before: Cell) -> Cell:
        return Cell(before.answer, self.disabled, before.batch)


class Defer(Event):
    """A query is put aside."""

    kind = "defer"

    def _check(self, state: State) -> None:
        super()._check(state)
        if not state.queries[self.at].asks(self.rater) or state.answer(self.rater, self.at) is not None:
            raise InvalidInputError(f"{self.rater} cannot put this query aside: it is answered, or for somebody else.")

    def _apply(self, state: State) -> None:
        state.extend_trail(self.rater, self.at)
        state.deferred[self.rater, self.at] = self.generation


class Undo(Event):
    """The rater's last action is taken back; ``target`` is its generation."""

    kind = "undo"
    about_query = False
    back: ClassVar[bool] = True
    """Whether it takes an action back, or does it again."""

    target: Whole

    def _newest(self, state: State) -> Event | None:
        return state.last_action.get(self.rater)

    @classmethod
    def steps(cls, state: State, rater: str) -> list[Step]:
        """Return the actions of a rater that it goes over, the next one last."""
        return (state.done if cls.back else state.undone).get(rater, [])

    def _check(self, state: State) -> None:
        super()._check(state)
        steps = self.steps(state, self.rater)
        if not steps:
            raise InvalidInputError(f"{self.rater} has nothing to {self.kind}.")
        if self.target != steps[-1].generation:
            raise InvalidInputError(
                f"The next action to {self.kind} is not the one of generation {self.target}; look again."
            )

    def _apply(self, state: State) -> None:
        taken, given = state.done, state.undone
        if not self.back:
            taken, given = given, taken
        step = taken[self.rater].pop()
        given.setdefault(self.rater, []).append(step)
        state.count_batch(step.batch, -1 if self.back else 1)
        state.last_action[self.rater] = self
        state.set_cell(self.rater, step.query, step.before if self.back else step.after, self)


class Redo(Undo):
    """What was undone last is done again."""

    kind = "redo"
    back = False


class Exclude(Event):
    """The organiser takes a rater's mark out of the model, or puts it back; ``of`` says whose."""

    kind = "exclude"
    organisers_only = True

    of: Name
    excluded: Flag = True
    text: Text = ""

    @property
    def _whose(self) -> str:
        return self.of

    def _check(self, state: State) -> None:
        super()._check(state)
        is_out = (self.of, self.at) in state.excluded
        if not self.excluded and not is_out:
            raise InvalidInputError(f"The mark of {self.of} at query {self.at} is not excluded.")
        if self.excluded and (is_out or state.placement(self.of, self.at) is None):
            raise InvalidInputError(
                f"{self.of} has no mark at query {self.at} that could be excluded"
                f"{': it is excluded already' if is_out else ''}."
            )

    def _apply(self, state: State) -> None:
        if self.excluded:
            state.excluded[self.of, self.at] = self
        else:
            del state.excluded[self.of, self.at]
        state.changed_at[state.queries[self.at].location] = self.generation
        state.model_generation = self.generation


class Resolve(Event):
    """The organiser settles a location as it stands."""

    kind = "resolve"
    organisers_only = True

    text: Text = ""

    def _apply(self, state: State) -> None:
        state.resolved[state.queries[self.at].location] = self


class Register(Event):
    """A person is registered, or their role is changed."""

    kind = "rater"
    about_query = False
    organisers_only = True
    words = "register people"

    name: Name
    role: Role

    def _check(self, state: State) -> None:
        organisers = [name for name in state.raters if state.role(name) == ORGANISER]
        if organisers == [self.name] and self.role != ORGANISER:
            raise NotAllowedError(
                f"{self.name} is the only organiser: register another one first, or nobody could register people."
            )

    def _apply(self, state: State) -> None:
        state.raters[self.name] = self


class SkipStart(Event):
    """A rater skips the guided start."""

    kind = "start"
    about_query = False

    def _apply(self, state: State) -> None:
        state.starts_skipped[self.rater] = self


class Align(Event):
    """A rough alignment is proposed (``accepted`` is None), or answered."""

    kind = "align"
    about_query = False

    accepted: Flag | None = None
    matrix: Matrix
    offset: Vector
    score: Number
    rival: Number
    method: Text

    @property
    def _vectors(self) -> Iterable[Vector]:
        return (*self.matrix, self.offset)

    @property
    def status(self) -> str:
        """One of proposed, accepted and refused."""
        return {None: "proposed", True: "accepted", False: "refused"}[self.accepted]

    def _check(self, state: State) -> None:
        d = state.d
        if len(self.matrix) != d or not abs(float(np.linalg.det(np.array(self.matrix)))) > 0:
            raise InvalidInputError(f"The matrix of an alignment must be an invertible {d} x {d} matrix.")

    def _apply(self, state: State) -> None:
        state.alignment = self
        state.model_generation = self.generation


def _checked_family(name: str) -> str:
    if name not in FAMILIES:
        raise ValueError(f"there is no kernel family {name[:40]!r}")
    return name


_Positive = Annotated[float, Field(strict=True, gt=0)]
_Deviation = Annotated[float, Field(strict=True, ge=0)]
_Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class Fit(Event):
    """Learned weights: kernel and extra noise variance, in world units, and where they came from."""

    kind = "fit"
    about_query = False

    family: Annotated[str, AfterValidator(_checked_family)]
    scales: Annotated[tuple[_Positive, ...], Field(min_length=1)]
    weights: tuple[_Positive, ...]
    noise: _Deviation
    own: tuple[_Share, ...] = ()
    """Share of each weight that regions have to themselves; empty in projects without regions."""
    linear_sd: _Deviation | None = None
    translation_sd: _Deviation | None = None
    report: Mapping[str, Any] | None = None
    annotations: Whole = 0
    """Number of annotations that they were learned from."""
    rests_on: tuple[Whole, ...] = ()
    """Generations of the placements that they were learned from; empty for weights learned elsewhere, which are not
    refitted automatically."""
    replaces: Whole | None = None
    """Generation of the fit before; another one in its place means that somebody has refitted meanwhile."""

    def _check(self, state: State) -> None:
        if len(self.weights) != len(self.scales) or len(self.own) not in (0, len(self.scales)):
            raise InvalidInputError("A fit needs one positive weight for each scale, and as many shares or none.")
        last = state.fits[-1] if state.fits else None
        if self.replaces is not None and last is not None and last.generation != self.replaces:
            late = f"The weights were fitted anew at generation {last.generation}; this fit is late."
            raise ConflictError(late, last)

    def _apply(self, state: State) -> None:
        state.fits.append(self)


def _checked_file(name: str) -> str:
    if not name.startswith("transforms/") or name_problem(name) is not None:
        raise ValueError(f"{name[:80]!r} does not lie in the folder 'transforms'")
    return name


class SetTransform(Event):
    """A registration result is added, or, without files, removed; files are relative to the project's folder.

    A reference never saw an annotation: it belongs to the panel that methods are judged beside.
    """

    kind = "transform"
    about_query = False

    name: Name
    files: Annotated[tuple[Annotated[str, AfterValidator(_checked_file)], ...], Field(max_length=1000)] = ()
    hashes: tuple[str, ...] = ()
    options: Mapping[str, Any] = Field(default_factory=dict)
    reference: Flag = False

    @property
    def content(self) -> str:
        """What the transform is, whatever its name: the hashes of its files, and how they are read."""
        return json.dumps({"hashes": self.hashes, "options": dict(self.options)}, sort_keys=True)

    def _allowed(self, role: str, state: State) -> bool:
        known = state.transforms.get(self.name)
        touched = self.reference or (known is not None and known.reference)
        return super()._allowed(role, state) and (role == ORGANISER or not touched)

    def _check(self, state: State) -> None:
        if len(self.files) != len(self.hashes):
            raise InvalidInputError("A transform needs a hash for each of its files.")
        try:
            json.dumps(dict(self.options), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"The options of a transform are not plain JSON: {one_line(error)}.") from error
        if not self.files and self.name not in state.transforms:
            raise InvalidInputError(f"There is no transform {self.name!r} to remove.")

    def _apply(self, state: State) -> None:
        if not self.files:
            del state.transforms[self.name]
            return
        state.transforms[self.name] = self
        state.first_added.setdefault(self.content, self.generation)


class ChangeSettings(Event):
    """Settings are changed, for all who use the project."""

    kind = "settings"
    about_query = False
    organisers_only = True
    words = "change the settings"

    changes: Annotated[Mapping[str, Any], Field(min_length=1)]

    def _check(self, state: State) -> None:
        Settings.from_dict(self.changes)

    def _apply(self, state: State) -> None:
        state.settings.update(self.changes)


class DrawAudit(Event):
    """A round of an audit: targets drawn at random, in the order in which they are asked."""

    kind = "audit"
    about_query = False

    number: Whole
    design: Design
    """Whether all targets were equally likely, or those at which transforms disagree more so."""
    sealed: Flag
    """Whether the answers are kept from exports, maps and predictions until they are unsealed."""
    population: Whole
    drawn_before: Whole
    """Number of targets, and how many of them earlier rounds had asked; these could not be drawn again."""
    seed: Whole
    targets: Annotated[tuple[Whole, ...], Field(min_length=1)]
    points: tuple[Vector, ...]
    candidates: tuple[Whole | None, ...]
    """Where each is asked (fixed world), and which candidate that is; None for the target itself."""
    probabilities: tuple[Annotated[float, Field(strict=True, gt=0, le=1 + 1e-9)], ...]
    """Of each draw, among the targets that were left."""
    transforms: Mapping[Name, Whole] = Field(default_factory=dict)
    """Transforms that the design knew, by name, with the generation at which each was added."""

    @property
    def _vectors(self) -> Iterable[Vector]:
        return self.points

    def _check(self, state: State) -> None:
        if self.number != len(state.audits):
            raise InvalidInputError(f"The next round of the audit is {len(state.audits)}, not {self.number}.")
        if {len(self.points), len(self.candidates), len(self.probabilities)} != {len(self.targets)}:
            raise InvalidInputError("A round of an audit needs a point, a candidate and a probability for each target.")
        if len(set(self.targets)) < len(self.targets) or max(self.targets) >= self.population:
            raise InvalidInputError("A round of an audit draws each target at most once, from those that there are.")
        if self.drawn_before >= self.population:
            raise InvalidInputError("A round of an audit draws from targets that are left.")

    def _apply(self, state: State) -> None:
        state.audits.append(self)


class AddControls(Event):
    """Pairs with known matches are mixed into the questions from now on, each once; all that there are."""

    kind = "controls"
    about_query = False
    organisers_only = True
    words = "add control questions"

    fixed: Annotated[tuple[Vector, ...], Field(min_length=1)]
    moving: tuple[Vector, ...]

    @property
    def pairs(self) -> list[tuple[Vector, Vector]]:
        """Each point with its match."""
        return list(zip(self.fixed, self.moving, strict=True))

    @property
    def _vectors(self) -> Iterable[Vector]:
        return (*self.fixed, *self.moving)

    def _check(self, state: State) -> None:
        if len(self.fixed) != len(self.moving):
            raise InvalidInputError("Controls are pairs of a fixed and a moving point.")

    def _apply(self, state: State) -> None:
        state.controls = self


class Unseal(Event):
    """The answers of the audit are opened; with the digest of a certificate where one was written."""

    kind = "unseal"
    about_query = False
    organisers_only = True
    words = "open sealed answers"

    certificate: Text = ""

    def _check(self, state: State) -> None:
        if not state.sealed_locations():
            raise InvalidInputError("No answer is sealed, so there is nothing to unseal.")

    def _apply(self, state: State) -> None:
        state.unsealed.append(self)
        state.model_generation = self.generation


class LinkedImage(Value):
    """Where an image is now, and what it holds."""

    path: Text
    content_hash: Text


class Relink(Event):
    """Images are linked anew in ``project.json``, by role."""

    kind = "relink"
    about_query = False
    organisers_only = True
    words = "link images"

    images: Annotated[Mapping[Name, LinkedImage], Field(min_length=1)]

    def _apply(self, state: State) -> None:
        state.images_generation = self.generation


def read_event(row: Row) -> Event:
    """Read a row of the log; raise where it is not an event."""
    generation, time, rater, kind, query, duration, base, payload = row[:8]
    known = KINDS.get(kind)
    if known is None:
        raise InvalidInputError(f"An event must be one of {', '.join(KINDS)}, got {str(kind)[:40]!r}.")
    moment_of(time, generation)
    try:
        told = json.loads(payload) if len(payload) <= LARGEST_PAYLOAD else None
    except (ValueError, TypeError, RecursionError):
        told = None
    if not isinstance(told, dict) or set(told) & set(_HEADER):
        raise InvalidInputError(f"Event {generation!s:.20} of the log cannot be read: its content is damaged.")
    header = {"rater": rater, "query": query, "duration": duration, "base_generation": base}
    return known(**told, **header, generation=generation, time=time)


def read_events(rows: Iterable[Row]) -> Iterator[Event]:
    """Read rows of the log; raise at the first that is not an event, as the log is damaged then."""
    for row in rows:
        try:
            yield read_event(row)
        except InvalidInputError as error:
            what = f"Event {row[0]!s:.20} of the log ({row[3]!s:.20})"
            raise ProjectError(f"{what} is damaged: {one_line(error)}.") from error


def moment_of(time: object, generation: object) -> datetime:
    """Return the time of an event; raise where it is not a valid time, as the log is damaged then."""
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) and len(time) <= _LONGEST_TIME else None
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise ProjectError(
            f"Event {generation!s:.20} of the log is damaged: its time is {time!r:.60}, but a date and time with its "
            f"time zone is expected, such as 2026-05-14T09:30:00Z."
        )
    return moment


def authorise(state: State, event: Event) -> None:
    """Raise when the role of the person who acts does not allow the event."""
    role = state.role(event.rater)
    if not event._allowed(role, state):
        words = event.words or event.kind
        article = "an" if role[0] in "aeiou" else "a"
        raise NotAllowedError(f"{event.rater} is {article} {role} of this project and may not {words}.")


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


def check(state: State, event: Event) -> None:
    """Raise when an event may not follow this state: its form, who acts, and its own rule."""
    if event.about_query is not None and event.about_query != (event.query is not None):
        raise InvalidInputError(f"An event {event.kind!r} {'needs' if event.query is None else 'has no'} query.")
    for vector in event._vectors:
        if len(vector) != state.d:
            raise InvalidInputError(
                f"An event {event.kind!r} has a point or a row of {len(vector)} numbers; this project has {state.d}."
            )
    authorise(state, event)
    event._check(state)


def apply(state: State, event: Event) -> None:
    """Change the state, in place, by an event that was checked."""
    event._apply(state)
    state.generation = event.generation


def replay(events: Iterable[Event], d: int, state: State | None = None) -> State:
    """Apply events of a log to a state (an empty one by default), in place, and return it.

    They are checked as strictly as new events: the log may come from anywhere.
    """
    result = State() if state is None else state
    result.d = d
    for event in events:
        try:
            if event.generation != result.generation + 1:
                raise ProjectError(f"generation {result.generation + 1} was expected")
            check(result, event)
            apply(result, event)
        except (WarpgaugeError, KeyError, TypeError, IndexError) as error:
            raise ProjectError(f"Event {event.generation} of the log cannot be applied: {error}") from error
    return result


def check_sequence(state: State, events: Sequence[Event]) -> None:
    """Check new events in order, each on the state that the previous ones leave; raise at the first that fails."""
    after = state if len(events) == 1 else state.copy()
    for event in events:
        check(after, event)
        check_names(after, event)
        if len(events) > 1:
            apply(after, event.model_copy(update={"generation": after.generation + 1}))
