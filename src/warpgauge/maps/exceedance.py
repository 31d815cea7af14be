"""Probability that the error of a transform exceeds a tolerance; the quadrature is in `exceedance_loops`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.factors import lost_to_rounding
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, SingularModelError

Rule = tuple[int, float, float]
# Panels to start with, and the error of the 7-node rule in a panel; the 15-node result, which is used, is better by
# far. A plane of a 3D integral may be less exact, since the errors of many planes are averaged.
EXACT: Rule = 3, 1e-8, 1e-6  # to 1e-6: each panel spans at most four deviations
# For what is averaged over several factors: to 2e-5, but for a boundary that is flat to the density (deviations below a
# thousandth of the tolerance), where two panels can agree by chance; 7e-4 was the largest of 22,000 such and others.
QUICK: Rule = 2, 1e-5, 1e-4
_COST = 20_000  # of a row, in the units of over_rows: enough that threads pay for few rows
# Nodes over the mixing factor, with which the error stays below 3e-4 (measured): heavier tails spread the factor wider.
_NODES, _NODES_OF_HEAVY, _HEAVY = 10, 24, 4.0
_LEAST_SHARE = 1e-5  # of a node that is worth its time


def exceedance_probability(
    posterior: Posterior, points: ArrayLike, mapped_points: ArrayLike, tolerance: float
) -> Floats:
    """Posterior probability that ``|phi(x) - mapped(x)| > tolerance`` at each point, shape (n,).

    With Gaussian tails the true match is ``N(mu_|A, k_|A)``, so the squared error is a generalised noncentral
    chi-square variable. With isotropic noise it is a scaled noncentral chi-square one, and its distribution function is
    used. Otherwise the probability is integrated in the eigenbasis of ``k_|A`` by adaptive quadrature, to an absolute
    error below 1e-6. With Student-t tails that is averaged over the factor on the covariance, to an absolute error
    below 1e-3.

    Parameters
    ----------
    posterior : Posterior
    points, mapped_points : (n, d) arrays
        Fixed points and where the transform maps them; NaN rows of the latter give NaN.
    tolerance : float
        In world units, above 0.
    """
    at = as_points(points, "points", posterior.d)
    mapped = np.asarray(mapped_points, dtype=np.float64)
    if mapped.shape != at.shape:
        raise InvalidInputError(f"exceedance_probability needs a mapped point for each of {len(at)} points.")
    if not (np.isfinite(tolerance) and tolerance > 0):
        raise InvalidInputError(f"The tolerance must be a positive length in world units, got {tolerance!r}.")
    result = np.full(len(at), np.nan)
    defined = np.isfinite(mapped).all(axis=1)
    if not defined.any():
        return result
    inside = at[defined]
    factors, weights = factor_quadrature(posterior.prior.tails)
    if posterior.isotropic:
        from scipy import stats  # takes longer to load than all of the core

        mean, deviations = posterior.mean_and_deviation(inside)
        variances, squares = np.square(deviations), np.square(mapped[defined] - mean).sum(axis=1)
        by_factor: Iterator[Floats] = (
            stats.ncx2.sf(tolerance**2 / scaled, posterior.d, squares / scaled)
            for scaled in (factor * variances for factor in factors)
        )
    else:
        mean, covariances = posterior.mean_and_covariance(inside)
        by_factor = gaussian_exceedances(mapped[defined] - mean, covariances, tolerance, factors)
    result[defined] = sum(weight * given for weight, given in zip(weights, by_factor, strict=True))
    return result


def factor_quadrature(tails: float) -> tuple[Floats, Floats]:
    """Nodes and weights over ``w = (nu - 2) / chi^2_nu``, the factor that makes a Gaussian deviation a Student-t one.

    Gauss-Hermite nodes, taken as normal scores of the chi-square variable: probabilities are smooth functions of the
    logarithm of the factor, which is nearly a linear one of the score. Nodes that barely
    count are left out. One node, 1, for a Gaussian.
    """
    if np.isinf(tails):
        return np.ones(1), np.ones(1)
    scores, weights = np.polynomial.hermite_e.hermegauss(_NODES if tails >= _HEAVY else _NODES_OF_HEAVY)
    # From the nearer end, as a probability close to 1 has no digits left.
    halves = np.where(
        scores < 0,
        special.gammaincinv(tails / 2, special.ndtr(scores)),
        special.gammainccinv(tails / 2, special.ndtr(-scores)),
    )
    factors, shares = (tails - 2) / (2 * halves), weights / weights.sum()
    kept = shares > _LEAST_SHARE
    return np.asarray(factors[kept]), np.asarray(shares[kept] / shares[kept].sum())


def gaussian_exceedance(means: Floats, covariances: Floats, tolerance: float) -> Floats:
    """``P(|X| > tolerance)`` for X with (n, d) means and (n, d, d) covariances, by quadrature in the eigenbasis."""
    return next(gaussian_exceedances(means, covariances, tolerance, np.ones(1)))


def gaussian_exceedances(means: Floats, covariances: Floats, tolerance: float, factors: Floats) -> Iterator[Floats]:
    """Return the same for each factor on all covariances, one after the other."""
    values, vectors = np.linalg.eigh(covariances)
    if not (values[:, 0] > 0).all():
        raise SingularModelError(lost_to_rounding(int(np.argmin(values[:, 0]))))
    rotated = np.ascontiguousarray(np.einsum("nab,na->nb", vectors, means))
    # More digits than the average over the factors has would be lost in it.
    rule = EXACT if len(factors) == 1 else QUICK
    for factor in factors:
        yield _in_eigenbasis(rotated, np.sqrt(factor * values), float(tolerance), rule)


def _in_eigenbasis(means: Floats, deviations: Floats, tolerance: float, rule: Rule) -> Floats:
    """``P(|X| > tolerance)`` for X with independent components, their standard deviations ascending."""
    from warpgauge.maps.exceedance_loops import exceedance_rows  # loads the compiler

    result = np.empty(len(means))

    def work(start: int, stop: int) -> None:
        exceedance_rows(means, deviations, tolerance, start, stop, result, *rule)

    over_rows(work, len(means), _COST)
    return result
