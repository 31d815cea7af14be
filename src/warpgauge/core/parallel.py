"""Threads over chunks of rows, for compiled loops that release the interpreter's lock.

Plain threads around serial compiled code rather than numba's own parallel loops: the latter's default layer ends the
process when two Python threads enter it at once, as the threads of a server do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_pool: ThreadPoolExecutor | None = None

# Below this many rows times columns a second thread costs more than it saves.
_SMALLEST_SHARE = 20_000


def thread_count() -> int:
    """Threads to use: ``WARPGAUGE_THREADS`` where set, else the processors this process may run on."""
    asked = os.environ.get("WARPGAUGE_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _executor() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603  # one pool a process, made when first needed
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=thread_count(), thread_name_prefix="warpgauge")
    return _pool


def _forget_pool() -> None:
    global _pool  # noqa: PLW0603  # threads do not survive a fork
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def over_rows(work: Callable[[int, int], None], rows: int, cost_per_row: int) -> None:
    """Call ``work(start, stop)`` for chunks that cover ``range(rows)``, side by side where that pays."""
    threads = min(thread_count(), max(1, rows * cost_per_row // _SMALLEST_SHARE))
    if threads == 1:
        work(0, rows)
        return
    bounds = [rows * k // threads for k in range(threads + 1)]
    futures = [_executor().submit(work, bounds[k], bounds[k + 1]) for k in range(1, threads)]
    work(bounds[0], bounds[1])
    for future in futures:
        future.result()
