"""Tails of the deviations from the posterior mean: Gaussian as in the paper, or Student-t with the same covariance.

A deviation ``r`` with covariance ``C`` and ``nu`` degrees of freedom is ``sqrt(w) g`` with ``g ~ N(0, C)`` and
``w = (nu - 2) / chi^2_nu``, whose mean is 1. Its squared Mahalanobis length ``r^T C^-1 r`` is distributed as
``d (nu - 2) / nu F(d, nu)``; with infinite ``nu`` that is chi-square with d degrees of freedom. Also p-values that are
adjusted for their number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError

GAUSSIAN = float("inf")


def check_tails(tails: float) -> float:
    """Return the degrees of freedom, of which more than 2 are needed for a covariance to exist."""
    if not tails > 2:
        raise InvalidInputError(f"The tails must be more than 2 degrees of freedom (inf: Gaussian), got {tails!r}.")
    return float(tails)


def level_of(squares: ArrayLike, d: int, tails: float = GAUSSIAN) -> Floats:
    """Probability of a smaller squared Mahalanobis length, in [0, 1]."""
    values = np.asarray(squares, dtype=np.float64)
    if np.isinf(tails):
        return np.asarray(special.chdtr(d, values))
    return np.asarray(special.fdtr(d, tails, values * tails / (d * (tails - 2))))


def beyond(squares: ArrayLike, d: int, tails: float = GAUSSIAN) -> Floats:
    """Probability of a squared Mahalanobis length at least that large: a p-value, accurate where it is small."""
    values = np.asarray(squares, dtype=np.float64)
    if np.isinf(tails):
        return np.asarray(special.chdtrc(d, values))
    return np.asarray(special.fdtrc(d, tails, values * tails / (d * (tails - 2))))


def squared_radius(level: float, d: int, tails: float = GAUSSIAN) -> float:
    """Squared Mahalanobis length that the region of a level reaches: the inverse of :func:`level_of`."""
    if not 0 < level < 1:
        raise InvalidInputError(f"The level of a region must lie between 0 and 1, got {level!r}.")
    if np.isinf(tails):
        return float(special.chdtri(d, 1 - level))
    return float(special.fdtri(d, tails, level) * d * (tails - 2) / tails)


def normal_or_t(values: ArrayLike, tails: float = GAUSSIAN) -> Floats:
    """Probability that a number of mean 0 and variance 1 is smaller than each value."""
    at = np.asarray(values, dtype=np.float64)
    if np.isinf(tails):
        return np.asarray(special.ndtr(at))
    return np.asarray(special.stdtr(tails, at * np.sqrt(tails / (tails - 2))))


def mixing_factors(count: int, tails: float, rng: np.random.Generator) -> Floats:
    """Draw the ``w`` of ``count`` deviations: all 1 for a Gaussian."""
    if np.isinf(tails):
        return np.ones(count)
    return np.asarray((tails - 2) / rng.chisquare(tails, count))


def adjusted_significance(p_values: ArrayLike) -> Floats:
    """Benjamini-Hochberg-adjusted p-values, NaN where the p-value is NaN; the shape stays.

    With m defined p-values in ascending order, ``q_(i) = min over j >= i of p_(j) m / j``: calling everything with
    ``q <= 0.05`` significant keeps the expected share of false calls at 5 % (false discovery rate), for tests that are
    independent or positively dependent, as those of neighbouring elements are.
    """
    p = np.asarray(p_values, dtype=np.float64)
    defined = ~np.isnan(p)
    known = p[defined]
    if known.size and (known.min() < 0 or known.max() > 1):
        raise InvalidInputError("p-values lie between 0 and 1; adjusted_significance got others.")
    order = np.argsort(known, kind="stable")
    adjusted = known[order]
    adjusted *= known.size / np.arange(1, known.size + 1)
    # From the largest down: an adjusted value is never above that of a larger p. The largest is its own p, at most 1.
    adjusted = np.minimum.accumulate(adjusted[::-1])[::-1]
    known[order] = adjusted
    result = np.full(p.shape, np.nan)
    result[defined] = known
    return result
