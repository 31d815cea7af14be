"""Hierarchical bootstrap over pairs, with each pair's posterior uncertainty inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.scoring import rank_distribution
from warpgauge.errors import InvalidInputError

_BLOCK_DOUBLES = 4_000_000


def ranks(scores: Floats) -> Floats:
    """Ranks from 1 along the last axis, equal scores sharing their mean rank; a missing score (NaN) has the last, K.

    Several missing ones all have the rank K: none of them did better than any other.
    """
    K = scores.shape[-1]
    values = np.where(np.isnan(scores), np.inf, scores)
    below = (values[..., None, :] < values[..., :, None]).sum(axis=-1)
    equal = (values[..., None, :] == values[..., :, None]).sum(axis=-1)
    found = below + (equal + 1) / 2
    return np.where(np.isnan(scores), float(K), found)


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Bootstrap rounds, (B, K) each: mean score (NaN where a method had no score at all) and mean per-case rank.

    Attributes
    ----------
    scores, mean_ranks : (B, K) array
    rank_probabilities : (K, K) array
        Share of the rounds in which a method (row) has a final rank (column), by its mean per-case rank.
    first : (K,) array
        Share of the rounds in which it is first.
    """

    scores: Floats
    mean_ranks: Floats
    rank_probabilities: Floats
    first: Floats


def hierarchical_bootstrap(draws: Sequence[Floats], rounds: int, seed: int = 0) -> Bootstrap:
    """Draw pairs with replacement, and from each drawn pair one joint posterior sample of all methods' scores.

    Parameters
    ----------
    draws : sequence of (S, K) arrays
        Posterior draws of each pair; NaN columns for missing methods.
    rounds : int
    seed : int
    """
    if not draws or rounds < 1:
        raise InvalidInputError("A bootstrap needs at least one pair and one round.")
    if len({one.shape for one in draws}) > 1:
        raise InvalidInputError("A bootstrap needs as many draws and methods in every pair.")
    stacked = np.stack(draws)
    P, S, K = stacked.shape
    case_ranks = ranks(stacked)
    rng = np.random.default_rng(seed)
    scores, mean_ranks = np.empty((rounds, K)), np.empty((rounds, K))
    step = max(1, _BLOCK_DOUBLES // (P * K))
    for start in range(0, rounds, step):
        rows = slice(start, min(start + step, rounds))
        count = rows.stop - rows.start
        chosen = rng.integers(P, size=(count, P)), rng.integers(S, size=(count, P))
        scores[rows] = mean_present(stacked[chosen])
        mean_ranks[rows] = case_ranks[chosen].mean(axis=1)
    final = rank_distribution(mean_ranks)
    return Bootstrap(scores, mean_ranks, final.probabilities, final.best)


def mean_present(values: Floats) -> Floats:
    """Mean over the last axis but one of the values that are there; NaN where there is none."""
    known = np.isfinite(values)
    count = known.sum(axis=-2)
    total = np.where(known, values, 0.0).sum(axis=-2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
