"""Scaling and squaring of a velocity field at the nodes of a grid, in index units (see `compiled` for the layout)."""

from __future__ import annotations

import math

import numpy as np

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.parallel import over_rows
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.simulate.compiled import evaluate_field, step_nodes

COST = 200  # about the cost of one point beside that of one kernel value, for sharing it out over threads
_FIRST_STEP = 0.1  # longest first step, in pixels
_FIRST_CHANGE = 0.05  # largest change of the velocity over one pixel in the first step
_SPARE = 2  # nodes beyond the farthest that a point of the image can leave it


def squarings_needed(dense: Floats, grid: Grid) -> int:
    """Return how often to square so that the first step is short in pixels and changes little from pixel to pixel."""
    speed = math.sqrt(float(np.square(dense).sum(axis=1).max()))
    on_grid = dense.reshape(*grid.shape, grid.d)
    change = max(float(np.abs(np.diff(on_grid, axis=a)).max()) for a in range(grid.d))
    steps = max(speed / _FIRST_STEP, change / _FIRST_CHANGE, 1.0)
    return max(5, math.ceil(math.log2(steps)))


def excursions(dense: Floats, grid: Grid) -> Ints:
    """Nodes by which the grid must be enlarged along x, y[, z] for no point of the image to leave it.

    Beyond a face the velocity is that of the nearest point of the face, so nothing gets farther out in unit time than
    the largest velocity across that face.
    """
    on_grid = dense.reshape(*grid.shape, grid.d)
    farthest = np.empty(grid.d)
    for a in range(grid.d):
        faces = np.take(on_grid[..., a], [0, -1], axis=grid.d - 1 - a)
        farthest[a] = np.abs(faces).max()
    if (farthest > grid.size).any():
        raise InvalidInputError(
            f"The velocity carries points of the border up to {farthest.max():.4g} pixels out of an image of "
            f"{' x '.join(map(str, grid.size))}; take a smaller amplitude (it is in world units), or a mask."
        )
    return np.ceil(farthest).astype(np.int64) + _SPARE


def padded(dense: Floats, grid: Grid, pad: Ints) -> Floats:
    """Continue the velocity beyond the border with that of the nearest border point."""
    around = [(int(p), int(p)) for p in pad[::-1]]
    whole = np.pad(dense.reshape(*grid.shape, grid.d), [*around, (0, 0)], mode="edge")
    return whole.reshape(-1, grid.d)


def flow(velocity: Floats, size: Ints, squarings: int) -> Floats:
    """Displacements of the flow after unit time; overwrites ``velocity``, which serves as the second buffer."""
    h = 2.0**-squarings
    current = np.empty_like(velocity)
    _step(velocity, size, (0.0, h / 2, h), current)
    other = velocity
    for _ in range(squarings):
        _step(current, size, (1.0, 1.0, 1.0), other)
        current, other = other, current
    return current


def _step(field: Floats, size: Ints, factors: tuple[float, float, float], out: Floats) -> None:
    over_rows(lambda a, b: step_nodes(field, size, *factors, a, b, out), len(field), COST)


def evaluated(field: Floats, size: Ints, points_index: Floats) -> Floats:
    """Return the interpolated vectors at (n, d) indices."""
    out = np.empty(points_index.shape)
    points = np.ascontiguousarray(points_index)
    over_rows(lambda a, b: evaluate_field(field, size, points, a, b, out), len(points), COST)
    return out
