"""Ratios of times measured side by side in one run: the machine's mood cancels out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
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
) -> Row:
    """Time both in turns and divide the medians; each runs once before, so that nothing is cold."""
    work()
    bound()
    pairs = [(seconds(work), seconds(bound)) for _ in range(repeats)]
    ours = statistics.median(pair[0] for pair in pairs)
    theirs = statistics.median(pair[1] for pair in pairs)
    return Row(work_name, bound_name, ours, theirs, ours / theirs, limit, note)
