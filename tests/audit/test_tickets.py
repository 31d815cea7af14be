"""Exact decisions: tickets, wealth, bounded losses, and how often they are wrong at any look."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import oracle
import warpgauge as wg
from warpgauge.audit.bounded_losses import (
    GateDraws,
    absolute_gate_tickets,
    expected_segment_difference,
    length_difference,
    relative_gate_tickets,
    segment_bound,
    segment_difference,
)
from warpgauge.audit.designs import contest_sizes, draw_sizes, sequential_draw
from warpgauge.audit.tickets import fewest_answers, log_wealth, proven, tickets, upper_mean


def test_wealth_is_the_integral_over_the_stakes() -> None:
    rng = np.random.default_rng(1)
    given = rng.exponential(1.2, 40)
    found = np.exp(log_wealth(given))
    for n in (1, 7, 40):
        assert found[n - 1] == pytest.approx(oracle.mixture_wealth(given[:n]), rel=1e-9)


def test_tickets_that_prove_the_claim_are_infinite_and_stay_so() -> None:
    given = tickets(np.array([3.0, 2.5, 0.0]), np.array([0.5, 0.5, 1.0]), 4.0)
    np.testing.assert_array_equal(given, [1.5, np.inf, np.inf])
    assert np.isinf(log_wealth(given)[1:]).all()
    np.testing.assert_array_equal(proven(given, 0.05), [False, True, True])


def _expected_wealth(values: np.ndarray, sizes: np.ndarray, limit: float, count: int) -> float:
    """Mean wealth after ``count`` draws over all orders in which they can come."""
    total = 0.0
    for rows, chances, weight in oracle.ordered_draws(sizes, count):
        total += weight * np.exp(log_wealth(tickets(values[rows], np.array(chances), limit))[-1])
    return total


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_mean_wealth_is_exactly_one_where_the_claim_is_just_false(count: int) -> None:
    """Every order of the draws is enumerated: no sampling, no assumption on the values."""
    values = np.array([0.4, 3.0, 0.1, 7.0, 1.5])
    sizes = np.array([1.0, 0.5, 2.0, 0.7, 1.1])
    assert _expected_wealth(values, sizes, values.sum(), count) == pytest.approx(1, rel=1e-12)
    assert _expected_wealth(values, sizes, 1.1 * values.sum(), count) < 1


def test_draws_for_the_leader_against_the_undecided_are_exact() -> None:
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
        values = apart + length_difference(mapped[0], mapped[other], truth)
        return np.exp(log_wealth(tickets(values[rows], np.array(chances), apart.sum())))

    def mean_wealth(rows: list[int], chances: list[float]) -> float:
        if len(rows) == 3:
            return float(wealth(rows, chances, 1)[-1])
        out = bool(rows) and bool(wealth(rows, chances, 2).max() > 1.5)
        excluded.add(out)
        sizes = contest_sizes(mapped[:2] if out else mapped, truth + 0.1, covariances, 1.0, 0.1)
        sizes[rows] = 0.0
        shares = sizes / sizes.sum()
        return sum(shares[one] * mean_wealth([*rows, one], [*chances, shares[one]]) for one in range(5) if shares[one])

    assert mean_wealth([], []) == pytest.approx(1, rel=1e-12)
    assert excluded == {False, True}


def gate_draws(change: np.ndarray, errors: np.ndarray, q: np.ndarray, squares: float, population: int) -> GateDraws:
    """Draws of one population; ``squares`` is the sum of the squared changes over it."""
    bets, size = np.ones(len(q), dtype=bool), np.array([float(population)])
    return GateDraws(change[None], errors[None], q[None], size, squares / population, 0.0, bets)


def test_a_gate_at_its_margin_has_a_mean_wealth_of_at_most_one() -> None:
    """Reference and new transform whose RMS errors lie exactly at the margin, all orders of three draws."""
    rng = np.random.default_rng(2)
    change, errors = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    old = np.sqrt(np.mean(np.square(errors).sum(axis=1)))
    new = np.sqrt(np.mean(np.square(errors - change).sum(axis=1)))
    assert new > old
    squares = float(np.square(change).sum())
    sizes = np.square(change).sum(axis=1)
    relative, absolute = 0.0, 0.0
    for rows, chances, weight in oracle.ordered_draws(sizes, 3):
        q = np.array(chances)
        draws = gate_draws(change[rows], errors[rows], q, squares, 5)
        relative += weight * np.exp(log_wealth(relative_gate_tickets(draws, new / old - 1))[-1])
        cells = absolute_gate_tickets(draws, new - old, 50.0)
        absolute += weight * np.exp(log_wealth(cells)[:, -1].min())
    assert relative == pytest.approx(1, rel=1e-9)
    assert 0 < absolute <= 1


def test_bounds_of_differences_hold_and_nothing_near_is_capped() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    answers = 4 * rng.standard_t(2, size=(400, 3))
    apart = np.linalg.norm(second - first, axis=1)
    assert (np.abs(length_difference(first, second, answers)) <= apart * (1 + 1e-12)).all()
    plain = np.square(second - answers).sum(axis=1) - np.square(first - answers).sum(axis=1)
    for beyond in (0.0, 1.0, 5.0):
        found = segment_difference(first, second, answers, beyond)
        assert (np.abs(found) <= segment_bound(apart, beyond) * (1 + 1e-12)).all()
        inside = np.abs(plain) <= segment_bound(apart, beyond)
        assert 0 < inside.sum() < 400
        np.testing.assert_allclose(found[inside], plain[inside], atol=1e-10)
        assert (np.sign(found) == np.sign(plain)).all()


def test_a_failure_of_one_transform_counts_in_full() -> None:
    """The second is 40 away, the answer at the first."""
    found = segment_difference(np.zeros((1, 2)), np.array([[40.0, 0.0]]), np.zeros((1, 2)), 1.0)
    assert found[0] == pytest.approx(1600)


def test_expected_segment_differences_are_means_over_answers() -> None:
    rng = np.random.default_rng(4)
    first, second, means = rng.normal(size=(3, 6, 2))
    root = rng.normal(size=(6, 2, 2))
    covariances = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(2)
    noise = rng.normal(size=(400_000, 1, 2, 1))
    answers = means + (np.linalg.cholesky(covariances) @ noise)[..., 0]
    drawn = segment_difference(first, second, answers, 0.4)
    spread = drawn.std(axis=0) / np.sqrt(len(drawn))
    found = expected_segment_difference(first, second, means, covariances, 0.4)
    assert (np.abs(found - drawn.mean(axis=0)) < 5 * spread + 1e-9).all()


def test_draws_come_one_at_a_time_with_their_stated_probability() -> None:
    sizes = np.array([4.0, 0.0, 1.0, 2.0])
    rng = np.random.default_rng(5)
    seen: dict[tuple[int, ...], int] = {}
    runs = 20_000
    for _ in range(runs):
        rows, chances = sequential_draw(sizes, 2, rng)
        seen[tuple(rows)] = seen.get(tuple(rows), 0) + 1
        left = 7.0 - sizes[rows[0]]
        np.testing.assert_allclose(chances, [sizes[rows[0]] / 7, sizes[rows[1]] / left])
    expected = {tuple(rows): weight for rows, _, weight in oracle.ordered_draws(sizes, 2) if weight > 0}
    assert set(seen) == set(expected)
    for rows, weight in expected.items():
        assert seen[rows] / runs == pytest.approx(weight, abs=5 * np.sqrt(weight / runs))
    assert len(sequential_draw(sizes, 9, rng)[0]) == 3  # a unit without size is never drawn


def test_the_draw_leans_to_where_the_leader_is_expected_to_win() -> None:
    bounds, expected = np.array([1.0, 1.0, 2.0]), np.array([0.5, -0.5, 1.0])
    np.testing.assert_allclose(draw_sizes(bounds), [0.25, 0.25, 0.5])
    leaning = draw_sizes(bounds, expected)
    np.testing.assert_allclose(leaning, 0.25 * np.array([0.25, 0.25, 0.5]) + 0.75 * np.array([0.3, 0.1, 0.6]))
    np.testing.assert_allclose(draw_sizes(bounds, -expected), leaning)  # whichever of the two is first


def _at_most(rate: float, runs: int) -> float:
    """Most errors among so many runs at this rate, up to a chance of 1 in 1000."""
    return float(stats.binom.ppf(0.999, runs, rate))


def _null_population(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and second transform and the truth at 400 targets; the mean losses are equal (see the test)."""
    N = 400
    truth = np.zeros((N, 2))
    if kind == "rare failure":  # the first is better nearly everywhere and fails in 3 %
        first, second = rng.normal(size=(N, 2)), 1.4 * rng.normal(size=(N, 2))
        first[:12] += [9.0, 0.0]
    elif kind == "one target":
        first, second = rng.normal(size=(N, 2)), 1.4 * rng.normal(size=(N, 2))
        first[0] += [60.0, 0.0]
    elif kind == "two points":
        first, second = np.tile([1.0, 0.0], (N, 1)), np.tile([0.0, 1.2], (N, 1))
        first[:20] = [7.0, 0.0]
    else:  # heavy tails
        first, second = rng.standard_t(2.5, size=(N, 2)), rng.standard_t(2.5, size=(N, 2))
    return first, second, truth


