"""The evaluation of one pair of a study, and its way to disk and back."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.evaluation import CandidateAverage, evaluate, norm_name, reference, trust
from warpgauge.evaluation.mapping import mapped_points
from warpgauge.geometry import Grid
from warpgauge.io.files import content_hash
from warpgauge.io.images import read_image
from warpgauge.io.transforms import Transform
from warpgauge.io.transforms.elastix import initial_files
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.study.description import PairSpec, Study
from warpgauge.study.loading import load_pair, pair_posterior, project_transform, read_method, transform_files

# Change it whenever the content of a stored result changes: old ones are then computed anew.
_SCHEMA = 2


@dataclass(frozen=True, eq=False)
class PairOutcome:
    """What is known of one pair.

    Attributes
    ----------
    name : str
    methods : tuple of str
        All methods of the study.
    missing : dict
        Methods without a usable transform, and why.
    draws : (S, K) array
        Posterior draws of the study's score; NaN columns for missing methods.
    scores : (K,) array
        The paper's posterior score; NaN where missing.
    landmark_errors : dict
        Classical errors of each present method at the annotated points inside its domain.
    initial_errors : list of float
        The same without registration (the identity).
    diagonal : float or None
    verdict, sentence : str
        Of the calibration.
    evaluation : dict
        Everything else, as :meth:`warpgauge.Evaluation.to_dict` gives it; empty where all methods are missing.
    """

    name: str
    methods: tuple[str, ...]
    missing: dict[str, str]
    draws: Floats
    scores: Floats
    landmark_errors: dict[str, list[float]]
    initial_errors: list[float]
    diagonal: float | None
    verdict: str
    sentence: str
    evaluation: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One pair to be computed, with weights learned on all pairs where the study asks for that."""

    study: Study
    pair: PairSpec
    learned: tuple[Sequence[float], float] | None = None


def compute_pair(job: Job) -> PairOutcome:
    """Evaluate all methods on one pair."""
    if job.pair.project is not None:
        return _compute_project(job)
    study, pair = job.study, job.pair
    loaded = load_pair(pair, study.settings)
    found: dict[str, Transform | str] = {}
    for method in study.methods:
        files = transform_files(study, pair, method)
        found[method.name] = (
            files if isinstance(files, str) else read_method(files, method, loaded.fixed, loaded.moving)
        )
    posterior = pair_posterior(loaded, study.model, job.learned)
    return _outcome(job, posterior, loaded.targets, found, loaded.fixed)


def _compute_project(job: Job) -> PairOutcome:
    study, folder = job.study, job.pair.project
    if folder is None:
        raise InvalidInputError(f"The pair {job.pair.name!r} is no project.")
    with Project.open(folder, check_images=False) as project:
        posterior = Session(project).posterior()
        targets = np.asarray(project.targets)
        if len(targets) > study.settings.targets:
            rows = np.random.default_rng(study.settings.seed).choice(len(targets), study.settings.targets, False)
            targets = targets[np.sort(rows)]
        found: dict[str, Transform | str] = {}
        for method in study.methods:
            if not method.transform:
                found[method.name] = project_transform(project, method)
                continue
            files = transform_files(study, job.pair, method)
            found[method.name] = (
                files if isinstance(files, str) else read_method(files, method, project.fixed_grid, project.moving_grid)
            )
        return _outcome(job, posterior, targets, found, project.fixed_grid)


def _outcome(
    job: Job, posterior: Posterior, targets: Floats, found: Mapping[str, Transform | str], fixed: Grid | None
) -> PairOutcome:
    settings = job.study.settings
    missing = {name: one for name, one in found.items() if isinstance(one, str)}
    present = {name: one for name, one in found.items() if not isinstance(one, str)}
    for name, one in list(present.items()):
        outside = float(np.mean(~np.isfinite(mapped_points(name, one, targets)).all(axis=1)))
        if outside > settings.most_outside:
            missing[name] = f"it is undefined at {outside:.0%} of the targets"
            del present[name]
    if missing and settings.missing == "error":
        name, reason = next(iter(missing.items()))
        raise InvalidInputError(f"The method {name!r} is missing for the pair {job.pair.name!r}: {reason}.")
    names = tuple(found)
    draws = np.full((settings.samples, len(names)), np.nan)
    scores = np.full(len(names), np.nan)
    given = posterior.annotations
    errors: dict[str, list[float]] = {}
    about: dict[str, Any] = {}
    judged_by = reference(posterior, present, settings.centre)
    report = trust(posterior, present, targets, averaged=isinstance(judged_by, CandidateAverage))
    if present:
        result = evaluate(
            judged_by,
            present,
            targets,
            samples=settings.samples,
            seed=settings.seed,
            tolerance=settings.tolerance,
            diagonal=fixed,
            further=0,
        )
        norm = norm_name(settings.p)
        for column, name in enumerate(present):
            draws[:, names.index(name)] = result.draws[f"norm {norm}"][:, column]
            scores[names.index(name)] = result.scores[name].posterior[norm]
            lengths = np.linalg.norm(
                mapped_points(name, present[name], given.fixed_points) - given.moving_points, axis=1
            )
            errors[name] = lengths[np.isfinite(lengths)].tolist()
        about = result.to_dict()
        about["read_as"] = {name: one.description.to_dict() for name, one in present.items()}
    return PairOutcome(
        job.pair.name,
        names,
        missing,
        draws,
        scores,
        errors,
        np.linalg.norm(given.fixed_points - given.moving_points, axis=1).tolist(),
        None if fixed is None else fixed.diagonal,
        report.verdict,
        report.sentence,
        about,
    )


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
    for name in ("landmarks", "moving_landmarks", "mask", "targets"):
        path = getattr(pair, name)
        if path is not None:
            files[name] = content_hash(path)
    for name in ("fixed", "moving"):
        path = getattr(pair, name)
        if path is not None:
            # Of the images only the frame is used, and they can be huge.
            grid = read_image(path).grid
            files[name] = f"{grid.size} {grid.affine.tolist()} {grid.units}"
    for method in study.methods:
        found = transform_files(study, pair, method) if method.transform else []
        files[f"method {method.name}"] = found if isinstance(found, str) else _hash_all(found)
    content = {
        "schema": _SCHEMA,
        "program": __version__,
        "settings": asdict(study.settings) | {"bootstrap": None},
        "model": asdict(study.model),
        "pair": [pair.name, pair.sd, dict(pair.landmark_options)],
        "methods": [[method.name, dict(method.options)] for method in study.methods],
        "learned": job.learned,
        "files": files,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]


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
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with fresh.open("wb") as stream:
            np.savez_compressed(
                stream, draws=outcome.draws, scores=outcome.scores, about=np.array(json.dumps(plain, allow_nan=False))
            )
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def load(path: Path) -> PairOutcome | None:
    """Read a result back; None where there is none, or none that can be read."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            about = json.loads(str(content["about"]))
            draws, scores = np.array(content["draws"]), np.array(content["scores"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    about["methods"] = tuple(about["methods"])
    return PairOutcome(draws=draws, scores=scores, **about)
