"""Challenges: the layout of their data and submissions, and their official figures under their own names.

The figures follow the rules of the challenges' own evaluation programs, also for what is missing. They are computed
from the errors at the landmarks alone and carry no uncertainty; docs/study.md says where a rule is not public.
"""

from __future__ import annotations

import csv
import io
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.display import counted
from warpgauge.errors import FileFormatError, WarpgaugeError
from warpgauge.geometry import Grid
from warpgauge.io.files import read_text
from warpgauge.io.images import read_image
from warpgauge.io.inside import Inside
from warpgauge.io.landmarks import Landmarks, read_landmarks
from warpgauge.io.transforms.arrays import displacements_in_voxels
from warpgauge.study.description import Method, Pair

Figures = dict[str, float]


@dataclass
class Template:
    """What the data of a challenge describe: entries of pairs, the layout of a submission, and what was left out."""

    method: dict[str, Any]
    pairs: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """What a method did on one pair: errors at the landmarks (None: nothing; NaN: no point), and before."""

    pair: Pair
    method: Method
    file: Path | None
    annotations: Annotations
    grids: tuple[Grid | None, Grid | None]
    errors: Floats | None
    initial: Floats
    diagonal: float | None


class Challenge:
    """What all challenges offer; `main` names the figures that rank."""

    title: str
    unit: str
    sd: float | None  # of a landmark, where nothing is known of the raters
    main: tuple[str, ...]

    def template(self, data: Path, folder: Path) -> Template:
        """Read the data of a challenge; paths are relative to the folder of the study."""
        raise NotImplementedError

    def case(self, case: Case) -> Figures:
        """Return a method's official figures of one pair, by the challenge's own rule for what is missing."""
        raise NotImplementedError

    def total(self, columns: Mapping[str, Floats]) -> Figures:
        """Return a method's official figures over all pairs, from the columns of those of each pair."""
        raise NotImplementedError


def official_figures(challenge: str | None, cases: Sequence[Figures]) -> Figures:
    """Return a method's official figures over the pairs of a study.

    A pair without figures leaves a method without them: Learn2Reg refuses a submission that lacks one.
    """
    if challenge is None or not cases:
        return {}
    names = [name for name in cases[0] if all(name in case for case in cases)]
    columns = {name: np.array([case[name] for case in cases]) for name in names}
    return CHALLENGES[challenge].total(columns) if columns else {}


# ANHIR

ANHIR, ACROBAT = "anhir-results", "acrobat"  # formats of mapped landmarks
# What ANHIR's evaluation joins its cover table and a table of results by.
COVER = ("Target image", "Source image", "Target landmarks", "Source landmarks")
WARPED = "Warped source landmarks"
_DIAGONAL = "Image diagonal [pixels]"


