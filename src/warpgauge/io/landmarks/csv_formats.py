"""The CSV files of other programs: ANHIR and CIMA, ANTs and ITK-SNAP, BigWarp, napari."""

from __future__ import annotations

import math

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import AmbiguousFileError
from warpgauge.geometry import Floats
from warpgauge.io.landmarks.base import (
    INACTIVE,
    NAMES,
    PENDING,
    FileFrame,
    Format,
    Side,
    Table,
    one_frame,
    stack,
    world_frame,
)
from warpgauge.io.landmarks.text import (
    coordinates,
    csv_rows,
    csv_text,
    fail,
    header_columns,
    number_text,
    shown,
    table_body,
    words,
)

# ANHIR and CIMA landmarks: one CSV per image with the header ``,X,Y``, in pixels.
#
# The first column numbers the landmarks, and two files are paired by it where both have the same numbers. Where it does
# not count without a gap its entries are kept as names, too.

_ANHIR_HEADER = ("X", "Y")


def is_anhir(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of this format."""
    return len(titles) == 3 and tuple(title.strip() for title in titles[1:]) == _ANHIR_HEADER


def _parse_anhir(text: str, name: str, d: int | None) -> Table:
    """Read the landmarks of one image."""
    rows = csv_rows(text, name)
    if not rows or not is_anhir(rows[0][1]):
        header = shown(",".join(rows[0][1])) if rows else "nothing"
        fail(name, 1, f"the header is {header}, not ',X,Y'", "this is not an ANHIR or CIMA landmark file")
    body = table_body(rows, name)
    points = stack([coordinates(fields[1:], name, line) for line, fields in body], name)
    labels = tuple(fields[0].strip() for _, fields in body)
    counts = [int(label) if label.isascii() and label.isdigit() and len(label) < 18 else None for label in labels]
    first = counts[0]
    consecutive = first is not None and counts == list(range(first, first + len(counts)))
    return Table(
        fixed=Side(
            points,
            "index",
            names=None if consecutive or not any(labels) else labels,
            indices=labels if all(labels) else None,
        ),
        assumptions=["Coordinates are pixels counted from 0 at the centre of the first pixel."],
    )


def _render_anhir(table: Table) -> str:
    """Write the landmarks of one image, counted from 1."""
    rows = [
        [str(count), *(number_text(value) for value in point)]
        for count, point in enumerate(table.fixed.points, start=1)
    ]
    return csv_text([["", *_ANHIR_HEADER], *rows])


ANHIR = Format(
    name="anhir",
    title="ANHIR/CIMA CSV",
    pairs=False,
    parse=_parse_anhir,
    render=_render_anhir,
    write_frame=one_frame("index"),
    holds=frozenset(),
    dimensions=(2,),
    pixels=True,
    scalable=True,
)


# ANTs points (also ITK-SNAP's export): CSV with the header ``x,y,z,t[,label[,comment]]``, world points, LPS, mm.
#
# ANTs wants all four columns even of 2D points, so a file whose z are all 0 may be either; a grid or ``dimension``
# says.

_ANTS_COLUMNS = ("x", "y", "z", "t")
# What ANTs writes into text columns, which its CSV reader cannot keep.
_ANTS_NO_NAME = "nan"


def is_ants(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of this format."""
    return tuple(title.strip().lower() for title in titles[:4]) == _ANTS_COLUMNS


def _parse_ants(text: str, name: str, d: int | None) -> Table:
    """Read the points of one image."""
    rows = csv_rows(text, name)
    if not rows or not is_ants(rows[0][1]):
        header = shown(",".join(rows[0][1])) if rows else "nothing"
        fail(name, 1, f"the header is {header}, not 'x,y,z,t'", "this is not an ANTs points file")
    body = table_body(rows, name)
    values = stack([coordinates(fields[:4], name, line) for line, fields in body], name)
    if np.any(values[:, 3] != values[0, 3]):
        fail(name, None, "points of several times t", "split the file, one time each")
    dimension = _ants_dimension(values, d, name)
    columns = {title.lower(): place for title, place in header_columns(rows[0], name).items()}
    names = _ants_names(columns, [fields for _, fields in body], name)
    frame: FileFrame = "LPS" if dimension == 3 else "image"
    assumptions = ["ANTs points are world points in the frame of ITK (LPS); rows correspond."]
    return Table(fixed=Side(values[:, :dimension], frame, names=names), assumptions=assumptions)


def _ants_dimension(values: Floats, d: int | None, name: str) -> int:
    flat = not np.any(values[:, 2])
    if not flat and d == 2:
        fail(name, None, "points with a z that is not 0, but 2D points were asked for", "read it as 3D")
    if d is None and flat:
        raise AmbiguousFileError(
            f"{name!r}: every z is 0, so the points are 2D or lie in one plane of a volume; pass dimension=2 or 3."
        )
    return d or 3


def _ants_names(columns: dict[str, int], rows: list[list[str]], name: str) -> tuple[str, ...] | None:
    for title in ("comment", "label"):
        if title in columns:
            found = tuple(words(fields[columns[title]], name, None) for fields in rows)
            names = tuple("" if text == _ANTS_NO_NAME else text for text in found)
            if any(names):
                return names
    return None


def _render_ants(table: Table) -> str:
    """Write the points of one image; names go to ``comment``, since ANTs reads only numbers as labels."""
    side = table.fixed
    header, rows = list(_ANTS_COLUMNS), []
    if side.names:
        header += ["label", "comment"]
    for row, point in enumerate(side.points):
        numbers = [number_text(value) for value in point] + ["0"] * (4 - table.d)
        rows.append([*numbers, str(row + 1), side.names[row]] if side.names else numbers)
    return csv_text([header, *rows])


ANTS = Format(
    name="ants",
    title="ANTs points CSV",
    pairs=False,
    parse=_parse_ants,
    render=_render_ants,
    write_frame=world_frame("LPS", "image", "RAS"),
    holds=frozenset({NAMES}),
)


# BigWarp landmarks: CSV without a header, ``name, active, moving x, y[, z], fixed x, y[, z]``.
#
# The **moving** point stands first. A point that is not placed yet is ``Infinity`` in every coordinate. The numbers are
# in the world that BigWarp showed, which the file does not name.

_WIDTHS = {6: 2, 8: 3}
_UNPLACED = ("Infinity", "-Infinity")


def is_bigwarp(fields: list[str]) -> bool:
    """Return whether the fields of a first line are a row of this format."""
    return len(fields) in _WIDTHS and fields[1].strip().lower() in ("true", "false")


def _bigwarp_point(fields: list[str], name: str, line: int) -> list[float]:
    unplaced = [field.strip() in _UNPLACED for field in fields]
    if all(unplaced):
        return [math.nan] * len(fields)
    if any(unplaced):
        fail(name, line, "a point with some coordinates at Infinity and others not")
    return coordinates(fields, name, line)


def _parse_bigwarp(text: str, name: str, d: int | None) -> Table:
    """Read the pairs of a BigWarp file."""
    names, active, moving, fixed = [], [], [], []
    width = 0
    for line, fields in csv_rows(text, name):
        if len(fields) not in _WIDTHS or len(fields) != (width or len(fields)):
            fail(
                name, line, f"{counted(len(fields), 'field')}, but a BigWarp row has 6 (2D) or 8 (3D)", "the row is cut"
            )
        width, dimension = len(fields), _WIDTHS[len(fields)]
        flag = fields[1].strip().lower()
        if flag not in ("true", "false"):
            fail(name, line, f"the second field is {shown(fields[1])}, not true or false", "this is not a BigWarp file")
        names.append(words(fields[0], name, line))
        active.append(flag == "true")
        moving.append(_bigwarp_point(fields[2 : 2 + dimension], name, line))
        fixed.append(_bigwarp_point(fields[2 + dimension :], name, line))
    return Table(
        fixed=Side(stack(fixed, name), "unstated", names=tuple(names)),
        moving=Side(stack(moving, name), "unstated"),
        active=np.array(active, dtype=bool),
        assumptions=["BigWarp's columns are moving first, then fixed, in the world that BigWarp showed."],
    )


def _render_bigwarp(table: Table) -> str:
    """Write the pairs of a BigWarp file; it quotes every field."""
    assert table.moving is not None  # the writer refuses a set of points before
    rows = []
    for row, (fixed, moving) in enumerate(zip(table.fixed.points, table.moving.points, strict=True)):
        name = table.fixed.names[row] if table.fixed.names else f"Pt-{row}"
        active = table.active is None or bool(table.active[row])
        rows.append([name, "true" if active else "false", *map(_bigwarp_field, moving), *map(_bigwarp_field, fixed)])
    return csv_text(rows, quote_all=True)


def _bigwarp_field(value: float) -> str:
    return "Infinity" if math.isnan(value) else number_text(value)


BIGWARP = Format(
    name="bigwarp",
    title="BigWarp CSV",
    pairs=True,
    parse=_parse_bigwarp,
    render=_render_bigwarp,
    write_frame=one_frame("unstated", "image", "LPS", "RAS", "scaled", "index"),
    holds=frozenset({INACTIVE, PENDING, NAMES}),
    scalable=True,
)


# napari points: CSV with the header ``index,axis-0,axis-1[,axis-2]``, pixel indices in the order of the array.
#
# ``axis-0`` is the slowest axis of the array (y or z), so the columns are reversed on the way in and out; nothing else
# in this package has array order in a file.

_NAME_COLUMNS = ("name", "label")


def is_napari(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of this format."""
    return "axis-0" in [title.strip() for title in titles]


def _parse_napari(text: str, name: str, d: int | None) -> Table:
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


def _render_napari(table: Table) -> str:
    """Write the points of one layer; names become a property column."""
    side = table.fixed
    header = ["index", *(f"axis-{axis}" for axis in range(table.d))]
    rows = [[str(row), *(number_text(value) for value in reversed(point))] for row, point in enumerate(side.points)]
    if side.names:
        header.append("name")
        rows = [[*row, text] for row, text in zip(rows, side.names, strict=True)]
    return csv_text([header, *rows])


NAPARI = Format(
    name="napari",
    title="napari points CSV",
    pairs=False,
    parse=_parse_napari,
    render=_render_napari,
    write_frame=one_frame("index", "scaled", "image", "LPS", "RAS"),
    holds=frozenset({NAMES}),
    pixels=True,
    scalable=True,
)
