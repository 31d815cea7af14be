"""Saves a rater's answers: placements, skips, the guided start, undo and redo; on disk before they are acknowledged."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.slips import limit
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.project import Doubt, Entry, Placement, State
from warpgauge.project.content_checks import Vector, numbers
from warpgauge.project.events import Action, Edit, Place, Redo, Undo
from warpgauge.project.values import Answer, Step
from warpgauge.session.blindness import Blindness
from warpgauge.session.fused_annotations import all_marks
from warpgauge.session.landmark_exchange import volunteered_query
from warpgauge.session.plausibility import LEVEL, UnconfirmedError, check_placement, doubt_about
from warpgauge.session.prior import aligned
from warpgauge.session.queries import START_MARKS, is_unaided

Question = Callable[[Doubt, str], str | None]
"""Returns what to ask a rater about a doubt, or None where nobody is to be asked."""


@dataclass(frozen=True)
class Saved:
    """What was saved: the entry of the log, the query it changed, and the rater's answer there now.

    Where an import was undone or redone as a whole, ``count`` is the number of its answers, and the rest is about the
    last of them.
    """

    event: Entry
    query: int
    answer: Answer
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
    """Whether the guided start is due for a rater: landmarks of their own choice before the first suggestion.

    Attributes
    ----------
    due : bool
        Fewer than `wanted` landmarks are there, all of them volunteered, and the rater has not skipped the start.
    volunteered : int
        Landmarks that the rater has volunteered.
    wanted : int
        Landmarks that settle rotation, mirroring and scale.
    """

    due: bool
    volunteered: int
    wanted: int


class Answers:
    """The part of a session that saves answers. `Session` documents each of them.

    Parameters
    ----------
    blindness : Blindness
        Says what a rater may see.
    question : callable, optional
        Asks about placements that look like slips; by default they are saved with a warning.
    """

    def __init__(self, blindness: Blindness, question: Question | None = None) -> None:
        self.project, self.blindness, self.question = blindness.project, blindness, question

    def place(self, action: Place, confirmed: bool) -> Saved:
        """Save a placement, or the change of one where the query is placed already."""
        who, number = action.rater, action.at
        with self.project.lock:
            state = self.project.state
            if not 0 <= number < len(state.queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}, from 0 on.")
            known = state.placement(who, number)
            placement = replace(action.placement, fixed=self._moved(state, action, known))
            at = placement.fixed or state.queries[number].point
            placement, told = self._examined(state, who, number, placement, at, confirmed)
            kind = Place if known is None else Edit
            saved = self.save(kind(**{**vars(action), "placement": placement}))
        _warn(told, f"The placement of query {number} at {list(placement.point)}")
        return saved

    def volunteer(self, action: Place, fixed: ArrayLike, name: str, confirmed: bool) -> Saved:
        """Save a landmark of the rater's own choice; the number of its query is not known yet."""
        at, who = self._fixed_point(fixed), action.rater
        with self.project.lock:
            state = self.project.state
            placement, told = self._examined(state, who, None, action.placement, at, confirmed)
            query = volunteered_query(self.project, state, at, who, name)
            written = self.project.append(query, replace(action, query=query.query, placement=placement))
            _warn(told, f"The volunteered landmark at {list(at)}")
            return self._saved(written[-1], query.at)

    def _examined(
        self, state: State, who: str, number: int | None, placement: Placement, at: Vector, confirmed: bool
    ) -> tuple[Placement, str | None]:
        """Check a placement and add what is known about it; also return a reason to warn a script, if any.

        This is the one place where a placement is checked and doubted.
        """
        unaided = self._is_unaided(state, who, number, placement)
        sound = check_placement(self.project, placement)
        doubt = self._doubt(state, who, number, placement, at) if sound else None
        placement = replace(placement, unaided=unaided, doubt=doubt and replace(doubt, confirmed=confirmed))
        if doubt is None or confirmed:
            return placement, None
        question = None if self.question is None else self.question(doubt, who)
        if question is not None:
            raise UnconfirmedError(question, doubt)
        if self.question is not None:
            return placement, None
        return placement, doubt.reason(self.project.units, hide_prediction=self.project.settings.hide_prediction)

    def _doubt(self, state: State, who: str, number: int | None, placement: Placement, at: Vector) -> Doubt | None:
        """Compare a placement with the moving image and with what the landmarks that the rater may see predict."""
        view = self.blindness.view(state, who, number)
        screening = self.blindness.model.doubting(state, view)
        posterior = view.posterior if screening is None else screening.posterior
        beyond = posterior.squared_radius(LEVEL) if screening is None else limit(self.project.d)
        return doubt_about(self.project.moving_grid, posterior, np.array(at), placement, beyond)

    def look_ahead(self, who: str, number: int) -> None:
        """Work out what an answer will be compared with, so that saving it does not wait for that."""
        self.blindness.model.look_ahead(lambda state: self.blindness.view(state, who, number))

    def _fixed_point(self, fixed: ArrayLike) -> Vector:
        """Return a point of the fixed image, checked."""
        point, d = numbers(fixed, "The point of the fixed image"), self.project.d
        if point.shape != (d,) or not np.isfinite(point).all():
            raise InvalidInputError(f"The point of the fixed image must be {d} finite numbers, got {fixed!r}.")
        if not self.project.fixed_grid.contains(point):
            raise InvalidInputError(f"The point {point.tolist()} lies outside the fixed image; mark a place within it.")
        return tuple(point.tolist())

    def _moved(self, state: State, action: Place, known: Placement | None) -> Vector | None:
        """Return the point of the fixed image that is marked instead of the queried one, or None."""
        query = state.queries[action.at]
        if action.placement.fixed is None:
            return None if known is None else known.fixed
        point = self._fixed_point(action.placement.fixed)
        if point == query.point:
            return None
        distance, share = float(np.linalg.norm(np.subtract(point, query.point))), self.project.settings.move_within
        farthest = share * self.project.fixed_grid.diagonal
        if distance > farthest and query.origin != "volunteered":
            raise InvalidInputError(
                f"The queried point was moved by {distance:.3g} {self.project.units}; the setting move_within allows "
                f"{farthest:.3g} {self.project.units}. Volunteer the landmark instead."
            )
        return point

    def _is_unaided(self, state: State, who: str, number: int | None, placement: Placement) -> bool:
        """Return whether proposals from the images were withheld at a placement."""
        if not is_unaided(state, self.project.settings, who, number):
            return False
        known = None if number is None else state.placement(who, number)
        if known is not None and known.snapped_from is not None:
            return False  # snapped before the share was set: it stays what it is
        if placement.snapped_from is not None:
            raise InvalidInputError("Snap is off at this place (setting unaided): place the mark by eye.")
        return True

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
                and self._only_volunteered(state, who)
            )
            return Start(due, own, START_MARKS)

    def _only_volunteered(self, state: State, who: str) -> bool:
        """Return whether the rater may see fewer landmarks than a start has, all of them volunteered."""
        origins = [mark.origin for group in self.blindness.view(state, who).located.marks for mark in group]
        return len(origins) < START_MARKS and set(origins) <= {"volunteered"}

    def undo(self, who: str, base_generation: int | None, kind: type[Undo] = Undo) -> Saved | None:
        """Undo the rater's last action, or, with `Redo`, redo what was undone last; None without one."""
        with self.project.lock:
            if not kind.steps(self.project.state).get(who):
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
        steps = kind.steps(self.project.state)
        taken = [(who, step) for who in raters for step in _together(steps[who])]
        actions = [kind(rater=who, target=step.generation) for who, step in taken]
        actions[0] = replace(actions[0], base_generation=base_generation)
        written = self.project.append(*actions)
        answers = {(who, step.query) for who, step in taken}
        return replace(self._saved(written[-1], taken[-1][1].query), count=len(answers))

    def _saved(self, entry: Entry, number: int) -> Saved:
        return Saved(entry, number, self.project.state.answer(entry.rater, number))


def _together(steps: list[Step]) -> list[Step]:
    """Return the steps that are undone together, the last first: a whole batch, or one step."""
    batch = steps[-1].batch
    if batch is None:
        return steps[-1:]
    return list(takewhile(lambda step: step.batch == batch, reversed(steps)))


def _warn(reason: str | None, what: str) -> None:
    if reason is not None:
        warnings.warn(f"{what} is {reason}; it is saved and flagged.", SuspiciousDataWarning, stacklevel=4)
