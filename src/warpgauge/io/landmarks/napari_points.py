"""napari points: CSV with the header ``index,axis-0,axis-1[,axis-2]``, pixel indices in the order of the array.

``axis-0`` is the slowest axis of the array (y or z), so the columns are reversed on the way in and out; nothing else
in this package has array order in a file.
"""

from __future__ import annotations

from warpgauge.display import csv_text
from warpgauge.io.landmarks.base import NAMES, Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import (
    coordinates,
    csv_rows,
    fail,
    header_columns,
    number_text,
    table_body,
    words,
)

_NAME_COLUMNS = ("name", "label")


def is_header(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of this format."""
    return "axis-0" in [title.strip() for title in titles]


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the points of one layer."""
    rows = csv_rows(text, name)
    columns = header_columns(rows[0], name) if rows else {}
    if "shape-type" in columns:
        fail(name, rows[0][0], "a shapes layer, not a points layer", "export the points layer")
    axes = sorted(title for title in columns if title.startswith("axis-"))
    if axes not in (["axis-0", "axis-1"], ["axis-0", "axis-1", "axis-2"]):
        fail(name, 1, f"the axes are {axes}, but 2D or 3D points were expected", "drop time and channel axes")
    body = table_body(rows, name)
    places = [columns[axis] for axis in reversed(axes)]
    points = stack([coordinates([fields[place] for place in places], name, line) for line, fields in body], name)
    title = next((title for title in _NAME_COLUMNS if title in columns), None)
    names = tuple(words(fields[columns[title]], name, line) for line, fields in body) if title else ()
    used = {"index", "", *axes, title}
    unused = [column for column in columns if column not in used]
    assumptions = ["Coordinates are the layer's data: pixel indices counted from 0, before napari's scale."]
    if unused:
        assumptions.append(f"Columns that mean nothing here were left out: {', '.join(unused)}.")
    indices = tuple(fields[columns["index"]].strip() for _, fields in body) if "index" in columns else ()
    side = Side(
        points, "index", names=names if any(names) else None, indices=indices if indices and all(indices) else None
    )
    return Table(fixed=side, assumptions=assumptions)


def _render(table: Table) -> str:
    """Write the points of one layer; names become a property column."""
    side = table.fixed
    header = ["index", *(f"axis-{axis}" for axis in range(table.d))]
    rows = [[str(row), *(number_text(value) for value in reversed(point))] for row, point in enumerate(side.points)]
    if side.names:
        header.append("name")
        rows = [[*row, text] for row, text in zip(rows, side.names, strict=True)]
    return csv_text([header, *rows])


FORMAT = Format(
    name="napari",
    title="napari points CSV",
    parse=_parse,
    render=_render,
    write_frame=one_frame("index", "scaled", "image", "LPS", "RAS"),
    holds=frozenset({NAMES}),
    pixels=True,
    scalable=True,
)
