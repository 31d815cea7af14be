"""Transforms side by side: the targets that all of them map, and their classical errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats, as_points
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.mapping import landmark_values, mapped_points
from warpgauge.evaluation.truth import Truth


@dataclass(frozen=True, eq=False)
class Comparable:
    """Transforms at the targets that all of them map.

    Attributes
    ----------
    points : (n, d) array
        The targets kept.
    mapped : (K, n, d) array
    outside : (K,) array
        Share of all targets outside each one's domain.
    excluded : int
        Number of targets left out.
    landmark_lengths : list of arrays
        Classical errors at the annotated points inside each one's domain; None where the values there are not known.
    """

    points: Floats
    mapped: Floats
    outside: Floats
    excluded: int
    landmark_lengths: list[Floats | None]

    def part(self, most: int, seed: int | Sequence[int]) -> tuple[Floats, Floats]:
        """Return the targets and their images, or a random part of at most so many."""
        if len(self.points) <= most:
            return self.points, self.mapped
        rows = np.sort(np.random.default_rng(seed).choice(len(self.points), most, replace=False))
        return self.points[rows], self.mapped[:, rows]


def comparable(truth: Truth, transforms: Mapping[str, Any], targets: ArrayLike) -> Comparable:
    """Map the targets by every transform and keep those that all map, so that all are compared on the same points."""
    points = as_points(targets, "targets", truth.d)
    if not transforms or len(points) == 0:
        raise InvalidInputError("evaluate needs at least one transform and one target.")
    every = np.stack([mapped_points(name, one, points) for name, one in transforms.items()])
    undefined: NDArray[np.bool_] = np.asarray(~np.isfinite(every).all(axis=2))
    kept = ~undefined.any(axis=0)
    if not kept.any():
        raise InvalidInputError("No target lies within the domain of all transforms; check their frames and units.")
    lengths = [
        _landmark_lengths(truth, landmark_values(name, one, points, values, truth.annotations.fixed_points))
        for (name, one), values in zip(transforms.items(), every, strict=True)
    ]
    return Comparable(points[kept], every[:, kept], undefined.mean(axis=1), int((~kept).sum()), lengths)


def _landmark_lengths(truth: Truth, values: Floats | None) -> Floats | None:
    if values is None:
        return None
    lengths = np.linalg.norm(values - truth.annotations.moving_points, axis=1)
    defined = np.asarray(lengths[np.isfinite(lengths)])
    return defined if len(defined) else None
