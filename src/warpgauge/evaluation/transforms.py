"""Transforms side by side: what is accepted as one, values at points, the targets that all map, and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, as_points, thinned_rows
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.truth import Truth
from warpgauge.io.transforms.in_memory import as_transform, is_foreign


@runtime_checkable
class MapsPoints(Protocol):
    """Anything with ``map(points_world) -> points_world``, as ``read_transform`` gives."""

    def map(self, points_world: Floats) -> Floats:
        """Map (n, d) fixed world points to moving world points."""
        ...


Candidate = MapsPoints | Callable[[Floats], ArrayLike] | ArrayLike


def converted(transforms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the transforms with those of other libraries (SimpleITK, ITK, ANTsPy) as warpgauge's own."""
    return {name: as_transform(one) if is_foreign(one) else one for name, one in transforms.items()}


def function_of(candidate: Any) -> Callable[[Floats], ArrayLike] | None:
    """Return the function of points behind a candidate, or None where it is an array of mapped targets."""
    if isinstance(candidate, MapsPoints):
        return candidate.map
    return candidate if callable(candidate) else None


def mapped_points(name: str, candidate: Any, points: Floats) -> Floats:
    """Values of a candidate at points; NaN rows where it is not defined."""
    function = function_of(candidate)
    # A copy, since a function that works in place must not change the caller's points.
    array = np.asarray(candidate if function is None else function(points.copy()), dtype=np.float64)
    if array.shape != points.shape:
        raise InvalidInputError(
            f"Transform {name!r} must give an array of shape {points.shape} for the targets, got {array.shape}."
        )
    return array


class Remembered:
    """A transform that remembers what it mapped: variations of a model ask for the same points many times."""

    def __init__(self, name: str, candidate: Any) -> None:
        self.name, self.candidate = name, candidate
        self._known: dict[bytes, Floats] = {}

    def map(self, points_world: Floats) -> Floats:
        """Map points, each only once."""
        keys = [point.tobytes() for point in points_world + 0.0]
        new = [row for row, key in enumerate(keys) if key not in self._known]
        if new:
            for row, value in zip(new, mapped_points(self.name, self.candidate, points_world[new]), strict=True):
                self._known[keys[row]] = value
        return np.array([self._known[key] for key in keys]).reshape(points_world.shape)


def landmark_values(name: str, candidate: Any, points: Floats, at_targets: Floats, fixed: Floats) -> Floats | None:
    """Values at the annotated points; for an array of mapped targets only where they are among the targets."""
    if function_of(candidate) is not None:
        return mapped_points(name, candidate, fixed)
    rows = {point.tobytes(): row for row, point in enumerate(points + 0.0)}
    found = [rows.get(point.tobytes()) for point in fixed + 0.0]
    if any(row is None for row in found):
        return None
    return np.asarray(at_targets[[row for row in found if row is not None]])


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
        rows = thinned_rows(len(self.points), most, seed)
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


def landmark_table(annotations: Annotations, transforms: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per annotation and transform.

    Columns: ``annotation`` (from 1), ``transform``, ``fixed_x`` ..., ``moving_x`` ... (the expert's match), ``sd``
    (root mean variance that the expert stated), ``mapped_x`` ... (where the transform puts the point), ``error`` (its
    distance from the match) and ``error_in_sd``. World units; NaN where a transform is undefined.
    """
    axes = "xyz"[: annotations.d]
    sd = np.sqrt(np.trace(annotations.covariances, axis1=1, axis2=2) / annotations.d)
    rows = []
    for name, transform in converted(transforms).items():
        mapped = mapped_points(name, transform, annotations.fixed_points)
        errors = np.linalg.norm(mapped - annotations.moving_points, axis=1)
        for at in range(len(annotations)):
            row: dict[str, Any] = {"annotation": at + 1, "transform": name}
            for kind, points in (
                ("fixed", annotations.fixed_points),
                ("moving", annotations.moving_points),
                ("mapped", mapped),
            ):
                row |= {f"{kind}_{axis}": float(value) for axis, value in zip(axes, points[at], strict=True)}
            row |= {"sd": float(sd[at]), "error": float(errors[at]), "error_in_sd": float(errors[at] / sd[at])}
            rows.append(row)
    return rows
