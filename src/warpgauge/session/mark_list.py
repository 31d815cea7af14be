"""List of all marks with their leave-one-out residualsand outliers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from warpgauge.core.annotations import ellipse_from_covariance
from warpgauge.core.calibration import scaled_left_out
from warpgauge.core.factors import mahalanobis
from warpgauge.core.slips import Screening, limit
from warpgauge.core.tails import beyond
from warpgauge.geometry import Floats
from warpgauge.project import Doubt
from warpgauge.session.fused_annotations import Mark
from warpgauge.session.model import View


@dataclass(frozen=True, eq=False)
class ListRow:
    """One mark and how it fits the others.

    Attributes
    ----------
    query, location : int
    rater : str
    fixed_point, moving_point : (d,) array
    covariance : (d, d) array
    half_lengths, axes : (d,) and (d, d) array
        Its ellipse at level ``1 - alpha``.
    alpha : float
    residual : (d,) array
        Placement less what the marks at all other locations predict there.
    distance : float
        Length of the residual, world units.
    mahalanobis, p : float
        Length in units of what the model expects, and the probability of one at least so large if tails were normal:
        it is for finding slips.
    flag : {"", "outlier"}
    sentence : str
        What the flag means, with numbers; empty without a flag.
    disabled, excluded : bool
        Why the model does not use it, if so.
    origin : str
        Who chose the place: ``"suggested"``, ``"moved"``, ``"volunteered"``, ...
    questioned : warpgauge.project.Doubt or None
        Why the rater was asked about it when it was placed, if so.
    generation, time, duration
        Of the event that placed or last edited it.
    """

    query: int
    location: int
    rater: str
    fixed_point: Floats
    moving_point: Floats
    covariance: Floats
    half_lengths: Floats
    axes: Floats
    alpha: float
    residual: Floats
    distance: float
    mahalanobis: float
    p: float
    flag: str
    sentence: str
    disabled: bool
    excluded: bool
    generation: int
    time: str
    duration: float | None
    origin: str
    questioned: Doubt | None


class _LeftOut:
    """What the annotations at all other locations predict at each location; where they can be, without suspects."""

    def __init__(self, view: View, screening: Screening | None) -> None:
        self.view, self.located = view, view.located
        self.posterior = view.posterior if screening is None else screening.posterior
        self.points = Counter(group[0].fixed_point for group in view.located.marks)
        if len(view.located):
            found = scaled_left_out(view.posterior) if screening is None else screening
            noise = view.posterior.noise
            if screening is not None:
                noise = screening.posterior.prior.total_noise(np.asarray(view.located.annotations.covariances))
            self.means = view.located.annotations.moving_points - found.residuals
            self.covariances = found.covariances - noise

    def predict(self, mark: Mark) -> tuple[Floats, Floats]:
        """Mean and covariance of the true match, the marks at the same point left out."""
        row, posterior = self.located.row_of(mark), self.posterior
        if row is not None and self.points[mark.fixed_point] == 1:
            return self.means[row], self.covariances[row]
        if row is not None:  # placed twice: the one mark must not vouch for the other
            posterior = self.view.without({mark.query.location}).posterior
        point = np.array([mark.fixed_point])
        return posterior.mean(point)[0], posterior.covariance(point)[0]


def list_rows(marks: list[Mark], view: View, screening: Screening | None, units: str) -> list[ListRow]:
    """Describe marks against the view's model, or against those of its annotations that agree."""
    left = _LeftOut(view, screening)
    prior, d = left.posterior.prior, view.posterior.d
    rows = []
    for mark in marks:
        placement = mark.placement
        at = np.array(mark.fixed_point)
        mean, predicted = left.predict(mark)
        own = np.array(placement.covariance)
        residual = np.array(placement.moving) - mean
        square = float(mahalanobis(residual[None], (predicted + prior.total_noise(own[None])[0])[None])[0])
        # As if normal, as evaluation.diagnose does: under heavy tails few slips would stand out.
        p, distance = float(beyond(square, d)), float(np.linalg.norm(residual))
        half_lengths, axes = ellipse_from_covariance(own, placement.alpha)
        outlier = screening is not None and square > limit(d)
        sentence = ""
        if outlier:
            sentence = (
                f"It lies {distance:.3g} {units} from where the others expect it, {np.sqrt(square):.2g} times the "
                f"expected deviation (p = {p:.2g})."
            )
        rows.append(
            ListRow(
                mark.query.number,
                mark.query.location,
                mark.rater,
                at,
                np.array(placement.moving),
                own,
                half_lengths,
                axes,
                placement.alpha,
                residual,
                distance,
                float(np.sqrt(square)),
                p,
                "outlier" if outlier else "",
                sentence,
                mark.disabled,
                mark.excluded,
                mark.generation,
                mark.placed.time,
                mark.placed.duration,
                mark.origin,
                mark.placed.doubt,
            )
        )
    return rows
