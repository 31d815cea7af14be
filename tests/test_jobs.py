"""Jobs have the same outcomes in this process, in processes, and on the workers of a Dask scheduler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import odd_jobs
from command_tools import ask, call
from study_tools import make_study
from warpgauge import jobs
from warpgauge.errors import InvalidInputError, WorkerLostError

TESTS = Path(__file__).parent
WORKER = """
import sys
import warpgauge._version
options = ["--scheduler-file", sys.argv[1], "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
if sys.argv[2]:
    warpgauge._version.__version__ = sys.argv[2]
    options.append("--no-nanny")  # which would start a process of its own, with the version that is installed
from distributed.cli.dask_worker import main
main(options)
"""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def started() -> Iterator[Start]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, *arguments]
        quiet = subprocess.DEVNULL
        processes.append(subprocess.Popen(command, cwd=TESTS, stdout=quiet, stderr=quiet, start_new_session=True))
        return processes[-1]

    yield start
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def scheduler_at(started: Start, file: Path) -> subprocess.Popen[bytes]:
    pytest.importorskip("distributed", reason="Dask is not installed")
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file", str(file)]
    process = started("-m", "distributed.cli.dask_scheduler", *options)
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.1)
    return process


@pytest.fixture(scope="module")
def scheduler(started: Start, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A scheduler with two workers, each below a nanny that replaces it when it dies."""
    file = tmp_path_factory.mktemp("dask") / "scheduler.json"
    scheduler_at(started, file)
    for _ in range(2):
        started("-c", WORKER, str(file), "")
    return str(file)


@pytest.fixture(params=["here", "processes", "dask"])
def where(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "dask":
        return {"scheduler": request.getfixturevalue("scheduler")}
    return {"workers": 1 if request.param == "here" else 2}


def outcomes(folder: Path, *names: str, **where: Any) -> dict[str, jobs.Done]:
    return {done.name: done for done in jobs.run(odd_jobs.odd, {n: n for n in names}, folder, **where)}


def test_every_job_has_one_outcome_and_one_thread(where: dict[str, Any], tmp_path: Path) -> None:
    """More jobs than are handed over at a time; errors are outcomes, said in words where they cannot travel."""
    names = ["refused", "broken", "lost in translation", "threads", *(str(n) for n in range(12))]
    found = outcomes(tmp_path, *names, **where)
    assert set(found) == set(names)
    assert isinstance(found["refused"].problem, InvalidInputError)
    assert "The job is refused." in str(found["refused"].problem)
    assert isinstance(found["broken"].problem, KeyError)
    assert "lost in translation" in str(found["lost in translation"].problem)
    assert found["threads"].result() == 1
    assert [found[str(n)].result() for n in range(12)] == [str(n) for n in range(12)]
    assert all(len(file.read_text()) == 1 for file in tmp_path.glob("*.runs"))


@pytest.mark.parametrize("first", ["one", "killed always"])
def test_a_killed_job_runs_again_alone_and_is_named_if_it_kills_again(first: str, tmp_path: Path) -> None:
    """Also where another one had ended the pool before it began."""
    names = list(dict.fromkeys([first, "killed once", "two", "killed always", "one", "four"]))
    found = outcomes(tmp_path, *names, workers=2)
    assert {name for name, done in found.items() if done.problem is not None} == {"killed always"}
    assert isinstance(found["killed always"].problem, WorkerLostError)
    assert len((tmp_path / "killed once.runs").read_text()) == 2


def test_leaving_early_ends_the_workers(tmp_path: Path) -> None:
    """As after Ctrl-C: what was not begun is not done, and no process is left behind."""
    for _ in jobs.run(odd_jobs.slow, {str(n): n for n in range(200)}, tmp_path, workers=2):
        break
    marks = list(tmp_path.iterdir())
    assert len(marks) < 20
    for process in {int(mark.name.split("-")[1]) for mark in marks}:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_no_jobs_start_nothing_and_wrong_numbers_are_refused() -> None:
    assert list(jobs.run(odd_jobs.odd, {}, None, scheduler="tcp://127.0.0.1:1")) == []
    for workers in (0, 1.5):
        with pytest.raises(InvalidInputError, match="whole number"):
            list(jobs.run(odd_jobs.odd, {"a": "a"}, None, workers=workers))  # type: ignore[arg-type]
    pytest.importorskip("distributed", reason="Dask is not installed")
    with pytest.raises(InvalidInputError, match="There is no Dask scheduler at"):
        list(jobs.run(odd_jobs.odd, {"a": "a"}, None, scheduler="nowhere"))


def test_a_scheduler_gets_jobs_one_by_one(scheduler: str, tmp_path: Path) -> None:
    """It never holds more than its workers need next, so that a worker that joins late gets its share."""
    done = jobs.run(odd_jobs.slow, {str(n): n for n in range(200)}, tmp_path, scheduler=scheduler)
    next(done)
    from distributed import Client

    with Client(scheduler_file=scheduler, set_as_default=False) as client:
        held = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    done.close()  # type: ignore[attr-defined]
    assert held < 20


def test_a_benchmark_on_a_scheduler_survives_a_killed_worker(scheduler: str, tmp_path: Path) -> None:
    """A worker dies while jobs run; then ``benchmark --scheduler`` gives the numbers of this process to the bit."""
    found = {}
    for done in jobs.run(odd_jobs.slow, {str(n): n for n in range(12)}, tmp_path, scheduler=scheduler):
        if not found:
            os.kill(int(next(tmp_path.glob("*-*")).name.split("-")[1]), signal.SIGKILL)
        found[done.name] = done.result()
    assert found == {str(n): n for n in range(12)}
    study = make_study(tmp_path, pairs=2)
    here = ask("benchmark", study, "--out", tmp_path / "here")
    there = ask("benchmark", study, "--out", tmp_path / "there", "--scheduler", scheduler)
    assert json.dumps(there) == json.dumps(here)


def test_a_worker_of_another_version_does_no_job(started: Start, tmp_path: Path) -> None:
    """Also one that joins late; then a scheduler that is gone is one sentence."""
    file = tmp_path / "scheduler.json"
    process = scheduler_at(started, file)
    right = started("-c", WORKER, str(file), "")
    done = jobs.run(odd_jobs.slow, {str(n): n for n in range(2000)}, tmp_path, scheduler=str(file))
    assert next(done).problem is None
    started("-c", WORKER, str(file), "0.0.1")
    with pytest.raises(InvalidInputError, match=r"has warpgauge 0\.0\.1, but this is"):
        list(done)
    assert len({mark.name.split("-")[1] for mark in tmp_path.glob("*-*")}) == 1
    process.kill()
    right.kill()
    study = make_study(tmp_path, pairs=1)
    assert "There is no Dask scheduler at" in call("benchmark", study, "--scheduler", file, code=1)
