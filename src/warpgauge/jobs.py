"""Independent jobs, in this process, in processes of this machine, or on the workers of a Dask scheduler.

Every job runs with one thread, so that its result does not depend on how many run beside it.
"""

from __future__ import annotations

import os
import pickle  # nosec B403  # of our own jobs only
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for
from typing import Any

from warpgauge._version import __version__
from warpgauge.core.parallel import one_blas_thread, only_one_thread
from warpgauge.errors import InvalidInputError, MissingExtraError, WorkerLostError, install_advice

Work = Callable[[Any, Any], Any]

AHEAD = 2  # jobs handed over per worker: the next is there when one ends
_CONNECT = 20.0  # seconds to reach a scheduler
_FIRST_WORKER = 600.0  # seconds until a queue has started its first worker


@dataclass(frozen=True)
class Done:
    """A job that has ended: its name, and what it returned or what it raised."""

    name: str
    value: Any = None
    problem: Exception | None = None

    def result(self) -> Any:
        """Return the value, or raise the problem."""
        if self.problem is not None:
            raise self.problem
        return self.value


def run(
    work: Work, jobs: Mapping[str, Any], shared: Any = None, *, workers: int = 1, scheduler: str | None = None
) -> Iterator[Done]:
    """Yield what ``work(shared, job)`` gives for every job, as soon as it is there.

    Closing the iterator early (an exception, Ctrl-C) ends what has not finished.

    Parameters
    ----------
    work : callable
        A function of a module.
    jobs : mapping of name to job
        Small and picklable: numbers and paths rather than arrays. Handed over in this order.
    shared : object
        What all jobs need; sent to each worker once.
    workers : int
        Processes of this machine; with 1 everything happens in this one. A job whose process is killed runs again
        alone; one that ends its process again has a `WorkerLostError`. A script that asks for more than 1 has to start
        its work under ``if __name__ == "__main__":``, since the processes are spawned.
    scheduler : str, optional
        Address of a Dask scheduler, as ``tcp://host:8786``, or its scheduler file: run on its workers instead.
    """
    if int(workers) != workers or workers < 1:
        raise InvalidInputError(f"The number of workers must be a whole number of at least 1, got {workers!r}.")
    if not jobs:
        return
    if scheduler is not None:
        yield from _on_dask(work, jobs, shared, scheduler)
    elif workers == 1:
        for name, job in jobs.items():
            yield _done(work, shared, name, job)
    else:
        yield from _in_processes(work, jobs, shared, int(workers))


def _done(work: Work, shared: Any, name: str, job: Any) -> Done:
    try:
        with only_one_thread(), one_blas_thread():
            return Done(name, work(shared, job))
    except Exception as error:
        return Done(name, problem=error)


def _portable(done: Done) -> Done:
    """Return what can cross to another process, whatever a foreign library raised or returned."""
    try:
        packed = pickle.dumps(done)
        if done.problem is not None:  # an exception may be packed and yet not unpacked
            pickle.loads(packed)  # nosec B301  # made on the line above
    except Exception as error:
        reason = done.problem or error
        return Done(done.name, problem=RuntimeError(f"{type(reason).__name__}: {reason}"))
    return done


# Processes of this machine


def _in_processes(work: Work, jobs: Mapping[str, Any], shared: Any, workers: int) -> Iterator[Done]:
    left = dict(jobs)
    suspects: list[str] = []  # handed over when a process was killed
    killed: set[str] = set()  # when they ran alone; before, another one may have been it
    while left:
        suspects = [name for name in suspects if name in left]
        alone = bool(suspects)
        count = 1 if alone else min(workers, len(left))
        ahead = 1 if alone else AHEAD * count
        others = set(active_children())
        pool = ProcessPoolExecutor(count, get_context("spawn"), _begin, (work, shared))
        running: dict[Future[Done], str] = {}
        waiting = iter(suspects if alone else list(left))
        try:
            while True:
                for name in islice(waiting, ahead - len(running)):
                    running[pool.submit(_job, name, left[name])] = name
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    done = future.result()
                    del left[running.pop(future)]
                    yield done
        except BrokenProcessPool:
            if not alone:
                suspects = list(running.values())
                continue
            for name in running.values():
                if name not in killed:
                    killed.add(name)
                    continue
                del left[name]
                told = "its process was ended from outside or broke down, also when it ran alone"
                yield Done(name, problem=WorkerLostError(told))
        finally:
            if running:
                for process in set(active_children()) - others:
                    process.kill()
            pool.shutdown(cancel_futures=True)


