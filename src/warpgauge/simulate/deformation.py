"""Deformations that are known exactly: the flow of a random velocity, as a displacement field (section IV-A)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import map_coordinates

from warpgauge.core.arrays import Floats, Ints
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import DisplacementField

_FIRST_STEP = 0.1  # longest first step, in pixels
_FIRST_CHANGE = 0.05  # largest change of the velocity over one pixel in the first step
_SPARE = 2  # nodes beyond the farthest that a point of the image can leave it


def random_deformation(grid: Grid, amplitude: float, spacing: float | Sequence[float], seed: int) -> DisplacementField:
    """Draw a velocity as `random_velocity` does and return its flow, see `deformation_of`.

    Examples
    --------
    >>> from warpgauge import Grid
    >>> phi = random_deformation(Grid((60, 50)), amplitude=2.0, spacing=20.0, seed=0)
    >>> phi.map([[30.0, 25.0]]).shape
    (1, 2)
    """
    return deformation_of(random_velocity(grid, amplitude, spacing, seed), grid)


def random_velocity(grid: Grid, amplitude: float, spacing: float | Sequence[float], seed: int) -> Floats:
    """Draw velocities at the pixel centres, (d, [z, ]y, x) world components, linear between random control points.

    Linear interpolation averages neighbours, so between control points the variance is smaller: at the centre of a cell
    by ``2^-d``, on average over a cell by ``(2/3)^d``. ``amplitude`` is the standard deviation of each component of the
    control velocities, independent and normal, in world units per unit time (the flow lasts one unit), ``spacing`` the
    distance between control points in world units, along the image's axes x, y[, z] if several.
    """
    d = grid.d
    steps = np.asarray(spacing, dtype=np.float64)
    steps = np.full(d, steps) if steps.ndim == 0 else steps
    if steps.shape != (d,) or not (np.isfinite(steps) & (steps > 0)).all():
        raise InvalidInputError(f"spacing must be one positive number or {d} of them, got {spacing!r}.")
    if not (np.isfinite(amplitude) and amplitude >= 0):
        raise InvalidInputError(f"amplitude must be a standard deviation of 0 or more, got {amplitude!r}.")
    control_grid = _control_grid(grid, steps)
    control = amplitude * checked_rng(seed).standard_normal((d, *control_grid.shape))
    at = control_grid.array_coordinates(grid.points())
    # "nearest" matters only for the rounding of coordinates on the border: the control grid covers the image.
    return np.stack([map_coordinates(part, at, order=1, mode="nearest").reshape(grid.shape) for part in control])


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


def deformation_of(velocity: Floats, grid: Grid) -> DisplacementField:
    """Return the flow of a stationary velocity after one unit of time; it maps fixed to moving points.

    The velocity, (d, [z, ]y, x) world components at the pixel centres, is integrated by scaling and squaring on a grid
    that is enlarged by as much as points can leave the image; beyond the image it is that of the nearest border point.
    The displacements at the pixel centres, linear between them, *are* the true transformation from then on. Where
    pixels fold that is an error, which states their share.
    """
    if min(grid.size) < 2:
        raise InvalidInputError(f"A deformation needs a grid of at least 2 elements along each axis, got {grid.size}.")
    if velocity.shape != (grid.d, *grid.shape) or not np.isfinite(velocity).all():
        raise InvalidInputError(
            f"A velocity must be finite and of shape {(grid.d, *grid.shape)} (components first), got {velocity.shape}."
        )
    world_to_index = np.linalg.inv(grid.direction).T / grid.spacing
    index_velocity = (velocity.reshape(grid.d, -1).T @ world_to_index).T.reshape(velocity.shape)
    displacements = _flow(index_velocity, _excursions(index_velocity))
    # Central differences, one-sided at the border; the gradients are along [z, ]y, x, the components x first.
    gradients = np.stack([np.stack(np.gradient(part)[::-1], axis=-1) for part in displacements], axis=-2)
    folded = float(np.mean(np.linalg.det(gradients + np.eye(grid.d)) <= 0))
    if folded > 0:
        raise InvalidInputError(
            f"The deformation folds at {100 * folded:.3g} % of the pixels; take a smaller amplitude or a larger "
            "control spacing."
        )
    world = (displacements.reshape(grid.d, -1).T * grid.spacing) @ grid.direction.T
    vectors = np.ascontiguousarray(world.T).reshape(grid.d, *grid.shape)
    note = "A stationary velocity field was integrated by scaling and squaring; 0 % of the pixels are folded."
    return DisplacementField(vectors, grid, kind="simulated deformation", notes=[note])


def _excursions(velocity: Floats) -> Ints:
    """Nodes by which the grid must be enlarged along [z, ]y, x for no point of the image to leave it.

    Beyond a face the velocity is that of the nearest point of the face, so nothing gets farther out in unit time than
    the largest velocity across that face.
    """
    d, *shape = velocity.shape
    farthest = np.array([np.abs(np.take(velocity[d - 1 - axis], [0, -1], axis=axis)).max() for axis in range(d)])
    if (farthest > shape).any():
        raise InvalidInputError(
            f"The velocity carries points of the border up to {farthest.max():.4g} pixels out of an image of "
            f"{' x '.join(map(str, shape[::-1]))}; take a smaller amplitude (it is in world units)."
        )
    return np.asarray(np.ceil(farthest).astype(np.int64) + _SPARE)


def _flow(velocity: Floats, pad: Ints) -> Floats:
    """Displacements of the flow of a velocity after unit time, both (d, [z, ]y, x) in index units, x first.

    A midpoint step of length ``2^-n`` is composed with itself n times. The first step is short in pixels and changes
    little from pixel to pixel.
    """
    speed = math.sqrt(float(np.square(velocity).sum(axis=0).max()))
    change = max(float(np.abs(np.diff(velocity, axis=axis)).max()) for axis in range(1, velocity.ndim))
    squarings = max(5, math.ceil(math.log2(max(speed / _FIRST_STEP, change / _FIRST_CHANGE, 1.0))))
    image = tuple(slice(int(nodes), int(nodes) + n) for nodes, n in zip(pad, velocity.shape[1:], strict=True))
    velocity = np.pad(velocity, [(0, 0), *((int(nodes), int(nodes)) for nodes in pad)], mode="edge")
    places = np.indices(velocity.shape[1:], dtype=np.float64)

    def moved(field: Floats, displacements: Floats) -> Floats:
        at = places + displacements[::-1]
        return np.stack([map_coordinates(part, at, order=1, mode="nearest") for part in field])

    step = 2.0**-squarings
    displacements = step * moved(velocity, step / 2 * velocity)
    for _ in range(squarings):
        displacements = displacements + moved(displacements, displacements)
    return np.ascontiguousarray(displacements[:, *image])