@pytest.mark.parametrize("loss", ["mean error", "mean squared error"])
@pytest.mark.parametrize("kind", ["rare failure", "one target", "two points", "heavy tails"])
def test_wrong_decisions_stay_below_their_rate_at_every_look(kind: str, loss: str) -> None:
    """The second transform is scaled until both have the same mean loss: any decision for the first is wrong."""
    rng = np.random.default_rng([6, len(kind), len(loss)])
    wrong, runs = 0, 1000
    for _ in range(runs):
        first, second, truth = _null_population(kind, rng)
        if loss == "mean error":
            second = second * (np.linalg.norm(first, axis=1).sum() / np.linalg.norm(second, axis=1).sum())
            d = length_difference(first, second, truth)
            c = np.linalg.norm(second - first, axis=1)
        else:
            second = second * np.sqrt(np.square(first).sum() / np.square(second).sum())
            c = segment_bound(np.linalg.norm(second - first, axis=1), 100.0)
            d = segment_difference(first, second, truth, 100.0)
        assert abs(d.sum()) < 1e-8 * c.sum()
        rows, q = sequential_draw(draw_sizes(c), 80, rng)
        wrong += bool(proven(tickets(c[rows] + d[rows], q, c.sum()), 0.05)[-1])
    assert wrong <= _at_most(0.05, runs)


