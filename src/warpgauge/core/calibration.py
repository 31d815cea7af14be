"""Leave-one-out predictions (section III-F-2) and calibration: coverage, and the factor that corrects the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.core.conditioning import Conditioned
from warpgauge.core.linalg import mahalanobis
from warpgauge.core.tails import GAUSSIAN, beyond, squared_radius
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError

if TYPE_CHECKING:
    from warpgauge.core.annotations import Annotations
    from warpgauge.core.process import Posterior, TransformationPrior

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
    """What :func:`warpgauge.calibration` found.

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


# Pseudo-annotations that say "the factor is 1": they rule while there are few real ones.
PRIOR_ANNOTATIONS = 2.0
# With Student-t tails, so many say this factor: measured on public landmarks, see docs/model.md.
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
    """Predict each annotation from the others as sure as a calibrated posterior is: covariance ``c k_l + N_l``.

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
