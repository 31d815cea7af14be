"""Summaries of the errors over the targets, and their uncertainty from posterior samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError

# What users call them; the first, second and fifth are the norms 1, 2 and infinity.
STATISTICS = ("mean", "rms", "median", "p90", "max")
RELATIVE = ("relative_mean", "relative_median", "relative_max")
LEVEL = 0.90


@dataclass(frozen=True)
class Interval:
    """What posterior samples say about one number: their mean and median, and a central credible interval."""

    mean: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: Floats, level: float = LEVEL) -> Interval:
        """Summarise draws of a number."""
        tail = (1 - level) / 2
        low, median, high = np.quantile(draws, [tail, 0.5, 1 - tail])
        return cls(float(np.mean(draws)), float(median), float(low), float(high))


def summaries(lengths: Floats, tolerance: float | None = None, diagonal: float | None = None) -> dict[str, Floats]:
    """Summaries of error lengths over the last axis.

    ``mean``, ``rms``, ``median``, ``p90`` (90th percentile, linear between order statistics) and ``max``, in world
    units; with a tolerance ``above_tolerance``, the share of lengths strictly above it; with a diagonal
    ``relative_mean``, ``relative_median`` and ``relative_max``, divided by it.
    """
    middle, high = np.quantile(lengths, [0.5, 0.9], axis=-1)
    result = {
        "mean": np.asarray(lengths.mean(axis=-1)),
        "rms": np.asarray(np.sqrt(np.mean(np.square(lengths), axis=-1))),
        "median": np.asarray(middle),
        "p90": np.asarray(high),
        "max": np.asarray(lengths.max(axis=-1)),
    }
    if tolerance is not None:
        result["above_tolerance"] = np.asarray(np.mean(lengths > tolerance, axis=-1))
    if diagonal is not None:
        result.update({name: np.asarray(result[name.removeprefix("relative_")] / diagonal) for name in RELATIVE})
    return result


def positive(value: float | None, name: str) -> float | None:
    """Check an optional positive number."""
    if value is not None and not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive number of world units, got {value!r}.")
    return None if value is None else float(value)
