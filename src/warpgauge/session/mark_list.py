"""List of all marks with their leave-one-out residuals, outliers, and pairs that were probably swapped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from warpgauge.core.annotations import ellipse_from_covariance
from warpgauge.core.calibration import scaled_left_out
from warpgauge.core.factors import mahalanobis
from warpgauge.core.process import Posterior
from warpgauge.core.slips import Screening, limit
from warpgauge.core.tails import beyond
from warpgauge.geometry import Floats
from warpgauge.project import Doubt
from warpgauge.session.fused_annotations import Mark
from warpgauge.session.model import View

# A pair is called swapped when exchanging its two placements makes them this much more likely, in nats.
_SWAP_GAIN = 10.0
_MOST_SUSPECTS = 40


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
    flag : {"", "outlier", "swapped"}
    partner : int or None
        The query with which it was likely swapped.
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
    partner: int | None
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
        residual = np.array(placement.point) - mean
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
                np.array(placement.point),
                own,
                half_lengths,
                axes,
                placement.alpha,
                residual,
                distance,
                float(np.sqrt(square)),
                p,
                "outlier" if outlier else "",
                None,
                sentence,
                mark.disabled,
                mark.excluded,
                mark.generation,
                mark.placed.time,
                mark.placed.stamp.duration,
                mark.origin,
                placement.doubt,
            )
        )
    return _with_swaps(rows, [view.located.row_of(mark) for mark in marks], view)


def _with_swaps(rows: list[ListRow], places: list[int | None], view: View) -> list[ListRow]:
    """Flag the pairs of poorly predicted annotations that fit when their placements are exchanged.

    ``places`` are the rows of the annotations behind the marks.
    """
    suspects = sorted(
        (row.p, place) for row, place in zip(rows, places, strict=True) if row.p < 0.01 and place is not None
    )
    numbers = list(dict.fromkeys(number for _, number in suspects))[:_MOST_SUSPECTS]
    partners: dict[int, tuple[float, int]] = {}
    for position, one in enumerate(numbers):
        for other in numbers[position + 1 :]:
            gain = _swap_gain(view.posterior, one, other)
            for here, there in ((one, other), (other, one)):
                if gain > max(_SWAP_GAIN, partners.get(here, (0.0, 0))[0]):
                    partners[here] = gain, there
    locations, result = view.located.locations, []
    for row, place in zip(rows, places, strict=True):
        found = None if place is None else partners.get(place)
        # Both must name each other, or a third placement is the better explanation.
        mutual = found is not None and partners.get(found[1], (0.0, -1))[1] == place
        if not mutual or found is None:
            result.append(row)
            continue
        partner = locations[found[1]]
        result.append(replace(row, flag="swapped", partner=partner, sentence=swapped_sentence(f"query {partner}")))
    return result


def swapped_sentence(partner: str) -> str:
    """Return what a mark that was likely swapped with another is said to be."""
    return f"It fits much better when exchanged with that of {partner}: they were likely swapped."


def _swap_gain(posterior: Posterior, one: int, other: int) -> float:
    """Log likelihood gained by exchanging two placements, given all others; 0 where neither fits.

    So it is where one of the locations has several annotations: which of them was exchanged cannot be told.
    """
    d, pair, tails = posterior.d, [int(posterior.spot_of[row]) for row in (one, other)], posterior.prior.tails
    if (np.bincount(posterior.spot_of)[pair] > 1).any():
        return 0.0
    # As for one annotation left out: D^-1 q is the residual of the pair and D^-1 its covariance.
    covariance = np.linalg.inv(posterior.conditioned.inverse_block(pair))
    residual = covariance @ posterior.weights[pair].reshape(-1)
    placed = posterior.spots.moving_points[pair].reshape(-1)
    expected = placed - residual
    exchanged = posterior.spots.moving_points[pair[::-1]].reshape(-1) - expected
    noise = np.zeros((2 * d, 2 * d))
    swapped_noise = noise.copy()
    for row, number in enumerate(pair):
        own = posterior.conditioned.noise[number]
        noise[row * d : (row + 1) * d, row * d : (row + 1) * d] = own
        swapped_noise[(1 - row) * d : (2 - row) * d, (1 - row) * d : (2 - row) * d] = own
    predicted = posterior.scale * (covariance - noise)
    as_is, swapped = (
        _log_likelihood(residual, predicted + noise, tails),
        _log_likelihood(exchanged, predicted + swapped_noise, tails),
    )
    if float(beyond(swapped[1], 2 * d, tails)) < 0.001:
        return 0.0
    return swapped[0] - as_is[0]


def _log_likelihood(residual: Floats, covariance: Floats, tails: float) -> tuple[float, float]:
    """Log density but for a constant, and squared Mahalanobis length."""
    square = float(residual @ np.linalg.solve(covariance, residual))
    volume = float(np.linalg.slogdet(covariance)[1])
    if np.isinf(tails):
        return -0.5 * (square + volume), square
    return -0.5 * ((tails + len(residual)) * float(np.log1p(square / (tails - 2))) + volume), square
