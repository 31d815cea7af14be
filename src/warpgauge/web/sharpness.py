"""Length over which an image changes: how exactly a place in it can be marked at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.io.images import Image

_PATCH = 64
_PLACES = (1 / 6, 1 / 2, 5 / 6)
_HALF = 0.5
_MOST = 8.0
_SMOOTH = 6.0  # pixels: slower changes are shading, not detail


def sharpness(image: Image) -> float:
    """Length over which the image changes, in world units.

    Median over patches of the lag at which the autocorrelation falls to one half, between 1 and 8 pixels. Patches with
    less contrast than most (background) do not count.
    Only nine places of the middle plane of the finest level are read.
    """
    patches = [patch for patch in _patches(image) if patch.std() > 0]
    if not patches:
        return float(image.grid.spacing.min())
    contrast = np.array([patch.std() for patch in patches])
    lags = [half_width(patch) for patch, found in zip(patches, contrast, strict=True) if found >= np.median(contrast)]
    return float(np.clip(np.median(lags), 1.0, _MOST) * image.grid.spacing.min())


def half_width(patch: NDArray[Any]) -> float:
    """Lag in pixels, the smaller of both directions, at which the autocorrelation of a patch falls to one half."""
    values = patch - patch.mean()
    padded = np.zeros((2 * values.shape[0], 2 * values.shape[1]))
    padded[: values.shape[0], : values.shape[1]] = values
    # The autocorrelation of ones is the number of products at each lag.
    ones = np.zeros_like(padded)
    ones[: values.shape[0], : values.shape[1]] = 1
    found = np.fft.irfft2(np.abs(np.fft.rfft2(padded)) ** 2, padded.shape)
    count = np.fft.irfft2(np.abs(np.fft.rfft2(ones)) ** 2, padded.shape)
    widths = []
    for along in (found[:, 0] / count[:, 0].clip(0.5), found[0] / count[0].clip(0.5)):
        curve = along[: min(patch.shape) // 2] / along[0]
        below = np.flatnonzero(curve < _HALF)
        if not len(below):
            widths.append(float(len(curve)))
            continue
        k = int(below[0])
        widths.append(k - 1 + float((curve[k - 1] - _HALF) / (curve[k - 1] - curve[k])))
    return min(widths)


def _patches(image: Image) -> list[NDArray[Any]]:
    size = image.grid.size
    rows, columns = min(_PATCH, size[1]), min(_PATCH, size[0])
    index = size[2] // 2 if image.grid.d == 3 else 0
    found = []
    for down in _PLACES:
        for right in _PLACES:
            y, x = int((size[1] - rows) * down), int((size[0] - columns) * right)
            values = np.asarray(image.tile(2, index, 0, y, x, rows, columns), dtype=np.float64)
            values = values.mean(axis=-1) if values.ndim == 3 else values
            values = np.nan_to_num(values)
            found.append(values - ndimage.gaussian_filter(values, _SMOOTH))
    return found
