"""`read_landmarks`: one or two files in, one value out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError, FileTooLargeError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import PathLike, read_text
from warpgauge.io.landmarks.assembly import Assembler, Scale
from warpgauge.io.landmarks.base import Format, Table
from warpgauge.io.landmarks.detect import detect, named_format
from warpgauge.io.landmarks.model import Landmarks
from warpgauge.io.landmarks.pairing import pair

MOST_LINES = 400_000


def read_landmarks(
    path: PathLike,
    moving_path: PathLike | None = None,
    *,
    format: str | None = None,  # noqa: A002  # the word that users look for
    fixed_grid: Grid | None = None,
    moving_grid: Grid | None = None,
    frame: str | None = None,
    units: str | None = None,
    scale: Scale | None = None,
    rater: str | None = None,
    dimension: int | None = None,
    match: str | None = None,
) -> Landmarks:
    """Read landmarks of any supported format into world points.

    Parameters
    ----------
    path, moving_path : path
        One file for formats that hold pairs (warpgauge JSON, plain CSV, BigWarp); for the others the file of the fixed
        and the file of the moving image. Without ``moving_path`` such a file is a set of points.
    format : str, optional
        ``"warpgauge"``, ``"csv"``, ``"anhir"``, ``"dirlab"``, ``"bigwarp"``, ``"slicer-json"``, ``"slicer-fcsv"``,
        ``"transformix"``, ``"ants"``, ``"napari"`` or ``"qupath"``; recognised from the content by default.
    fixed_grid, moving_grid : Grid, optional
        The images' grids: needed to turn voxel indices into world points, and used for the checks.
    frame : str, optional
        What the numbers of the file are, where it does not say or says it wrongly: ``"LPS"``, ``"RAS"``, ``"image"``
        (world of the image), ``"index"`` (from 0), ``"index1"`` (from 1), ``"scaled"`` (spacing times index).
    units : {"px", "um", "mm"}, optional
        World units, where neither file nor grid says them.
    scale : float or pair of float, optional
        Multiplies the numbers of the file, of both sides or of fixed and moving: 0.1 for landmarks placed on an image
        ten times larger.
    rater : str, optional
        Who placed the points. In a file that names raters, only this rater's rows are read.
    dimension : {2, 3}, optional
        For ANTs files whose z are all 0, which may be either.
    match : {"row", "name", "index"}, optional
        How the points of two files correspond; by default by name or index where both files have the same ones, else
        by row. The assumptions say which it was.

    Warns
    -----
    SuspiciousDataWarning
        With the numbers, when the best affine map of the pairs is a mirror, points lie outside their image, fixed and
        moving seem exchanged, one-based indices seem to count from 0, or another pairing fits an affine map far better.
    """
    d = _dimension(dimension, fixed_grid, moving_grid)
    file = Path(path)
    found, table = _parse(file, format, d)
    name, moving_format = file.name, found
    if moving_path is not None:
        if table.moving is not None:
            raise InvalidInputError(f"{name!r} holds both sides of its pairs; leave moving_path out.")
        moving_format, moving_table = _parse(Path(moving_path), format, d)
        if moving_table.moving is not None:
            raise InvalidInputError(
                f"{Path(moving_path).name!r} holds pairs, not the points of one image; read it alone."
            )
        table = pair(table, moving_table, name, Path(moving_path).name, match)
    if rater is not None:
        table = _of_rater(table, rater, name)
    reader = Assembler((found, moving_format), name, (fixed_grid, moving_grid), frame, units, scale)
    return reader.assemble(table)


def _dimension(dimension: int | None, *grids: Grid | None) -> int | None:
    known = {grid.d for grid in grids if grid is not None} | ({dimension} if dimension is not None else set())
    if len(known) > 1 or not known <= {2, 3}:
        raise InvalidInputError(f"dimension and the grids must agree on 2 or 3 dimensions, got {sorted(known)}.")
    return next(iter(known), None)


def _parse(file: Path, kind: str | None, d: int | None) -> tuple[Format, Table]:
    text = read_text(file, "landmark file")
    count = text.count("\n") + text.count("\r")
    if count > MOST_LINES:
        raise FileTooLargeError(
            f"{file.name!r} has {count} lines, more than the {MOST_LINES} of the largest landmark file that is read; "
            f"give a part of it."
        )
    found = named_format(kind) if kind is not None else detect(text, file.name)
    table = found.parse(text, file.name, d)
    if not text.endswith(("\n", "\r", "}")):  # a cut JSON file does not get here
        table.assumptions.append(
            f"{file.name!r} does not end with a line break; if it was cut, its last number is wrong."
        )
    if d is not None and table.d != d:
        raise FileFormatError(
            f"{file.name!r} holds {table.d}D points, but {d}D was expected; check the file, the grids and dimension=."
        )
    return found, table


def _of_rater(table: Table, rater: str, name: str) -> Table:
    if table.raters is None:
        table.raters = (rater,) * len(table)
        return table
    keep = np.array([other == rater for other in table.raters], dtype=bool)
    if not np.any(keep):
        present = ", ".join(sorted({other for other in table.raters if other}))
        raise InvalidInputError(f"{name!r} has no landmarks of rater {rater!r}; it has those of {present}.")
    for side in (table.fixed, table.moving):
        if side is not None:
            side.points = side.points[keep]
            side.names = None if side.names is None else tuple(np.array(side.names, dtype=object)[keep])
    table.covariances = None if table.covariances is None else table.covariances[keep]
    table.active = None if table.active is None else table.active[keep]
    table.raters = (rater,) * int(keep.sum())
    table.skips = [skip for skip in table.skips if skip[2] == rater]
    return table
