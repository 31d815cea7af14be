"""Weights of random draws: unbiased by enumeration, whatever earlier answers decided."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from warpgauge.audit.estimators import Draws
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


def test_skipped_units_are_left_out():
    """What is answered keeps the weights of the design among what is answered."""
    weighted = Draws(np.arange(3), np.array([0.1, 0.2, 0.4]), np.zeros(3, dtype=np.int64), 50)
    some = weighted.among(np.array([True, False, True]))
    assert some.weights[0] / some.weights[1] == pytest.approx(4.0)


def test_draws_are_checked():
    """A unit drawn twice, a probability of zero and rounds out of order are refused."""
    with pytest.raises(InvalidInputError, match="at most once"):
        Draws.uniform([1, 1], 5)
    with pytest.raises(InvalidInputError, match="above 0"):
        Draws(np.array([0]), np.array([0.0]), np.array([0]), 5)
    with pytest.raises(InvalidInputError, match="ascending"):
        Draws(np.array([0, 1]), np.array([0.5, 0.5]), np.array([1, 0]), 5)
