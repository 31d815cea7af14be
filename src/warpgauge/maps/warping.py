"""Pictures of a transform's effect: the warped moving image, and a deformed grid of lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps.blocks import POINTS, Progress, defined_rows, point_function

_COARSER = 1.001  # a level counts as fine enough up to rounding


def fitting_level(image: Image, spacing: float) -> int:
    """Coarsest level of an image whose spacing does not exceed ``spacing`` along any axis; level 0 if none."""
    fitting = [k for k in range(image.levels) if image.level_grid(k).spacing.max() <= _COARSER * spacing]
    return max(fitting, default=0)


def warped_image(
    moving: Image | tuple[NDArray[Any], Grid],
    transform: Any,
    grid: Grid,
    *,
    order: int = 1,
    progress: Progress | None = None,
) -> Floats:
    """Sample the moving image at ``transform(x)`` for every element x of a grid of the fixed image.

    Parameters
    ----------
    moving : Image, or (array, Grid)
        Of an `Image`, the coarsest level is read that is at least as fine as ``grid``.
    transform : Transform, Posterior or callable
        Maps fixed to moving world points; a posterior by its mean.
    grid : Grid
    order : {0, 1}
        Nearest or linear interpolation.
    progress : callable, optional

    Returns
    -------
    (*grid.shape) or (*grid.shape, 3) array
        NaN outside the transform's domain and outside the moving image.
    """
    from scipy import ndimage

    if order not in (0, 1):
        raise InvalidInputError(f"warped_image interpolates with order 0 or 1, got {order!r}.")
    if isinstance(moving, Image):
        level = fitting_level(moving, float(grid.spacing.min()))
        samples, frame = np.asarray(moving.read(level)), moving.level_grid(level)
    else:
        samples, frame = np.asarray(moving[0]), moving[1]
    if samples.shape[: frame.d] != frame.shape or samples.ndim > frame.d + 1 or frame.d != grid.d:
        raise InvalidInputError(
            f"A moving image of shape {samples.shape} does not fit its grid {frame.shape} and the fixed {grid.d}D grid."
        )
    apply = point_function(transform, "warped_image")
    channels = samples.reshape(*frame.shape, -1)
    out = np.full((grid.count, channels.shape[-1]), np.nan)
    for start in range(0, grid.count, POINTS):
        stop = min(start + POINTS, grid.count)
        mapped = apply(grid.points(start, stop))
        rows = np.flatnonzero(defined_rows(mapped))
        rows = rows[frame.contains(mapped[rows])]
        at = frame.array_coordinates(mapped[rows])
        for channel in range(channels.shape[-1]):
            # "nearest" serves the half pixel between the outer centres and the image's edge only.
            out[start + rows, channel] = ndimage.map_coordinates(
                channels[..., channel], at, output=np.float64, order=order, mode="nearest"
            )
        if progress is not None:
            progress(stop, grid.count)
    return out.reshape(*grid.shape, -1) if samples.ndim > frame.d else out.reshape(grid.shape)


def deformation_grid(transform: Any, grid: Grid, *, lines: int = 20, steps: int = 200) -> list[Floats]:
    """Lines of a regular grid over the fixed image, mapped into the moving image.

    Parameters
    ----------
    transform : Transform, Posterior or callable
    grid : Grid
        Its extent is covered; 3D grids give the lines of their three middle planes.
    lines : int
        Along the longest axis; the distance between lines is the same along every axis.
    steps : int
        Points on a line of the longest axis.

    Returns
    -------
    list of (m, d) arrays
        Moving world points; NaN rows where the transform is not defined interrupt a line.
    """
    if lines < 2 or steps < 2:
        raise InvalidInputError(f"A deformation grid needs at least 2 lines of 2 steps, got {lines} and {steps}.")
    apply = point_function(transform, "deformation_grid")
    extent = (np.asarray(grid.size) - 1).astype(np.float64)
    lengths = extent * grid.spacing
    distance = lengths.max() / (lines - 1)
    places = [np.linspace(0, e, max(2, round(n / distance) + 1)) for e, n in zip(extent, lengths, strict=True)]
    result = []
    for along, across in [(a, b) for a in range(grid.d) for b in range(grid.d) if a != b]:
        count = max(2, round(steps * lengths[along] / lengths.max()))
        for place in places[across]:
            index = np.tile(extent / 2, (count, 1))
            index[:, along] = np.linspace(0, extent[along], count)
            index[:, across] = place
            line = apply(grid.index_to_world(index)).copy()
            line[~defined_rows(line)] = np.nan
            result.append(line)
    return result
