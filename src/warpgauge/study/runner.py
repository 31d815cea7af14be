"""`run_study` compares all methods over all pairs; pairs run in parallel, and each result is stored at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpgauge.compute import Executor, given_or_local
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import PathLike
from warpgauge.io.inside import Inside, file_name
from warpgauge.study import pair_store
from warpgauge.study.description import Study, read_study
from warpgauge.study.pair_files import load_pair
from warpgauge.study.pair_model import fit_together
from warpgauge.study.pairs import Job, PairOutcome, compute_pair
from warpgauge.study.result import StudyResult, summarise


@dataclass(frozen=True)
class Progress:
    """A pair is done: how many of how many are, its name, and whether its result was there already."""

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
    folder = Inside(Path(out), "pairs", "folder").path
    folder.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(described)
    with given_or_local(executor, min(int(workers), max(1, len(jobs)))) as chosen:
        places = {name: folder / f"{file_name(name)}-{key}.npz" for name, key in _keys(jobs, chosen).items()}
        stored = {} if fresh else {name: pair_store.load(place) for name, place in places.items()}
        found = {name: outcome for name, outcome in stored.items() if outcome is not None}
        cached = list(found)
        for done, name in enumerate(cached, 1):
            _tell(progress, done, jobs, name, True)
        failures: list[tuple[str, WarpgaugeError]] = []
        missing = {name: job for name, job in jobs.items() if name not in found}
        for name, outcome in _computed(missing, chosen):
            if isinstance(outcome, PairOutcome):
                pair_store.save(outcome, places[name])
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


def results_folder(study: Path) -> Path:
    """Return where the results of a study go unless a person says otherwise: a folder beside its file."""
    return Inside(study.parent, f"{study.stem}-results", "folder of results").path


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
    return pair_store.job_key(jobs[name])


def _compute(jobs: Mapping[str, Job], name: str) -> PairOutcome:
    return compute_pair(jobs[name])


def _computed(jobs: Mapping[str, Job], executor: Executor) -> Iterator[tuple[str, PairOutcome | WarpgaugeError]]:
    """Return every pair's result, or why it failed, as soon as it is there."""
    # The study is sent to each worker once; a job is a name.
    for one in executor.run(_compute, {name: name for name in jobs}, jobs):
        yield one.id, one.problem if isinstance(one.problem, WarpgaugeError) else one.result()
