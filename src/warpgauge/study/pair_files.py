"""Files of a pair: grids of its images, and landmarks that a method has mapped.

A grid is taken from the image, or from a small file ``*.grid.json`` if the image is not available. Mapped
landmarks are what ANHIR and ACROBAT collect instead of transforms.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import read_text, replace_file
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import read_landmarks
from warpgauge.io.transforms import Description
from warpgauge.io.transforms.mapped_points import MappedPoints, points_description
from warpgauge.project.document import grid_from_dict, grid_to_dict
from warpgauge.study.description import MethodSpec, PairSpec

SUFFIX = ".grid.json"


def read_grid(path: Path) -> Grid:
    """Return the grid of an image, or of a file that `write_grid` wrote."""
    if not path.name.endswith(SUFFIX):
        return read_image(path).grid
    try:
        return grid_from_dict(json.loads(read_text(path, "grid")))
    except (ValueError, KeyError, TypeError, InvalidInputError) as error:
        raise FileFormatError(
            f"{path.name!r} is not a grid: it needs size, spacing, origin, direction and units as JSON."
        ) from error


def write_grid(grid: Grid, path: Path) -> None:
    """Write a grid as JSON."""
    replace_file(path, (json.dumps(grid_to_dict(grid), indent=2) + "\n").encode())


ACROBAT, ANHIR = "acrobat", "anhir-results"
ACROBAT_COLUMNS = ("anon_id", "point_id", "ihc_x", "ihc_y", "he_x", "he_y")
ANNOTATOR = "annotator"
WARPED = "Warped source landmarks"


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
        file, options = anhir_file(file, pair.name), {}
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


@dataclass(frozen=True, eq=False)
class AcrobatCase:
    """Rows of one pair of ACROBAT's table: ids, points in the IHC image, and in the H&E image (NaN where empty)."""

    ids: tuple[str, ...]
    ihc: Floats
    he: Floats


def read_acrobat(file: Path) -> dict[str, dict[str, AcrobatCase]]:
    """Read ACROBAT's table of points, in µm, by pair (``anon_id``) and by ``annotator``, "" without such a column."""
    rows: dict[str, dict[str, list[tuple[str, list[float]]]]] = {}
    for line, row in _rows(file, ACROBAT_COLUMNS):
        numbers = [_number(row[name], name, file.name, line) for name in ACROBAT_COLUMNS[2:]]
        if not np.isfinite(numbers[:2]).all():
            raise FileFormatError(f"{file.name!r}, line {line}: ihc_x and ihc_y must be numbers.")
        case = rows.setdefault(row["anon_id"].strip(), {})
        case.setdefault(row.get(ANNOTATOR, "").strip(), []).append((row["point_id"].strip(), numbers))
    return {
        name: {who: _case(points, name, file) for who, points in annotators.items()}
        for name, annotators in rows.items()
    }


def _case(points: list[tuple[str, list[float]]], case: str, file: Path) -> AcrobatCase:
    ids = [name for name, _ in points]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise FileFormatError(
            f"{file.name!r}: the point {twice!r} of the pair {case!r} occurs twice; give one row per point, or a "
            f"column {ANNOTATOR!r} that names who placed it."
        )
    values = np.array([numbers for _, numbers in points])
    return AcrobatCase(tuple(ids), values[:, :2], values[:, 2:])


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
    missing = [name for name in truth.names or () if name not in rows]
    if truth.names is None or missing:
        named = f"lacks the point {missing[0]!r}" if missing else "cannot be matched: the landmarks have no names"
        raise FileFormatError(f"{file.name!r} {named} of the pair {pair.name!r}")
    order = [rows[name] for name in truth.names]
    return MappedPoints(truth.fixed_points, case.he[order], description=_about(file, truth.fixed_points))


def anhir_file(file: Path, pair: str) -> Path:
    """Return the file of warped landmarks that ``registration-results.csv`` of ANHIR names for a pair."""
    text = read_text(file, "table of results")
    reader = csv.DictReader(io.StringIO(text))
    titles = reader.fieldnames or []
    if WARPED not in titles:
        raise FileFormatError(f"{file.name!r} has no column {WARPED!r}, as the results of ANHIR have.")
    for row in reader:
        if (row[titles[0]] or "").strip() == pair:
            named = (row[WARPED] or "").strip()
            if not named:
                raise FileFormatError(f"{file.name!r} names no warped landmarks of the pair {pair!r}")
            return inside(file.parent, named)
    raise FileFormatError(f"{file.name!r} has no row of the pair {pair!r}")


def inside(folder: Path, name: str) -> Path:
    """Return a path that a submission names, which may not leave the submission's folder."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise FileFormatError(f"The path {name!r} leads out of {folder.name!r}")
    return path


def _rows(file: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(read_text(file, "table of points")))
    missing = [name for name in columns if name not in (reader.fieldnames or [])]
    if missing:
        raise FileFormatError(f"{file.name!r} has no column {missing[0]!r}; ACROBAT's have {', '.join(columns)}.")
    kept = [*columns, *({ANNOTATOR} & set(reader.fieldnames or []))]
    return [(number, {key: row[key] or "" for key in kept}) for number, row in enumerate(reader, 2)]


def _number(text: str, name: str, file: str, line: int) -> float:
    if not text.strip():
        return float("nan")
    try:
        return float(text)
    except ValueError as error:
        raise FileFormatError(f"{file!r}, line {line}: {name} is {text!r}, which is not a number.") from error
