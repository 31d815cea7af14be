"""What a fit of the prior found: the report of learned weights, and that of the default power law."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitReport:
    """Result of a fit.

    Attributes
    ----------
    converged : bool
        Whether the optimiser met its tolerance from the best start.
    message : str
        Message of the optimiser.
    loss, initial_loss : float
        Mean leave-one-out loss over all training annotations, at the end and for the prior as given.
    evaluations : int
        Losses and gradients computed, over all starts.
    starts : tuple of float
        Loss after a short descent from each start, on at most 200 annotations of a set; the best of them was followed
        to the end on all.
    at_bound : tuple of int
        Scales whose weight ended at a bound: they carry no signal of their own in these data.
    annotations : int
        Number of training annotations.
    """

    converged: bool
    message: str
    loss: float
    initial_loss: float
    evaluations: int
    starts: tuple[float, ...]
    at_bound: tuple[int, ...]
    annotations: int


@dataclass(frozen=True)
class PowerLawReport:
    """Result of a fit.

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
