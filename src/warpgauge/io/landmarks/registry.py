"""The table of landmark formats; a file's format is that of the first row that fits its start."""

from __future__ import annotations

from pathlib import Path

from warpgauge.errors import FileFormatError, InvalidInputError, say
from warpgauge.io.landmarks import mni_tag, plain_csv, qupath, slicer, tables, transformix
from warpgauge.io.landmarks.base import Format, Start
from warpgauge.io.landmarks.text import load_json, shown

FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        qupath.FORMAT,
        slicer.JSON,
        slicer.FCSV,
        mni_tag.FORMAT,
        transformix.FORMAT,
        *tables.TABLES,
        plain_csv.FORMAT,
    )
}


def named_format(name: str) -> Format:
    """Return the format that the caller named."""
    if name not in FORMATS:
        raise InvalidInputError(f"The landmark format {name!r} is not one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def format_of_path(path: Path) -> Format:
    """Return the format to write for a file name."""
    for entry in FORMATS.values():
        if path.name.lower().endswith(entry.endings or ("\0",)):
            return entry
    raise InvalidInputError(
        f"The name {path.name!r} does not say which landmark format to write; pass {say('format')}, one of "
        f"{', '.join(name for name, entry in FORMATS.items() if entry.render is not None)}."
    )


def detect(text: str, name: str, frame: str | None = None) -> Format:
    """Recognise the format of a text, of which the caller may have said the frame."""
    start = Start(name, text, frame)
    if not start.line:
        raise FileFormatError(f"{name!r} has only blank lines, so it holds no landmarks; export it again.")
    for entry in FORMATS.values():
        if entry.fits(start):
            return entry
    if start.line.startswith(("{", "[")):
        load_json(text, name)
        raise FileFormatError(f"{name!r} is JSON, but neither a point list of 3D Slicer nor GeoJSON of QuPath.")
    raise FileFormatError(
        f"{name!r} begins with {shown(start.line, 60)}, but comma-separated text with the header "
        f"fixed_x,fixed_y,moving_x,moving_y (fixed_z and moving_z too in 3D) is expected, or x,y[,z] in a file per "
        f"image; 'warpgauge info --formats' lists the other formats."
    )
