"""A scheduler of its own in other processes: what happens when it dies, and when a worker of another version joins."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import compute_tools
from warpgauge.errors import InvalidInputError, WorkerLostError

pytest.importorskip("distributed", reason="Dask is not installed")
WORKER = """
import sys
if sys.argv[2]:
    import warpgauge._version as version
    version.__version__ = sys.argv[2]
from distributed.cli.dask_worker import main
main(["--scheduler-file", sys.argv[1], "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"])
"""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def started() -> Iterator[Start]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes.append(subprocess.Popen(command, cwd=Path(__file__).parents[1], **quiet))  # type: ignore[call-overload]
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(started: Start, tmp_path: Path) -> tuple[subprocess.Popen[bytes], Path]:
    file = tmp_path / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file", str(file)]
    process = started("-m", "distributed.cli.dask_scheduler", *options)
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.1)
    return process, file


def connected(file: Path) -> Any:
    from warpgauge.compute.cluster import DaskCluster

    return DaskCluster.at(str(file))


def run(cluster: Any, folder: Path, finished: list[int], act: Callable[[], object]) -> None:
    """Run more jobs than can be done, and act once two of them are."""
    for one in cluster.run(compute_tools.slow, {str(n): n for n in range(2000)}, folder):
        finished.append(one.result())
        if len(finished) == 2:
            act()


def test_a_killed_scheduler_is_told_in_a_sentence_with_what_is_kept(
    scheduler: tuple[subprocess.Popen[bytes], Path], started: Start, tmp_path: Path
) -> None:
    process, file = scheduler
    started("-c", WORKER, str(file), "")
    finished: list[int] = []
    with connected(file) as cluster, pytest.raises(WorkerLostError, match=r"scheduler at .* is gone .* is kept"):
        run(cluster, tmp_path, finished, process.kill)
    assert len(finished) >= 2


def test_a_worker_of_another_version_that_joins_later_does_no_job(
    scheduler: tuple[subprocess.Popen[bytes], Path], started: Start, tmp_path: Path
) -> None:
    """The run ends with a sentence, and no job has left a mark by the other process."""
    file = scheduler[1]
    right = started("-c", WORKER, str(file), "")
    with connected(file) as cluster, pytest.raises(InvalidInputError, match=r"has warpgauge 0\.0\.1, but this is"):
        run(cluster, tmp_path, [], lambda: started("-c", WORKER, str(file), "0.0.1"))
    assert {mark.name.split("-")[1] for mark in tmp_path.glob("*-*")} == {str(right.pid)}


def test_a_job_sent_to_another_version_is_not_begun(tmp_path: Path) -> None:
    """Between two looks at the workers: the job itself says which version is meant."""
    from warpgauge.compute.cluster import _call

    with pytest.raises(InvalidInputError, match="install the same version"):
        _call(compute_tools.slow, tmp_path, "a", 1, None, None, "0.0.1")
    assert list(tmp_path.iterdir()) == []
