"""The accepted kinds of candidate transforms, and their values at points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError
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
