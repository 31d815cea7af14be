"""TIFF and OME-TIFF by tifffile: plain, tiled, pyramidal, with their colours and physical pixel sizes.

They are read by segment, so that a tile costs only what it covers. Sizes come from OME, ImageJ and Aperio descriptions
or a scanner's resolution tags, colours from the photometric interpretation.
"""

from __future__ import annotations

import html
import logging
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import ANY, AmbiguousFileError, FileFormatError, say
from warpgauge.geometry import Units
from warpgauge.io.files import require
from warpgauge.io.images.frame import Frame, length_unit
from warpgauge.io.images.orientation import ORIENTATION_TAG, orientation_note, oriented_reader, oriented_size
from warpgauge.io.images.samples import Block
from warpgauge.io.images.stored import Array, Region, RegionReader, StoredImage, StoredLevel, channel_names
from warpgauge.io.images.tiff_segments import check_directories, page_reader

# tifffile reports oddities of damaged files to its logger; without a handler they would be printed beside our sentence.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


def open_tiff(path: Path) -> StoredImage:
    """Describe a TIFF or OME-TIFF file."""
    tifffile = require("tifffile", "images")
    require("imagecodecs", "images")
    check_directories(path)
    # Other files that an OME-TIFF names are not opened: a header must not make us read elsewhere.
    with tifffile.TiffFile(path, _multifile=False) as tiff:
        notes: list[str] = []
        series = _series(path, tiff, notes)
        axes = _axes(path, series)
        channels = math.prod(int(n) for axis, n in zip(axes, series.shape, strict=True) if axis in "SC")
        colour = tiff_colour(path, series.keyframe, channels, notes)
        readers = [_level_reader(path, tiff, level, axes, colour) for level in series.levels]
        orientation = int(series.keyframe.tags.valueof(ORIENTATION_TAG, 1))
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
        named = channel_names(path, colour.channels, _channel_names(tiff))
    if len(levels) > 1:
        notes.append(f"The file holds {len(levels)} levels; each is taken to cover the same extent as the first.")
    return StoredImage(path, name, frame, colour.dtype, colour.channels, tuple(levels), (path,), notes, names=named)


def _channel_names(tiff: Any) -> list[str]:
    """Return the names that an OME description gives to the channels of its first image."""
    xml = (tiff.ome_metadata or "") if tiff.is_ome else ""
    pixels = re.search(r"<(?:\w+:)?Pixels\b.*?</(?:\w+:)?Pixels>", xml, re.S)
    names = []
    for attributes in re.findall(r"<(?:\w+:)?Channel\b([^>]*)>", pixels.group(0) if pixels else ""):
        name = re.search(r'\bName="([^"]*)"', attributes)
        names.append(html.unescape(name.group(1)) if name else "")
    return names


def _series(path: Path, tiff: Any, notes: list[str]) -> Any:
    if not tiff.series:
        raise FileFormatError(f"{path.name!r} is a TIFF without an image in it; it is truncated or damaged.")
    if len(tiff.series) > 1:
        notes.append(
            f"The file holds {len(tiff.series)} images (such as a label or an overview); only the first is read."
        )
    return tiff.series[0]


def _axes(path: Path, series: Any) -> str:
    """Check the axes: y and x, perhaps with samples S, slices Z, or channels C."""
    axes = str(series.axes)
    shape = series.shape
    described = ", ".join(f"{a} of {n}" for a, n in zip(axes, shape, strict=True))
    if set(axes) & set("IQ"):
        raise AmbiguousFileError(
            f"{path.name!r} holds a stack of pages ({described}) and does not say what they are; save it as OME-TIFF "
            f"with axes ZYX if they are slices, or save one page."
        )
    if "Y" not in axes or "X" not in axes or len(set(axes)) != len(axes) or axes.index("Y") > axes.index("X"):
        raise FileFormatError(f"{path.name!r} has the axes {axes!r}, but an image has Y and X in this order.")
    extra = {a: n for a, n in zip(axes, shape, strict=True) if a not in "YXS"}
    if not extra or (set(extra) in ({"C"}, {"Z"}) and "S" not in axes):
        return axes
    raise FileFormatError(
        f"{path.name!r} has the axes {described}, but one image (YX, colours YXS, channels CYX or slices ZYX) is "
        f"expected; save one time point, or one channel of a volume."
    )


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
    sizes = dict(zip(axes, series.shape, strict=True))
    promised = int(sizes.get("Z", sizes.get("C", 1)))
    if len(pages) != promised or any(page is None for page in pages):
        raise FileFormatError(
            f"{path.name!r} has {sum(page is not None for page in pages)} pages of the {promised} that its description "
            f"promises; the others are missing or in another file, so save it as one file."
        )
    readers = [page_reader(path, series.keyframe, page) for page in pages]

    def read_pages(region: Region) -> Array:
        if "Z" in axes:
            return np.stack([read(region[1:]) for read in readers[region[0]]])
        return np.concatenate([read(region) for read in readers], axis=-1)

    return read_pages


