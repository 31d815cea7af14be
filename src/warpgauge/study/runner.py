"""Runs over the pairs of a study: `run_study` compares all methods, `gate_study` one method with another.

Pairs run in parallel, and each result is stored as soon as it is computed. The gate rests on the audits of the
projects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpgauge.compute import Executor, given_or_local
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.evaluation.assessment import project_posterior
from warpgauge.evaluation.audit import audit_data
from warpgauge.evaluation.gate import Comparison, GateResult, check_level, compared
from warpgauge.io.files import PathLike
from warpgauge.io.transforms import Transform
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.study import pairs
from warpgauge.study.description import MethodSpec, PairSpec, Study, read_study
from warpgauge.study.loader import fit_together, load_pair, project_transform, read_method, transform_files
from warpgauge.study.pairs import Job, PairOutcome, job_key
from warpgauge.study.result import StudyResult, summarise


@dataclass(frozen=True)
class Progress:
    """One pair is done: how many of how many, its name, and whether it was there already."""

    done: int
    total: int
    name: str
    cached: bool


Watcher = Callable[[Progress], None]


def run_study(
    study: Study | PathLike,
    out: PathLike,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Watcher | None = None,
    fresh: bool = False,
) -> StudyResult:
    """Evaluate every method on every pair and compare them.

    Parameters
    ----------
    study : Study or path
        Or the path of its ``STUDY.toml``.
    out : path
        Folder for the results of the pairs, made where it is not there. A result is used again as long as the settings
        and the content of all files behind it are the same.
    workers : int
        Processes; with 1 everything happens in this one. A script that asks for more has to start its work under
        ``if __name__ == "__main__":``, since the processes are spawned.
    executor : Executor, optional
        Where to run, instead of ``workers`` processes of this machine. Workers on other machines need the same paths.
    progress : callable, optional
        Called with a :class:`Progress` after each pair.
    fresh : bool
        Compute every pair anew.

    Raises
    ------
    WarpgaugeError
        When pairs failed: of the first of them. The others' results are kept for the next run.
    """
    described = study if isinstance(study, Study) else read_study(study)
    if int(workers) != workers or workers < 1:
        raise InvalidInputError(f"workers must be a whole number of at least 1, got {workers!r}.")
    folder = Path(out) / "pairs"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(described)
    with given_or_local(executor, min(int(workers), max(1, len(jobs)))) as chosen:
        places = {name: folder / f"{_plain(name)}-{key}.npz" for name, key in _keys(jobs, chosen).items()}
        stored = {} if fresh else {name: pairs.load(place) for name, place in places.items()}
        found = {name: outcome for name, outcome in stored.items() if outcome is not None}
        cached = list(found)
        for done, name in enumerate(cached, 1):
            _tell(progress, done, jobs, name, True)
        failures: list[tuple[str, WarpgaugeError]] = []
        missing = {name: job for name, job in jobs.items() if name not in found}
        for name, outcome in _computed(missing, chosen):
            if isinstance(outcome, PairOutcome):
                pairs.save(outcome, places[name])
                found[name] = outcome
                _tell(progress, len(found), jobs, name, False)
            else:
                failures.append((name, outcome))
    if failures:
        name, error = failures[0]
        more = f" ({len(failures)} pairs failed; the others are kept in {folder.parent.name!r})" if failures[1:] else ""
        raise type(error)(f"Pair {name!r}: {error}{more}") from error
    order = list(jobs)
    return summarise(
        described,
        [found[name] for name in order],
        computed=[name for name in order if name not in cached],
        cached=cached,
    )


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


def _tell(progress: Watcher | None, done: int, jobs: Mapping[str, Job], name: str, cached: bool) -> None:
    if progress is not None:
        progress(Progress(done, len(jobs), name, cached))


def _jobs(study: Study) -> dict[str, Job]:
    learned = None
    plain = [pair for pair in study.pairs if pair.landmarks is not None]
    if study.model.fit == "together" and plain:
        learned = fit_together([load_pair(pair, study.settings) for pair in plain], study.model)
    return {pair.name: Job(study, pair, None if pair.project else learned) for pair in study.pairs}


def _keys(jobs: Mapping[str, Job], executor: Executor) -> dict[str, str]:
    """Return the key of every pair: its files are hashed by the workers."""
    names = {name: name for name in jobs}
    found = {one.id: one.result() for one in executor.run(_key, names, jobs)}
    return {name: found[name] for name in jobs}


def _key(jobs: Mapping[str, Job], name: str) -> str:
    return job_key(jobs[name])


def _compute(jobs: Mapping[str, Job], name: str) -> PairOutcome:
    return pairs.compute_pair(jobs[name])


def _computed(jobs: Mapping[str, Job], executor: Executor) -> Iterator[tuple[str, PairOutcome | WarpgaugeError]]:
    """Return every pair's result, or why it failed, as soon as it is there."""
    # The study is sent to each worker once; a job is a name.
    for one in executor.run(_compute, {name: name for name in jobs}, jobs):
        yield one.id, one.problem if isinstance(one.problem, WarpgaugeError) else one.result()


