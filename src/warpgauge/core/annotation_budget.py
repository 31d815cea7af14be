"""Estimate of how many more annotations would decide a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats

CAP = 200


@dataclass(frozen=True)
class FurtherAnnotations:
    """Number of further annotations until the best beats every other, and is the best, with probability ``level``.

    0 where it does already, None where more than ``cap`` would be needed.
    """

    best: int | None
    level: float
    cap: int


def further_by_growth(
    order: Sequence[int],
    win: Floats,
    annotations: int,
    cap: int = CAP,
    samples: int = 1000,
    *,
    best: float = 1.0,
    level: float = 0.95,
) -> FurtherAnnotations:
    """Estimate how many more annotations would decide which transform is best.

    The standardised lead ``z`` of a pair (the normal quantile of its win probability) grows with the square root of
    their number, on average. ``order`` is the ranking, best first, and ``win`` holds the (K, K) win probabilities. A
    probability cannot be known better than to half a sample. ``best`` is the probability of the first to be the best:
    what is short of the level where every pair is decided.
    """
    quantile = float(special.ndtri(level))
    least = 0.5 / samples
    needed = 0
    leads = [float(win[order[0], other]) for other in order[1:]]
    if min(leads, default=1.0) >= level:
        leads = [best]
    for lead in leads:
        p = min(max(lead, least), 1 - least)
        z = abs(float(special.ndtri(p)))
        if z < quantile:
            more = np.inf if z == 0 else np.ceil(annotations * ((quantile / z) ** 2 - 1))
            if more > cap:
                return FurtherAnnotations(None, level, cap)
            needed = max(needed, int(more))
    return FurtherAnnotations(needed, level, cap)
