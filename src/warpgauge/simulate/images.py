"""Images deformed by a known deformation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import map_coordinates

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order
from warpgauge.io.transforms import Transform
from warpgauge.io.transforms.lattice import BORDER

_BLOCK = 2**18


def warp_image(array: ArrayLike, grid: Grid, deformation: Transform, *, fill: float = 0) -> NDArray[Any]:
    """Deform an image, so that what is seen at ``x`` in the fixed image is seen at ``phi(x)`` in the result.

    ``moving(y) = array(phi^-1(y))``: each element of the result is sampled from the given image, which is aligned
    with the fixed one (another stain or modality of it, or itself), by linear interpolation. An integer image stays of
    its type, rounded to the nearest integer. ``grid`` is that of the array, which may have one more axis of channels,
    and of the result. ``fill`` is the value where the origin lies beyond the outer pixel centres of ``grid`` or of the
    deformation's grid.
    """
    image = np.asarray(array)
    kind = image.dtype
    if image.shape[: grid.d] != grid.shape or image.ndim > grid.d + 1:
        raise InvalidInputError(
            f"The image must have the shape {grid.shape} of its grid, and at most one axis of channels more, "
            f"got {image.shape}."
        )
    if grid.d != deformation.d:
        raise InvalidInputError(f"A {deformation.d}D deformation cannot warp an image on a {grid.d}D grid.")
    if kind.kind not in "iuf" or kind == np.float16:
        raise InvalidInputError(f"warp_image takes integers, float32 and float64, got {kind}.")
    if kind.kind != "f":
        low, high = (np.iinfo(kind).min, np.iinfo(kind).max)
        if not (np.isfinite(fill) and fill == int(fill) and low <= fill <= high):
            raise InvalidInputError(
                f"The fill value {fill!r} cannot be stored in an image of type {kind}; choose another."
            )
    channels = np.moveaxis(image.reshape(*grid.shape, -1), -1, 0)
    sources = [np.ascontiguousarray(channel) for channel in channels]
    warped = np.full((grid.count, len(channels)), fill, dtype=kind)
    inverse = deformation.inverse()
    last = np.asarray(grid.size) - 1
    for rows, points in grid.blocks(_BLOCK):
        index = grid.world_to_index(inverse.map(points))
        inside = ((index >= -BORDER) & (index <= last + BORDER)).all(axis=1)  # NaN is not
        # What lies within the rounding of the border is put on it.
        coordinates = np.ascontiguousarray(array_order(np.clip(index[inside], 0, last)).T)
        for channel, source in enumerate(sources):
            values = map_coordinates(source, coordinates, output=np.float64, order=1, mode="mirror")
            warped[rows, channel][inside] = values if kind.kind == "f" else np.rint(values)
    return warped.reshape(image.shape)
