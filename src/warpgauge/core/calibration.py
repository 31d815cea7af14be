"""Calibration of the posterior: coverage of its leave-one-out regions, and residuals in its own measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.factors import mahalanobis
from warpgauge.core.leave_one_out import LeaveOneOut
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.core.tails import beyond, squared_radius
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
    return prior.condition(annotations).left_out(prior.tails)


def calibration(prior: TransformationPrior, annotations: Annotations) -> Calibration:
    """Summarise leave-one-out calibration: coverage at 50, 80 and 95 %, standardised residuals, scale factor."""
    if len(annotations) == 0:
        raise InvalidInputError("Calibration needs at least one annotation, got none.")
    posterior = prior.condition(annotations)
    predicted = posterior.left_out(prior.tails)
    found = coverage(np.square(predicted.mahalanobis), annotations.d, prior.tails)
    return Calibration(found, predicted.standardised, posterior.asked_factor(), predicted)


def scaled_left_out(posterior: Posterior) -> LeaveOneOut:
    """Predict each annotation from the others, as a calibrated posterior does: covariance ``c k_l + N_l``.

    Only the prediction is scaled, not the annotation's noise. Tail probabilities are the chi-square distribution's,
    whatever the tails: they are for finding slips, few of which would stand out under heavy tails.
    """
    raw, noise = posterior.left_out(), posterior.noise
    covariances = posterior.scale * (raw.covariances - noise) + noise
    squares = mahalanobis(raw.residuals, covariances)
    return LeaveOneOut(raw.residuals, covariances, np.sqrt(squares), beyond(squares, posterior.d))
