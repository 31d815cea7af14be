"""BigWarp landmarks: CSV without a header, ``name, active, moving x, y[, z], fixed x, y[, z]``.

The **moving** point stands first. A point that is not placed yet is ``Infinity`` in every coordinate. The numbers are
in the world that BigWarp showed, which the file does not name.
"""

from __future__ import annotations

import math

import numpy as np

from warpgauge.display import counted, csv_text
from warpgauge.io.landmarks.base import INACTIVE, NAMES, PENDING, Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, csv_rows, fail, number_text, shown, words

_WIDTHS = {6: 2, 8: 3}
_UNPLACED = ("Infinity", "-Infinity")


def is_row(fields: list[str]) -> bool:
    """Return whether the fields of a first line are a row of this format."""
    return len(fields) in _WIDTHS and fields[1].strip().lower() in ("true", "false")


def _point(fields: list[str], name: str, line: int) -> list[float]:
    unplaced = [field.strip() in _UNPLACED for field in fields]
    if all(unplaced):
        return [math.nan] * len(fields)
    if any(unplaced):
        fail(name, line, "a point with some coordinates at Infinity and others not")
    return coordinates(fields, name, line)


def _parse(text: str, name: str, d: int | None) -> Table:
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
        moving.append(_point(fields[2 : 2 + dimension], name, line))
        fixed.append(_point(fields[2 + dimension :], name, line))
    return Table(
        fixed=Side(stack(fixed, name), "unstated", names=tuple(names)),
        moving=Side(stack(moving, name), "unstated"),
        active=np.array(active, dtype=bool),
        assumptions=["BigWarp's columns are moving first, then fixed, in the world that BigWarp showed."],
    )


def _render(table: Table) -> str:
    """Write the pairs of a BigWarp file; it quotes every field."""
    assert table.moving is not None  # the writer refuses a set of points before
    rows = []
    for row, (fixed, moving) in enumerate(zip(table.fixed.points, table.moving.points, strict=True)):
        name = table.fixed.names[row] if table.fixed.names else f"Pt-{row}"
        active = table.active is None or bool(table.active[row])
        rows.append([name, "true" if active else "false", *map(_field, moving), *map(_field, fixed)])
    return csv_text(rows, quote_all=True)


def _field(value: float) -> str:
    return "Infinity" if math.isnan(value) else number_text(value)


FORMAT = Format(
    name="bigwarp",
    title="BigWarp CSV",
    pairs=True,
    parse=_parse,
    render=_render,
    write_frame=one_frame("unstated", "image", "LPS", "RAS", "scaled", "index"),
    holds=frozenset({INACTIVE, PENDING, NAMES}),
    scalable=True,
)