class Anhir(Challenge):
    """Points are mapped from the source image to the target image; errors are shares of the image's diagonal."""

    title = "ANHIR"
    unit = "pixels"
    sd = None
    main = ("Average-Median-rTRE",)

    def template(self, data: Path, folder: Path) -> Template:
        """Read the cover table (``dataset_medium.csv``)."""
        found = Template(
            {"mapped_landmarks": "submissions/{method}/registration-results.csv", "options": {"format": ANHIR}}
        )
        reader = csv.DictReader(io.StringIO(read_text(data, "cover table")))
        titles = list(reader.fieldnames or [])
        sides = ("Source landmarks", "Target landmarks")
        for name in (*sides, _DIAGONAL):
            if name not in titles:
                raise FileFormatError(f"{data.name!r} has no column {name!r}, as the cover tables of ANHIR have.")
        for number, row in enumerate(reader):
            name = str(number) if titles[0] in sides else (row[titles[0]] or str(number)).strip()
            files = [self._file(data.parent, row[column] or "") for column in sides]
            if None in files:
                lost = row[sides[files.index(None)]]
                found.left_out.append(f"pair {name}: there is no file {lost!r}")
                continue
            source, target = (_relative(file, folder) for file in files if file is not None)
            diagonal = _number(row[_DIAGONAL] or "", _DIAGONAL, data.name, number + 2)
            if not diagonal > 0:
                raise FileFormatError(f"{data.name!r}: the pair {name} has no {_DIAGONAL!r}.")
            entry = {"name": name, "landmarks": source, "moving_landmarks": target, "targets": source}
            entry["diagonal"] = diagonal
            entry["matched_by"] = {
                column: (row[column] or "").strip() for column in COVER if (row.get(column) or "").strip()
            }
            # The challenge's tissue: the first folder of the landmarks, without what follows an underscore.
            top, inside, _ = (row[sides[0]] or "").strip().partition("/")
            if inside:
                entry["group"] = top.partition("_")[0] or top
            found.pairs.append(entry)
        return found

    @staticmethod
    def _file(folder: Path, name: str) -> Path | None:
        places = [folder / name, folder / "landmarks" / name, folder.parent / "landmarks" / name]
        return next((place for place in places if name and place.is_file()), None)

    def case(self, case: Case) -> Figures:
        """Return rTRE and robustness; a pair that is not whole has those before registration, and a robustness of 0."""
        if case.diagonal is None:
            return {}
        errors = case.errors
        if case.method.options.get("format") == ANHIR:
            errors = None
            if case.file is not None:
                errors = self._errors(case.file, case.pair, case.annotations)
        complete = errors is not None and bool(np.isfinite(errors).all())
        relative = (errors if complete and errors is not None else case.initial) / case.diagonal
        better = float(np.mean(relative < case.initial / case.diagonal))
        return {
            "rTRE Mean (final)": float(relative.mean()),
            "rTRE Median (final)": float(np.median(relative)),
            "rTRE Max (final)": float(relative.max()),
            "Robustness": better if complete else 0.0,
        }

    @staticmethod
    def _errors(table: Path, pair: Pair, annotations: Annotations) -> Floats | None:
        """Read warped landmarks as ANHIR's program does: columns X and Y in the order of the rows, 0 for no number."""
        try:
            file = anhir_file(table, pair)
            reader = csv.DictReader(io.StringIO(read_text(file, "warped landmarks")))
            if not {"X", "Y"} <= set(reader.fieldnames or []):
                return None
            rows = [
                [_number(row[axis] or "", axis, file.name, line) for axis in "XY"] for line, row in enumerate(reader, 2)
            ]
        except WarpgaugeError:
            return None  # `missing` says why
        warped = np.nan_to_num(np.array(rows, dtype=np.float64).reshape(-1, 2))
        if warped.shape != annotations.moving_points.shape:
            return None
        return np.asarray(np.linalg.norm(warped - annotations.moving_points, axis=1))

    def total(self, columns: Mapping[str, Floats]) -> Figures:
        """Return averages over the pairs, and over those of a robustness above a half."""
        medians = columns["rTRE Median (final)"]
        largest = columns["rTRE Max (final)"]
        robust = columns["Robustness"] > 0.5
        found = {
            "Average-Robustness": float(columns["Robustness"].mean()),
            "Average-Median-rTRE": float(medians.mean()),
            "Average-Max-rTRE": float(largest.mean()),
        }
        if robust.any():
            found["Average-Median-rTRE-Robust"] = float(medians[robust].mean())
            found["Average-Max-rTRE-Robust"] = float(largest[robust].mean())
        return found


def anhir_file(table: Path, pair: Pair) -> Path:
    """Return the file of warped landmarks that ``registration-results.csv`` of ANHIR names for a pair.

    As in the challenge, the row is found by the names of images and landmark files, whatever its number.
    """
    reader = csv.DictReader(io.StringIO(read_text(table, "table of results")))
    titles = list(reader.fieldnames or [])
    if WARPED not in titles:
        raise FileFormatError(f"{table.name!r} has no column {WARPED!r}, as the results of ANHIR have.")
    names: dict[str, str] = dict(pair.matched_by)
    exact = bool(names)
    if not exact:  # of a study without them, the paths of the landmark files
        for column, path in (("Source landmarks", pair.landmarks), ("Target landmarks", pair.moving_landmarks)):
            if path is not None:
                names[column] = path.as_posix()
    shared = [column for column in COVER if column in titles and column in names]
    if {column.split()[0] for column in shared} != {"Target", "Source"}:
        raise FileFormatError(
            f"{table.name!r} does not say which pair a row belongs to: rows are matched by the columns "
            f"{', '.join(names) or ', '.join(COVER)}, as in ANHIR, and never by their number"
        )

    def fits(row: Mapping[str, str | None], column: str) -> bool:
        cell = (row[column] or "").strip()
        return cell == names[column] if exact else bool(cell) and names[column].endswith(f"/{cell}")

    rows = [row for row in reader if all(fits(row, column) for column in shared)]
    if len(rows) != 1:
        count = "no row" if not rows else f"{len(rows)} rows"
        raise FileFormatError(f"{table.name!r} has {count} of the pair {pair.name!r} ({names[shared[-1]]!r})")
    named = (rows[0][WARPED] or "").strip()
    if not named:
        raise FileFormatError(f"{table.name!r} names no warped landmarks of the pair {pair.name!r}")
    return Inside(table.parent, posixpath.normpath(named), "file of warped landmarks").path


