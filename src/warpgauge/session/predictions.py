"""Predicted match of a location, with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import confidence_radius, ellipse_from_covariance
from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats, Grid


@dataclass(frozen=True, eq=False)
class Prediction:
    """The posterior at one location, in the moving image's world.

    Attributes
    ----------
    mean : (d,) array
        Expected match.
    covariance : (d, d) array
        Of the true match.
    half_lengths, axes : (d,) and (d, d) arrays
        Credible ellipse or ellipsoid that holds the match with probability ``1 - alpha`` under the posterior's tails,
        longest first; axes are columns.
    alpha : float
    sd : float
        Root mean variance over the directions, in world units.
    inside : bool
        Whether the expected match lies within the moving image.
    """

    mean: Floats
    covariance: Floats
    half_lengths: Floats
    axes: Floats
    alpha: float
    sd: float
    inside: bool


def predict(posterior: Posterior, point: ArrayLike, moving_grid: Grid, alpha: float) -> Prediction:
    """Predict the match of one fixed point."""
    at = np.asarray(point, dtype=np.float64)[None]
    mean, covariance = posterior.mean(at)[0], posterior.covariance(at)[0]
    half_lengths, axes = ellipse_from_covariance(covariance, alpha)
    if np.isfinite(posterior.prior.tails):
        # From the Gaussian region to that of the tails: same axes, another radius.
        half_lengths *= np.sqrt(posterior.squared_radius(1 - alpha)) / confidence_radius(posterior.d, alpha)
    sd = float(np.sqrt(np.trace(covariance) / posterior.d))
    return Prediction(mean, covariance, half_lengths, axes, alpha, sd, bool(moving_grid.contains(mean)))
