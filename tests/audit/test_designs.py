"""Sizes by which an audit draws its questions; draws one at a time are tested in `test_tickets`."""

from __future__ import annotations

import numpy as np

from warpgauge.audit.bounded_losses import expected_segment_difference
from warpgauge.audit.designs import contest_sizes, draw_sizes

WIDE = 1e8 * np.eye(2)


def population() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(3, 40, 2)), rng.normal(size=(40, 2))


def test_sizes_of_two_transforms_follow_both_bounds_and_what_is_expected() -> None:
    mapped, means = population()
    covariances = np.broadcast_to(0.3 * np.eye(2), (40, 2, 2))
    found = contest_sizes(mapped[:2], means, covariances, 0.5, 0.1)
    leader = int(np.square(mapped[:2] - means).sum(axis=(1, 2)).argmin())
    a, b = mapped[leader], mapped[1 - leader]
    apart = np.linalg.norm(a - b, axis=1)
    squares = apart**2 + apart
    expected = expected_segment_difference(a, b, means, covariances, 0.5)
    both = draw_sizes(apart, expected / squares * apart) + draw_sizes(squares, expected)
    np.testing.assert_allclose(found, 0.9 * both / 2 + 0.1 / 40, rtol=1e-12)
    np.testing.assert_allclose(found.sum(), 1)


def test_without_knowledge_sizes_follow_the_distances_alone_whichever_comes_first() -> None:
    mapped, means = population()
    wide = np.broadcast_to(WIDE, (40, 2, 2))
    apart = np.linalg.norm(mapped[0] - mapped[1], axis=1)
    plain = apart / apart.sum() + (apart**2 + 6 * apart) / (apart**2 + 6 * apart).sum()
    for pair in (mapped[:2], mapped[1::-1]):
        np.testing.assert_allclose(contest_sizes(pair, means, wide, 3.0, 0.0), plain / 2, rtol=1e-3)


def test_equal_transforms_are_drawn_evenly_and_the_floor_holds() -> None:
    mapped, means = population()
    covariances = np.broadcast_to(np.eye(2), (40, 2, 2))
    same = np.stack([mapped[0], mapped[0]])
    np.testing.assert_allclose(contest_sizes(same, means, covariances, 1.0, 0.1), 1 / 40)
    near = mapped.copy()
    near[1:, :5] = near[0, :5]
    assert (contest_sizes(near, means, covariances, 1.0, 0.2)[:5] == 0.2 / 40).all()