def gate_study(study: Study, new: str, baseline: str, *, margin: str | float = 0.0, level: float = 0.95) -> GateResult:
    """Return whether a method is worse than another, on average over the pairs of a study.

    Every pair must be a project with an audit. The answer is about these pairs; it says nothing about others.

    Parameters
    ----------
    study : Study
    new, baseline : str
        Names of methods.
    margin, level
        As in `warpgauge.evaluation.gate_project`.
    """
    check_level(level)
    methods = {method.name: method for method in study.methods}
    for name in (new, baseline):
        if name not in methods:
            raise InvalidInputError(f"The study has no method {name!r}; it has {', '.join(methods)}.")
    found, units = [], ""
    for pair in study.pairs:
        comparison, unit = _pair(study, pair, methods[new], methods[baseline], margin)
        if units not in ("", unit):
            raise InvalidInputError(f"The pairs of the study are in {units} and in {unit}; a gate needs one unit.")
        found.append(comparison)
        units = unit
    return _together(found, level, units)


def _pair(
    study: Study, pair: PairSpec, new: MethodSpec, baseline: MethodSpec, margin: str | float
) -> tuple[Comparison, str]:
    if pair.project is None:
        raise InvalidInputError(f"The pair {pair.name!r} is not a project, so it has no audit; a gate needs one.")
    with Project.open(pair.project, check_images=False) as project:
        transforms: dict[str, Transform] = {}
        for role, method in (("new", new), ("baseline", baseline)):
            transforms[role] = _transform(study, pair, method, project)
        posterior = project_posterior(project) if len(Session(project).annotations()) else None
        data = audit_data(project, transforms, posterior)
        return compared(data, margin, project.units), project.units


def _transform(study: Study, pair: PairSpec, method: MethodSpec, project: Project) -> Transform:
    found: Transform | str
    if not method.transform:
        found = project_transform(project, method)
    else:
        files = transform_files(study, pair, method)
        if isinstance(files, str):
            found = files
        else:
            found = read_method(files, pair, method, project.fixed_grid, project.moving_grid, project.d)
    if isinstance(found, str):
        raise InvalidInputError(f"The method {method.name!r} is missing for the pair {pair.name!r}: {found}.")
    return found


def _together(found: list[Comparison], level: float, units: str) -> GateResult:
    """Average differences of RMS errors over pairs; spreads add, with Satterthwaite's degrees of freedom."""
    from scipy import stats  # takes longer to load than all of the core

    P = len(found)
    sizes = np.array([(one.scale * one.excess.estimate, one.scale * one.beyond.estimate) for one in found])
    variances = np.square([(one.scale * one.excess.spread, one.scale * one.beyond.spread) for one in found])
    mean, variance = sizes.mean(axis=0), variances.sum(axis=0) / P**2
    freedom = np.array([one.answers - 1 for one in found], dtype=np.float64)
    weight = np.square(variances / P**2) / freedom[:, None]
    total = weight.sum(axis=0)
    df = np.where(total > 0, np.square(variance) / np.where(total > 0, total, 1.0), freedom.sum())
    reach = stats.t.ppf(level, np.maximum(df, 1.0)) * np.sqrt(variance)
    low, high = float(mean[0] - reach[0]), float(mean[1] + reach[1])
    margin = float(np.mean([one.margin for one in found]))
    baseline, new = (float(np.mean([getattr(one, name) for one in found])) for name in ("baseline", "new"))
    code = 0 if high <= 0 else 1 if low > 0 else 2
    answers = sum(one.answers for one in found)
    return GateResult(code, float(mean[0]), low, margin + high, margin, baseline, new, answers, P, level, units)
