"""TIFF and OME-TIFF by tifffile: plain, tiled, pyramidal; read by segment, so that a tile costs only what it covers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError
from warpgauge.io.files import foreign_decoder, require
from warpgauge.io.images.orientation import orientation_note, oriented_reader, oriented_size
from warpgauge.io.images.samples import Block
from warpgauge.io.images.stored import Array, Region, RegionReader, StoredImage, StoredLevel
from warpgauge.io.images.tiff_colour import Colour, tiff_colour
from warpgauge.io.images.tiff_scale import tiff_frame
from warpgauge.io.images.tiff_segments import check_directories, page_reader

# tifffile reports oddities of damaged files to its logger; without a handler they would be printed beside our sentence.
logging.getLogger("tifffile").addHandler(logging.NullHandler())
_ORIENTATION_TAG = 274


def open_tiff(path: Path) -> StoredImage:
    """Describe a TIFF or OME-TIFF file."""
    tifffile = require("tifffile", "images")
    require("imagecodecs", "images")
    check_directories(path)
    # Other files that an OME-TIFF names are not opened: a header must not make us read elsewhere.
    with foreign_decoder(path, "TIFF"), tifffile.TiffFile(path, _multifile=False) as tiff:
        notes: list[str] = []
        series = _series(path, tiff, notes)
        axes = _axes(path, series)
        colour = tiff_colour(path, series.keyframe, _channels(series, axes), notes)
        readers = [_level_reader(path, tiff, level, axes, colour) for level in series.levels]
        orientation = int(series.keyframe.tags.valueof(_ORIENTATION_TAG, 1))
        if orientation not in range(1, 9) or ("Z" in axes and orientation != 1):
            notes.append(f"The TIFF orientation {orientation} is not applied.")
            orientation = 1
        if orientation != 1:
            notes.append(orientation_note("TIFF", orientation))
        sizes = [_size(level, axes, orientation) for level in series.levels]
        frame = tiff_frame(path, tiff, series, sizes[0], notes, swapped=orientation > 4)
        levels = [
            _level(sizes[0], size, read if len(size) == 3 else oriented_reader(read, (size[0], size[1]), orientation))
            for size, read in zip(sizes, readers, strict=True)
        ]
        name = "OME-TIFF" if tiff.is_ome else "TIFF"
    if len(levels) > 1:
        notes.append(f"The file holds {len(levels)} levels; each is taken to cover the same extent as the first.")
    return StoredImage(path, name, frame, colour.dtype, colour.channels, tuple(levels), (path,), notes)


def _series(path: Path, tiff: Any, notes: list[str]) -> Any:
    if not tiff.series:
        raise FileFormatError(f"{path.name!r} is a TIFF without an image in it; it is truncated or damaged.")
    if len(tiff.series) > 1:
        notes.append(
            f"The file holds {len(tiff.series)} images (such as a label or an overview); only the first is read."
        )
    return tiff.series[0]


def _axes(path: Path, series: Any) -> str:
    """Check the axes: y and x, perhaps with samples S, slices Z, or three channels C."""
    axes, shape = str(series.axes), series.shape
    described = ", ".join(f"{a} of {n}" for a, n in zip(axes, shape, strict=True))
    if set(axes) & set("IQ"):
        raise AmbiguousFileError(
            f"{path.name!r} holds a stack of pages ({described}) and does not say what they are; save it as OME-TIFF "
            f"with axes ZYX if they are slices, or save one page."
        )
    if "Y" not in axes or "X" not in axes or len(set(axes)) != len(axes) or axes.index("Y") > axes.index("X"):
        raise FileFormatError(f"{path.name!r} has the axes {axes!r}, but an image has Y and X in this order.")
    extra = {a: n for a, n in zip(axes, shape, strict=True) if a not in "YXS"}
    if not extra or extra == {"C": 3} or (set(extra) == {"Z"} and "S" not in axes):
        return axes
    raise FileFormatError(
        f"{path.name!r} has the axes {described}, but one image (YX, colours YXS, three channels CYX or slices ZYX) is "
        f"expected; save one time point, one channel or one colour of it."
    )


def _channels(series: Any, axes: str) -> int:
    sizes = dict(zip(axes, series.shape, strict=True))
    return int(sizes.get("S", 1) * sizes.get("C", 1))


def _size(series: Any, axes: str, orientation: int) -> tuple[int, ...]:
    sizes = dict(zip(axes, series.shape, strict=True))
    if "Z" in axes:
        return int(sizes["X"]), int(sizes["Y"]), int(sizes["Z"])
    return oriented_size((int(sizes["X"]), int(sizes["Y"])), orientation)


def _level(full: tuple[int, ...], size: tuple[int, ...], read: RegionReader) -> StoredLevel:
    """Place a level: a whole factor where the sizes agree with one up to rounding, otherwise the ratio of the sizes."""
    if any(b > a for a, b in zip(full, size, strict=True)):
        raise FileFormatError(f"A level of {size} is larger than the first one of {full}, so the pyramid is damaged.")
    factors = [round(a / b) for a, b in zip(full, size, strict=True)]
    step = [float(f) if b in (a // f, -(-a // f)) else a / b for a, b, f in zip(full, size, factors, strict=True)]
    return StoredLevel(size, read, tuple(step), tuple((s - 1) / 2 for s in step))


def _level_reader(path: Path, tiff: Any, series: Any, axes: str, colour: Colour) -> RegionReader:
    if str(series.axes) != axes:
        raise FileFormatError(
            f"{path.name!r} has levels of different axes ({axes!r} and {series.axes!r}); it is damaged."
        )
    read = _contiguous(path, tiff, series, axes) if series.dataoffset is not None else _segmented(path, series, axes)

    def read_colour(region: Region) -> Array:
        return colour.convert(read(region))

    return read_colour


def _contiguous(path: Path, tiff: Any, series: Any, axes: str) -> RegionReader:
    """Read by memory map; the result has the channels last."""
    dtype = np.dtype(series.dtype).newbyteorder(tiff.byteorder)
    read = Block(path, int(series.dataoffset), dtype, tuple(int(n) for n in series.shape)).reader()
    spatial = [a for a in axes if a in "ZYX"]
    channel = next((i for i, a in enumerate(axes) if a in "SC"), None)

    def read_map(region: Region) -> Array:
        parts = dict(zip(spatial, region, strict=True))
        part = read(tuple(parts.get(a, slice(0, n)) for a, n in zip(axes, series.shape, strict=True)))
        return part[..., None] if channel is None else np.moveaxis(part, channel, -1)

    return read_map


def _segmented(path: Path, series: Any, axes: str) -> RegionReader:
    """Read the strips or tiles that a region meets, page by page; the result has the channels last."""
    pages = list(series.pages)
    wanted = int(dict(zip(axes, series.shape, strict=True)).get("Z", 3 if "C" in axes else 1))
    if len(pages) != wanted or any(page is None for page in pages):
        raise FileFormatError(
            f"{path.name!r} has {sum(page is not None for page in pages)} pages of the {wanted} that its description "
            f"promises; the others are missing or in another file, so save it as one file."
        )
    readers = [page_reader(path, series.keyframe, page) for page in pages]

    def read_pages(region: Region) -> Array:
        if "Z" in axes:
            return np.stack([read(region[1:]) for read in readers[region[0]]])
        return np.concatenate([read(region) for read in readers], axis=-1)

    return read_pages
