"""Running a study: pairs in parallel, each result stored as soon as it is computed."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import PathLike
from warpgauge.study import pairs
from warpgauge.study.description import Study, read_study
from warpgauge.study.loading import fit_together, load_pair
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
    places = {job.pair.name: folder / f"{_plain(job.pair.name)}-{job_key(job)}.npz" for job in jobs}
    stored = {} if fresh else {name: pairs.load(place) for name, place in places.items()}
    found = {name: outcome for name, outcome in stored.items() if outcome is not None}
    cached = list(found)
    for done, name in enumerate(cached, 1):
        _tell(progress, done, jobs, name, True)
    failures: list[tuple[str, WarpgaugeError]] = []
    for name, outcome in _computed([job for job in jobs if job.pair.name not in found], workers):
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
    order = [job.pair.name for job in jobs]
    return summarise(
        described,
        [found[name] for name in order],
        computed=[name for name in order if name not in cached],
        cached=cached,
    )


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


def _tell(progress: Watcher | None, done: int, jobs: Sequence[Job], name: str, cached: bool) -> None:
    if progress is not None:
        progress(Progress(done, len(jobs), name, cached))


def _jobs(study: Study) -> list[Job]:
    learned = None
    plain = [pair for pair in study.pairs if pair.project is None]
    if study.model.fit == "together" and plain:
        learned = fit_together([load_pair(pair, study.settings) for pair in plain], study.model)
    return [Job(study, pair, None if pair.project else learned) for pair in study.pairs]


def _computed(jobs: Sequence[Job], workers: int) -> Iterator[tuple[str, PairOutcome | WarpgaugeError]]:
    """Return every pair's result, or why it failed, as soon as it is there."""
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            try:
                yield job.pair.name, pairs.compute_pair(job)
            except WarpgaugeError as error:
                yield job.pair.name, error
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        running: dict[Future[PairOutcome], str] = {pool.submit(pairs.compute_pair, job): job.pair.name for job in jobs}
        try:
            for future in as_completed(running):
                problem = future.exception()
                if isinstance(problem, WarpgaugeError):
                    yield running[future], problem
                else:
                    yield running[future], future.result()
        finally:
            for future in running:
                future.cancel()
