"""ANHIR and CIMA landmarks: one CSV per image with the header ``,X,Y``, in pixels.

The first column numbers the landmarks, and two files are paired by it where both have the same numbers. Where it does
not count without a gap, its entries are kept as names, too.
"""

from __future__ import annotations

from warpgauge.display import csv_text
from warpgauge.io.landmarks.base import Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, csv_rows, fail, number_text, shown, table_body

_HEADER = ("X", "Y")


def is_header(titles: list[str]) -> bool:
    """Return whether the fields of a first line are the header of this format."""
    return len(titles) == 3 and tuple(title.strip() for title in titles[1:]) == _HEADER


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the landmarks of one image."""
    rows = csv_rows(text, name)
    if not rows or not is_header(rows[0][1]):
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


def _render(table: Table) -> str:
    """Write the landmarks of one image, counted from 1."""
    rows = [
        [str(count), *(number_text(value) for value in point)]
        for count, point in enumerate(table.fixed.points, start=1)
    ]
    return csv_text([["", *_HEADER], *rows])


FORMAT = Format(
    name="anhir",
    title="ANHIR/CIMA CSV",
    parse=_parse,
    render=_render,
    write_frame=one_frame("index"),
    dimensions=(2,),
    pixels=True,
    scalable=True,
)
