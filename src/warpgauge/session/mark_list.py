"""List of all marks with their leave-one-out residuals and outliers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from warpgauge.core.calibration import scaled_left_out
from warpgauge.core.factors import mahalanobis
from warpgauge.core.slips import Screening, limit
from warpgauge.core.tails import beyond
from warpgauge.geometry import Floats
from warpgauge.session.fused_annotations import Mark
from warpgauge.session.model import View


@dataclass(frozen=True, eq=False)
class ListRow:
    """One mark and how it fits the others."""

    mark: Mark
    residual: Floats
    """Placement less what the marks at all other locations predict there."""
    distance: float
    """Length of the residual, world units."""
    mahalanobis: float
    """The same in units of what the model expects."""
    p: float
    """Probability of one at least so long if tails were normal: it is for finding slips."""
    outlier: bool
    """Whether the others contradict it."""


class _LeftOut:
    """What the annotations at all other locations predict at each location; where they can be, without suspects."""

    def __init__(self, view: View, screening: Screening | None) -> None:
        self.view = view
        self.located = view.located
        self.posterior = view.posterior if screening is None else screening.posterior
        self.points = Counter(group[0].fixed_point for group in view.located.marks)
        if len(view.located):
            left_out = scaled_left_out(view.posterior) if screening is None else screening
            noise = self.posterior.prior.total_noise(np.asarray(view.located.annotations.covariances))
            self.means = view.located.annotations.moving_points - left_out.residuals
            self.covariances = left_out.covariances - noise

    def predict(self, mark: Mark) -> tuple[Floats, Floats]:
        """Mean and covariance of the true match, the marks at the same point left out."""
        row = self.located.row_of(mark)
        posterior = self.posterior
        if row is not None and self.points[mark.fixed_point] == 1:
            return self.means[row], self.covariances[row]
        if row is not None:  # placed twice: the one mark must not vouch for the other
            posterior = self.view.without({mark.query.location}).posterior
        point = np.array([mark.fixed_point])
        return posterior.mean(point)[0], posterior.covariance(point)[0]


def list_rows(marks: list[Mark], view: View, screening: Screening | None) -> list[ListRow]:
    """Describe marks against the view's model, or against those of its annotations that agree."""
    left_out = _LeftOut(view, screening)
    prior = left_out.posterior.prior
    d = view.posterior.d
    rows = []
    for mark in marks:
        covariance = np.array(mark.placement.covariance)
        mean, predicted = left_out.predict(mark)
        residual = np.array(mark.placement.moving) - mean
        expected = predicted + prior.total_noise(covariance[None])[0]
        square = float(mahalanobis(residual[None], expected[None])[0])
        length = float(np.sqrt(square))
        # As if normal, as evaluation.diagnose does: under heavy tails few slips would stand out.
        p = float(beyond(square, d))
        distance = float(np.linalg.norm(residual))
        outlier = screening is not None and square > limit(d)
        rows.append(ListRow(mark, residual, distance, length, p, outlier))
    return rows
