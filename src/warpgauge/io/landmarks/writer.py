"""`write_landmarks`: points of the world in the frame of a format; what it cannot hold is refused unless allowed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import PathLike, replace_text
from warpgauge.io.landmarks import frames
from warpgauge.io.landmarks.base import COVARIANCES, INACTIVE, NAMES, RATERS, SKIPS, FileFrame, Format, Side, Table
from warpgauge.io.landmarks.model import Landmarks
from warpgauge.io.landmarks.registry import format_of_path, named_format

_ON_GRID = ("index", "index1", "scaled")


def write_landmarks(
    landmarks: Landmarks,
    path: PathLike,
    moving_path: PathLike | None = None,
    *,
    format: str | None = None,  # noqa: A002  # the word that users look for
    fixed_grid: Grid | None = None,
    moving_grid: Grid | None = None,
    frame: str | None = None,
    lossy: bool = False,
) -> tuple[str, ...]:
    """Write landmarks; what the format cannot hold is an error unless ``lossy``.

    Parameters
    ----------
    landmarks : Landmarks
        What to write.
    path, moving_path : path
        As in `read_landmarks`: one file for formats that hold pairs, else one for each image.
    format : str, optional
        As in `read_landmarks`; by default from the file name (``.csv``, ``.mrk.json``, ``.geojson``).
    fixed_grid, moving_grid : Grid, optional
        Needed to turn world points that are not in pixels into voxel indices.
    frame : str, optional
        The frame of the file where the format has a choice, for instance ``"RAS"`` for Slicer or ``"index"`` for
        transformix.
    lossy : bool
        Leave out what the format cannot hold.

    Returns
    -------
    tuple of str
        What was left out, in words; empty when nothing was.
    """
    file = Path(path)
    kind = format_of_path(file) if format is None else named_format(format)
    grids = (fixed_grid, moving_grid)[: 1 if landmarks.moving_points is None else 2]
    _check(landmarks, kind, moving_path is not None, grids)
    assert kind.render is not None
    table = _table(landmarks, kind, grids, _file_frame(landmarks, kind, frame, file.name), file.name)
    lost = _losses(landmarks, kind, table, grids, file.name)
    if lost and not lossy:
        raise InvalidInputError(
            f"A {kind.title} cannot hold all of these landmarks and would lose: {', '.join(lost)}; pass "
            f"{say('lossy', True)} to leave that out, or write warpgauge's plain CSV."
        )
    if kind.pairs or table.moving is None:
        replace_text(file, kind.render(table))
        return lost
    moving = replace(table, fixed=replace(table.moving, names=table.fixed.names), moving=None)
    texts = [kind.render(replace(table, moving=None)), kind.render(moving)]
    for target, text in zip((file, Path(moving_path or "")), texts, strict=True):
        replace_text(target, text)
    return lost


def _check(landmarks: Landmarks, kind: Format, two_files: bool, grids: tuple[Grid | None, ...]) -> None:
    """Refuse what cannot be written at all."""
    paired = landmarks.moving_points is not None
    if kind.render is None:
        raise InvalidInputError(f"A {kind.title} is only read; write .csv, or .mrk.json for 3D Slicer.")
    if landmarks.d not in kind.dimensions:
        raise InvalidInputError(f"A {kind.title} holds {kind.dimensions[0]}D points, not {landmarks.d}D ones.")
    if two_files != (paired and not kind.pairs):
        number = "two files" if paired and not kind.pairs else "one file"
        raise InvalidInputError(f"These landmarks need {number} as {kind.title}; mind moving_path.")
    if kind.name == "bigwarp" and not paired:
        raise InvalidInputError("A BigWarp CSV holds pairs, but these landmarks are a set of points.")
    if not len(landmarks) and not (landmarks.skips and SKIPS in kind.holds):
        raise InvalidInputError(f"There are no landmarks to write as {kind.title}.")
    if any(grid is not None and grid.d != landmarks.d for grid in grids):
        raise InvalidInputError(f"The landmarks are {landmarks.d}D, but a grid of another dimension was given.")


def _file_frame(landmarks: Landmarks, kind: Format, requested: str | None, name: str) -> FileFrame:
    allowed = [landmarks.frame if frame == "world" else frame for frame in kind.frames]
    frame = allowed[0] if requested is None else requested
    if frame not in allowed:
        raise InvalidInputError(f"A {kind.title} cannot be written with {say('frame', requested)}.")
    return frames.file_frame(Side(landmarks.fixed_points, frame), requested, name)  # type: ignore[arg-type]  # is one


def _table(landmarks: Landmarks, kind: Format, grids: tuple[Grid | None, ...], frame: FileFrame, name: str) -> Table:
    """Return the landmarks in the coordinates of the file."""
    if frame in _ON_GRID and landmarks.units != "px" and None in grids:
        raise InvalidInputError(
            f"Landmarks in {landmarks.units} become voxel indices only by the grids of their images; pass "
            f"{say('fixed_grid')} and, for pairs, {say('moving_grid')}."
        )
    for grid in grids:
        if frame in _ON_GRID and grid is not None and grid.units != landmarks.units:
            raise InvalidInputError(f"The landmarks are in {landmarks.units}, but a grid is in {grid.units}.")
    # What could be ambiguous without a grid has just been refused, so pixels are what they are.
    maps = [frames.affine(frame, landmarks.d, grid, kind, "px" if grid is None else None, name) for grid in grids]

    def side(points_world: Floats, affine: frames.Affine) -> Side:
        points = affine.to_file(points_world)
        if frame in ("index", "index1"):
            points = frames.snap_indices(points)
        return Side(points, frame, True, landmarks.units)

    table = Table(side(landmarks.fixed_points, maps[0]), raters=landmarks.raters, active=landmarks.active)
    table.fixed.names = landmarks.names
    if landmarks.moving_points is not None:
        table.moving = side(landmarks.moving_points, maps[1])
    if landmarks.covariances is not None:
        table.covariances = maps[1].covariances_to_file(landmarks.covariances)
    for skip in landmarks.skips:
        point = maps[0].to_file(np.asarray(skip.fixed_point)[np.newaxis])[0]
        table.skips.append((point.tolist(), skip.reason, skip.rater))
    return table


def _losses(
    landmarks: Landmarks, kind: Format, table: Table, grids: tuple[Grid | None, ...], name: str
) -> tuple[str, ...]:
    """Name what the format cannot hold and these landmarks have."""
    frame = table.fixed.frame
    present = {
        COVARIANCES: bool(np.any(landmarks.has_covariance)),
        RATERS: any(rater is not None for rater in landmarks.raters or ()),
        SKIPS: bool(landmarks.skips),
        INACTIVE: not np.all(landmarks.active),
        NAMES: any(landmarks.names or ()),
    }
    lost = [thing for thing, there in present.items() if there and thing not in kind.holds]
    if kind.name != "csv" and not (frame in _ON_GRID and grids[0]):
        # What a reader of the file would take units and frame for.
        stated = landmarks.units if kind.name == "slicer-json" and landmarks.units != "px" else None
        units, _ = frames.decide_units(stated, None, (), frame, landmarks.d, name)
        world = frames.world_frame_of(frame, landmarks.d, units)
        if units != landmarks.units:
            lost.append(f"the units {landmarks.units} (read back as {units})")
        if world != landmarks.frame:
            lost.append(f"the frame {landmarks.frame!r} (read back as {world!r})")
    if kind.name == "transformix" and frame == "index":
        between = sum(int(np.sum(np.any(side.points != np.round(side.points), axis=1))) for side in table.sides)
        if between:
            lost.append(f"the place of {counted(between, 'point')} between voxels (transformix rounds indices)")
    return tuple(lost)
