"""Calibration of the posterior: coverage of its leave-one-out regions, and residuals in its own measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.leave_one_out import LeaveOneOut
from warpgauge.core.process import Posterior, TransformationPrior
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
    """Result of :func:`warpgauge.calibration`: coverage at 50, 80 and 95 %, residuals, and the factor they ask for.

    The standardised residuals (L, d) are whitened by their stated covariance: standard normal if the model is right
    (Student-t of unit covariance where the prior has such tails). The factor is what ``condition(..., calibrate=True)``
    multiplies the posterior covariance by.
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
    count = len(squares)
    rows = []
    for level in LEVELS:
        inside = int(np.sum(squares <= squared_radius(level, d, tails)))
        rows.append(Coverage(level, inside, count, inside / count, *binomial_interval(inside, count)))
    return tuple(rows)


def leave_one_out_residuals(prior: TransformationPrior, annotations: Annotations) -> LeaveOneOut:
    """Predict each annotation from all others; equal to conditioning L times, at the cost of once.

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[50.0], weights=[9.0]))
    >>> fixed = [[0.0, 0.0], [9.0, 0.0], [4.0, 4.0]]
    >>> moving = [[1.0, 0.0], [10.0, 0.0], [9.0, 4.0]]  # the last one moves by 5, the others by 1
    >>> predicted = wg.leave_one_out_residuals(prior, wg.Annotations.isotropic(fixed, moving, sd=1.0))
    >>> predicted.residuals[:, 0].round(1).tolist(), int(predicted.p.argmin())
    ([-2.6, -2.4, 4.1], 2)
    """
    return prior.condition(annotations).left_out(prior.tails)


def calibration(prior: TransformationPrior, annotations: Annotations) -> Calibration:
    """Summarise leave-one-out calibration: coverage at 50, 80 and 95 %, standardised residuals, scale factor.

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> x = np.random.default_rng(0).uniform(0, 100, (50, 2))
    >>> pairs = wg.Annotations.isotropic(x, x + 2 * np.sin(x[:, ::-1] / 20), sd=0.5)
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[80.0], weights=[4.0]))
    >>> checked = wg.calibration(prior, pairs)
    >>> [level.level for level in checked.coverage], checked.factor < 1  # the prior is too wide
    ([0.5, 0.8, 0.95], True)
    """
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
    raw = posterior.left_out()
    noise = posterior.noise
    covariances = posterior.scale * (raw.covariances - noise) + noise
    return LeaveOneOut.of(raw.residuals, covariances)
