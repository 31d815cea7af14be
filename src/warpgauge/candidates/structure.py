"""Local structure of an image: grey values and the Harris strength."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats

# ITU-R BT.709 luma of the stored (gamma-coded) values
LUMA = (0.2126, 0.7152, 0.0722)
_GRAY = "the image has one channel, which is used as it is"
_RGB = "luma of ITU-R BT.709, 0.2126 R + 0.7152 G + 0.0722 B, of the stored values"
Array = NDArray[Any]


def gray_rule(shape: tuple[int, ...], d: int) -> str:
    """Return how an array of this shape over a d-dimensional grid becomes one channel; refuse other channels."""
    channels = shape[d:]
    if channels in ((), (1,)):
        return _GRAY
    if channels == (3,):
        return _RGB
    if channels == (4,):
        return f"{_RGB}, the fourth channel (opacity) is left out"
    raise InvalidInputError(
        f"An array of shape {shape} is not a {d}D image of 1, 3 (RGB) or 4 (RGBA) channels in the last axis; choose "
        f"one of its channels."
    )


def to_gray(array: Array, d: int | None = None) -> tuple[Array, str]:
    """Turn an image, ``[y, x]`` or ``[z, y, x]`` and perhaps channels last, into one channel, and name the rule.

    By default a three-dimensional array whose last axis has 3 or 4 entries is a 2D colour image; say ``d=3`` for a
    volume that is as thin as that. One channel is given back as it is; luma is float64, without rounding.
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


TRUNCATE = 4.0  # of the window, in units of sigma
_SHARE = 0.2


def sensitivity(d: int) -> float:
    """Return k of det A - k (trace A)^d.

    The determinant is at most (trace / d)^d, where all eigenvalues are equal. k is the same share of that in every
    dimension: the usual 0.05 in 2D, 0.0074 in 3D.
    """
    return float(_SHARE / d**d)


def harris_strength(image: Floats, spacing: Floats, sigma: float) -> Floats:
    """Return det A - k (trace A)^d of the structure tensor A of gradients per world unit; negative along edges.

    The image has grey values in float64, ``spacing`` is in the order of its axes, and ``sigma`` is the width of the
    window in world units.
    """
    d = image.ndim
    slopes = [ndimage.sobel(image, axis=axis, mode="nearest") for axis in range(d)]
    # Sobel sums 4^(d-1) differences over two pixels each; divided by that and the spacing it is a gradient.
    scale = 1.0 / (2.0 * 4.0 ** (d - 1) * spacing)
    elements = []
    for a, b in itertools.combinations_with_replacement(range(d), 2):
        window = ndimage.gaussian_filter(slopes[a] * slopes[b], sigma / spacing, mode="nearest", truncate=TRUNCATE)
        window *= scale[a] * scale[b]
        elements.append(window)
    if d == 2:
        rr, rc, cc = elements
        determinant = rr * cc - rc * rc
        trace = rr + cc
    else:
        pp, pr, pc, rr, rc, cc = elements
        determinant = pp * (rr * cc - rc * rc) - pr * (pr * cc - rc * pc) + pc * (pr * rc - rr * pc)
        trace = pp + rr + cc
    trace **= d
    trace *= sensitivity(d)
    determinant -= trace
    return np.asarray(determinant)


_SLAB_ELEMENTS = 2**23


def slabs(shape: tuple[int, ...], multiple: int = 1) -> Iterator[tuple[int, int]]:
    """Yield bounds along the first axis that hold a few million elements each, and begin at a multiple of a number."""
    plane = int(np.prod(shape[1:], dtype=np.int64))
    step = multiple * max(1, _SLAB_ELEMENTS // (multiple * plane))
    for low in range(0, shape[0], step):
        yield low, min(low + step, shape[0])


def count_nonzero(mask: Any) -> int:
    """Count the elements of a mask that are not zero."""
    return sum(int(np.count_nonzero(np.asarray(mask[low:high]))) for low, high in slabs(tuple(mask.shape)))
