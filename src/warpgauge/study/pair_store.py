"""Storage of the results of pairs: under which key a result is valid, and its file on disk."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.core.arrays import Floats
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.files import content_hash, write_whole
from warpgauge.io.transforms.registry import companion_files
from warpgauge.project import Project
from warpgauge.study.challenge_tables import ANHIR, anhir_file
from warpgauge.study.description import MethodSpec, PairSpec
from warpgauge.study.method_files import transform_files
from warpgauge.study.outcome import Figures, Ground, PairOutcome
from warpgauge.study.pair_files import read_grid
from warpgauge.study.pairs import Job

# Change it whenever the content of a stored result changes: old ones are then computed anew.
SCHEMA = 12
SUFFIX = ".result"
_GROUND, _MODEL = f"ground{SUFFIX}", f"model{SUFFIX}"


@dataclass(frozen=True)
class Keys:
    """Hashes of what a pair's result depends on.

    Attributes
    ----------
    whole : str
        Of everything: settings, and the content of every file.
    ground : str
        Of everything but the methods that are no references.
    methods : dict
        Of each method: how it is read, and the content of its files.
    audit : str or None
        Of the log of a project with random questions.
    """

    whole: str
    ground: str
    methods: dict[str, str]
    audit: str | None = None


def job_keys(job: Job) -> Keys:
    """Return the hashes of everything that a pair's result depends on."""
    study, pair = job.study, job.pair
    methods = {one.name: digest([one.name, dict(one.options), _method_files(job, one)]) for one in study.methods}
    settings = asdict(study.settings) | {"bootstrap": None, "missing": None}
    files, audit = _pair_files(pair)
    ground = {
        "schema": SCHEMA,
        "program": __version__,
        "settings": settings,
        "model": asdict(study.model),
        "pair": [pair.name, pair.sd, pair.diagonal, dict(pair.landmark_options), dict(pair.matched_by)],
        "learned": None if job.learned is None else asdict(job.learned),
        "files": files,
        "references": [methods[name] for name in study.references],
    }
    every = {"ground": ground, "methods": list(methods.values()), "missing": study.settings.missing}
    return Keys(digest(every), digest(ground), methods, audit)


def digest(content: Any) -> str:
    """Return a hash of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _pair_files(pair: PairSpec) -> tuple[dict[str, str], str | None]:
    """Return hashes of a pair's files, and that of its log where random questions are in it."""
    files: dict[str, str] = {}
    audit = None
    if pair.project is not None:
        with Project.open(pair.project, check_images=False) as project:
            files["log"] = project.fingerprint()
            audit = files["log"] if project.state.audits else None
        for name in ("project.json", "targets.npz", "candidates.npz"):
            if (pair.project / name).is_file():
                files[name] = content_hash(pair.project / name)
    for name in ("landmarks", "moving_landmarks", "mask", "targets"):
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
    return files, audit


def _method_files(job: Job, method: MethodSpec) -> str:
    found = transform_files(job.study, job.pair, method) if method.patterns else []
    if method.options.get("format") == ANHIR and not isinstance(found, str):
        found = _with_named(found, job.pair)
    return found if isinstance(found, str) else _hash_all(found)


def _with_named(files: Sequence[Path], pair: PairSpec) -> list[Path]:
    """Return ANHIR's table of results and the file of landmarks that it names for a pair, where it is there."""
    try:
        named = anhir_file(files[0], pair)
    except FileFormatError:
        return list(files)  # reported when it is read
    return [*files, *([named] if named.is_file() else [])]


def _hash_all(files: Sequence[Path]) -> str:
    """Hashes of transform files and of those that they cannot be read without."""
    drawn_in: list[Path] = []
    for file in files:
        try:
            drawn_in += companion_files(file)
        except (FileFormatError, InvalidInputError, OSError):
            continue  # a broken one is reported when it is read
    return " ".join(content_hash(file) for file in (*files, *drawn_in))


