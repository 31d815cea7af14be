"""What an experiment is (a plan of small runs, a function that computes one, a report on all of them), and running one.

Runs are computed in parallel; each result is stored at once and does not depend on the number of jobs.
``OUT/runs/NAME/KEY.json`` holds one run's result with a fingerprint of its parameters, the data and the program;
``OUT/NAME.json`` the numbers and sentences, ``OUT/NAME-*.png`` and ``.svg`` the figures.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import warpgauge as wg
from warpgauge import jobs as work
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io import content_hash, plain, replace_text
from warpgauge.maps import save_picture


@dataclass(frozen=True)
class Run:
    """One unit of work of a few seconds, which depends on nothing but its parameters and the data.

    The ``key`` is unique in the experiment and safe as a file name. ``parameters`` are what JSON can hold; a
    ``"dataset"`` among them lets ``--dataset`` choose runs.
    """

    key: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Findings:
    """Combined findings of all runs: numbers as JSON can hold them, matplotlib figures by file stem, and sentences."""

    numbers: dict[str, Any]
    figures: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)


Result = tuple[Run, dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """A study as a command: what to run, how to run one, and how to sum up.

    ``default_runs`` are those of a dataset at full size. ``plan(data, runs, seed, quick)`` gives all runs.
    ``compute(data, run)`` gives what JSON can hold; it is deterministic, and a function of a module, so that other
    processes find it. ``report`` gets runs and results in the order of the plan. ``needs`` are the folders of the data
    directory that it reads.
    """

    name: str
    summary: str
    default_runs: int
    plan: Callable[[Path, int, int, bool], list[Run]]
    compute: Callable[[Path, Run], dict[str, Any]]
    report: Callable[[Sequence[Result]], Findings]
    needs: tuple[str, ...] = ()


Watcher = Callable[[int, int], None]
Compute = Callable[[Path, Run], dict[str, Any]]

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_NUMERICAL = ("candidates", "core", "evaluation", "maps", "registration", "simulate")
_LIBRARIES = ("numpy", "scipy", "numba", "matplotlib")


def run_experiment(
    experiment: Experiment,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    runs: int | None = None,
    jobs: int = 1,
    fresh: bool = False,
    seed: int = 0,
    quick: bool = False,
    datasets: Sequence[str] = (),
    progress: Watcher | None = None,
) -> Findings:
    """Run an experiment, or finish one that was interrupted, and write what it found into ``out``.

    The same seed gives the same files, whatever ``jobs`` is. These processes are spawned, so that a script has to start
    its work under ``if __name__ == "__main__":``. ``progress`` is called with the number of runs done and of all runs.
    When runs fail, the error of the first of them is raised, and the others' results are kept for the next call.
    """
    _check(runs, jobs, seed)
    folder = _checked_data(experiment, Path(data))
    place = _made(Path(out) / "runs" / experiment.name)
    count = experiment.default_runs if runs is None else runs
    planned = _chosen(experiment, experiment.plan(folder, count, seed, quick), datasets)
    hashes = {name: content_hash(folder / name) for name in experiment.needs}
    prints = {run.key: fingerprint(experiment.name, run, hashes) for run in planned}
    stored = {} if fresh else {run.key: kept_result(place, run, prints[run.key]) for run in planned}
    found = {key: kept for key, kept in stored.items() if kept is not None}
    if progress is not None:
        progress(len(found), len(planned))
    left = {run.key: run for run in planned if run.key not in found}
    failures: list[tuple[str, WarpgaugeError]] = []
    for done in work.run(_timed, left, (experiment.compute, folder.resolve()), workers=jobs):
        if isinstance(done.problem, WarpgaugeError):
            failures.append((done.name, done.problem))
            continue
        result, seconds = done.result()
        keep(place, left[done.name], prints[done.name], result, seconds)
        found[done.name] = result
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


def _timed(shared: tuple[Compute, Path], run: Run) -> tuple[dict[str, Any], float]:
    """Compute one run: its result as it would come back from its file, and the processor time that it took."""
    compute, data = shared
    started = time.process_time()
    result = json.loads(as_text(compute(data, run)))
    return result, time.process_time() - started


def _write(name: str, out: Path, about: dict[str, Any], findings: Findings, hashes: dict[str, str]) -> None:
    versions = {"warpgauge": wg.__version__, **{library: metadata.version(library) for library in _LIBRARIES}}
    content = {**about, "versions": versions, "data": hashes, "sentences": findings.sentences}
    try:
        for stem, figure in findings.figures.items():
            for suffix in ("png", "svg"):
                save_picture(figure, out / f"{name}-{stem}.{suffix}", dpi=110)
        replace_text(out / f"{name}.json", as_text({**content, "numbers": findings.numbers}))
    except OSError as error:
        raise InvalidInputError(f"The findings cannot be written into {str(out)!r}: {error}.") from error


def as_text(value: Any) -> str:
    """Return JSON text with numbers at full precision."""
    return json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


@cache
def code_hash() -> str:
    """Return a hash of the sources that results depend on: the numbers, not the page or the command line."""
    digest = hashlib.sha256()
    product = Path(wg.__file__).parent
    for folder in (*(product / package for package in _NUMERICAL), Path(__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def fingerprint(experiment: str, run: Run, hashes: Mapping[str, str]) -> str:
    """Return a hash of the run's parameters, the data, the version of the program and the code behind its numbers."""
    known = [experiment, run.key, plain(run.parameters), wg.__version__, code_hash(), dict(hashes)]
    return "sha256:" + hashlib.sha256(json.dumps(known, sort_keys=True, allow_nan=False).encode()).hexdigest()


def keep(place: Path, run: Run, mark: str, result: dict[str, Any], seconds: float) -> None:
    """Store a result, whole or not at all."""
    record = {"fingerprint": mark, "parameters": run.parameters, "seconds": seconds, "result": result}
    replace_text(place / f"{run.key}.json", as_text(record))


def kept_result(place: Path, run: Run, mark: str) -> dict[str, Any] | None:
    """Return the stored result of a run if it was made from the same parameters and data by the same code."""
    try:
        record = json.loads((place / f"{run.key}.json").read_text())
        result = record["result"] if record["fingerprint"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if isinstance(result, dict) else None


def compute_seconds(out: str | os.PathLike[str], name: str) -> float:
    """Return the processor time, in seconds, that the kept runs of an experiment took together."""
    files = sorted((Path(out) / "runs" / name).glob("*.json"))
    return float(sum(json.loads(file.read_text())["seconds"] for file in files))
