"""Jobs for the tests of executors, importable from the processes that run them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.compute import report_progress
from warpgauge.core.parallel import thread_count
from warpgauge.errors import InvalidInputError


def multiplied(shared: int, job: int) -> int:
    return shared * job


def odd(shared: Path, job: str) -> Any:
    """Do what the job's name says; what is to happen once leaves a mark in the shared folder."""
    with (shared / f"{job}.runs").open("a") as stream:
        stream.write("x")
    first = len((shared / f"{job}.runs").read_text()) == 1
    if job == "refused":
        raise InvalidInputError("The job is refused.")
    if job == "broken":
        raise KeyError("a bug")
    if job == "lost once" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "lost always":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "cut once" and first:
        raise ConnectionResetError("the connection was cut")
    if job == "hangs":
        time.sleep(600)
    if job == "threads":
        return thread_count()
    if job == "reports":
        report_progress(0.5)
    return job


class Unpicklable(Exception):  # noqa: N818
    """An exception as foreign libraries have them: it cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def raises_unpicklable(shared: None, job: str) -> None:
    raise Unpicklable("lost in", "translation")


def slow(shared: Path, job: int) -> int:
    """Leave a mark, and wait, so that a worker can be killed meanwhile."""
    (shared / f"{job}-{os.getpid()}").touch()
    time.sleep(0.3)
    return job


def swirled(points: Any) -> Any:
    """A transform that is undefined in one corner."""
    mapped = points + 0.7 * np.sin(points[:, ::-1] / 9)
    mapped[points[:, 0] < 4] = np.nan
    return mapped


def open_swirled() -> Any:
    """Return the transform, as a worker opens one."""
    return swirled
