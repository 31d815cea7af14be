"""Calibration of the posterior: its tails, leave-one-out predictions, coverage, and the factor that corrects it.

Tails are Gaussian as in the paper, or Student-t with the same covariance. A deviation ``r`` with covariance ``C`` and
``nu`` degrees of freedom is ``sqrt(w) g`` with ``g ~ N(0, C)`` and ``w = (nu - 2) / chi^2_nu``, whose mean is 1. Its
squared Mahalanobis length ``r^T C^-1 r`` is distributed as ``d (nu - 2) / nu F(d, nu)``; with infinite ``nu`` that is
chi-square with d degrees of freedom. Leave-one-out predictions are those of section III-F-2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.core.factors import mahalanobis
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError

if TYPE_CHECKING:
    from warpgauge.core.annotations import Annotations
    from warpgauge.core.process import Posterior, TransformationPrior


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


LEVELS = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Coverage:
    """Share of annotations inside their leave-one-out region of one level, with its 95 % binomial interval."""

    level: float
    inside: int
    count: int
    share: float
    low: float
    high: float

    @property
    def consistent(self) -> bool:
        """Whether the stated level lies within the interval."""
        return self.low <= self.level <= self.high


@dataclass(frozen=True, eq=False)
class Calibration:
    """Result of :func:`warpgauge.calibration`.

    Attributes
    ----------
    coverage : tuple of Coverage
        At 50, 80 and 95 %.
    standardised : (L, d) array
        Leave-one-out residuals whitened by their stated covariance: standard normal if the model is right (Student-t
        of unit covariance where the prior has such tails).
    factor : float
        What ``condition(..., calibrate=True)`` multiplies the posterior covariance by.
    residuals : LeaveOneOut
    """

    coverage: tuple[Coverage, ...]
    standardised: Floats
    factor: float
    residuals: LeaveOneOut

    def __repr__(self) -> str:
        inside = ", ".join(f"{one.inside} of {one.count} within {one.level:.0%}" for one in self.coverage)
        return f"<Calibration: {inside}, factor {self.factor:.3g}>"


def binomial_interval(inside: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share."""
    tail = (1 - level) / 2
    low = 0.0 if inside == 0 else float(special.betaincinv(inside, count - inside + 1, tail))
    high = 1.0 if inside == count else float(special.betaincinv(inside + 1, count - inside, 1 - tail))
    return low, high


def coverage(squares: Floats, d: int, tails: float) -> tuple[Coverage, ...]:
    """Coverage of the 50, 80 and 95 % regions from squared Mahalanobis lengths."""
    rows, count = [], len(squares)
    for level in LEVELS:
        inside = int(np.sum(squares <= squared_radius(level, d, tails)))
        rows.append(Coverage(level, inside, count, inside / count, *binomial_interval(inside, count)))
    return tuple(rows)


def leave_one_out_residuals(prior: TransformationPrior, annotations: Annotations) -> LeaveOneOut:
    """Predict each annotation from all others; equal to conditioning L times, at the cost of once."""
    posterior = prior.condition(annotations)
    return left_out(posterior.conditioned, posterior.weights, prior.tails)


def calibration(prior: TransformationPrior, annotations: Annotations) -> Calibration:
    """Summarise leave-one-out calibration: coverage at 50, 80 and 95 %, standardised residuals, scale factor."""
    if len(annotations) == 0:
        raise InvalidInputError("Calibration needs at least one annotation, got none.")
    posterior = prior.condition(annotations)
    predicted = left_out(posterior.conditioned, posterior.weights, prior.tails)
    found = coverage(np.square(predicted.mahalanobis), annotations.d, prior.tails)
    factor = scale_factor(posterior.conditioned, posterior.weights, prior.tails)
    return Calibration(found, predicted.standardised, factor, predicted)


# Pseudo-annotations that say "the factor is 1": they dominate while there are few real ones.
PRIOR_ANNOTATIONS = 2.0
# With Student-t tails this many pseudo-annotations say this factor; measured on public landmarks, see docs/model.md.
T_PRIOR_ANNOTATIONS, T_PRIOR_FACTOR = 5.0, 1.3
_LOG_FACTOR_BOUND = float(np.log(1e6))


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """How well each annotation is predicted by the others.

    Attributes
    ----------
    residuals : (L, d) array
        ``y_l`` minus its prediction.
    covariances : (L, d, d) array
        What the model says their covariance is: ``k_|A(l)(x_l, x_l) + Sigma_l + noise``.
    mahalanobis : (L,) array
        Mahalanobis length of each residual.
    p : (L,) array
        Probability of a length at least that large, by the chi-square distribution (by the F distribution where the
        model has Student-t tails).
    """

    residuals: Floats
    covariances: Floats
    mahalanobis: Floats
    p: Floats

    def __repr__(self) -> str:
        largest = f", largest Mahalanobis length {self.mahalanobis.max():.3g}" if len(self.mahalanobis) else ""
        return f"<LeaveOneOut: {counted(len(self.residuals), 'annotation')}{largest}>"

    @property
    def standardised(self) -> Floats:
        """Residuals whitened by their covariance, (L, d)."""
        factors = np.linalg.cholesky(self.covariances)
        return np.asarray(np.linalg.solve(factors, self.residuals[..., None])[..., 0])


