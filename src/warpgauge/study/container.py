"""A folder from which an evaluation container for grand-challenge.org is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, fields, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from warpgauge._version import __version__
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.files import PathLike
from warpgauge.io.inside import Inside
from warpgauge.io.landmarks import Landmarks, write_landmarks
from warpgauge.project import Project
from warpgauge.project.creation import FOLDERS
from warpgauge.project.document import read_document, write_document
from warpgauge.project.stores import SQLITE, store_named, store_of
from warpgauge.study.description import (
    METHOD,
    STUDY,
    MethodSpec,
    ModelSettings,
    PairSpec,
    Study,
    StudySettings,
    read_study,
    toml_value,
)
from warpgauge.study.pair_files import SUFFIX, load_pair, read_grid, write_grid

# Whether files can be opened below an open folder.
_BY_FOLDER = os.open in os.supports_dir_fd
_BASE = ("numpy", "scipy", "numba", "threadpoolctl", "nibabel", "h5py", "click", "rich")

_DOCKERFILE = """\
# Evaluation container of the study {name}, written by warpgauge {version}.
FROM python:3.11-slim
RUN groupadd --system evaluator && useradd --system --create-home --gid evaluator evaluator
WORKDIR /opt/app
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY package package
ENV PYTHONPATH=/opt/app/package PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/opt/app/compiled
# The inner loops are compiled here, so that no run has to wait for it or to write.
RUN python -c "from warpgauge.cli import main; main()" prepare
COPY ground-truth ground-truth
USER evaluator
ENTRYPOINT ["python", "-m", "warpgauge.study.submission"]
"""
_README = """\
# Evaluation container: {name}

Written by `warpgauge benchmark --container` (warpgauge {version}).

    docker build --platform linux/amd64 --tag evaluation .
    ./test.sh SUBMISSION-FOLDER            # runs it as the challenge site does: no network, read-only, not as root
    docker save evaluation | gzip > evaluation.tar.gz

- **Input** (`/input`): a submission with `{pattern}`, where `{{pair}}` is one of {pairs}; or `predictions.json` with
  the outputs of an algorithm, whose inputs have the name of the pair in theirs.
- **Output** (`/output/metrics.json`): `aggregates` for the leaderboard ({figures}) and `case` for each pair.
- **Ground truth**: `ground-truth/`, part of the image. To keep it apart, upload that folder as the ground truth of the
  phase, which the site mounts at `/opt/ml/input/data/ground_truth`; it takes precedence.
- It holds landmarks, targets, label images and grids of the images; no image and no transform. A project's
  log names its raters.
- Each submission is judged on its own, beside doing nothing, so that its score does not depend on other submissions.
  References of the study are not part of the image.
- What cannot be evaluated ends with exit code 1 and one sentence as the last line of standard error.
"""
_TEST = """\
#!/usr/bin/env bash
# Run the container on a folder with a submission, as the challenge site does; metrics.json goes to ./output.
set -euo pipefail
input=$(cd "${1:?give the folder of a submission}" && pwd)
mkdir -p output && chmod 777 output
docker run --rm --platform linux/amd64 --network none --read-only --tmpfs /tmp --cap-drop ALL \\
  --security-opt no-new-privileges --memory 8g \\
  --volume "$input:/input:ro" --volume "$PWD/output:/output" evaluation
