"""Plain CSV with a header, warpgauge's own format: easy to type by hand and to export from a table.

Pairs have the columns ``fixed_x, fixed_y[, fixed_z], moving_x, moving_y[, moving_z]``; a set of points has ``x, y[,
z]``. Optional: ``name``, ``rater``, ``active`` (true/false), the covariance of the moving point ``c_xx, c_xy, c_yy``
(and ``c_xz, c_yz, c_zz`` in 3D), ``skip`` (the reason; the moving point is empty), ``units`` and ``frame`` (the same in
every row). Without the last two, 3D points are LPS in mm and 2D points are in the world of the image.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from warpgauge.display import csv_text
from warpgauge.geometry import UNITS, Floats
from warpgauge.io.formats import Files
from warpgauge.io.landmarks.base import (
    COVARIANCES,
    FILE_FRAMES,
    INACTIVE,
    NAMES,
    RATERS,
    SKIPS,
    FileFrame,
    Format,
    Side,
    Start,
    Table,
    stack,
)
from warpgauge.io.landmarks.model import LARGEST_COORDINATE, covariance_problem
from warpgauge.io.landmarks.text import (
    Row,
    coordinates,
    csv_rows,
    fail,
    header_columns,
    is_number,
    number_text,
    same_width,
    shown,
    words,
)

_OPTIONAL = ("name", "rater", "active", "skip", "units", "frame")


def _titles(d: int, side: str) -> list[str]:
    """Return the titles of the columns of a point, or with ``"c"`` of a covariance."""
    if side == "c":
        return [f"c_{a}{b}" for a, b in itertools.combinations_with_replacement("xyz"[:d], 2)]
    return [f"{side}_{axis}" if side else axis for axis in "xyz"[:d]]


class _File:
    """The rows of one file, and where its columns stand."""

    def __init__(self, text: str, name: str) -> None:
        rows = csv_rows(text, name)
        if not rows:
            fail(name, None, "holds no header", "check that this is the right file")
        self.name = name
        self.places = {title.lower(): place for title, place in header_columns(rows[0], name).items()}
        same_width(rows, name)
        self.rows = rows[1:]
        self.first = "fixed" if "fixed_x" in self.places else ""
        self.d = 3 if _titles(3, self.first)[2] in self.places else 2
        titles = _titles(self.d, self.first)
        if self.first:
            titles += _titles(self.d, "moving")
        if set(self.places) & set(_titles(self.d, "c")):
            titles += _titles(self.d, "c")
        for title in titles:
            if title not in self.places:
                fail(name, 1, f"the header has no column {title!r}", f"it needs all of {','.join(titles)}")
        self.unused = [title for title in self.places if title and title not in titles and title not in _OPTIONAL]

    def cells(self, row: Row, titles: Sequence[str]) -> list[str]:
        """Return the fields under some titles; none where the file has no such columns, or all are empty."""
        fields = [row[1][self.places[title]].strip() for title in titles if title in self.places]
        return fields if any(fields) else []

    def text(self, row: Row, title: str) -> str:
        return words(row[1][self.places[title]] if title in self.places else "", self.name, row[0])

    def point(self, row: Row, side: str) -> list[float]:
        return coordinates(self.cells(row, _titles(self.d, side)), self.name, row[0]) or [math.nan] * self.d

    def matrix(self, row: Row) -> Floats:
        matrix = np.full((self.d, self.d), np.nan)
        fields = self.cells(row, _titles(self.d, "c"))
        if not fields:
            return matrix
        pairs = itertools.combinations_with_replacement(range(self.d), 2)
        for (a, b), field in zip(pairs, fields, strict=True):
            value = float(field) if is_number(field) else math.nan
            if not abs(value) <= LARGEST_COORDINATE**2:
                fail(self.name, row[0], f"the covariance entry {shown(field)} is not a number of use")
            matrix[a, b] = value
            matrix[b, a] = value
        problem = covariance_problem(matrix)
        if problem:
            fail(self.name, row[0], f"the covariance {problem}")
        return matrix

    def constant(self, title: str, allowed: tuple[str, ...]) -> str | None:
        """Return the one value of a column, None where it has none."""
        values = sorted({self.text(row, title).strip() for row in self.rows} - {""})
        if len(values) > 1 or not set(values) <= set(allowed):
            problem = f"the column {title!r} must hold one of {', '.join(allowed)} throughout, got {shown(values)}"
            fail(self.name, None, problem)
        return values[0] if values else None

    def active(self, row: Row) -> bool:
        word = self.text(row, "active").strip().lower()
        if word not in ("", "true", "false", "1", "0"):
            fail(self.name, row[0], f"the column 'active' holds {shown(word)}, not true or false")
        return word not in ("false", "0")

    def skip(self, row: Row) -> tuple[list[float], str, str | None]:
        point = self.point(row, self.first)
        if any(map(math.isnan, point)):
            fail(self.name, row[0], "a skip without its fixed point")
        if self.cells(row, _titles(self.d, "moving")):
            fail(self.name, row[0], "a skip that has a moving point", "empty one of the two")
        return point, self.text(row, "skip"), self.text(row, "rater") or None


def _parse(text: str, name: str, d: int | None) -> Table:
    file = _File(text, name)
    frame = file.constant("frame", FILE_FRAMES)
    units = file.constant("units", UNITS)
    rows = [row for row in file.rows if not file.text(row, "skip").strip()]
    skips = [file.skip(row) for row in file.rows if file.text(row, "skip").strip()]
    if not rows and not skips:
        stack([], name)

    def side(title: str) -> Side:
        points = np.array([file.point(row, title) for row in rows]).reshape(-1, file.d)
        default = "LPS" if file.d == 3 else "image"
        return Side(points, cast(FileFrame, frame or default), frame is not None, units)

    table = Table(side(file.first), side("moving") if file.first else None, skips=skips)
    names = tuple(file.text(row, "name") for row in rows)
    raters = tuple(file.text(row, "rater") or None for row in rows)
    covariances = np.array([file.matrix(row) for row in rows]).reshape(-1, file.d, file.d)
    table.fixed.names = names if any(names) else None
    table.raters = raters if any(raters) else None
    table.covariances = None if np.all(np.isnan(covariances)) else covariances
    table.active = np.array([file.active(row) for row in rows], dtype=bool)
    if file.unused:
        table.assumptions.append(f"Columns that mean nothing here were left out: {', '.join(file.unused)}.")
    if frame is None:
        table.presumed.append(f"The file does not say its frame; it is taken as {table.fixed.frame!r}.")
    return table


def _render(table: Table) -> str:
    """Write a plain CSV; columns that would be empty are left out."""
    d = table.d
    upper = np.triu_indices(d)
    rows = []
    for row in range(len(table)):
        cells = dict(zip(_titles(d, "fixed" if table.moving else ""), table.fixed.points[row], strict=True))
        if table.moving:
            cells |= dict(zip(_titles(d, "moving"), table.moving.points[row], strict=True))
        if table.covariances is not None:
            cells |= dict(zip(_titles(d, "c"), table.covariances[row][upper], strict=True))
        written = {title: number_text(value) for title, value in cells.items() if not math.isnan(value)}
        written["name"] = table.fixed.names[row] if table.fixed.names else ""
        written["rater"] = (table.raters[row] if table.raters else None) or ""
        written["active"] = "" if table.active is None or np.all(table.active) else str(bool(table.active[row])).lower()
        rows.append(written)
    for point, reason, rater in table.skips:
        start = dict(zip(_titles(d, "fixed" if table.moving else ""), map(number_text, point), strict=True))
        rows.append({**start, "rater": rater or "", "skip": reason})
    frame = table.fixed.frame
    units = table.fixed.units
    for written in rows:
        if frame != ("LPS" if d == 3 else "image"):
            written["frame"] = frame
        if units is not None and units != ("mm" if d == 3 and frame in ("LPS", "RAS") else "px"):
            written["units"] = units
    points = [*_titles(d, "fixed"), *_titles(d, "moving")] if table.moving else _titles(d, "")
    optional = ("name", "rater", "active", *_titles(d, "c"), "skip", "frame", "units")
    header = [*points, *(title for title in optional if any(written.get(title) for written in rows))]
    return csv_text([header, *([written.get(title, "") for title in header] for written in rows)])


def _fits(start: Start) -> bool:
    """Return whether a header has the columns of this format."""
    titles = [title.lower() for title in start.fields]
    return "fixed_x" in titles or {"x", "y"} <= set(titles)


FORMAT = Format(
    name="csv",
    title="plain CSV",
    written=(
        Files("any", ".csv with a header", "-", "pairs, or one file per image", "as stated, else LPS in 3D",
              "as stated, else mm or px", "against the definition"),
    ),
    fits=_fits,
    parse=_parse,
    render=_render,
    frames=("world", "RAS", "image", "index", "index1", "scaled"),
    endings=(".csv",),
    pairs=True,
    holds=frozenset({COVARIANCES, RATERS, SKIPS, INACTIVE, NAMES}),
    scalable=True,
)  # fmt: skip
