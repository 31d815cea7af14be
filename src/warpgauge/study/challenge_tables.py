"""Tables of points and results as ANHIR and ACROBAT collect them instead of transforms."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import FileFormatError
from warpgauge.io.files import read_text

ACROBAT, ANHIR = "acrobat", "anhir-results"
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
