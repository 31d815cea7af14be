"""Stationary velocity fields from a random control grid, as in section IV-A of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import distance_transform_edt, map_coordinates

from warpgauge.core.arrays import Floats, readonly
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order


@dataclass(frozen=True, eq=False)
class VelocityField:
    """``v(x) = w(x) * sum_j b_j(x) c_j``: vectors ``c_j`` at control points, multilinear between them, times a weight.

    The field is stationary and acts for one unit of time, so a velocity is in world units too. Beyond the outer pixel
    centres of ``grid`` it goes on with the value of the nearest border point, so that the flow of a point near the
    border is well defined.

    Parameters
    ----------
    grid : Grid
        The fixed image's grid.
    control_grid : Grid
        Where the control points stand; covers ``grid``.
    control_vectors : (d, [z, ]y, x) array
        World components x, y[, z] first.
    weight : array of ``grid.shape``, optional
        Factor in [0, 1] at the pixel centres, multilinear between them; 1 everywhere by default.
    """

    grid: Grid
    control_grid: Grid
    control_vectors: Floats
    weight: Floats | None = None

    def __post_init__(self) -> None:
        grid = self.grid
        control = self.control_grid
        vectors = np.array(self.control_vectors, dtype=np.float64)
        if min(grid.size) < 2:
            raise InvalidInputError(
                f"A deformation needs a grid of at least 2 elements along each axis, got {grid.size}."
            )
        if control.d != grid.d or vectors.shape != (grid.d, *control.shape):
            raise InvalidInputError(
                f"control_vectors must have shape {(grid.d, *control.shape)} (components first), got {vectors.shape}."
            )
        if not np.isfinite(vectors).all():
            raise InvalidInputError("control_vectors must be finite, but some are NaN or infinite.")
        ends = np.stack(np.meshgrid(*([0, n - 1] for n in grid.size), indexing="ij"), axis=-1).reshape(-1, grid.d)
        corners = control.world_to_index(grid.index_to_world(ends))
        if (corners < -1e-6).any() or (corners > np.asarray(control.size) - 1 + 1e-6).any():
            raise InvalidInputError(
                "The control grid does not cover the image's grid; take more control points or move its origin."
            )
        object.__setattr__(self, "control_vectors", readonly(vectors))
        if self.weight is not None:
            weight = np.array(self.weight, dtype=np.float64)
            if weight.shape != grid.shape or not ((weight >= 0) & (weight <= 1)).all():
                raise InvalidInputError(
                    f"The weight of a velocity must have the grid's shape {grid.shape} and values in [0, 1], "
                    f"got shape {weight.shape}."
                )
            object.__setattr__(self, "weight", readonly(weight))

    def at(self, points_world: ArrayLike) -> Floats:
        """Velocity at (n, d) world points, world components."""
        index = np.clip(self.grid.world_to_index(points_world), 0, np.asarray(self.grid.size) - 1)
        coordinates = self.control_grid.array_coordinates(self.grid.index_to_world(index))
        # "nearest" matters only for the rounding of coordinates on the border: the control grid covers the image.
        values = [map_coordinates(part, coordinates, order=1, mode="nearest") for part in self.control_vectors]
        velocity = np.stack(values, axis=-1)
        if self.weight is not None:
            coordinates = np.ascontiguousarray(array_order(index).T)
            velocity *= map_coordinates(self.weight, coordinates, order=1, mode="nearest")[:, None]
        return velocity


def random_velocity(
    grid: Grid,
    amplitude: float,
    spacing: float | Sequence[float],
    seed: int,
    mask: ArrayLike | None = None,
    *,
    taper: float | None = None,
) -> VelocityField:
    """Draw a velocity field from a random control grid.

    Linear interpolation averages neighbours, so between control points the variance is smaller: at the centre of a cell
    by ``2^-d``, on average over a cell by ``(2/3)^d``.

    Parameters
    ----------
    grid : Grid
        The fixed image's grid.
    amplitude : float
        Standard deviation of each component of the control velocities, independent and normal, in world units per unit
        time; the flow lasts one unit.
    spacing : float or sequence of float
        Distance between control points in world units, along the image's axes x, y[, z] if several.
    seed : int
    mask : array of ``grid.shape``, optional
        Where the image may move, nonzero. The velocity is full in the mask and falls linearly to zero over the
        distance ``taper`` beyond it: Euclidean, in world units, between pixel centres.
    taper : float, optional
        Width of the fall, in world units; the (smallest) control spacing by default.
    """
    d = grid.d
    steps = np.asarray(spacing, dtype=np.float64)
    steps = np.full(d, steps) if steps.ndim == 0 else steps
    if steps.shape != (d,) or not (np.isfinite(steps) & (steps > 0)).all():
        raise InvalidInputError(f"spacing must be one positive number or {d} of them, got {spacing!r}.")
    if not (np.isfinite(amplitude) and amplitude >= 0):
        raise InvalidInputError(f"amplitude must be a standard deviation of 0 or more, got {amplitude!r}.")
    control_grid = _control_grid(grid, steps)
    draws = checked_rng(seed).standard_normal((d, *control_grid.shape))
    weight = None if mask is None else _taper(grid, mask, float(steps.min()) if taper is None else taper)
    return VelocityField(grid, control_grid, amplitude * draws, weight)


def checked_rng(seed: int, *stream: int) -> np.random.Generator:
    """Return a generator that depends on the seed and, if given, on the numbers of an independent stream of it."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInputError(f"seed must be an integer of 0 or more, got {seed!r}.")
    # A spawn key, not a longer list of seeds: numpy takes [5], [5, 0] and [5, 0, 0] for the same seed.
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=stream))


def _control_grid(grid: Grid, steps: Floats) -> Grid:
    """Fewest control points at the given distances that cover the outer pixel centres, about centred on the image.

    The first one stands on a whole index: where the spacing is a multiple of the pixel's, all of them stand on pixel
    centres, and sampling the velocity there loses none of its kinks.
    """
    extent = (np.asarray(grid.size) - 1) * grid.spacing
    # An extent that is a multiple of the spacing but for rounding needs no further point.
    size = np.maximum(np.ceil(extent / steps - 1e-9).astype(int) + 1, 2)
    first = np.ceil((extent - (size - 1) * steps) / 2 / grid.spacing - 1e-9)
    return Grid(tuple(size.tolist()), steps, grid.index_to_world(first), grid.direction, grid.units)


def _taper(grid: Grid, mask: ArrayLike, width: float) -> Floats:
    inside = np.asarray(mask) != 0
    if inside.shape != grid.shape:
        raise InvalidInputError(f"The mask must have the grid's shape {grid.shape}, got {inside.shape}.")
    if not inside.any():
        raise InvalidInputError("The mask is empty, so nothing would move; give one with nonzero elements.")
    if not (np.isfinite(width) and width > 0):
        raise InvalidInputError(f"taper must be a positive width in world units, got {width!r}.")
    if inside.all():
        return np.ones(grid.shape)
    distances = distance_transform_edt(~inside, sampling=array_order(grid.spacing))
    return np.asarray(np.clip(1 - distances / width, 0, 1))
