"""From the samples of a TIFF, by its photometric interpretation, to one channel or to red, green, blue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.images.stored import Array

_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _MASK, _CMYK, _YCBCR = range(7)
_JPEG = (6, 7, 34892)  # compressions whose decoder turns YCbCr into RGB
_ALPHA = (1, 2)  # ExtraSamples that are associated or unassociated alpha


@dataclass(frozen=True)
class Colour:
    """How samples ``[..., channel]`` become what `Image.read` gives."""

    dtype: np.dtype[Any]
    channels: int
    convert: Callable[[Array], Array]


def tiff_colour(path: Path, page: Any, samples: int, notes: list[str]) -> Colour:
    """Choose the conversion for a page with that many samples a pixel, and say what it does."""
    dtype = _dtype(path, page)
    photometric = int(page.photometric)
    if samples == 1:
        return _single(path, page, photometric, dtype, notes)
    if dtype.kind == "b":
        raise FileFormatError(f"{path.name!r} has {samples} samples of 1 bit per pixel, which is not read; convert it.")
    if photometric == _CMYK and samples in (4, 5) and dtype.kind == "u":
        notes.append("CMYK is turned into red, green, blue by the plain formula, without a colour profile.")
        return Colour(dtype, 3, _from_cmyk)
    ycbcr = photometric == _YCBCR and int(page.compression) in _JPEG
    if (photometric == _RGB or ycbcr) and samples in (3, 4):
        if samples == 4:
            notes.append("The fourth sample (alpha) is dropped.")
        return Colour(dtype, 3, lambda array: array[..., :3])
    if photometric == _BLACK_IS_ZERO and samples == 2 and _extra(page) in _ALPHA:
        notes.append("The alpha channel is dropped.")
        return Colour(dtype, 1, lambda array: array[..., 0])
    if photometric == _BLACK_IS_ZERO and samples == 3:
        notes.append("The three channels are read as red, green, blue.")
        return Colour(dtype, 3, lambda array: array)
    raise FileFormatError(
        f"{path.name!r} has {samples} samples a pixel with the photometric interpretation {photometric}, but grey, "
        f"RGB, palette, CMYK or JPEG's YCbCr are read; convert it to RGB or save one channel."
    )


def _extra(page: Any) -> int:
    extra = tuple(page.extrasamples)
    return int(extra[0]) if extra else 0


def _dtype(path: Path, page: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] | None = None if page.dtype is None else np.dtype(page.dtype)
    if dtype is None or dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise FileFormatError(
            f"{path.name!r} has samples of {page.bitspersample} bits in format {page.sampleformat}, but integers and "
            f"floats of up to 64 bits are read; convert it."
        )
    return dtype


def _single(path: Path, page: Any, photometric: int, dtype: np.dtype[Any], notes: list[str]) -> Colour:
    if photometric == _PALETTE and page.colormap is not None and dtype.kind == "u":
        notes.append("The palette is turned into red, green, blue of 8 bits.")
        return _palette(path, np.asarray(page.colormap))
    if dtype.kind == "b":
        notes.append("The two levels of a bilevel image are read as 0 and 255.")
        black = photometric == _WHITE_IS_ZERO
        return Colour(np.dtype(np.uint8), 1, lambda array: ((array[..., 0] ^ black) * 255).astype(np.uint8))
    if photometric == _WHITE_IS_ZERO and dtype.kind == "u":
        notes.append("White is stored as 0; the samples are inverted, so that larger is brighter.")
        largest = dtype.type(2 ** min(int(page.bitspersample), 8 * dtype.itemsize) - 1)
        return Colour(dtype, 1, lambda array: largest - array[..., 0])
    if photometric not in (_WHITE_IS_ZERO, _BLACK_IS_ZERO, _PALETTE, _MASK, _RGB):
        raise FileFormatError(
            f"{path.name!r} has one sample per pixel with the photometric interpretation {photometric}, which is not "
            f"read; convert it to grey or RGB."
        )
    return Colour(dtype, 1, lambda array: array[..., 0])


def _palette(path: Path, colormap: Array) -> Colour:
    if colormap.ndim != 2 or colormap.shape[0] != 3:
        raise FileFormatError(f"{path.name!r} has a palette of the wrong size; it is damaged.")
    # Palettes are 16 bits by the standard, but some programs write 8.
    table = (colormap >> 8 if colormap.max() > 255 else colormap).astype(np.uint8).T

    def convert(array: Array) -> Array:
        index = array[..., 0]
        if int(index.max(initial=0)) >= len(table):
            raise FileFormatError(
                f"{path.name!r} has a sample beyond its palette of {len(table)} colours; it is damaged."
            )
        return table[index]

    return Colour(np.dtype(np.uint8), 3, convert)


def _from_cmyk(array: Array) -> Array:
    largest = np.iinfo(array.dtype).max
    white = (largest - array[..., :4]).astype(np.float64)
    return np.rint(white[..., :3] * white[..., 3:4] / largest).astype(array.dtype)