# ACROBAT

_POINTS = ("anon_id", "point_id", "ihc_x", "ihc_y", "he_x", "he_y")
_ANNOTATOR = "annotator"


@dataclass(frozen=True, eq=False)
class AcrobatRows:
    """Rows of one pair of ACROBAT's table: ids, points in the IHC image, and in the H&E image (NaN where empty)."""

    ids: tuple[str, ...]
    ihc: Floats
    he: Floats


class Acrobat(Challenge):
    """Points are mapped from IHC to H&E, in µm; one table holds all pairs, and several annotators of the truth."""

    title = "ACROBAT"
    unit = "µm"
    sd = 10.0
    main = ("Median-90th-percentile-TRE",)

    def template(self, data: Path, folder: Path) -> Template:
        """Read the table of points with the true points of the H&E images."""
        found = Template({"mapped_landmarks": "submissions/{method}.csv", "options": {"format": ACROBAT}})
        for name, annotators in read_acrobat(data).items():
            sets = []
            for rows in annotators.values():
                known = np.isfinite(rows.he).all(axis=1)
                if known.any():
                    ids = tuple(np.array(rows.ids)[known].tolist())
                    sets.append(Landmarks(rows.ihc[known], rows.he[known], names=ids, units="um"))
            if not sets:
                found.left_out.append(f"pair {name}: he_x and he_y are empty")
                continue
            sets.sort(key=len, reverse=True)  # the points of the first annotator are those that count
            entry: dict[str, Any] = {"name": name, "landmarks": sets[0], "targets": sets[0]}
            if len(sets) > 1:
                entry["raters"] = sets[1:]
            found.pairs.append(entry)
            others = {point for marks in sets[1:] for point in marks.names or ()} - set(sets[0].names or ())
            if others:
                found.left_out.append(
                    f"pair {name}: {counted(len(others), 'point')} that another annotator has not placed"
                )
        return found

    def case(self, case: Case) -> Figures:
        """Return the 90th percentile; a landmark that is missing keeps its place in the moving image."""
        errors = case.initial if case.errors is None else case.errors
        errors = np.where(np.isfinite(errors), errors, case.initial)
        return {"90th-percentile-TRE": float(np.percentile(errors, 90))}

    def total(self, columns: Mapping[str, Floats]) -> Figures:
        """Return the median over the pairs, the figure of 2022, and the mean, that of 2023."""
        values = columns["90th-percentile-TRE"]
        return {
            "Median-90th-percentile-TRE": float(np.median(values)),
            "Mean-90th-percentile-TRE": float(values.mean()),
        }


def read_acrobat(file: Path) -> dict[str, dict[str, AcrobatRows]]:
    """Read ACROBAT's table of points, in µm, by pair (``anon_id``) and by ``annotator``, "" without such a column."""
    reader = csv.DictReader(io.StringIO(read_text(file, "table of points")))
    missing = [name for name in _POINTS if name not in (reader.fieldnames or [])]
    if missing:
        raise FileFormatError(f"{file.name!r} has no column {missing[0]!r}; ACROBAT's have {', '.join(_POINTS)}.")
    rows: dict[str, dict[str, dict[str, list[float]]]] = {}
    for line, row in enumerate(reader, 2):
        numbers = [_number(row[name] or "", name, file.name, line) for name in _POINTS[2:]]
        if not np.isfinite(numbers[:2]).all():
            raise FileFormatError(f"{file.name!r}, line {line}: ihc_x and ihc_y must be numbers.")
        pair = (row["anon_id"] or "").strip()
        point = (row["point_id"] or "").strip()
        points = rows.setdefault(pair, {}).setdefault((row.get(_ANNOTATOR) or "").strip(), {})
        if point in points:
            raise FileFormatError(
                f"{file.name!r}: the point {point!r} of the pair {pair!r} occurs twice; give one row per point, or a "
                f"column {_ANNOTATOR!r} that names who placed it."
            )
        points[point] = numbers
    found: dict[str, dict[str, AcrobatRows]] = {}
    for pair, annotators in rows.items():
        for who, points in annotators.items():
            values = np.array(list(points.values()))
            found.setdefault(pair, {})[who] = AcrobatRows(tuple(points), values[:, :2], values[:, 2:])
    return found


