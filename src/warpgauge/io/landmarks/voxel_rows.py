"""Landmarks as three bare numbers per line, a file per image: voxels of DIR-Lab (from 1) and of Learn2Reg (from 0).

DIR-Lab (4DCT, COPDgene) separates them by blanks, Learn2Reg by commas; neither has a header.
"""

from __future__ import annotations

from functools import partial

from warpgauge.display import counted, csv_text
from warpgauge.io.landmarks.base import Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, csv_rows, fail, is_number, lines, number_text


def is_learn2reg(fields: list[str]) -> bool:
    """Return whether the fields of a first line are three numbers."""
    return len(fields) == 3 and all(is_number(field.strip()) for field in fields)


def _parse(text: str, name: str, d: int | None, *, from_one: bool) -> Table:
    """Read the landmarks of one image."""
    rows = []
    for line, fields in (
        [(line, content.split()) for line, content in lines(text)] if from_one else csv_rows(text, name)
    ):
        if len(fields) != 3 and from_one:
            problem = f"{counted(len(fields), 'column')}, but a DIR-Lab file has 3"
            fail(name, line, problem, "the file is cut or another format")
        if len(fields) != 3:
            fail(name, line, f"{len(fields)} fields, but a Learn2Reg file has 3 numbers in each row")
        rows.append(coordinates(fields, name, line))
    note = "Numbers without a header are taken as Learn2Reg has them: voxel indices x, y, z from 0."
    if from_one:
        note = "Coordinates are voxel indices x, y, z counted from 1; rows correspond."
    return Table(fixed=Side(stack(rows, name), "index1" if from_one else "index"), assumptions=[note])


def _render(table: Table) -> str:
    """Write the landmarks of one image: those that count from 1 separated by tabs."""
    rows = [[number_text(value) for value in point] for point in table.fixed.points]
    return "".join("\t".join(row) + "\n" for row in rows) if table.fixed.frame == "index1" else csv_text(rows)


DIRLAB = Format(
    "dirlab", "DIR-Lab text file", partial(_parse, from_one=True), _render, one_frame("index1"), dimensions=(3,)
)
LEARN2REG = Format(
    "learn2reg", "Learn2Reg CSV", partial(_parse, from_one=False), _render, one_frame("index"), dimensions=(3,)
)
