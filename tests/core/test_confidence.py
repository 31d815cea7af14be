"""Confidence intervals and sequences against known populations, integration and enumeration."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import integrate, stats

from warpgauge.core.estimators import (
    FEWEST_LOOKS,
    Draws,
    confidence_sequence,
    contributions,
    log_evidence,
    mean_interval,
    quantile_interval,
    rank_intervals,
)
from warpgauge.errors import InvalidInputError


def held(population: np.ndarray, n: int, runs: int, seed: int) -> float:
    """Share of simple random samples whose interval holds the population's mean."""
    rng = np.random.default_rng(seed)
    hits = 0
    for run in range(runs):
        rows = rng.choice(len(population), n, replace=False)
        found = contributions(Draws.uniform(rows, len(population)), population[rows])
        hits += mean_interval(found, seed=run).holds(float(population.mean()))
    return hits / runs


def test_intervals_hold_for_normal_and_for_skewed_populations():
    """95 % intervals hold the mean of a normal population, and of squared normal errors, in about 95 % of samples."""
    rng = np.random.default_rng(1)
    assert held(rng.normal(size=1000), 20, 400, 2) > 0.93
    assert held(np.square(rng.normal(size=(1000, 2))).sum(axis=1), 20, 400, 3) > 0.93


def test_intervals_grow_with_the_level_and_vanish_for_a_constant():
    """A higher level gives a wider interval; values without spread are known exactly; two values bound nothing."""
    draws = Draws.uniform(np.arange(12), 500)
    values = np.random.default_rng(4).exponential(size=12)
    narrow, wide = (mean_interval(contributions(draws, values), level) for level in (0.8, 0.95))
    assert wide.low < narrow.low < narrow.high < wide.high
    constant = mean_interval(contributions(draws, np.full(12, 2.5)))
    assert (constant.low, constant.high) == (2.5, 2.5)
    assert mean_interval(contributions(Draws.uniform([0, 1], 50), np.array([1.0, 2.0]))).high == np.inf
    with pytest.raises(InvalidInputError, match="level"):
        mean_interval(contributions(draws, values), 1.0)


def test_evidence_is_the_mixed_likelihood_ratio():
    """The closed form equals the ratio of two integrals over the standard deviation and the standardised mean."""
    x = np.array([0.4, 1.3, -0.2, 0.9])

    def likelihood(sigma: float, effect: float) -> float:
        return float(np.prod(stats.norm.pdf(x, effect * sigma, sigma)) / sigma)

    above = integrate.dblquad(lambda e, s: likelihood(s, e) * stats.norm.pdf(e), 1e-3, 60, -9, 9, epsabs=1e-11)[0]
    below = integrate.quad(lambda s: likelihood(s, 0.0), 1e-3, 60, limit=200)[0]
    assert log_evidence(x)[-1] == pytest.approx(np.log(above / below), rel=1e-4)


def test_the_sequence_is_what_the_evidence_does_not_reject():
    """At either end of the confidence sequence, the evidence against that mean is exactly 1 / alpha."""
    x = np.random.default_rng(5).normal(1.0, 2.0, 30)
    found = confidence_sequence(x, 0.95)
    for end in (found.low, found.high):
        assert log_evidence(x - end)[-1] == pytest.approx(np.log(20), rel=1e-9)
    assert confidence_sequence(x[: FEWEST_LOOKS - 1]).high == np.inf


def test_looking_after_every_value_keeps_the_error_rate():
    """Over 60 looks at values whose mean is zero, few sequences ever exclude zero; repeated t intervals often do."""
    rng, runs = np.random.default_rng(6), 600
    crossed = repeated = 0
    for _ in range(runs):
        x = rng.normal(size=60) * rng.choice([1.0, 4.0], 60)
        crossed += bool((log_evidence(x) > np.log(20)).any())
        n = np.arange(6, 61)
        t = [x[:m].mean() / (x[:m].std(ddof=1) / np.sqrt(m)) for m in n]
        repeated += bool((np.abs(t) > stats.t.ppf(0.975, n - 1)).any())
    assert crossed / runs <= 0.05
    assert repeated / runs > 0.15


def test_quantile_intervals_hold():
    """With equal weights the interval of the 90th percentile holds in 95 % of samples; few values give none."""
    rng, hits = np.random.default_rng(7), 0
    for _ in range(1000):
        _, found = quantile_interval(rng.random(60), np.ones(60), 0.9)
        hits += found.holds(0.9)
    assert hits / 1000 >= 0.94
    assert quantile_interval(rng.random(20), np.ones(20), 0.9)[1].high == np.inf


def test_rank_intervals_hold_every_ranking_that_is_possible():
    """Every order that agrees with the sure comparisons has its ranks within the intervals."""
    better = np.zeros((4, 4), dtype=bool)
    better[0, [1, 2, 3]] = better[1, 3] = True
    found = rank_intervals(better)
    assert found == [(1, 1), (2, 3), (2, 4), (3, 4)]
    for order in permutations(range(4)):
        rank = {k: at + 1 for at, k in enumerate(order)}
        if all(rank[a] < rank[b] for a, b in zip(*np.nonzero(better), strict=True)):
            assert all(low <= rank[k] <= high for k, (low, high) in enumerate(found))
