"""One thread per worker: jobs run side by side, so that threads within a job would only compete with each other.

It also fixes the order of sums, which is why results do not depend on the number of workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from warpgauge.core.parallel import one_blas_thread, only_one_thread, thread_count

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


def processors() -> int:
    """Return the number of processors that this process may use, or what ``WARPGAUGE_THREADS`` says."""
    return thread_count()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of linear algebra and of warpgauge's own loops within the block."""
    with only_one_thread(), one_blas_thread():
        yield


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