cat output/metrics.json
"""


def write_container(study: Study | PathLike, folder: PathLike) -> Path:
    """Write everything that an evaluation container needs into a new folder.

    Parameters
    ----------
    study : Study or path
        The pairs and rules; its methods say how a submission is laid out: all have the same pattern with ``{method}``.
    folder : path
        Made here; it may not exist with content.

    Returns
    -------
    Path
        The folder, with ``Dockerfile``, ``README.md``, ``test.sh``, ``requirements.txt``, ``package`` (warpgauge
        itself) and ``ground-truth``.
    """
    described = study if isinstance(study, Study) else read_study(study)
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInputError(f"{str(target)!r} is there already and not empty; name a new folder for the container.")
    method = submission_method(described)
    loaded = {pair.name: load_pair(pair, described.settings) if pair.landmarks else None for pair in described.pairs}
    truth = target / "ground-truth"
    truth.mkdir(parents=True)
    entries: list[dict[str, Any]] = []
    for number, pair in enumerate(described.pairs, 1):
        place = truth / f"pair{number:03d}"
        place.mkdir()
        found = _copy_project(pair, place) if pair.project else _copy_pair(pair, place, loaded[pair.name])
        entries.append({"name": pair.name, **{key: f"{place.name}/{name}" for key, name in found.items()}})
        if pair.raters:
            entries[-1]["raters"] = [f"{place.name}/rater{n}-{one.name}" for n, one in enumerate(pair.raters, 2)]
            for source, copied in zip(pair.raters, entries[-1]["raters"], strict=True):
                shutil.copyfile(source, Inside(truth, copied))
        entries[-1] |= {
            key: value for key in ("sd", "diagonal", "matched_by", "group") if (value := getattr(pair, key))
        }
        if pair.landmark_options and not pair.project:
            entries[-1]["landmark_options"] = dict(pair.landmark_options)
    (truth / STUDY).write_text(_study_text(described, entries, method), "utf-8")
    _write_program(target, described, method)
    return target


def submission_method(study: Study) -> MethodSpec:
    """Return how a submission is laid out below its own folder, from the patterns of the study's methods."""
    if study.submissions is not None:
        spec = study.submissions
        return MethodSpec(METHOD, spec.transform, spec.options, spec.mapped_landmarks)
    layouts = {}
    for method in study.methods:
        if not method.reference and any("{method}" in pattern for pattern in method.patterns):
            below = tuple(_below(pattern) for pattern in method.patterns)
            layouts[below, json.dumps(dict(method.options), sort_keys=True)] = method
    if len(layouts) != 1:
        found = f"they have {len(layouts)}" if layouts else "none has such a pattern"
        raise InvalidInputError(
            "It must be known how a submission is laid out: give [submissions], or the methods of the study one common "
            f"pattern with {{method}}, as in 'submissions/{{method}}/{{pair}}.nii.gz', but {found}."
        )
    (below, _), method = next(iter(layouts.items()))
    if method.mapped_landmarks is not None:
        return MethodSpec(METHOD, (), method.options, below[0])
    return MethodSpec(METHOD, below, method.options)


def _below(pattern: str) -> str:
    """Return the part of a pattern below a method's folder; a file that only the method names becomes ``*.csv``."""
    parts = re.split(r"[\\/]", pattern)
    own = next((at for at, part in enumerate(parts) if "{method}" in part), None)
    if own is None:
        raise InvalidInputError(f"The pattern {pattern!r} has no {{method}}, unlike others of the same method.")
    last = parts[own].replace("{method}", "*")
    return "/".join([last] if own == len(parts) - 1 else parts[own + 1 :]).replace("{method}", "*")


def _copy_project(pair: PairSpec, place: Path) -> dict[str, str]:
    assert pair.project is not None
    document = read_document(pair.project)
    aim = place / "project"
    with Project.open(pair.project, check_images=False):  # refuses what is broken or not trusted
        for name in FOLDERS:
            (aim / name).mkdir(parents=True)
        # These and the log, nothing else that lies in the folder: logins, former logs, maps, what others submitted.
        points = (document.candidates.file, document.targets.file)
        for name in (*points, *(record.file for record in document.foregrounds.values())):
            with (
                os.fdopen(_opened(Inside(pair.project, name)), "rb") as source,
                Inside(aim, name).path.open("xb") as to,
            ):
                shutil.copyfileobj(source, to)
        # Where the images are is of no use there, and their names can be those of patients.
        unnamed = {role: replace(one, path=f"images/{role}") for role, one in document.images.items()}
        write_document(aim, replace(document, images=unnamed, database=None))
        # Also of a log in a database, which a container cannot reach: a file with the same rows.
        with closing(store_of(document).open(pair.project, document.id)) as log:
            store_named(SQLITE).create(aim, document.id, log.rows())
    return {"project": "project"}