def left_out(conditioned: Conditioned, weights: Floats, tails: float = GAUSSIAN) -> LeaveOneOut:
    """Predict each annotation from the others, given ``weights = K_AA^-1 (Y - mu(X))``.

    ``y_l - mu_|A(l)(x_l) = D_ll^-1 q_l`` with covariance ``D_ll^-1``.
    """
    covariances = np.asarray(np.linalg.inv(conditioned.factor.diagonal_blocks()), dtype=np.float64)
    residuals = np.einsum("lab,lb->la", covariances, weights)
    squares = mahalanobis(residuals, covariances)
    return LeaveOneOut(residuals, covariances, np.sqrt(squares), beyond(squares, conditioned.d, tails))


def scaled_left_out(posterior: Posterior) -> LeaveOneOut:
    """Predict each annotation from the others, as a calibrated posterior does: covariance ``c k_l + N_l``.

    Only the prediction is scaled, not the annotation's noise. Tail probabilities are the chi-square distribution's,
    whatever the tails: they are for finding slips, few of which would stand out under heavy tails.
    """
    conditioned = posterior.conditioned
    raw = left_out(conditioned, posterior.weights)
    covariances = posterior.scale * (raw.covariances - conditioned.noise) + conditioned.noise
    squares = mahalanobis(raw.residuals, covariances)
    return LeaveOneOut(raw.residuals, covariances, np.sqrt(squares), beyond(squares, posterior.d))


def scale_factor(conditioned: Conditioned, weights: Floats, tails: float = GAUSSIAN) -> float:
    """Factor on the posterior covariance that makes the leave-one-out residuals most likely, shrunk to 1.

    Residual l is taken as ``N(0, c k_l + N_l)`` with ``k_l`` the leave-one-out posterior covariance and ``N_l`` the
    annotation's own noise, which is not scaled. The penalty ``nu (log c + 1 / c) / 2`` is that of ``nu / d`` further
    annotations whose residuals say 1; without noise the result is ``(nu + sum m_l) / (nu + L d)``.

    With finite ``tails`` the residuals are Student-t with that covariance, so that few large ones count little, and
    the penalty is that of five annotations that say 1.3.
    """
    if conditioned.count == 0:
        return 1.0 if np.isinf(tails) else T_PRIOR_FACTOR
    from scipy import optimize  # takes a while to load

    count, said = (PRIOR_ANNOTATIONS, 1.0) if np.isinf(tails) else (T_PRIOR_ANNOTATIONS, T_PRIOR_FACTOR)
    strength, d = count * conditioned.d, conditioned.d
    predicted = left_out(conditioned, weights)
    # Noise and leave-one-out covariance are diagonalised together: c k + N becomes c t + 1 - t with t from 0 to 1.
    root_inverse = np.linalg.inv(np.linalg.cholesky(predicted.covariances))
    shares, vectors = np.linalg.eigh(root_inverse @ conditioned.noise @ np.swapaxes(root_inverse, 1, 2))
    t = np.maximum(1 - shares, 0)  # rounding alone can take it below 0
    squares = np.square(np.einsum("lba,lbc,lc->la", vectors, root_inverse, predicted.residuals))

    def loss(log_factor: float) -> float:
        variance = np.exp(log_factor) * t + 1 - t
        penalty = strength * (log_factor + said * np.exp(-log_factor))
        if np.isinf(tails):
            data = np.log(variance) + squares / variance
            return float(0.5 * (data.sum() + penalty))
        lengths = (squares / variance).sum(axis=1)
        data = np.log(variance).sum() + (tails + d) * np.log1p(lengths / (tails - 2)).sum()
        return float(0.5 * (data + penalty))

    found = optimize.minimize_scalar(loss, bounds=(-_LOG_FACTOR_BOUND, _LOG_FACTOR_BOUND), method="bounded")
    return float(np.exp(found.x))
