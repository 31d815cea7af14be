"""Tickets and wealth: exact by enumeration of every order in which units can be drawn."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from warpgauge.audit import answers_left, contest_sizes, log_wealth, proven, tickets


def test_wealth_is_the_integral_over_the_stakes() -> None:
    drawn = np.random.default_rng(1).exponential(1.2, 40)
    found = np.exp(log_wealth(drawn))
    for n in (1, 7, 40):
        assert found[n - 1] == pytest.approx(oracle.mixture_wealth(drawn[:n]), rel=1e-9)


def test_tickets_are_those_of_a_slow_loop() -> None:
    rng = np.random.default_rng(2)
    values, q = rng.exponential(size=12), rng.uniform(0.1, 0.6, 12)
    np.testing.assert_allclose(tickets(values, q, 40.0), oracle.draw_tickets(values, q, 40.0), rtol=1e-12)


def test_tickets_that_prove_the_claim_are_infinite_and_stay_so() -> None:
    drawn = tickets(np.array([3.0, 2.5, 0.0]), np.array([0.5, 0.5, 1.0]), 4.0)
    np.testing.assert_array_equal(drawn, [1.5, np.inf, np.inf])
    np.testing.assert_array_equal(proven(drawn, 0.05), [False, True, True])
    assert answers_left(drawn, 0.05) == 0.0
    assert answers_left(drawn[:0], 0.05) == answers_left(np.full(9, 0.2), 0.05) == np.inf
    assert 1 < answers_left(drawn[:1], 0.05) < 20


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_mean_wealth_is_exactly_one_where_the_claim_is_just_false(count: int) -> None:
    """Every order of the draws is enumerated: no sampling, no assumption on the values."""
    values = np.array([0.4, 3.0, 0.1, 7.0, 1.5])
    sizes = np.array([1.0, 0.5, 2.0, 0.7, 1.1])

    def mean_wealth(limit: float, bets: list[bool]) -> float:
        total = 0.0
        for rows, chances, weight in oracle.ordered_draws(sizes, count):
            drawn = tickets(values[rows], np.array(chances), limit, np.array(bets[:count]))
            total += weight * np.exp(log_wealth(drawn)[-1])
        return total

    assert mean_wealth(values.sum(), [True] * 4) == pytest.approx(1, rel=1e-12)
    assert mean_wealth(values.sum(), [True, False, True, True]) == pytest.approx(1, rel=1e-12)
    assert mean_wealth(1.1 * values.sum(), [True] * 4) < 1


def test_draws_that_follow_earlier_answers_are_exact() -> None:
    """Every order of three draws of five units, the sizes of each by what the answers before it exclude.

    Of three transforms two are equally good in mean error, so that their wealth is exactly 1 on average, although
    whether the third one is excluded changes the probabilities on the way.
    """
    truth = np.zeros((5, 2))
    good = np.array([[1.0, 0], [0.5, 0], [2.0, 0], [0.2, 0], [0.8, 0]])
    mapped = np.stack([good, good[[2, 3, 0, 4, 1]], good + np.array([0, 6.0])])
    covariances, excluded = np.tile(np.eye(2), (5, 1, 1)), set()

    def wealth(rows: list[int], chances: list[float], other: int) -> np.ndarray:
        """Of the claim that the first transform has a smaller mean error than another."""
        apart = np.linalg.norm(mapped[0] - mapped[other], axis=1)
        errors = np.linalg.norm(mapped - truth, axis=2)
        values = apart + errors[other] - errors[0]
        return np.exp(log_wealth(tickets(values[rows], np.array(chances), apart.sum())))

    def mean_wealth(rows: list[int], chances: list[float]) -> float:
        if len(rows) == 3:
            return float(wealth(rows, chances, 1)[-1])
        out = bool(rows) and bool(wealth(rows, chances, 2).max() > 1.5)
        excluded.add(out)
        sizes = contest_sizes(mapped[:2] if out else mapped, truth + 0.1, covariances, 0.1)
        sizes[rows] = 0.0
        shares = sizes / sizes.sum()
        return sum(shares[one] * mean_wealth([*rows, one], [*chances, shares[one]]) for one in range(5) if shares[one])

    assert mean_wealth([], []) == pytest.approx(1, rel=1e-12)
    assert excluded == {False, True}


def test_a_proof_needs_the_wealth_one_over_alpha() -> None:
    """By Ville's inequality; the wealth of these tickets passes 10 and 20 one after the other."""
    drawn = np.full(12, 1.6)
    wealth = np.exp(log_wealth(drawn))
    assert ((wealth > 10) & (wealth < 20)).any()
    for alpha in (0.05, 0.1):
        assert proven(drawn, alpha).tolist() == (wealth >= 1 / alpha).tolist()
