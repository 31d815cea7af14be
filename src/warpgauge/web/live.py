"""The warped image in a view, updated during a drag: a part of a plane, with a mark that is not stored yet."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.core.annotations import Annotations
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.web.planes import in_plane

STEP = 8  # elements between the points at which the mean is computed


class Mean(Protocol):
    """What maps fixed to moving points: a posterior, or an alignment."""

    def mean(self, points: Floats, /) -> Floats:
        """Map points."""


def part_of_plane(grid: Grid, axis: int, part: tuple[int, int, int, int]) -> Grid:
    """Return the grid of some columns and rows of a plane.

    Parameters
    ----------
    grid : Grid
        Of one plane, as `plane_grid` gives it.
    axis : int
    part : tuple
        First column, first row, columns, rows; must lie within the plane.
    """
    column, row = in_plane(grid.d, axis)
    x, y, columns, rows = part
    inside = x >= 0 and y >= 0 and columns > 0 and rows > 0
    if not inside or x + columns > grid.size[column] or y + rows > grid.size[row]:
        raise InvalidInputError(
            f"The plane has {grid.size[column]} columns and {grid.size[row]} rows; {columns} x {rows} from column {x}, "
            f"row {y} on is not a part of it."
        )
    start, size = np.zeros(grid.d), list(grid.size)
    start[column], start[row] = x, y
    size[column], size[row] = columns, rows
    return Grid(tuple(size), grid.spacing, grid.index_to_world(start), grid.direction, grid.units)


def with_mark(posterior: Posterior, fixed: Floats, moving: Floats, covariance: Floats) -> Posterior:
    """Return the posterior given one more mark; it takes the place of one at the same fixed point."""
    further = Annotations(fixed[None], moving[None], covariance[None])
    known = posterior.annotations
    same = np.flatnonzero(np.all(np.isclose(known.fixed_points, fixed, rtol=0, atol=1e-6), axis=1))
    if len(same):
        others = known.without(int(same[0]))
        posterior = posterior.prior.condition(others, calibrate=posterior.calibrates)
    return posterior.append(further)


def warped_plane(
    source: tuple[NDArray[Any], Grid], posterior: Mean, grid: Grid, axis: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Sample the moving image at the posterior mean of a plane of the fixed image, and say where it has a sample.

    The mean is computed at every eighth element and interpolated linearly between, for pictures that change while a
    hand moves. Figures and files come from `warpgauge.maps.warped_image`.

    Parameters
    ----------
    source : (array, Grid)
        A level of the moving image.
    posterior : Mean
    grid : Grid
        Of the plane, or of a part of it.
    axis : int

    Returns
    -------
    values : (rows, columns) or (rows, columns, channels) array
    within : (rows, columns) array of bool
    """
    samples, frame = source
    column, row = in_plane(grid.d, axis)
    across, down = _spread(grid.size[column]), _spread(grid.size[row])
    index = np.zeros((down.shape[1], across.shape[1], grid.d))
    index[..., column] = np.linspace(0, grid.size[column] - 1, across.shape[1])
    index[..., row] = np.linspace(0, grid.size[row] - 1, down.shape[1])[:, None]
    mapped = posterior.mean(grid.index_to_world(index.reshape(-1, grid.d)))
    coarse = frame.array_coordinates(mapped).reshape(grid.d, *index.shape[:2])
    at = np.stack([down @ one @ across.T for one in coarse])
    sizes = np.array(frame.shape).reshape(-1, 1, 1)
    within = np.asarray(np.all((at >= -0.5) & (at <= sizes - 0.5), axis=0))
    channels = samples.reshape(*frame.shape, -1)
    values = np.stack(
        [
            ndimage.map_coordinates(channels[..., c], at, output=np.float32, order=1, mode="nearest")
            for c in range(channels.shape[-1])
        ],
        axis=-1,
    )
    return (values if samples.ndim > frame.d else values[..., 0]), within


def _spread(count: int) -> Floats:
    """Weights that interpolate linearly from points about `STEP` elements apart to all of them, (count, points)."""
    points = max(2, int(np.ceil((count - 1) / STEP)) + 1)
    at = np.linspace(0, points - 1, count) if count > 1 else np.zeros(1)
    return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(points)))
