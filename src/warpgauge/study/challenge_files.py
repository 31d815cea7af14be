"""`new_study`: from the data of a known challenge on disk to a ``STUDY.toml`` that runs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.files import PathLike, read_text, replace_file
from warpgauge.io.images import read_image
from warpgauge.io.inside import Inside, name_problem
from warpgauge.io.landmarks import Landmarks, write_landmarks
from warpgauge.study.challenge_tables import ACROBAT, ANHIR, COVER_COLUMNS, read_acrobat
from warpgauge.study.description import CHALLENGES, toml_value

LANDMARKS = "landmarks"
# Standard deviation of a landmark where nothing is known of the raters: mm for Learn2Reg, µm for ACROBAT.
DEFAULT_SD = {"learn2reg": 1.0, "acrobat": 10.0}
# ANHIR: share of the image diagonal.
ANHIR_SD = 0.0005
_ANHIR_COLUMNS = ("Source landmarks", "Target landmarks")
_DIAGONAL = "Image diagonal [pixels]"
_IDS = re.compile(r"_(\d{4})_(\d{4})\.nii(?:\.gz)?$")


@dataclass(frozen=True)
class NewStudy:
    """Result of `new_study`: file, pairs, and pairs left out with reasons."""

    path: Path
    pairs: tuple[str, ...]
    left_out: tuple[str, ...]


def new_study(path: PathLike, like: str, data: PathLike, *, sd: float | None = None) -> NewStudy:
    """Write a study for data in the layout of a challenge, with a place for submissions as that challenge has them.

    Parameters
    ----------
    path : path
        Of the ``.toml`` file to write; landmark files that have to be converted go to ``landmarks`` beside it.
    like : {"anhir", "learn2reg", "acrobat"}
    data : path
        ANHIR: the cover table (``dataset_medium.csv``). Learn2Reg: ``*_dataset.json``. ACROBAT: the table of points
        with both ``ihc_x, ihc_y`` and the true ``he_x, he_y``; with a column ``annotator``, one row per annotator.
    sd : float, optional
        Standard deviation of a landmark, in world units. By default 0.05 % of ANHIR's image diagonal, 1 mm for
        Learn2Reg and 10 µm for ACROBAT.
    """
    if like not in CHALLENGES:
        raise InvalidInputError(f"There is no study template {like!r}; there are {', '.join(CHALLENGES)}.")
    if sd is not None and not sd > 0:
        raise InvalidInputError(f"sd must be a number above 0, got {sd!r}.")
    target, source = Path(path), Path(data)
    if target.suffix != ".toml":
        raise InvalidInputError(f"A study is a TOML file, so {target.name!r} must end in .toml.")
    if target.exists():
        raise InvalidInputError(f"There is already a file {str(target)!r}; choose another name or remove it first.")
    target.parent.mkdir(parents=True, exist_ok=True)
    make = {"anhir": _anhir, "learn2reg": _learn2reg, "acrobat": _acrobat}[like]
    pairs, method, left_out = make(source, target.parent)
    if not pairs:
        why = f": {left_out[0]}" if left_out else ""
        raise FileFormatError(f"{source.name!r} describes no pair that can be judged{why}.")
    spread = sd if sd is not None else DEFAULT_SD.get(like)
    if spread is None:
        spread = float(f"{ANHIR_SD * float(np.median([pair['diagonal'] for pair in pairs])):.3g}")
    for pair in pairs:
        if "/" in pair["name"] or name_problem(pair["name"]) is not None:
            raise FileFormatError(
                f"The name {pair['name']!r} of a pair goes into file names and may not hold a slash or the like."
            )
    for pair in pairs:
        _write_converted(target.parent, pair)
    replace_file(target, _text(target.stem, like, spread, pairs, method).encode())
    names = tuple(str(pair["name"]) for pair in pairs)
    return NewStudy(target, names, tuple(left_out))


Pairs = list[dict[str, Any]]
Made = tuple[Pairs, dict[str, Any], list[str]]


def _anhir(table: Path, folder: Path) -> Made:
    """Read ANHIR's cover table: points are mapped from the source image to the target image."""
    reader = csv.DictReader(io.StringIO(read_text(table, "cover table")))
    titles = list(reader.fieldnames or [])
    missing = [name for name in (*_ANHIR_COLUMNS, _DIAGONAL) if name not in titles]
    if missing:
        raise FileFormatError(f"{table.name!r} has no column {missing[0]!r}, as the cover tables of ANHIR have.")
    pairs: Pairs = []
    left_out = []
    for number, row in enumerate(reader):
        name = (row[titles[0]] or str(number)).strip() if titles[0] not in _ANHIR_COLUMNS else str(number)
        files = [_found(table.parent, row[column] or "") for column in _ANHIR_COLUMNS]
        if None in files:
            lost = row[_ANHIR_COLUMNS[files.index(None)]]
            left_out.append(f"pair {name}: there is no file {lost!r}")
            continue
        source, target = (_relative(file, folder) for file in files if file is not None)
        diagonal = float(row[_DIAGONAL] or "nan")
        if not diagonal > 0:
            raise FileFormatError(f"{table.name!r}: the pair {name} has no {_DIAGONAL!r}.")
        matched = {column: (row[column] or "").strip() for column in COVER_COLUMNS if (row.get(column) or "").strip()}
        named = {"name": name, "landmarks": source, "moving_landmarks": target, "targets": source}
        # The challenge's tissue: the first folder of the landmarks, without what follows an underscore.
        top, below, _ = (row[_ANHIR_COLUMNS[0]] or "").strip().partition("/")
        tissue = {"group": top.partition("_")[0] or top} if below else {}
        pairs.append({**named, "diagonal": diagonal, "matched_by": matched, **tissue})
    method = {"mapped_landmarks": "submissions/{method}/registration-results.csv", "options": {"format": ANHIR}}
    return pairs, method, left_out


