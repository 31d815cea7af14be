"""`read_landmarks`: one or two files are parsed and become `Landmarks`, with frames, units and warnings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import FileFormatError, FileTooLargeError, InvalidInputError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import PathLike, read_text
from warpgauge.io.landmarks import checks, frames
from warpgauge.io.landmarks.base import FileFrame, Format, Table
from warpgauge.io.landmarks.model import Landmarks, Skip
from warpgauge.io.landmarks.pairing import pair
from warpgauge.io.landmarks.registry import detect, named_format
from warpgauge.io.landmarks.text import SEPARATORS, separator

MOST_LINES = 400_000
Scale = float | tuple[float, float]
_SMALLEST_SCALE = 1e-9


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
    r"""Read landmarks of any supported format into world points.

    >>> import pathlib, tempfile
    >>> import warpgauge as wg
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.csv"
    >>> _ = file.write_text("name,fixed_x,fixed_y,moving_x,moving_y\na,1,2,3,4\n")
    >>> wg.read_landmarks(file).moving_points
    array([[3., 4.]])

    Parameters
    ----------
    path, moving_path : path
        One file for formats that hold pairs (plain CSV, BigWarp, MNI tags); for the others the file of the fixed and
        the file of the moving image. Without ``moving_path`` such a file is a set of points.
    format : str, optional
        One of ``warpgauge.io.landmarks.FORMAT_NAMES``, which ``warpgauge info --formats`` explains; recognised from the
        content by default.
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
    dimensions = {grid.d for grid in (fixed_grid, moving_grid) if grid is not None}
    if dimension is not None:
        dimensions.add(dimension)
    if len(dimensions) > 1 or not dimensions <= {2, 3}:
        raise InvalidInputError(f"dimension and the grids must agree on 2 or 3 dimensions, got {sorted(dimensions)}.")
    d = next(iter(dimensions), None)
    file = Path(path)
    moving_file = file if moving_path is None else Path(moving_path)
    kind, table = _parse(file, format, d, frame)
    moving_kind = kind
    if moving_path is not None:
        if table.moving is not None:
            raise InvalidInputError(f"{file.name!r} holds both sides of its pairs; leave moving_path out.")
        moving_kind, moving_table = _parse(moving_file, format, d, frame)
        if moving_table.moving is not None:
            raise InvalidInputError(f"{moving_file.name!r} holds pairs, not the points of one image; read it alone.")
        table = pair(table, moving_table, file.name, moving_file.name, match)
    if rater is not None:
        table = _of_rater(table, rater, file.name)
    table = _placed(table, file.name)
    kinds = (kind, moving_kind)
    grids = (fixed_grid, moving_grid)[: len(table.sides)]
    scales = _scales(scale, kinds, frame, file.name, table.assumptions)
    maps, units = _maps(table, kinds, grids, frame, units, file.name)
    points = [side.points * factor for side, factor in zip(table.sides, scales, strict=False)]
    landmarks = _landmarks(table, points, maps, scales, units, kind.name)
    _check(landmarks, points, maps, (fixed_grid, moving_grid), (file.name, moving_file.name))
    return landmarks


def _parse(file: Path, format_name: str | None, d: int | None, frame: str | None) -> tuple[Format, Table]:
    text = read_text(file, "landmark file")
    count = text.count("\n") + text.count("\r")
    if count > MOST_LINES:
        raise FileTooLargeError(
            f"{file.name!r} has {count} lines, more than the {MOST_LINES} of the largest landmark file that is read; "
            f"give a part of it."
        )
    kind = detect(text, file.name, frame) if format_name is None else named_format(format_name)
    table = kind.parse(text, file.name, d)
    if frame is None:
        table.assumptions += table.presumed
    if separator(text) in SEPARATORS and "CSV" in kind.title:
        table.assumptions.append(f"The columns are separated by {SEPARATORS[separator(text)]}.")
    if not text.endswith(("\n", "\r", "}")):  # a cut JSON file does not get here
        table.assumptions.append(
            f"{file.name!r} does not end with a line break; if it was cut, its last number is wrong."
        )
    if d is not None and table.d != d:
        raise FileFormatError(
            f"{file.name!r} holds {table.d}D points, but {d}D was expected; check the file and the images."
        )
    return kind, table


