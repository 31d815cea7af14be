"""Draws one at a time with their stated probability, and weights that are unbiased by enumeration."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import oracle
from warpgauge.audit import contest_sizes, mean_weights, sequential_draw
from warpgauge.errors import InvalidInputError

VALUES = np.array([3.0, -1.0, 10.0, 0.5, 2.0])


def test_draws_come_one_at_a_time_with_their_stated_probability() -> None:
    sizes = np.array([4.0, 0.0, 1.0, 2.0])
    rng = np.random.default_rng(5)
    seen: dict[tuple[int, ...], int] = {}
    runs = 20_000
    for _ in range(runs):
        rows, chances = sequential_draw(sizes, 2, rng)
        seen[tuple(rows)] = seen.get(tuple(rows), 0) + 1
        np.testing.assert_allclose(chances, [sizes[rows[0]] / 7, sizes[rows[1]] / (7 - sizes[rows[0]])])
    expected = {tuple(rows): weight for rows, _, weight in oracle.ordered_draws(sizes, 2) if weight > 0}
    assert set(seen) == set(expected)
    for rows, weight in expected.items():
        assert seen[rows] / runs == pytest.approx(weight, abs=5 * np.sqrt(weight / runs))
    assert len(sequential_draw(sizes, 9, rng)[0]) == 3  # a unit without size is never drawn
    with pytest.raises(InvalidInputError, match="at least 0"):
        sequential_draw(np.array([-1.0]), 1, rng)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_weights_of_adaptive_draws_are_unbiased(count: int) -> None:
    """Over all ordered draws, each of whose probabilities depends on the values before it."""
    mean = 0.0
    for order in permutations(range(5), count):
        weight, chances = 1.0, []
        for at, unit in enumerate(order):
            drawn = list(order[:at])
            sizes = 1.0 + np.arange(5) + (3.0 if drawn and VALUES[drawn[-1]] > 2 else 0.0) * (np.arange(5) % 2)
            sizes[drawn] = 0
            chances.append(float(sizes[unit] / sizes.sum()))
            weight *= chances[-1]
        mean += weight * float(mean_weights(np.array(chances), 5) @ VALUES[list(order)])
    assert mean == pytest.approx(VALUES.mean(), abs=1e-12)


def test_equal_probabilities_give_the_plain_mean() -> None:
    np.testing.assert_allclose(mean_weights(1 / (20 - np.arange(6)), 20), 1 / 6, rtol=1e-12)
    np.testing.assert_allclose(mean_weights(1 / (6 - np.arange(6)), 6), 1 / 6, rtol=1e-12)


def test_sizes_lean_to_where_the_leader_is_expected_to_win() -> None:
    """Without knowledge they follow the distances alone; the floor holds, and equal transforms are drawn evenly."""
    rng = np.random.default_rng(1)
    mapped, means = rng.normal(size=(3, 40, 2)), rng.normal(size=(40, 2))
    near = np.broadcast_to(0.01 * np.eye(2), (40, 2, 2))
    apart = np.linalg.norm(mapped[0] - mapped[1], axis=1)
    unknown = contest_sizes(mapped[:2], means, np.broadcast_to(1e8 * np.eye(2), (40, 2, 2)), 0.0)
    np.testing.assert_allclose(unknown, apart / apart.sum(), rtol=1e-3)
    errors = np.linalg.norm(mapped[:2] - means, axis=2)
    leader = int(errors.sum(axis=1).argmin())
    leaning = contest_sizes(mapped[:2], means, near, 0.0) / (apart / apart.sum())
    assert np.corrcoef(leaning, (errors[1 - leader] - errors[leader]) / apart)[0, 1] > 0.99
    np.testing.assert_allclose(
        contest_sizes(mapped[1::-1], means, near, 0.1), contest_sizes(mapped[:2], means, near, 0.1)
    )
    np.testing.assert_allclose(contest_sizes(np.stack([mapped[0]] * 2), means, near, 0.1), 1 / 40)
    mapped[1:, :5] = mapped[0, :5]
    np.testing.assert_allclose(contest_sizes(mapped, means, near, 0.2)[:5], 0.2 / 40)
