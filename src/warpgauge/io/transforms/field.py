"""Vectors on a regular grid and the interpolation between them: dense fields, and what B-splines share with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import InvalidInputError, warn_suspicious
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
        super().__init__(description, grid.d, grid)
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
    def vectors(self) -> Vectors:
        """The stored vectors, components first."""
        return self._vectors

    def _map(self, points: Floats) -> Floats:
        return self._evaluate(points, extended=False)

    def _extended(self, points: Floats) -> Floats:
        return self._evaluate(points, extended=True)

    def _evaluate(self, points: Floats, *, extended: bool) -> Floats:
        mapped = np.empty(points.shape)
        for start in range(0, len(points), _BLOCK):
            block, out = points[start : start + _BLOCK], mapped[start : start + _BLOCK]
            coordinates, inside = self._locate(block, extended)
            self._interpolate(coordinates, out)
            if not self.absolute:
                out += block
            if self._gaps:
                inside &= np.isfinite(out).all(axis=1)
            if not inside.all():
                out[~inside] = np.nan
        return mapped

    def _interpolate(self, coordinates: Floats, out: Floats) -> None:
        """Write the vectors at array coordinates (d, n) into ``out`` (n, d)."""
        from scipy.ndimage import map_coordinates

        for axis, part in enumerate(self._vectors):
            map_coordinates(part, coordinates, order=self.order, mode="nearest", prefilter=False, output=out[:, axis])

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


class DisplacementField(LatticeTransform):
    """A dense field, defined between its outer nodes.

    ITK also evaluates half a voxel beyond the outer nodes, with the value of the nearest node, and gives the identity
    further out; here all points beyond the outer nodes are masked, and so are points next to a value that is not
    finite.

    Parameters
    ----------
    vectors : (d, y, x) or (d, z, y, x) array
        World components x, y[, z] first: displacements, or positions where ``absolute``.
    grid : Grid
        Where the vectors stand.
    absolute : bool
        Whether the vectors are moving positions.
    order : {0, 1}
        Nearest or linear interpolation.
    description : Description, optional
        What is known of it.
    """

    def __init__(
        self,
        vectors: Vectors,
        grid: Grid,
        *,
        absolute: bool = False,
        order: int = 1,
        description: Description | None = None,
    ) -> None:
        if order not in (0, 1):
            raise InvalidInputError(f"A dense field is interpolated with order 0 or 1, got {order!r}.")
        super().__init__(
            vectors,
            grid,
            order=order,
            margin=0.0,
            absolute=absolute,
            description=description or field_description("memory", order=order),
        )
        if self._gaps:
            self._report_gaps()

    def _report_gaps(self) -> None:
        finite = np.isfinite(self.vectors).all(axis=0)
        count, total = int(np.count_nonzero(~finite)), self.grid.count
        name = repr(self.description.source) if self.description.source else "The field"
        if count == total:
            raise InvalidInputError(f"{name} has no finite vector (NaN or infinity everywhere), so it maps no point.")
        if count:
            sentence = f"{count} of {total} vectors are not finite; points next to them are masked."
            warn_suspicious(f"{name}: {sentence}")
            self._description = self._description.assuming(sentence)


def field_description(
    file_format: str, *, order: int = 1, kind: str = "dense displacement field", **more: Any
) -> Description:
    """Describe a dense field."""
    return Description(
        format=file_format,
        kind=kind,
        interpolation="linear" if order == 1 else "nearest node",
        outside=(
            f"masked (NaN) beyond the outer nodes, index [0, n - 1] (within {BORDER:g} of the border counts as on it); "
            f"ITK would clamp for half a voxel and then jump to the identity"
        ),
        **more,
    )


def positions_from_index_displacements(vectors: Vectors, fixed: Grid, moving: Grid) -> tuple[Floats, bool]:
    """Turn displacements in voxels into world vectors.

    They go along the index axes x, y[, z], from an index of ``fixed`` to an index of ``moving``. Returned are world
    displacements and False where the grids are the same, else moving world positions and True.
    """
    flat = vectors.reshape(fixed.d, -1)
    world = np.empty(flat.shape)
    same = np.array_equal(fixed.affine, moving.affine)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite, and so masked
        for start in range(0, fixed.count, _BLOCK):
            part = flat[:, start : start + _BLOCK].T.astype(np.float64)
            if same:
                world[:, start : start + _BLOCK] = ((part * fixed.spacing) @ fixed.direction.T).T
            else:
                index = fixed.world_to_index(fixed.points(start, start + _BLOCK))
                world[:, start : start + _BLOCK] = moving.index_to_world(index + part).T
    return world.reshape(vectors.shape), not same
