"""One job in a process of its own with a time limit, started from a worker of a cluster.

Workers of Dask may not start processes of `multiprocessing`, so that this is a plain subprocess:
``python -m warpgauge.compute.isolated TASK OUTCOME``, two files of this machine.
"""

from __future__ import annotations

import os
import pickle  # nosec B403  # only what this program wrote itself
import subprocess  # nosec B404  # the interpreter itself
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from warpgauge.compute.executor import Outcome, Work, attempt, portable, too_late
from warpgauge.compute.threads import ONE_THREAD
from warpgauge.errors import WorkerLostError


def run_isolated(work: Work[Any], shared: Any, name: str, job: Any, time_limit: float) -> Outcome[Any]:
    """Return the outcome of a job that may crash or hang."""
    started = time.monotonic()
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    with tempfile.TemporaryDirectory(prefix="warpgauge-job-") as folder:
        task, found = Path(folder) / "task", Path(folder) / "outcome"
        task.write_bytes(pickle.dumps((work, shared, name, job)))
        command = [sys.executable, "-m", "warpgauge.compute.isolated", str(task), str(found)]
        try:
            ended = subprocess.run(  # nosec B603  # no shell, and no text from outside
                command, env=environment, timeout=time_limit, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return too_late(name, time.monotonic() - started, time_limit)
        seconds = time.monotonic() - started
        if not found.is_file():
            problem = WorkerLostError(f"the process ended with code {ended.returncode} and no result")
            return Outcome(name, None, problem, seconds)
        outcome: Outcome[Any] = pickle.loads(found.read_bytes())  # nosec B301  # written by the process above
        return Outcome(name, outcome.value, outcome.problem, seconds)


def _main(task: Path, found: Path) -> None:
    work, shared, name, job = pickle.loads(task.read_bytes())  # nosec B301  # written by the process that started this
    outcome = portable(attempt(work, shared, name, job))
    aside = found.with_name("unfinished")
    aside.write_bytes(pickle.dumps(outcome))
    aside.replace(found)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