_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _MASK, _, _YCBCR = range(7)
_JPEG = (6, 7, 34892)  # compressions whose decoder turns YCbCr into RGB
_ALPHA = ((1,), (2,))  # ExtraSamples that are associated or unassociated alpha


@dataclass(frozen=True)
class Colour:
    """How samples ``[..., channel]`` become what `Image.read` gives."""

    dtype: np.dtype[Any]
    channels: int
    convert: Callable[[Array], Array]


def tiff_colour(path: Path, page: Any, samples: int, notes: list[str]) -> Colour:
    """Choose the conversion for a page with that many samples per pixel, and note what it does."""
    dtype = _dtype(path, page)
    photometric = int(page.photometric)
    if samples == 1:
        return _single(path, page, photometric, dtype, notes)
    if dtype.kind == "b":
        raise FileFormatError(f"{path.name!r} has {samples} samples of 1 bit per pixel, which is not read; convert it.")
    ycbcr = photometric == _YCBCR and int(page.compression) in _JPEG
    if (photometric == _RGB or ycbcr) and samples in (3, 4):
        if samples == 4:
            notes.append("The fourth sample (alpha) is dropped.")
        return Colour(dtype, 3, lambda array: array[..., :3])
    if photometric == _BLACK_IS_ZERO and samples == 2 and tuple(page.extrasamples)[:1] in _ALPHA:
        notes.append("The alpha channel is dropped.")
        return Colour(dtype, 1, lambda array: array[..., 0])
    if photometric == _BLACK_IS_ZERO and samples == 3:
        notes.append("The three channels are read as red, green, blue.")
        return Colour(dtype, 3, lambda array: array)
    if photometric == _BLACK_IS_ZERO:
        return Colour(dtype, samples, lambda array: array)
    raise FileFormatError(
        f"{path.name!r} has {samples} samples a pixel with the photometric interpretation {photometric}, but grey, "
        f"RGB, palette or JPEG's YCbCr are read; convert it to RGB or save one channel."
    )


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


_X_RESOLUTION, _Y_RESOLUTION, _RESOLUTION_UNIT = 282, 283, 296
_LARGEST_UM = 10.0  # a pixel of more than this is a print or screen resolution, not a microscope's or slide scanner's


def tiff_frame(path: Path, tiff: Any, series: Any, size: tuple[int, ...], notes: list[str], *, swapped: bool) -> Frame:
    """Return the frame of a TIFF; ``swapped`` says that an orientation exchanges rows and columns."""
    if tiff.is_ome:
        found = _from_ome(path, tiff.ome_metadata or "", len(size), notes)
    elif tiff.is_imagej:
        found = _from_imagej(tiff, series.keyframe, len(size), notes)
    elif tiff.is_svs:
        found = _from_aperio(series.keyframe, notes)
    else:
        found = _from_resolution(series.keyframe, notes) if len(size) == 2 else None
        if found is not None and max(found[0]) > _LARGEST_UM:  # ITK takes it for a spacing
            return Frame(size, printed=(found[0][0] / 1000, found[0][1] / 1000))
    if found is None:
        return Frame(size)
    spacing, units = found
    if not all(np.isfinite(s) and s > 0 for s in spacing):
        raise FileFormatError(
            f"{path.name!r} has a pixel size of {spacing} {units}, which no pixel has; give {say('spacing', ANY)}."
        )
    if swapped:
        spacing[:2] = spacing[1::-1]
    return Frame(size, np.array(spacing), units=units)


