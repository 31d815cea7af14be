"""Images deformed by a known deformation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import map_coordinates, spline_filter

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order
from warpgauge.io.transforms import Transform
from warpgauge.io.transforms.lattice import BORDER

_BLOCK = 2**18


def warp_image(
    array: ArrayLike,
    grid: Grid,
    deformation: Transform,
    *,
    moving_grid: Grid | None = None,
    order: int = 1,
    fill: float = 0,
) -> NDArray[Any]:
    """Deform an image, so that what is seen at ``x`` in the fixed image is seen at ``phi(x)`` in the result.

    ``moving(y) = array(phi^-1(y))``: each element of the result is sampled from the given image, which is aligned
    with the fixed one (another stain or modality of it, or itself).

    Parameters
    ----------
    array : array of ``grid.shape``, or of that and one more axis of channels
    grid : Grid
        Of ``array``; need not be that of the deformation.
    deformation : Transform
        Maps fixed to moving points.
    moving_grid : Grid, optional
        Of the result; ``grid`` by default.
    order : {0, 1, 3}
        Nearest element (for labels), linear, or cubic. An integer image stays of its type with 0 and 1 (rounded to
        the nearest integer); a cubic may overshoot, so that an integer image comes back as float64.
    fill : float
        Value of elements whose origin lies beyond the outer pixel centres of ``grid`` or of the deformation's grid.
    """
    image = np.asarray(array)
    target = grid if moving_grid is None else moving_grid
    _check(image, grid, target, deformation, order)
    kind = np.dtype(np.float64) if order == 3 and image.dtype.kind != "f" else image.dtype
    if kind.kind != "f":
        low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
        if not (np.isfinite(fill) and fill == int(fill) and low <= fill <= high):
            raise InvalidInputError(
                f"The fill value {fill!r} cannot be stored in an image of type {kind}; choose another."
            )
    channels = np.moveaxis(image.reshape(*grid.shape, -1), -1, 0)
    sources = [np.ascontiguousarray(channel) for channel in channels]
    if order == 3:
        sources = [spline_filter(source, order=3, output=np.float64, mode="mirror") for source in sources]
    warped = np.full((target.count, len(channels)), fill, dtype=kind)
    inverse = deformation.inverse()
    last = np.asarray(grid.size) - 1
    for rows, points in target.blocks(_BLOCK):
        index = grid.world_to_index(inverse.map(points))
        inside = ((index >= -BORDER) & (index <= last + BORDER)).all(axis=1)  # NaN is not
        # What lies within the rounding of the border is put on it.
        coordinates = np.ascontiguousarray(array_order(np.clip(index[inside], 0, last)).T)
        for channel, source in enumerate(sources):
            warped[rows, channel][inside] = _sampled(source, coordinates, order, kind)
    return warped.reshape(*target.shape, *image.shape[grid.d :])


def _sampled(source: NDArray[Any], coordinates: NDArray[Any], order: int, kind: np.dtype[Any]) -> NDArray[Any]:
    if order == 0:  # by index rather than by a spline of degree 0, which would take labels through float64
        return np.asarray(source[tuple(np.rint(coordinates).astype(np.intp))])
    values = map_coordinates(source, coordinates, output=np.float64, order=order, mode="mirror", prefilter=False)
    return np.asarray(np.rint(values) if kind.kind in "iu" else values)


def _check(image: NDArray[Any], grid: Grid, target: Grid, deformation: Transform, order: int) -> None:
    if image.shape[: grid.d] != grid.shape or image.ndim > grid.d + 1:
        raise InvalidInputError(
            f"The image must have the shape {grid.shape} of its grid, and at most one axis of channels more, "
            f"got {image.shape}."
        )
    if grid.d != deformation.d or target.d != deformation.d:
        raise InvalidInputError(f"A {deformation.d}D deformation cannot warp an image on a {grid.d}D grid.")
    if order not in (0, 1, 3):
        raise InvalidInputError(f"order must be 0 (nearest), 1 (linear) or 3 (cubic), got {order!r}.")
    if image.dtype.kind not in "biuf" or image.dtype == np.float16:
        raise InvalidInputError(f"warp_image takes integers, booleans, float32 and float64, got {image.dtype}.")
    if image.dtype.kind == "b" and order != 0:
        raise InvalidInputError("A boolean image is a mask: warp it with order=0, or convert it to numbers.")
    if order == 3 and not np.isfinite(image).all():
        raise InvalidInputError("A cubic spline spreads a NaN over the whole image; use order=1 or fill the gaps.")
