"""What runs in a worker of a Dask cluster: its set-up, and one job in a process of its own with a time limit.

Workers of Dask may not start processes of `multiprocessing`, so that an isolated job is a plain subprocess: ``python -m
warpgauge.compute.worker TASK OUTCOME BEGUN``, three files of this machine.
"""

from __future__ import annotations

import os
import pickle  # nosec B403  # only what this program wrote itself
import signal
import subprocess  # nosec B404  # the interpreter itself
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from warpgauge.compute.executor import ONE_THREAD, Outcome, Work, attempt, portable, too_late
from warpgauge.errors import WorkerLostError

_LOOK = 0.05  # seconds between two looks at the process


def run_isolated(work: Work[Any], shared: Any, name: str, job: Any, time_limit: float) -> Outcome[Any]:
    """Return the outcome of a job that may crash or hang."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    with tempfile.TemporaryDirectory(prefix="warpgauge-job-") as folder:
        task, found, begun = (Path(folder) / part for part in ("task", "outcome", "begun"))
        task.write_bytes(pickle.dumps((work, shared, name, job)))
        command = [sys.executable, "-m", "warpgauge.compute.worker", *map(str, (task, found, begun))]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)  # nosec B603  # no shell
        try:
            seconds = _waited(process, begun, time_limit)
        finally:
            process.kill()
            code = process.wait()
        if seconds > time_limit:
            return too_late(name, seconds, time_limit)
        if not found.is_file():
            problem = WorkerLostError(f"the process ended with code {code} and no result")
            return Outcome(name, None, problem, seconds)
        outcome: Outcome[Any] = pickle.loads(found.read_bytes())  # nosec B301  # written by the process above
        return Outcome(name, outcome.value, outcome.problem, seconds)


def _waited(process: subprocess.Popen[bytes], begun: Path, time_limit: float) -> float:
    """Wait until a process has ended or its job takes too long; return the seconds since it began the job."""
    started: float | None = None
    while process.poll() is None:
        time.sleep(_LOOK)
        if started is None and begun.exists():  # what the process needs to start does not count
            started = time.monotonic()
        if started is not None and time.monotonic() - started > time_limit:
            break
    return 0.0 if started is None else time.monotonic() - started


def _main(task: Path, found: Path, begun: Path) -> None:
    work, shared, name, job = pickle.loads(task.read_bytes())  # nosec B301  # written by the process that started this
    begun.touch()
    outcome = portable(attempt(work, shared, name, job))
    aside = found.with_name("unfinished")
    aside.write_bytes(pickle.dumps(outcome))
    aside.replace(found)


def dask_setup(worker: Any) -> None:
    """Ignore interrupts: Ctrl-C reaches the whole group, and its owner decides. Dask calls this in the main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    _main(*map(Path, sys.argv[1:]))