def _found(folder: Path, name: str) -> Path | None:
    """Return a file of ANHIR's tables, which are relative to a folder beside the table."""
    places = [folder / name, folder / LANDMARKS / name, folder.parent / LANDMARKS / name]
    return next((place for place in places if name and place.is_file()), None)


def _relative(file: Path, folder: Path) -> str:
    full, home = file.resolve(), folder.resolve()
    return full.relative_to(home).as_posix() if full.is_relative_to(home) else full.as_posix()


def _learn2reg(description: Path, folder: Path) -> Made:
    """Read a ``*_dataset.json`` of Learn2Reg: pairs with keypoints or landmarks in voxels."""
    try:
        content = json.loads(read_text(description, "dataset description"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{description.name!r} is not valid JSON.") from error
    found = content if isinstance(content, dict) else {}
    listed = [pair for key in ("registration_test", "registration_val") for pair in found.get(key) or ()]
    if not listed:
        raise FileFormatError(f"{description.name!r} lists no pairs under registration_val or registration_test.")
    pairs: Pairs = []
    left_out = []
    for entry in listed:
        if not isinstance(entry, Mapping) or not {"fixed", "moving"} <= set(entry):
            raise FileFormatError(f"{description.name!r}: a pair needs 'fixed' and 'moving', but one is {entry!r:.80}.")
        images = [description.parent / str(entry[side]) for side in ("fixed", "moving")]
        ids = [_IDS.search(image.name) for image in images]
        if None in ids:
            raise FileFormatError(
                f"{description.name!r}: {images[0].name!r} is not named as in Learn2Reg (_0001_0000)."
            )
        name = "_".join(found[1] for found in ids if found)
        points = _keypoints(images)
        if points is None:
            left_out.append(f"pair {name}: there are no keypoints or landmarks of {images[0].name!r}")
            continue
        grids = [read_image(image).grid for image in images]
        world = [grid.index_to_world(one) for grid, one in zip(grids, points, strict=True)]
        if len(world[0]) != len(world[1]):
            raise FileFormatError(
                f"The landmark files of the pair {name} have {len(world[0])} and {len(world[1])} rows."
            )
        marks = Landmarks(world[0], world[1], frame="LPS", units="mm")
        fixed, moving = (_relative(image, folder) for image in images)
        pairs.append({"name": name, "landmarks": marks, "fixed": fixed, "moving": moving})
    method = {
        "transform": "submissions/{method}/disp_{pair}.nii.gz",
        "options": {"format": "learn2reg", "layout": "current"},
    }
    return pairs, method, left_out


def _keypoints(images: Sequence[Path]) -> list[Any] | None:
    """Return the points of both images in voxels; Learn2Reg keeps them in a folder named like that of the images."""
    for kind in ("landmarks", "keypoints"):
        files = [_beside(image, kind, f"{image.name.partition('.')[0]}.csv") for image in images]
        if all(file.is_file() for file in files):
            return [_voxels(file) for file in files]
    return None


def _beside(image: Path, kind: str, name: str) -> Path:
    """Return a file in the folder of its kind (``labelsTs``) beside that of the images (``imagesTs``)."""
    return image.parent.with_name(image.parent.name.replace("images", kind)) / name


def _voxels(file: Path) -> Any:
    try:
        points = np.loadtxt(io.StringIO(read_text(file, "keypoints")), delimiter=",", ndmin=2)
    except ValueError as error:
        raise FileFormatError(f"{file.name!r} is not a table of voxel indices x,y,z without a header.") from error
    if points.shape[1] != 3 or not np.isfinite(points).all():
        raise FileFormatError(f"{file.name!r} has {points.shape[1]} columns; keypoints of Learn2Reg have three.")
    return points


def _acrobat(table: Path, folder: Path) -> Made:
    """Read ACROBAT's table with the true points of the H&E images; points are mapped from IHC to H&E, in µm."""
    pairs: Pairs = []
    left_out = []
    for name, by_annotator in read_acrobat(table).items():
        known = [np.isfinite(case.he).all(axis=1) for case in by_annotator.values()]
        sets = [
            Landmarks(case.ihc[rows], case.he[rows], names=tuple(np.array(case.ids)[rows].tolist()), units="um")
            for case, rows in zip(by_annotator.values(), known, strict=True)
            if rows.any()
        ]
        if not sets:
            left_out.append(f"pair {name}: he_x and he_y are empty")
            continue
        sets.sort(key=len, reverse=True)  # the points of the first annotator are those that count
        pairs.append({"name": name, "landmarks": sets[0], "targets": sets[0]})
        if len(sets) > 1:
            pairs[-1]["raters"] = sets[1:]
        others = {point for one in sets[1:] for point in one.names or ()} - set(sets[0].names or ())
        if others:
            left_out.append(f"pair {name}: {counted(len(others), 'point')} that another annotator has not placed")
    return pairs, {"mapped_landmarks": "submissions/{method}.csv", "options": {"format": ACROBAT}}, left_out


def _write_converted(folder: Path, pair: dict[str, Any]) -> None:
    """Write the landmarks of a pair that had to be converted, and put their path in their place."""
    for key, value in pair.items():
        if isinstance(value, Landmarks):
            pair[key] = _write_marks(folder, value, str(pair["name"]))
        elif key == "raters":
            pair[key] = [_write_marks(folder, one, f"{pair['name']}-rater{n}") for n, one in enumerate(value, 2)]


def _write_marks(folder: Path, marks: Landmarks, name: str) -> str:
    (folder / LANDMARKS).mkdir(exist_ok=True)
    write_landmarks(marks, Inside(folder, f"{LANDMARKS}/{name}.json", "landmark file").path)
    return f"{LANDMARKS}/{name}.json"


_HEAD = """\
# Written by warpgauge new-study --like {like}. Check sd, then put submissions under submissions/NAME and add a
# [[method]] for each; warpgauge benchmark {file} ranks them and shows the official figures of {title} beside.
name = {name}

[settings]
challenge = "{like}"
{sd}missing = "worst"       # a case that is not there counts as the worst of no registration and the references
"""
_SD = "sd = {sd:g}                  # standard deviation of a landmark, {unit}: replace it by your raters' scatter\n"
_TITLES = {"anhir": "ANHIR", "learn2reg": "Learn2Reg", "acrobat": "ACROBAT"}
_UNITS = {"anhir": "pixels", "learn2reg": "mm", "acrobat": "µm"}


def _text(name: str, like: str, sd: float, pairs: Pairs, method: Mapping[str, Any]) -> str:
    lines = [
        _HEAD.format(
            like=like,
            title=_TITLES[like],
            file=f"{name}.toml",
            name=toml_value(name),
            sd=_SD.format(sd=sd, unit=_UNITS[like]),
        )
    ]
    for pair in pairs:
        lines += ["[[pair]]", *(f"{key} = {toml_value(value)}" for key, value in pair.items()), ""]
    lines += ["[[method]]", 'name = "submission"', *(f"{key} = {toml_value(value)}" for key, value in method.items())]
    return "\n".join(lines) + "\n"
