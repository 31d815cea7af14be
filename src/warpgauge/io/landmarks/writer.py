"""`write_landmarks`: points of the world in the frame of a format; what it cannot hold is refused unless allowed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import PathLike, replace_text
from warpgauge.io.landmarks import base, frames
from warpgauge.io.landmarks.model import Landmarks
from warpgauge.io.landmarks.registry import format_of_path, named_format

_T = TypeVar("_T")

# Provenance, which is not part of the landmarks: a file without it holds the same landmarks.
PROVENANCE = frozenset({base.HASHES})


class LandmarkLossError(InvalidInputError):
    """A format cannot hold what landmarks have, and nobody allowed that to be left out.

    ``title`` is the format in words, ``lost`` what would be lost and was not allowed to be.
    """

    def __init__(self, title: str, lost: tuple[str, ...], remedy: str = f"pass {say('lossy', True)}") -> None:
        self.title, self.lost = title, lost
        super().__init__(
            f"A {title} cannot hold all of these landmarks and would lose: {', '.join(lost)}; {remedy} to leave that "
            f"out, or write warpgauge's own JSON."
        )


def write_landmarks(
    landmarks: Landmarks,
    path: PathLike,
    moving_path: PathLike | None = None,
    *,
    format: str | None = None,  # noqa: A002  # the word that users look for
    fixed_grid: Grid | None = None,
    moving_grid: Grid | None = None,
    frame: str | None = None,
    lossy: bool | Collection[str] = False,
    ellipse_alpha: float | None = None,
) -> tuple[str, ...]:
    """Write landmarks; what the format cannot hold is an error unless ``lossy`` allows it.

    Parameters
    ----------
    landmarks : Landmarks
        What to write.
    path, moving_path : path
        As in `read_landmarks`: one file for formats that hold pairs, else one for each image.
    format : str, optional
        As in `read_landmarks`; by default from the file name (``.json``, ``.csv``, ``.mrk.json``, ``.fcsv``).
    fixed_grid, moving_grid : Grid, optional
        Needed to turn world points that are not in pixels into voxel indices.
    frame : str, optional
        The frame of the file where the format has a choice, for instance ``"RAS"`` for Slicer or ``"index"`` for
        transformix.
    lossy : bool or collection of str
        Leave out what the format cannot hold; or only the things named here, in the words of the error, for instance
        `PROVENANCE`.
    ellipse_alpha : float, optional
        In warpgauge's own JSON, write the ellipses that hold ``1 - ellipse_alpha`` instead of the covariances.

    Returns
    -------
    tuple of str
        What was left out, in words; empty when nothing was.
    """
    file = Path(path)
    chosen = named_format(format) if format is not None else format_of_path(file)
    writer = _Writer(landmarks, chosen, (fixed_grid, moving_grid), frame, file.name)
    writer.check(moving_path is not None, ellipse_alpha)
    table = writer.table(ellipse_alpha)
    lost = writer.losses(table)
    allowed = (lost if lossy else ()) if isinstance(lossy, bool) else lossy
    refused = tuple(thing for thing in lost if thing not in allowed)
    if refused:
        raise LandmarkLossError(chosen.title, refused)
    if chosen.pairs or table.moving is None:
        texts = [(file, chosen.render(table))]
    else:
        texts = [(file, chosen.render(replace(table, moving=None)))]
        moving = replace(table, fixed=replace(table.moving, names=table.fixed.names), moving=None)
        texts.append((Path(moving_path or ""), chosen.render(moving)))
    for target, text in texts:
        replace_text(target, text)
    return lost


@dataclass
class _Writer:
    """The state of one call of `write_landmarks`."""

    landmarks: Landmarks
    kind: base.Format
    grids: tuple[Grid | None, Grid | None]
    requested: str | None
    name: str

    def check(self, two_files: bool, ellipse_alpha: float | None) -> None:
        """Refuse what cannot be written at all."""
        landmarks, kind = self.landmarks, self.kind
        if landmarks.d not in kind.dimensions:
            raise InvalidInputError(f"A {kind.title} holds {kind.dimensions[0]}D points, not {landmarks.d}D ones.")
        paired = landmarks.moving_points is not None
        if two_files != (paired and not kind.pairs):
            number = "two files" if paired and not kind.pairs else "one file"
            raise InvalidInputError(f"These landmarks need {number} as {kind.title}; mind moving_path.")
        if kind.name == "bigwarp" and not paired:
            raise InvalidInputError("A BigWarp CSV holds pairs, but these landmarks are a set of points.")
        if not len(landmarks) and not landmarks.pending and kind.name != "warpgauge":
            raise InvalidInputError(f"There are no landmarks to write as {kind.title}; warpgauge's JSON may be empty.")
        if any(grid is not None and grid.d != landmarks.d for grid in self.grids):
            raise InvalidInputError(f"The landmarks are {landmarks.d}D, but a grid of another dimension was given.")
        if ellipse_alpha is not None and (kind.name != "warpgauge" or not 1e-12 < ellipse_alpha < 1):
            raise InvalidInputError("ellipse_alpha is a level between 0 and 1, for warpgauge's own JSON only.")

    @property
    def file_frame(self) -> base.FileFrame:
        """The frame of the file."""
        frame = self.kind.write_frame(self.landmarks.frame, self.requested)
        if frame is None:
            raise InvalidInputError(f"A {self.kind.title} cannot be written with {say('frame', self.requested)}.")
        return frames.file_frame(
            base.Side(self.landmarks.fixed_points, frame), frame if self.requested else None, self.name
        )

    def _affines(self) -> list[frames.Affine]:
        landmarks, count = self.landmarks, 1 if self.landmarks.moving_points is None else 2
        needs_grid = self.file_frame in ("index", "index1", "scaled")
        if needs_grid and landmarks.units != "px" and any(grid is None for grid in self.grids[:count]):
            raise InvalidInputError(
                f"Landmarks in {landmarks.units} become voxel indices only by the grids of their images; pass "
                f"{say('fixed_grid')} and, for pairs, {say('moving_grid')}."
            )
        for grid in self.grids[:count]:
            if needs_grid and grid is not None and grid.units != landmarks.units:
                raise InvalidInputError(f"The landmarks are in {landmarks.units}, but a grid is in {grid.units}.")
        # Everything that could be ambiguous without a grid has just been refused, so pixels are what they are.
        return [
            frames.affine(self.file_frame, landmarks.d, grid, self.kind, "px" if grid is None else None, self.name)
            for grid in self.grids[:count]
        ]

    def table(self, ellipse_alpha: float | None) -> base.Table:
        """Return the landmarks in the coordinates of the file, with pending rows back in their places."""
        landmarks, affines, frame = self.landmarks, self._affines(), self.file_frame
        pending = landmarks.pending if base.PENDING in self.kind.holds else ()
        order = _row_order(len(landmarks), [item.row for item in pending])
        fixed = _with_pending(landmarks.fixed_points, [item.fixed_point for item in pending], order)
        names = _column(landmarks.names, [item.name for item in pending], "", order)
        raters = _column(landmarks.raters, [item.rater for item in pending], None, order)
        active = [*landmarks.active.tolist(), *(item.active for item in pending)]
        table = base.Table(
            fixed=base.Side(self._to_file(affines[0], fixed, frame), frame, True, landmarks.units, names),
            raters=raters,
            active=np.array(active, dtype=bool)[order],
            skips=[
                (affines[0].to_file(np.asarray(skip.fixed_point)[np.newaxis])[0].tolist(), skip.reason, skip.rater)
                for skip in landmarks.skips
            ],
            hashes=dict(landmarks.image_hashes),
            ellipse_alpha=ellipse_alpha,
        )
        if landmarks.moving_points is not None:
            moving = _with_pending(landmarks.moving_points, [item.moving_point for item in pending], order)
            table.moving = base.Side(self._to_file(affines[1], moving, frame), frame, True, landmarks.units)
            if landmarks.covariances is not None:
                empty = np.full((len(pending), landmarks.d, landmarks.d), np.nan)
                covariances = np.concatenate([landmarks.covariances, empty])[order]
                table.covariances = affines[1].covariances_to_file(covariances)
        return table

    def _to_file(self, affine: frames.Affine, points_world: Floats, frame: base.FileFrame) -> Floats:
        points = affine.to_file(points_world)
        return frames.snap_indices(points) if frame in ("index", "index1") else points

    def losses(self, table: base.Table) -> tuple[str, ...]:
        """Name what the format cannot hold and these landmarks have."""
        landmarks, holds = self.landmarks, self.kind.holds
        present = {
            base.COVARIANCES: bool(np.any(landmarks.has_covariance)),
            base.RATERS: any(rater is not None for rater in landmarks.raters or ()),
            base.SKIPS: bool(landmarks.skips),
            base.INACTIVE: not np.all(landmarks.active),
            base.PENDING: bool(landmarks.pending),
            base.NAMES: any(landmarks.names or ()),
            base.HASHES: bool(landmarks.image_hashes),
        }
        lost = [thing for thing, there in present.items() if there and thing not in holds]
        return (*lost, *self._frame_losses(), *self._rounding_losses(table))

    def _frame_losses(self) -> list[str]:
        """Compare frame and units with what a reader of the file would take them for."""
        landmarks, frame = self.landmarks, self.file_frame
        if self.kind.name in ("warpgauge", "csv") or (frame in ("index", "index1", "scaled") and self.grids[0]):
            return []
        stated = landmarks.units if self.kind.name == "slicer-json" and landmarks.units != "px" else None
        units, _ = frames.decide_units(stated, None, (), frame, landmarks.d, self.name)
        world = frames.world_frame_of(frame, landmarks.d, units)
        lost = [] if units == landmarks.units else [f"the units {landmarks.units} (read back as {units})"]
        return lost if world == landmarks.frame else [*lost, f"the frame {landmarks.frame!r} (read back as {world!r})"]

    def _rounding_losses(self, table: base.Table) -> list[str]:
        if self.kind.name != "transformix" or table.fixed.frame != "index":
            return []
        sides = [table.fixed] if table.moving is None else [table.fixed, table.moving]
        between = sum(int(np.sum(np.any(side.points != np.round(side.points), axis=1))) for side in sides)
        return (
            [f"the place of {counted(between, 'point')} between voxels (transformix rounds indices)"] if between else []
        )


def _row_order(complete: int, pending_rows: list[int]) -> list[int]:
    """Return, for each row of the file, its place in the list of complete rows followed by pending ones."""
    rows = complete + len(pending_rows)
    places: dict[int, int] = {}
    for number, row in enumerate(pending_rows):
        if 0 <= row < rows and row not in places:
            places[row] = complete + number
    others = [
        *range(complete),
        *(complete + i for i in range(len(pending_rows)) if complete + i not in places.values()),
    ]
    rest = iter(others)
    return [places[row] if row in places else next(rest) for row in range(rows)]


def _with_pending(points: Floats, pending: list[Floats | None], order: list[int]) -> Floats:
    d = points.shape[1]
    more = [np.full(d, np.nan) if point is None else np.asarray(point, dtype=np.float64) for point in pending]
    return np.asarray(np.concatenate([points, np.array(more).reshape(-1, d)])[order])


def _column(values: tuple[_T, ...] | None, pending: list[_T], blank: _T, order: list[int]) -> tuple[_T, ...] | None:
    if values is None and not any(pending):
        return None
    complete = len(order) - len(pending)
    both = [*(values if values is not None else [blank] * complete), *pending]
    return tuple(both[place] for place in order)
