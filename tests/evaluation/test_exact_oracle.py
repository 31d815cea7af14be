"""The exact mode against the slow version of it, and against a prototype that was written independently."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import oracle
from evaluation.test_exact_verdict import audit
from warpgauge.audit import bounded_losses, log_wealth, pooled_tickets, sequential_draw
from warpgauge.audit.tickets import fewest_answers, tickets
from warpgauge.evaluation import CLEAR, exact_verdict, ladder_of

PROTOTYPE = Path(os.environ.get("WARPGAUGE_DATA", "missing")).parent / "prototypes" / "exact.py"


def test_losses_and_tickets_are_those_of_slow_loops() -> None:
    rng = np.random.default_rng(1)
    first, second, y = rng.normal(size=(3, 30, 3)) * np.array([1.0, 2.0, 4.0])[:, None, None]
    second[4] = first[4]
    for beyond in (0.0, 0.5, 3.0, 50.0):
        slow = [oracle.segment_difference(a, b, c, beyond) for a, b, c in zip(first, second, y, strict=True)]
        found = bounded_losses.segment_difference(first, second, y, beyond)
        np.testing.assert_allclose(found, slow, rtol=1e-12, atol=1e-12)
    values, q = rng.exponential(size=12), rng.uniform(0.1, 0.6, 12)
    np.testing.assert_allclose(tickets(values, q, 40.0), oracle.draw_tickets(values, q, 40.0), rtol=1e-12)


@pytest.mark.parametrize("seed", [2, 3])
def test_a_verdict_is_what_slow_wealth_says(seed: int) -> None:
    """Of two transforms after 14 answers, at a level at which the slow wealth is just enough, and just not."""
    rng, truth = np.random.default_rng(seed), np.zeros((150, 2))
    mapped = np.stack([1.0 * rng.normal(size=(150, 2)), 3.0 * rng.normal(size=(150, 2))])
    data = audit(mapped, truth, 14, rng)
    rows, apart = data.draws.rows, np.linalg.norm(mapped[1] - mapped[0], axis=1)
    ladder = ladder_of(data.pixel, data.diagonal)
    seen = exact_verdict(data).pairs[0].seen_beyond
    needed = int(np.searchsorted(ladder, seen)) + 1 + CLEAR
    mean, steps = oracle.exact_claims(
        data.mapped[0], data.mapped[1], data.matches, apart, rows, data.draws.probabilities, ladder[:needed]
    )
    enough = min(mean, *steps)
    assert enough > 2
    # Two transforms: half of the error rate for each of them.
    assert exact_verdict(data, level=1 - 2 / enough * (1 + 1e-9)).best == "a"
    assert exact_verdict(data, level=1 - 2 / enough * (1 - 1e-9)).best is None


@pytest.fixture
def prototype() -> ModuleType:
    if not PROTOTYPE.is_file():
        pytest.skip("the prototype is not at hand")
    made = importlib.util.spec_from_file_location("exact_prototype", PROTOTYPE)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


def test_figures_of_the_prototype(prototype: ModuleType) -> None:
    """Losses, bounds, tickets of certificate and gate, and the fewest answers, to 1e-12."""
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(200, 2)), 2 * rng.normal(size=(200, 2))
    apart = np.linalg.norm(second - first, axis=1)
    rows, q = sequential_draw(apart / apart.sum(), 40, rng)
    y = rng.normal(size=(40, 2))
    for beyond in (1.0, 5.0):
        d = prototype.segment_difference(first[rows], second[rows], y, beyond)
        c = prototype.segment_bound(apart, beyond)
        own = bounded_losses.segment_difference(first[rows], second[rows], y, beyond)
        np.testing.assert_allclose(own, d, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(bounded_losses.segment_bound(apart, beyond), c, rtol=1e-12)
        expected = prototype.tickets_without(d, c[rows], q, c.sum())
        np.testing.assert_allclose(tickets(c[rows] + own, q, c.sum()), expected, rtol=1e-12)
        # Both mix stakes by Beta(2, 1/2), the prototype on a grid of 26: wealth agrees in size, not in digits.
        told = prototype.mixture_wealth(expected, prototype.beta_prior(2.0, 0.5))
        assert np.abs(log_wealth(expected) - told).max() < 0.5
    lengths = prototype.length_difference(first[rows], second[rows], y)
    np.testing.assert_allclose(
        bounded_losses.length_difference(first[rows], second[rows], y), lengths, rtol=1e-12, atol=1e-12
    )
    assert fewest_answers(0.3, 1.7, 0.05) == pytest.approx(prototype.floor_answers(0.3, 1.7), rel=1e-12)
    delta, e, squares = (second - first)[rows], y - first[rows], float(np.square(apart).mean())
    t = (1 + 0.1) ** 2 - 1
    drawn = prototype.gate_relative_tickets(delta, e, q, squares, 0.1, 200)
    values = np.square(t * e + delta).sum(axis=1) / 200
    # With replacement nothing is taken from what is left: each draw for itself.
    each = [
        pooled_tickets(v.reshape(1, 1), p.reshape(1, 1), (1 + t) * squares)[0] for v, p in zip(values, q, strict=True)
    ]
    np.testing.assert_allclose(each, drawn, rtol=1e-12)
