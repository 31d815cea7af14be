"""Transforms between nodes: dense fields and B-splines on a grid, and splines through landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.transform import Transform

Vectors = NDArray[np.floating[Any]]
# World points on the border come back from the index frame with rounding: this much of an index counts as on it.
BORDER = 1e-6
# Large, since each pass over one component has that component alone in the cache; it bounds the temporaries to 40 MB.
_BLOCK = 2**20
_ORDERS = {1: "linear", 2: "quadratic", 3: "cubic"}


class LatticeTransform(Transform):
    """``x -> x + v(x)``, or ``x -> v(x)`` where ``absolute``, with ``v`` interpolated between vectors on a grid.

    The vectors are (d, y, x) or (d, z, y, x) of float32 or float64, world components x, y[, z] first; kept, not copied.
    A B-spline of ``order`` carries each; within ``margin`` of the outer ones, in indices, nothing is defined.
    """

    def __init__(
        self, vectors: Vectors, grid: Grid, kind: str, *, order: int, margin: float, absolute: bool, **words: Any
    ) -> None:
        super().__init__(grid.d, kind, support=grid, units=grid.units, **words)
        size = " x ".join(map(str, grid.size))
        if vectors.shape != (grid.d, *grid.shape):
            raise InvalidInputError(
                f"The vectors on a grid of {size} must have shape {(grid.d, *grid.shape)} (components first, then z, "
                f"y, x), got {vectors.shape}."
            )
        if any(nodes < 1 + 2 * margin for nodes in grid.size):
            raise InvalidInputError(f"A grid of {size} has too few nodes for an interpolation of order {order}.")
        self.vectors = vectors
        self.grid = grid
        self.order = order
        self.margin = margin
        self.absolute = absolute
        # One sum over all values finds NaN and infinity without an array of flags as large as the field.
        with np.errstate(over="ignore", invalid="ignore"):
            self.gaps = not all(np.isfinite(np.sum(part, dtype=np.float64)) for part in vectors)

    def _map(self, points: Floats) -> Floats:
        return self._evaluate(points, extended=False)

    def _extended(self, points: Floats) -> Floats:
        return self._evaluate(points, extended=True)

    def _evaluate(self, points: Floats, *, extended: bool) -> Floats:
        from scipy.ndimage import map_coordinates

        mapped = np.empty(points.shape)
        for start in range(0, len(points), _BLOCK):
            block = points[start : start + _BLOCK]
            out = mapped[start : start + _BLOCK]
            coordinates, inside = self._locate(block, extended)
            for axis, part in enumerate(self.vectors):
                map_coordinates(
                    part, coordinates, order=self.order, mode="nearest", prefilter=False, output=out[:, axis]
                )
            if not self.absolute:
                out += block
            elif extended:  # beyond the border the displacement of the border goes on, also where positions are stored
                out += block - self.grid.index_to_world(coordinates[::-1].T)
            if self.gaps:
                inside &= np.isfinite(out).all(axis=1)
            if not inside.all():
                out[~inside] = np.nan
        return mapped

    def _locate(self, points: Floats, extended: bool) -> tuple[Floats, NDArray[np.bool_]]:
        """Return array coordinates and which are inside; the others get a valid position and are masked later.

        Where ``extended``, points outside move to the border and count as inside.
        """
        coordinates = self.grid.array_coordinates(points)
        inside = np.ones(len(points), dtype=np.bool_)
        for row, size in zip(coordinates, self.grid.shape, strict=True):
            if extended:
                inside &= np.isfinite(row)
                np.clip(np.nan_to_num(row), self.margin, size - 1 - self.margin, out=row)
            else:
                inside &= row >= self.margin - BORDER
                inside &= row <= size - 1 - self.margin + BORDER
        if not extended and not inside.all():
            coordinates[:, ~inside] = self.margin
        return coordinates, inside


class DisplacementField(LatticeTransform):
    """A dense field, interpolated linearly and defined between its outer nodes.

    ITK also evaluates half a voxel beyond the outer nodes, with the value of the nearest node, and gives the identity
    further out; here all points beyond the outer nodes are masked, and so are points next to a value that is not
    finite. The vectors are displacements, or positions where ``absolute``; ``name`` is what messages call it.
    """

    def __init__(
        self,
        vectors: Vectors,
        grid: Grid,
        *,
        absolute: bool = False,
        name: str = "",
        kind: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(
            vectors,
            grid,
            kind or ("dense field of positions" if absolute else "dense displacement field"),
            order=1,
            margin=0.0,
            absolute=absolute,
            notes=notes,
        )
        if not self.gaps:
            return
        count = int(np.count_nonzero(~np.isfinite(vectors).all(axis=0)))
        if count == grid.count:
            raise InvalidInputError("The field has no finite vector (NaN or infinity everywhere), so it maps no point.")
        if count:
            sentence = f"{count} of {grid.count} vectors are not finite; points next to them are masked."
            warn_suspicious(f"{repr(name) if name else 'The field'}: {sentence}")
            self.description = self.described(assumptions=(*notes, sentence)).description


class BSplineTransform(LatticeTransform):
    """``x -> x + sum_i c_i B(u(x) - i)`` with ``u`` the control index and ``B`` the centred B-spline of ``order``.

    It is defined where the whole support lies on the control grid, ``(order - 1) / 2 <= u <= n - 1 - (order - 1) / 2``
    along each axis. ITK and elastix give the identity beyond that; here such points are masked. The coefficients are
    an array (d, y, x) or (d, z, y, x) of displacements, world components x, y[, z] first; the order is 1, 2 or 3.
    """

    def __init__(self, coefficients: Vectors, grid: Grid, order: int = 3, *, notes: Sequence[str] = ()) -> None:
        if order not in _ORDERS:
            raise InvalidInputError(f"A B-spline transform has order 1, 2 or 3, got {order!r}.")
        margin = (order - 1) / 2
        super().__init__(
            coefficients,
            grid,
            f"{_ORDERS[order]} B-spline",
            order=order,
            margin=margin,
            absolute=False,
            notes=notes,
        )
        if self.gaps:
            raise InvalidInputError("The coefficients of a B-spline transform must be finite, but some are not.")


# Kernels by the names of ITK and elastix: scipy's name, and the sign of its values against those of ITK.
_KERNELS = {
    "ThinPlateSpline": ("linear", -1),
    "ThinPlateR2LogRSpline": ("thin_plate_spline", 1),
    "VolumeSpline": ("cubic", 1),
}
_LARGEST = 9000  # coordinates of all landmarks together; the square of this many numbers are 0.6 GB


class LandmarkSpline(Transform):
    """``x -> x + A x + b + sum_i G(|x - p_i|) w_i``, whose weights interpolate landmarks.

    ``G(r)`` is ``r`` (ThinPlateSpline), ``r^2 log r`` (ThinPlateR2LogRSpline) or ``r^3`` (VolumeSpline). The source
    (m, d) are the fixed landmarks ``p_i``, the target where they go; a ``stiffness`` above 0 smooths.
    """

    def __init__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        kernel: str = "ThinPlateSpline",
        *,
        stiffness: float = 0.0,
        units: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        from scipy.interpolate import RBFInterpolator

        fixed = np.array(source, dtype=np.float64)
        moving = np.array(target, dtype=np.float64)
        if fixed.ndim != 2 or fixed.shape != moving.shape or fixed.shape[1] not in (2, 3):
            raise InvalidInputError(
                f"A spline through landmarks needs two equal (m, d) arrays, got {fixed.shape}, {moving.shape}."
            )
        if kernel not in _KERNELS:
            raise InvalidInputError(f"There is no spline kernel {kernel[:60]!r}; there are {', '.join(_KERNELS)}.")
        if not (np.isfinite(fixed).all() and np.isfinite(moving).all() and np.isfinite(stiffness)):
            raise InvalidInputError("A spline through landmarks needs finite numbers, but some are not.")
        count, d = fixed.shape
        if fixed.size > _LARGEST:
            raise InvalidInputError(
                f"A spline through {count} landmarks needs a matrix too large to solve; at most {_LARGEST // d} are "
                f"taken."
            )
        super().__init__(d, f"{kernel} through {count} landmarks", units=units, notes=notes)
        name, sign = _KERNELS[kernel]
        try:
            self._spline = RBFInterpolator(fixed, moving - fixed, kernel=name, degree=1, smoothing=sign * stiffness)
            solved = bool(np.isfinite(self._spline(fixed)).all())
        except (np.linalg.LinAlgError, ValueError):
            solved = False
        if not solved:
            raise InvalidInputError(
                f"No spline goes through these {count} landmarks: some coincide, or all lie on a line or a plane."
            )

    def _map(self, points: Floats) -> Floats:
        mapped = np.full(points.shape, np.nan)
        finite = np.isfinite(points).all(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            mapped[finite] = points[finite] + self._spline(points[finite])
        mapped[~np.isfinite(mapped).all(axis=1)] = np.nan
        return mapped


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
