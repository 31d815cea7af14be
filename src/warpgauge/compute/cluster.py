"""Jobs on a Dask cluster: one that runs already, by its address, or workers of this machine.

Jobs are futures over ids rather than graphs of `dask.array`: the scheduler then holds a few small tasks at a time,
whatever the size of the map or the study.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from warpgauge._version import __version__
from warpgauge.compute.executor import ONE_THREAD, Channel, Executor, Outcome, Watcher, Work, attempt, portable
from warpgauge.compute.worker import run_isolated
from warpgauge.errors import InvalidInputError, MissingExtraError, WarpgaugeError, WorkerLostError, install_advice

# Jobs handed over per thread of the cluster. Small ones are sent and fetched together; of long ones only the next, as
# the scheduler may give one worker more than its share of what it has.
_AHEAD_SHORT, _AHEAD_LONG = 32, 2
_SHORT = 0.1  # seconds of a small job
_ANY_PORT = "127.0.0.1:0"  # only this machine, on any free port
_LOOK = 2.0  # seconds between two looks at the number of workers
_CONNECT = 20.0  # seconds to reach a scheduler
_FIRST_WORKER = 600.0  # seconds until a queue has started the first worker


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError(
            f"A cluster needs the library 'distributed', which is not installed; {install_advice('dask')}."
        ) from error
    return distributed


class DaskCluster(Executor):
    """Runs jobs on the workers of a Dask scheduler; client and cluster are closed with it."""

    def __init__(self, client: Any, cluster: Any = None) -> None:
        self._client, self._cluster = client, cluster
        self._check_versions()

    @classmethod
    def at(cls, address: str) -> DaskCluster:
        """Connect to a scheduler that runs already, as ``tcp://host:8786`` or the path of a scheduler file."""
        distributed = _distributed()
        where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
        try:
            client = distributed.Client(**where, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"There is no Dask scheduler at {address!r} ({type(error).__name__}); start one with 'dask scheduler' "
                f"and give the address that it prints."
            ) from error
        try:
            client.wait_for_workers(1, timeout=_FIRST_WORKER)
        except TimeoutError as error:
            client.close()
            raise InvalidInputError(
                f"The scheduler at {address!r} had no worker within {_FIRST_WORKER:g} s; start some with "
                f"'dask worker {address} --nthreads 1'."
            ) from error
        return cls(client)

    @classmethod
    def local(cls, workers: int) -> DaskCluster:
        """Start workers on this machine, with one thread each."""
        distributed = _distributed()
        import dask

        settings = {
            "distributed.nanny.pre-spawn-environ": ONE_THREAD,
            "distributed.worker.daemon": False,  # a job may start processes of its own
            "distributed.worker.profile.enabled": False,
            "distributed.admin.system-monitor.gil.enabled": False,
            # At the default rates the monitoring takes 4 % of two cores.
            "distributed.admin.system-monitor.interval": "5s",
            "distributed.admin.tick.interval": "1s",
            "distributed.worker.memory.monitor-interval": "1s",
        }
        with dask.config.set(settings):
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=_ANY_PORT,
                worker_dashboard_address=_ANY_PORT,
                silence_logs="ERROR",
                preload=["warpgauge.compute.worker"],
            )
            client = distributed.Client(cluster, set_as_default=False)
        return cls(client, cluster)

    @property
    def workers(self) -> int:
        """Threads of all workers."""
        return max(1, sum(int(n) for n in self._client.nthreads().values()))

    def wait_for(self, workers: int) -> None:
        """Wait until this many workers are connected."""
        self._client.wait_for_workers(workers, timeout=_FIRST_WORKER)

    def processes(self) -> list[int]:
        """Return the process ids of the workers."""
        return [int(one) for one in self._client.run(_process).values()]

    def _check_versions(self) -> None:
        try:
            _refuse_other_versions(self._client)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _opened(
        self, work: Work[Any], shared: Any, time_limit: float | None, watch: Watcher | None
    ) -> Iterator[Channel]:
        futures = _Futures(self._client, work, shared, time_limit, watch)
        try:
            yield futures
        finally:
            futures.close()

    def close(self) -> None:
        """Disconnect, and end the workers that were started here."""
        with suppress(Exception):  # a scheduler that is gone must not hide what happened before
            self._client.close()
        if self._cluster is not None:
            with suppress(Exception):
                self._cluster.close()