def _copy_pair(pair: PairSpec, place: Path, loaded: Any) -> dict[str, str]:
    """Copy landmarks and targets of a pair, and the grids of its images instead of the images."""
    names = _copy_files(pair, place, ("landmarks", "moving_landmarks", "targets"))
    for key in ("fixed", "moving"):
        source = getattr(pair, key)
        if source is not None:
            names[key] = f"{key}{SUFFIX}"
            write_grid(read_grid(source), place / names[key])
    if pair.mask is not None and pair.targets is None:
        names["targets"] = "targets-mask.json"
        grid = loaded.fixed
        points = Landmarks(loaded.targets, frame="LPS" if grid.d == 3 else "image", units=grid.units)
        write_landmarks(points, place / names["targets"])
    return names


def _copy_files(pair: PairSpec, place: Path, keys: Sequence[str]) -> dict[str, str]:
    """Copy files of a pair as they are, where it has them, and return their new names."""
    sources = {key: getattr(pair, key) for key in keys}
    names = {key: f"{key}-{source.name}" for key, source in sources.items() if source is not None}
    for key, name in names.items():
        shutil.copyfile(sources[key], Inside(place, name))
    return names


def _opened(file: Inside) -> int:
    """Return a descriptor of a file below a folder; a link that takes its place after the check is not followed."""
    real, root = Path(os.path.realpath(file)), Path(os.path.realpath(file.root))
    if not _BY_FOLDER:
        return os.open(real, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    handle = os.open(root, os.O_RDONLY)
    try:
        for part in real.relative_to(root).parts:
            # Without O_NONBLOCK a pipe would be waited for; for a file it means nothing.
            inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
            os.close(handle)
            handle = inner
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return handle
    except FileNotFoundError:
        os.close(handle)
        raise
    except (ValueError, OSError):
        pass
    os.close(handle)
    raise FileFormatError(
        f"The {file.what} {file.name!r} in {file.root.name!r} is not used, because something else has taken its place "
        "meanwhile; put the file itself there."
    )


def _study_text(study: Study, entries: list[dict[str, Any]], method: MethodSpec) -> str:
    settings = asdict(study.settings) | {"norm": "inf" if study.settings.p == float("inf") else study.settings.norm}
    lines = [f"name = {toml_value(study.name)}", "", "[settings]", *_changed(settings, StudySettings())]
    lines += ["", "[model]", *_changed(asdict(study.model), ModelSettings())]
    for entry in entries:
        lines += ["", "[[pair]]", *(f"{key} = {toml_value(value)}" for key, value in entry.items())]
    lines += ["", "[[method]]", f'name = "{METHOD}"']
    if method.mapped_landmarks is not None:
        lines.append(f"mapped_landmarks = {toml_value(method.mapped_landmarks)}")
    else:
        lines.append(f"transform = {toml_value(list(method.transform))}")
    if method.options:
        lines.append(f"options = {toml_value(dict(method.options))}")
    return "\n".join(lines) + "\n"


def _changed(values: Mapping[str, Any], default: Any) -> list[str]:
    usual = {one.name: getattr(default, one.name) for one in fields(default)}
    return [f"{key} = {toml_value(value)}" for key, value in values.items() if value not in (None, usual[key])]


def _write_program(target: Path, study: Study, method: MethodSpec) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "static", "demo")
    shutil.copytree(Path(__file__).parents[1], target / "package" / "warpgauge", ignore=ignored)
    (target / "requirements.txt").write_text("".join(f"{line}\n" for line in _requirements()))
    shown = [pair.name for pair in study.pairs]
    pairs = ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
    figures = "mean_score with its 90 % interval"
    if study.settings.challenge:
        figures += f", and the official figures of {study.settings.challenge}"
    words = {"name": study.name, "version": __version__}
    (target / "Dockerfile").write_text(_DOCKERFILE.format(**words), "utf-8")
    about = _README.format(**words, pattern=", ".join(method.patterns), pairs=pairs, figures=figures)
    (target / "README.md").write_text(about, "utf-8")
    (target / "test.sh").write_text(_TEST)
    (target / "test.sh").chmod(0o755)


def _requirements() -> list[str]:
    """Return the base dependencies, each at the version that is installed here."""
    try:
        named = [re.match(r"[\w.-]+", line) for line in requires("warpgauge") or () if "extra ==" not in line]
        names = [found[0] for found in named if found]
    except PackageNotFoundError:
        names = []
    return [f"{name}=={version(name)}" for name in names or _BASE]
