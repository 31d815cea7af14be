"""Landmark formats that are rows of numbers: what each one's columns are, one parser and one renderer.

A new one is a row at the end of this file. Formats of another build (JSON, tags, warpgauge's own CSV) have a module of
their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from warpgauge.display import csv_text
from warpgauge.errors import AmbiguousFileError, say
from warpgauge.io.formats import Files
from warpgauge.io.landmarks.base import INACTIVE, NAMES, SPECIFICATION, FileFrame, Format, Side, Start, Table, stack
from warpgauge.io.landmarks.text import (
    Row,
    coordinates,
    count_up,
    csv_rows,
    fail,
    header_columns,
    is_number,
    lines,
    number_text,
    same_width,
    shown,
    words,
)

Column = str | int
"""A title of the header, or a place."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where the numbers of a format stand; what depends on the dimension is a mapping by it."""

    begins: Callable[[list[str]], bool]  # whether the fields of a first row are of this format
    sides: Mapping[int, tuple[tuple[Column, ...], ...]]  # x, y[, z] of the fixed and, in a file of pairs, moving point
    frame: FileFrame
    presumed: str  # what the file does not say of its frame and is taken for granted
    note: str = ""  # what else is
    header: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # as it is written; empty without a header
    label: tuple[Column, ...] = ()  # may name a point; the first that does so counts
    unnamed: str = ""  # stands for no name
    named: tuple[str, ...] = ()  # titles that are added for names: the last one is the name, those before it count
    number: Column | None = None  # counts the points
    first: int = 1  # count of the first point
    active: int | None = None  # says whether a point is in use
    unplaced: str = ""  # every coordinate of a point that is not placed
    wrong: Mapping[str, str] = field(default_factory=dict)  # titles that make the file something else, and what
    blanks: bool = False  # between the columns
    quoted: bool = False
    # Finishes a table: of the table, its rows, the dimension that is asked for, and the file's name.
    settle: Callable[[Table, Sequence[Row], int | None, str], Table] | None = None


def _parse(columns: Columns, title: str, text: str, name: str, d: int | None) -> Table:
    rows = [(number, line.split()) for number, line in lines(text)] if columns.blanks else csv_rows(text, name)
    begins = [entry.strip() for entry in rows[0][1]] if rows else []
    if not columns.begins(begins):
        fail(name, rows[0][0] if rows else None, f"begins with {shown(','.join(begins))}", f"this is no {title}")
    same_width(rows, name, "the header" if columns.header else "the first row")
    places: dict[Any, int] = {place: place for place in range(len(begins))}
    if columns.header:
        titles = header_columns(rows[0], name)
        for wrong in set(columns.wrong) & set(titles):
            fail(name, rows[0][0], f"the column {wrong!r}, {columns.wrong[wrong]}", "export the points alone")
        places |= {key.lower(): place for key, place in titles.items() if key}
        rows = rows[1:]
    dimension = max(d for d, sides in columns.sides.items() if all(key in places for side in sides for key in side))
    sides = []
    for side in columns.sides[dimension]:
        points = [_point([fields[places[key]] for key in side], columns.unplaced, name, line) for line, fields in rows]
        sides.append(Side(stack(points, name), columns.frame))
    table = Table(sides[0], sides[1] if len(sides) > 1 else None, presumed=[columns.presumed])
    if columns.note:
        table.assumptions.append(columns.note)
    if columns.number in places:
        numbers = tuple(fields[places[columns.number]].strip() for _, fields in rows)
        table.fixed.indices = numbers if all(numbers) else None
        if not columns.label and any(numbers) and not count_up(numbers):
            table.fixed.names = numbers  # to people they are names
    for key in columns.label:
        if key in places and table.fixed.names is None:
            names = tuple(words(fields[places[key]], name, line) for line, fields in rows)
            names = tuple("" if entry == columns.unnamed else entry for entry in names)
            table.fixed.names = names if any(names) else None
    if columns.active is not None:
        table.active = np.array([_flag(fields[columns.active], name, line) for line, fields in rows])
    if columns.header:
        known = [
            *columns.header[dimension],
            *columns.label,
            columns.number,
            *(key for side in columns.sides[dimension] for key in side),
        ]
        used = {places.get(key if isinstance(key, int) else str(key).lower()) for key in known}
        unused = [title for title, place in titles.items() if title and place not in used]
        if unused:
            table.assumptions.append(f"Columns that mean nothing here were left out: {', '.join(unused)}.")
    return table if columns.settle is None else columns.settle(table, rows, d, name)


