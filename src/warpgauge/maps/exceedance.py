"""How probable it is that a transform is off by more than a tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.linalg import lost_to_rounding
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, SingularModelError
from warpgauge.maps import compiled

_COST = 20_000  # of a row, in the units of over_rows: enough that threads pay for few rows


def exceedance_probability(
    posterior: Posterior, points: ArrayLike, mapped_points: ArrayLike, tolerance: float
) -> Floats:
    """Posterior probability that ``|phi(x) - mapped(x)| > tolerance`` at each point, shape (n,).

    The true match is ``N(mu_|A, k_|A)``, so the squared error is a generalised noncentral chi-square variable. With
    isotropic noise it is a scaled noncentral chi-square one, and its distribution function is used. Otherwise the
    probability is integrated in the eigenbasis of ``k_|A`` by adaptive quadrature, to an absolute error below 1e-6.

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
    gaps = mapped[defined] - posterior.mean(inside)
    if posterior.isotropic:
        variances = np.square(posterior.standard_deviation(inside))
        squares = np.square(gaps).sum(axis=1)
        result[defined] = stats.ncx2.sf(tolerance**2 / variances, posterior.d, squares / variances)
    else:
        result[defined] = gaussian_exceedance(gaps, posterior.covariance(inside), tolerance)
    return result


def gaussian_exceedance(means: Floats, covariances: Floats, tolerance: float) -> Floats:
    """``P(|X| > tolerance)`` for X with (n, d) means and (n, d, d) covariances, by quadrature in the eigenbasis."""
    values, vectors = np.linalg.eigh(covariances)
    if not (values[:, 0] > 0).all():
        raise SingularModelError(lost_to_rounding(int(np.argmin(values[:, 0]))))
    rotated = np.ascontiguousarray(np.einsum("nab,na->nb", vectors, means))
    deviations, result = np.sqrt(values), np.empty(len(means))

    def work(start: int, stop: int) -> None:
        compiled.exceedance(rotated, deviations, float(tolerance), start, stop, result)

    over_rows(work, len(means), _COST)
    return result
