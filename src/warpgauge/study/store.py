"""Results of pairs on disk: under which key a result is valid, and its file."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.files import content_hash, write_whole
from warpgauge.io.transforms import companion_files
from warpgauge.project import Project
from warpgauge.study.challenges import ANHIR, anhir_file
from warpgauge.study.description import Method, Pair, Study
from warpgauge.study.pairs import PairOutcome, method_files, read_grid

# Change it whenever the content of a stored result changes: old ones are then computed anew.
SCHEMA = 13
SUFFIX = ".npz"


def key_of(study: Study, pair: Pair) -> str:
    """Return a hash of everything that a pair's result depends on: settings, and the content of every file."""
    content = {
        "schema": SCHEMA,
        "program": __version__,
        "settings": study.settings.model_dump(exclude={"bootstrap", "missing"}),
        "pair": pair.model_dump(exclude={"group"}, mode="json"),
        "files": _pair_files(pair),
        "references": study.references,
        "methods": [[one.name, one.options, _hashes_of_method(study, pair, one)] for one in study.methods],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _pair_files(pair: Pair) -> dict[str, str]:
    files: dict[str, str] = {}
    if pair.project is not None:
        with Project.open(pair.project, check_images=False) as project:
            files["log"] = project.fingerprint()
        for name in ("project.json", "targets.npz", "candidates.npz"):
            if (pair.project / name).is_file():
                files[name] = content_hash(pair.project / name)
    for name in ("landmarks", "moving_landmarks", "mask", "targets"):
        path = getattr(pair, name)
        if path is not None:
            files[name] = content_hash(path)
    for number, path in enumerate(pair.raters, 2):
        files[f"rater {number}"] = content_hash(path)
    for name in ("fixed", "moving"):
        path = getattr(pair, name)
        if path is not None:
            # Of the images only the frame is used, and they can be huge.
            grid = read_grid(path)
            files[name] = f"{grid.size} {grid.affine.tolist()} {grid.units}"
    return files


def _hashes_of_method(study: Study, pair: Pair, method: Method) -> str:
    """Return the hashes of a method's files, and of those that they cannot be read without."""
    files = method_files(study, pair, method) if method.patterns else []
    if isinstance(files, str):
        return files
    try:
        if method.options.get("format") == ANHIR:
            named = anhir_file(files[0], pair)
            files = [*files, *([named] if named.is_file() else [])]
    except FileFormatError:
        pass  # reported when it is read
    return " ".join(content_hash(file) for file in (*files, *_companions(files)))


def _companions(files: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for file in files:
        try:
            found += companion_files(file)
        except (FileFormatError, InvalidInputError, OSError):
            continue  # a broken one is reported when it is read
    return found


def save(outcome: PairOutcome, path: Path) -> None:
    """Write a result whole or not at all."""
    about = {name: value for name, value in vars(outcome).items() if name not in ("draws", "scores")}
    text = np.frombuffer(json.dumps(about, allow_nan=False).encode(), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, about=text, draws=outcome.draws, scores=outcome.scores)
    write_whole(path, stream.getvalue())


def load(path: Path) -> PairOutcome | None:
    """Read a result back; None where there is none, or none that can be read: it is then computed anew."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:  # members have checksums
            about: dict[str, Any] = json.loads(stored["about"].tobytes())
            about["methods"] = tuple(about["methods"])
            return PairOutcome(**about, draws=stored["draws"], scores=stored["scores"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, zipfile.BadZipFile, zlib.error, EOFError):
        return None
