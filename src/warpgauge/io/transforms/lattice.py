"""Vectors on a regular grid with an interpolation between them: the common part of fields and B-splines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import Bools, Description, Transform

Vectors = NDArray[np.floating[Any]]
# World points on the border come back from the index frame with rounding: this much of an index counts as on it.
BORDER = 1e-6
# Large, since each pass over one component has that component alone in the cache; it bounds the temporaries to 40 MB.
_BLOCK = 2**20


class LatticeTransform(Transform):
    """``x -> x + v(x)``, or ``x -> v(x)`` where ``absolute``, with ``v`` interpolated between vectors on a grid.

    Parameters
    ----------
    vectors : (d, y, x) or (d, z, y, x) array of float32 or float64
        World components x, y[, z] first; kept, not copied.
    grid : Grid
        Where the vectors stand.
    order : int
        Degree of the B-spline that carries each vector.
    margin : float
        Distance from the outer vectors, in indices, within which the transform is not defined.
    absolute : bool
        Whether the vectors are positions rather than displacements.
    description : Description
        What is known of it.
    """

    def __init__(
        self, vectors: Vectors, grid: Grid, *, order: int, margin: float, absolute: bool, description: Description
    ) -> None:
        super().__init__(description)
        if vectors.shape != (grid.d, *grid.shape):
            raise InvalidInputError(
                f"The vectors on a grid of {_times(grid.size)} must have shape {(grid.d, *grid.shape)} "
                f"(components first, then z, y, x), got {vectors.shape}."
            )
        if any(size < 1 + 2 * margin for size in grid.size):
            raise InvalidInputError(
                f"A grid of {_times(grid.size)} has too few nodes for an interpolation of order {order}."
            )
        self.grid = grid
        self.order = order
        self.absolute = absolute
        self._vectors = vectors
        self._margin = margin
        # One sum over all values finds NaN and infinity without an array of flags as large as the field.
        with np.errstate(over="ignore", invalid="ignore"):
            self._gaps = not all(np.isfinite(np.sum(part, dtype=np.float64)) for part in vectors)

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return self.grid.d

    @property
    def vectors(self) -> Vectors:
        """The stored vectors, components first."""
        return self._vectors

    @property
    def support(self) -> Grid | None:
        """The grid of the vectors."""
        return self.grid

    def _map(self, points: Floats) -> Floats:
        return self._evaluate(points, extended=False)

    def _extended(self, points: Floats) -> Floats:
        return self._evaluate(points, extended=True)

    def _evaluate(self, points: Floats, *, extended: bool) -> Floats:
        from scipy.ndimage import map_coordinates

        mapped = np.empty(points.shape)
        for start in range(0, len(points), _BLOCK):
            block, out = points[start : start + _BLOCK], mapped[start : start + _BLOCK]
            coordinates, inside = self._locate(block, extended)
            for axis, part in enumerate(self._vectors):
                map_coordinates(
                    part, coordinates, order=self.order, mode="nearest", prefilter=False, output=out[:, axis]
                )
            if not self.absolute:
                out += block
            if self._gaps:
                inside &= np.isfinite(out).all(axis=1)
            if not inside.all():
                out[~inside] = np.nan
        return mapped

    def _locate(self, points: Floats, extended: bool = False) -> tuple[Floats, Bools]:
        """Return array coordinates and which are inside; the others get a valid position and are masked later.

        Where ``extended``, points outside move to the border and count as inside.
        """
        coordinates = self.grid.array_coordinates(points)
        inside = np.ones(len(points), dtype=np.bool_)
        if extended:
            for row, size in zip(coordinates, self.grid.shape, strict=True):
                inside &= np.isfinite(row)
                np.clip(np.nan_to_num(row), self._margin, size - 1 - self._margin, out=row)
            return coordinates, inside
        for row, size in zip(coordinates, self.grid.shape, strict=True):
            inside &= row >= self._margin - BORDER
            inside &= row <= size - 1 - self._margin + BORDER
        if not inside.all():
            coordinates[:, ~inside] = self._margin
        return coordinates, inside

    def _domain(self, points: Floats) -> Bools:
        if self._gaps:
            return super()._domain(points)
        inside = np.empty(len(points), dtype=np.bool_)
        for start in range(0, len(points), _BLOCK):
            inside[start : start + _BLOCK] = self._locate(points[start : start + _BLOCK])[1]
        return inside


def _times(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size))
