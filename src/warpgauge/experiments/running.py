"""Running an experiment in parallel; each result is stored at once and does not depend on the number of jobs.

``OUT/runs/NAME/KEY.json`` holds one run's result with a fingerprint of its parameters, the data and the program;
``OUT/NAME.json`` the numbers and sentences, ``OUT/NAME-*.png`` and ``.svg`` the figures.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from warpgauge._version import __version__
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.experiments.experiment import Experiment, Findings, Run
from warpgauge.experiments.result_cache import as_text, fingerprint, keep, kept_result
from warpgauge.io.files import content_hash, one_line
from warpgauge.maps.pictures import save_picture
from warpgauge.report.files import replace_text

Watcher = Callable[[int, int], None]
Compute = Callable[[Path, Run], dict[str, Any]]

# One thread a process: processes are what is run side by side, and sums of one thread have one order.
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS",
    "WARPGAUGE_THREADS",
)
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_LIBRARIES = ("numpy", "scipy", "numba", "matplotlib")


def run_experiment(
    experiment: Experiment,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    runs: int | None = None,
    jobs: int = 1,
    seed: int = 0,
    quick: bool = False,
    datasets: Sequence[str] = (),
    progress: Watcher | None = None,
) -> Findings:
    """Run an experiment, or finish one that was interrupted, and write what it found.

    Parameters
    ----------
    experiment : Experiment
        What to do.
    data : path
        The data directory, with the folders that the experiment needs.
    out : path
        Folder for results and figures, made where it is not there.
    runs : int, optional
        Runs a dataset; the experiment's own number by default.
    jobs : int
        Processes. They are spawned, so that a script has to start its work under ``if __name__ == "__main__":``.
    seed : int
        The same seed gives the same files, whatever ``jobs`` is.
    quick : bool
        A small version, to try it.
    datasets : sequence of str
        Only the runs on these datasets.
    progress : callable, optional
        Called with the number of runs done and of all runs.

    Raises
    ------
    WarpgaugeError
        When runs failed: of the first of them. The others' results are kept for the next call.
    """
    _check(runs, jobs, seed)
    folder = _checked_data(experiment, Path(data))
    place = _made(Path(out) / "runs" / experiment.name)
    count = experiment.default_runs if runs is None else runs
    planned = _chosen(experiment, experiment.plan(folder, count, seed, quick), datasets)
    hashes = {name: content_hash(folder / name) for name in experiment.needs}
    prints = {run.key: fingerprint(experiment.name, run, hashes) for run in planned}
    found = {run.key: kept for run in planned if (kept := kept_result(place, run, prints[run.key])) is not None}
    if progress is not None:
        progress(len(found), len(planned))
    failures: list[tuple[str, WarpgaugeError]] = []
    for run, outcome in _computed(experiment, folder, [run for run in planned if run.key not in found], jobs):
        if isinstance(outcome, WarpgaugeError):
            failures.append((run.key, outcome))
            continue
        result, seconds = outcome
        keep(place, run, prints[run.key], result, seconds)
        found[run.key] = result
        if progress is not None:
            progress(len(found), len(planned))
    if failures:
        key, error = failures[0]
        more = f" ({len(failures)} runs failed; the others are kept)" if failures[1:] else ""
        raise type(error)(f"Run {key!r}: {error}{more}") from error
    findings = experiment.report([(run, found[run.key]) for run in planned])
    about = {"experiment": experiment.name, "seed": seed, "runs": count, "quick": quick, "datasets": list(datasets)}
    _write(experiment.name, Path(out), about, findings, hashes)
    return findings


def _check(runs: int | None, jobs: int, seed: int) -> None:
    for name, value, least in (("runs", 1 if runs is None else runs, 1), ("jobs", jobs, 1), ("seed", seed, 0)):
        if int(value) != value or value < least:
            raise InvalidInputError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def _checked_data(experiment: Experiment, data: Path) -> Path:
    for name in experiment.needs:
        if not (data / name).is_dir():
            raise InvalidInputError(
                f"The experiment {experiment.name!r} reads the folder {name!r} of the data directory, which "
                f"{str(data)!r} does not have; point --data to the directory that holds it."
            )
    return data


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InvalidInputError(
            f"Results cannot be written into {str(folder)!r}: {error.strerror or error}; choose another --out."
        ) from error
    return folder


def _chosen(experiment: Experiment, planned: list[Run], datasets: Sequence[str]) -> list[Run]:
    keys = [run.key for run in planned]
    if len(set(keys)) < len(keys) or not all(_KEY.fullmatch(key) for key in keys):
        raise InvalidInputError(f"The runs of {experiment.name!r} need distinct keys that are safe as file names.")
    known = list(dict.fromkeys(str(run.parameters["dataset"]) for run in planned if "dataset" in run.parameters))
    if unknown := [name for name in datasets if name not in known]:
        raise InvalidInputError(
            f"The experiment {experiment.name!r} has no dataset {unknown[0]!r}; it has {', '.join(known) or 'none'}."
        )
    return [run for run in planned if not datasets or run.parameters.get("dataset") in datasets]


Outcome = tuple[dict[str, Any], float] | WarpgaugeError


def _timed(compute: Compute, data: Path, run: Run) -> tuple[dict[str, Any], float]:
    """Compute one run: its result as it would come back from its file, and the processor time that it took."""
    started = time.process_time()
    result = json.loads(as_text(compute(data, run)))
    return result, time.process_time() - started


def _computed(experiment: Experiment, data: Path, runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Outcome]]:
    """Return every run's result, or why it failed, as soon as it is there."""
    if not runs:
        return
    if jobs == 1 and all(os.environ.get(name) == "1" for name in _THREADS[:2]):
        for run in runs:
            try:
                yield run, _timed(experiment.compute, data, run)
            except WarpgaugeError as error:
                yield run, error
        return
    with _one_thread_each(), ProcessPoolExecutor(
        min(jobs, len(runs)), mp_context=multiprocessing.get_context("spawn")
    ) as pool:  # fmt: skip
        running: dict[Future[tuple[dict[str, Any], float]], Run] = {
            pool.submit(_timed, experiment.compute, data, run): run for run in runs
        }
        try:
            for future in as_completed(running):
                problem = future.exception()
                yield running[future], problem if isinstance(problem, WarpgaugeError) else future.result()
        finally:
            for future in running:
                future.cancel()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread each."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _write(name: str, out: Path, about: dict[str, Any], findings: Findings, hashes: dict[str, str]) -> None:
    versions = {"warpgauge": __version__, **{library: metadata.version(library) for library in _LIBRARIES}}
    content = {**about, "versions": versions, "data": hashes, "sentences": findings.sentences}
    try:
        for stem, figure in findings.figures.items():
            for suffix in ("png", "svg"):
                save_picture(figure, out / f"{name}-{stem}.{suffix}", dpi=110)
        replace_text(out / f"{name}.json", as_text({**content, "numbers": findings.numbers}))
    except OSError as error:
        raise InvalidInputError(f"The findings cannot be written into {str(out)!r}: {one_line(error)}.") from error
