"""Plain CSV with a header, the format to type by hand or to export from a table.

Pairs have the columns ``fixed_x, fixed_y[, fixed_z], moving_x, moving_y[, moving_z]``; a set of points has ``x, y[,
z]``. Optional: ``name``, ``rater``, ``active`` (true/false), the covariance of the moving point ``c_xx, c_xy, c_yy``
(and ``c_xz, c_yz, c_zz`` in 3D), ``skip`` (the reason; the moving point is empty), ``units`` and ``frame`` (the same in
every row). Without the last two, 3D points are LPS in mm and 2D points are in the world of the image.
"""

from __future__ import annotations

import itertools
import math
from typing import cast

import numpy as np

from warpgauge.display import csv_text
from warpgauge.geometry import UNITS, Floats
from warpgauge.io.landmarks.base import (
    COVARIANCES,
    FILE_FRAMES,
    INACTIVE,
    NAMES,
    PENDING,
    RATERS,
    SKIPS,
    FileFrame,
    Format,
    Side,
    Table,
    stack,
    world_frame,
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
    shown,
    table_body,
    words,
)

_AXES = "xyz"
_OPTIONAL = ("name", "rater", "active", "skip", "units", "frame")


def _covariance_titles(d: int) -> list[str]:
    return [f"c_{a}{b}" for a, b in itertools.combinations_with_replacement(_AXES[:d], 2)]


def _titles(d: int, side: str) -> list[str]:
    return [f"{side}_{axis}" if side else axis for axis in _AXES[:d]]