def _of_rater(table: Table, rater: str, name: str) -> Table:
    """Return the rows of one rater; in a file that names none, all rows are that rater's."""
    if table.raters is not None:
        keep = np.array([other == rater for other in table.raters], dtype=bool)
        if not np.any(keep):
            present = ", ".join(sorted({other for other in table.raters if other}))
            raise InvalidInputError(f"{name!r} has no landmarks of rater {rater!r}; it has those of {present}.")
        _keep_rows(table, keep)
        table.skips = [skip for skip in table.skips if skip[2] == rater]
    table.raters = (rater,) * len(table)
    return table


def _keep_rows(table: Table, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    rows = np.flatnonzero(keep)
    for side in table.sides:
        side.points = side.points[rows]
        side.names = None if side.names is None else tuple(side.names[row] for row in rows)
    table.covariances = None if table.covariances is None else table.covariances[rows]
    table.active = None if table.active is None else table.active[rows]
    table.raters = None if table.raters is None else tuple(table.raters[row] for row in rows)


def _placed(table: Table, name: str) -> Table:
    """Return the rows that have all their points; which are left out is noted."""
    missing = np.array([np.any(np.isnan(side.points), axis=1) for side in table.sides])
    incomplete = np.any(missing, axis=0)
    if not np.any(incomplete):
        return table
    if len(missing) == 2 and np.any(np.all(missing, axis=0)):
        row = int(np.argmax(np.all(missing, axis=0)))
        raise FileFormatError(f"{name!r}: row {row + 1} has neither a fixed nor a moving point; remove it.")
    if table.covariances is not None and not np.all(np.isnan(table.covariances[incomplete])):
        raise FileFormatError(f"{name!r}: a pair that lacks a point has a covariance; remove one of them.")
    rows = np.flatnonzero(incomplete)
    listed = ", ".join(str(row + 1) for row in rows[:6]) + (", ..." if len(rows) > 6 else "")
    table.assumptions.append(f"{counted(len(rows), 'row')} without a point in every image left out ({listed}).")
    _keep_rows(table, ~incomplete)
    return table


def _scales(
    scale: Scale | None, kinds: tuple[Format, Format], frame: str | None, name: str, assumptions: list[str]
) -> tuple[float, float]:
    if scale is None:
        return 1.0, 1.0
    fixed, moving = np.broadcast_to(np.asarray(scale, dtype=np.float64), (2,)).tolist()
    if not all(_SMALLEST_SCALE <= value <= 1 / _SMALLEST_SCALE for value in (fixed, moving)):
        raise InvalidInputError(
            f"scale must be a number between {_SMALLEST_SCALE:g} and {1 / _SMALLEST_SCALE:g}, or a pair of such "
            f"for fixed and moving, got {scale!r}."
        )
    if not all(kind.scalable for kind in kinds) or frame == "index1":
        raise InvalidInputError(f"{name!r} ({kinds[0].title}) has its own units; leave scale out.")
    if (fixed, moving) != (1.0, 1.0):
        by = f"{fixed:g}" if fixed == moving else f"{fixed:g} (fixed) and {moving:g} (moving)"
        assumptions.append(f"Coordinates were multiplied by {by}.")
    return fixed, moving


_TOLD: dict[FileFrame, str] = {
    "RAS": "RAS coordinates were turned into LPS.",
    "index": "Indices counted from 0 were turned into world points by the grid.",
    "index1": "Indices counted from 1 were turned into world points by the grid.",
    "scaled": "Distances along the image axes became world points by origin and direction of the grid.",
}


def _maps(
    table: Table,
    kinds: tuple[Format, Format],
    grids: tuple[Grid | None, ...],
    frame: str | None,
    units: str | None,
    name: str,
) -> tuple[list[frames.Affine], str]:
    """Settle what the numbers of each side are: the maps to the world, and its units; each side gets its frame."""
    for side, grid in zip(table.sides, grids, strict=True):
        stated = side.frame
        side.frame = frames.file_frame(side, frame, name)
        sentence = _TOLD.get(side.frame)
        if sentence and (grid is not None or side.frame == "RAS") and sentence not in table.assumptions:
            table.assumptions.append(sentence)
        if side.frame_stated and side.frame != stated:
            warn_suspicious(
                f"{name!r} says that its points are {stated}, but {say('frame', frame)} was asked for and is used; is "
                f"that meant?"
            )
        if side.frame == "index1":
            checks.warn_of_zero_index(name, side.points)
    stated_units = {side.units for side in table.sides if side.units is not None}
    if len(stated_units) > 1:
        raise FileFormatError(f"{name!r}: its sides are in different units, {' and '.join(sorted(stated_units))}.")
    stated_unit = next(iter(stated_units), None)
    world_units, note = frames.decide_units(stated_unit, units, grids, table.fixed.frame, table.d, name)
    if note and not table.fixed.frame.startswith("index"):
        table.assumptions.append(note)
    maps = [
        frames.affine(side.frame, table.d, grid, kind, units, name)
        for side, grid, kind in zip(table.sides, grids, kinds, strict=False)
    ]
    missing = [side for side, grid in zip(("fixed", "moving"), grids, strict=False) if grid is None]
    on_grid = any(side.frame in ("index", "index1", "scaled") for side in table.sides)
    if on_grid and len(missing) == 1 and len(grids) == 2:
        raise InvalidInputError(f"{name!r}: the other grid was given but not {missing[0]}_grid; pass both, or none.")
    return maps, world_units


def _landmarks(
    table: Table,
    points: list[Floats],
    maps: list[frames.Affine],
    scales: tuple[float, float],
    units: str,
    format_name: str,
) -> Landmarks:
    covariances = None
    if table.covariances is not None and table.moving is not None:
        covariances = maps[1].covariances_to_world(table.covariances * scales[1] ** 2)
    skips = []
    for point, reason, rater in table.skips:
        skips.append(Skip(maps[0].to_world(np.array([point]) * scales[0])[0], reason, rater))
    return Landmarks(
        fixed_points=maps[0].to_world(points[0]),
        moving_points=None if table.moving is None else maps[1].to_world(points[1]),
        covariances=covariances,
        names=table.fixed.names,
        raters=table.raters,
        active=table.active,  # type: ignore[arg-type]  # None means all
        skips=tuple(skips),
        frame=frames.world_frame_of(table.fixed.frame, table.d, units),
        units=units,
        assumptions=tuple(table.assumptions),
        format=format_name,
    )


def _check(
    landmarks: Landmarks,
    points: list[Floats],
    maps: list[frames.Affine],
    grids: tuple[Grid | None, Grid | None],
    names: tuple[str, str],
) -> None:
    """Warn of what is valid but probably wrong; ``points`` are those of the files."""
    fixed = landmarks.fixed_points
    moving = landmarks.moving_points
    fixed_grid, moving_grid = grids
    if not len(landmarks):
        return
    if moving is None:
        if fixed_grid is not None:
            checks.warn_of_outside(names[0], fixed, fixed_grid, "fixed")
        return
    checks.warn_of_mirror(names[0], fixed, moving, landmarks.units)
    checks.warn_of_permutation(names[0], fixed, moving, landmarks.units)
    if fixed_grid is None or moving_grid is None:
        return

    def outside(side: int, images: int) -> int:
        """Count the points of a side that lie outside an image; indices go through that image's grid."""
        grid = fixed_grid if images == 0 else moving_grid
        assert grid is not None
        return int(np.sum(~grid.contains(maps[images].to_world(points[side]))))

    as_read = (outside(0, 0), outside(1, 1))
    exchanged = (outside(0, 1), outside(1, 0))
    if not checks.warn_of_swap(names[0], as_read, exchanged, len(landmarks)):
        checks.warn_of_outside(names[0], fixed, fixed_grid, "fixed")
        checks.warn_of_outside(names[1], moving, moving_grid, "moving")
