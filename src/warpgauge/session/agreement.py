"""Agreement between raters, for the organiser."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from warpgauge.core.tails import beyond
from warpgauge.geometry import Floats
from warpgauge.project import Skip, State
from warpgauge.session.fused_annotations import LocatedAnnotations, Mark, all_marks
from warpgauge.session.queries import placed_count

_OFFSET_LEVEL = 0.01
_NORMAL_QUARTILE = 0.6745  # half of normal deviations are shorter than so many standard deviations
# A mark is far from the others' beyond so many robust standard deviations of one mark in one direction.
_FAR = 6.0
_FEWEST_SHARED = 6  # landmarks that several raters marked: fewer say too little about how they scatter


@dataclass(frozen=True, eq=False)
class RaterSummary:
    """A rater's work."""

    name: str
    role: str
    placed: int
    """Placements that count for the budget."""
    skipped: dict[str, int]
    """Number by reason."""
    median_seconds: float | None
    bias: Floats | None
    """Mean offset from the other raters and its standard error, (d,), where locations are shared."""
    bias_se: Floats | None
    scatter: float | None
    """Root mean squared distance from the fused placement."""


@dataclass(frozen=True, eq=False)
class LocationAgreement:
    """A location as its raters see it."""

    location: int
    """Number of the first query there."""
    fixed_point: Floats
    marks: tuple[Mark, ...]
    """All marks, those of repeats and those taken out included."""
    skips: dict[str, str]
    """Rater to reason."""
    max_distance: float | None
    """Between the raters whose marks the model uses."""
    fused_point: Floats | None
    """What the model uses."""
    fused_covariance: Floats | None
    resolved: str | None
    """The organiser's words where the location was settled."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Raters and locations; ``pooled_sd`` is the scatter of a single placement over all shared locations, or None."""

    raters: tuple[RaterSummary, ...]
    locations: tuple[LocationAgreement, ...]
    pooled_sd: float | None


@dataclass(frozen=True, eq=False)
class RaterOffset:
    """A constant offset of a rater from the others."""

    rater: str
    offset: Floats
    """Mean offset from the others in an additive model and its standard error, (d,), world units."""
    error: Floats
    size: float
    """Length of the offset."""
    p: float
    """Probability of one at least so large by chance."""


@dataclass(frozen=True, eq=False)
class FarMark:
    """A mark far from what the other raters marked at the same landmark."""

    mark: Mark
    others: tuple[str, ...]
    distance: float
    """From the middle of all marks there, or from the other one, world units."""


def far_marks(located: LocatedAnnotations) -> list[FarMark]:
    """Return the marks that lie far from the others' at the same landmark, beside how raters scatter; farthest first.

    Of two raters who differ nobody can say who is right: both marks are returned. A constant offset of a rater is not
    counted.
    """
    fused = located.fused
    if fused is None or len(located.fused_rows) < _FEWEST_SHARED:
        return []
    placements = fused.placements.copy()
    for rater, own in enumerate(fused.placements):
        shared = ~np.isnan(own[:, 0])
        others = np.delete(fused.placements, rater, axis=0)[:, shared]
        placements[rater] -= np.median(own[shared] - np.nanmedian(others, axis=0), axis=0)
    surest = float(np.sqrt(np.linalg.eigvalsh(fused.covariances).min()))
    pairs = [placements[one] - placements[other] for one, other in combinations(range(len(placements)), 2)]
    sd = max(surest, float(np.nanmedian(np.abs(pairs))) / (np.sqrt(2) * _NORMAL_QUARTILE))
    middles = np.nanmedian(placements, axis=0)
    far = []
    for column, row in enumerate(located.fused_rows):
        marks = located.marks[row]
        for mark in marks:
            distance = float(np.linalg.norm(placements[fused.raters.index(mark.rater), column] - middles[column]))
            if len(marks) == 2:
                distance *= 2  # the middle lies half way between them
            if distance > _FAR * sd:
                others_here = tuple(other.rater for other in marks if other != mark)
                far.append(FarMark(mark, others_here, distance))
    return sorted(far, key=lambda mark: -mark.distance)


