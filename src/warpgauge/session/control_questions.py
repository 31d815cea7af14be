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
from warpgauge.project import Ask, Placement, Project, State
from warpgauge.project.events import AddControls
from warpgauge.project.values import plain_rows
from warpgauge.session.agreement import intra_rater
from warpgauge.session.fused_annotations import all_marks
from warpgauge.session.queries import PROGRAM

EVERY = 8  # of so many questions one is a control question
LEVEL = 0.95


def add_controls(project: Project, fixed: Floats, moving: Floats, rater: str) -> int:
    """Log pairs with known matches; from now on they are mixed into the questions, each once.

    Pairs that are control questions already stay so; where there are no others, nothing is logged.

    Parameters
    ----------
    project : Project
    fixed, moving : (n, d) array
        Points and their known matches, world units.
    rater : str
        An organiser.

    Returns
    -------
    int
        How many pairs are new.
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
    given = dict.fromkeys(zip(plain_rows(fixed), plain_rows(moving), strict=True))
    new = [pair for pair in given if pair not in former]
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
    pairs = [
        (mark.query, mark.placement)
        for mark in all_marks(state, rater, sealed=True)
        if mark.query.known and not mark.moved and not mark.disabled and not mark.excluded
    ]
    intra = intra_rater(state, rater)
    repeats = 0 if intra is None else intra.pairs
    if not pairs and not repeats:
        return None
    d = len(state.queries[0].point)
    offsets = np.array([_offset(query, placement) for query, placement in pairs]).reshape(len(pairs), d)
    inside = sum(_holds(query, placement) for query, placement in pairs)
    low, high = binomial_interval(inside, len(pairs)) if pairs else (0.0, 1.0)
    repeat_sd: tuple[float | None, ...] = (None, None, None)
    if intra is not None and repeats:
        repeat_sd = (intra.sd, *sd_interval(intra.sd, repeats * d))
    return RaterCertificate(len(pairs), *_bias(offsets), *_scatter(offsets), inside, low, high, repeats, *repeat_sd)


def rater_certificates(state: State) -> dict[str, RaterCertificate]:
    """Return the certificates of all raters who have one."""
    found = {name: rater_certificate(state, name) for name in sorted(state.who_answered())}
    return {name: one for name, one in found.items() if one is not None}


def sd_interval(sd: float, freedom: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a standard deviation that was estimated with so many degrees of freedom."""
    from scipy import stats  # takes longer to load than all of the core

    low, high = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], freedom)
    return float(sd * np.sqrt(freedom / low)), float(sd * np.sqrt(freedom / high))


def _bias(offsets: Floats) -> tuple[Floats | None, Floats | None, Floats | None]:
    from scipy import stats

    count = len(offsets)
    if count < 2:
        return None, None, None
    mean = offsets.mean(axis=0)
    half = stats.t.ppf((1 + LEVEL) / 2, count - 1) * offsets.std(axis=0, ddof=1) / np.sqrt(count)
    return mean, mean - half, mean + half


def _scatter(offsets: Floats) -> tuple[float | None, float | None, float | None]:
    count = len(offsets)
    if count < 2:
        return None, None, None
    freedom = offsets.shape[1] * (count - 1)
    sd = float(np.sqrt(np.square(offsets - offsets.mean(axis=0)).sum() / freedom))
    return (sd, *sd_interval(sd, freedom))


def _offset(query: Ask, placement: Placement) -> Floats:
    return np.subtract(placement.moving, query.known or ())


def _holds(query: Ask, placement: Placement) -> bool:
    offset = _offset(query, placement)
    square = mahalanobis(offset[None], placement.covariance_world[None])[0]
    return bool(square <= confidence_radius(len(offset), placement.alpha) ** 2)
