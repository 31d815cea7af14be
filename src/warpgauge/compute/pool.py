"""Processes of this machine that run one job after the other; a crash or a hang affects one job only."""

from __future__ import annotations

import atexit
import multiprocessing
import pickle  # nosec B403  # only what this program wrote itself, for its own workers
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any
from weakref import WeakSet

from warpgauge.compute.executor import (
    Channel,
    Executor,
    Outcome,
    Watcher,
    Work,
    attempt,
    environment_of_workers,
    portable,
    too_late,
)
from warpgauge.errors import InvalidInputError, WorkerLostError

_GOODBYE = 10.0  # seconds for a process to end by itself
_BEGUN = "begun"  # what a process says when it has read a job
_LOOK = 0.5  # seconds between two looks at the time limit
_living: WeakSet[_Worker] = WeakSet()


class ProcessPool(Executor):
    """Runs jobs in processes of this machine.

    Processes are spawned, so that a script has to start its work under ``if __name__ == "__main__":``. They are started
    when they are needed and serve until the pool is closed; one that ended (a crash, a lack of memory) or was ended by
    the time limit is replaced.

    Parameters
    ----------
    workers : int
        Processes at a time.
    """

    def __init__(self, workers: int) -> None:
        if int(workers) != workers or workers < 1:
            raise InvalidInputError(f"A pool needs a whole number of at least 1 worker, got {workers!r}.")
        self._count = int(workers)
        self._all: list[_Worker] = []

    @property
    def workers(self) -> int:
        """Processes at a time."""
        return self._count

    @contextmanager
    def _opened(
        self, work: Work[Any], shared: Any, time_limit: float | None, watch: Watcher | None
    ) -> Iterator[Channel]:
        processes = _Processes(self._all, self._count, pickle.dumps((work, shared)), time_limit, watch)
        try:
            yield processes
        finally:
            processes.cancel()

    def close(self) -> None:
        """End the processes."""
        for one in self._all:
            one.leave()
        for one in self._all:
            one.dismiss()
        self._all.clear()


class _Processes:
    """The processes of a pool during one call of `run`."""

    def __init__(
        self, workers: list[_Worker], count: int, task: bytes, time_limit: float | None, watch: Watcher | None
    ) -> None:
        self._all, self._count, self._task, self._limit, self._watch = workers, count, task, time_limit, watch

    @property
    def free(self) -> bool:
        return len(self._all) < self._count or any(one.name is None for one in self._all)

    @property
    def busy(self) -> bool:
        return any(one.name is not None for one in self._all)

    def begin(self, name: str, job: Any) -> None:
        idle = next((one for one in self._all if one.name is None), None)
        if idle is None:
            idle = _Worker()
            self._all.append(idle)
        idle.begin(self._task, name, job)

    def outcomes(self) -> list[Outcome[Any]]:
        wait([one.connection for one in self._all if one.name is not None], timeout=_LOOK)
        found = [one.outcome(self._limit, self._watch) for one in self._all]
        self._all[:] = [one for one in self._all if one.usable]
        return [one for one in found if one is not None]

    def cancel(self) -> None:
        """End the processes that are still at work."""
        for one in self._all:
            if one.name is not None:
                one.end()
        self._all[:] = [one for one in self._all if one.usable]


class _Worker:
    """A process and the job that it has at hand.

    After a crash or a forced end it is no longer ``usable``, and another one has to take its place. After an
    exception it goes on.
    """

    def __init__(self) -> None:
        self.usable = True
        self._task: bytes | None = None
        self.name: str | None = None
        self._started: float | None = None
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,))  # a job may have its own
        with environment_of_workers():
            self._process.start()
        _living.add(self)
        theirs.close()  # so that a crash is seen as the end of the connection

    def begin(self, task: bytes, name: str, job: Any) -> None:
        """Hand over a job, and the task where it is another one than before."""
        self.name, self._started = name, None
        with suppress(OSError):  # a process that has died since is found by `outcome`
            if task is not self._task:
                self.connection.send(task)
                self._task = task
            self.connection.send((name, job))

    def outcome(self, time_limit: float | None, watch: Watcher | None) -> Outcome[Any] | None:
        """Return the outcome of the job at hand, ended here if it took too long; None while it runs."""
        name = self.name
        if name is None:
            return None
        while self.connection.poll():
            try:
                told = self.connection.recv()
            except (EOFError, OSError):
                return self._lost(name)
            if isinstance(told, Outcome):
                self.name = None
                return told
            if told == _BEGUN:
                self._started = time.monotonic()
            elif watch is not None:
                watch(name, told)
        if time_limit is None or self._seconds() <= time_limit:
            return None
        self.end()
        return too_late(name, self._seconds(), time_limit)

    def _seconds(self) -> float:
        """Return the time since the process began the job: what it takes to start does not count."""
        return 0.0 if self._started is None else time.monotonic() - self._started

    def _lost(self, name: str) -> Outcome[Any]:
        self._process.join()
        code = self._process.exitcode
        self.end()
        problem = WorkerLostError(f"the process ended with code {code} and no result")
        return Outcome(name, None, problem, self._seconds())

    def leave(self) -> None:
        """Let an idle process end by itself; end one that has a job at hand."""
        if self.name is None:
            self.connection.close()  # which ends the process
        else:
            self.end()

    def dismiss(self) -> None:
        """Wait for the process to end by itself, so that it releases its resources; else end it."""
        if self.usable:
            self._process.join(_GOODBYE)
        self.end()

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.usable, self.name = False, None
        self._process.kill()
        self._process.join()
        self.connection.close()


@atexit.register
def _end_all() -> None:
    """End what an interrupted run left, so that the interpreter does not wait for it."""
    for one in list(_living):
        one.end()


def _serve(connection: Connection) -> None:
    """Run jobs from the connection until it is closed; called in the new process.

    Bytes are a task, to which the jobs after it belong.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the owner decides what ends
    work: Any = None
    shared: Any = None
    while True:
        try:
            told = connection.recv()
            if isinstance(told, bytes):
                work, shared = pickle.loads(told)  # nosec B301  # from the process that started this one
                continue
            name, job = told
            connection.send(_BEGUN)
            connection.send(portable(attempt(work, shared, name, job, connection.send)))
        except (EOFError, BrokenPipeError):
            return
