"""The state of a project: a fold over its log, which holds the events by what they are about.

`warpgauge.project.events.replay` applies events one after the other to an empty `State`; nothing else ever changes one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from warpgauge.project.values import Cell, Placement, Step

if TYPE_CHECKING:
    from warpgauge.project.events import (
        AddControls,
        Align,
        Ask,
        DrawAudit,
        Event,
        Exclude,
        Fit,
        Place,
        Register,
        Resolve,
        SetTransform,
        Skip,
        SkipStart,
        Unseal,
    )

_NOTHING = Cell()


@dataclass
class State:
    """What the log says, as of ``generation``; read it, and leave changing it to `apply`."""

    d: int = 2
    """Dimension of the project."""
    generation: int = 0
    queries: list[Ask] = field(default_factory=list)
    """The list that all raters share."""
    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)
    """``(rater, query)`` to what was said; only touched ones are there."""
    cells_at: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    """Of each location with answers, the keys of its cells."""
    changed_at: dict[int, int] = field(default_factory=dict)
    """Of each location with answers, the generation of the last event that changed one."""
    touched: dict[tuple[str, int], Event] = field(default_factory=dict)
    """``(rater, query)`` to the last event that changed the cell."""
    done: dict[str, list[Step]] = field(default_factory=dict)
    """Of each rater, the actions that undo would go over next, last first out."""
    undone: dict[str, list[Step]] = field(default_factory=dict)
    """Of each rater, the actions that redo would go over next, last first out."""
    last_action: dict[str, Event] = field(default_factory=dict)
    """Of each rater, the last event that changed any of their answers."""
    trails: dict[str, list[int]] = field(default_factory=dict)
    """Of each rater, the queries in the order in which they were first answered or put aside."""
    deferred: dict[tuple[str, int], int] = field(default_factory=dict)
    """``(rater, query)`` to the generation at which it was put aside and not answered since."""
    excluded: dict[tuple[str, int], Exclude] = field(default_factory=dict)
    """``(rater, query)`` of the marks that the organiser took out."""
    resolved: dict[int, Resolve] = field(default_factory=dict)
    """Location to how the organiser settled it."""
    batches: dict[str, int] = field(default_factory=dict)
    """Name of an import to the number of its actions that are in force."""
    raters: dict[str, Register] = field(default_factory=dict)
    transforms: dict[str, SetTransform] = field(default_factory=dict)
    first_added: dict[str, int] = field(default_factory=dict)
    """Content of a transform to the generation at which it was first added, by any name."""
    fits: list[Fit] = field(default_factory=list)
    """Learned weights, oldest first."""
    starts_skipped: dict[str, SkipStart] = field(default_factory=dict)
    model_generation: int = 0
    """Of the last event that may have changed what the model is conditioned on."""
    alignment: Align | None = None
    """The last rough alignment that was proposed, accepted or refused."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that were changed since the project was made, by name."""
    images_generation: int = 0
    """Of the last event that linked images anew."""
    audits: list[DrawAudit] = field(default_factory=list)
    """Rounds of audit questions, oldest first."""
    asked_in: dict[int, int] = field(default_factory=dict)
    """Round of the audit to the number of its questions that are in the list."""
    controls: AddControls | None = None
    """Points with known matches that are in use."""
    unsealed: list[Unseal] = field(default_factory=list)
    """When sealed answers were opened, oldest first."""
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What others have computed from this state and would not compute again; a copy begins without."""

    def copy(self) -> State:
        """Return an independent copy; the values in it are frozen and shared."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "derived"}
        for name, value in values.items():
            if isinstance(value, dict):
                values[name] = {k: list(v) if isinstance(v, list) else v for k, v in value.items()}
            elif isinstance(value, list):
                values[name] = list(value)
        return State(**values)

    # What events change, with all that follows from it.

    def set_cell(self, rater: str, query: int, cell: Cell, event: Event) -> None:
        """Write an answer."""
        location = self.queries[query].location
        self.extend_trail(rater, query)
        if (rater, query) not in self.cells:
            self.cells_at.setdefault(location, []).append((rater, query))
        self.cells[rater, query] = cell
        self.changed_at[location] = event.generation
        self.touched[rater, query] = event
        self.deferred.pop((rater, query), None)
        self.model_generation = event.generation

    def extend_trail(self, rater: str, query: int) -> None:
        """Add a query to a rater's trail before it is answered or put aside, unless it was before."""
        if (rater, query) not in self.cells and (rater, query) not in self.deferred:
            self.trails.setdefault(rater, []).append(query)

    def count_batch(self, batch: str | None, change: int) -> None:
        """Count the actions of an import that are in force."""
        if batch is not None:
            self.batches[batch] = self.batches.get(batch, 0) + change

    # What it says.

    def cell(self, rater: str, query: int) -> Cell:
        """Return what the rater has said to the query."""
        return self.cells.get((rater, query), _NOTHING)

    def answer(self, rater: str, query: int) -> Place | Skip | None:
        """Return the event by which the rater answered, or None."""
        return self.cell(rater, query).answer

    def placement(self, rater: str, query: int) -> Placement | None:
        """Return where the rater has placed the match, or None."""
        return self.cell(rater, query).placement

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
        drawn = self.queries[self.queries[query].location].audit
        return drawn is not None and self.audits[drawn[0]].sealed

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

    def answered(self, rater: str) -> list[int]:
        """Return the queries that the rater placed or skipped, in the order of the list."""
        return sorted(query for query in self.trails.get(rater, ()) if self.answer(rater, query) is not None)

    def who_answered(self) -> list[str]:
        """Names of all who have placed or skipped anything that stands, sorted."""
        return sorted({rater for (rater, _), cell in self.cells.items() if cell.answer is not None})

    @property
    def has_raters(self) -> bool:
        """Whether somebody is registered as a rater: until then everybody who answers organises."""
        return any(person.role == "rater" for person in self.raters.values())

    def role(self, name: str) -> str:
        """Role of a person; where nobody is registered everybody organises, else strangers are raters."""
        if name in self.raters:
            return self.raters[name].role
        return "rater" if self.raters else "organiser"
