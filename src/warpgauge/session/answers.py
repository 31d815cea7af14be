"""Saves a rater's answers: placements, skips, the guided start, undo and redo; on disk before they are acknowledged."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.project import Doubt, Event, Placement, State
from warpgauge.project.events import Action, Place, Redo, Skip, Undo
from warpgauge.project.values import Step, Vector
from warpgauge.session.blindness import Blindness
from warpgauge.session.fused_annotations import all_marks
from warpgauge.session.landmark_exchange import volunteered_query
from warpgauge.session.plausibility import LEVEL, UnconfirmedError, check_placement, doubt_about
from warpgauge.session.prior import aligned
from warpgauge.session.queries import START_MARKS
from warpgauge.session.query_queue import QueryQueue

Question = Callable[[Doubt, str], str | None]
"""Returns what to ask a rater about a doubt, or None where nobody is to be asked."""


@dataclass(frozen=True)
class Saved:
    """What was saved: the event, the query it changed, and the rater's answer there now.

    Where an import was undone or redone as a whole, ``count`` is the number of its answers, and the rest is about the
    last of them.
    """

    event: Event
    query: int
    answer: Place | Skip | None
    count: int = 1

    @property
    def generation(self) -> int:
        """Generation of the event."""
        return self.event.generation

    @property
    def time(self) -> str:
        """When it was saved, UTC."""
        return self.event.time


@dataclass(frozen=True)
class Start:
    """Whether the guided start is due for a rater: landmarks of their own choice before the first suggestion."""

    due: bool
    """Fewer than `wanted` landmarks are there, all of them volunteered, and the rater has not skipped the start."""
    volunteered: int
    """Landmarks that the rater has volunteered."""
    wanted: int
    """Landmarks that settle rotation, mirroring and scale."""


class Answers:
    """The part of a session that saves answers. `Session` documents each of them.

    Parameters
    ----------
    blindness : Blindness
        Says what a rater may see.
    queue : QueryQueue
        Knows how far from a query's point the place may be chosen.
    question : callable, optional
        Asks about placements that look like slips; by default they are saved with a warning.
    """

    def __init__(self, blindness: Blindness, queue: QueryQueue, question: Question | None = None) -> None:
        self.project = blindness.project
        self.blindness = blindness
        self.queue = queue
        self.question = question

    def place(self, action: Place, confirmed: bool) -> Saved:
        """Save a placement, or the change of one where the query is placed already."""
        who, number = action.rater, action.at
        with self.project.lock:
            state = self.project.state
            if number >= len(state.queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}, from 0 on.")
            placement = action.placement.model_copy(update={"fixed": self._chosen(state, action)})
            at = placement.fixed or state.queries[number].point
            doubt, reason = self._examined(state, who, number, placement, at, confirmed)
            saved = self.save(action.model_copy(update={"placement": placement, "doubt": doubt}))
        _warn(reason, f"The placement of query {number} at {list(placement.moving)}")
        return saved

    def volunteer(self, action: Place, name: str, confirmed: bool) -> Saved:
        """Save a landmark of the rater's own choice; the number of its query is not known yet."""
        at = self._in_fixed_image(action.placement.fixed or ())
        placement = action.placement.model_copy(update={"fixed": None})
        with self.project.lock:
            state = self.project.state
            doubt, reason = self._examined(state, action.rater, None, placement, at, confirmed)
            query = volunteered_query(self.project, state, at, action.rater, name)
            about = {"query": query.query, "placement": placement, "doubt": doubt}
            written = self.project.append(query, action.model_copy(update=about))
            _warn(reason, f"The volunteered landmark at {list(at)}")
            return self._saved(written[-1], query.at)

    def _examined(
        self, state: State, who: str, number: int | None, placement: Placement, at: Vector, confirmed: bool
    ) -> tuple[Doubt | None, str | None]:
        """Check a placement; return why it looks like a slip, and a reason to warn a script, if any.

        This is the one place where a placement is checked and doubted: by the posterior that predicted it.
        """
        if not check_placement(self.project, placement):
            return None, None
        posterior = self.blindness.view(state, who, number).posterior
        beyond = posterior.squared_radius(LEVEL)
        doubt = doubt_about(self.project.moving_grid, posterior, np.array(at), placement, beyond)
        if doubt is None or confirmed:
            return doubt and doubt.model_copy(update={"confirmed": True}), None
        if self.question is None:
            reason = doubt.reason(self.project.units, hide_prediction=self.project.settings.hide_prediction)
            return doubt, reason
        question = self.question(doubt, who)
        if question is not None:
            raise UnconfirmedError(question, doubt)
        return doubt, None

    def _in_fixed_image(self, point: Vector) -> Vector:
        if len(point) != self.project.d:
            raise InvalidInputError(f"The point of the fixed image must be {self.project.d} numbers, got {point!r}.")
        if not self.project.fixed_grid.contains(np.array(point)):
            raise InvalidInputError(f"The point {list(point)} lies outside the fixed image; mark a place within it.")
        return point

    def _chosen(self, state: State, action: Place) -> Vector | None:
        """Return the place that is marked instead of the queried one, or None; refuse one that may not be chosen."""
        query, known = state.queries[action.at], state.placement(action.rater, action.at)
        former = None if known is None else known.fixed
        wanted = action.placement.fixed
        if wanted is None or wanted == former:
            return former
        point = self._in_fixed_image(wanted)
        if point == query.point:
            return None
        if query.origin == "volunteered":
            return point
        distance = float(np.linalg.norm(np.subtract(point, query.point)))
        farthest = self.queue.radius(action.rater, action.at)
        if farthest == 0:
            raise InvalidInputError(
                f"Query {action.at} is asked at its exact place, {list(query.point)}, so that answers can be compared; "
                f"mark that place, or volunteer the landmark instead."
            )
        if distance > farthest:
            raise InvalidInputError(
                f"The place is {distance:.3g} {self.project.units} from the middle of the circle of query {action.at}, "
                f"whose radius is {farthest:.3g} {self.project.units}; volunteer the landmark instead."
            )
        return point

    def save(self, action: Action) -> Saved:
        """Save an answer of any kind to a query."""
        with self.project.lock:
            return self._saved(self.project.append(action)[0], action.at)

    def start(self, who: str) -> Start:
        """Return whether the guided start is due for a rater."""
        with self.project.lock:
            state = self.project.state
            own = sum(mark.origin == "volunteered" for mark in all_marks(state, who))
            begun = any(state.queries[number].origin != "volunteered" for number in state.answered(who))
            due = (
                self.project.settings.guided_start
                and not begun
                and who not in state.starts_skipped
                and aligned(state) is None
                and self._has_only_volunteered(state, who)
            )
            return Start(due, own, START_MARKS)

    def _has_only_volunteered(self, state: State, who: str) -> bool:
        """Return whether the rater may see fewer landmarks than a start has, all of them volunteered."""
        origins = [mark.origin for group in self.blindness.view(state, who).located.marks for mark in group]
        return len(origins) < START_MARKS and set(origins) <= {"volunteered"}

    def undo(self, who: str, base_generation: int | None, kind: type[Undo] = Undo) -> Saved | None:
        """Undo the rater's last action, or, with `Redo`, redo what was undone last; None without one."""
        with self.project.lock:
            if not kind.steps(self.project.state, who):
                return None
            return self._take_back(kind, [who], base_generation)

    def redo(self, who: str, base_generation: int | None) -> Saved | None:
        """Redo what was undone last; None where there is nothing."""
        return self.undo(who, base_generation, Redo)

    def undo_import(self) -> Saved | None:
        """Undo the last import for all its raters, unless they have acted since; None if there is no such import."""
        with self.project.lock:
            state = self.project.state
            tops = {who: steps[-1] for who, steps in state.done.items() if steps and steps[-1].batch is not None}
            if not tops:
                return None
            batch = max(tops.values(), key=lambda step: step.generation).batch
            return self._take_back(Undo, [who for who, step in tops.items() if step.batch == batch], None)

    def _take_back(self, kind: type[Undo], raters: list[str], base_generation: int | None) -> Saved:
        """Undo or redo the next action of each rater, or all of its batch, in one write."""
        state = self.project.state
        taken = [(who, step) for who in raters for step in _together(kind.steps(state, who))]
        actions = [
            kind(rater=who, target=step.generation, base_generation=None if at else base_generation)
            for at, (who, step) in enumerate(taken)
        ]
        written = self.project.append(*actions)
        answers = {(who, step.query) for who, step in taken}
        return replace(self._saved(written[-1], taken[-1][1].query), count=len(answers))

    def _saved(self, event: Event, number: int) -> Saved:
        return Saved(event, number, self.project.state.answer(event.rater, number))


def _together(steps: list[Step]) -> list[Step]:
    """Return the steps that are undone together, the last first: a whole batch, or one step."""
    batch = steps[-1].batch
    if batch is None:
        return steps[-1:]
    return list(takewhile(lambda step: step.batch == batch, reversed(steps)))


def _warn(reason: str | None, what: str) -> None:
    if reason is not None:
        warnings.warn(f"{what} is {reason}; it is saved and flagged.", SuspiciousDataWarning, stacklevel=4)
