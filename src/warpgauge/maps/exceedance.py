"""Probability that the error of a transform exceeds a tolerance, and the compiled quadrature behind it.

The quadrature is of ``P(|X| <= t)`` for independent ``X_a ~ N(m_a, s_a^2)``, the standard deviations ascending. In 2D
the second component is integrated in closed form and the first by adaptive Gauss-Kronrod quadrature (7 and 15 nodes)
after ``x = t sin(psi)``, which takes away the square root at both ends. In 3D the same is done once more around it. The
component with the smallest deviation is outermost: within its few deviations the inner probability changes slowly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.compiled import compile_loop  # one set of compiler options for the whole package
from warpgauge.core.factors import lost_to_rounding
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, SingularModelError

_KRONROD_NODES = np.array([
    0.991455371120812639206854697526329, 0.949107912342758524526189684047851, 0.864864423359769072789712788640926,
    0.741531185599394439863864773280788, 0.586087235467691130294144691693013, 0.405845151377397166906606412076961,
    0.207784955007898467600689403773245, 0.0,
])  # fmt: skip
_KRONROD = np.array([
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204, 0.104790010322250183839876322541518,
    0.140653259715525918745189590510238, 0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
])  # fmt: skip
_GAUSS = np.array([
    0.0, 0.129484966168869693270611432679082, 0.0, 0.279705391489276667901467771423780,
    0.0, 0.381830050505118944950369775488975, 0.0, 0.417959183673469387755102040816327,
])  # fmt: skip
Rule = tuple[int, float, float]
# Panels to start with, and the error of the 7-node rule in a panel; the 15-node result, which is used, is better by
# far. A plane of a 3D integral may be less exact, since the errors of many planes are averaged.
EXACT: Rule = 3, 1e-8, 1e-6  # to 1e-6: each panel spans at most four deviations
# For what is averaged over several factors: to 2e-5, but for a boundary that is flat to the density (deviations below a
# thousandth of the tolerance), where two panels can agree by chance; 7e-4 was the largest of 22,000 such and others.
QUICK: Rule = 2, 1e-5, 1e-4
_STACK = 64
_REACH = 6.0  # deviations beyond which a normal variable is taken never to be: probability 2e-9


@compile_loop
def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@compile_loop
def _between(low: float, high: float) -> float:
    """Probability of a standard normal between two numbers, from the tail that does not cancel."""
    if low > 0:
        return _phi(-low) - _phi(-high)
    return _phi(high) - _phi(low)


@compile_loop
def _density(x: float, m: float, s: float) -> float:
    z = (x - m) / s
    return math.exp(-0.5 * z * z) * 0.3989422804014327 / s


@compile_loop
def _integrand_2d(psi: float, m: Floats, s: Floats, t: float) -> float:
    """Density of the last component but one times the closed form of the last, on the circle of radius t."""
    h = t * math.cos(psi)
    k = m.shape[0] - 2
    inner = _between((-h - m[k + 1]) / s[k + 1], (h - m[k + 1]) / s[k + 1])
    return _density(t * math.sin(psi), m[k], s[k]) * h * inner


@compile_loop
def _inside_2d(m: Floats, s: Floats, t: float, stack: Floats, panels: int, tolerance: float) -> float:
    """P(|(X_1, X_2)| <= t) of the last two components; ``stack`` is (64, 2) scratch."""
    k = m.shape[0] - 2
    low, high = max(-t, m[k] - _REACH * s[k]), min(t, m[k] + _REACH * s[k])
    if not low < high:
        return 0.0
    start, end = math.asin(max(low / t, -1.0)), math.asin(min(high / t, 1.0))
    for panel in range(panels):
        stack[panel, 0] = start + (end - start) * panel / panels
        stack[panel, 1] = start + (end - start) * (panel + 1) / panels
    top, total = panels, 0.0
    while top > 0:
        top -= 1
        a, b = stack[top, 0], stack[top, 1]
        middle, half = 0.5 * (a + b), 0.5 * (b - a)
        value = _integrand_2d(middle, m, s, t)
        kronrod, gauss = _KRONROD[7] * value, _GAUSS[7] * value
        for i in range(7):
            value = _integrand_2d(middle - half * _KRONROD_NODES[i], m, s, t)
            value += _integrand_2d(middle + half * _KRONROD_NODES[i], m, s, t)
            kronrod += _KRONROD[i] * value
            gauss += _GAUSS[i] * value
        if abs(kronrod - gauss) * half <= tolerance or top + 2 > _STACK:
            total += kronrod * half
        else:
            stack[top, 0], stack[top, 1] = a, middle
            stack[top + 1, 0], stack[top + 1, 1] = middle, b
            top += 2
    return total


@compile_loop
def _integrand_3d(psi: float, m: Floats, s: Floats, t: float, stack: Floats, panels: int, tolerance: float) -> float:
    h = t * math.cos(psi)
    if h <= 0:
        return 0.0
    return _density(t * math.sin(psi), m[0], s[0]) * h * _inside_2d(m, s, h, stack, panels, tolerance)


@compile_loop
def _inside_3d(m: Floats, s: Floats, t: float, stack: Floats, inner: Floats, panels: int, tolerance: float) -> float:
    """P(|X| <= t) of three components; the loop of `_inside_2d` once more (compiled code cannot take it as value)."""
    low, high = max(-t, m[0] - _REACH * s[0]), min(t, m[0] + _REACH * s[0])
    if not low < high:
        return 0.0
    start, end = math.asin(max(low / t, -1.0)), math.asin(min(high / t, 1.0))
    for panel in range(panels):
        stack[panel, 0] = start + (end - start) * panel / panels
        stack[panel, 1] = start + (end - start) * (panel + 1) / panels
    top, total = panels, 0.0
    while top > 0:
        top -= 1
        a, b = stack[top, 0], stack[top, 1]
        middle, half = 0.5 * (a + b), 0.5 * (b - a)
        value = _integrand_3d(middle, m, s, t, inner, panels, tolerance)
        kronrod, gauss = _KRONROD[7] * value, _GAUSS[7] * value
        for i in range(7):
            value = _integrand_3d(middle - half * _KRONROD_NODES[i], m, s, t, inner, panels, tolerance)
            value += _integrand_3d(middle + half * _KRONROD_NODES[i], m, s, t, inner, panels, tolerance)
            kronrod += _KRONROD[i] * value
            gauss += _GAUSS[i] * value
        if abs(kronrod - gauss) * half <= tolerance or top + 2 > _STACK:
            total += kronrod * half
        else:
            stack[top, 0], stack[top, 1] = a, middle
            stack[top + 1, 0], stack[top + 1, 1] = middle, b
            top += 2
    return total


@compile_loop
def exceedance_rows(
    means: Floats,
    deviations: Floats,
    t: float,
    start: int,
    stop: int,
    result: Floats,
    panels: int,
    tolerance: float,
    tolerance_of_plane: float,
) -> None:
    """``P(|X| > t)`` for rows ``start:stop`` of (n, d) means and ascending standard deviations in the eigenbasis."""
    d = means.shape[1]
    outer, inner = np.empty((_STACK, 2)), np.empty((_STACK, 2))
    for row in range(start, stop):
        m, s = means[row], deviations[row]
        length, along = 0.0, 0.0
        for a in range(d):
            length += m[a] * m[a]
            along += m[a] * m[a] * s[a] * s[a]
        length = math.sqrt(length)
        # Certain cases by bounds of less than 1e-8: along the direction of the mean, and by the largest deviation.
        if length > t and (length - t) > _REACH * math.sqrt(along) / length:
            result[row] = 1.0
        elif t > length and (t - length) > (_REACH + 0.5) * s[d - 1]:
            result[row] = 0.0
        else:
            if d == 2:
                inside = _inside_2d(m, s, t, inner, panels, tolerance)
            else:
                inside = _inside_3d(m, s, t, outer, inner, panels, tolerance_of_plane)
            result[row] = min(1.0, max(0.0, 1.0 - inside))


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
    result = np.empty(len(means))

    def work(start: int, stop: int) -> None:
        exceedance_rows(means, deviations, tolerance, start, stop, result, *rule)

    over_rows(work, len(means), _COST)
    return result
