"""`read_landmarks`: one or two files are parsed and become `Landmarks`, with frames, units and warnings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError, FileTooLargeError, InvalidInputError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import PathLike, read_text
from warpgauge.io.landmarks import checks, frames
from warpgauge.io.landmarks.base import FileFrame, Format, Side, Table
from warpgauge.io.landmarks.model import Frame, Landmarks, Pending, Skip
from warpgauge.io.landmarks.pairing import pair
from warpgauge.io.landmarks.registry import detect, named_format

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
        One of ``warpgauge.io.landmarks.FORMAT_NAMES``, which ``warpgauge formats`` explains; recognised from the
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
    reader.moving_name = name if moving_path is None else Path(moving_path).name
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
            f"{file.name!r} holds {table.d}D points, but {d}D was expected; check the file, the grids and "
            f"{say('dimension')}."
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


Scale = float | tuple[float, float]
_SMALLEST_SCALE = 1e-9


class Assembler:
    """Turns a table into `Landmarks`: frames, units, pending rows, and the checks."""

    def __init__(
        self,
        formats: tuple[Format, Format],
        name: str,
        grids: tuple[Grid | None, Grid | None],
        frame: str | None,
        units: str | None,
        scale: Scale | None,
    ) -> None:
        self.formats, self.name, self.grids = formats, name, grids
        self.moving_name = name  # where the moving points have a file of their own, its name
        self.frame, self.units = frame, units
        self.scales = self._scales(scale)
        self.assumptions: list[str] = []

    def _scales(self, scale: Scale | None) -> tuple[float, float]:
        if scale is None:
            return 1.0, 1.0
        scales = tuple(np.broadcast_to(np.asarray(scale, dtype=np.float64), (2,)).tolist())
        if not all(_SMALLEST_SCALE <= value <= 1 / _SMALLEST_SCALE for value in scales):
            raise InvalidInputError(
                f"scale must be a number between {_SMALLEST_SCALE:g} and {1 / _SMALLEST_SCALE:g}, or a pair of such "
                f"for fixed and moving, got {scale!r}."
            )
        if not all(kind.scalable for kind in self.formats) or self.frame == "index1":
            raise InvalidInputError(
                f"{self.name!r}: {self.formats[0].with_article} has its own units; leave scale out."
            )
        return scales[0], scales[1]

    def assemble(self, table: Table) -> Landmarks:
        """Convert, split off pending rows, check."""
        self.assumptions += table.assumptions
        sides = [table.fixed] if table.moving is None else [table.fixed, table.moving]
        grids = self.grids[: len(sides)]
        file_frames = [frames.file_frame(side, self.frame, self.name) for side in sides]
        self._note_frames(sides, file_frames, grids)
        stated = {side.units for side in sides if side.units is not None}
        if len(stated) > 1:
            raise FileFormatError(f"{self.name!r}: its sides are in different units, {' and '.join(sorted(stated))}.")
        units, note = frames.decide_units(
            next(iter(stated), None), self.units, grids, file_frames[0], table.d, self.name
        )
        self.assumptions += [note] if note and not file_frames[0].startswith("index") else []
        maps = [
            frames.affine(file_frames[i], table.d, grids[i], self.formats[i], self.units, self.name)
            for i in range(len(sides))
        ]
        if any(frame in ("index", "index1", "scaled") for frame in file_frames):
            self._refuse_half_grids(grids)
        for side, frame in zip(sides, file_frames, strict=True):
            if frame == "index1":
                checks.warn_of_zero_index(self.name, side.points)
        files = [side.points * scale for side, scale in zip(sides, self.scales, strict=False)]
        world = [affine.to_world(points) for affine, points in zip(maps, files, strict=True)]
        covariances = table.covariances
        if covariances is not None and len(maps) == 2:
            covariances = maps[1].covariances_to_world(covariances * self.scales[1] ** 2)
        landmarks = self._landmarks(
            table, world, covariances, maps[0], frames.world_frame_of(file_frames[0], table.d, units), units
        )
        self._check(landmarks, files, maps, file_frames[0])
        return landmarks

    def _note_frames(self, sides: list[Side], file_frames: list[FileFrame], grids: tuple[Grid | None, ...]) -> None:
        told = {
            "RAS": "RAS coordinates were turned into LPS.",
            "index": "Indices counted from 0 were turned into world points by the grid.",
            "index1": "Indices counted from 1 were turned into world points by the grid.",
            "scaled": "Distances along the image axes became world points by origin and direction of the grid.",
        }
        for frame, grid in zip(file_frames, grids, strict=True):
            sentence = told.get(frame)
            if sentence and (grid is not None or frame == "RAS") and sentence not in self.assumptions:
                self.assumptions.append(sentence)
        if self.scales != (1.0, 1.0):
            fixed, moving = (f"{scale:g}" for scale in self.scales)
            by = fixed if fixed == moving else f"{fixed} (fixed) and {moving} (moving)"
            self.assumptions.append(f"Coordinates were multiplied by {by}.")
        for side in sides:
            if self.frame is not None and side.frame_stated and side.frame != self.frame:
                warn_suspicious(
                    f"{self.name!r} says that its points are {side.frame}, but {say('frame', self.frame)} was asked "
                    f"for and is used; is that meant?"
                )

    def _refuse_half_grids(self, grids: tuple[Grid | None, ...]) -> None:
        missing = [side for side, grid in zip(("fixed", "moving"), grids, strict=False) if grid is None]
        if len(missing) == 1 and len(grids) == 2:
            raise InvalidInputError(
                f"{self.name!r}: the other grid was given but not {missing[0]}_grid; pass both, or none."
            )

    def _landmarks(
        self,
        table: Table,
        world: list[Floats],
        covariances: Floats | None,
        fixed_map: frames.Affine,
        frame: Frame,
        units: str,
    ) -> Landmarks:
        placed = [~np.any(np.isnan(points), axis=1) for points in world]
        complete = placed[0] if len(placed) == 1 else placed[0] & placed[1]
        pending = tuple(self._pending(table, world, int(row)) for row in np.flatnonzero(~complete))
        if covariances is not None and np.any(~np.isnan(covariances[~complete])):
            raise FileFormatError(f"{self.name!r}: a pair that lacks a point has a covariance; remove one of them.")
        rows = np.flatnonzero(complete)
        skips = []
        for point, reason, rater in table.skips:
            file_point = np.array([point]) * self.scales[0]
            skips.append(Skip(fixed_map.to_world(file_point)[0], reason, rater))
        return Landmarks(
            fixed_points=world[0][rows],
            moving_points=None if len(world) == 1 else world[1][rows],
            covariances=None if covariances is None or len(world) == 1 else covariances[rows],
            names=None if table.fixed.names is None else tuple(table.fixed.names[row] for row in rows),
            raters=None if table.raters is None else tuple(table.raters[row] for row in rows),
            active=None if table.active is None else table.active[rows],  # type: ignore[arg-type]  # None means all
            skips=tuple(skips),
            pending=pending,
            frame=frame,
            units=units,
            image_hashes=dict(table.hashes),
            assumptions=tuple(self.assumptions),
            format=self.formats[0].name,
        )

    def _pending(self, table: Table, world: list[Floats], row: int) -> Pending:
        points = [None if np.any(np.isnan(side[row])) else side[row] for side in world]
        if all(point is None for point in points) and len(points) == 2:
            raise FileFormatError(f"{self.name!r}: row {row + 1} has neither a fixed nor a moving point; remove it.")
        return Pending(
            row=row,
            name=table.fixed.names[row] if table.fixed.names else "",
            fixed_point=points[0],
            moving_point=points[1] if len(points) == 2 else None,
            active=table.active is None or bool(table.active[row]),
            rater=table.raters[row] if table.raters else None,
        )

    def _check(self, landmarks: Landmarks, files: list[Floats], maps: list[frames.Affine], frame: str) -> None:
        fixed_grid, moving_grid = self.grids
        fixed, moving = landmarks.fixed_points, landmarks.moving_points
        if not len(landmarks):
            return
        if moving is None:
            if fixed_grid is not None:
                checks.warn_of_outside(self.name, fixed, fixed_grid, "fixed")
            return
        checks.warn_of_mirror(self.name, fixed, moving, landmarks.units)
        checks.warn_of_permutation(self.name, fixed, moving, landmarks.units)
        if fixed_grid is None or moving_grid is None:
            return
        if not self._swapped(files, maps, fixed_grid, moving_grid):
            checks.warn_of_outside(self.name, fixed, fixed_grid, "fixed")
            checks.warn_of_outside(self.moving_name, moving, moving_grid, "moving")

    def _swapped(self, files: list[Floats], maps: list[frames.Affine], fixed_grid: Grid, moving_grid: Grid) -> bool:
        # Indices go through the grid, so exchanging the images exchanges the maps as well.
        complete = ~np.any(np.isnan(files[0]) | np.isnan(files[1]), axis=1)
        fixed, moving = files[0][complete], files[1][complete]

        def outside(points: Floats, side: int, grid: Grid) -> int:
            return int(np.sum(~grid.contains(maps[side].to_world(points))))

        given = outside(fixed, 0, fixed_grid), outside(moving, 1, moving_grid)
        other = outside(fixed, 1, moving_grid), outside(moving, 0, fixed_grid)
        return checks.warn_of_swap(self.name, given, other, int(complete.sum()))