def test_a_clear_difference_is_found_with_few_answers() -> None:
    """Errors of 2 against 4: the median number of answers, near the bound that no exact method undercuts."""
    rng = np.random.default_rng(7)
    needed, least = [], []
    for _ in range(60):
        truth = np.zeros((800, 2))
        first, second = 2 / np.sqrt(2) * rng.normal(size=(800, 2)), 4 / np.sqrt(2) * rng.normal(size=(800, 2))
        c = np.linalg.norm(second - first, axis=1)
        d = length_difference(first, second, truth)
        rows, q = sequential_draw(draw_sizes(c), 120, rng)
        found = proven(tickets(c[rows] + d[rows], q, c.sum()), 0.05)
        needed.append(int(found.argmax()) + 1 if found[-1] else 121)
        least.append(fewest_answers(d.mean(), c.mean()))
    assert np.median(least) < np.median(needed) < 2.5 * np.median(least)
    assert fewest_answers(0.0, 1.0) == np.inf


def test_upper_bounds_of_a_mean_hold_and_reach_it_in_a_census() -> None:
    """Even draws from a population in which 3 % of the units are large."""
    rng = np.random.default_rng(9)
    wrong, runs, N = 0, 150, 200
    for _ in range(runs):
        values = np.where(np.arange(N) < 6, 9.0, rng.uniform(0, 2, N))
        rows = rng.permutation(N)[:40]
        wrong += upper_mean(values[rows], 10.0, 1 / (N - np.arange(40)), N, 0.9) < values.mean()
    assert wrong <= _at_most(0.1, runs)
    every = np.array([0.5, 2.0, 1.0])
    assert upper_mean(every, 4.0, np.array([1 / 3, 1 / 2, 1.0]), 3) == pytest.approx(every.mean())
    assert upper_mean([], 4.0, [], 3) == 4.0


def test_gates_pass_a_build_at_the_margin_rarely_and_a_better_one_often() -> None:
    rng = np.random.default_rng(10)
    N, runs = 300, 120
    passes = {"at": 0, "better": 0, "at, absolute": 0, "better, absolute": 0}
    for _ in range(runs):
        reference = 2 * rng.normal(size=(N, 2))  # errors of the reference: the truth is 0
        change = 0.5 * rng.normal(size=(N, 2))
        change[:9] += [6.0, 0.0]  # local failure of 3 %
        old = float(np.sqrt(np.square(reference).sum(axis=1).mean()))
        new = float(np.sqrt(np.square(reference + change).sum(axis=1).mean()))
        squares = np.square(change).sum(axis=1)
        rows, q = sequential_draw(squares, 60, rng)
        for name, share in (("at", new / old - 1), ("better", new / old + 0.6)):
            draws = gate_draws(change[rows], -reference[rows], q, squares.sum(), N)
            passes[name] += bool(proven(relative_gate_tickets(draws, share), 0.05)[-1])
            cells = absolute_gate_tickets(draws, share * old, 30.0)
            passes[f"{name}, absolute"] += bool(proven(cells, 0.05)[:, -1].all())
    assert passes["at"] <= _at_most(0.05, runs)
    assert passes["at, absolute"] <= _at_most(0.05, runs)
    assert passes["better"] >= 0.8 * runs
    assert passes["better, absolute"] >= 0.5 * runs


def test_wrong_input_is_refused_with_a_sentence() -> None:
    with pytest.raises(wg.errors.InvalidInputError, match="from 0 to 1"):
        upper_mean([2.0], 1.0, [0.1], 10)
    with pytest.raises(wg.errors.InvalidInputError, match="at least 0"):
        sequential_draw(np.array([-1.0]), 1, np.random.default_rng(0))
