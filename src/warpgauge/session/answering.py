"""What raters say: place, edit, skip and take back, each on the disk before it is acknowledged."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import covariance_from_ellipse
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats
from warpgauge.project import Draft, Event
from warpgauge.project.records import Answer
from warpgauge.session.base import SessionBase, number_of
from warpgauge.session.plausible import check_placement
from warpgauge.session.prior import default_radius
from warpgauge.session.queries import Query

Ellipse = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class Saved:
    """What was saved: the event, the query it changed, and the rater's answer there now."""

    event: Event
    query: int
    answer: Answer

    @property
    def generation(self) -> int:
        """Generation of the event."""
        return self.event.generation

    @property
    def time(self) -> str:
        """When it was saved, UTC."""
        return self.event.time


class Answering(SessionBase):
    """The part of a session that saves answers."""

    def place(
        self,
        query: int | Query,
        point: ArrayLike,
        *,
        covariance: ArrayLike | None = None,
        ellipse: Ellipse | None = None,
        radius: float | None = None,
        alpha: float | None = None,
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
        duration : float, optional
            Seconds.
        base_generation : int, optional
            ``Query.generation``: a change by the same rater since then raises `ConflictError`.
        """
        return self._put("place", query, point, covariance, ellipse, radius, alpha, duration, base_generation, rater)

    def edit(
        self,
        query: int | Query,
        point: ArrayLike,
        *,
        covariance: ArrayLike | None = None,
        ellipse: Ellipse | None = None,
        radius: float | None = None,
        alpha: float | None = None,
        duration: float | None = None,
        base_generation: int | None = None,
        rater: str | None = None,
    ) -> Saved:
        """Change a placement; parameters as for `place`."""
        return self._put("edit", query, point, covariance, ellipse, radius, alpha, duration, base_generation, rater)

    def _put(
        self,
        kind: str,
        query: int | Query,
        point: ArrayLike,
        covariance: ArrayLike | None,
        ellipse: Ellipse | None,
        radius: float | None,
        alpha: float | None,
        duration: float | None,
        base_generation: int | None,
        rater: str | None,
    ) -> Saved:
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
        payload = {
            "point": at.tolist(),
            "covariance": spread.tolist(),
            "alpha": level,
            "ellipse": drawn,
        }
        if at.shape == (d,) and np.isfinite(at).all() and not self.project.moving_grid.contains(at):
            warnings.warn(
                f"The placement of query {number_of(query)} at {at.tolist()} lies outside the moving image.",
                SuspiciousDataWarning,
                stacklevel=3,
            )
        return self._save(kind, query, payload, duration, base_generation, rater)

    def skip(
        self,
        query: int | Query,
        reason: str,
        text: str = "",
        *,
        duration: float | None = None,
        base_generation: int | None = None,
        rater: str | None = None,
    ) -> Saved:
        """Save that the rater cannot or will not place this query; ``reason`` is one of `SKIP_REASONS`."""
        return self._save("skip", query, {"reason": reason, "text": text}, duration, base_generation, rater)

    def restore(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a skip back: the query is open again."""
        return self._save("restore", query, {}, None, base_generation, rater)

    def disable(
        self, query: int | Query, text: str = "", *, base_generation: int | None = None, rater: str | None = None
    ) -> Saved:
        """Take the rater's own placement out of the model, without losing it."""
        return self._save("disable", query, {"text": text}, None, base_generation, rater)

    def enable(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a disabled placement into the model again."""
        return self._save("enable", query, {}, None, base_generation, rater)

    def undo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Undo the rater's last action (place, edit, skip, restore, disable, enable); None where there is none."""
        return self._step("undo", rater, base_generation)

    def redo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Redo what was undone last; None where there is nothing."""
        return self._step("redo", rater, base_generation)

    def _step(self, kind: str, rater: str | None, base_generation: int | None) -> Saved | None:
        who = self._who(rater)
        with self._lock:
            state = self.project.state
            steps = (state.done if kind == "undo" else state.undone).get(who, [])
            if not steps:
                return None
            step = steps[-1]
            draft = Draft(kind, who, payload={"target": step.generation}, base_generation=base_generation)
            return self._saved(self.project.append(draft)[0], step.query)

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


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be numbers, got {values!r}.") from error
