"""Probability that the error of a transform exceeds a tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Bools, Floats, as_points
from warpgauge.core.factors import lost_to_rounding
from warpgauge.core.parallel import over_items
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, SingularModelError

# ``a + b sqrt(tolerance / deviation)`` Gauss-Legendre nodes along a component, as the ball's boundary crosses small
# deviations faster. Errors below 1e-8, and below 1e-5 with fewer, under the average over the factors of the tails
# (measured for deviations from a three-thousandth of the tolerance on).
_NODES = (24.0, 6.5)
_NODES_OF_AVERAGED = (16.0, 4.0)
_REACH = 6.0  # deviations beyond which a normal variable is taken never to be: probability 2e-9
_ROWS = 2048  # points at a time, whose arrays stay in the cache
_STEP = 8  # numbers of nodes are multiples of it, so that many points share one
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
    to an absolute error below 1e-3. NaN rows of the mapped points give NaN; the tolerance is in world units.
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
    variances, axes = np.linalg.eigh(covariances)
    if not (variances[:, 0] > 0).all():
        raise SingularModelError(lost_to_rounding(int(np.argmin(variances[:, 0]))))
    rotated = np.einsum("nab,na->nb", axes, means)
    factors, shares = _mixture(tails)
    (fewest, more) = _NODES if len(factors) == 1 else _NODES_OF_AVERAGED
    probabilities = np.empty(len(means))

    def block(number: int) -> None:
        rows = slice(number * _ROWS, (number + 1) * _ROWS)
        inside = np.zeros(len(probabilities[rows]))
        for factor, share in zip(factors, shares, strict=True):
            deviations = np.sqrt(factor * variances[rows])
            certain, found = _certain(rotated[rows], deviations, tolerance)
            nodes = _STEP * np.ceil((fewest + more * np.sqrt(tolerance / deviations[:, 1])) / _STEP)
            for count in np.unique(nodes[~certain]):
                alike = ~certain & (nodes == count)
                radii = np.full(np.count_nonzero(alike), tolerance)
                rule = np.polynomial.legendre.leggauss(int(count))
                found[alike] = _within(rotated[rows][alike], deviations[alike], radii, *rule)
            inside += share * found
        probabilities[rows] = 1 - inside

    over_items(lambda: block, -(-len(means) // _ROWS))
    return np.clip(probabilities, 0.0, 1.0)


def _certain(means: Floats, deviations: Floats, tolerance: float) -> tuple[Bools, Floats]:
    """Return where ``P(|X| <= tolerance)`` is 0 or 1 but for 2e-9, and these values.

    By the deviation along the direction of the mean, and by the largest one.
    """
    lengths = np.linalg.norm(means, axis=1)
    along = np.linalg.norm(means * deviations, axis=1)
    far = (lengths - tolerance) * lengths > _REACH * along
    near = tolerance - lengths > (_REACH + 0.5) * deviations[:, -1]
    return far | near, near.astype(np.float64)


def _within(means: Floats, deviations: Floats, radii: Floats, nodes: Floats, weights: Floats) -> Floats:
    """``P(|X| <= radius)`` for independent normal components, (n, d) means and ascending standard deviations.

    The first component by quadrature over the angle psi with ``x = radius sin(psi)``, the others by the same function
    within what is left of the radius, the last one in closed form.
    """
    mean = means[:, 0]
    sd = deviations[:, 0]
    if means.shape[1] == 1:
        above = (radii - mean) / sd
        below = (-radii - mean) / sd
        # From the tail that does not cancel.
        upper = special.ndtr(-below) - special.ndtr(-above)
        lower = special.ndtr(above) - special.ndtr(below)
        return np.where(mean < 0, upper, lower)
    low = np.maximum(-radii, mean - _REACH * sd)
    high = np.maximum(low, np.minimum(radii, mean + _REACH * sd))
    start = np.arcsin(np.clip(low / radii, -1.0, 1.0))
    width = np.arcsin(np.clip(high / radii, -1.0, 1.0)) - start
    total = np.zeros(len(means))
    for node, weight in zip(nodes, weights, strict=True):
        psi = start + width * (1 + node) / 2
        rest = radii * np.cos(psi)
        density = np.exp(-0.5 * np.square((radii * np.sin(psi) - mean) / sd))
        total += weight * density * rest * _within(means[:, 1:], deviations[:, 1:], rest, nodes, weights)
    return np.asarray(total * width / (2 * np.sqrt(2 * np.pi) * sd))


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
