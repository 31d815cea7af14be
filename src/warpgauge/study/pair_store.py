"""Storage of the results of pairs: under which key a result is valid, and its file on disk."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from warpgauge._version import __version__
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.files import content_hash, write_whole
from warpgauge.io.transforms.elastix import initial_files
from warpgauge.project import Project
from warpgauge.study.challenge_tables import ANHIR, anhir_file
from warpgauge.study.description import LABELS, PairSpec
from warpgauge.study.method_files import transform_files
from warpgauge.study.pair_files import read_grid
from warpgauge.study.pairs import Job, PairOutcome

# Change it whenever the content of a stored result changes: old ones are then computed anew.
SCHEMA = 8


def job_key(job: Job) -> str:
    """Hash of everything that a pair's result depends on: settings, and the content of every file."""
    study, pair = job.study, job.pair
    files: dict[str, str] = {}
    if pair.project is not None:
        with Project.open(pair.project, check_images=False) as project:
            files["log"] = project.fingerprint()
        for name in ("project.json", "targets.npz", "candidates.npz"):
            if (pair.project / name).is_file():
                files[name] = content_hash(pair.project / name)
    for name in ("landmarks", "moving_landmarks", "mask", "targets", *LABELS):
        path = getattr(pair, name)
        if path is not None:
            files[name] = content_hash(path)
    files |= {f"rater {number}": content_hash(path) for number, path in enumerate(pair.raters, 2)}
    for name in ("fixed", "moving"):
        path = getattr(pair, name)
        if path is not None:
            # Of the images only the frame is used, and they can be huge.
            grid = read_grid(path)
            files[name] = f"{grid.size} {grid.affine.tolist()} {grid.units}"
    for method in study.methods:
        found = transform_files(study, pair, method) if method.patterns else []
        if method.options.get("format") == ANHIR and not isinstance(found, str):
            found = _with_named(found, pair)
        files[f"method {method.name}"] = found if isinstance(found, str) else _hash_all(found)
    content = {
        "schema": SCHEMA,
        "program": __version__,
        "settings": asdict(study.settings) | {"bootstrap": None},
        "model": asdict(study.model),
        "pair": [pair.name, pair.sd, pair.diagonal, dict(pair.landmark_options), dict(pair.matched_by)],
        "methods": [[method.name, dict(method.options), method.reference] for method in study.methods],
        "learned": None if job.learned is None else asdict(job.learned),
        "files": files,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _with_named(files: Sequence[Path], pair: PairSpec) -> list[Path]:
    """Return ANHIR's table of results and the file of landmarks that it names for a pair, where it is there."""
    try:
        named = anhir_file(files[0], pair)
    except FileFormatError:
        return list(files)  # reported when it is read
    return [*files, *([named] if named.is_file() else [])]


def _hash_all(files: Sequence[Path]) -> str:
    """Hashes of transform files and of those that an elastix file draws in."""
    drawn_in: list[Path] = []
    for file in files:
        try:
            drawn_in += initial_files(file)
        except (FileFormatError, InvalidInputError, OSError):
            continue  # not an elastix file, so it stands alone; a broken one is reported when it is read
    return " ".join(content_hash(file) for file in (*files, *drawn_in))


def save(outcome: PairOutcome, path: Path) -> None:
    """Write a result whole or not at all."""
    plain = {key: value for key, value in vars(outcome).items() if key not in ("draws", "scores")}
    content = io.BytesIO()
    about = np.array(json.dumps(plain, allow_nan=False))
    np.savez_compressed(content, draws=outcome.draws, scores=outcome.scores, about=about)
    write_whole(path, content.getvalue(), durable=True)


def load(path: Path) -> PairOutcome | None:
    """Read a result back; None where there is none, or none that can be read."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            about = json.loads(str(content["about"]))
            draws, scores = np.array(content["draws"]), np.array(content["scores"])
        about["methods"] = tuple(about["methods"])
        return PairOutcome(draws=draws, scores=scores, **about)
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile, zlib.error):
        return None
