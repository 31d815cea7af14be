"""Ratios of times measured side by side in one run, each the smallest of several: other work cancels out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table: the work, the bound it is measured against, and their ratio."""

    work: str
    bound: str
    seconds: float | None
    bound_seconds: float | None
    ratio: float | None
    limit: float | None
    note: str = ""
    processor_ratio: float | None = None  # the same of processor time over all threads, which other work changes less

    @property
    def reached(self) -> bool | None:
        if self.ratio is None or self.limit is None:
            return None
        return self.ratio <= self.limit

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reached": self.reached}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(
    work_name: str,
    work: Callable[[], object],
    bound_name: str,
    bound: Callable[[], object],
    limit: float | None,
    repeats: int = 7,
    note: str = "",
    *,
    one_thread: bool = False,
) -> Row:
    """Time both in turns and divide the smallest times; each runs once before, so that nothing is cold.

    Of work in one thread the processor's time counts, which other work on the machine changes least.
    """
    work()
    bound()
    pairs = [(_both_clocks(work), _both_clocks(bound)) for _ in range(repeats)]
    clock, processor = ([min(pair[side][kind] for pair in pairs) for side in (0, 1)] for kind in (0, 1))
    ours, theirs = processor if one_thread else clock
    return Row(work_name, bound_name, ours, theirs, ours / theirs, limit, note, processor[0] / processor[1])


def _both_clocks(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time over all threads."""
    clock = time.perf_counter()
    processor = time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


@contextmanager
def threads(count: int) -> Iterator[None]:
    """As many threads of ours as asked for."""
    former = os.environ.get("WARPGAUGE_THREADS")
    os.environ["WARPGAUGE_THREADS"] = str(count)
    try:
        yield
    finally:
        if former is None:
            del os.environ["WARPGAUGE_THREADS"]
        else:
            os.environ["WARPGAUGE_THREADS"] = former
