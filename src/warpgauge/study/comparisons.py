"""Paired tests between methods over pairs, corrected for their number."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats


@dataclass(frozen=True)
class PairedTest:
    """Wilcoxon signed-rank test of two methods' scores over the pairs that both have.

    Attributes
    ----------
    a, b : str
    cases : int
    median_difference : float or None
        Of a's score minus b's; below 0 where a is better.
    p, adjusted_p : float or None
        Two-sided, and adjusted by Holm over all tests of the study; None with fewer than two pairs.
    """

    a: str
    b: str
    cases: int
    median_difference: float | None
    p: float | None
    adjusted_p: float | None


def holm(p: ArrayLike) -> Floats:
    """Adjust p-values by Holm: the i-th smallest (from 0) of m times ``m - i``, made monotone, at most 1."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return adjusted


def paired_tests(names: Sequence[str], scores: Floats) -> list[PairedTest]:
    """Compare every two methods by (pairs, K) scores; NaN where a method is missing."""
    found = []
    for i, j in combinations(range(len(names)), 2):
        both = np.isfinite(scores[:, i]) & np.isfinite(scores[:, j])
        differences = scores[both, i] - scores[both, j]
        median = float(np.median(differences)) if both.any() else None
        found.append((names[i], names[j], int(both.sum()), median, _wilcoxon(differences)))
    known = [row[4] for row in found if row[4] is not None]
    adjusted = iter(holm(known).tolist())
    return [PairedTest(*row, None if row[4] is None else next(adjusted)) for row in found]


def _wilcoxon(differences: Floats) -> float | None:
    from scipy import stats

    if len(differences) < 2:
        return None
    if not np.any(differences):
        return 1.0
    with warnings.catch_warnings():
        # With ties or few pairs scipy says that its p-value is approximate; the number of pairs is reported.
        warnings.simplefilter("ignore")
        return float(stats.wilcoxon(differences).pvalue)
