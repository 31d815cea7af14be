"""Threads over blocks of rows, for compiled loops and matrix products that release the interpreter's lock.

Plain threads around serial compiled code rather than numba's own parallel loops: the latter's default layer ends the
process when two Python threads enter it at once, as the threads of a server do. Threads of the linear algebra library
are switched off where matrices are small (:func:`one_blas_thread`): they wait for each other at every product.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import count
from typing import Any

_pool: ThreadPoolExecutor | None = None
_of_the_pool = threading.local()  # marks the threads of the pool, which never wait for each other
_alone: ContextVar[bool] = ContextVar("alone", default=False)

# Below this many rows times columns a second thread costs more than it saves.
_SMALLEST_SHARE = 20_000
# Above this many rows the threads of the linear algebra library pay on an idle machine.
_LARGE_MATRIX = 1500


@contextmanager
def only_one_thread() -> Iterator[None]:
    """Keep the loops of the calling thread to that thread within the block."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def thread_count() -> int:
    """Threads to use: ``WARPGAUGE_THREADS``, else the processors of this process.

    One in a thread of the pool, so that threads never wait for threads, and within `only_one_thread`.
    """
    if _alone.get() or getattr(_of_the_pool, "inside", False):
        return 1
    asked = os.environ.get("WARPGAUGE_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_items(worker: Callable[[], Callable[[int], None]], items: int) -> None:
    """Call ``worker()`` once in each thread and what it returns for every number below ``items``, in no fixed order.

    What a thread needs for all of its items (buffers) is made by ``worker``. Linear algebra within stays in the thread.
    """
    threads = min(thread_count(), items)
    numbers = count()
    failed = threading.Event()

    def run() -> None:
        try:
            work = worker()
            while not failed.is_set() and (number := next(numbers)) < items:
                work(number)
        except BaseException:  # an interrupt too: the other threads end after their present item
            failed.set()
            raise

    with one_blas_thread():
        futures = [_executor().submit(run) for _ in range(1, threads)]
        try:
            run()
        finally:
            for future in futures:
                future.exception()  # wait for all: the arrays belong to the caller
        for future in futures:
            future.result()


def over_rows(work: Callable[[int, int], None], rows: int, cost_per_row: int) -> None:
    """Call ``work(start, stop)`` for blocks that cover ``range(rows)``, side by side where that pays."""
    blocks = min(thread_count(), max(1, rows * cost_per_row // _SMALLEST_SHARE))

    def block(number: int) -> None:
        work(rows * number // blocks, rows * (number + 1) // blocks)

    over_items(lambda: block, blocks)


def _executor() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603  # one pool per process, made when first needed
    if _pool is None:
        _pool = ThreadPoolExecutor(thread_count(), thread_name_prefix="warpgauge", initializer=_enter_pool)
    return _pool


def _enter_pool() -> None:
    _of_the_pool.inside = True


class _BlasThreads:
    """The number of threads of every loaded BLAS library, which belongs to the process and not to a Python thread.

    The first that asks for one thread sets it, and the last that leaves restores the former numbers, so that the
    threads of a server may come and go in any order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: Any = None
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._controller is None:
                    # Imported and searched for libraries at the first use, when numpy and scipy have loaded theirs.
                    import scipy.linalg  # noqa: F401
                    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped,unused-ignore]

                    self._controller = ThreadpoolController().select(user_api="blas")
                self._take_control()
                self._limits = self._controller.limit(limits=1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def _restore(self) -> None:
        self._take_control()
        self._limits.restore_original_limits()
        self._limits = None
        self._take_control()  # and leave it to whoever comes next

    @staticmethod
    def _take_control() -> None:
        """Make threadpoolctl obey this thread: recent versions obey only the first that set a number."""
        from threadpoolctl import OpenBLASController

        if hasattr(OpenBLASController, "clear_controlling_thread"):
            OpenBLASController.clear_controlling_thread(force=True)

    def after_fork(self) -> None:
        """Reset the state in a child process, which has none of the parent's threads."""
        self._lock = threading.Lock()
        self._inside = 0
        if self._limits is not None:
            self._restore()


_blas = _BlasThreads()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep linear algebra to the calling thread within the block, in the whole process.

    Matrices of a few hundred rows are multiplied in less time than threads need to find each other, the more so where
    other work is running. Nothing has to be set in the environment.
    """
    with _blas:
        yield


def blas_threads_for(rows: int) -> AbstractContextManager[None]:
    """Use one linear algebra thread for small matrices, and the configured number for large ones."""
    return one_blas_thread() if rows <= _LARGE_MATRIX else nullcontext()


def _after_fork() -> None:
    global _pool  # noqa: PLW0603  # threads do not survive a fork
    _pool = None
    _blas.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
