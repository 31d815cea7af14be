"""Slips among annotations, found from the annotations alone: those that the others contradict.

Leaving one out at a time is not enough. A slip widens the model that is fitted to it, and three slips in the same
direction vouch for each other. So the model is learned from a *core*, the larger part of the annotations that agree
best, and grows by those that agree with it; an annotation that the final core contradicts is a suspect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.calibration import scaled_left_out
from warpgauge.core.factors import mahalanobis
from warpgauge.core.process import Posterior

# Of normal deviations so few would be called slips. Real deformations have heavier tails: with this level at most 1 of
# 50 sound landmarks was, on the sets on which it was chosen (docs/validation.md).
LEVEL = 1e-5
# Share of the annotations in the first core: so many at most can be slips.
CORE = 0.6
_STARTS = 60
_STEPS = 6


@dataclass(frozen=True, eq=False)
class Screening:
    """What annotations say about each other: the posterior given the core, and which annotations the core contradicts.

    Residuals (n, d) from what the others of the core predict, their predicted covariances and squared lengths (n,).
    """

    posterior: Posterior
    suspect: Bools
    residuals: Floats
    covariances: Floats
    squares: Floats

    @property
    def limit(self) -> float:
        """Squared Mahalanobis length beyond which an annotation is a suspect."""
        return limit(self.residuals.shape[1])

    @property
    def detectable(self) -> float:
        """Length from which on a slip at any one of the annotations would have been found, world units."""
        return float(np.sqrt(self.limit * np.linalg.eigvalsh(self.covariances)[:, -1].max()))


def limit(d: int) -> float:
    """Return the squared Mahalanobis length beyond which a deviation is called a slip."""
    return float(special.chdtri(d, LEVEL))


def fewest(d: int) -> int:
    """Return from how many annotations on they can be screened: a trend takes d + 1, two more say how well."""
    return d + 4


def screen(annotations: Annotations, learn: Callable[[Annotations], Posterior]) -> Screening | None:
    """Find the annotations that the others contradict; None where there are too few.

    ``learn`` returns the calibrated posterior given some of them.
    """
    n = len(annotations)
    d = annotations.d
    if n < fewest(d):
        return None
    size = max(d + 3, int(np.ceil(CORE * n)))
    core = _affine_core(annotations, size)
    for _ in range(2):
        found = _against(annotations, core, learn)
        closest = np.sort(np.argsort(found.squares, kind="stable")[:size])
        if np.array_equal(closest, core):
            break
        core = closest
    for _ in range(_STEPS):
        found = _against(annotations, core, learn)
        grown = np.flatnonzero(~found.suspect)
        if len(grown) < size:
            grown = np.sort(np.argsort(found.squares, kind="stable")[:size])
        if np.array_equal(grown, core):
            break
        core = grown
    return found


def _against(annotations: Annotations, core: Ints, learn: Callable[[Annotations], Posterior]) -> Screening:
    """Compare every annotation with what the core, without it, predicts."""
    n, d = annotations.fixed_points.shape
    posterior = learn(annotations[core])
    inside = np.zeros(n, dtype=bool)
    inside[core] = True
    residuals = np.empty((n, d))
    covariances = np.empty((n, d, d))
    left = scaled_left_out(posterior)
    residuals[inside] = left.residuals
    covariances[inside] = left.covariances
    if not inside.all():
        at = annotations.fixed_points[~inside]
        residuals[~inside] = annotations.moving_points[~inside] - posterior.mean(at)
        noise = posterior.prior.total_noise(np.asarray(annotations.covariances)[~inside])
        covariances[~inside] = posterior.covariance(at) + noise
    squares = mahalanobis(residuals, covariances)
    return Screening(posterior, np.asarray(squares > limit(d)), residuals, covariances, squares)


def _affine_core(annotations: Annotations, size: int) -> Ints:
    """Return the annotations of that number that an affine map fits best: least trimmed squares, from random starts."""
    n, d = annotations.fixed_points.shape
    x = np.c_[annotations.fixed_points, np.ones(n)]
    y = annotations.moving_points
    generator = np.random.default_rng(0)
    best = np.inf
    chosen = np.arange(size)
    for _ in range(_STARTS):
        rows = generator.choice(n, d + 1, replace=False)
        for _ in range(3):
            lengths = np.square(y - x @ np.linalg.lstsq(x[rows], y[rows], rcond=None)[0]).sum(axis=1)
            rows = np.argsort(lengths, kind="stable")[:size]
        if lengths[rows].sum() < best:
            best = float(lengths[rows].sum())
            chosen = rows
    return np.sort(chosen)
