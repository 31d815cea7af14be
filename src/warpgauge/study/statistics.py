"""Statistics over pairs: the hierarchical bootstrap, and tests that compare methods."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, tied_ranks
from warpgauge.core.error_scores import rank_distribution
from warpgauge.errors import InvalidInputError

_BLOCK_DOUBLES = 4_000_000


def ranks(scores: Floats) -> Floats:
    """Ranks from 1 along the last axis, equal scores sharing their mean rank; a missing score (NaN) has the last, K.

    Several missing ones all have the rank K: none of them did better than any other.
    """
    K = scores.shape[-1]
    missing = np.isnan(scores)
    return np.where(missing, float(K), tied_ranks(np.where(missing, np.inf, scores)))


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Bootstrap rounds, (B, K) each: mean score and mean per-case rank.

    ``rank_probabilities`` (K, K) is the share of the rounds in which a method (row) has a final rank (column), by its
    mean per-case rank, and ``first`` (K,) that in which it is first.
    """

    scores: Floats
    mean_ranks: Floats
    rank_probabilities: Floats
    first: Floats


def hierarchical_bootstrap(
    draws: Sequence[Floats], rounds: int, seed: int = 0, missing: ArrayLike | None = None
) -> Bootstrap:
    """Draw pairs with replacement, and from each drawn pair one joint posterior sample of all methods' scores.

    Ranks are those of the joint samples. For mean scores one quantile level is drawn in each round for all pairs: what
    makes a score uncertain (tails, failures that nobody met) errs alike on every pair and does not average out. So the
    median of the rounds is about the mean of the pairs' medians; independent draws of skewed scores would lie above it.

    ``draws`` are the posterior draws of each pair, (S, K). Methods that are ``missing`` (P, K) on a pair have the last
    rank there, whatever their draws.
    """
    if not draws or rounds < 1:
        raise InvalidInputError("A bootstrap needs at least one pair and one round.")
    if len({one.shape for one in draws}) > 1:
        raise InvalidInputError("A bootstrap needs as many draws and methods in every pair.")
    stacked = np.stack(draws)
    P, S, K = stacked.shape
    absent = np.zeros((P, K), dtype=bool) if missing is None else np.asarray(missing, dtype=bool)
    case_ranks = ranks(np.where(absent[:, None], np.nan, stacked))
    stacked.sort(axis=1)
    rng = np.random.default_rng(seed)
    levels = np.random.default_rng([seed, 1]).integers(S, size=rounds)
    scores = np.empty((rounds, K))
    mean_ranks = np.empty((rounds, K))
    step = max(1, _BLOCK_DOUBLES // (P * K))
    for start in range(0, rounds, step):
        rows = slice(start, min(start + step, rounds))
        count = rows.stop - rows.start
        chosen = rng.integers(P, size=(count, P)), rng.integers(S, size=(count, P))
        scores[rows] = stacked[chosen[0], levels[rows, None]].mean(axis=1)
        mean_ranks[rows] = case_ranks[chosen].mean(axis=1)
    final = rank_distribution(mean_ranks)
    return Bootstrap(scores, mean_ranks, final.probabilities, final.best)


@dataclass(frozen=True)
class PairedTest:
    """Wilcoxon signed-rank test of two methods' scores over the pairs; a missing case counts as it does elsewhere.

    ``median_difference`` is that of a's score minus b's, below 0 where a is better. ``p`` is two-sided, and
    ``adjusted_p`` is adjusted by Holm over all tests of the study; None with fewer than two pairs.
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
