"""Random designs with known inclusion probabilities: spatially balanced draws from a finite population of points.

Balance comes from the local pivotal method (Grafström, Lundström and Schelin 2012, "Spatially balanced sampling through
the pivotal method", Biometrics 68): neighbours compete for their inclusion probabilities, so that a drawn unit makes
its neighbours unlikely. Every unit keeps its inclusion probability exactly, which is all that the estimators in
`warpgauge.core.estimators` rest on.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Floats, Ints, as_points
from warpgauge.core.bounded_losses import expected_segment_difference, segment_bound
from warpgauge.core.compiled import compile_loop, loop_array
from warpgauge.errors import InvalidInputError

# From a larger population this many units are drawn first, without regard to where they lie; the search for neighbours
# grows with the square of their number.
MOST_UNITS = 4000
# Sizes of the nested samples within an ordered draw: the first 4, 8, 16, ... are each balanced.
_FIRST = 4
_EPS = 1e-9


def inclusion_probabilities(sizes: Floats, count: int) -> Floats:
    """Inclusion probabilities proportional to sizes, none above 1, that add up to ``count``.

    Parameters
    ----------
    sizes : (N,) array
        Positive.
    count : int
        Units to draw, at most N.
    """
    given = np.asarray(sizes, dtype=np.float64)
    if given.ndim != 1 or not np.isfinite(given).all() or not (given > 0).all():
        raise InvalidInputError("Sizes of units must be positive finite numbers.")
    if not 1 <= count <= len(given):
        raise InvalidInputError(f"From {len(given)} units 1 to {len(given)} can be drawn, not {count}.")
    certain = np.zeros(len(given), dtype=bool)
    while True:
        probabilities = np.ones(len(given))
        rest = given[~certain]
        left = count - int(certain.sum())
        probabilities[~certain] = left * rest / rest.sum() if len(rest) else 1.0
        above = ~certain & (probabilities > 1)
        if not above.any():
            return probabilities
        certain |= above


@compile_loop
def _pivotal(points: Floats, probabilities: Floats, uniforms: Floats, eps: float) -> None:
    """Let neighbours compete until every probability is 0 or 1; in place.

    ``uniforms`` (N, 2): which unit starts a fight, and how the fight ends.
    """
    n, d = points.shape
    active = np.empty(n, dtype=np.int64)
    left = 0
    for i in range(n):
        if eps < probabilities[i] < 1 - eps:
            active[left] = i
            left += 1
        else:
            probabilities[i] = 0.0 if probabilities[i] <= eps else 1.0
    step = 0
    while left > 1:
        at = min(left - 1, int(uniforms[step, 0] * left))
        i = active[at]
        other, best = -1, np.inf
        for k in range(left):
            if k == at:
                continue
            distance = 0.0
            for axis in range(d):
                difference = points[active[k], axis] - points[i, axis]
                distance += difference * difference
            if distance < best:
                other, best = k, distance
        j = active[other]
        total = probabilities[i] + probabilities[j]
        if total < 1:
            wins = uniforms[step, 1] * total < probabilities[i]
            probabilities[i], probabilities[j] = (total, 0.0) if wins else (0.0, total)
        else:
            wins = uniforms[step, 1] * (2 - total) < 1 - probabilities[j]
            probabilities[i], probabilities[j] = (1.0, total - 1) if wins else (total - 1, 1.0)
        step += 1
        for k in (max(at, other), min(at, other)):
            unit = active[k]
            if probabilities[unit] <= eps or probabilities[unit] >= 1 - eps:
                probabilities[unit] = 0.0 if probabilities[unit] <= eps else 1.0
                left -= 1
                active[k] = active[left]


def pivotal_sample(points: Floats, probabilities: Floats, rng: np.random.Generator) -> Ints:
    """Draw a spatially balanced sample by the local pivotal method; return the drawn rows, ascending.

    Parameters
    ----------
    points : (N, d) array
    probabilities : (N,) array
        Inclusion probabilities; they add up to the size of the sample, a whole number.
    rng : Generator
    """
    at, given = as_points(points, "points"), np.array(probabilities, dtype=np.float64)
    size = float(given.sum())
    if given.shape != (len(at),) or (given < 0).any() or (given > 1 + _EPS).any():
        raise InvalidInputError("A sample needs one inclusion probability from 0 to 1 for every point.")
    if abs(size - round(size)) > 1e-6:
        raise InvalidInputError(f"Inclusion probabilities must add up to a whole number, not {size!r}.")
    rows = np.arange(len(at))
    if len(at) > MOST_UNITS and round(size) < MOST_UNITS:
        # A first phase without balance: systematic, in random order, with probabilities in proportion.
        first = inclusion_probabilities(np.maximum(given, 1e-300), MOST_UNITS)
        kept = _systematic(first, rng)
        rows, given = rows[kept], given[kept] / first[kept]
    left = loop_array(np.clip(given, 0.0, 1.0))
    _pivotal(loop_array(at[rows]), left, rng.random((len(rows), 2)), _EPS)
    # Where the sum is off a whole number by rounding, the last unit decides by its own probability.
    last = np.flatnonzero((left > _EPS) & (left < 1 - _EPS))
    left[last] = rng.random(len(last)) < left[last]
    return np.asarray(np.sort(rows[left > 0.5]), dtype=np.int64)


def _systematic(probabilities: Floats, rng: np.random.Generator) -> Ints:
    """Draw rows systematically in random order; each has its inclusion probability."""
    order = rng.permutation(len(probabilities))
    below = np.concatenate([[0.0], np.cumsum(probabilities[order])])
    hits = np.floor(below + rng.random())
    return np.asarray(np.sort(order[np.diff(hits) > 0]), dtype=np.int64)


def balanced_order(points: Floats, probabilities: Floats, rng: np.random.Generator) -> Ints:
    """Draw a spatially balanced sample in an order of which every beginning is a sample too.

    The first r of the b drawn units include unit i with the probability ``r / b`` times its own. The first 4, 8, 16,
    ... are each balanced: they are drawn by the local pivotal method from the next larger ones.

    Parameters
    ----------
    points, probabilities, rng
        As `pivotal_sample` takes them.

    Returns
    -------
    (b,) array of int
        Drawn rows, in the order in which they are to be asked.
    """
    at = as_points(points, "points")
    chosen = pivotal_sample(at, probabilities, rng)
    order: list[Ints] = []
    while len(chosen) > _FIRST:
        half = _FIRST
        while 2 * half < len(chosen):
            half *= 2
        inner = pivotal_sample(at[chosen], np.full(len(chosen), half / len(chosen)), rng)
        outside = np.setdiff1d(np.arange(len(chosen)), inner)
        order.append(rng.permutation(chosen[outside]))
        chosen = chosen[inner]
    order.append(rng.permutation(chosen))
    return np.concatenate(order[::-1])


def disagreement_sizes(mapped: Floats, covariances: Floats, floor: float) -> Floats:
    """Sizes that grow with how much transforms disagree, weighed by how little is known in that direction.

    For two transforms with the difference ``delta`` the size is ``sqrt(delta^T (C + Sigma) delta)``, the standard
    deviation of half the difference of their squared errors, given what is known. For more, squared sizes of all pairs
    are added, each pair scaled to the same mean. A share ``floor`` of the probability is spread evenly.

    Parameters
    ----------
    mapped : (K, N, d) array
        The transforms at all units; NaN where one is not defined.
    covariances : (N, d, d) array
        ``C + Sigma``: posterior covariance of the match, plus that of a placement.
    floor : float
        From 0 to 1.

    Returns
    -------
    (N,) array
        Positive sizes that add up to 1.
    """
    K, N, _ = mapped.shape
    squares = np.zeros(N)
    for a in range(K):
        for b in range(a):
            delta = mapped[a] - mapped[b]
            own = np.einsum("na,nab,nb->n", delta, covariances, delta)
            own = np.where(np.isfinite(own), own, 0.0)
            mean = float(np.sqrt(np.maximum(own, 0)).mean())
            if mean > 0:
                squares += np.maximum(own, 0) / mean**2
    sizes = np.sqrt(squares)
    total = float(sizes.sum())
    if total == 0:
        return np.full(N, 1 / N)
    return np.asarray((1 - floor) * sizes / total + floor / N)


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
