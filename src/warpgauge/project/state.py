"""The state of a project: a fold over its log.

`replay` applies events one after the other to an empty `State`; nothing else ever changes one. Whether an event may
follow a state is decided by `rules.check`, which serves both those who write and those who replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field

from warpgauge.errors import WarpgaugeError
from warpgauge.project.errors import ProjectError
from warpgauge.project.events import Event
from warpgauge.project.records import (
    Answer,
    Cell,
    Placement,
    QueryRecord,
    RaterRecord,
    Skipped,
    Step,
    TransformRecord,
    placement_of,
)
from warpgauge.project.rules import check

_NOTHING = Cell()


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
    touched : dict
        ``(rater, query)`` to the last event that changed the cell.
    done, undone : dict
        Of each rater, the actions that undo and redo would go over next, last first out.
    last_action : dict
        Of each rater, the last event that changed any of their answers.
    trails : dict
        Of each rater, the queries in the order in which they were first answered or put aside.
    deferred : dict
        ``(rater, query)`` to the generation at which it was put aside and not answered since.
    excluded : dict
        ``(rater, query)`` to the event by which the organiser took the mark out.
    resolved : dict
        Location to the event by which the organiser settled it.
    batches : dict
        Name of an import to the number of its actions that are in force.
    raters, transforms : dict
        By name.
    fits : list of Event
        Learned weights, oldest first.
    fit_marks : dict
        Generation of a fit to the generations of the placements that it rests on; empty for fits to other projects.
    removed : dict
        Generation of an answer that is no longer in force to the generation of the event that took it out.
    withdrawn : dict
        Suggestion that nobody had answered to the event that took it from the list.
    starts_skipped : dict
        Rater to the event by which the guided start was skipped.
    model_generation : int
        Of the last event that may have changed what the model is conditioned on.
    alignment : Event or None
        The last rough alignment that was proposed, accepted or refused.
    """

    generation: int = 0
    queries: list[QueryRecord] = field(default_factory=list)
    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)
    touched: dict[tuple[str, int], Event] = field(default_factory=dict)
    done: dict[str, list[Step]] = field(default_factory=dict)
    undone: dict[str, list[Step]] = field(default_factory=dict)
    last_action: dict[str, Event] = field(default_factory=dict)
    trails: dict[str, list[int]] = field(default_factory=dict)
    deferred: dict[tuple[str, int], int] = field(default_factory=dict)
    excluded: dict[tuple[str, int], Event] = field(default_factory=dict)
    resolved: dict[int, Event] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    raters: dict[str, RaterRecord] = field(default_factory=dict)
    transforms: dict[str, TransformRecord] = field(default_factory=dict)
    fits: list[Event] = field(default_factory=list)
    fit_marks: dict[int, frozenset[int]] = field(default_factory=dict)
    removed: dict[int, int] = field(default_factory=dict)
    withdrawn: dict[int, Event] = field(default_factory=dict)
    starts_skipped: dict[str, Event] = field(default_factory=dict)
    model_generation: int = 0
    alignment: Event | None = None

    def copy(self) -> State:
        """Return an independent copy; the values in it are frozen and shared."""
        fresh = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(fresh, name, {k: list(v) if isinstance(v, list) else v for k, v in value.items()})
            elif isinstance(value, list):
                setattr(fresh, name, list(value))
        return fresh

    def cell(self, rater: str, query: int) -> Cell:
        """Return what the rater has said to the query."""
        return self.cells.get((rater, query), _NOTHING)

    def answer(self, rater: str, query: int) -> Answer:
        """Placement, skip, or None."""
        return self.cell(rater, query).answer

    def in_model(self, rater: str, query: int) -> bool:
        """Whether the rater's mark there is placed, not disabled and not excluded."""
        cell = self.cell(rater, query)
        return isinstance(cell.answer, Placement) and not cell.disabled and (rater, query) not in self.excluded

    def is_taken(self, query: int) -> bool:
        """Whether anybody has answered the query or put it aside."""
        answered = any(number == query and cell.answer is not None for (_, number), cell in self.cells.items())
        return answered or any(number == query for _, number in self.deferred)

    def rests_on_removed(self, generation: int) -> bool:
        """Whether an answer that was in force at a generation has been changed or taken back since."""
        return any(given < generation < taken for given, taken in self.removed.items())

    def answered(self, rater: str) -> list[int]:
        """Return the queries that the rater placed or skipped, in the order of the list."""
        return sorted(query for (who, query), cell in self.cells.items() if who == rater and cell.answer is not None)

    def who_answered(self) -> list[str]:
        """Names of all who have placed or skipped anything that stands, sorted."""
        return sorted({rater for (rater, _), cell in self.cells.items() if cell.answer is not None})

    def role(self, name: str) -> str:
        """Role of a person; where nobody is registered everybody organises, else strangers are raters."""
        if name in self.raters:
            return "viewer" if self.raters[name].revoked else self.raters[name].role
        return "rater" if self.raters else "organiser"


def replay(events: Iterable[Event], state: State | None = None) -> State:
    """Apply events to a state (an empty one by default), in place, and give it."""
    result = State() if state is None else state
    for event in events:
        advance(result, event)
    return result


def advance(state: State, event: Event) -> None:
    """Apply one event to the state, in place; an event that cannot follow it says that the log is damaged."""
    try:
        if event.generation != state.generation + 1:
            raise ProjectError(f"generation {state.generation + 1} was expected")
        check(state, event)
        _APPLY.get(event.kind, _act)(state, event)
    except (WarpgaugeError, KeyError, TypeError, IndexError) as error:
        raise ProjectError(f"Event {event.generation} of the log cannot be applied: {error}") from error
    state.generation = event.generation