def _point(fields: list[str], unplaced: str, name: str, line: int) -> list[float]:
    missing = [bool(unplaced) and entry.strip().lstrip("-") == unplaced for entry in fields]
    if all(missing):
        return [math.nan] * len(fields)
    if any(missing):
        fail(name, line, f"a point with some coordinates at {unplaced} and others not")
    return coordinates(fields, name, line)


def _flag(text: str, name: str, line: int) -> bool:
    flag = text.strip().lower()
    if flag not in ("true", "false"):
        fail(name, line, f"{shown(text)} stands where true or false is expected")
    return flag == "true"


def _render(columns: Columns, table: Table) -> str:
    header = list(columns.header.get(table.d, ()))
    names = table.fixed.names
    if header and names:
        header += columns.named
    sides = columns.sides[table.d]
    places: dict[Any, int] = {title: place for place, title in enumerate(header)}
    width = len(header) or 1 + max(int(key) for side in sides for key in side)
    rows = []
    for row in range(len(table)):
        fields = ["0"] * width
        for side, keys in zip(table.sides, sides, strict=True):
            for key, value in zip(keys, side.points[row], strict=True):
                fields[key if isinstance(key, int) else places[key]] = (
                    columns.unplaced if math.isnan(value) else number_text(value)
                )
        if columns.number is not None:
            fields[0] = str(columns.first + row)
        if columns.active is not None:
            fields[columns.active] = "true" if table.active is None or table.active[row] else "false"
        if header and columns.named and names:
            fields[width - len(columns.named) :] = [*[str(row + 1)] * (len(columns.named) - 1), names[row]]
        elif columns.label and not header:
            fields[int(columns.label[0])] = names[row] if names else f"Pt-{row}"
        rows.append(fields)
    if columns.blanks:
        return "".join("\t".join(fields) + "\n" for fields in rows)
    return csv_text([header, *rows] if header else rows, quote_all=columns.quoted)


def _format(name: str, title: str, columns: Columns, *written: Files, **more: Any) -> Format:
    """Return the format of a table; it is recognised by its first row."""

    def fits(start: Start) -> bool:
        return columns.begins(start.line.split() if columns.blanks else start.fields)

    return Format(
        name=name,
        title=title,
        written=written,
        fits=more.pop("fits", fits),
        parse=partial(_parse, columns, title),
        render=partial(_render, columns),
        dimensions=tuple(columns.sides),
        **more,
    )


def _three_numbers(fields: list[str]) -> bool:
    return len(fields) == 3 and all(map(is_number, fields))


def _lower(fields: list[str]) -> list[str]:
    return [entry.lower() for entry in fields]


def _dirlab_name(start: Start) -> bool:
    """Return whether bare numbers are in a file that is called as those of DIR-Lab, such as Case1_300_T00_xyz.txt."""
    if not _three_numbers(start.line.split()):
        return False
    if start.frame or re.search(r"_xyz(_r\d)?\.txt$", start.name, re.IGNORECASE):
        return True
    raise AmbiguousFileError(
        f"{start.name!r} holds bare numbers without a header; pass {say('frame', 'index1')} if they are voxel indices "
        f"from 1 (as DIR-Lab's), 'index' if from 0, or 'LPS' or 'RAS' if they are points in the world."
    )


def _settle_ants(table: Table, rows: Sequence[Row], d: int | None, name: str) -> Table:
    """Check the times; ANTs wants a z even for 2D points, so a file whose z are all 0 may be either."""
    if len({value for line, fields in rows for value in coordinates([fields[3]], name, line)}) > 1:
        fail(name, None, "points of several times t", "split the file, one time each")
    flat = not np.any(table.fixed.points[:, 2])
    if not flat and d == 2:
        fail(name, None, "points with a z that is not 0, but 2D points were asked for", "read it as 3D")
    if d is None and flat:
        raise AmbiguousFileError(
            f"{name!r}: every z is 0, so the points are 2D or lie in one plane of a volume; pass "
            f"{say('fixed_grid')}, whose dimension it is (or, in Python, dimension=2 or 3)."
        )
    if d == 2:
        table.fixed.points = table.fixed.points[:, :2]
        table.fixed.frame = "image"
    return table


