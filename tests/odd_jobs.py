"""Jobs that go wrong in every way, importable from the processes that run them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from warpgauge.core.parallel import thread_count
from warpgauge.errors import InvalidInputError


class Unpicklable(Exception):  # noqa: N818
    """An exception as foreign libraries have them: it cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def odd(folder: Path, job: str) -> Any:
    """Do what the job's name says; every run leaves a mark in the folder."""
    with (folder / f"{job}.runs").open("a") as stream:
        stream.write("x")
    first = len((folder / f"{job}.runs").read_text()) == 1
    if job == "refused":
        raise InvalidInputError("The job is refused.")
    if job == "broken":
        raise KeyError("a bug")
    if job == "lost in translation":
        raise Unpicklable("lost in", "translation")
    if job == "killed always" or (job == "killed once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "threads":
        return thread_count()
    return job


def slow(folder: Path, job: int) -> int:
    """Leave a mark, and wait, so that a worker can be killed meanwhile."""
    (folder / f"{job}-{os.getpid()}").touch()
    time.sleep(0.3)
    return job
