from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from warpgauge.errors import InvalidInputError
from warpgauge.study import hierarchical_bootstrap, holm, paired_tests
from warpgauge.study.statistics import ranks


def test_ranks_by_hand() -> None:
    """Equal scores share their mean rank; a missing one has the last, also where two are missing."""
    assert ranks(np.array([3.0, 1.0, 2.0])).tolist() == [3, 1, 2]
    assert ranks(np.array([2.0, 1.0, 2.0, 5.0])).tolist() == [2.5, 1, 2.5, 4]
    assert ranks(np.array([np.nan, 1.0, np.nan, 0.5])).tolist() == [4, 2, 4, 1]


def test_a_missing_method_is_last_whatever_its_absence_costs() -> None:
    """The draws of an absent case count in the mean score, not in the rank: it is K even below all others."""
    draws = [np.tile([5.0, 1.0, 3.0], (10, 1)), np.tile([5.0, 1.0, 3.0], (10, 1))]
    missing = [[False, True, False], [False, True, False]]
    found = hierarchical_bootstrap(draws, 50, missing=missing)
    assert np.all(found.mean_ranks == [2.0, 3.0, 1.0])
    assert np.all(found.scores == [5.0, 1.0, 3.0])


def test_holm_by_hand() -> None:
    """0.01, 0.04, 0.03 with m = 3: 0.03, then 0.06, then max(0.06, 0.04)."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert holm([0.02]).tolist() == [0.02]
    assert holm([]).tolist() == []


def test_the_bootstrap_has_the_variance_of_pairs_and_posterior_together() -> None:
    """With P pairs of means m and posterior variance s^2, a round's mean has the variance var(m) / P + s^2.

    What is uncertain within a pair is shared by all: it does not average out.
    """
    rng = np.random.default_rng(0)
    means = rng.normal(10, 2, 30)
    draws = [mean + rng.normal(0, 3, (4000, 1)) for mean in means]
    found = hierarchical_bootstrap(draws, 20_000, seed=1)
    inside = np.mean([one.var() for one in draws])
    assert found.scores.var() == pytest.approx(means.var() / 30 + inside, rel=0.04)
    assert found.scores.mean() == pytest.approx(means.mean(), abs=0.1)
    certain = hierarchical_bootstrap([np.full((5, 1), mean) for mean in means], 20_000, seed=1)
    assert certain.scores.var() == pytest.approx(means.var() / 30, rel=0.04)


def test_the_interval_of_skewed_scores_is_about_the_mean_of_their_medians() -> None:
    """Log-normal draws about medians of 1 to 2: their means are exp(0.5) times as large, the quantiles are known."""
    rng = np.random.default_rng(0)
    medians = np.linspace(1, 2, 400)
    draws = [median * np.exp(rng.normal(0, 1, (2000, 1))) for median in medians]
    low, middle, high = np.quantile(hierarchical_bootstrap(draws, 4000).scores, [0.05, 0.5, 0.95])
    assert middle == pytest.approx(1.5, rel=0.05)
    assert low == pytest.approx(1.5 * np.exp(-1.645), rel=0.08)
    assert high == pytest.approx(1.5 * np.exp(1.645), rel=0.08)


def test_the_joint_draws_of_methods_stay_together() -> None:
    """Two methods that differ by exactly 1 in every draw keep their order in every round, however noisy both are."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 50, (6, 200, 1))
    found = hierarchical_bootstrap(list(np.concatenate([noise, noise + 1], axis=2)), 500)
    assert found.first.tolist() == [1.0, 0.0]
    assert np.all(found.mean_ranks == [1.0, 2.0])
    assert found.scores[:, 1] - found.scores[:, 0] == pytest.approx(np.ones(500))


def test_equal_methods_share_the_first_place() -> None:
    same = np.random.default_rng(0).normal(5, 1, (4, 50, 1))
    found = hierarchical_bootstrap(list(np.concatenate([same, same], axis=2)), 200)
    assert found.first.tolist() == [0.5, 0.5]


def test_bootstraps_of_nothing_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one pair"):
        hierarchical_bootstrap([], 10)
    with pytest.raises(InvalidInputError, match="as many draws"):
        hierarchical_bootstrap([np.ones((3, 2)), np.ones((4, 2))], 10)


def test_paired_tests_against_exact_tables() -> None:
    """Six differences of one sign have the exact two-sided p = 2 / 2^6; Holm triples the smallest of three."""
    a = np.array([1.0, 2, 3, 4, 5, 6])
    b = a + np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    c = a + np.array([0.15, -0.25, 0.35, -0.45, 0.55, -0.65])
    found = paired_tests(["a", "b", "c"], np.stack([a, b, c], axis=1))
    first = found[0]
    assert (first.a, first.b, first.cases) == ("a", "b", 6)
    assert first.median_difference == pytest.approx(-0.35)
    assert first.p == pytest.approx(2 / 64)
    assert first.adjusted_p == pytest.approx(6 / 64)
    assert found[1].p == pytest.approx(stats.wilcoxon(a - c).pvalue)


def test_equal_methods_and_single_cases() -> None:
    same = np.array([[1.0, 1.0, np.nan], [2.0, 2.0, 3.0]])
    found = paired_tests(["a", "b", "c"], same)
    assert found[0].p == 1.0
    assert found[1].p is None
    assert found[1].cases == 1
    assert found[1].adjusted_p is None
