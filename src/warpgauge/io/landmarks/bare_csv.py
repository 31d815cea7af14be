"""Landmarks of Learn2Reg: one CSV per image without a header, ``x,y,z`` in voxels that count from 0."""

from __future__ import annotations

from warpgauge.display import csv_text
from warpgauge.io.landmarks.base import Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, csv_rows, fail, is_number, number_text


def is_row(fields: list[str]) -> bool:
    """Return whether the fields of a first line are three numbers."""
    return len(fields) == 3 and all(is_number(field.strip()) for field in fields)


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the landmarks of one image."""
    rows = []
    for line, fields in csv_rows(text, name):
        if len(fields) != 3:
            fail(name, line, f"{len(fields)} fields, but a Learn2Reg file has 3 numbers in each row")
        rows.append(coordinates(fields, name, line))
    return Table(
        fixed=Side(stack(rows, name), "index"),
        assumptions=["Numbers without a header are taken as Learn2Reg has them: voxel indices x, y, z from 0."],
    )


def _render(table: Table) -> str:
    """Write the landmarks of one image."""
    return csv_text([[number_text(value) for value in point] for point in table.fixed.points])


FORMAT = Format(
    name="learn2reg",
    title="Learn2Reg CSV",
    parse=_parse,
    render=_render,
    write_frame=one_frame("index"),
    dimensions=(3,),
)
