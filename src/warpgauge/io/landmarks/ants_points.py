"""ANTs points (also ITK-SNAP's export): CSV with the header ``x,y,z,t[,label[,comment]]``, world points, LPS, mm.

ANTs wants all four columns even for 2D points, so a file whose z are all 0 may be either; a grid or ``dimension``
decides.
"""

from __future__ import annotations

import numpy as np

from warpgauge.display import csv_text
from warpgauge.errors import AmbiguousFileError, say
from warpgauge.geometry import Floats
from warpgauge.io.landmarks.base import NAMES, FileFrame, Format, Side, Table, stack, world_frame
from warpgauge.io.landmarks.text import (
    coordinates,
    csv_rows,
    fail,
    header_columns,
    number_text,
    shown,
    table_body,
    words,
)

_COLUMNS = ("x", "y", "z", "t")
# What ANTs writes into text columns, which its CSV reader cannot keep.
_NO_NAME = "nan"


def is_header(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of this format."""
    return tuple(title.strip().lower() for title in titles[:4]) == _COLUMNS


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the points of one image."""
    rows = csv_rows(text, name)
    if not rows or not is_header(rows[0][1]):
        header = shown(",".join(rows[0][1])) if rows else "nothing"
        fail(name, 1, f"the header is {header}, not 'x,y,z,t'", "this is not an ANTs points file")
    body = table_body(rows, name)
    values = stack([coordinates(fields[:4], name, line) for line, fields in body], name)
    if np.any(values[:, 3] != values[0, 3]):
        fail(name, None, "points of several times t", "split the file, one time each")
    dimension = _dimension(values, d, name)
    columns = {title.lower(): place for title, place in header_columns(rows[0], name).items()}
    names = _names(columns, [fields for _, fields in body], name)
    frame: FileFrame = "LPS" if dimension == 3 else "image"
    assumptions = ["ANTs points are world points in the frame of ITK (LPS); rows correspond."]
    return Table(fixed=Side(values[:, :dimension], frame, names=names), assumptions=assumptions)


def _dimension(values: Floats, d: int | None, name: str) -> int:
    flat = not np.any(values[:, 2])
    if not flat and d == 2:
        fail(name, None, "points with a z that is not 0, but 2D points were asked for", "read it as 3D")
    if d is None and flat:
        raise AmbiguousFileError(
            f"{name!r}: every z is 0, so the points are 2D or lie in one plane of a volume; pass "
            f"{say('dimension', 2)} or 3."
        )
    return d or 3


def _names(columns: dict[str, int], rows: list[list[str]], name: str) -> tuple[str, ...] | None:
    for title in ("comment", "label"):
        if title in columns:
            found = tuple(words(fields[columns[title]], name, None) for fields in rows)
            names = tuple("" if text == _NO_NAME else text for text in found)
            if any(names):
                return names
    return None


def _render(table: Table) -> str:
    """Write the points of one image; names go to ``comment``, since ANTs reads only numbers as labels."""
    side = table.fixed
    header, rows = list(_COLUMNS), []
    if side.names:
        header += ["label", "comment"]
    for row, point in enumerate(side.points):
        numbers = [number_text(value) for value in point] + ["0"] * (4 - table.d)
        rows.append([*numbers, str(row + 1), side.names[row]] if side.names else numbers)
    return csv_text([header, *rows])


FORMAT = Format(
    name="ants",
    title="ANTs points CSV",
    parse=_parse,
    render=_render,
    write_frame=world_frame("LPS", "image", "RAS"),
    holds=frozenset({NAMES}),
)
