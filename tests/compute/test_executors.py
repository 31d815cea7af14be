"""Every executor gives the same outcomes: in this process, in processes, and on a Dask cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import compute_tools
from warpgauge.compute import Executor, InProcess, ProcessPool, choose_executor
from warpgauge.errors import InvalidInputError, JobTimeoutError, WorkerLostError


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    with ProcessPool(2) as made:
        yield made


@pytest.fixture(params=["process", "pool", "dask"])
def executor(request: pytest.FixtureRequest) -> Any:
    if request.param == "process":
        return InProcess()
    return request.getfixturevalue("dask_cluster" if request.param == "dask" else "pool")


@pytest.fixture(params=["pool", "dask"])
def apart(request: pytest.FixtureRequest) -> Any:
    """Executors whose workers may die."""
    return request.getfixturevalue("dask_cluster" if request.param == "dask" else "pool")


def outcomes(executor: Executor, folder: Path, *names: str, **options: Any) -> dict[str, Any]:
    return {one.id: one for one in executor.run(compute_tools.odd, {n: n for n in names}, folder, **options)}


def runs(folder: Path, name: str) -> int:
    return len((folder / f"{name}.runs").read_text())


def test_every_job_has_one_outcome(executor: Executor) -> None:
    """Results are those of a plain loop, for more jobs than are handed over at a time."""
    found = [
        (one.id, one.result()) for one in executor.run(compute_tools.multiplied, {str(n): n for n in range(40)}, 7)
    ]
    assert len(found) == 40
    assert dict(found) == {str(n): 7 * n for n in range(40)}


def test_errors_are_outcomes_and_only_what_may_pass_is_retried(executor: Executor, tmp_path: Path) -> None:
    """A refused job and a bug run once and say what happened; a cut connection is tried again; others go on."""
    found = outcomes(executor, tmp_path, "refused", "broken", "cut once", "fine")
    assert isinstance(found["refused"].problem, InvalidInputError)
    assert "The job is refused." in str(found["refused"].problem)
    assert isinstance(found["broken"].problem, KeyError)
    assert found["cut once"].result() == "cut once"
    assert found["fine"].result() == "fine"
    assert [runs(tmp_path, name) for name in ("refused", "broken", "cut once", "fine")] == [1, 1, 2, 1]


def test_a_lost_worker_is_replaced_and_its_job_done_again(apart: Executor, tmp_path: Path) -> None:
    found = outcomes(apart, tmp_path, "one", "lost once", "two", "three")
    assert {name: one.result() for name, one in found.items()} == {n: n for n in ("one", "lost once", "two", "three")}
    assert runs(tmp_path, "lost once") == 2


def test_a_job_that_ends_every_worker_is_given_up_and_the_others_finish(pool: ProcessPool, tmp_path: Path) -> None:
    found = outcomes(pool, tmp_path, "lost always", "one", "two", retries=1)
    assert isinstance(found["lost always"].problem, WorkerLostError)
    assert f"code {-signal.SIGKILL}" in str(found["lost always"].problem)
    assert runs(tmp_path, "lost always") == 2
    assert found["one"].result() == "one"
    assert found["two"].result() == "two"


def test_a_killed_worker_does_not_lose_the_shared_data(dask_cluster: Any, tmp_path: Path) -> None:
    """A worker that is killed from outside midway: every job has its result, in the end."""
    jobs = {str(n): n for n in range(16)}
    found: dict[str, int] = {}
    for one in dask_cluster.run(compute_tools.slow, jobs, tmp_path):
        if len(found) == 2:
            os.kill(dask_cluster.processes()[0], signal.SIGKILL)
        found[one.id] = one.result()
    assert found == jobs
    assert len({file.name.split("-")[1] for file in tmp_path.iterdir()}) >= 2  # more than the one that was killed


def test_a_job_that_takes_too_long_is_ended(apart: Executor, tmp_path: Path) -> None:
    found = outcomes(apart, tmp_path, "hangs", "fine", time_limit=15.0)
    assert isinstance(found["hangs"].problem, JobTimeoutError)
    assert "not finished within 15 s" in str(found["hangs"].problem)
    assert runs(tmp_path, "hangs") == 1
    assert found["fine"].result() == "fine"


def test_each_job_has_one_thread(executor: Executor, tmp_path: Path) -> None:
    """Whatever the machine: results must not depend on how many workers share its processors."""
    assert outcomes(executor, tmp_path, "threads")["threads"].result() == 1


def test_progress_comes_from_the_workers(executor: Executor, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    found = outcomes(executor, tmp_path, "reports", "fine", watch=lambda *told: seen.append(told))
    assert set(found) == {"reports", "fine"}
    assert seen == [("reports", 0.5)]


def test_what_cannot_cross_to_another_process_is_told_in_words(executor: Executor) -> None:
    (found,) = executor.run(compute_tools.raises_unpicklable, {"a": "a"})
    assert "lost in translation" in str(found.problem)


def test_leaving_early_cancels_the_rest(apart: Executor, tmp_path: Path) -> None:
    """As after Ctrl-C: what was not begun is not done, and the executor serves the next call."""
    for _ in apart.run(compute_tools.slow, {str(n): n for n in range(200)}, tmp_path):
        break
    assert len(list(tmp_path.iterdir())) < 100
    assert [one.result() for one in apart.run(compute_tools.multiplied, {"a": 2}, 3)] == [6]


def test_no_jobs_start_nothing(executor: Executor) -> None:
    assert list(executor.run(compute_tools.multiplied, {}, 1)) == []


def test_wrong_choices_are_one_sentence() -> None:
    for options, words in (
        ({"jobs": 0}, "at least 1"),
        ({"cluster": "slurm:4"}, "local:N"),
        ({"cluster": "local:0"}, "local:N"),
        ({"cluster": "local:2", "scheduler": "tcp://127.0.0.1:1"}, "not both"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            choose_executor(**options)
    with pytest.raises(InvalidInputError, match="time limit"):
        list(InProcess().run(compute_tools.multiplied, {"a": 1}, 1, time_limit=1.0))
    with pytest.raises(InvalidInputError, match="whole number"):
        ProcessPool(0)


def test_an_interrupt_of_the_group_does_not_end_dask_workers(dask_cluster: Any) -> None:
    """Ctrl-C reaches every process of the terminal; only the one that the user started may act on it."""
    before = sorted(dask_cluster.processes())
    for process in before:
        os.kill(process, signal.SIGINT)
    found = {one.id: one.result() for one in dask_cluster.run(compute_tools.multiplied, {"a": 2, "b": 3}, 5)}
    assert found == {"a": 10, "b": 15}
    assert sorted(dask_cluster.processes()) == before