def offsets_of(located: LocatedAnnotations) -> list[RaterOffset]:
    """Return the raters whose offset is larger than chance allows (1 in 100 for all raters), the largest first."""
    fused = located.fused
    if fused is None:
        return []
    offsets = []
    for name, offset, error in zip(fused.raters, fused.bias, fused.bias_se, strict=True):
        if not (np.isfinite(error).all() and (error > 0).all()):
            continue
        p = float(beyond(float(np.square(offset / error).sum()), len(offset)))
        if p < _OFFSET_LEVEL / len(fused.raters):
            offsets.append(RaterOffset(name, offset, error, float(np.linalg.norm(offset)), p))
    return sorted(offsets, key=lambda offset: -offset.size)


def median_seconds(state: State, rater: str | None = None) -> float | None:
    """Return the median time for an answer of a rater, or of all; None where no time was recorded."""
    answers = [cell.answer for (who, _), cell in state.cells.items() if rater in (None, who)]
    times = [answer.duration for answer in answers if answer is not None and answer.duration is not None]
    return float(np.median(times)) if times else None


def agreement(state: State, located: LocatedAnnotations) -> Agreement:
    """Summarise raters and locations."""
    names = sorted(set(state.who_answered()) | {name for name, _ in state.deferred} | set(state.raters))
    summaries = tuple(_summary(state, located, name) for name in names)
    marks: dict[int, list[Mark]] = {}
    for mark in all_marks(state):
        marks.setdefault(mark.query.location, []).append(mark)
    skips: dict[int, dict[str, str]] = {}
    for (who, number), cell in state.cells.items():
        if isinstance(cell.answer, Skip) and not state.is_sealed(number):
            skips.setdefault(state.queries[number].location, {})[who] = cell.answer.reason
    asked = sorted({query.location for query in state.queries if not state.is_sealed(query.number)})
    locations = tuple(
        _location(state, located, number, marks.get(number, []), skips.get(number, {})) for number in asked
    )
    pooled = None
    if located.fused is not None:
        pooled = float(np.sqrt(np.trace(located.fused.pooled_covariance) / located.annotations.d))
    return Agreement(summaries, locations, pooled)


def _summary(state: State, located: LocatedAnnotations, name: str) -> RaterSummary:
    answers = [cell.answer for (who, _), cell in state.cells.items() if who == name]
    fused = located.fused
    bias = bias_se = scatter = None
    if fused is not None and name in fused.raters:
        row = fused.raters.index(name)
        bias = fused.bias[row]
        bias_se = fused.bias_se[row]
        offsets = [
            np.subtract(mark.placement.moving, fused.points[column])
            for column, place in enumerate(located.fused_rows)
            for mark in located.marks[place]
            if mark.rater == name
        ]
        scatter = float(np.sqrt(np.mean(np.square(offsets).sum(axis=1))))
    return RaterSummary(
        name=name,
        role=state.role(name),
        placed=placed_count(state, name),
        skipped=dict(Counter(answer.reason for answer in answers if isinstance(answer, Skip))),
        median_seconds=median_seconds(state, name),
        bias=bias,
        bias_se=bias_se,
        scatter=scatter,
    )


def _location(
    state: State,
    located: LocatedAnnotations,
    location: int,
    marks: list[Mark],
    skips: dict[str, str],
) -> LocationAgreement:
    from scipy.spatial.distance import pdist

    row = located.row_at(location)
    lengths = np.empty(0)
    point = covariance = None
    if row is not None:
        lengths = pdist([mark.placement.moving for mark in located.marks[row]])
        point = located.annotations.moving_points[row]
        covariance = located.annotations.covariances[row]
    settled = state.resolved.get(location)
    return LocationAgreement(
        location=location,
        fixed_point=np.array(state.queries[location].point),
        marks=tuple(marks),
        skips=skips,
        max_distance=float(lengths.max()) if len(lengths) else None,
        fused_point=point,
        fused_covariance=covariance,
        resolved=None if settled is None else settled.text,
    )
