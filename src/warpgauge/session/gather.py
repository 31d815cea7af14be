"""From the state to annotations: which mark stands for a rater at a location, and how raters are fused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.raters import FusedPlacements, fuse_raters
from warpgauge.geometry import Floats
from warpgauge.project import Placement, QueryRecord, State


@dataclass(frozen=True)
class Mark:
    """A placement that stands: whose, at which query, and whether the model uses it."""

    rater: str
    query: QueryRecord
    placement: Placement
    disabled: bool
    excluded: bool

    @property
    def active(self) -> bool:
        """Neither disabled by its rater nor excluded by the organiser."""
        return not self.disabled and not self.excluded


@dataclass(frozen=True, eq=False)
class LocatedAnnotations:
    """Annotations of the model, one for each location.

    Attributes
    ----------
    locations : tuple of int
        Number of the first query at each location, ascending.
    annotations : Annotations
    marks : tuple of tuple of Mark
        The marks behind each annotation, one a rater.
    fused : FusedPlacements or None
        What the fusion of the locations with several raters found; ``fused_rows`` says which they are.
    """

    locations: tuple[int, ...]
    annotations: Annotations
    marks: tuple[tuple[Mark, ...], ...]
    fused: FusedPlacements | None
    fused_rows: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.locations)


def all_marks(state: State, rater: str | None = None) -> Iterator[Mark]:
    """Give every placement that stands, of all raters or of one, in the order of the list."""
    keys = sorted((number, who) for who, number in state.cells if rater is None or who == rater)
    for number, who in keys:
        cell = state.cells[who, number]
        if isinstance(cell.answer, Placement):
            yield Mark(who, state.queries[number], cell.answer, cell.disabled, (who, number) in state.excluded)


def _rank(mark: Mark) -> tuple[int, int]:
    """Order in which the marks of one rater at one location are believed.

    What the organiser asked again comes first, the last asking before the others; then the first answer. A repeat
    measures the error within the rater, and stands in only where the first asking was not answered.
    """
    if mark.query.origin == "again":
        return 0, -mark.query.number
    return (2 if mark.query.origin == "repeat" else 1), mark.query.number


def standing_marks(state: State, rater: str | None = None) -> dict[int, tuple[Mark, ...]]:
    """Give for each location the marks that the model uses, one a rater, sorted by rater."""
    best: dict[tuple[int, str], Mark] = {}
    for mark in all_marks(state, rater):
        key = (mark.query.location, mark.rater)
        if mark.active and (key not in best or _rank(mark) < _rank(best[key])):
            best[key] = mark
    grouped: dict[int, list[Mark]] = {}
    for key in sorted(best):
        grouped.setdefault(key[0], []).append(best[key])
    return {location: tuple(marks) for location, marks in grouped.items()}


def located_annotations(state: State, d: int, default: Floats, rater: str | None = None) -> LocatedAnnotations:
    """Gather the annotations of all raters, fused, or of one rater.

    A location with one rater has that rater's own covariance. Where several answered, mean and covariance come from
    :func:`warpgauge.fuse_raters` (pooled over those locations); no standard deviation there falls below that of a plain
    click, or below the smallest that the raters themselves stated, whichever is smaller.

    Parameters
    ----------
    default : (d, d) array
        Covariance of a plain click.
    """
    marks = standing_marks(state, rater)
    locations = tuple(sorted(marks))
    if not locations:
        return LocatedAnnotations((), Annotations.empty(d), (), None, ())
    fixed = np.array([state.queries[location].point for location in locations])
    moving = np.array([marks[location][0].placement.point for location in locations])
    covariances = np.array([marks[location][0].placement.covariance for location in locations])
    several = tuple(row for row, location in enumerate(locations) if len(marks[location]) > 1)
    fused = None
    if several:
        fused = _fused([marks[locations[row]] for row in several], d, default)
        moving[list(several)] = fused.points
        covariances[list(several)] = fused.covariances
    annotations = Annotations(fixed, moving, covariances)
    return LocatedAnnotations(locations, annotations, tuple(marks[location] for location in locations), fused, several)


def _fused(groups: list[tuple[Mark, ...]], d: int, default: Floats) -> FusedPlacements:
    raters = sorted({mark.rater for group in groups for mark in group})
    points = {rater: np.full((len(groups), d), np.nan) for rater in raters}
    stated = float(np.sqrt(default[0, 0]))
    for row, group in enumerate(groups):
        for mark in group:
            points[mark.rater][row] = mark.placement.point
            stated = min(stated, float(np.sqrt(np.linalg.eigvalsh(mark.placement.covariance)[0])))
    return fuse_raters(points, floor=stated)
