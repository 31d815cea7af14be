"""Random designs: every unit keeps its inclusion probability, and neighbours are rarely drawn together."""

from __future__ import annotations

import numpy as np
import pytest

from warpgauge.core import designs
from warpgauge.core.designs import balanced_order, disagreement_sizes, inclusion_probabilities, pivotal_sample
from warpgauge.errors import InvalidInputError


def exact_samples(points: np.ndarray, probabilities: tuple[float, ...]) -> dict[tuple[int, ...], float]:
    """Every sample that the local pivotal method can draw with its probability, by following every branch."""
    open_units = [i for i, p in enumerate(probabilities) if 1e-9 < p < 1 - 1e-9]
    if len(open_units) < 2:
        return {tuple(i for i, p in enumerate(probabilities) if p > 0.5): 1.0}
    found: dict[tuple[int, ...], float] = {}
    for i in open_units:
        j = min((k for k in open_units if k != i), key=lambda k: float(np.linalg.norm(points[k] - points[i])))
        a, b = probabilities[i], probabilities[j]
        if a + b < 1:
            ends = [((a + b, 0.0), a / (a + b)), ((0.0, a + b), b / (a + b))]
        else:
            ends = [((1.0, a + b - 1), (1 - b) / (2 - a - b)), ((a + b - 1, 1.0), (1 - a) / (2 - a - b))]
        for (new_i, new_j), chance in ends:
            after = list(probabilities)
            after[i], after[j] = new_i, new_j
            for sample, inner in exact_samples(points, tuple(after)).items():
                found[sample] = found.get(sample, 0.0) + chance * inner / len(open_units)
    return found


POINTS = np.array([[0.0, 0.0], [1.0, 0.2], [5.0, 5.1], [5.7, 5.0], [9.0, 0.4]])
SHARES = (0.3, 0.5, 0.6, 0.2, 0.4)


def test_the_local_pivotal_method_keeps_inclusion_probabilities():
    """Followed through every branch, each unit is drawn with exactly the probability that it was given."""
    exact = exact_samples(POINTS, SHARES)
    for unit, share in enumerate(SHARES):
        assert sum(p for sample, p in exact.items() if unit in sample) == pytest.approx(share, abs=1e-12)


def test_samples_are_drawn_as_often_as_enumeration_says():
    """The compiled loop draws each sample with the probability that following every branch gives."""
    exact = exact_samples(POINTS, SHARES)
    rng, count = np.random.default_rng(3), 20_000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(count):
        sample = tuple(pivotal_sample(POINTS, np.array(SHARES), rng).tolist())
        seen[sample] = seen.get(sample, 0) + 1
    assert set(seen) <= set(exact)
    for sample, p in exact.items():
        error = np.sqrt(p * (1 - p) / count)
        assert abs(seen.get(sample, 0) / count - p) < 5 * error + 1e-4


def test_every_beginning_of_an_ordered_draw_has_its_share_of_the_probability():
    """The first r of b units include each unit with r / b of its probability."""
    rng = np.random.default_rng(5)
    points = rng.uniform(0, 1, (30, 2))
    shares = inclusion_probabilities(rng.uniform(0.2, 2, 30), 12)
    runs, counts = 6000, {3: np.zeros(30), 8: np.zeros(30), 12: np.zeros(30)}
    for _ in range(runs):
        order = balanced_order(points, shares, rng)
        assert len(set(order.tolist())) == 12
        for r, seen in counts.items():
            seen[order[:r]] += 1
    for r, seen in counts.items():
        expected = shares * r / 12
        assert np.abs(seen / runs - expected).max() < 5 * np.sqrt(0.25 / runs)


def test_a_large_population_is_thinned_without_changing_probabilities(monkeypatch):
    """Beyond the limit a first phase draws units in proportion, so that inclusion probabilities stay what they were."""
    monkeypatch.setattr(designs, "MOST_UNITS", 20)
    rng = np.random.default_rng(6)
    points, shares = rng.uniform(0, 1, (60, 3)), inclusion_probabilities(rng.uniform(0.1, 5, 60), 6)
    seen, runs = np.zeros(60), 6000
    for _ in range(runs):
        drawn = pivotal_sample(points, shares, rng)
        assert len(drawn) == 6
        seen[drawn] += 1
    assert np.abs(seen / runs - shares).max() < 5 * np.sqrt(0.25 / runs)


def test_a_balanced_sample_is_spread_more_evenly_than_a_plain_one():
    """A mean of a smooth function varies less over balanced samples than over simple random ones."""
    rng = np.random.default_rng(7)
    points = rng.uniform(0, 1, (300, 2))
    values = np.sin(3 * points[:, 0]) + points[:, 1] ** 2
    shares = np.full(300, 16 / 300)
    balanced = [values[balanced_order(points, shares, rng)].mean() for _ in range(400)]
    plain = [values[rng.choice(300, 16, replace=False)].mean() for _ in range(400)]
    assert np.var(balanced) < 0.3 * np.var(plain)


def test_sizes_are_capped_at_certainty():
    """A unit that would be drawn more than once is drawn for certain, and the others share the rest in proportion."""
    shares = inclusion_probabilities(np.array([100.0, 1, 1, 2]), 2)
    np.testing.assert_allclose(shares, [1, 0.25, 0.25, 0.5])
    assert inclusion_probabilities(np.ones(3), 3).tolist() == [1, 1, 1]


def test_disagreement_sizes_follow_the_formula():
    """For two transforms the size is the root of delta' (C + Sigma) delta, mixed with an even floor."""
    rng = np.random.default_rng(8)
    mapped, root = rng.normal(size=(2, 7, 2)), rng.normal(size=(7, 2, 2))
    covariances = root @ root.transpose(0, 2, 1) + np.eye(2)
    own = np.array([np.sqrt(d @ C @ d) for d, C in zip(mapped[0] - mapped[1], covariances, strict=True)])
    np.testing.assert_allclose(
        disagreement_sizes(mapped, covariances, 0.25), 0.75 * own / own.sum() + 0.25 / 7, rtol=1e-12
    )
    same = np.repeat(mapped[:1], 2, axis=0)
    np.testing.assert_allclose(disagreement_sizes(same, covariances, 0.25), 1 / 7)


@pytest.mark.parametrize("shares", [[0.5, 0.2], [1.5, 0.5], [0.5, 0.5, 0.5]])
def test_probabilities_that_make_no_sample_are_refused(shares):
    """Inclusion probabilities lie from 0 to 1, one per point, and add up to a whole number."""
    with pytest.raises(InvalidInputError):
        pivotal_sample(np.zeros((2, 2)), np.array(shares), np.random.default_rng(0))


def test_more_units_than_there_are_cannot_be_drawn():
    """The number to draw is checked against the population."""
    with pytest.raises(InvalidInputError, match="From 3 units"):
        inclusion_probabilities(np.ones(3), 4)
