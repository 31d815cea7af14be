"""Probability that the error of a transform exceeds a tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.factors import lost_to_rounding
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, SingularModelError

# Panels to start with, of at most four deviations each, and the error of the 7-node rule in one; the 15-node result,
# which is used, is better by far. A plane of a 3D integral may be less exact, as the errors of many are averaged.
_PANELS = 3
_ERROR = {2: 1e-8, 3: 1e-6}
# For what is averaged over several factors: to 2e-5, but for a boundary that is flat to the density (deviations below a
# thousandth of the tolerance), where two panels can agree by chance; 7e-4 was the largest of 22,000 such and others.
_PANELS_OF_AVERAGED = 2
_ERROR_OF_AVERAGED = {2: 1e-5, 3: 1e-4}
_COST = 20_000  # of a row, in the units of over_rows: enough that threads pay for few rows
# Nodes over the mixing factor, with which the error stays below 3e-4 (measured): heavier tails spread the factor wider.
_FACTORS = 10
_FACTORS_OF_HEAVY = 24
_HEAVY = 4.0
_LEAST_SHARE = 1e-5  # of a node that is worth its time


def exceedance_probability(
    posterior: Posterior, points: ArrayLike, mapped_points: ArrayLike, tolerance: float
) -> Floats:
    """Posterior probability that ``|phi(x) - mapped(x)| > tolerance`` at each point, shape (n,).

    With Gaussian tails the true match is ``N(mu_|A, k_|A)``; the probability is integrated in the eigenbasis of
    ``k_|A``, to an absolute error below 1e-6. With Student-t tails that is averaged over the factor on the covariance,
    to an absolute error below 1e-3.

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
    probabilities = np.full(len(at), np.nan)
    defined = np.isfinite(mapped).all(axis=1)
    if defined.any():
        mean, covariances = posterior.mean_and_covariance(at[defined])
        errors = mapped[defined] - mean
        probabilities[defined] = exceedance(errors, covariances, tolerance, posterior.prior.tails)
    return probabilities


def exceedance(means: Floats, covariances: Floats, tolerance: float, tails: float = np.inf) -> Floats:
    """``P(|X| > tolerance)`` for normal or Student-t X with (n, d) means and (n, d, d) covariances, shape (n,)."""
    from warpgauge.core import loops  # loads the compiler

    variances, axes = np.linalg.eigh(covariances)
    if not (variances[:, 0] > 0).all():
        raise SingularModelError(lost_to_rounding(int(np.argmin(variances[:, 0]))))
    rotated = np.ascontiguousarray(np.einsum("nab,na->nb", axes, means))
    factors, shares = _mixture(tails)
    # More digits than the average over the factors has would be lost in it.
    panels = _PANELS if len(factors) == 1 else _PANELS_OF_AVERAGED
    error = (_ERROR if len(factors) == 1 else _ERROR_OF_AVERAGED)[means.shape[1]]
    inside = np.zeros(len(means))
    for factor, share in zip(factors, shares, strict=True):
        deviations = np.sqrt(factor * variances)

        def work(start: int, stop: int, deviations: Floats = deviations, share: float = share) -> None:
            rows = slice(start, stop)
            loops.add_within(rotated[rows], deviations[rows], tolerance, panels, error, share, inside[rows])

        over_rows(work, len(means), _COST)
    return np.clip(1 - inside, 0.0, 1.0)


def _mixture(tails: float) -> tuple[Floats, Floats]:
    """Nodes and weights over ``w = (nu - 2) / chi^2_nu``, the factor that makes a Gaussian deviation a Student-t one.

    Gauss-Hermite nodes, taken as normal scores of the chi-square variable: probabilities are smooth functions of the
    logarithm of the factor, which is nearly a linear one of the score. One node, 1, for a Gaussian.
    """
    if np.isinf(tails):
        return np.ones(1), np.ones(1)
    scores, weights = np.polynomial.hermite_e.hermegauss(_FACTORS if tails >= _HEAVY else _FACTORS_OF_HEAVY)
    # From the nearer end, as a probability close to 1 has no digits left.
    low = special.gammaincinv(tails / 2, special.ndtr(scores))
    high = special.gammainccinv(tails / 2, special.ndtr(-scores))
    factors = (tails - 2) / (2 * np.where(scores < 0, low, high))
    shares = weights / weights.sum()
    worth = shares > _LEAST_SHARE
    return factors[worth], shares[worth] / shares[worth].sum()
