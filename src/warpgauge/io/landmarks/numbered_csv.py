"""Numbered landmarks, one CSV per image: ``,X,Y`` in pixels (ANHIR, CIMA) and ``Landmark,X,Y,Z`` in LPS mm (BraTS-Reg).

The first column numbers the landmarks, and two files are paired by it where both have the same numbers. Where it does
not count without a gap, its entries are kept as names, too.
"""

from __future__ import annotations

from functools import partial

from warpgauge.display import csv_text
from warpgauge.io.landmarks.base import FileFrame, Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, csv_rows, fail, number_text, shown, table_body

_FLAT, _SOLID = ("", "X", "Y"), ("Landmark", "X", "Y", "Z")


def is_anhir(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of ANHIR, whatever its first column is called."""
    return len(titles) == 3 and tuple(title.strip() for title in titles[1:]) == _FLAT[1:]


def is_brats_reg(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of BraTS-Reg."""
    return tuple(title.strip().lower() for title in titles) == tuple(title.lower() for title in _SOLID)


def _parse(text: str, name: str, d: int | None, *, solid: bool) -> Table:
    """Read the landmarks of one image."""
    rows = csv_rows(text, name)
    if not rows or not (is_brats_reg if solid else is_anhir)(rows[0][1]):
        header = shown(",".join(rows[0][1])) if rows else "nothing"
        kind = "a BraTS-Reg" if solid else "an ANHIR or CIMA"
        wanted = ",".join(_SOLID if solid else _FLAT)
        fail(name, 1, f"the header is {header}, not {wanted!r}", f"this is not {kind} landmark file")
    body = table_body(rows, name)
    points = stack([coordinates(fields[1:], name, line) for line, fields in body], name)
    labels = tuple(fields[0].strip() for _, fields in body)
    counts = [int(label) if label.isascii() and label.isdigit() and len(label) < 18 else None for label in labels]
    first = counts[0]
    consecutive = first is not None and counts == list(range(first, first + len(counts)))
    frame: FileFrame = "LPS" if solid else "index"
    note = "Coordinates are pixels counted from 0 at the centre of the first pixel."
    if solid:
        note = "The file does not say its frame; it is taken as LPS in mm, as BraTS-Reg has it."
    return Table(
        fixed=Side(
            points,
            frame,
            names=None if consecutive or not any(labels) else labels,
            indices=labels if all(labels) else None,
        ),
        assumptions=[note],
    )


def _render(table: Table) -> str:
    """Write the landmarks of one image, counted from 1."""
    rows = [
        [str(count), *(number_text(value) for value in point)]
        for count, point in enumerate(table.fixed.points, start=1)
    ]
    return csv_text([_SOLID if table.d == 3 else _FLAT, *rows])


ANHIR = Format(
    name="anhir",
    title="ANHIR/CIMA CSV",
    parse=partial(_parse, solid=False),
    render=_render,
    write_frame=one_frame("index"),
    dimensions=(2,),
    pixels=True,
    scalable=True,
)
BRATS_REG = Format(
    name="brats-reg",
    title="BraTS-Reg CSV",
    parse=partial(_parse, solid=True),
    render=_render,
    write_frame=one_frame("LPS", "RAS"),
    dimensions=(3,),
    scalable=True,
)
