"""Conversion between the coordinates of a landmark file and the world: frames, units, and how they are determined."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from warpgauge.errors import AmbiguousFileError, InvalidInputError, say
from warpgauge.geometry import UNITS, Floats, Grid
from warpgauge.io.landmarks.base import FILE_FRAMES, FileFrame, Format, Side
from warpgauge.io.landmarks.model import Frame

# World to index and back costs a few ulp; an index this near to a whole number is that number.
_INDEX_NOISE = 1e-10


class Affine(NamedTuple):
    """``world = matrix @ file + offset``."""

    matrix: Floats
    offset: Floats

    def to_world(self, points_file: Floats) -> Floats:
        """Map the points of a file to the world; NaN rows stay NaN."""
        if np.array_equal(self.matrix, np.eye(len(self.offset))) and not np.any(self.offset):
            return points_file
        return points_file @ self.matrix.T + self.offset

    def to_file(self, points_world: Floats) -> Floats:
        """Map world points to the coordinates of a file."""
        return (points_world - self.offset) @ np.linalg.inv(self.matrix).T

    def covariances_to_world(self, covariances: Floats) -> Floats:
        """Map covariances of the points of a file to the world."""
        return np.asarray(self.matrix @ covariances @ self.matrix.T)

    def covariances_to_file(self, covariances: Floats) -> Floats:
        """Map covariances of world points to the coordinates of a file."""
        inverse = np.linalg.inv(self.matrix)
        return np.asarray(inverse @ covariances @ inverse.T)


def file_frame(side: Side, requested: str | None, name: str) -> FileFrame:
    """Decide what the numbers of one file are: what the caller says, else what the file or its format says."""
    if requested is not None and requested not in FILE_FRAMES:
        raise InvalidInputError(f"frame must be one of {', '.join(FILE_FRAMES)}, got {requested!r}.")
    frame = cast(FileFrame, requested or side.frame)
    if frame == "unknown":
        raise AmbiguousFileError(
            f"{name!r} does not say whether its points are LPS or RAS; pass {say('frame', 'LPS')} or 'RAS'."
        )
    if frame == "RAS" and side.points.shape[1] == 2:
        raise InvalidInputError(
            f"{name!r} holds 2D points, which have no RAS frame; use {say('frame', 'image')} or 'LPS'."
        )
    return frame


def affine(frame: FileFrame, d: int, grid: Grid | None, kind: Format, units: str | None, name: str) -> Affine:
    """Return the map from the coordinates of a file to the world."""
    matrix = np.eye(d)
    offset = np.zeros(d)
    if frame == "RAS":
        matrix = np.diag([-1.0, -1.0, 1.0])
    elif frame == "unstated" and grid is not None and (grid.origin.any() or np.any(grid.direction != np.eye(d))):
        raise AmbiguousFileError(
            f"{name!r} ({kind.title}) does not say whether its numbers count from the image corner or include "
            f"the origin and direction that this grid has; pass {say('frame', 'scaled')} for the first or "
            f"{say('frame', 'image')} for the second."
        )
    elif frame == "scaled":
        if grid is None:
            raise InvalidInputError(f"{name!r}: {say('frame', 'scaled')} needs the grid of the image; pass it.")
        matrix = grid.direction
        offset = grid.origin
    elif frame in ("index", "index1"):
        matrix, offset = _index_affine(frame, d, grid, kind, units, name)
    return Affine(np.asarray(matrix), np.asarray(offset))


def _index_affine(
    frame: FileFrame, d: int, grid: Grid | None, kind: Format, units: str | None, name: str
) -> tuple[Floats, Floats]:
    if grid is None and not kind.pixels and units != "px":
        raise AmbiguousFileError(
            f"{name!r} ({kind.title}) with voxel indices needs the image's grid to become world points; pass "
            f"{say('fixed_grid')} and {say('moving_grid')} (the same Grid when both images share it), or "
            f"{say('units', 'px')} to stay in voxels."
        )
    if grid is None and units not in (None, "px"):
        raise InvalidInputError(f"{name!r}: voxel indices become {units} only by the image's grid; pass it.")
    matrix, offset = (np.eye(d), np.zeros(d)) if grid is None else (grid.affine[:d, :d], grid.affine[:d, d])
    if frame == "index1":
        offset = offset - matrix @ np.ones(d)
    return matrix, offset


def snap_indices(points_index: Floats) -> Floats:
    """Remove the rounding of world to index from indices that are whole numbers."""
    whole = np.round(points_index)
    return np.where(np.abs(points_index - whole) <= _INDEX_NOISE, whole, points_index)


def decide_units(
    stated: str | None, requested: str | None, grids: tuple[Grid | None, ...], frame: FileFrame, d: int, name: str
) -> tuple[str, str | None]:
    """Decide the world units, and return the sentence that states what was assumed, if anything was."""
    if requested is not None and requested not in UNITS:
        raise InvalidInputError(f"units must be one of {', '.join(UNITS)}, got {requested!r}.")
    said = {"the file": stated, "the argument units": requested}
    said |= {f"{side}_grid": grid.units for side, grid in zip(("fixed", "moving"), grids, strict=False) if grid}
    known = {source: value for source, value in said.items() if value is not None}
    if len(set(known.values())) > 1:
        claims = " and ".join(f"{source} says {value}" for source, value in known.items())
        raise InvalidInputError(f"{name!r}: the units disagree: {claims}; correct the wrong one.")
    if known:
        return next(iter(known.values())), None
    units = "mm" if frame in ("LPS", "RAS") and d == 3 else "px"
    return units, f"The file does not say its units and no grid was given; they are taken as {units}."


def world_frame_of(frame: FileFrame, d: int, units: str) -> Frame:
    """Name the world that points end up in."""
    if d == 2 or units == "px" or frame in ("image", "unstated"):
        return "image"
    if frame in ("LPS", "RAS"):
        return "LPS"
    # Indices and scaled coordinates become the world of the grid: medical volumes are in mm, microscopy is not.
    return "LPS" if units == "mm" else "image"
