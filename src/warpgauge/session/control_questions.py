"""Control questions, whose answers are known, and what they and repeats say about each rater.

The pairs are logged once (event ``controls``); their questions replace suggestions one by one, at places of the list
that nobody can guess. The model never uses an answer to one: they only measure the rater.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.annotations import confidence_radius
from warpgauge.core.calibration import binomial_interval
from warpgauge.core.factors import mahalanobis
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.project import Ask, Project, State
from warpgauge.project.events import AddControls
from warpgauge.project.values import PROGRAM, plain_rows
from warpgauge.session.fused_annotations import all_marks

EVERY = 8  # of so many questions one is a control question
LEVEL = 0.95


def add_controls(project: Project, fixed: Floats, moving: Floats, rater: str) -> int:
    """Log pairs with known matches, world units, to be mixed into the questions, each once; return how many are new.

    Pairs that are control questions already stay so; where there are no others, nothing is logged.
    """
    for points, grid, side in ((fixed, project.fixed_grid, "fixed"), (moving, project.moving_grid, "moving")):
        outside = np.flatnonzero(~grid.contains(points))
        if len(outside):
            at = ", ".join(f"{value:.4g}" for value in points[outside[0]])
            raise InvalidInputError(
                f"Control {outside[0] + 1} lies outside the {side} image, at {at}; a control question needs a match "
                f"that can be marked: leave it out."
            )
    former = [] if project.state.controls is None else project.state.controls.pairs
    pairs = dict.fromkeys(zip(plain_rows(fixed), plain_rows(moving), strict=True))
    new = [pair for pair in pairs if pair not in former]
    if new:
        all_fixed, all_moving = zip(*former, *new, strict=True)
        project.append(AddControls(rater=rater, fixed=all_fixed, moving=all_moving))
    return len(new)


def next_control(state: State, gain: float | None) -> Ask | None:
    """Return the next control question that was not asked yet, with the gain of the suggestion that it replaces."""
    if state.controls is None:
        return None
    asked = {(query.point, query.known) for query in state.queries}
    for point, known in state.controls.pairs:
        if (point, known) not in asked:
            return Ask(rater=PROGRAM, query=len(state.queries), point=point, origin="control", gain=gain, known=known)
    return None


@dataclass(frozen=True, eq=False)
class RaterCertificate:
    """Precision of a rater, with 95 % intervals; placements that were taken out are not counted."""

    controls: int
    """Control questions placed."""
    bias: Floats | None
    """Mean offset from the known matches, (d,), and its interval by Student's t; from two controls on."""
    bias_low: Floats | None
    bias_high: Floats | None
    sd: float | None
    """Standard deviation of one placement in one direction about the bias, and its interval by chi-square."""
    sd_low: float | None
    sd_high: float | None
    inside: int
    """Known matches within the region that the rater drew, and the binomial interval of that share."""
    inside_low: float
    inside_high: float
    repeats: int
    """Locations placed twice."""
    repeat_sd: float | None
    """Standard deviation of one placement in one direction, from those."""
    repeat_low: float | None
    repeat_high: float | None


def rater_certificate(state: State, rater: str) -> RaterCertificate | None:
    """Return what control questions and repeats say about a rater; None where there is neither."""
    controls = [
        mark
        for mark in all_marks(state, rater, sealed=True)
        if mark.query.known and not mark.moved and not mark.disabled and not mark.excluded
    ]
    differences = _between_repeats(state, rater)
    repeats = len(differences)
    if not controls and not repeats:
        return None
    count = len(controls)
    d = len(state.queries[0].point)
    offsets = np.array([np.subtract(mark.placement.moving, mark.query.known or ()) for mark in controls])
    offsets = offsets.reshape(count, d)
    covariances = np.array([mark.placement.covariance for mark in controls]).reshape(count, d, d)
    radii = np.array([confidence_radius(d, mark.placement.alpha) for mark in controls])
    inside = int((mahalanobis(offsets, covariances) <= radii**2).sum())
    low, high = binomial_interval(inside, count) if controls else (0.0, 1.0)
    bias = half = sd = sd_low = sd_high = None
    if count > 1:
        from scipy import stats  # takes longer to load than all of the core

        bias = offsets.mean(axis=0)
        half = stats.t.ppf((1 + LEVEL) / 2, count - 1) * offsets.std(axis=0, ddof=1) / np.sqrt(count)
        freedom = d * (count - 1)
        sd = float(np.sqrt(np.square(offsets - bias).sum() / freedom))
        sd_low, sd_high = sd_interval(sd, freedom)
    repeat_sd = repeat_low = repeat_high = None
    if repeats:
        repeat_sd = float(np.sqrt(np.mean(np.square(differences)) / 2))
        repeat_low, repeat_high = sd_interval(repeat_sd, repeats * d)
    return RaterCertificate(
        controls=count,
        bias=bias,
        bias_low=None if bias is None else bias - half,
        bias_high=None if bias is None else bias + half,
        sd=sd,
        sd_low=sd_low,
        sd_high=sd_high,
        inside=inside,
        inside_low=low,
        inside_high=high,
        repeats=repeats,
        repeat_sd=repeat_sd,
        repeat_low=repeat_low,
        repeat_high=repeat_high,
    )


def _between_repeats(state: State, rater: str) -> list[Floats]:
    """Return how a rater's placements at repeated queries differ from the first ones; those taken out do not count."""
    differences = []
    for query in state.queries:
        if query.origin != "repeat" or query.same_as is None:
            continue
        pair = [state.cell(rater, number) for number in (query.same_as, query.number)]
        taken_out = any((rater, number) in state.excluded for number in (query.same_as, query.number))
        first, second = pair[0].placement, pair[1].placement
        if first is None or second is None or taken_out or any(cell.disabled for cell in pair):
            continue
        if first.fixed == second.fixed:  # matches of two points cannot be compared
            differences.append(np.subtract(first.moving, second.moving))
    return differences


def rater_certificates(state: State) -> dict[str, RaterCertificate]:
    """Return the certificates of all raters who have one."""
    certificates = {name: rater_certificate(state, name) for name in state.who_answered()}
    return {name: certificate for name, certificate in certificates.items() if certificate is not None}


def sd_interval(sd: float, freedom: int) -> tuple[float, float]:
    """Return the interval of a standard deviation that was estimated with so many degrees of freedom."""
    from scipy import stats

    low, high = stats.chi2.ppf([(1 + LEVEL) / 2, (1 - LEVEL) / 2], freedom)
    return float(sd * np.sqrt(freedom / low)), float(sd * np.sqrt(freedom / high))
