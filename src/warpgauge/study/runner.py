"""`run_study` compares all methods over all pairs; pairs run in parallel, and each result is stored at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpgauge.compute import Executor, given_or_local
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import PathLike
from warpgauge.io.inside import Inside, file_name
from warpgauge.study import pair_store
from warpgauge.study.description import Study, read_study
from warpgauge.study.outcome import PairOutcome
from warpgauge.study.pair_files import load_pair
from warpgauge.study.pair_model import fit_together
from warpgauge.study.pairs import Job, check_missing
from warpgauge.study.panel_pairs import PanelPair, compute_pair
from warpgauge.study.result import StudyResult, summarise
from warpgauge.study.teams import with_teams


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
        When no pair could be computed, or one failed and the rule for missing cases is ``"error"``. The others' results
        are kept for the next run. Otherwise pairs that failed are named in the result, and left out for all methods.
    """
    described = study if isinstance(study, Study) else read_study(study)
    if int(workers) != workers or workers < 1:
        raise InvalidInputError(f"workers must be a whole number of at least 1, got {workers!r}.")
    described = with_teams(described)
    folder = Inside(Path(out), "pairs", "folder").path
    folder.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(described)
    with given_or_local(executor, min(int(workers), max(1, len(jobs)))) as chosen:
        failures: dict[str, WarpgaugeError] = {}
        every: dict[str, pair_store.Keys] = {}
        for name, keys in _done(pair_store.job_keys, jobs, chosen):
            if isinstance(keys, WarpgaugeError):
                failures[name] = keys
            else:
                every[name] = keys
        with _no_collection():
            shelves = {name: Shelf.of(folder, jobs[name], keys, fresh=fresh) for name, keys in every.items()}
        found = {name: one.outcome for name, one in shelves.items() if one.outcome is not None}
        cached = [name for name in jobs if name in found]
        for done, name in enumerate(cached, 1):
            _tell(progress, done, jobs, name, True)
        left = {name: one.job for name, one in shelves.items() if name not in found}
        for name, outcome in _done(compute_pair, left, chosen):
            if isinstance(outcome, WarpgaugeError):
                failures[name] = outcome
            else:
                found[name] = shelves[name].put(outcome)
                _tell(progress, len(found), jobs, name, False)
    for name in [name for name in jobs if name in found]:
        try:
            check_missing(jobs[name], found[name].missing)
        except WarpgaugeError as problem:
            failures[name] = problem
    if failures and (not found or described.settings.missing == "error"):
        name, error = next(iter(failures.items()))
        more = f" ({len(failures)} pairs failed; the others are kept in {folder.parent.name!r})" if failures else ""
        raise type(error)(f"Pair {name!r}: {error}{more}") from error
    order = [name for name in jobs if name in found]
    return summarise(
        described,
        [found[name] for name in order],
        computed=[name for name in order if name not in cached],
        cached=cached,
        failed={name: str(failures[name]) for name in jobs if name in failures},
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Look for no reference cycles meanwhile: in the many plain values of a large study there are none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def results_folder(study: Path) -> Path:
    """Return where the results of a study go unless a person says otherwise: a folder beside its file."""
    return Inside(study.parent, f"{study.stem}-results", "folder of results").path


@dataclass(frozen=True, eq=False)
class Shelf:
    """Where the results of a pair are kept, what is there already, and the job for what is not.

    ``panel`` is what is kept beside references, ``outcome`` the result where it is complete.
    """

    job: Job
    keys: pair_store.Keys
    together: Path
    beside: Path
    panel: PanelPair | None = None
    outcome: PairOutcome | None = None

    @classmethod
    def of(cls, folder: Path, job: Job, keys: pair_store.Keys, *, fresh: bool) -> Shelf:
        """Look for what is kept of a pair; nothing of it is used where everything is to be computed anew."""
        name = file_name(job.pair.name)
        empty = cls(job, keys, folder / f"{name}-{keys.whole}{pair_store.SUFFIX}", folder / f"{name}-{keys.ground}")
        if fresh:
            return empty
        ground, names = pair_store.load_ground(empty.beside), list(keys.methods)
        if ground is None:
            return replace(empty, outcome=pair_store.load(empty.together))
        panel = PanelPair(ground, pair_store.load_methods(empty.beside, keys.methods))
        wanted = frozenset(names) - panel.methods.keys()
        if not wanted:
            return replace(empty, panel=panel, outcome=panel.outcome(job.pair.name, names))
        return replace(empty, panel=panel, job=replace(job, kept=empty.beside, wanted=wanted))

    def put(self, made: PairOutcome | PanelPair) -> PairOutcome:
        """Keep what was computed, and return the result of the pair."""
        if isinstance(made, PairOutcome):
            pair_store.save(made, self.together)
            return made
        if made.model:
            pair_store.save_ground(self.beside, made.ground, made.model)
        pair_store.save_methods(self.beside, made.methods, self.keys.methods)
        before = {} if self.panel is None else self.panel.methods
        whole = replace(made, methods={**before, **made.methods})
        return whole.outcome(self.job.pair.name, list(self.keys.methods))


def _tell(progress: Watcher | None, done: int, jobs: Mapping[str, Job], name: str, cached: bool) -> None:
    if progress is not None:
        progress(Progress(done, len(jobs), name, cached))


def _jobs(study: Study) -> dict[str, Job]:
    learned = None
    plain = [pair for pair in study.pairs if pair.landmarks is not None]
    if study.model.fit == "together" and plain:
        learned = fit_together([load_pair(pair, study.settings) for pair in plain], study.model)
    return {pair.name: Job(study, pair, None if pair.project else learned) for pair in study.pairs}


def _done(work: Callable[[Job], Any], jobs: Mapping[str, Job], executor: Executor) -> Iterator[tuple[str, Any]]:
    """Return what a function makes of every pair, or why it failed, as soon as it is there."""
    # The study is sent to each worker once; a job is a name.
    for one in executor.run(_of_pair, {name: name for name in jobs}, (work, jobs)):
        yield one.id, one.problem if isinstance(one.problem, WarpgaugeError) else one.result()


def _of_pair(shared: tuple[Callable[[Job], Any], Mapping[str, Job]], name: str) -> Any:
    work, jobs = shared
    return work(jobs[name])
