"""Several processes that serve one project on one port, and the process that starts, watches and ends them.

Each worker opens the project for itself and takes connections from the socket that all of them share. One that dies is
started again; an answer that it had acknowledged is in the log.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess  # nosec B404  # starts this program again
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any

from warpgauge.errors import InvalidInputError, WarpgaugeError

MOST_WORKERS = 64
_STOP_SECONDS = 10.0
_YOUNG_SECONDS, _MOST_FAILURES = 10.0, 3


@dataclass(frozen=True)
class WorkerTask:
    """What a worker needs to serve a project; handed over through its standard input, as it holds a secret.

    Attributes
    ----------
    folder : str
        Of the project, or of many.
    many : bool
    descriptor : int
        Of the listening socket.
    tokens : dict
        Secrets of this launch, and whose they are.
    url : str
    settings : dict
        Fields of the server's settings.
    """

    folder: str
    many: bool = False
    descriptor: int = -1
    tokens: dict[str, str] = field(default_factory=dict)
    url: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


def check_workers(count: int) -> None:
    """Refuse an impossible number of workers."""
    if not 1 <= count <= MOST_WORKERS:
        raise InvalidInputError(f"The number of workers must be 1 to {MOST_WORKERS}, got {count}.")
    if count > 1 and os.name != "posix":
        raise InvalidInputError("Several workers need Linux or macOS; serve with one here.")


class Workers:
    """The workers of a server, on one listening socket; ``echo`` prints a line for people."""

    def __init__(self, task: WorkerTask, listening: socket.socket, count: int, echo: Callable[[str], object]) -> None:
        self._task, self._socket, self._echo = task, listening, echo
        self._over = threading.Event()
        self._running: list[tuple[subprocess.Popen[str], float]] = []
        self._count, self._failures = count, 0
        self._environment = dict(os.environ)
        counts = task.settings["metrics_port"] is not None
        self._figures = tempfile.mkdtemp(prefix="warpgauge-metrics-") if counts else None
        if self._figures is not None:
            self._environment["PROMETHEUS_MULTIPROC_DIR"] = os.environ["PROMETHEUS_MULTIPROC_DIR"] = self._figures

    def run(self) -> None:
        """Serve until interrupted; a worker that dies is started again."""
        with self._signals():
            try:
                self._running = [self._start() for _ in range(self._count)]
                while not self._over.wait(0.1):
                    self._running = [self._watched(*one) for one in self._running]
            finally:
                self._end()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._over.set()

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid for process, _ in self._running]

    def _start(self) -> tuple[subprocess.Popen[str], float]:
        process = subprocess.Popen(  # nosec B603  # this program's own interpreter and module
            [sys.executable, "-c", "from warpgauge.web.server import work; work()"],
            stdin=subprocess.PIPE,
            pass_fds=[self._task.descriptor],
            env=self._environment,
            text=True,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once, which the next check will notice
            process.stdin.write(json.dumps(asdict(self._task)) + "\n")
            process.stdin.flush()
        return process, time.monotonic()

    def _watched(self, process: subprocess.Popen[str], since: float) -> tuple[subprocess.Popen[str], float]:
        code = process.poll()
        if code is None or self._over.is_set():
            return process, since
        _close(process)
        young = time.monotonic() - since < _YOUNG_SECONDS
        self._failures = self._failures + 1 if young else 1
        if self._failures > _MOST_FAILURES:
            raise WarpgaugeError(
                f"The workers of the server end soon after they start (exit code {code}); what they said above tells "
                f"why. Everything acknowledged is saved."
            )
        self._echo(f"Worker {process.pid} ended (exit code {code}) and is started again.")
        if young:
            self._over.wait(1.0)
        return self._start()

    def _end(self) -> None:
        """End all workers in good order; those that do not end are killed."""
        for process, _ in self._running:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process, _ in self._running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close(process)
        self._socket.close()
        if self._figures is not None:
            shutil.rmtree(self._figures, ignore_errors=True)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: FrameType | None) -> None:
            self._over.set()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _close(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
