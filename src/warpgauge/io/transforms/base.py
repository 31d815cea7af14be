"""The common interface of transforms: ``map``, ``domain``, a description with the assumptions, and an inverse."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.display import html_facts
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid

Bools = NDArray[np.bool_]
# Points beyond this are nowhere, and their powers would overflow; like NaN they are outside every domain.
_FARTHEST = 1e90


@dataclass(frozen=True)
class Description:
    """What a transform is and what was assumed to read it; every value can go into JSON.

    Parameters
    ----------
    format : str
        The file format, or ``"memory"``.
    kind : str
        What it computes, for instance ``"affine"`` or ``"cubic B-spline"``.
    direction : str
        Between which points it maps; always ``"fixed_to_moving"`` from `read_transform`.
    frame : str
        The coordinates that it takes and gives.
    units : str
        What one unit of these coordinates is.
    interpolation : str
        How values between stored ones are found.
    outside : str
        Where it is defined, and what happens elsewhere.
    assumptions : tuple of str
        Whatever the file leaves open, one sentence each.
    source : str
        Name of the file.
    """

    format: str = "memory"
    kind: str = ""
    direction: str = "fixed_to_moving"
    frame: str = "world"
    units: str = "unstated"
    interpolation: str = "none"
    outside: str = "defined everywhere"
    assumptions: tuple[str, ...] = ()
    source: str = ""

    def assuming(self, *sentences: str) -> Description:
        """Return a copy with further assumptions."""
        return replace(self, assumptions=self.assumptions + sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = asdict(self)
        plain["assumptions"] = list(self.assumptions)
        return plain


_OTHER_WAY = {"fixed_to_moving": "moving_to_fixed", "moving_to_fixed": "fixed_to_moving"}


def flipped(about: Description) -> Description:
    """Return a description with the other direction, as an inverse needs it."""
    return replace(about, direction=_OTHER_WAY.get(about.direction, about.direction))


class Transform(ABC):
    """A map of fixed world points to moving world points.

    A subclass gives `d`, ``_map`` (of checked points, NaN where undefined), and where that is cheaper than mapping,
    ``_domain``.

    Parameters
    ----------
    description : Description
        What is known of it.
    """

    linear: ClassVar[bool] = False

    def __init__(self, description: Description) -> None:
        self._description = description

    @property
    @abstractmethod
    def d(self) -> int:
        """Dimension, 2 or 3."""

    @property
    def description(self) -> Description:
        """What it is and what was assumed."""
        return self._description

    @property
    def support(self) -> Grid | None:
        """A grid that spans where the transform is defined; None where it is defined everywhere or unknown."""
        return None

    @abstractmethod
    def _map(self, points: Floats) -> Floats:
        """Map checked (n, d) points into a new array."""

    def _domain(self, points: Floats) -> Bools:
        return np.asarray(np.isfinite(self._map(points)).all(axis=1))

    def _extended(self, points: Floats) -> Floats:
        """Map beyond the border too where that is possible: only for iterations, whose end must lie inside."""
        return self._map(points)

    def _checked(self, points_world: ArrayLike) -> Floats:
        points = np.asarray(points_world, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.d:
            raise InvalidInputError(
                f"A {self.d}D transform maps points of shape (n, {self.d}), but these have shape {points.shape}."
            )
        # Two reductions without a temporary array; NaN makes both comparisons false.
        if points.size and not (points.min() > -_FARTHEST and points.max() < _FARTHEST):
            near = np.asarray((np.abs(points) < _FARTHEST).all(axis=1))
            points = np.where(near[:, None], points, np.nan)
        return points

    def map(self, points_world: ArrayLike) -> Floats:
        """Map (n, d) world points; rows outside the domain are NaN.

        Parameters
        ----------
        points_world : (n, d) array
            Points of the fixed image in the order x, y[, z].
        """
        return self._map(self._checked(points_world))

    def domain(self, points_world: ArrayLike) -> Bools:
        """Return for which of (n, d) world points the transform is defined."""
        return self._domain(self._checked(points_world))

    def outside_count(self, points_world: ArrayLike) -> int:
        """Count the points that the transform does not map."""
        return int(np.count_nonzero(~self.domain(points_world)))

    def inverse(self, *, tolerance: float = 1e-6) -> Transform:
        """Return the inverse: exact for linear transforms, else solved point by point.

        Parameters
        ----------
        tolerance : float
            Largest residual in world units that a numerical solution may have; points without one are masked.
        """
        from warpgauge.io.transforms.inverse import NumericalInverse

        return NumericalInverse(self, tolerance=tolerance)

    def described(self, **changes: Any) -> Transform:
        """Return the same transform with other words in its description."""
        twin = copy.copy(self)
        twin._description = replace(self._description, **changes)
        return twin

    def _repr_html_(self) -> str:
        facts = {"dimension": self.d, **self.description.to_dict()}
        return html_facts({name: value for name, value in facts.items() if value}, type(self).__name__)

    def __repr__(self) -> str:
        about = self.description
        return f"<{type(self).__name__} {self.d}D {about.kind!r} from {about.source or about.format}>"


class FunctionTransform(Transform):
    """A transform given as a Python function of (n, d) points.

    Parameters
    ----------
    function : callable
        Maps an (n, d) float64 array of fixed world points to as many moving world points; NaN rows are undefined.
    d : int
        Dimension.
    description : Description, optional
        What is known of it.
    """

    def __init__(self, function: Any, d: int, description: Description | None = None) -> None:
        if not callable(function):
            raise InvalidInputError(f"A FunctionTransform needs a callable, got {type(function).__name__}.")
        if d not in (2, 3):
            raise InvalidInputError(f"A transform has dimension 2 or 3, got {d!r}.")
        name = getattr(function, "__name__", type(function).__name__)
        super().__init__(
            description
            or Description(
                format="callable",
                kind=f"Python function {name!r}",
                interpolation="the function's own",
                outside="masked (NaN) where the function gives NaN or infinity",
                assumptions=("The function takes fixed world points and gives moving world points.",),
            )
        )
        self._function = function
        self._d = d

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return self._d

    def _map(self, points: Floats) -> Floats:
        # A copy, since a function that works in place must not change the caller's points.
        mapped = np.array(self._function(points.copy()), dtype=np.float64)
        if mapped.shape != points.shape:
            raise InvalidInputError(
                f"The function of this transform gave shape {mapped.shape} for points of shape {points.shape}; "
                f"it has to give one moving point for each fixed point."
            )
        mapped[~np.isfinite(mapped).all(axis=1)] = np.nan
        return mapped
