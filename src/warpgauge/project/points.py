"""Candidates and targets: made from a specification once, then stored, so that their numbers never change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.candidates import (
    Foreground,
    find_candidates,
    targets_from_domain,
    targets_from_file,
    targets_from_labels,
    targets_from_mask,
)
from warpgauge.candidates.structure import count_nonzero
from warpgauge.core.arrays import as_points
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import one_line
from warpgauge.io.images import Image, SlicedImage, read_image
from warpgauge.io.inside import Inside
from warpgauge.io.numpy_files import read_array
from warpgauge.project.document import PointsRecord
from warpgauge.project.errors import ProjectError, project_content

Progress = Callable[[int, int], None]
DEFAULT_CANDIDATES = 1000
DEFAULT_TARGETS = 2000
LARGEST_SEARCH = 2**27  # elements (512^3) in which corners are sought, unless a mask, sigma or border is given
_LARGEST_ARRAY = 2**30  # bytes of a mask that is read whole


@dataclass(frozen=True)
class PointSet:
    """Points of the fixed world, how and from what they were made, and whether their region holds all candidates."""

    points_world: Floats
    method: str
    region: str
    covers_candidates: bool = False

    def outside(self, area: Foreground, what: str) -> PointSet:
        """Return the points that do not lie in an area, which is said."""
        kept = ~area.contains(self.points_world)
        if not kept.any():
            raise InvalidInputError(f"All {what} lie where the mask says that nothing has a match; check the mask.")
        left_out = f" {counted(int((~kept).sum()), 'point')} left out where nothing has a match."
        return replace(self, points_world=self.points_world[kept], method=self.method + left_out)


def make_candidates(
    spec: Any,
    image: Image,
    mask: Any,
    foreground: Foreground | None = None,
    progress: Progress | None = None,
) -> PointSet:
    """Make the candidates of a project: points of the fixed image, in its world.

    ``spec`` is None or a number (so many corners at most, of the foreground where there is no mask), an array of world
    points, a landmark file, or a mapping with ``kind`` ``"corners"`` (further keys as `find_candidates`), ``"domain"``,
    ``"mask"`` or ``"file"`` (further keys as the function ``targets_from_...``).
    """
    if spec is None or _is_count(spec):
        spec = {"kind": "corners", "count": DEFAULT_CANDIDATES if spec is None else int(spec)}
    if isinstance(spec, Mapping) and spec.get("kind") == "corners":
        options = {key: value for key, value in spec.items() if key != "kind"}
        if mask is None and foreground is not None and not foreground.whole:
            options = {"foreground": foreground, **options}
        options = {"progress": progress, **options}
        level = _search_level(image) if mask is None and not {"sigma", "border"} & options.keys() else 0
        grid = image.level_grid(level)
        found = _called(find_candidates, SlicedImage(image, level), grid, mask=mask, **options)
        points, method, region = found.points_world, found.method, "corners"
        if level:
            size = " x ".join(map(str, grid.size))
            method += f" Sought at level {level} ({size}), as the image has more than {LARGEST_SEARCH} elements."
    else:
        points, method, region = _points(spec, image.grid, mask, "candidates")
    inside = image.grid.contains(points)
    if not inside.all():
        raise InvalidInputError(
            f"Candidate {int(np.argmin(inside))}, {points[int(np.argmin(inside))].tolist()}, lies outside the fixed "
            f"image; candidates must lie within it."
        )
    if len(points) == 0:
        raise InvalidInputError(
            "No candidate was found in the fixed image; check the mask, lower min_distance, or give candidates."
        )
    _, first, repeats = np.unique(points, axis=0, return_index=True, return_counts=True)
    if repeats.max() > 1:
        raise InvalidInputError(
            f"Candidate {int(first[int(np.argmax(repeats))])} occurs {int(repeats.max())} times; give each point once."
        )
    return PointSet(points, method, region)


def _search_level(image: Image) -> int:
    """Return the finest level with few enough elements to look for corners in."""
    small = (level for level in range(image.levels) if image.level_grid(level).count <= LARGEST_SEARCH)
    return next(small, image.levels - 1)


def make_targets(
    spec: Any, grid: Grid, mask: Any, candidates: Floats, foreground: Foreground | None = None
) -> PointSet:
    """Make the targets of a project; the candidates tell whether the targets' region holds them all.

    ``spec`` is None or a number: so many points at most of the mask, else of the foreground, else of the whole image.
    Otherwise as for the candidates, with ``kind`` ``"domain"``, ``"foreground"``, ``"mask"``, ``"labels"`` or
    ``"file"``.
    """
    if spec is None or _is_count(spec):
        count = DEFAULT_TARGETS if spec is None else int(spec)
        found = foreground is not None and not foreground.whole
        spec = {"kind": "mask" if mask is not None else "foreground" if found else "domain", "count": count}
        if mask is not None:
            spec["count"] = min(count, count_nonzero(mask))
    if isinstance(spec, Mapping) and spec.get("kind") == "foreground":
        return _foreground_targets(spec, grid, foreground, candidates)
    points, method, region = _points(spec, grid, mask, "targets")
    if len(points) == 0:
        raise InvalidInputError("The targets are empty; give at least one point.")
    covers = region == "domain"
    if region == "mask" and "path" not in spec and mask is not None:
        nearest = np.round(grid.world_to_index(candidates)).astype(np.int64)
        nearest = np.clip(nearest, 0, np.asarray(grid.size) - 1)
        covers = all(np.any(mask[tuple(slice(i, i + 1) for i in index)]) for index in nearest[:, ::-1].tolist())
    return PointSet(points, method, region, covers)


def _foreground_targets(spec: Any, grid: Grid, foreground: Foreground | None, candidates: Floats) -> PointSet:
    """Lay a lattice over the foreground; the reduced mask may reach half a pixel beyond the image."""
    if foreground is None:
        raise InvalidInputError("The targets are to come from the foreground, but the project has none.")
    count = int(spec.get("count", DEFAULT_TARGETS))
    if foreground.whole:
        points = targets_from_domain(grid, count)
    else:
        points = targets_from_mask(foreground.mask, foreground.grid, count, method="regular")
        points = points[grid.contains(points)]
    share = f"{100 * foreground.share:.0f} % of it"
    method = f"{counted(len(points), 'point')} of a lattice over the foreground of the fixed image ({share})."
    return PointSet(points, method, "foreground", bool(foreground.contains(candidates).all()))


def _is_count(spec: Any) -> bool:
    return isinstance(spec, int | np.integer) and not isinstance(spec, bool)


def _called(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call with options that a user wrote, and turn a wrong name into a sentence."""
    try:
        return function(*arguments, **options)
    except TypeError as error:
        raise InvalidInputError(f"The specification of the points is wrong: {one_line(error)}.") from error


