"""The physical size of a TIFF's pixels: OME, ImageJ and Aperio descriptions, or resolution tags of a scanner."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Units
from warpgauge.io.images.frame import Frame, length_unit

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
    if found is None:
        return Frame(size)
    spacing, units = found
    if not all(np.isfinite(s) and s > 0 for s in spacing):
        raise FileFormatError(
            f"{path.name!r} has a pixel size of {spacing} {units}, which no pixel has; give spacing=...."
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
        sizes.append((_number(path, name, attributes[name]) * unit[1], unit[0]))
    if len({units for _, units in sizes}) > 1:
        notes.append("The OME description mixes units; all are turned into um.")
        return [s * (1000.0 if u == "mm" else 1.0) for s, u in sizes], "um"
    notes.append("The pixel size comes from the OME description.")
    return [s for s, _ in sizes], sizes[0][1]


def _number(path: Path, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FileFormatError(f"{path.name!r} has {name}={text[:40]!r}, but a number is expected.") from None


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
        return None  # one pixel per inch is what programs write that know nothing
    spacing = [unit[1] / value for value in per_unit]
    said = f"{per_unit[0]:g} x {per_unit[1]:g} pixels per {unit[0]}"
    if max(spacing) > _LARGEST_UM:
        notes.append(
            f"The resolution of {said} is that of a print or a screen and is not taken for a physical spacing."
        )
        return None
    notes.append(f"The pixel size comes from the resolution tags, {said}, as a scanner writes them.")
    return spacing, "um"
