"""Files of a method for a pair: its transform, or the landmarks that it has mapped."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import FileFormatError, InvalidInputError, WarpgaugeError
from warpgauge.geometry import Grid
from warpgauge.io.landmarks import read_landmarks
from warpgauge.io.transforms import AffineTransform, Description, Transform, read_transform
from warpgauge.io.transforms.mapped_points import MappedPoints, points_description
from warpgauge.project import Project
from warpgauge.project.transforms import IDENTITY
from warpgauge.study.challenge_tables import ACROBAT, ANHIR, anhir_file, read_acrobat
from warpgauge.study.description import MethodSpec, PairSpec, Study, fill


def transform_files(study: Study, pair: PairSpec, method: MethodSpec) -> list[Path] | str:
    """Files of a method's transform for a pair, or the reason why it is missing."""
    found: list[Path] = []
    if method.transform == (IDENTITY,):
        return found
    for pattern in method.patterns:
        filled = fill(pattern, glob.escape(pair.name), glob.escape(method.name))
        # Not Path.glob, which refuses absolute patterns.
        matches = sorted(glob.glob(filled, root_dir=study.folder))  # noqa: PTH207
        shown = fill(pattern, pair.name, method.name)
        if len(matches) > 1:
            return f"the pattern {shown!r} fits {len(matches)} files; it has to fit one"
        if not matches:
            return f"there is no file {shown!r}"
        found.append(study.folder / matches[0])
    return found


def read_method(
    files: Sequence[Path], pair: PairSpec, method: MethodSpec, fixed: Grid | None, moving: Grid | None, d: int
) -> Transform | str:
    """Read a transform, or return why it cannot be read; ``transform = "identity"`` means no registration."""
    options: dict[str, Any] = dict(method.options)
    if method.transform == (IDENTITY,):
        return AffineTransform(np.eye(d), np.zeros(d), Description(kind=IDENTITY))
    try:
        if method.mapped_landmarks is not None:
            return read_mapped(files[0], pair, method, fixed, moving)
        source = files[0] if len(files) == 1 else list(files)
        return read_transform(source, reference=fixed, moving=moving, **options)
    except WarpgaugeError as error:
        return str(error)


def project_transform(project: Project, method: MethodSpec) -> Transform | str:
    """Read the transform of that name within a project, or return why it is missing."""
    if method.name not in project.transform_names():
        return f"the project {project.folder.name!r} has no transform {method.name!r}"
    try:
        return project.transform(method.name, options=method.options)
    except WarpgaugeError as error:
        return str(error)


def read_mapped(
    file: Path, pair: PairSpec, method: MethodSpec, fixed: Grid | None, moving: Grid | None
) -> MappedPoints:
    """Read where a method mapped the fixed landmarks of a pair.

    ``options = { format = "acrobat" }`` names the table of ACROBAT, which has all pairs in one file (the pair's name is
    its ``anon_id``), and ``"anhir-results"`` the ``registration-results.csv`` of ANHIR, which names a file for each
    pair. Any other file holds the landmarks of one pair, in the order or with the names of the fixed ones.
    """
    options: dict[str, Any] = dict(method.options)
    if pair.landmarks is None:
        raise InvalidInputError(f"The pair {pair.name!r} has no landmarks that could have been mapped.")
    grids: dict[str, Any] = {"fixed_grid": fixed, "moving_grid": moving}
    if options.get("format") == ACROBAT:
        return _acrobat(file, pair, grids)
    if options.get("format") == ANHIR:
        file, options = anhir_file(file, pair), {}
    given: dict[str, Any] = {**pair.landmark_options, **options}
    if pair.moving_landmarks is None:  # the landmark file holds both sides, and so must this one
        found = read_landmarks(file, **grids, **given)
    else:
        found = read_landmarks(pair.landmarks, file, **grids, **given)
    if found.moving_points is None:
        raise FileFormatError(
            f"{file.name!r} lists points of one image; mapped landmarks need fixed and mapped points."
        )
    return MappedPoints(found.fixed_points, found.moving_points, description=_about(file, found.fixed_points))


def _about(file: Path, points: Floats) -> Description:
    about = points_description("mapped landmarks", file.name, points.shape[1])
    return about.assuming("The method gave mapped landmarks, so that it is known at the landmarks alone.")


def _acrobat(file: Path, pair: PairSpec, grids: Mapping[str, Any]) -> MappedPoints:
    cases = read_acrobat(file)
    if pair.name not in cases:
        raise FileFormatError(f"{file.name!r} has no rows of the pair {pair.name!r} in its column anon_id")
    assert pair.landmarks is not None
    truth = read_landmarks(pair.landmarks, pair.moving_landmarks, **grids, **pair.landmark_options)
    if len(cases[pair.name]) > 1:
        raise FileFormatError(f"{file.name!r} has several rows per point of the pair {pair.name!r}; a method has one.")
    case = next(iter(cases[pair.name].values()))
    rows = {name: row for row, name in enumerate(case.ids)}
    if truth.names is None or not rows.keys() & set(truth.names):
        raise FileFormatError(f"{file.name!r} has none of the points of the pair {pair.name!r}; check their point_id")
    he = np.array([case.he[rows[name]] if name in rows else np.full(2, np.nan) for name in truth.names])
    return MappedPoints(truth.fixed_points, he, description=_about(file, truth.fixed_points))
