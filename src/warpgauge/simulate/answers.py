"""The common interface of simulated annotators: answers to queries, with a stated uncertainty or a skip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, Ints, as_points
from warpgauge.errors import InvalidInputError
from warpgauge.simulate.velocity import checked_rng

SKIP_REASONS = ("not_visible", "ambiguous", "torn_or_missing", "outside_image", "other")


@dataclass(frozen=True, eq=False)
class Answer:
    """What an annotator said about one location.

    Parameters
    ----------
    placement : (d,) array, or None
        Where the match was put; None for a skip.
    covariance : (d, d) array, or None
        The stated uncertainty.
    reason : str, or None
        Why it was skipped, one of `SKIP_REASONS`.
    """

    placement: Floats | None
    covariance: Floats | None
    reason: str | None = None

    @classmethod
    def skip(cls, reason: str) -> Answer:
        """Return a skip: no placement, for a reason."""
        return cls(None, None, checked_reason(reason))


@dataclass(frozen=True, eq=False)
class SimulatedAnswers:
    """Answers to many locations.

    Attributes
    ----------
    annotations : Annotations
        The placements, without the skipped locations.
    rows : (L,) array
        Which location each annotation belongs to.
    skipped : dict
        Reason of each skipped location, by row.
    """

    annotations: Annotations
    rows: Ints
    skipped: dict[int, str]


class Annotator(ABC):
    """Answers queried locations; a subclass gives `answer`."""

    @abstractmethod
    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location.

        Parameters
        ----------
        point : (d,) array
            Fixed world point that is asked for.
        truth : (d,) array
            Its true match ``phi(point)``, finite.
        rng : numpy.random.Generator
            Source of all chance.
        """

    def answers(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> SimulatedAnswers:
        """Answer (n, d) locations.

        Each row has its own stream of random numbers, ``(seed, row)``: the answers to the first locations do not
        change when more are asked.

        Parameters
        ----------
        fixed_points : (n, d) array
            Locations to annotate, world.
        true_map : object with ``map``, or callable
            The true transformation. Where it is not defined (NaN) the location is skipped as ``"outside_image"``.
        seed : int
            The same seed gives the same answers.
        """
        points, truth = true_matches(fixed_points, true_map)
        given: list[Answer] = []
        for row, (point, match) in enumerate(zip(points, truth, strict=True)):
            rng = checked_rng(seed, row)
            given.append(self.answer(point, match, rng) if np.isfinite(match).all() else Answer.skip("outside_image"))
        return _collected(points, given)

    def annotate(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> Annotations:
        """Return the annotations of `answers` alone; skipped locations are left out."""
        return self.answers(fixed_points, true_map, seed).annotations


def true_matches(fixed_points: ArrayLike, true_map: Any) -> tuple[Floats, Floats]:
    """Return checked fixed points and their true matches, NaN where the map is not defined."""
    points = as_points(fixed_points, "fixed_points")
    mapped: Callable[[Floats], ArrayLike] = getattr(true_map, "map", true_map)
    if not callable(mapped):
        raise InvalidInputError(
            f"true_map must have a map method or be callable, got {type(true_map).__name__}; a transform is one."
        )
    truth = np.asarray(mapped(points.copy()), dtype=np.float64)
    if truth.shape != points.shape:
        raise InvalidInputError(f"true_map gave shape {truth.shape} for points of shape {points.shape}.")
    return points, truth


def positive(value: float, name: str) -> None:
    """Refuse what is not a positive number."""
    if not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive number, got {value!r}.")


def checked_reason(reason: str) -> str:
    """Refuse a reason that a project would not take."""
    if reason not in SKIP_REASONS:
        raise InvalidInputError(f"The reason of a skip must be one of {', '.join(SKIP_REASONS)}, got {reason!r}.")
    return reason


def _collected(points: Floats, given: list[Answer]) -> SimulatedAnswers:
    d = points.shape[1]
    rows = np.array([row for row, answer in enumerate(given) if answer.placement is not None], dtype=np.int64)
    placed = [given[row] for row in rows]
    annotations = Annotations(
        points[rows],
        np.array([answer.placement for answer in placed]).reshape(-1, d),
        np.array([answer.covariance for answer in placed]).reshape(-1, d, d),
    )
    skipped = {row: str(answer.reason) for row, answer in enumerate(given) if answer.placement is None}
    return SimulatedAnswers(annotations, rows, skipped)