def _from_ome(path: Path, xml: str, d: int, notes: list[str]) -> tuple[list[float], Units] | None:
    pixels = re.search(r"<(?:\w+:)?Pixels\b([^>]*)>", xml)
    attributes = dict(re.findall(r'(PhysicalSize[XYZ](?:Unit)?)\s*=\s*"([^"]*)"', pixels.group(1))) if pixels else {}
    names = [f"PhysicalSize{axis}" for axis in "XYZ"[:d]]
    if any(name not in attributes for name in names):
        if attributes:
            notes.append("The OME description gives the pixel size along some axes only, so it is not used.")
        return None
    sizes = []
    for name in names:
        unit = length_unit(attributes.get(name + "Unit", "µm").replace("&#181;", "µ").replace("&#xB5;", "µ"))
        if unit is None:
            notes.append(
                f"The OME description gives the pixel size in {attributes[name + 'Unit']!r}, so it is not used."
            )
            return None
        try:
            sizes.append((float(attributes[name]) * unit[1], unit[0]))
        except ValueError:
            text = attributes[name][:40]
            raise FileFormatError(f"{path.name!r} has {name}={text!r}, but a number is expected.") from None
    if len({units for _, units in sizes}) > 1:
        notes.append("The OME description mixes units; all are turned into um.")
        return [s * (1000.0 if u == "mm" else 1.0) for s, u in sizes], "um"
    notes.append("The pixel size comes from the OME description.")
    return [s for s, _ in sizes], sizes[0][1]


def _from_imagej(tiff: Any, page: Any, d: int, notes: list[str]) -> tuple[list[float], Units] | None:
    metadata = tiff.imagej_metadata or {}
    unit = length_unit(str(metadata.get("unit", "")))
    per_unit = _per_unit(page)
    if unit is None or per_unit is None:
        return None
    spacing = [unit[1] / value for value in per_unit]
    if d == 3:
        if not isinstance(metadata.get("spacing"), (int, float)):
            notes.append("The ImageJ description has no distance between slices, so its pixel size is not used.")
            return None
        spacing.append(float(metadata["spacing"]) * unit[1])
    notes.append("The pixel size comes from the ImageJ description.")
    return spacing, unit[0]


def _from_aperio(page: Any, notes: list[str]) -> tuple[list[float], Units] | None:
    found = re.search(r"\bMPP\s*=\s*([0-9.]{1,20})", str(page.description))
    if found is None:
        return None
    notes.append("The pixel size comes from MPP of the Aperio description.")
    return [float(found.group(1))] * 2, "um"


def _per_unit(page: Any) -> tuple[float, float] | None:
    values = []
    for tag in (_X_RESOLUTION, _Y_RESOLUTION):
        ratio = page.tags.valueof(tag)
        if not isinstance(ratio, tuple) or len(ratio) != 2 or ratio[0] <= 0 or ratio[1] <= 0:
            return None
        values.append(ratio[0] / ratio[1])
    return values[0], values[1]


def _from_resolution(page: Any, notes: list[str]) -> tuple[list[float], Units] | None:
    per_unit = _per_unit(page)
    # The default of the standard is inch; tifffile's RESUNIT.NONE is false, so "or" would turn it into the default.
    unit = {2: ("inch", 25400.0), 3: ("cm", 10000.0)}.get(int(page.tags.valueof(_RESOLUTION_UNIT, 2)))
    if per_unit is None or unit is None or per_unit == (1.0, 1.0):
        return None  # programs that do not know the resolution write one pixel per inch
    spacing = [unit[1] / value for value in per_unit]
    said = f"{per_unit[0]:g} x {per_unit[1]:g} pixels per {unit[0]}"
    if max(spacing) > _LARGEST_UM:
        notes.append(
            f"The resolution of {said} is that of a print or a screen and is not taken for a physical spacing."
        )
        return spacing, "um"
    notes.append(f"The pixel size comes from the resolution tags, {said}, as a scanner writes them.")
    return spacing, "um"
