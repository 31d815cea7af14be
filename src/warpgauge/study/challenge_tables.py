"""Tables of points and results as ANHIR and ACROBAT collect them instead of transforms."""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import FileFormatError
from warpgauge.io.files import read_text
from warpgauge.io.inside import Inside
from warpgauge.study.description import PairSpec

ACROBAT, ANHIR = "acrobat", "anhir-results"
# What ANHIR's evaluation joins its cover table and a table of results by.
COVER_COLUMNS = ("Target image", "Source image", "Target landmarks", "Source landmarks")
ACROBAT_COLUMNS = ("anon_id", "point_id", "ihc_x", "ihc_y", "he_x", "he_y")
ANNOTATOR = "annotator"
WARPED = "Warped source landmarks"


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


def anhir_file(file: Path, pair: PairSpec) -> Path:
    """Return the file of warped landmarks that ``registration-results.csv`` of ANHIR names for a pair.

    As in the challenge, the row is found by the names of images and landmark files, whatever its number.
    """
    reader = csv.DictReader(io.StringIO(read_text(file, "table of results")))
    titles = list(reader.fieldnames or [])
    if WARPED not in titles:
        raise FileFormatError(f"{file.name!r} has no column {WARPED!r}, as the results of ANHIR have.")
    names = _names_of(pair)
    shared = [column for column in COVER_COLUMNS if column in titles and column in names]
    if {column.split()[0] for column in shared} != {"Target", "Source"}:
        raise FileFormatError(
            f"{file.name!r} does not say which pair a row belongs to: rows are matched by the columns "
            f"{', '.join(names) or ', '.join(COVER_COLUMNS)}, as in ANHIR, and never by their number"
        )
    same = str.__eq__ if pair.matched_by else _is_end
    rows = [row for row in reader if all(same((row[one] or "").strip(), names[one]) for one in shared)]
    if len(rows) != 1:
        found = "no row" if not rows else f"{len(rows)} rows"
        raise FileFormatError(f"{file.name!r} has {found} of the pair {pair.name!r} ({names[shared[-1]]!r})")
    named = (rows[0][WARPED] or "").strip()
    if not named:
        raise FileFormatError(f"{file.name!r} names no warped landmarks of the pair {pair.name!r}")
    return Inside(file.parent, posixpath.normpath(named), "file of warped landmarks").path


def _names_of(pair: PairSpec) -> Mapping[str, str]:
    """Return what names a pair in the columns of ANHIR; of a study without them, the paths of its landmark files."""
    if pair.matched_by:
        return pair.matched_by
    found = {"Source landmarks": pair.landmarks, "Target landmarks": pair.moving_landmarks}
    return {column: path.as_posix() for column, path in found.items() if path is not None}


def _is_end(cell: str, path: str) -> bool:
    return bool(cell) and path.endswith(f"/{cell}")


def anhir_points(file: Path) -> Floats:
    """Read warped landmarks as ANHIR's evaluation does: columns X and Y in the order of the rows, 0 where not a number.

    The first column, a number of each landmark, is not looked at.
    """
    reader = csv.DictReader(io.StringIO(read_text(file, "warped landmarks")))
    if not {"X", "Y"} <= set(reader.fieldnames or []):
        raise FileFormatError(f"{file.name!r} has no columns X and Y, as the landmarks of ANHIR have.")
    rows = [[_number(row[axis] or "", axis, file.name, line) for axis in "XY"] for line, row in enumerate(reader, 2)]
    return np.nan_to_num(np.array(rows, dtype=np.float64).reshape(-1, 2))


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
