"""Saves a rater's answers: placements, skips, the guided start, undo and redo; on disk before they are acknowledged."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import covariance_from_ellipse
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats
from warpgauge.project import Draft, Event, Placement, State
from warpgauge.project.records import Answer, Step
from warpgauge.session.exchange import volunteered_query
from warpgauge.session.fused_annotations import all_marks
from warpgauge.session.model import Model, aligned, default_radius
from warpgauge.session.placement import Doubt, check_placement, doubt_about
from warpgauge.session.queries import START_MARKS, is_unaided

Ellipse = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class Saved:
    """What was saved: the event, the query it changed, and the rater's answer there now.

    Where an import was undone or redone as a whole, ``count`` is the number of its answers, and the rest is about the
    last of them.
    """

    event: Event
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


class AnswerWriter:
    """The part of a session that saves answers. `Session` documents each of them.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self.project, self.model = model.project, model

    def place(
        self,
        kind: str,
        who: str,
        number: int,
        payload: dict[str, Any],
        fixed: ArrayLike | None,
        confirmed: bool,
        duration: float | None,
        base_generation: int | None,
    ) -> Saved:
        """Save a placement or, of the kind ``"edit"``, a changed one; ``payload`` is that of `drawn`."""
        with self.project.lock:
            state = self.project.state
            at = self._place_of(state, who, number, fixed)
            if at != state.queries[number].point:
                payload["fixed"] = list(at)
            self._mark_unaided(state, who, payload, number)
            question = self._flagged(state, who, payload, np.array(at), confirmed, number)
            saved = self.save(kind, who, number, payload, duration, base_generation)
        _warn(question, confirmed, f"The placement of query {number} at {payload['point']}")
        return saved

    def volunteer(
        self, who: str, fixed: ArrayLike, payload: dict[str, Any], name: str, confirmed: bool, duration: float | None
    ) -> Saved:
        """Save a landmark of the rater's own choice."""
        at = self._fixed_point(fixed)
        with self.project.lock:
            state = self.project.state
            self._mark_unaided(state, who, payload, None)
            question = self._flagged(state, who, payload, np.array(at), confirmed)
            number = len(state.queries)
            query = volunteered_query(self.project, state, at, who, name)
            written = self.project.append(
                Draft("query", who, number, query), Draft("place", who, number, payload, duration)
            )
            _warn(question, confirmed, f"The volunteered landmark at {list(at)}")
            return self._saved(written[-1], number)

    def doubt(self, who: str, number: int | None, payload: dict[str, Any], fixed: ArrayLike | None) -> Doubt | None:
        """Return why the rater should confirm a placement before it is saved, or None; nothing is saved."""
        with self.project.lock:
            state = self.project.state
            at = self._fixed_point(fixed) if number is None else self._place_of(state, who, number, fixed)
            return self._doubt(state, who, payload, np.array(at), number)

    def drawn(
        self,
        point: ArrayLike,
        covariance: ArrayLike | None,
        ellipse: Ellipse | None,
        radius: float | None,
        alpha: float | None,
        snapped_from: ArrayLike | None = None,
    ) -> dict[str, Any]:
        """Return the payload of a placement after checking that it is plausible."""
        if sum(given is not None for given in (covariance, ellipse, radius)) > 1:
            raise InvalidInputError("Give one of covariance, ellipse and radius, not several.")
        settings, d = self.project.settings, self.project.d
        level = settings.alpha if alpha is None else alpha
        drawn = None
        if covariance is None:
            if ellipse is None:
                size = default_radius(self.project.fixed_grid, settings) if radius is None else radius
                ellipse = np.full(d, size), np.eye(d)
            covariance = covariance_from_ellipse(ellipse[0], ellipse[1], level)
            drawn = {"half_lengths": np.asarray(ellipse[0]).tolist(), "axes": np.asarray(ellipse[1]).tolist()}
        at, spread = _numbers(point, "The placed point"), _numbers(covariance, "The covariance")
        check_placement(self.project, at, spread)
        payload = {"point": at.tolist(), "covariance": spread.tolist(), "alpha": level, "ellipse": drawn}
        if snapped_from is not None:
            payload["snapped_from"] = _numbers(snapped_from, "The mark before it was snapped").tolist()
        return payload

    def _place_of(self, state: State, who: str, number: int, fixed: ArrayLike | None) -> tuple[float, ...]:
        """Return the point of the fixed image that a placement is about: the queried one, or where it was moved."""
        if not 0 <= number < len(state.queries):
            raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}, from 0 on.")
        moved = self._moved(state, who, number, fixed)
        return state.queries[number].point if moved is None else moved

    def _fixed_point(self, fixed: ArrayLike | None) -> tuple[float, ...]:
        """Return a point of the fixed image, checked."""
        point = _numbers([] if fixed is None else fixed, "The point of the fixed image")
        d = self.project.d
        if point.shape != (d,) or not np.isfinite(point).all():
            raise InvalidInputError(f"The point of the fixed image must be {d} finite numbers, got {fixed!r}.")
        if not self.project.fixed_grid.contains(point):
            raise InvalidInputError(f"The point {point.tolist()} lies outside the fixed image; mark a place within it.")
        return tuple(point.tolist())

    def _moved(self, state: State, who: str, number: int, fixed: ArrayLike | None) -> tuple[float, ...] | None:
        """Return the point of the fixed image that is marked instead of the queried one, or None."""
        query, known = state.queries[number], state.answer(who, number)
        if fixed is None:
            return known.fixed if isinstance(known, Placement) else None
        point = self._fixed_point(fixed)
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

    def _mark_unaided(self, state: State, who: str, payload: dict[str, Any], number: int | None) -> None:
        """Add to a placement that proposals from the images were withheld, where they were."""
        if not is_unaided(state, self.project.settings, who, number):
            return
        known = None if number is None else state.answer(who, number)
        if isinstance(known, Placement) and known.snapped_from is not None:
            return  # snapped before the share was set: it stays what it is
        if "snapped_from" in payload:
            raise InvalidInputError("Snap is off at this place (setting unaided): place the mark by eye.")
        payload["unaided"] = True

    def _flagged(
        self, state: State, who: str, payload: dict[str, Any], at: Floats, confirmed: bool, number: int | None = None
    ) -> str | None:
        """Add to a placement why it should be confirmed, and return the question that its rater may see."""
        doubt = self._doubt(state, who, payload, at, number)
        if doubt is None:
            return None
        payload["flag"] = doubt.flag(confirmed)
        return doubt.question(hide_prediction=self.project.settings.hide_prediction)

    def _doubt(
        self, state: State, who: str, payload: dict[str, Any], at: Floats, number: int | None = None
    ) -> Doubt | None:
        """Compare a placement with the moving image and with what the landmarks that the rater may see predict."""
        d, point, spread = self.project.d, np.array(payload["point"]), np.array(payload["covariance"])
        if point.shape != (d,) or spread.shape != (d, d) or not np.isfinite([*point, *spread.ravel()]).all():
            return None  # left to the check of the event
        # A former answer is compared with what the other locations say.
        location = None if number is None else state.queries[number].location
        view = self.model.shown(state, who)
        posterior = view.posterior if location is None else view.without(location)
        return doubt_about(self.project.moving_grid, posterior, at, point, posterior.prior.total_noise(spread[None])[0])

    def save(
        self,
        kind: str,
        who: str,
        number: int,
        payload: dict[str, Any],
        duration: float | None = None,
        base_generation: int | None = None,
    ) -> Saved:
        """Save an answer of any kind to a query."""
        with self.project.lock:
            event = self.project.append(Draft(kind, who, number, payload, duration, base_generation))[0]
            return self._saved(event, number)

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
        origins = [mark.origin for group in self.model.shown(state, who).located.marks for mark in group]
        return len(origins) < START_MARKS and set(origins) <= {"volunteered"}

    def undo(self, kind: str, who: str, base_generation: int | None) -> Saved | None:
        """Undo the rater's last action, or, of the kind ``"redo"``, redo what was undone last; None without one."""
        with self.project.lock:
            state = self.project.state
            if not (state.done if kind == "undo" else state.undone).get(who):
                return None
            return self._take_back(kind, [who], base_generation)

    def undo_import(self) -> Saved | None:
        """Undo the last import for all its raters, unless they have acted since; None if there is no such import."""
        with self.project.lock:
            state = self.project.state
            tops = {who: steps[-1] for who, steps in state.done.items() if steps and steps[-1].batch is not None}
            if not tops:
                return None
            batch = max(tops.values(), key=lambda step: step.generation).batch
            return self._take_back("undo", [who for who, step in tops.items() if step.batch == batch], None)

    def _take_back(self, kind: str, raters: list[str], base_generation: int | None) -> Saved:
        """Undo or redo the next action of each rater, or all of its batch, in one writing."""
        state, taken = self.project.state, list[tuple[str, Step]]()
        for who in raters:
            steps = (state.done if kind == "undo" else state.undone)[who]
            taken += [(who, step) for step in _together(steps)]
        drafts = [Draft(kind, who, payload={"target": step.generation}) for who, step in taken]
        drafts[0] = replace(drafts[0], base_generation=base_generation)
        events = self.project.append(*drafts)
        answers = {(who, step.query) for who, step in taken}
        return replace(self._saved(events[-1], taken[-1][1].query), count=len(answers))

    def _saved(self, event: Event, number: int) -> Saved:
        return Saved(event, number, self.project.state.answer(event.rater, number))


def _together(steps: list[Step]) -> list[Step]:
    """Return the steps that are undone together, the last first: a whole batch, or one step."""
    batch = steps[-1].batch
    if batch is None:
        return steps[-1:]
    return list(takewhile(lambda step: step.batch == batch, reversed(steps)))


def _warn(question: str | None, confirmed: bool, what: str) -> None:
    if question is not None and not confirmed:
        text = question.removeprefix("This is ").removesuffix(": keep it?")
        warnings.warn(f"{what} is {text}; it is saved and flagged.", SuspiciousDataWarning, stacklevel=4)


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be numbers, got {values!r}.") from error
