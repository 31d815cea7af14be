"""What the annotations alone say of targets: whether they inform them, and where they exclude every method."""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.calibration import scaled_left_out
from warpgauge.core.factors import mahalanobis
from warpgauge.core.process import Posterior

# A target is known where the posterior's standard deviation is at most so many times the one with which a typical
# annotation is predicted by the others. Fixed on elastix-lung, COPDgene and histology; see docs/validation.md.
LIMIT = 1.25
# Nor is it known where the annotations take less than this share from the standard deviation before them.
LEAST = 0.1
# Fewer annotations say nothing about how well one is predicted by the others.
FEWEST = 4
# A method is excluded where a region of this probability about the expected match does not hold it.
EXCLUDED = 0.99


def known_targets(posterior: Posterior, targets: Floats) -> Bools:
    """Return at which of (n, d) targets the annotations say as much as where they were checked against each other.

    There, errors are about as large as where each annotation was left out. Farther away nothing has tested the model.
    """
    given = posterior.annotations
    if len(given) < FEWEST:
        return np.zeros(len(targets), dtype=bool)
    latent = scaled_left_out(posterior).covariances - posterior.prior.total_noise(given.covariances)
    usual = np.median(np.sqrt(np.maximum(np.trace(latent, axis1=1, axis2=2), 0.0) / posterior.d))
    found = posterior.standard_deviation(targets)
    before = np.sqrt(posterior.scale) * posterior.prior.condition(given[:0]).standard_deviation(targets)
    return np.asarray((found <= LIMIT * usual) & (found <= (1 - LEAST) * before))


def excluded_targets(posterior: Posterior, targets: Floats, mapped: Floats, beyond: float) -> Bools:
    """Return at which of (n, d) targets the annotations exclude all of (K, n, d) mapped points.

    All of them lie outside the region in which the true match is expected, and farther from its middle than ``beyond``.
    """
    mean, covariance = posterior.mean(targets), posterior.covariance(targets)
    found = np.ones(len(targets), dtype=bool)
    for one in mapped:
        off = one - mean
        found &= np.linalg.norm(off, axis=1) > beyond
        found &= posterior.level_of(mahalanobis(off, covariance)) >= EXCLUDED
    return found
