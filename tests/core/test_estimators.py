"""Design-based estimates: unbiased by enumeration, whatever earlier answers decided."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from warpgauge.core.estimators import Draws, Predictions, contributions, single_draws
from warpgauge.errors import InvalidInputError

VALUES = np.array([3.0, -1.0, 10.0, 0.5, 2.0])


def adaptive(drawn: list[int]) -> np.ndarray:
    """Probabilities of the next single draw, which depend on the values seen so far."""
    sizes = 1.0 + np.arange(5) + (3.0 if drawn and VALUES[drawn[-1]] > 2 else 0.0) * (np.arange(5) % 2)
    sizes[drawn] = 0
    return sizes / sizes.sum()


def every_draw(count: int):
    """All ordered adaptive draws of so many units, with probability and the draws."""
    for order in permutations(range(5), count):
        chance, steps = 1.0, []
        for at, unit in enumerate(order):
            steps.append(float(adaptive(list(order[:at]))[unit]))
            chance *= steps[-1]
        yield chance, Draws(np.array(order), np.array(steps), np.arange(count), 5)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_adaptive_draws_are_unbiased(count):
    """Over all adaptive draws, the weighted sum has the population's mean as its expectation, exactly."""
    found = sum(p * float(draws.weights @ VALUES[draws.rows]) for p, draws in every_draw(count))
    assert found == pytest.approx(VALUES.mean(), abs=1e-12)


def test_every_single_draw_is_unbiased():
    """Each term of the sequence has the population's mean as its expectation, also with predictions."""
    predictions = np.array([1.0, 0.0, 7.0, 2.0, 2.0])
    for given in (None, predictions):
        total = np.zeros(3)
        for p, draws in every_draw(3):
            told = None if given is None else Predictions.everywhere(given, draws)
            total += p * single_draws(draws, VALUES[draws.rows], told)
        np.testing.assert_allclose(total, VALUES.mean(), atol=1e-12)


def test_weights_are_those_of_active_testing():
    """With rounds of one unit the weights are those of Kossen et al. 2021, equation for R_LURE."""
    N, M = 5, 3
    for _, draws in every_draw(M):
        m = np.arange(1, M + 1)
        lure = 1 + (N - M) / (N - m) * (1 / ((N - m + 1) * draws.probabilities) - 1)
        np.testing.assert_allclose(draws.weights, lure / M, rtol=1e-12)


def test_equal_probabilities_give_the_plain_mean():
    """Several rounds of equally likely units are one simple random sample."""
    rounds = np.array([0, 0, 1, 1, 1])
    draws = Draws(np.arange(5), np.array([2 / 20, 2 / 20, 3 / 18, 3 / 18, 3 / 18]), rounds, 20)
    np.testing.assert_allclose(draws.weights, 0.2, rtol=1e-12)
    assert contributions(draws, VALUES).estimate == pytest.approx(VALUES.mean())


def test_a_census_is_exact():
    """When every unit is drawn, the estimate is the mean and nothing is uncertain."""
    found = contributions(Draws.uniform(np.arange(5), 5), VALUES)
    assert found.estimate == pytest.approx(VALUES.mean())
    assert found.spread == 0


def test_right_predictions_leave_no_uncertainty():
    """With predictions that are off by a constant, the difference estimator is exact from any sample."""
    draws = Draws.uniform([0, 3], 5)
    found = contributions(draws, VALUES[[0, 3]], Predictions.everywhere(VALUES + 4.0, draws))
    assert found.estimate == pytest.approx(VALUES.mean())
    assert found.spread == pytest.approx(0, abs=1e-12)


def test_skipped_units_are_left_out():
    """The estimate is over what can be answered, with the weights of the design among these."""
    draws, answered = Draws.uniform([0, 1, 2, 3], 100), np.array([True, True, False, True])
    values = np.array([1.0, 2.0, np.nan, 6.0])
    kept = draws.among(answered)
    assert contributions(kept, values[answered]).estimate == pytest.approx(3.0)
    np.testing.assert_allclose(single_draws(kept, values[answered]), [1.0, 2.0, 6.0])
    weighted = Draws(np.arange(3), np.array([0.1, 0.2, 0.4]), np.zeros(3, dtype=np.int64), 50)
    some = weighted.among(np.array([True, False, True]))
    assert contributions(some, np.array([3.0, 9.0])).estimate == pytest.approx((30 + 22.5) / 12.5)


def test_draws_are_checked():
    """A unit drawn twice, a probability of zero and rounds out of order are refused."""
    with pytest.raises(InvalidInputError, match="at most once"):
        Draws.uniform([1, 1], 5)
    with pytest.raises(InvalidInputError, match="above 0"):
        Draws(np.array([0]), np.array([0.0]), np.array([0]), 5)
    with pytest.raises(InvalidInputError, match="ascending"):
        Draws(np.array([0, 1]), np.array([0.5, 0.5]), np.array([1, 0]), 5)
    with pytest.raises(InvalidInputError, match="None of the drawn"):
        contributions(Draws.uniform([1], 5).among(np.array([False])), np.array([]))
