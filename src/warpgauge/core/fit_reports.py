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
    """Result of a fit of the power law: posterior means of ``a`` (geometric, a share of the diagonal) and of ``p``.

    Also the posterior standard deviations of ``log a`` and of ``p``, the number of annotations over all sets, and
    whether these are likelier under a narrow affine trend than under the given one, and so have it.
    """

    amplitude: float
    slope: float
    log_amplitude_sd: float
    slope_sd: float
    annotations: int
    narrow_trend: bool
