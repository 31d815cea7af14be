"""Conversion of colour images to grey values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import InvalidInputError

# ITU-R BT.709 luma of the stored (gamma-coded) values
LUMA = (0.2126, 0.7152, 0.0722)
_GRAY = "the image has one channel, which is used as it is"
_RGB = "luma of ITU-R BT.709, 0.2126 R + 0.7152 G + 0.0722 B, of the stored values"
Array = NDArray[Any]


def gray_rule(shape: tuple[int, ...], d: int) -> str:
    """Return how an array of this shape over a d-dimensional grid becomes one channel; refuse what is neither."""
    channels = shape[d:]
    if channels in ((), (1,)):
        return _GRAY
    if channels == (3,):
        return _RGB
    if channels == (4,):
        return f"{_RGB}, the fourth channel (opacity) is left out"
    raise InvalidInputError(
        f"An array of shape {shape} is no {d}D image of 1, 3 (RGB) or 4 (RGBA) channels in the last axis; choose one "
        f"of its channels."
    )


def to_gray(array: Array, d: int | None = None) -> tuple[Array, str]:
    """Turn a colour image into one channel.

    Parameters
    ----------
    array : array
        ``[y, x]`` or ``[z, y, x]``, and the channels as a last axis where there are several.
    d : {2, 3}, optional
        Dimension of the image. By default a three-dimensional array whose last axis has 3 or 4 entries is a 2D colour
        image; say ``d=3`` for a volume that is as thin as that.

    Returns
    -------
    array, str
        The image of one channel, and the rule by which it came about. One channel is given back as it is; luma is
        float64, without rounding.
    """
    if d is None:
        d = 2 if array.ndim == 2 or (array.ndim == 3 and array.shape[-1] in (1, 3, 4)) else 3
    if d not in (2, 3) or array.ndim < d:
        raise InvalidInputError(f"to_gray needs a 2D or 3D image, got an array of shape {array.shape} for d = {d}.")
    rule = gray_rule(array.shape, d)
    if array.ndim == d:
        return array, rule
    if array.shape[-1] == 1:
        return array[..., 0], rule
    weights = np.array(LUMA)
    # One channel at a time: a product of the whole array would hold three copies of it.
    luma = weights[0] * array[..., 0].astype(np.float64)
    for channel in (1, 2):
        luma += weights[channel] * array[..., channel]
    return luma, rule
