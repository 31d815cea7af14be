"""Files of a pair: landmarks, targets, and the grids of its images.

A grid is taken from the image, or from a small file ``*.grid.json`` if the image is not available.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpgauge.candidates import targets_from_domain, targets_from_file, targets_from_mask
from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.rater_fusion import fuse_raters
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import read_text, replace_file
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import Landmarks, read_landmarks
from warpgauge.project.document import grid_from_dict, grid_to_dict
from warpgauge.study.description import PairSpec, StudySettings

SUFFIX = ".grid.json"
_POINTS = ("fixed_points", "moving_points", "covariances")


def read_grid(path: Path) -> Grid:
    """Return the grid of an image, or of a file that `write_grid` wrote."""
    if not path.name.endswith(SUFFIX):
        return read_image(path).grid
    try:
        return grid_from_dict(json.loads(read_text(path, "grid")))
    except (ValueError, KeyError, TypeError, RecursionError, InvalidInputError) as error:
        raise FileFormatError(
            f"{path.name!r} is not a grid: it needs size, spacing, origin, direction and units as JSON."
        ) from error


def write_grid(grid: Grid, path: Path) -> None:
    """Write a grid as JSON."""
    replace_file(path, (json.dumps(grid_to_dict(grid), indent=2) + "\n").encode())


@dataclass(frozen=True, eq=False)
class LoadedPair:
    """What one pair's evaluation needs; ``placements`` (R, n, d) are each rater's moving points, NaN if missing."""

    annotations: Annotations
    placements: Floats
    targets: Floats
    region: str
    fixed: Grid | None
    moving: Grid | None


def load_pair(pair: PairSpec, settings: StudySettings, kept: dict[str, Floats] | None = None) -> LoadedPair:
    """Read landmarks, grids and targets of a pair that is not a project.

    The points are added to ``kept``; where they are there already, their files are not read again.
    """
    fixed = None if pair.fixed is None else read_grid(pair.fixed)
    moving = None if pair.moving is None else read_grid(pair.moving)
    if pair.landmarks is None:
        raise InvalidInputError(f"The pair {pair.name!r} has no landmarks.")
    known = {} if kept is None else kept
    if "placements" not in known:
        annotations, placements = _annotated(pair, settings, fixed, moving)
        known |= {name: getattr(annotations, name) for name in _POINTS}
        known |= {"targets": pair_targets(pair, settings, fixed), "placements": placements}
    given = Annotations(*(known[name] for name in _POINTS))
    region = "file" if pair.targets is not None else "domain" if pair.mask is None else "mask"
    return LoadedPair(given, known["placements"], known["targets"], region, fixed, moving)


def _annotated(
    pair: PairSpec, settings: StudySettings, fixed: Grid | None, moving: Grid | None
) -> tuple[Annotations, Floats]:
    """Return the annotations of a pair, and each rater's moving points."""
    assert pair.landmarks is not None
    landmarks = read_landmarks(
        pair.landmarks, pair.moving_landmarks, fixed_grid=fixed, moving_grid=moving, **pair.landmark_options
    )
    if pair.raters:
        return _fused(pair, landmarks, fixed, moving)
    sd = settings.sd if pair.sd is None else pair.sd
    if sd is None and not landmarks.has_covariance[landmarks.active].all():
        raise InvalidInputError(
            f"Landmarks of the pair {pair.name!r} carry no covariance; give sd (their standard deviation in world "
            "units) in [settings] or in the pair."
        )
    annotations = Annotations(*landmarks.to_annotation_arrays(None if sd is None else sd**2))
    return annotations, annotations.moving_points[None]


def _fused(pair: PairSpec, first: Landmarks, fixed: Grid | None, moving: Grid | None) -> tuple[Annotations, Floats]:
    """Fuse the moving points of all raters of a pair; their scatter says how uncertain they are."""
    if first.moving_points is None:
        raise InvalidInputError(f"The landmarks of the pair {pair.name!r} are points of one image alone.")
    keep = np.flatnonzero(first.active)
    start = first.fixed_points[keep]
    placed = [first.moving_points[keep]]
    for file in pair.raters:
        one = read_landmarks(file, fixed_grid=fixed, moving_grid=moving, **pair.landmark_options)
        rows = _same_rows(pair, first, one, file)[keep]
        if one.moving_points is None:
            raise InvalidInputError(f"{file.name!r} of the pair {pair.name!r} lists points of one image alone.")
        known = rows >= 0
        if not np.allclose(one.fixed_points[rows[known]], start[known], rtol=1e-6, atol=1e-6):
            raise InvalidInputError(
                f"The raters of the pair {pair.name!r} did not answer for the same fixed points: those of "
                f"{file.name!r} differ from the first rater's."
            )
        points = np.full(start.shape, np.nan)
        points[known] = np.where(one.active[rows[known], None], one.moving_points[rows[known]], np.nan)
        placed.append(points)
    fused = fuse_raters(placed)
    return Annotations(start, fused.points, fused.covariances), np.stack(placed)


def _same_rows(pair: PairSpec, first: Landmarks, other: Landmarks, file: Path) -> Ints:
    """Return the row of another rater's file for each landmark of the first rater, by name or by order; -1 if none."""
    if first.names is not None and other.names is not None:
        place = {name: row for row, name in enumerate(other.names)}
        return np.array([place.get(name, -1) for name in first.names])
    if len(first) != len(other):
        raise InvalidInputError(
            f"{file.name!r} of the pair {pair.name!r} has {len(other)} landmarks where the first rater has "
            f"{len(first)}; give them names, so that they can be matched."
        )
    return np.arange(len(first))


def pair_targets(pair: PairSpec, settings: StudySettings, fixed: Grid | None) -> Floats:
    """Return the targets of a pair that is not a project."""
    if pair.targets is not None:
        return targets_from_file(pair.targets, grid=fixed)
    if fixed is None:
        raise InvalidInputError(f"The pair {pair.name!r} has neither a fixed image nor a file of targets.")
    if pair.mask is None:
        return targets_from_domain(fixed, settings.targets)
    image = read_image(pair.mask)
    if image.grid.shape != fixed.shape:
        raise InvalidInputError(
            f"The mask of the pair {pair.name!r} has the size {image.grid.size}, but its fixed image {fixed.size}."
        )
    mask = image.read()
    count = min(settings.targets, int(np.count_nonzero(mask)))
    return targets_from_mask(mask, fixed, count, seed=settings.seed)
