"""The moving image as a transform brings it onto the fixed one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps.dense import POINTS, defined_rows, mapping

_COARSER = 1.001  # a level counts as fine enough up to rounding


def fitting_level(image: Image, spacing: float) -> int:
    """Coarsest level of an image whose spacing does not exceed ``spacing`` along any axis; level 0 if none."""
    fitting = [k for k in range(image.levels) if image.level_grid(k).spacing.max() <= _COARSER * spacing]
    return max(fitting, default=0)


def warped_image(moving: Image | tuple[NDArray[Any], Grid], transform: Any, grid: Grid) -> Floats:
    """Sample the moving image linearly at ``transform(x)`` for every element x of a grid of the fixed image.

    Of an `Image`, the coarsest level is read that is at least as fine as ``grid``. The transform maps fixed to moving
    world points, a posterior by its mean; or it is the (grid.count, d) array of the points of the grid, already mapped.
    NaN outside the transform's domain and outside the moving image.
    """
    from scipy import ndimage

    if isinstance(moving, Image):
        level = fitting_level(moving, float(grid.spacing.min()))
        samples = np.asarray(moving.read(level))
        frame = moving.level_grid(level)
    else:
        samples = np.asarray(moving[0])
        frame = moving[1]
    if samples.shape[: frame.d] != frame.shape or samples.ndim > frame.d + 1 or frame.d != grid.d:
        raise InvalidInputError(
            f"A moving image of shape {samples.shape} does not fit its grid {frame.shape} and the fixed {grid.d}D grid."
        )
    known = transform if isinstance(transform, np.ndarray) and transform.shape == (grid.count, grid.d) else None
    apply = mapping(transform, "warped_image", grid.d).map if known is None else None
    channels = samples.reshape(*frame.shape, -1)
    out = np.full((grid.count, channels.shape[-1]), np.nan)
    for start in range(0, grid.count, POINTS):
        stop = min(start + POINTS, grid.count)
        mapped = known[start:stop] if apply is None else apply(grid.points(start, stop))  # type: ignore[index]
        rows = np.flatnonzero(defined_rows(mapped))
        rows = rows[frame.contains(mapped[rows])]
        at = frame.array_coordinates(mapped[rows])
        for channel in range(channels.shape[-1]):
            # "nearest" serves the half pixel between the outer centres and the image's edge only.
            out[start + rows, channel] = ndimage.map_coordinates(
                channels[..., channel], at, output=np.float64, order=1, mode="nearest"
            )
    return out.reshape(*grid.shape, -1) if samples.ndim > frame.d else out.reshape(grid.shape)
