"""Calibration of the posterior: leave-one-out coverage, and the factor that corrects it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.leave_one_out import LeaveOneOut, left_out, scale_factor
from warpgauge.core.process import TransformationPrior
from warpgauge.core.tails import squared_radius
from warpgauge.errors import InvalidInputError

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
    """What :func:`calibration` found.

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


def binomial_interval(inside: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share."""
    tail = (1 - level) / 2
    low = 0.0 if inside == 0 else float(special.betaincinv(inside, count - inside + 1, tail))
    high = 1.0 if inside == count else float(special.betaincinv(inside + 1, count - inside, 1 - tail))
    return low, high


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
    squares, count = np.square(predicted.mahalanobis), len(annotations)
    rows = []
    for level in LEVELS:
        inside = int(np.sum(squares <= squared_radius(level, annotations.d, prior.tails)))
        rows.append(Coverage(level, inside, count, inside / count, *binomial_interval(inside, count)))
    factors = np.linalg.cholesky(predicted.covariances)
    standardised = np.linalg.solve(factors, predicted.residuals[..., None])[..., 0]
    factor = scale_factor(posterior.conditioned, posterior.weights, prior.tails)
    return Calibration(tuple(rows), standardised, factor, predicted)