def _points(spec: Any, grid: Grid, mask: Any, what: str) -> tuple[Floats, str, str]:
    """Return points, how they were made, and from what."""
    if isinstance(spec, str | PathLike):
        spec = {"kind": "file", "path": fspath(spec)}
    if not isinstance(spec, Mapping):
        return as_points(spec, what, grid.d), f"{counted(len(spec), 'point')}, given by the caller.", "given"
    options = {key: value for key, value in spec.items() if key not in ("kind", "path")}
    kind, path = spec.get("kind"), spec.get("path")
    if kind == "domain":
        points = _called(targets_from_domain, grid, **options)
    elif kind == "file":
        points = _called(targets_from_file, path, grid=grid, **options)
    elif kind == "mask":
        chosen = mask if path is None else read_on_grid(path, grid, "mask")
        if chosen is None:
            raise InvalidInputError(f"The {what} are to come from a mask, but no mask is given.")
        points = _called(targets_from_mask, chosen, grid, **options)
    elif kind == "labels":
        points = _called(targets_from_labels, read_on_grid(path, grid, "label image"), grid, **options)
    else:
        raise InvalidInputError(
            f"The kind of {what} must be 'domain', 'mask', 'labels', 'file'"
            f"{' or corners' if what == 'candidates' else ' or foreground'}, got {kind!r}."
        )
    told = ", ".join(f"{key} {value}" for key, value in options.items())
    source = "" if path is None else f" {Path(path).name!r}"
    return points, f"{counted(len(points), 'point')} from {kind}{source}{f' ({told})' if told else ''}.", kind


def read_on_grid(path: Any, grid: Grid, what: str, side: str = "fixed") -> Any:
    """Return a mask or label image that lies on the same grid: an array, or one read in parts if it is large."""
    if path is None:
        raise InvalidInputError(f"A {what} needs the path of its file.")
    image = read_image(path)
    channels = (image.apart or image).channels
    if image.grid.shape != grid.shape or channels != 1:
        raise InvalidInputError(
            f"The {what} {image.path.name!r} has the size {image.grid.size} and {channels} channels, but the "
            f"{side} image has the size {grid.size}; a {what} needs the same size and one channel."
        )
    physical = image.grid.units != "px" and grid.units != "px"
    if physical and not np.allclose(image.grid.affine, grid.affine, rtol=1e-3, atol=1e-3 * float(grid.spacing.min())):
        raise InvalidInputError(
            f"The {what} {image.path.name!r} has the size of the {side} image but lies elsewhere in the world; "
            f"resample it onto the {side} image."
        )
    large = image.grid.count * image.dtype.itemsize > _LARGEST_ARRAY
    return SlicedImage(image) if large else image.read()


def points_hash(points: Floats) -> str:
    """Hash of the numbers, independent of the file that holds them."""
    array = np.ascontiguousarray(points, dtype="<f8")
    return "sha256:" + hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()


def store(folder: Path, name: str, made: PointSet) -> PointsRecord:
    """Write a set of points into the project and return its record."""
    file = f"{name}.npz"
    np.savez_compressed(folder / file, points_world=made.points_world)
    return PointsRecord(
        file=file,
        content_hash=points_hash(made.points_world),
        count=len(made.points_world),
        method=made.method,
        covers_candidates=made.covers_candidates,
        region=made.region,
    )


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[1] not in (2, 3):
        raise ProjectError(f"The points have the shape {shape[:5]}, but rows of 2 or 3 coordinates are expected.")


def load(folder: Path, record: PointsRecord, what: str) -> Floats:
    """Read a set of points back, and refuse one that is not the one that was stored."""
    path = Inside(folder, record.file, what).path
    if not path.is_file():
        raise ProjectError(f"The {what} of the project, {record.file!r}, are missing; put the file back.")
    with project_content(repr(record.file)):
        points = np.asarray(read_array(path, _check_shape, "points_world"), dtype=np.float64)
    if points_hash(points) != record.content_hash:
        raise ProjectError(
            f"{record.file!r} is not the file that the project was made with, so the numbers of the {what} would mean "
            f"other points; put back the former one."
        )
    points.flags.writeable = False
    return points
