"""The interface of all executors, and the one that runs everything in this process; every job has one thread.

Jobs run side by side, so that threads within a job would only compete with each other. One thread also fixes the order
of sums, which is why results do not depend on the number of workers.
"""

from __future__ import annotations

import os
import pickle  # nosec B403  # only what this program wrote itself, for its own workers
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from warpgauge.core.parallel import one_blas_thread, only_one_thread
from warpgauge.errors import InvalidInputError, JobTimeoutError, WarpgaugeError, WorkerLostError

# Read by BLAS, numba, ITK and warpgauge when a process starts.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS",
        "WARPGAUGE_THREADS",
    ),
    "1",
)


@contextmanager
def environment_of_workers() -> Iterator[None]:
    """Let processes that are started within the block use one thread each."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


Result = TypeVar("Result")
Work = Callable[[Any, Any], Result]
"""``work(shared, job)``: a function of a module, so that other processes find it."""
Watcher = Callable[[str, float], None]

RETRIES = 2
_report: ContextVar[Callable[[float], None] | None] = ContextVar("report", default=None)


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """Outcome of one job.

    Attributes
    ----------
    id : str
    value : object
        What ``work`` returned; None where it failed.
    problem : Exception or None
        What ``work`` raised, or a `WorkerLostError` or `JobTimeoutError`.
    seconds : float
        From the hand-over of the job to its outcome, as the worker or its owner measured it.
    """

    id: str
    value: Result | None
    problem: Exception | None = None
    seconds: float = 0.0

    def result(self) -> Result:
        """Return the value, or raise the problem."""
        if self.problem is not None:
            raise self.problem
        return self.value  # type: ignore[return-value]  # there is a value where there is no problem


class Channel(Protocol):
    """What an executor offers while it runs the jobs of one call."""

    @property
    def free(self) -> bool:
        """Whether another job can be handed over."""
        ...

    @property
    def busy(self) -> bool:
        """Whether an outcome is still to come."""
        ...

    def begin(self, name: str, job: Any) -> None:
        """Hand over a job."""
        ...

    def outcomes(self) -> list[Outcome[Any]]:
        """Wait until something has finished, and return it; may return nothing."""
        ...


class Executor(ABC):
    """Runs jobs; a context manager that releases its workers at the end.

    The outcome of a job depends on the job and the shared data only, never on the executor: every job runs with one
    thread.
    """

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of jobs that run at the same time."""

    @abstractmethod
    def _opened(
        self, work: Work[Any], shared: Any, time_limit: float | None, watch: Watcher | None
    ) -> AbstractContextManager[Channel]:
        """Open a channel for one call of `run`; leaving it cancels what is not finished."""

    def run(
        self,
        work: Work[Result],
        jobs: Mapping[str, Any],
        shared: Any = None,
        *,
        retries: int = RETRIES,
        time_limit: float | None = None,
        watch: Watcher | None = None,
    ) -> Iterator[Outcome[Result]]:
        """Yield the outcome of ``work(shared, job)`` for every job, as soon as it is there.

        Closing the iterator early (an exception, Ctrl-C) cancels what is not finished.

        Parameters
        ----------
        work : callable
            A function of a module.
        jobs : mapping of id to job
            Small, picklable: numbers and paths rather than arrays. Handed over in this order.
        shared : object
            What all jobs need; sent to each worker once.
        retries : int
            How often a job is done again after its worker was lost, or after an ``OSError`` such as a cut connection.
            Errors of warpgauge itself are never retried: the same input fails in the same way.
        time_limit : float, optional
            Seconds after which a job is ended with a `JobTimeoutError`.
        watch : callable, optional
            Called with ``(id, share)`` when a running job calls `report_progress`.
        """
        if not jobs:
            return
        waiting, attempts = deque(jobs), Counter[str]()
        with self._opened(work, shared, time_limit, watch) as channel:
            while waiting or channel.busy:
                while waiting and channel.free:
                    name = waiting.popleft()
                    attempts[name] += 1
                    channel.begin(name, jobs[name])
                for outcome in channel.outcomes():
                    if _can_help(outcome.problem) and attempts[outcome.id] <= retries:
                        waiting.appendleft(outcome.id)
                    else:
                        yield outcome

    def close(self) -> None:  # noqa: B027  # most executors keep nothing between two runs
        """Release the workers."""

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _can_help(problem: Exception | None) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(problem, WorkerLostError):
        return True
    return isinstance(problem, OSError) and not isinstance(problem, WarpgaugeError)


def report_progress(share: float) -> None:
    """Report to the watcher how much of the running job is done, from 0 to 1; without a watcher do nothing."""
    report = _report.get()
    if report is not None:
        report(share)


@contextmanager
def _reporting(report: Callable[[float], None] | None) -> Iterator[None]:
    """Send what `report_progress` says within the block to a function."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def attempt(
    work: Work[Result], shared: Any, name: str, job: Any, report: Callable[[float], None] | None = None
) -> Outcome[Result]:
    """Run one job here, with one thread, and catch what it raises."""
    started = time.monotonic()
    try:
        with only_one_thread(), one_blas_thread(), _reporting(report):
            value = work(shared, job)
    except Exception as error:
        return Outcome(name, None, error, time.monotonic() - started)
    return Outcome(name, value, None, time.monotonic() - started)


def portable(outcome: Outcome[Any]) -> Outcome[Any]:
    """Return an outcome that can cross to another process, whatever a foreign library raised or returned."""
    try:
        packed = pickle.dumps(outcome)
        if outcome.problem is not None:  # an exception may be packed and yet not unpacked
            pickle.loads(packed)  # nosec B301  # made two lines above
    except Exception as error:
        told = outcome.problem or error
        return Outcome(outcome.id, None, RuntimeError(f"{type(told).__name__}: {told}"), outcome.seconds)
    return outcome


class InProcess(Executor):
    """Runs one job after the other in this process."""

    @property
    def workers(self) -> int:
        """One."""
        return 1

    @contextmanager
    def _opened(
        self, work: Work[Any], shared: Any, time_limit: float | None, watch: Watcher | None
    ) -> Iterator[Channel]:
        if time_limit is not None:
            raise InvalidInputError("A time limit needs jobs in processes of their own; use a ProcessPool.")
        yield _Direct(work, shared, watch)


class _Direct:
    def __init__(self, work: Work[Any], shared: Any, watch: Watcher | None) -> None:
        self._work, self._shared, self._watch = work, shared, watch
        self._next: tuple[str, Any] | None = None

    @property
    def free(self) -> bool:
        return self._next is None

    @property
    def busy(self) -> bool:
        return self._next is not None

    def begin(self, name: str, job: Any) -> None:
        self._next = name, job

    def outcomes(self) -> list[Outcome[Any]]:
        if self._next is None:
            return []
        (name, job), self._next, watch = self._next, None, self._watch
        report = None if watch is None else lambda share: watch(name, share)
        return [attempt(self._work, self._shared, name, job, report)]


def too_late(name: str, seconds: float, time_limit: float) -> Outcome[Any]:
    """Return the outcome of a job that was ended."""
    return Outcome(name, None, JobTimeoutError(f"not finished within {time_limit:g} s, and ended"), seconds)