def save(outcome: PairOutcome, path: Path) -> None:
    """Write a result whole or not at all."""
    _write(path, _plain(outcome, "draws", "scores"), draws=outcome.draws, scores=outcome.scores)


def load(path: Path) -> PairOutcome | None:
    """Read a result back; None where there is none, or none that can be read."""
    found = _read(path)
    try:
        return None if found is None else PairOutcome(**{**found[0], "methods": tuple(found[0]["methods"])}, **found[1])
    except (TypeError, KeyError):
        return None


def save_ground(folder: Path, ground: Ground, model: Mapping[str, Floats]) -> None:
    """Write what a pair says beside its references, and what its model said, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / _MODEL, None, **model)
    _write(folder / _GROUND, _plain(ground, "cost_draws"), cost_draws=ground.cost_draws)


def save_methods(folder: Path, methods: Mapping[str, Figures], keys: Mapping[str, str]) -> None:
    """Write the figures of methods beside what is kept in a folder already."""
    about = {keys[name]: _plain(one, "draws") for name, one in methods.items()}
    drawn = [one.draws for one in methods.values() if one.missing is None]
    _write(
        folder / f"part-{digest(sorted(about))}{SUFFIX}", about, draws=np.stack(drawn) if drawn else np.zeros((0, 0))
    )


def load_model(folder: Path) -> dict[str, Floats] | None:
    """Read what a pair's model said; None where it is not kept."""
    found = _read(folder / _MODEL)
    return None if found is None else found[1]


def load_ground(folder: Path) -> Ground | None:
    """Read what a pair says beside its references; None where it is not kept."""
    found = _read(folder / _GROUND)
    try:
        return None if found is None else Ground(**found[0], **found[1])
    except TypeError:
        return None


def load_methods(folder: Path, keys: Mapping[str, str]) -> dict[str, Figures]:
    """Read the figures of those methods that are kept in a folder."""
    names = {key: name for name, key in keys.items()}
    found: dict[str, Figures] = {}
    for part in sorted(folder.glob(f"part-*{SUFFIX}")) if folder.is_dir() else []:
        about, arrays = _read(part) or ({}, {"draws": ()})
        try:
            drawn = iter(arrays["draws"])
            made = {
                key: Figures(**one) if one["missing"] is not None else Figures(draws=next(drawn), **one)
                for key, one in about.items()
            }
        except (KeyError, TypeError, AttributeError, StopIteration):
            continue  # of another kind
        found |= {names[key]: one for key, one in made.items() if key in names}
    return found


def _plain(value: Any, *arrays: str) -> dict[str, Any]:
    return {key: one for key, one in vars(value).items() if key not in arrays}


def _write(path: Path, about: Any, **arrays: Floats) -> None:
    """Write plain values and arrays: a checksum, a line of JSON, and the arrays one after the other.

    What a power cut damages is found by the checksum and computed anew.
    """
    head = {"about": about, "shapes": {name: one.shape for name, one in arrays.items()}}
    numbers = (one.astype("<f8").tobytes() for one in arrays.values())
    content = b"".join([json.dumps(head, allow_nan=False).encode(), b"\n", *numbers])
    write_whole(path, zlib.crc32(content).to_bytes(4) + content)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Read what was written; None where there is nothing, or it is damaged, or was never written here."""
    try:
        stored = path.read_bytes()
        if zlib.crc32(stored[4:]).to_bytes(4) != stored[:4]:
            return None
        line, _, numbers = stored[4:].partition(b"\n")
        head = json.loads(line)
        sizes = [math.prod(shape) for shape in head["shapes"].values()]
        parts = np.split(np.frombuffer(numbers, "<f8").astype(np.float64), np.cumsum(sizes)[:-1])
        named = zip(head["shapes"].items(), parts, strict=True)
        return head["about"], {name: part.reshape(shape) for (name, shape), part in named}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