# Learn2Reg

_IDS = re.compile(r"_(\d{4})_(\d{4})\.nii(?:\.gz)?$")


class Learn2Reg(Challenge):
    """Keypoints or landmarks in voxels beside the images; a submission has a displacement field per pair."""

    title = "Learn2Reg"
    unit = "mm"
    sd = 1.0
    main = ("TRE mean",)

    def template(self, data: Path, folder: Path) -> Template:
        """Read ``TASK_dataset.json``."""
        found = Template(
            {
                "transform": "submissions/{method}/disp_{pair}.nii.gz",
                "options": {"convention": "learn2reg"},
            }
        )
        try:
            content = json.loads(read_text(data, "dataset description"))
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{data.name!r} is not valid JSON.") from error
        content = content if isinstance(content, dict) else {}
        listed = [pair for key in ("registration_test", "registration_val") for pair in content.get(key) or ()]
        if not listed:
            raise FileFormatError(f"{data.name!r} lists no pairs under registration_val or registration_test.")
        for entry in listed:
            if not isinstance(entry, Mapping) or not {"fixed", "moving"} <= set(entry):
                raise FileFormatError(f"{data.name!r}: a pair needs 'fixed' and 'moving', but one is {entry!r:.80}.")
            images = [data.parent / str(entry[side]) for side in ("fixed", "moving")]
            ids = [match[1] for image in images if (match := _IDS.search(image.name))]
            if len(ids) < 2:
                raise FileFormatError(f"{data.name!r}: {images[0].name!r} is not named as in Learn2Reg (_0001_0000).")
            name = "_".join(ids)
            points = self._keypoints(images)
            if points is None:
                found.left_out.append(f"pair {name}: there are no keypoints or landmarks of {images[0].name!r}")
                continue
            grids = [read_image(image).grid for image in images]
            world = [grid.index_to_world(voxels) for grid, voxels in zip(grids, points, strict=True)]
            if len(world[0]) != len(world[1]):
                raise FileFormatError(
                    f"The landmark files of the pair {name} have {len(world[0])} and {len(world[1])} rows."
                )
            marks = Landmarks(world[0], world[1], frame="LPS", units="mm")
            fixed, moving = (_relative(image, folder) for image in images)
            found.pairs.append({"name": name, "landmarks": marks, "fixed": fixed, "moving": moving})
        return found

    @staticmethod
    def _keypoints(images: Sequence[Path]) -> list[Floats] | None:
        """Return the points of both images in voxels, from a folder named like that of the images."""
        for kind in ("landmarks", "keypoints"):
            files = []
            for image in images:
                beside = image.parent.with_name(image.parent.name.replace("images", kind))
                files.append(beside / f"{image.name.partition('.')[0]}.csv")
            if all(file.is_file() for file in files):
                return [_voxels(file) for file in files]
        return None

    def case(self, case: Case) -> Figures:
        """Return TRE, of a field in the challenge's format as its own program has it; nothing where it is missing."""
        fixed = case.grids[0]
        moving = case.grids[1] or case.grids[0]
        convention = str(case.method.options.get("convention"))
        if case.file is not None and convention.startswith("learn2reg") and fixed and moving:
            if case.errors is None:
                return {}  # it could not be read, or misses most of the targets
            return field_figures(case.file, convention, case.annotations, fixed, moving)
        complete = case.errors is not None and bool(np.isfinite(case.errors).all())
        return {"TRE": float(np.mean(case.errors))} if complete and case.errors is not None else {}

    def total(self, columns: Mapping[str, Floats]) -> Figures:
        """Return mean, standard deviation, and the quantiles 30 (until 2023) and 70 (from 2024)."""
        found: Figures = {}
        for name, values in columns.items():
            found[f"{name} mean"] = float(values.mean())
            found[f"{name} std"] = float(values.std())
            for share in (30, 70):
                found[f"{name} {share}"] = float(np.quantile(values, share / 100))
        return found


