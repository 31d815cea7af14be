"""Random draws with known probabilities: units of a finite population, one at a time without replacement.

The conditional probability of every draw is known, which is all that proofs (`warpgauge.audit.tickets`) and estimates
rest on. The sizes by which units are drawn only decide how many answers it takes.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Floats, Ints
from warpgauge.errors import InvalidInputError


def sequential_draw(sizes: Floats, count: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Draw units one at a time, each in proportion to its size (N,) among those left; units of size 0 never.

    Returns the rows (n,) in the order of the draws, and the probability (n,) of each draw among the units left.
    """
    left = np.array(sizes, dtype=np.float64)
    if left.ndim != 1 or not np.isfinite(left).all() or (left < 0).any():
        raise InvalidInputError("Sizes of units must be finite numbers of at least 0.")
    rows = []
    probabilities = []
    for _ in range(min(count, int((left > 0).sum()))):
        shares = np.cumsum(left)
        row = int(np.searchsorted(shares, rng.random() * shares[-1], side="right"))
        row = min(row, int(np.flatnonzero(left)[-1]))
        rows.append(row)
        probabilities.append(left[row] / shares[-1])
        left[row] = 0.0
    return np.array(rows, dtype=np.int64), np.array(probabilities, dtype=np.float64)


def contest_sizes(mapped: Floats, means: Floats, covariances: Floats, floor: float) -> Floats:
    """Return sizes (N,), adding up to 1, to draw units by so that answers tell which of several transforms is best.

    A ticket for "a is nearer than b" is the distance c of the two plus the difference of their errors. Drawn in
    proportion to what is expected of it, tickets are constant where the expectation is right; a quarter follows c
    alone. Averaged over the pairs of the expected leader with each other transform. Whatever is expected, what answers
    prove is valid; a wrong expectation only costs answers.

    Parameters
    ----------
    mapped : (K, N, d) array
        Two transforms or more at all units.
    means, covariances : (N, d) and (N, d, d) arrays
        Of the answers, as expected by a model, the noise of a placement included.
    floor : float
        Share of the probability that is spread evenly.
    """
    K, N, _ = mapped.shape
    variances = np.trace(covariances, axis1=1, axis2=2)
    errors = np.sqrt(np.square(mapped - means).sum(axis=2) + variances)
    leader = int(errors.sum(axis=1).argmin())
    sizes = np.zeros(N)
    for other in range(K):
        apart = np.linalg.norm(mapped[other] - mapped[leader], axis=1)
        ticket = np.maximum(apart + errors[other] - errors[leader], 0.0)
        if apart.any():
            sizes += 0.25 * apart / apart.sum() + 0.75 * ticket / ticket.sum()
    if not sizes.any():
        return np.full(N, 1 / N)
    return np.asarray((1 - floor) * sizes / sizes.sum() + floor / N)


def mean_weights(probabilities: Floats, population: int) -> Floats:
    """Return weights (n,) by which the values of drawn units add up to an unbiased estimate of the population's mean.

    Kossen, Farquhar, Gal and Rainforth 2021 ("Active Testing", R_LURE): they make it the plain mean where all
    probabilities are equal.
    """
    n = len(probabilities)
    before = np.arange(n)
    later = (population - n) / np.maximum(population - before - 1, 1)
    return np.asarray((1 + later * (1 / ((population - before) * probabilities) - 1)) / max(n, 1))
