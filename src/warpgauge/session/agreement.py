"""Agreement between raters and of each rater with themselves, for the organiser."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from warpgauge.core.annotations import ellipse_from_covariance
from warpgauge.core.rater_fusion import FusedPlacements
from warpgauge.core.tails import beyond
from warpgauge.geometry import Floats
from warpgauge.project import Place, Skip, State
from warpgauge.session.fused_annotations import LocatedAnnotations, Mark, all_marks
from warpgauge.session.queries import placed_count

_OFFSET_LEVEL = 0.01


@dataclass(frozen=True, eq=False)
class IntraRater:
    """Error of a rater against themselves, from locations asked twice.

    Attributes
    ----------
    pairs : int
        Locations placed both times.
    distances : (pairs,) array
        Between the two placements, world units.
    mean_distance : float
    sd : float
        Standard deviation of one placement in one direction, ``sqrt(mean distance^2 / (2 d))``.
    changed_mind : int
        Locations placed one time and skipped the other.
    """

    pairs: int
    distances: Floats
    mean_distance: float
    sd: float
    changed_mind: int


@dataclass(frozen=True, eq=False)
class RaterSummary:
    """A rater's work.

    Attributes
    ----------
    name, role : str
    placed, deferred : int
        Placements that count for the budget, and queries put aside.
    skipped : dict
        Number by reason.
    median_seconds : float or None
    bias, bias_se : (d,) array or None
        Mean offset from the other raters and its standard error, where locations are shared.
    scatter : float or None
        Root mean squared distance from the fused placement.
    intra : IntraRater or None
    """

    name: str
    role: str
    placed: int
    deferred: int
    skipped: dict[str, int]
    median_seconds: float | None
    bias: Floats | None
    bias_se: Floats | None
    scatter: float | None
    intra: IntraRater | None


@dataclass(frozen=True, eq=False)
class LocationAgreement:
    """A location as its raters see it.

    Attributes
    ----------
    location : int
        Number of the first query there.
    fixed_point : (d,) array
    marks : tuple of Mark
        All marks, those of repeats and those taken out included.
    skips : dict
        Rater to reason.
    mean_distance, max_distance : float or None
        Between the raters whose marks the model uses.
    fused_point, fused_covariance, half_lengths, axes : arrays or None
        What the model uses; the ellipse is that of the project's level.
    resolved : str or None
        The organiser's words where the location was settled.
    """

    location: int
    fixed_point: Floats
    marks: tuple[Mark, ...]
    skips: dict[str, str]
    mean_distance: float | None
    max_distance: float | None
    fused_point: Floats | None
    fused_covariance: Floats | None
    half_lengths: Floats | None
    axes: Floats | None
    resolved: str | None


@dataclass(frozen=True, eq=False)
class Agreement:
    """Raters and locations; ``pooled_sd`` is the scatter of a single placement over all shared locations, or None."""

    raters: tuple[RaterSummary, ...]
    locations: tuple[LocationAgreement, ...]
    pooled_sd: float | None


@dataclass(frozen=True, eq=False)
class RaterOffset:
    """A constant offset of a rater from the others.

    Attributes
    ----------
    rater : str
    offset, error : (d,) array
        Mean offset from the others in an additive model and its standard error, world units.
    size : float
        Length of the offset.
    p : float
        Probability of one at least so large by chance.
    """

    rater: str
    offset: Floats
    error: Floats
    size: float
    p: float


def offsets_of(fused: FusedPlacements) -> list[RaterOffset]:
    """Return the raters whose offset is larger than chance allows (1 in 100 for all raters together)."""
    found = []
    for name, offset, error in zip(fused.raters, fused.bias, fused.bias_se, strict=True):
        if not (np.isfinite(error).all() and (error > 0).all()):
            continue
        p = float(beyond(float(np.square(offset / error).sum()), len(offset)))
        if p < _OFFSET_LEVEL / len(fused.raters):
            found.append(RaterOffset(name, offset, error, float(np.linalg.norm(offset)), p))
    return found


def intra_rater(state: State, rater: str) -> IntraRater | None:
    """Compare a rater's answers to repeated queries with the first ones; None where none was asked twice.

    A placement that was taken out, by its rater or the organiser, is not counted.
    """
    distances, changed, d = [], 0, 2
    for query in state.queries:
        if query.origin != "repeat" or query.same_as is None:
            continue
        if not (_counts(state, rater, query.same_as) and _counts(state, rater, query.number)):
            continue
        first, second = state.answer(rater, query.same_as), state.answer(rater, query.number)
        if isinstance(first, Place) and isinstance(second, Place):
            one, other = first.placement, second.placement
            if one.fixed != other.fixed:
                continue  # matches of two points cannot be compared
            d = len(one.moving)
            distances.append(float(np.linalg.norm(np.subtract(one.moving, other.moving))))
        elif first is not None and second is not None and type(first) is not type(second):
            changed += 1
    if not distances and not changed:
        return None
    lengths = np.array(distances)
    mean, sd = (float("nan"), float("nan"))
    if distances:
        mean, sd = float(lengths.mean()), float(np.sqrt(np.mean(lengths**2) / (2 * d)))
    return IntraRater(len(distances), lengths, mean, sd, changed)


def _counts(state: State, rater: str, number: int) -> bool:
    return not state.cell(rater, number).disabled and (rater, number) not in state.excluded


def median_seconds(state: State, rater: str | None = None) -> float | None:
    """Return the median time for an answer; None where no time was recorded."""
    told = seconds(state, rater)
    return float(np.median(told)) if told else None


def seconds(state: State, rater: str | None = None) -> list[float]:
    """Return the recorded times of answers, in the order of the answers."""
    answers = [cell.answer for (who, _), cell in state.cells.items() if rater in (None, who) and cell.answer]
    ordered = sorted(answers, key=lambda answer: answer.generation)
    return [answer.duration for answer in ordered if answer.duration is not None]


def agreement(state: State, located: LocatedAnnotations, alpha: float) -> Agreement:
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
        _location(state, located, located.row_at(where), where, marks.get(where, []), skips.get(where, {}), alpha)
        for where in asked
    )
    pooled = None
    if located.fused is not None:
        pooled = float(np.sqrt(np.trace(located.fused.pooled_covariance) / located.annotations.d))
    return Agreement(summaries, locations, pooled)


def _summary(state: State, located: LocatedAnnotations, name: str) -> RaterSummary:
    cells = [cell for (who, _), cell in state.cells.items() if who == name]
    fused, bias, bias_se, scatter = located.fused, None, None, None
    if fused is not None and name in fused.raters:
        row = fused.raters.index(name)
        bias, bias_se = fused.bias[row], fused.bias_se[row]
        offsets = [
            np.subtract(mark.placement.moving, fused.points[number])
            for number, place in enumerate(located.fused_rows)
            for mark in located.marks[place]
            if mark.rater == name
        ]
        scatter = float(np.sqrt(np.mean(np.square(offsets).sum(axis=1))))
    return RaterSummary(
        name,
        state.role(name),
        placed_count(state, name),
        sum(who == name for who, _ in state.deferred),
        dict(Counter(cell.answer.reason for cell in cells if isinstance(cell.answer, Skip))),
        median_seconds(state, name),
        bias,
        bias_se,
        scatter,
        intra_rater(state, name),
    )


def _location(
    state: State,
    located: LocatedAnnotations,
    row: int | None,
    location: int,
    marks: list[Mark],
    skips: dict[str, str],
    alpha: float,
) -> LocationAgreement:
    from scipy.spatial.distance import pdist

    used = located.marks[row] if row is not None else ()
    lengths = pdist([mark.placement.moving for mark in used]) if len(used) > 1 else np.empty(0)
    point = covariance = half_lengths = axes = None
    if row is not None:
        point, covariance = located.annotations.moving_points[row], located.annotations.covariances[row]
        half_lengths, axes = ellipse_from_covariance(covariance, alpha)
    settled = state.resolved.get(location)
    return LocationAgreement(
        location,
        np.array(state.queries[location].point),
        tuple(marks),
        skips,
        float(lengths.mean()) if len(lengths) else None,
        float(lengths.max()) if len(lengths) else None,
        point,
        covariance,
        half_lengths,
        axes,
        None if settled is None else settled.text,
    )