def field_figures(file: Path, convention: str, annotations: Annotations, fixed: Grid, moving: Grid) -> Figures:
    """Return TRE by a cubic spline, and SDlogJ, of a Learn2Reg field as its evaluation computes them."""
    from scipy.ndimage import map_coordinates

    displacements = displacements_in_voxels(file, convention, fixed)
    if not np.isfinite(displacements).all():
        return {}  # the challenge's program computes NaN
    start = fixed.world_to_index(annotations.fixed_points)
    end = moving.world_to_index(annotations.moving_points)
    moved = start + np.stack([map_coordinates(part, start.T[::-1]) for part in displacements], axis=1)
    figures = {"TRE": float(np.linalg.norm((moved - end) * moving.spacing, axis=1).mean())}
    if min(displacements.shape[1:]) > 4:
        # Its program adds 3 to the determinant, so that its logarithm is blind to folding down to -3.
        clipped = np.clip(_determinants(displacements) + 3, 1e-9, 1e9)
        figures["SDlogJ"] = float(np.log(clipped).std())
    return figures


def _determinants(displacements: NDArray[Any]) -> Floats:
    """Jacobian determinants by central differences in voxels, without a border of two voxels."""
    inner = (slice(2, -2),) * 3
    rows = [np.stack([part[inner] for part in np.gradient(one)[::-1]], axis=-1) for one in displacements]
    return np.asarray(np.linalg.det(np.stack(rows, axis=-2) + np.eye(3)))


def _voxels(file: Path) -> Floats:
    try:
        points = np.loadtxt(io.StringIO(read_text(file, "keypoints")), delimiter=",", ndmin=2)
    except ValueError as error:
        raise FileFormatError(f"{file.name!r} is not a table of voxel indices x,y,z without a header.") from error
    if points.shape[1] != 3 or not np.isfinite(points).all():
        raise FileFormatError(f"{file.name!r} has {points.shape[1]} columns; keypoints of Learn2Reg have three.")
    return np.asarray(points, dtype=np.float64)


CHALLENGES: dict[str, Challenge] = {"anhir": Anhir(), "learn2reg": Learn2Reg(), "acrobat": Acrobat()}


def mapped_landmarks(file: Path, pair: Pair, method: Method, grids: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Read where a method mapped the fixed landmarks of a pair: these points, and where they went.

    ``options = { format = "acrobat" }`` names the table of ACROBAT, which has all pairs in one file (the pair's name is
    its ``anon_id``), and ``"anhir-results"`` the ``registration-results.csv`` of ANHIR, which names a file for each
    pair. Any other file holds the landmarks of one pair, in the order or with the names of the fixed ones.
    """
    assert pair.landmarks is not None
    options = dict(method.options)
    if options.get("format") == ACROBAT:
        return _acrobat_points(file, pair, grids)
    if options.get("format") == ANHIR:
        file = anhir_file(file, pair)
        options = {}
    both: dict[str, Any] = {**grids, **pair.landmark_options, **options}
    if pair.moving_landmarks is None:  # the landmark file holds both sides, and so must this one
        found = read_landmarks(file, **both)
    else:
        found = read_landmarks(pair.landmarks, file, **both)
    if found.moving_points is None:
        raise FileFormatError(
            f"{file.name!r} lists points of one image; mapped landmarks need fixed and mapped points."
        )
    return found.fixed_points, found.moving_points


def _acrobat_points(file: Path, pair: Pair, grids: Mapping[str, Any]) -> tuple[Floats, Floats]:
    tables = read_acrobat(file)
    if pair.name not in tables:
        raise FileFormatError(f"{file.name!r} has no rows of the pair {pair.name!r} in its column anon_id")
    if len(tables[pair.name]) > 1:
        raise FileFormatError(f"{file.name!r} has several rows per point of the pair {pair.name!r}; a method has one.")
    assert pair.landmarks is not None
    truth = read_landmarks(pair.landmarks, pair.moving_landmarks, **grids, **pair.landmark_options)
    table = next(iter(tables[pair.name].values()))
    rows = {name: row for row, name in enumerate(table.ids)}
    if truth.names is None or not rows.keys() & set(truth.names):
        raise FileFormatError(f"{file.name!r} has none of the points of the pair {pair.name!r}; check their point_id")
    he = np.array([table.he[rows[name]] if name in rows else np.full(2, np.nan) for name in truth.names])
    return truth.fixed_points, he


def _relative(file: Path, folder: Path) -> str:
    full = file.resolve()
    home = folder.resolve()
    return full.relative_to(home).as_posix() if full.is_relative_to(home) else full.as_posix()


def _number(text: str, name: str, file: str, line: int) -> float:
    if not text.strip():
        return float("nan")
    try:
        return float(text)
    except ValueError as error:
        raise FileFormatError(f"{file!r}, line {line}: {name} is {text!r}, which is not a number.") from error
