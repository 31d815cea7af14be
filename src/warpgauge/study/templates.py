"""`new_study`: from the data of a known challenge on disk to a ``STUDY.toml`` that runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.files import PathLike, replace_file
from warpgauge.io.inside import Inside, name_problem
from warpgauge.io.landmarks import Landmarks, write_landmarks
from warpgauge.study.challenges import CHALLENGES, Challenge, Template
from warpgauge.study.description import toml_value

FOLDER = "landmarks"
# Of ANHIR, the standard deviation of a landmark as a share of the image diagonal.
ANHIR_SD = 0.0005

_HEAD = """\
# Written by warpgauge new-study --like {like}. Check sd, then put submissions under submissions/NAME and add a
# [[method]] for each; warpgauge benchmark {file} ranks them and shows the official figures of {title} beside.
name = {name}

[settings]
challenge = "{like}"
sd = {sd:g}                  # standard deviation of a landmark, {unit}: replace it by your raters' scatter
missing = "worst"       # a case that is not there counts as the worst of no registration and the references
"""


@dataclass(frozen=True)
class NewStudy:
    """Result of `new_study`: file, pairs, and pairs left out with reasons."""

    path: Path
    pairs: tuple[str, ...]
    left_out: tuple[str, ...]


def new_study(path: PathLike, like: str, data: PathLike, *, sd: float | None = None) -> NewStudy:
    """Write a study for data in the layout of a challenge, with a place for submissions as that challenge has them.

    Landmark files that have to be converted go to ``landmarks`` beside the ``.toml`` file. The data of "anhir" are its
    cover table (``dataset_medium.csv``), of "learn2reg" ``*_dataset.json``, of "acrobat" the table of points with both
    ``ihc_x, ihc_y`` and the true ``he_x, he_y``; with a column ``annotator``, one row per annotator. ``sd`` is the
    standard deviation of a landmark in world units, by default 0.05 % of ANHIR's image diagonal, 1 mm for Learn2Reg and
    10 µm for ACROBAT.
    """
    if like not in CHALLENGES:
        raise InvalidInputError(f"There is no study template {like!r}; there are {', '.join(CHALLENGES)}.")
    if sd is not None and not sd > 0:
        raise InvalidInputError(f"sd must be a number above 0, got {sd!r}.")
    challenge = CHALLENGES[like]
    target = Path(path)
    source = Path(data)
    if target.suffix != ".toml":
        raise InvalidInputError(f"A study is a TOML file, so {target.name!r} must end in .toml.")
    if target.exists():
        raise InvalidInputError(f"There is already a file {str(target)!r}; choose another name or remove it first.")
    target.parent.mkdir(parents=True, exist_ok=True)
    found = challenge.template(source, target.parent)
    if not found.pairs:
        reason = f": {found.left_out[0]}" if found.left_out else ""
        raise FileFormatError(f"{source.name!r} describes no pair that can be judged{reason}.")
    for pair in found.pairs:
        if "/" in pair["name"] or name_problem(pair["name"]) is not None:
            raise FileFormatError(
                f"The name {pair['name']!r} of a pair goes into file names and may not hold a slash or the like."
            )
    for pair in found.pairs:
        _write_converted(target.parent, pair)
    spread = challenge.sd if sd is None else sd
    if spread is None:
        spread = float(f"{ANHIR_SD * float(np.median([pair['diagonal'] for pair in found.pairs])):.3g}")
    replace_file(target, _text(target.stem, like, challenge, spread, found).encode())
    return NewStudy(target, tuple(str(pair["name"]) for pair in found.pairs), tuple(found.left_out))


def _write_converted(folder: Path, pair: dict[str, Any]) -> None:
    """Write the landmarks of a pair that had to be converted, and put their path in their place."""
    for key, value in pair.items():
        if isinstance(value, Landmarks):
            pair[key] = _write_marks(folder, value, str(pair["name"]))
        elif key == "raters":
            pair[key] = [_write_marks(folder, one, f"{pair['name']}-rater{n}") for n, one in enumerate(value, 2)]


def _write_marks(folder: Path, marks: Landmarks, name: str) -> str:
    (folder / FOLDER).mkdir(exist_ok=True)
    write_landmarks(marks, Inside(folder, f"{FOLDER}/{name}.csv", "landmark file").path)
    return f"{FOLDER}/{name}.csv"


def _text(name: str, like: str, challenge: Challenge, sd: float, found: Template) -> str:
    title = {"file": f"{name}.toml", "name": toml_value(name), "title": challenge.title, "unit": challenge.unit}
    lines = [_HEAD.format(like=like, sd=sd, **title)]
    for pair in found.pairs:
        lines += ["[[pair]]", *(f"{key} = {toml_value(value)}" for key, value in pair.items()), ""]
    lines += ["[[method]]", 'name = "submission"']
    lines += [f"{key} = {toml_value(value)}" for key, value in found.method.items()]
    return "\n".join(lines) + "\n"