class _Columns:
    """Where the columns of one file stand, and its rows."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        rows = csv_rows(text, name)
        if not rows:
            fail(name, None, "holds no header", "check that this is the right file")
        self.places = {title.lower(): place for title, place in header_columns(rows[0], name).items()}
        self.paired = "fixed_x" in self.places
        prefix = "fixed" if self.paired else ""
        self.d = 3 if _titles(3, prefix)[2] in self.places else 2
        self.fixed = self._required(_titles(self.d, prefix))
        self.moving = self._required(_titles(self.d, "moving")) if self.paired else []
        titles = _covariance_titles(self.d)
        self.covariance = self._required(titles) if any(t in self.places for t in titles) else []
        self.body = table_body(rows, name)
        used = {*_titles(self.d, prefix), *_titles(self.d, "moving"), *titles, *_OPTIONAL}
        self.unused = [title for title in self.places if title not in used]

    def _required(self, titles: list[str]) -> list[int]:
        missing = [title for title in titles if title not in self.places]
        if missing:
            fail(self.name, 1, f"the header has no column {missing[0]!r}", f"it needs all of {', '.join(titles)}")
        return [self.places[title] for title in titles]

    def text(self, row: Row, title: str) -> str:
        return row[1][self.places[title]] if title in self.places else ""

    def point(self, row: Row, places: list[int]) -> list[float]:
        fields = [row[1][place] for place in places]
        if not any(field.strip() for field in fields):
            return [math.nan] * len(places)
        return coordinates(fields, self.name, row[0])

    def matrix(self, row: Row) -> Floats:
        fields = [row[1][place].strip() for place in self.covariance]
        matrix = np.full((self.d, self.d), np.nan)
        if not any(fields):
            return matrix
        pairs = itertools.combinations_with_replacement(range(self.d), 2)
        for (a, b), field in zip(pairs, fields, strict=True):
            value = float(field) if is_number(field) else math.nan
            if not abs(value) <= LARGEST_COORDINATE**2:
                fail(self.name, row[0], f"the covariance entry {shown(field)} is not a number of use")
            matrix[a, b] = matrix[b, a] = value
        problem = covariance_problem(matrix)
        if problem:
            fail(self.name, row[0], f"the covariance {problem}")
        return matrix

    def constant(self, title: str, allowed: tuple[str, ...]) -> str | None:
        values = {self.text(row, title).strip() for row in self.body} - {""}
        if not values:
            return None
        if len(values) > 1 or not values <= set(allowed):
            fail(
                self.name,
                None,
                f"the column {title!r} must hold one of {', '.join(allowed)} throughout, got {shown(sorted(values))}",
            )
        return values.pop()

    def active(self, row: Row) -> bool:
        word = self.text(row, "active").strip().lower()
        if word not in ("", "true", "false", "1", "0"):
            fail(self.name, row[0], f"the column 'active' holds {shown(word)}, not true or false")
        return word not in ("false", "0")


def parse(text: str, name: str, d: int | None) -> Table:
    """Read a plain CSV of pairs or of points."""
    columns = _Columns(text, name)
    skipped = [row for row in columns.body if columns.text(row, "skip").strip()]
    kept = [row for row in columns.body if not columns.text(row, "skip").strip()]
    frame = columns.constant("frame", FILE_FRAMES)
    default: FileFrame = "LPS" if columns.d == 3 else "image"
    state = {"frame": cast(FileFrame, frame or default), "units": columns.constant("units", UNITS)}
    if not kept and not skipped:
        stack([], name)
    names = tuple(words(columns.text(row, "name"), name, row[0]) for row in kept)
    raters = tuple(words(columns.text(row, "rater"), name, row[0]) or None for row in kept)
    covariances = np.array([columns.matrix(row) for row in kept]).reshape(-1, columns.d, columns.d)
    fixed = np.array([columns.point(row, columns.fixed) for row in kept]).reshape(-1, columns.d)
    moving = np.array([columns.point(row, columns.moving) for row in kept]).reshape(-1, columns.d)
    table = Table(
        fixed=Side(fixed, frame_stated=frame is not None, names=names if any(names) else None, **state),  # type: ignore[arg-type]
        moving=Side(moving, frame_stated=frame is not None, **state) if columns.paired else None,  # type: ignore[arg-type]
        covariances=None if np.all(np.isnan(covariances)) else covariances,
        raters=raters if any(raters) else None,
        active=np.array([columns.active(row) for row in kept], dtype=bool),
    )
    for row in skipped:
        table.skips.append(_skip(columns, row))
    if columns.unused:
        table.assumptions.append(f"Columns that mean nothing here were left out: {', '.join(columns.unused)}.")
    if frame is None:
        table.assumptions.append(f"The file does not say its frame; it is taken as {default!r}.")
    return table


def _skip(columns: _Columns, row: Row) -> tuple[list[float], str, str | None]:
    point = columns.point(row, columns.fixed)
    if any(math.isnan(value) for value in point):
        fail(columns.name, row[0], "a skip without its fixed point")
    if any(row[1][place].strip() for place in columns.moving):
        fail(columns.name, row[0], "a skip that has a moving point", "empty one of the two")
    reason = words(columns.text(row, "skip"), columns.name, row[0])
    return point, reason, words(columns.text(row, "rater"), columns.name, row[0]) or None


def render(table: Table) -> str:
    """Write a plain CSV; columns that would be empty are left out."""
    d, n = table.d, len(table)
    header = _titles(d, "fixed" if table.moving else "")
    rows = [_numbers(point) for point in table.fixed.points]
    skips = [_numbers(np.array(point)) for point, _, _ in table.skips]

    def add(titles: list[str], cells: list[list[str]], skip_cells: list[list[str]] | None = None) -> None:
        header.extend(titles)
        for row, more in zip(rows, cells, strict=True):
            row.extend(more)
        for row, more in zip(skips, skip_cells or [[""] * len(titles)] * len(skips), strict=True):
            row.extend(more)

    if table.moving:
        add(_titles(d, "moving"), [_numbers(point) for point in table.moving.points])
    if table.fixed.names:
        add(["name"], [[name] for name in table.fixed.names])
    if table.raters or any(rater for _, _, rater in table.skips):
        raters = table.raters or (None,) * n
        add(["rater"], [[rater or ""] for rater in raters], [[rater or ""] for _, _, rater in table.skips])
    if table.active is not None and not np.all(table.active):
        add(["active"], [["true" if active else "false"] for active in table.active])
    if table.covariances is not None:
        upper = np.triu_indices(d)
        add(_covariance_titles(d), [_numbers(matrix[upper]) for matrix in table.covariances])
    if skips:
        add(["skip"], [[""]] * n, [[reason] for _, reason, _ in table.skips])
    frame, units = table.fixed.frame, table.fixed.units
    if frame != ("LPS" if d == 3 else "image"):
        add(["frame"], [[frame]] * n, [[frame]] * len(skips))
    if units is not None and units != ("mm" if d == 3 and frame in ("LPS", "RAS") else "px"):
        add(["units"], [[units]] * n, [[units]] * len(skips))
    return csv_text([header, *rows, *skips])


def _numbers(values: Floats) -> list[str]:
    return ["" if math.isnan(value) else number_text(value) for value in values]


FORMAT = Format(
    name="csv",
    title="plain CSV",
    pairs=True,
    parse=parse,
    render=render,
    write_frame=world_frame("RAS", "image", "index", "index1", "scaled"),
    holds=frozenset({COVARIANCES, RATERS, SKIPS, INACTIVE, PENDING, NAMES}),
    scalable=True,
)
