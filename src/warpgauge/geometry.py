"""The one owner of index and world: which point of space an array element stands for.

Points are ``(x, y)`` or ``(x, y, z)`` in world units, arrays are indexed ``[y, x]`` or ``[z, y, x]``, and pixel
centres are integers. Nothing outside this module swaps the two orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError

Units = Literal["px", "um", "mm"]
UNITS: tuple[str, ...] = ("px", "um", "mm")
Floats = NDArray[np.float64]


def array_order(values: ArrayLike) -> Any:
    """Return coordinates, spacings or indices (..., d) in the other order: x, y[, z] to array axes, or back."""
    return np.asarray(values)[..., ::-1]


def _vector(values: ArrayLike, d: int, name: str) -> Floats:
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (d,) or not np.all(np.isfinite(vector)):
        raise InvalidInputError(f"Grid {name} must be {d} finite numbers (x, y[, z]), got {values!r}.")
    vector.flags.writeable = False
    return vector


@dataclass(frozen=True, eq=False)
class Grid:
    """A regular grid of pixel or voxel centres in the world.

    ``points_world = origin + direction @ (spacing * points_index)``, with indices in the order x, y[, z].

    Parameters
    ----------
    size : sequence of int
        Number of elements along x, y[, z]; the array has the reversed shape.
    spacing, origin : sequence of float
        Distance between neighbours, and world position of index 0, along x, y[, z]. Defaults: 1 and 0.
    direction : (d, d) array
        Columns are the world directions of the index axes, orthonormal; the identity by default.
    units : {"px", "um", "mm"}
        What one world unit is. ``"px"`` says that no physical spacing is known.

    Examples
    --------
    >>> import warpgauge as wg
    >>> grid = wg.Grid((4, 3), spacing=(0.5, 2.0), origin=(10.0, 0.0), units="mm")
    >>> grid.shape, grid.index_to_world([3, 2]).tolist()
    ((3, 4), [11.5, 4.0])
    >>> grid.world_to_index([[11.5, 4.0]]).tolist()
    [[3.0, 2.0]]
    """

    size: tuple[int, ...]
    spacing: Floats = None  # type: ignore[assignment]  # replaced in __post_init__
    origin: Floats = None  # type: ignore[assignment]  # replaced in __post_init__
    direction: Floats = None  # type: ignore[assignment]  # replaced in __post_init__
    units: Units = "px"

    def __post_init__(self) -> None:
        raw: Sequence[Any] = tuple(self.size)
        d = len(raw)
        if d not in (2, 3) or any(int(n) != n or n < 1 for n in raw):
            raise InvalidInputError(f"Grid size must be 2 or 3 positive integers (x, y[, z]), got {raw!r}.")
        set_field = object.__setattr__
        set_field(self, "size", tuple(int(n) for n in raw))
        set_field(self, "spacing", _vector(np.ones(d) if self.spacing is None else self.spacing, d, "spacing"))
        set_field(self, "origin", _vector(np.zeros(d) if self.origin is None else self.origin, d, "origin"))
        if np.any(self.spacing <= 0):
            raise InvalidInputError(f"Grid spacing must be positive, got {self.spacing.tolist()}.")
        direction = np.array(np.eye(d) if self.direction is None else self.direction, dtype=np.float64)
        if direction.shape != (d, d) or not np.allclose(direction @ direction.T, np.eye(d), atol=1e-4):
            raise InvalidInputError(
                f"Grid direction must be an orthonormal {d} x {d} matrix, got {direction.tolist()}."
            )
        direction.flags.writeable = False
        set_field(self, "direction", direction)
        if self.units not in UNITS:
            raise InvalidInputError(f"Grid units must be one of {', '.join(UNITS)}, got {self.units!r}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        return (
            self.size == other.size
            and self.units == other.units
            and np.array_equal(self.spacing, other.spacing)
            and np.array_equal(self.origin, other.origin)
            and np.array_equal(self.direction, other.direction)
        )

    def __hash__(self) -> int:
        return hash((self.size, self.units, self.spacing.tobytes(), self.origin.tobytes(), self.direction.tobytes()))

    @classmethod
    def from_affine(cls, index_to_world: ArrayLike, size: Sequence[int], units: Units = "mm") -> Grid:
        """Grid of a (d+1, d+1) index-to-world matrix; refuses shears, which no Grid can express."""
        matrix = np.asarray(index_to_world, dtype=np.float64)
        d = len(size)
        if matrix.shape != (d + 1, d + 1):
            raise InvalidInputError(f"An affine of a {d}D grid must be {d + 1} x {d + 1}, got shape {matrix.shape}.")
        spacing = np.linalg.norm(matrix[:d, :d], axis=0)
        if np.any(spacing == 0):
            raise InvalidInputError("An affine with a zero column has no spacing; the file's header is broken.")
        return cls(tuple(size), spacing, matrix[:d, d], matrix[:d, :d] / spacing, units)

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return len(self.size)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an array on this grid, ``(y, x)`` or ``(z, y, x)``."""
        return self.size[::-1]

    @property
    def count(self) -> int:
        """Number of elements."""
        return int(np.prod(self.size, dtype=np.int64))

    @property
    def affine(self) -> Floats:
        """The (d+1, d+1) matrix from index (x, y[, z]) to world."""
        matrix = np.eye(self.d + 1)
        matrix[: self.d, : self.d] = self.direction * self.spacing
        matrix[: self.d, self.d] = self.origin
        return matrix

    @property
    def diagonal(self) -> float:
        """Length of the image diagonal in world units, between the outer corners of the outer pixels."""
        return float(np.linalg.norm(self.extent))

    @property
    def pixel(self) -> float:
        """World length of a pixel: the geometric mean of the spacing."""
        return float(np.prod(self.spacing) ** (1 / self.d))

    @property
    def extent(self) -> Floats:
        """Sides of the image in world units, along its own axes."""
        return np.asarray(self.spacing * np.asarray(self.size))

    @property
    def centre(self) -> Floats:
        """World point in the middle of the image."""
        return self.index_to_world((np.asarray(self.size) - 1) / 2)

    def _points(self, points: ArrayLike, frame: str) -> Floats:
        array = np.asarray(points, dtype=np.float64)
        if array.ndim < 1 or array.shape[-1] != self.d:
            raise InvalidInputError(
                f"points_{frame} must have {self.d} columns for a {self.d}D grid, got shape {array.shape}."
            )
        return array

    def index_to_world(self, points_index: ArrayLike) -> Floats:
        """Map (..., d) indices in the order x, y[, z] to world points."""
        index = self._points(points_index, "index")
        return (index * self.spacing) @ self.direction.T + self.origin

    def world_to_index(self, points_world: ArrayLike) -> Floats:
        """Map (..., d) world points to continuous indices in the order x, y[, z]."""
        world = self._points(points_world, "world")
        # The inverse, not the transpose: a direction read from a text file is orthonormal only to its digits.
        return (world - self.origin) @ np.linalg.inv(self.direction).T / self.spacing

    def contains(self, points_world: ArrayLike) -> NDArray[np.bool_]:
        """Return which points lie within the pixels of the grid, half a pixel beyond the outer centres included."""
        index = self.world_to_index(points_world)
        return np.asarray(np.all((index >= -0.5) & (index <= np.asarray(self.size) - 0.5), axis=-1))

    def array_coordinates(self, points_world: ArrayLike) -> Floats:
        """Return (d, n) coordinates in array order, as ``scipy.ndimage.map_coordinates`` takes them."""
        return np.ascontiguousarray(self.world_to_index(points_world)[..., ::-1].T)

    def points(self, start: int = 0, stop: int | None = None) -> Floats:
        """World points of the elements ``start:stop`` in array (C) order, as an (n, d) array."""
        flat = np.arange(start, self.count if stop is None else min(stop, self.count))
        index = np.stack(np.unravel_index(flat, self.shape)[::-1], axis=-1)
        return self.index_to_world(index)

    def blocks(self, block: int) -> Iterator[tuple[slice, Floats]]:
        """Yield ``(slice of the flattened array, world points)`` so that a map never holds all points at once."""
        for start in range(0, self.count, block):
            stop = min(start + block, self.count)
            yield slice(start, stop), self.points(start, stop)

    def coarsened(self, factor: float) -> Grid:
        """Grid over the same extent with about ``1 / factor`` as many elements along each axis."""
        if not factor >= 1:
            raise InvalidInputError(f"Grid.coarsened needs a factor of at least 1, got {factor!r}.")
        size = np.maximum(1, np.round(np.asarray(self.size) / factor)).astype(int)
        ratio = np.asarray(self.size) / size
        return Grid(
            tuple(size.tolist()),
            self.spacing * ratio,
            self.index_to_world((ratio - 1) / 2),
            self.direction,
            self.units,
        )