TABLES = (
    _format(
        "anhir",
        "ANHIR/CIMA CSV",
        Columns(
            begins=lambda fields: len(fields) == 3 and fields[1:] == ["X", "Y"],
            sides={2: ((1, 2),)},
            frame="index",
            header={2: ("", "X", "Y")},
            number=0,
            presumed="Coordinates are pixels counted from 0 at the centre of the first pixel.",
        ),
        Files("ANHIR, CIMA", "CSV with ,X,Y", "-", "one file per image", "pixels from 0", "px",
              "published landmarks of five regions"),
        frames=("index",), pixels=True, scalable=True,
    ),
    _format(
        "brats-reg",
        "BraTS-Reg CSV",
        Columns(
            begins=lambda fields: _lower(fields) == ["landmark", "x", "y", "z"],
            sides={3: ((1, 2, 3),)},
            frame="LPS",
            header={3: ("Landmark", "X", "Y", "Z")},
            number=0,
            presumed="The file does not say its frame; it is taken as LPS in mm, as BraTS-Reg has it.",
        ),
        Files("BraTS-Reg", "CSV with Landmark,X,Y,Z", "2022", "one file per image", "LPS, not stated", "mm",
              SPECIFICATION),
        frames=("LPS", "RAS"), scalable=True,
    ),
    _format(
        "dirlab",
        "DIR-Lab text file",
        Columns(
            begins=_three_numbers,
            sides={3: ((0, 1, 2),)},
            frame="index1",
            presumed="Coordinates are voxel indices x, y, z counted from 1.",
            blanks=True,
        ),
        Files("DIR-Lab", "*_xyz.txt", "-", "one file per image", "voxels from 1", "voxels",
              "published initial errors of ten cases"),
        fits=_dirlab_name, frames=("index1",),
    ),
    _format(
        "learn2reg",
        "Learn2Reg CSV",
        Columns(
            begins=_three_numbers,
            sides={3: ((0, 1, 2),)},
            frame="index",
            presumed="Numbers without a header are taken as Learn2Reg has them: voxel indices x, y, z from 0.",
        ),
        Files("Learn2Reg", "CSV x,y,z without a header", "2022", "one file per image", "voxels from 0", "voxels",
              SPECIFICATION),
        frames=("index",),
    ),
    _format(
        "bigwarp",
        "BigWarp CSV",
        Columns(
            begins=lambda fields: len(fields) in (6, 8) and fields[1].lower() in ("true", "false"),
            sides={2: ((4, 5), (2, 3)), 3: ((5, 6, 7), (2, 3, 4))},
            frame="unstated",
            label=(0,), active=1, unplaced="Infinity", quoted=True,
            note="BigWarp's columns are moving first, then fixed.",
            presumed="Coordinates are in the world that BigWarp showed.",
        ),
        Files("BigWarp", ".csv", "9", "pairs, moving first", "world of BigWarp", "its unit", SPECIFICATION),
        frames=("unstated", "image", "LPS", "RAS", "scaled", "index"), pairs=True, holds=frozenset({INACTIVE, NAMES}),
        scalable=True,
    ),
    _format(
        "ants",
        "ANTs points CSV",
        Columns(
            begins=lambda fields: _lower(fields[:4]) == ["x", "y", "z", "t"],
            sides={2: (("x", "y"),), 3: (("x", "y", "z"),)},
            frame="LPS",
            header={2: ("x", "y", "z", "t"), 3: ("x", "y", "z", "t")},
            label=("comment", "label"), unnamed="nan", named=("label", "comment"), settle=_settle_ants,
            presumed="ANTs points are world points in the frame of ITK (LPS).",
        ),
        Files("ANTs", "CSV x,y,z,t", "ANTsPy 0.5", "one file per image", "LPS", "mm", "ANTsPy itself"),
        frames=("world", "LPS", "image", "RAS"), holds=frozenset({NAMES}),
    ),
    _format(
        "napari",
        "napari points CSV",
        Columns(
            begins=lambda fields: "axis-0" in fields and "axis-1" in fields,
            sides={2: (("axis-1", "axis-0"),), 3: (("axis-2", "axis-1", "axis-0"),)},
            frame="index",
            header={2: ("index", "axis-0", "axis-1"), 3: ("index", "axis-0", "axis-1", "axis-2")},
            label=("name", "label"), named=("name",), number="index", first=0,
            wrong={"shape-type": "as of a shapes layer", "axis-3": "as of points with time or channels"},
            presumed="Coordinates are the layer's data: pixel indices counted from 0, before napari's scale.",
        ),
        Files("napari", "points CSV", "0.6", "one file per image", "array order", "pixels", "napari itself"),
        frames=("index", "scaled", "image", "LPS", "RAS"), holds=frozenset({NAMES}), pixels=True, scalable=True,
    ),
)  # fmt: skip
