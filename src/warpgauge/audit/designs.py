"""Random designs with known probabilities: units of a finite population, drawn one at a time without replacement.

The conditional probability of every draw is known, which is all that exact verdicts (`warpgauge.audit.tickets`) and the
estimators in `warpgauge.audit.estimators` rest on. The sizes by which units are drawn only decide how many answers it
takes.
"""

from __future__ import annotations

import numpy as np

from warpgauge.audit.bounded_losses import expected_segment_difference, segment_bound
from warpgauge.core.arrays import Floats, Ints
from warpgauge.errors import InvalidInputError


def draw_sizes(bounds: Floats, expected: Floats | None = None) -> Floats:
    """Return sizes to draw units by: in proportion to the bounds, or mostly to bound plus expected difference.

    With an expectation f of d, ``c / 4`` plus three quarters of ``c + f`` (``c - f`` where the mean of f is negative):
    drawn in proportion to ``c + f``, tickets are constant if f is right.

    Parameters
    ----------
    bounds : (N,) array
        c, at least 0.
    expected : (N,) array, optional
        f, of a size of at most c.

    Returns
    -------
    (N,) array
        Sizes that add up to 1; all zero where all bounds are.
    """
    even = bounds / (bounds.sum() or 1.0)
    if expected is None:
        return np.asarray(even)
    leaning = bounds + expected * (1.0 if expected.sum() >= 0 else -1.0)
    leaning = np.maximum(leaning, 0.0)
    return np.asarray(0.25 * even + 0.75 * leaning / leaning.sum()) if leaning.sum() > 0 else np.asarray(even)


def contest_sizes(mapped: Floats, means: Floats, covariances: Floats, beyond: float, floor: float) -> Floats:
    """Return sizes to draw units by, so that answers decide which of several transforms is best.

    Half follows the bounds of the mean error and half those of the squared error, each leaning to where the expected
    leader is expected to win (`draw_sizes`); averaged over all pairs of the leader with another transform. Whatever
    is expected, a verdict from such draws is valid; it only needs more answers.

    Parameters
    ----------
    mapped : (K, N, d) array
        Two transforms or more at all units.
    means, covariances : (N, d) and (N, d, d) arrays
        Of the answers, as expected by a model, the noise of a placement included.
    beyond : float
        How far outside the segment between two transforms answers count in full.
    floor : float
        Share of the probability that is spread evenly.

    Returns
    -------
    (N,) array
        Sizes that add up to 1.
    """
    K, N, _ = mapped.shape
    leader = int(np.square(mapped - means).sum(axis=(1, 2)).argmin())
    sizes = np.zeros(N)
    for other in (k for k in range(K) if k != leader):
        apart = np.linalg.norm(mapped[other] - mapped[leader], axis=1)
        squares = segment_bound(apart, beyond)
        expected = expected_segment_difference(mapped[leader], mapped[other], means, covariances, beyond)
        leaning = expected / np.where(squares > 0, squares, 1.0)
        sizes += draw_sizes(apart, leaning * apart) + draw_sizes(squares, expected)
    total = float(sizes.sum())
    return np.asarray((1 - floor) * sizes / total + floor / N) if total > 0 else np.full(N, 1 / N)


def sequential_draw(sizes: Floats, count: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Draw units one at a time without replacement, each in proportion to its size among those left.

    Parameters
    ----------
    sizes : (N,) array
        At least 0; units of size 0 are never drawn.
    count : int
        Units to draw; fewer are drawn where fewer have a size.
    rng : Generator

    Returns
    -------
    rows : (n,) array of int
    probabilities : (n,) array
        Of each draw, among the units left at that time.
    """
    given = np.array(sizes, dtype=np.float64)
    if given.ndim != 1 or not np.isfinite(given).all() or (given < 0).any():
        raise InvalidInputError("Sizes of units must be finite numbers of at least 0.")
    rows, probabilities = [], []
    for _ in range(min(count, int((given > 0).sum()))):
        shares = np.cumsum(given)
        row = int(np.searchsorted(shares, rng.random() * shares[-1], side="right"))
        row = min(row, int(np.flatnonzero(given)[-1]))
        rows.append(row)
        probabilities.append(given[row] / shares[-1])
        given[row] = 0.0
    return np.array(rows, dtype=np.int64), np.array(probabilities, dtype=np.float64)
