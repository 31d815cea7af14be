"""The state of a project: a fold over its log.

`warpgauge.project.events.replay` applies events one after the other to an empty `State`; nothing else ever changes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from warpgauge.project.values import (
    REVOKED,
    AlignmentRecord,
    Answer,
    AuditRound,
    Cell,
    ControlsRecord,
    FitRecord,
    NoteRecord,
    Placement,
    Proposal,
    QueryRecord,
    RaterRecord,
    SealRecord,
    Settled,
    Stamp,
    Step,
    TransformRecord,
    Unsealed,
)

_NOTHING = Cell()
_READ = "_read"  # of a state that was begun: how to read what it lacks


@dataclass
class State:
    """What the log says, as of ``generation``; read it, and leave changing it to `advance`.

    Attributes
    ----------
    generation : int
        Of the last event.
    queries : list of QueryRecord
        The list that all raters share.
    cells : dict
        ``(rater, query)`` to `Cell`; only touched ones are there.
    cells_at, changed_at : dict
        Of each location with answers, the keys of its cells, and the generation of the last event that changed one.
    touched : dict
        ``(rater, query)`` to the stamp of the last event that changed the cell.
    done, undone : dict
        Of each rater, the actions that undo and redo would go over next, last first out.
    last_action : dict
        Of each rater, the stamp of the last event that changed any of their answers.
    trails : dict
        Of each rater, the queries in the order in which they were first answered or put aside.
    deferred : dict
        ``(rater, query)`` to the generation at which it was put aside and not answered since.
    proposals : dict
        ``(rater, query)`` to the better places that were asked for there (`Proposal`), oldest first, taken or not;
        those for places of the rater's own choice are at ``(rater, None)``.
    excluded : dict
        ``(rater, query)`` to the stamp of the event by which the organiser took the mark out.
    resolved : dict
        Location to how the organiser settled it.
    batches : dict
        Name of an import to the number of its actions that are in force.
    raters, transforms : dict
        By name.
    first_added : dict
        Content of a transform (`TransformRecord.content`) to the generation at which it was first added, by any name.
    fits : list of FitRecord
        Learned weights, oldest first.
    fit_marks : dict
        Generation of a fit to the generations of the placements that it rests on; empty for fits to other projects.
    removed : dict
        Generation of an answer that is no longer in force to the generation of the event that took it out.
    withdrawn : dict
        Suggestion that nobody had answered to the stamp of the event that took it from the list.
    starts_skipped : dict
        Rater to the stamp of the event by which the guided start was skipped.
    model_generation : int
        Of the last event that may have changed what the model is conditioned on.
    alignment : AlignmentRecord or None
        The last rough alignment that was proposed, accepted or refused.
    settings : dict
        Settings that were changed since the project was made, by name.
    settings_generation, images_generation : int
        Of the last event that changed settings, and of the last that linked images anew.
    audits : list of AuditRound
        Rounds of audit questions, oldest first.
    controls : ControlsRecord or None
        Points with known matches that are in use.
    seal : SealRecord or None
        How answers of the list are drawn to be sealed, once the first draw was due.
    unsealed : list of Unsealed
        When sealed answers were opened, oldest first.
    notes : dict
        Subject and code to the doubt that was noted there last (`NoteRecord`).
    accepted : dict
        Subject and code to the stamp of the event by which an organiser accepted such a doubt.
    derived : dict
        What others have computed from this state and would not compute again; a copy begins without.
    """

    generation: int = 0
    queries: list[QueryRecord] = field(default_factory=list)
    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)
    cells_at: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    changed_at: dict[int, int] = field(default_factory=dict)
    touched: dict[tuple[str, int], Stamp] = field(default_factory=dict)
    done: dict[str, list[Step]] = field(default_factory=dict)
    undone: dict[str, list[Step]] = field(default_factory=dict)
    last_action: dict[str, Stamp] = field(default_factory=dict)
    trails: dict[str, list[int]] = field(default_factory=dict)
    deferred: dict[tuple[str, int], int] = field(default_factory=dict)
    proposals: dict[tuple[str, int | None], list[Proposal]] = field(default_factory=dict)
    excluded: dict[tuple[str, int], Stamp] = field(default_factory=dict)
    resolved: dict[int, Settled] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    raters: dict[str, RaterRecord] = field(default_factory=dict)
    transforms: dict[str, TransformRecord] = field(default_factory=dict)
    first_added: dict[str, int] = field(default_factory=dict)
    fits: list[FitRecord] = field(default_factory=list)
    fit_marks: dict[int, frozenset[int]] = field(default_factory=dict)
    removed: dict[int, int] = field(default_factory=dict)
    withdrawn: dict[int, Stamp] = field(default_factory=dict)
    starts_skipped: dict[str, Stamp] = field(default_factory=dict)
    model_generation: int = 0
    alignment: AlignmentRecord | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    settings_generation: int = 0
    images_generation: int = 0
    audits: list[AuditRound] = field(default_factory=list)
    controls: ControlsRecord | None = None
    seal: SealRecord | None = None
    unsealed: list[Unsealed] = field(default_factory=list)
    notes: dict[tuple[str, str], NoteRecord] = field(default_factory=dict)
    accepted: dict[tuple[str, str], Stamp] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def begun(cls, values: dict[str, Any], read: Callable[[dict[str, Any], str], None]) -> State:
        """Return a state with some of its fields; ``read`` puts another one among them when it is first asked for."""
        begun = cls.__new__(cls)
        vars(begun).update(values)
        vars(begun)[_READ] = read
        return begun

    if not TYPE_CHECKING:  # which would take every name for a field

        def __getattr__(self, name: str) -> Any:
            """Read a field that was left for later."""
            values = vars(self)
            if _READ not in values or name not in self.__dataclass_fields__:
                raise AttributeError(f"A state has no {name!r}.")
            values[_READ](values, name)
            return values[name]

    def copy(self) -> State:
        """Return an independent copy; the values in it are frozen and shared."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "derived"}
        for name, value in values.items():
            if isinstance(value, dict):
                values[name] = {k: list(v) if isinstance(v, list) else v for k, v in value.items()}
            elif isinstance(value, list):
                values[name] = list(value)
        return State(**values)

    def cell(self, rater: str, query: int) -> Cell:
        """Return what the rater has said to the query."""
        return self.cells.get((rater, query), _NOTHING)

    def answer(self, rater: str, query: int) -> Answer:
        """Placement with its stamp, skip, or None."""
        return self.cell(rater, query).answer

    def placement(self, rater: str, query: int) -> Placement | None:
        """Return where the rater has placed the match, or None."""
        return self.cell(rater, query).placement

    def in_model(self, rater: str, query: int) -> bool:
        """Return whether the rater's mark there is placed, active, not excluded, and not on a control question."""
        cell = self.cell(rater, query)
        used = not cell.disabled and (rater, query) not in self.excluded and not self.is_control(query)
        return cell.placement is not None and used

    def is_control(self, query: int) -> bool:
        """Return whether the match at the query's location is known: answers to it only measure the rater."""
        return self.queries[self.queries[query].location].known is not None

    def is_sealed(self, query: int) -> bool:
        """Return whether answers to the query are sealed: its location was drawn for it, and not opened since.

        Everything that shows, exports, predicts or judges asks this; there is no other seal.
        """
        return self.was_sealed(query) and self.opened_at(query) is None

    def was_sealed(self, query: int) -> bool:
        """Return whether answers at the location of the query were sealed when it was asked, opened since or not."""
        first = self.queries[self.queries[query].location]
        return first.sealed or (first.audit is not None and self.audits[first.audit[0]].sealed)

    def opened_at(self, query: int) -> int | None:
        """Return the generation at which sealed answers were first opened after the location of the query was asked."""
        asked = self.queries[self.queries[query].location].generation
        return next((opened.generation for opened in self.unsealed if opened.generation > asked), None)

    def sealed_locations(self) -> list[int]:
        """Return the locations whose answers are sealed now, answered or not."""
        return [query.number for query in self.queries if query.same_as is None and self.is_sealed(query.number)]

    def is_taken(self, query: int) -> bool:
        """Return whether anybody has answered the query or put it aside."""
        keys = self.cells_at.get(self.queries[query].location, ())
        answered = any(key[1] == query and self.cells[key].answer is not None for key in keys)
        return answered or any(number == query for _, number in self.deferred)

    def rests_on_removed(self, generation: int) -> bool:
        """Return whether an answer that was valid at a generation has been changed or undone since."""
        return any(given < generation < taken for given, taken in self.removed.items())

    def answered(self, rater: str) -> list[int]:
        """Return the queries that the rater placed or skipped, in the order of the list."""
        return sorted(query for query in self.trails.get(rater, ()) if self.answer(rater, query) is not None)

    def who_answered(self) -> list[str]:
        """Names of all who have placed or skipped anything that stands, sorted."""
        return sorted({rater for (rater, _), cell in self.cells.items() if cell.answer is not None})

    def doubts(self, subject: str) -> list[NoteRecord]:
        """Return the noted doubts about a subject that nobody has accepted."""
        return [note for key, note in self.notes.items() if key[0] == subject and key not in self.accepted]

    @property
    def has_raters(self) -> bool:
        """Whether somebody is registered as a rater: until then everybody who answers organises."""
        return any(record.role == "rater" for record in self.raters.values())

    def role(self, name: str) -> str:
        """Role of a person; where nobody is registered everybody organises, else strangers are raters."""
        if name in self.raters:
            return REVOKED if self.raters[name].revoked else self.raters[name].role
        return "rater" if self.raters else "organiser"
