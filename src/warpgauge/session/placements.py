"""Placements: of a query, moved a little, or of a place that the rater chose; on the disk before acknowledged.

The other answers, and taking back, are in `warpgauge.session.answering`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import covariance_from_ellipse
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats
from warpgauge.project import Draft, Event, Placement, State
from warpgauge.project.records import Answer
from warpgauge.session.base import SessionBase, number_of
from warpgauge.session.doubts import Doubt, doubt_about
from warpgauge.session.exchange import volunteered_query
from warpgauge.session.plausible import check_placement
from warpgauge.session.prior import default_radius
from warpgauge.session.queries import Query

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


class Placing(SessionBase):
    """The part of a session that saves placements."""

    def place(
        self,
        query: int | Query,
        point: ArrayLike,
        *,
        covariance: ArrayLike | None = None,
        ellipse: Ellipse | None = None,
        radius: float | None = None,
        alpha: float | None = None,
        fixed: ArrayLike | None = None,
        confirmed: bool = False,
        duration: float | None = None,
        base_generation: int | None = None,
        rater: str | None = None,
    ) -> Saved:
        """Save where the rater sees the match; a skipped query may be placed too.

        Parameters
        ----------
        point : (d,) array
            In the moving image's world.
        covariance : (d, d) array, optional
        ellipse : (half_lengths, axes), optional
            Drawn to hold the match with probability ``1 - alpha``; axes are orthonormal columns.
        radius : float, optional
            Of a disc or ball; the project's default radius where nothing is given.
        alpha : float, optional
            The project's by default.
        fixed : (d,) array, optional
            The point of the fixed image that was marked instead of the queried one, at most ``move_within`` away.
        confirmed : bool
            The rater was asked about a placement outside the image or far from a prediction that is known well, and
            keeps it. Otherwise such a placement is saved with a `SuspiciousDataWarning`; the log flags it either way.
        duration : float, optional
            Seconds.
        base_generation : int, optional
            ``Query.generation``: a change by the same rater since then raises `ConflictError`.
        """
        drawn = self._drawn(point, covariance, ellipse, radius, alpha)
        return self._put("place", query, drawn, fixed, confirmed, duration, base_generation, rater)

    def edit(
        self,
        query: int | Query,
        point: ArrayLike,
        *,
        covariance: ArrayLike | None = None,
        ellipse: Ellipse | None = None,
        radius: float | None = None,
        alpha: float | None = None,
        fixed: ArrayLike | None = None,
        confirmed: bool = False,
        duration: float | None = None,
        base_generation: int | None = None,
        rater: str | None = None,
    ) -> Saved:
        """Change a placement; parameters as for `place`. Without ``fixed`` a moved point stays where it was moved."""
        drawn = self._drawn(point, covariance, ellipse, radius, alpha)
        return self._put("edit", query, drawn, fixed, confirmed, duration, base_generation, rater)

    def volunteer(
        self,
        fixed: ArrayLike,
        moving: ArrayLike,
        covariance: ArrayLike | None = None,
        *,
        ellipse: Ellipse | None = None,
        radius: float | None = None,
        alpha: float | None = None,
        name: str = "",
        confirmed: bool = False,
        duration: float | None = None,
        rater: str | None = None,
    ) -> Saved:
        """Save a landmark of the rater's own choice, with the origin ``"volunteered"``; only this rater has it.

        Parameters
        ----------
        fixed, moving : (d,) arrays
            Corresponding points in the worlds of the two images.
        covariance, ellipse, radius, alpha, confirmed, duration
            As for `place`.
        name : str
            What the place is, for lists and exports.
        """
        who, at = self._who(rater), self._fixed_point(fixed)
        drawn = self._drawn(moving, covariance, ellipse, radius, alpha)
        with self._lock:
            state = self.project.state
            question = self._flagged(state, who, drawn, np.array(at), confirmed)
            number = len(state.queries)
            query = volunteered_query(self.project, state, at, who, name)
            written = self.project.append(
                Draft("query", who, number, query), Draft("place", who, number, drawn, duration)
            )
            _warn(question, confirmed, f"The volunteered landmark at {list(at)}", 3)
            return self._saved(written[-1], number)

    def doubt(
        self,
        query: int | Query | None,
        point: ArrayLike,
        *,
        covariance: ArrayLike | None = None,
        ellipse: Ellipse | None = None,
        radius: float | None = None,
        alpha: float | None = None,
        fixed: ArrayLike | None = None,
        rater: str | None = None,
    ) -> Doubt | None:
        """Return why a placement should be asked about before it is saved, or None; nothing is saved.

        ``query`` is None for a landmark that is volunteered at ``fixed``; other parameters are those of `place`.
        """
        who = self._who(rater)
        drawn = self._drawn(point, covariance, ellipse, radius, alpha)
        with self._lock:
            state = self.project.state
            if query is None:
                return self._doubt(state, who, drawn, np.array(self._fixed_point(fixed)))
            number = self._asked(state, number_of(query))
            moved = self._moved(state, who, number, fixed)
            at = state.queries[number].point if moved is None else moved
            return self._doubt(state, who, drawn, np.array(at), number)

    def _drawn(
        self,
        point: ArrayLike,
        covariance: ArrayLike | None,
        ellipse: Ellipse | None,
        radius: float | None,
        alpha: float | None,
    ) -> dict[str, Any]:
        """Return the payload of a placement, checked for what nobody can have meant."""
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
        return {"point": at.tolist(), "covariance": spread.tolist(), "alpha": level, "ellipse": drawn}

    def _put(
        self,
        kind: str,
        query: int | Query,
        payload: dict[str, Any],
        fixed: ArrayLike | None,
        confirmed: bool,
        duration: float | None,
        base_generation: int | None,
        rater: str | None,
    ) -> Saved:
        who = self._who(rater)
        with self._lock:
            state = self.project.state
            number = self._asked(state, number_of(query))
            moved = self._moved(state, who, number, fixed)
            at = state.queries[number].point if moved is None else moved
            if moved is not None:
                payload["fixed"] = list(moved)
            question = self._flagged(state, who, payload, np.array(at), confirmed, number)
            saved = self._save(kind, number, payload, duration, base_generation, rater)
        _warn(question, confirmed, f"The placement of query {number} at {payload['point']}")
        return saved

    @staticmethod
    def _asked(state: State, number: int) -> int:
        if not 0 <= number < len(state.queries):
            raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}, from 0 on.")
        return number

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

    def _flagged(
        self, state: State, who: str, payload: dict[str, Any], at: Floats, confirmed: bool, number: int | None = None
    ) -> str | None:
        """Add to a placement why it should be asked about, and return the question that its rater may see."""
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
        view = self._shown(state, who)
        posterior = view.posterior if location is None else view.without(location)
        return doubt_about(self.project.moving_grid, posterior, at, point, posterior.prior.total_noise(spread[None])[0])

    def _save(
        self,
        kind: str,
        query: int | Query,
        payload: dict[str, Any],
        duration: float | None,
        base_generation: int | None,
        rater: str | None,
    ) -> Saved:
        who, number = self._who(rater), number_of(query)
        with self._lock:
            event = self.project.append(Draft(kind, who, number, payload, duration, base_generation))[0]
            return self._saved(event, number)

    def _saved(self, event: Event, number: int) -> Saved:
        return Saved(event, number, self.project.state.answer(event.rater, number))


def _warn(question: str | None, confirmed: bool, what: str, stacklevel: int = 4) -> None:
    if question is not None and not confirmed:
        text = question.removeprefix("This is ").removesuffix(": keep it?")
        warnings.warn(f"{what} is {text}; it is saved and flagged.", SuspiciousDataWarning, stacklevel=stacklevel)


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be numbers, got {values!r}.") from error
