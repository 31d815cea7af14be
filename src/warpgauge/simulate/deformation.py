"""Deformations that are known exactly: the flow of a random velocity, as a displacement field."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, Ints
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import DisplacementField
from warpgauge.simulate.velocity import VelocityField, random_velocity

_FIRST_STEP = 0.1  # longest first step, in pixels
_FIRST_CHANGE = 0.05  # largest change of the velocity over one pixel in the first step
_SPARE = 2  # nodes beyond the farthest that a point of the image can leave it


def random_deformation(
    grid: Grid,
    amplitude: float,
    spacing: float | Sequence[float],
    seed: int,
    mask: ArrayLike | None = None,
    *,
    taper: float | None = None,
    allow_folding: bool = False,
) -> DisplacementField:
    """Draw a velocity as `random_velocity` does and return its flow, see `deformation_of`.

    Examples
    --------
    >>> from warpgauge import Grid
    >>> phi = random_deformation(Grid((60, 50)), amplitude=2.0, spacing=20.0, seed=0)
    >>> phi.map([[30.0, 25.0]]).shape
    (1, 2)
    """
    return deformation_of(random_velocity(grid, amplitude, spacing, seed, mask, taper=taper), allow_folding)


def deformation_of(velocity: VelocityField, allow_folding: bool = False) -> DisplacementField:
    """Return the flow of a stationary velocity after one unit of time; it maps fixed to moving points.

    The velocity is sampled at the pixel centres and integrated by scaling and squaring on a grid that is enlarged by
    as much as points can leave the image. The displacements at the pixel centres, linear between them, *are* the true
    transformation from then on. Where pixels fold that is an error, which states their share, unless it is allowed.
    """
    grid = velocity.grid
    world_to_index = np.linalg.inv(grid.direction).T / grid.spacing
    index_velocity = (velocity.at(grid.points()) @ world_to_index).T.reshape(grid.d, *grid.shape)
    displacements = _flow(index_velocity, _excursions(index_velocity))
    # Central differences, one-sided at the border; the gradients are along [z, ]y, x, the components x first.
    gradients = np.stack([np.stack(np.gradient(part)[::-1], axis=-1) for part in displacements], axis=-2)
    folded = float(np.mean(np.linalg.det(gradients + np.eye(grid.d)) <= 0))
    if folded > 0 and not allow_folding:
        raise InvalidInputError(
            f"The deformation folds at {100 * folded:.3g} % of the pixels; take a smaller amplitude or a larger "
            "control spacing, or allow_folding=True."
        )
    world = (displacements.reshape(grid.d, -1).T * grid.spacing) @ grid.direction.T
    vectors = np.ascontiguousarray(world.T).reshape(grid.d, *grid.shape)
    note = (
        f"A stationary velocity field was integrated by scaling and squaring; {100 * folded:.3g} % of the pixels are "
        "folded."
    )
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
            f"{' x '.join(map(str, shape[::-1]))}; take a smaller amplitude (it is in world units), or a mask."
        )
    return np.asarray(np.ceil(farthest).astype(np.int64) + _SPARE)


def _flow(velocity: Floats, pad: Ints) -> Floats:
    """Displacements of the flow of a velocity after unit time, both (d, [z, ]y, x) in index units, x first.

    A midpoint step of length ``2^-n`` is composed with itself n times. The first step is short in pixels and changes
    little from pixel to pixel.
    """
    from scipy.ndimage import map_coordinates

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