_given: tuple[Work, Any] | None = None


def _begin(work: Work, shared: Any) -> None:
    """Prepare a worker: it keeps what all jobs need, leaves Ctrl-C to its parent, and ends when that is gone."""
    global _given  # noqa: PLW0603  # one per process
    _given = work, shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _job(name: str, job: Any) -> Done:
    assert _given is not None
    work, shared = _given
    return _portable(_done(work, shared, name, job))


# A Dask scheduler


def _on_dask(work: Work, jobs: Mapping[str, Any], shared: Any, address: str) -> Iterator[Done]:
    client, as_completed = _connected(address)
    try:
        _check_versions(client)
        (data,) = client.scatter([shared], broadcast=True, hash=False)
        names: dict[str, str] = {}
        waiting = iter(jobs.items())
        finished = as_completed(loop=client.loop)

        def hand_over(count: int) -> None:
            for name, job in islice(waiting, count):
                future = client.submit(_dask_job, work, data, name, job, __version__, pure=False)
                names[future.key] = name
                finished.add(future)

        hand_over(AHEAD * max(1, sum(client.nthreads().values())))
        for future in finished:
            yield _fetched(client, future, names.pop(future.key), address)
            hand_over(1)
    finally:
        with suppress(Exception):  # a scheduler that is gone must not hide what happened before
            client.close()


def _connected(address: str) -> tuple[Any, Any]:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError(
            f"A scheduler needs the library 'distributed', which is not installed; {install_advice('dask')}."
        ) from error
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        client = distributed.Client(**where, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"There is no Dask scheduler at {address!r} ({type(error).__name__}); start one with 'dask scheduler' and "
            f"give the address that it prints."
        ) from error
    try:
        client.wait_for_workers(1, timeout=_FIRST_WORKER)
    except TimeoutError as error:
        client.close()
        raise InvalidInputError(
            f"The scheduler at {address!r} had no worker within {_FIRST_WORKER:g} s; start some with "
            f"'dask worker {address} --nthreads 1'."
        ) from error
    return client, distributed.as_completed


def _check_versions(client: Any) -> None:
    """Refuse workers that would compute with another version, which may give other numbers."""
    for worker, version in client.run(_version, on_error="return").items():
        if isinstance(version, Exception):
            raise InvalidInputError(
                f"The worker {worker} cannot run warpgauge ({type(version).__name__}: {version}); install version "
                f"{__version__} where it runs."
            )
        if version != __version__:
            raise _other_version(version, __version__)


class OtherVersionError(InvalidInputError):
    """A worker of a cluster has another version, which may compute other numbers."""


def _other_version(theirs: str, ours: str) -> OtherVersionError:
    return OtherVersionError(
        f"A worker of the cluster has warpgauge {theirs}, but this is {ours}; install the same version everywhere. "
        "What was finished and stored before is kept."
    )


def _version() -> str:
    return __version__


def _dask_job(work: Work, shared: Any, name: str, job: Any, version: str) -> Done:
    """Run one job; called on a worker, which may have joined after all others were checked."""
    if version != __version__:
        return Done(name, problem=_other_version(__version__, version))
    return _portable(_done(work, shared, name, job))


def _fetched(client: Any, future: Any, name: str, address: str) -> Done:
    try:
        done: Done = future.result()
    except Exception as error:  # a killed worker, lost data, a scheduler that is gone
        if client.status != "running":
            raise WorkerLostError(
                f"The Dask scheduler at {address!r} is gone ({type(error).__name__}). What was finished and stored "
                "before is kept: start a scheduler and workers again, and give the same command to go on."
            ) from error
        reason = " ".join(str(error).split())[:200]
        lost = WorkerLostError(f"no worker of the cluster finished it ({type(error).__name__}: {reason})")
        return Done(name, problem=lost)
    if isinstance(done.problem, OtherVersionError):
        raise done.problem
    return done
