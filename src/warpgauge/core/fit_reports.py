"""What a fit of the prior found: of free weights, and of the default power law."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitReport:
    """Whether the descent met its tolerance, and the mean leave-one-out loss over all training annotations."""

    converged: bool
    loss: float


@dataclass(frozen=True)
class PowerLawReport:
    """Result of a fit of the power law.

    Attributes
    ----------
    amplitude : float
        Posterior (geometric) mean of ``a``, a share of the image's diagonal.
    slope : float
        Posterior mean of ``p``.
    log_amplitude_sd, slope_sd : float
        Posterior standard deviations of ``log a`` and of ``p``.
    annotations : int
        Number of annotations that it rests on, over all sets.
    narrow_trend : bool
        Whether the annotations are likelier under a narrow affine trend than under the given one, and so have it.
    """

    amplitude: float
    slope: float
    log_amplitude_sd: float
    slope_sd: float
    annotations: int
    narrow_trend: bool