class _Futures:
    """The futures of one call of `run`."""

    def __init__(
        self, client: Any, work: Work[Any], shared: Any, time_limit: float | None, watch: Watcher | None
    ) -> None:
        self._client, self._work, self._limit = client, work, time_limit
        self._address = str(client.scheduler.address)
        self._value = shared
        self._run = f"warpgauge-{secrets.token_hex(4)}"
        self._running: dict[str, tuple[Any, str, float]] = {}  # a future that nobody holds is cancelled
        self._finished: SimpleQueue[Any] = SimpleQueue()
        self._topic, self._watch = (self._run if watch is not None else None), watch
        self._count = 0
        self._threads, self._looked, self._ahead = 1, -_LOOK, _AHEAD_LONG
        self._checked: set[str] = set()  # workers whose version was looked at
        self._shared = self._scattered()
        if watch is not None:
            # Events arrive in a thread of the client; the watcher is called in that of the caller.
            client.subscribe_topic(self._topic, lambda event: self._finished.put(event[1]))

    def _scattered(self) -> Any:
        """Send the shared data to every worker, so that the loss of one does not lose them."""
        self._client.wait_for_workers(1, timeout=_FIRST_WORKER)  # those that were lost may not be replaced yet
        (future,) = self._client.scatter([self._value], broadcast=True, hash=False)
        return future

    @property
    def free(self) -> bool:
        if time.monotonic() > self._looked + _LOOK:  # workers come and go; asking takes milliseconds
            self._look()
        return len(self._running) < self._ahead * self._threads

    def _look(self) -> None:
        """Count the workers' threads, and check the versions of those that have joined."""
        with self._scheduler():
            threads = self._client.nthreads()
            self._threads = max(1, sum(int(n) for n in threads.values()))
            joined = set(threads) - self._checked
            if joined:
                _refuse_other_versions(self._client, joined)
            self._checked = set(threads)
        self._looked = time.monotonic()

    @contextmanager
    def _scheduler(self) -> Iterator[None]:
        """Raise one sentence where the scheduler is gone."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            if isinstance(error, WarpgaugeError) or self._client.status == "running":
                raise
            raise WorkerLostError(
                f"The Dask scheduler at {self._address!r} is gone ({type(error).__name__}). What was finished and "
                f"stored before is kept: start a scheduler and workers again, and give the same command to go on."
            ) from error

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def begin(self, name: str, job: Any) -> None:
        if self._shared.status != "finished":  # every worker that had a copy is gone
            with self._scheduler():
                self._shared = self._scattered()
        self._count += 1
        future = self._client.submit(
            _call,
            self._work,
            self._shared,
            name,
            job,
            self._limit,
            self._topic,
            __version__,
            key=f"{self._run}-{self._count}",
            pure=False,
        )
        self._running[future.key] = future, name, time.monotonic()
        future.add_done_callback(self._finished.put)

    def outcomes(self) -> list[Outcome[Any]]:
        found: list[Any] = []
        while not found:
            with suppress(Empty):
                found.append(self._finished.get(timeout=_LOOK))
            if not found:
                self._look()
        with suppress(Empty):
            while True:
                found.append(self._finished.get_nowait())
        for told in found:
            if isinstance(told, tuple | list) and self._watch is not None:
                self._watch(*told)
        futures = [told for told in found if not isinstance(told, tuple | list) and told.key in self._running]
        fetched = self._fetched([future for future in futures if future.status == "finished"])
        outcomes = [fetched.get(future.key) or self._outcome(future) for future in futures]
        if outcomes:
            self._ahead = _AHEAD_SHORT if max(outcome.seconds for outcome in outcomes) < _SHORT else _AHEAD_LONG
        return outcomes

    def _fetched(self, futures: list[Any]) -> dict[str, Outcome[Any]]:
        """Fetch results together: a request for each would take longer than a small job."""
        try:
            values = dict(zip((future.key for future in futures), self._client.gather(futures), strict=True))
        except Exception:  # some are lost with their worker; each is asked for alone
            return {}
        for key in values:
            del self._running[key]
        return values

    def _outcome(self, future: Any) -> Outcome[Any]:
        _, name, started = self._running.pop(future.key)
        seconds = time.monotonic() - started
        try:
            outcome: Outcome[Any] = future.result()
        except InvalidInputError:  # another version: nothing else of this cluster is to be trusted
            raise
        except WarpgaugeError as error:
            return Outcome(name, None, error, seconds)
        except Exception as error:  # a killed worker, shared data that are gone, a result that cannot be fetched
            told = " ".join(str(error).split())[:200]
            problem = WorkerLostError(f"no worker of the cluster finished it ({type(error).__name__}: {told})")
            return Outcome(name, None, problem, seconds)
        return outcome

    def close(self) -> None:
        if self._running:
            with suppress(Exception):
                self._client.cancel([future for future, *_ in self._running.values()], force=True)
        if self._topic is not None:
            with suppress(Exception):
                self._client.unsubscribe_topic(self._topic)
        self._running.clear()


def _call(
    work: Work[Any], shared: Any, name: str, job: Any, time_limit: float | None, topic: str | None, version: str
) -> Outcome[Any]:
    """Run one job; called on a worker, which may have joined after all others were checked."""
    if version != __version__:
        raise _other_version("that was given a job", __version__, version)
    report = None
    if topic is not None:
        from distributed import get_worker

        worker = get_worker()

        def report(share: float) -> None:
            worker.log_event(topic, (name, share))

    if time_limit is None:
        return portable(attempt(work, shared, name, job, report))
    return run_isolated(work, shared, name, job, time_limit)


def _refuse_other_versions(client: Any, workers: set[str] | None = None) -> None:
    """Refuse workers (all by default) that would compute with another version, which may give other numbers."""
    try:
        found = client.run(_version, workers=None if workers is None else sorted(workers), on_error="return")
    except OSError:
        raise
    except Exception as error:
        raise _cannot_run(error) from error
    for worker, version in found.items():
        if isinstance(version, OSError):  # it left meanwhile
            continue
        if isinstance(version, Exception):
            raise _cannot_run(version)
        if version != __version__:
            raise _other_version(worker, version, __version__)


def _cannot_run(error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"The workers of the cluster cannot run warpgauge ({type(error).__name__}: {error}); install version "
        f"{__version__} where they run."
    )


def _other_version(worker: str, theirs: str, ours: str) -> InvalidInputError:
    return InvalidInputError(
        f"The worker {worker} has warpgauge {theirs}, but this is {ours}; install the same version everywhere. What "
        f"was finished and stored before is kept."
    )


def _version() -> str:
    return __version__


def _process() -> int:
    import os

    return os.getpid()