def _act(state: State, event: Event) -> None:
    """Apply an action on an answer."""
    rater, query = event.rater, event.query or 0
    before = state.cell(rater, query)
    after = _after(before, event)
    state.done.setdefault(rater, []).append(Step(event.generation, query, before, after, event.payload.get("batch")))
    _count_batch(state, event.payload.get("batch"), 1)
    state.undone[rater] = []
    state.last_action[rater] = event
    _set_cell(state, rater, query, after, event)


def _after(before: Cell, event: Event) -> Cell:
    """Return what an action makes of a cell."""
    if event.kind in ("place", "edit"):
        return Cell(placement_of(event), before.disabled and event.kind == "edit")
    if event.kind == "skip":
        p = event.payload
        return Cell(Skipped(p["reason"], p["text"], event.generation, event.time, event.duration))
    if event.kind == "restore":
        return Cell()
    return Cell(before.answer, event.kind == "disable")


def _set_cell(state: State, rater: str, query: int, cell: Cell, event: Event) -> None:
    before = _in_force(state.cell(rater, query))
    after = None if (rater, query) in state.excluded else _in_force(cell)
    if before != after:
        if before is not None:
            state.removed[before] = event.generation
        state.removed.pop(after or 0, None)
    state.cells[rater, query] = cell
    state.touched[rater, query] = event
    state.deferred.pop((rater, query), None)
    trail = state.trails.setdefault(rater, [])
    if query not in trail:
        trail.append(query)
    state.model_generation = event.generation


def _in_force(cell: Cell) -> int | None:
    """Return the generation of an answer that counts, or None."""
    return None if cell.answer is None or cell.disabled else cell.answer.generation


def _undo(state: State, event: Event) -> None:
    step = state.done[event.rater].pop()
    state.undone.setdefault(event.rater, []).append(step)
    state.last_action[event.rater] = event
    _count_batch(state, step.batch, -1)
    _set_cell(state, event.rater, step.query, step.before, event)


def _redo(state: State, event: Event) -> None:
    step = state.undone[event.rater].pop()
    state.done.setdefault(event.rater, []).append(step)
    state.last_action[event.rater] = event
    _count_batch(state, step.batch, 1)
    _set_cell(state, event.rater, step.query, step.after, event)


def _count_batch(state: State, batch: str | None, change: int) -> None:
    if batch is not None:
        state.batches[batch] = state.batches.get(batch, 0) + change


def _query(state: State, event: Event) -> None:
    p = event.payload
    record = QueryRecord(
        len(state.queries),
        tuple(p["point"]),
        p["candidate"],
        p["origin"],
        p["same_as"],
        p["for_rater"],
        p["gain"],
        p.get("name", ""),
        event.generation,
        p.get("batch"),
    )
    state.queries.append(record)


def _defer(state: State, event: Event) -> None:
    query = event.query or 0
    state.deferred[event.rater, query] = event.generation
    trail = state.trails.setdefault(event.rater, [])
    if query not in trail:
        trail.append(query)


def _withdraw(state: State, event: Event) -> None:
    state.withdrawn[event.query or 0] = event


def _start(state: State, event: Event) -> None:
    state.starts_skipped[event.rater] = event


def _exclude(state: State, event: Event) -> None:
    key = event.payload["of"], event.query or 0
    state.excluded[key] = event
    given = _in_force(state.cell(*key))
    if given is not None:
        state.removed[given] = event.generation
    state.model_generation = event.generation


def _include(state: State, event: Event) -> None:
    key = event.payload["of"], event.query or 0
    del state.excluded[key]
    state.removed.pop(_in_force(state.cell(*key)) or 0, None)
    state.model_generation = event.generation


def _resolve(state: State, event: Event) -> None:
    state.resolved[state.queries[event.query or 0].location] = event


def _rater(state: State, event: Event) -> None:
    p = event.payload
    state.raters[p["name"]] = RaterRecord(p["name"], p["role"], p["token_hash"], p["revoked"], event.generation)


def _transform(state: State, event: Event) -> None:
    p = event.payload
    if not p.get("files"):
        del state.transforms[p["name"]]
        return
    state.transforms[p["name"]] = TransformRecord(
        p["name"], tuple(p["files"]), tuple(p["hashes"]), dict(p.get("options", {})), event.generation
    )


def _fit(state: State, event: Event) -> None:
    state.fits.append(event)
    if event.payload.get("source") == "projects":
        state.fit_marks[event.generation] = frozenset()
        return
    known = event.payload.get("rests_on")
    if known is None:  # fits of earlier versions say only when they looked
        seen = event.payload.get("at_generation", event.generation)
        known = [
            cell.answer.generation
            for (rater, query), cell in state.cells.items()
            if cell.answer is not None and cell.answer.generation <= seen and state.in_model(rater, query)
        ]
    state.fit_marks[event.generation] = frozenset(known)


def _align(state: State, event: Event) -> None:
    state.alignment = event
    state.model_generation = event.generation


def _note(state: State, event: Event) -> None:
    """Change nothing: a note is for people."""


_APPLY: dict[str, Callable[[State, Event], None]] = {
    "query": _query,
    "withdraw": _withdraw,
    "defer": _defer,
    "undo": _undo,
    "redo": _redo,
    "exclude": _exclude,
    "include": _include,
    "resolve": _resolve,
    "rater": _rater,
    "transform": _transform,
    "start": _start,
    "align": _align,
    "fit": _fit,
    "note": _note,
}
