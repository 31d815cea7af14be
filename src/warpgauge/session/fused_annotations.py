"""Annotations from the state: which mark counts for a rater at a location, and how raters are fused."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.rater_fusion import FusedPlacements, fuse_raters
from warpgauge.geometry import Floats
from warpgauge.io.landmarks.permutation import robust_affine
from warpgauge.project import Ask, Place, Placement, State


@dataclass(frozen=True)
class Mark:
    """A current placement: its rater, its query, and whether the model uses it."""

    rater: str
    query: Ask
    placed: Place
    disabled: bool
    excluded: bool
    batch: str | None = None
    control: bool = False

    @property
    def placement(self) -> Placement:
        """What the rater drew."""
        return self.placed.placement

    @property
    def generation(self) -> int:
        """Of the event that placed or last edited it."""
        return self.placed.generation

    @property
    def active(self) -> bool:
        """Neither disabled by its rater, nor excluded by the organiser, nor an answer to a control question."""
        return not self.disabled and not self.excluded and not self.control

    @property
    def moved(self) -> bool:
        """Whether the rater marked another point of the fixed image than the queried one."""
        return self.placement.fixed is not None

    @property
    def fixed_point(self) -> tuple[float, ...]:
        """The point of the fixed image that was marked."""
        return self.query.point if self.placement.fixed is None else self.placement.fixed

    @property
    def elsewhere(self) -> bool:
        """Whether it is a place of its own: the rater moved the queried point, unless it came with an import.

        Raters of an import mark the same landmark in both images, each with an error of their own.
        """
        return self.moved and self.batch is None

    @property
    def origin(self) -> str:
        """Who chose the place: the query's origin, or ``"moved"`` where the rater moved what was asked."""
        return "moved" if self.elsewhere and self.query.origin != "volunteered" else self.query.origin


@dataclass(frozen=True, eq=False)
class LocatedAnnotations:
    """Annotations of the model, one for each location, and one for each mark that its rater moved away from there."""

    locations: tuple[int, ...]
    """Number of the first query at the location of each annotation, ascending. A location with moved marks can be there
    more than once, its moved marks last."""
    annotations: Annotations
    marks: tuple[tuple[Mark, ...], ...]
    """The marks behind each annotation, one per rater."""
    fused: FusedPlacements | None = None
    """What the fusion of the locations with several raters found; ``fused_rows`` says which they are."""
    fused_rows: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.locations)

    def without(self, locations: Collection[int]) -> LocatedAnnotations:
        """Return the annotations at all other locations; what the fusion found is left out."""
        rows = [row for row, location in enumerate(self.locations) if location not in locations]
        if len(rows) == len(self):
            return self
        return LocatedAnnotations(
            tuple(self.locations[row] for row in rows),
            self.annotations[np.array(rows, dtype=np.int64)],
            tuple(self.marks[row] for row in rows),
        )

    @property
    def generations(self) -> tuple[int, ...]:
        """Which placements they were made of."""
        return tuple(mark.generation for group in self.marks for mark in group)

    def row_at(self, location: int) -> int | None:
        """Return the row of the marks at a location, those that nobody moved first, or None."""
        rows = self._rows.get(location)
        return None if rows is None else rows[0]

    def row_of(self, mark: Mark) -> int | None:
        """Return the row made from marks at the same point as this one, or None."""
        for row in self._rows.get(mark.query.location, ()):
            if any(other.fixed_point == mark.fixed_point for other in self.marks[row]):
                return row
        return None

    @cached_property
    def _rows(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {}
        for row, location in enumerate(self.locations):
            rows.setdefault(location, []).append(row)
        return rows


def all_marks(state: State, rater: str | None = None, *, sealed: bool = False) -> Iterator[Mark]:
    """Return every current placement of all raters or one, in the order of the list; sealed ones on demand."""
    if rater is None:
        keys = sorted((number, who) for who, number in state.cells)
    else:
        keys = [(number, rater) for number in state.answered(rater)]
    for number, who in keys:
        mark = _mark(state, who, number)
        if mark is not None and (sealed or not state.is_sealed(number)):
            yield mark


def _mark(state: State, who: str, number: int) -> Mark | None:
    cell = state.cell(who, number)
    if not isinstance(cell.answer, Place):
        return None
    excluded = (who, number) in state.excluded
    query, control = state.queries[number], state.is_control(number)
    return Mark(who, query, cell.answer, cell.disabled, excluded, cell.batch, control)


def _rank(mark: Mark) -> tuple[int, int]:
    """Return the sort key of a mark: of one rater's marks at one location, the first is used.

    What the organiser asked again comes first, the last asking before the others; then the first answer. A repeat
    measures the error within the rater, and stands in only where the first asking was not answered.
    """
    if mark.query.origin == "again":
        return 0, -mark.query.number
    return (2 if mark.query.origin == "repeat" else 1), mark.query.number


def standing_marks(state: State, rater: str | None = None, *, sealed: bool = False) -> dict[int, tuple[Mark, ...]]:
    """Return for each location the marks that the model uses, one per rater, sorted by rater; sealed ones on demand."""
    standing = {}
    answered = state.cells_at if rater is None else {state.queries[number].location for number in state.answered(rater)}
    for location in sorted(answered):
        if sealed or not state.is_sealed(location):
            marks = _standing_at(state, location)
            if rater is not None:
                marks = tuple(mark for mark in marks if mark.rater == rater)
            if marks:
                standing[location] = marks
    return standing


def _standing_at(state: State, location: int) -> tuple[Mark, ...]:
    """Return the marks at a location that the model uses; found again only where an answer there has changed."""
    known: dict[int, tuple[int, tuple[Mark, ...]]] = state.derived.setdefault("standing marks", {})
    changed = state.changed_at[location]
    if location not in known or known[location][0] != changed:
        best: dict[str, Mark] = {}
        for who, number in state.cells_at[location]:
            mark = _mark(state, who, number)
            if mark is not None and mark.active and (who not in best or _rank(mark) < _rank(best[who])):
                best[who] = mark
        known[location] = changed, tuple(best[who] for who in sorted(best))
    return known[location][1]


def located_annotations(
    state: State, d: int, default: Floats, rater: str | None = None, *, sealed: bool = False
) -> LocatedAnnotations:
    """Gather the annotations of all raters, fused, or of one rater; sealed ones on demand.

    A location with one rater has that rater's own covariance, and so has a mark that its rater moved to another point
    of the fixed image, which is an annotation of its own. Where several answered, mean and covariance come from
    :func:`warpgauge.fuse_raters` (pooled over those locations); no standard deviation there falls below that of a plain
    click (``default``), or below the smallest that the raters themselves stated, whichever is smaller. Where imported
    raters marked different points of the fixed image as well, the location is at their mean, and the match of each is
    carried there by the affine map of all landmarks: so their scatter includes the error in both images.
    """
    locations: list[int] = []
    groups: list[tuple[Mark, ...]] = []
    for location, marks in standing_marks(state, rater, sealed=sealed).items():
        together = tuple(mark for mark in marks if not mark.elsewhere)
        moved = [(mark,) for mark in marks if mark.elsewhere]
        for group in [together, *moved] if together else moved:
            locations.append(location)
            groups.append(group)
    if not groups:
        return LocatedAnnotations((), Annotations.empty(d), ())
    # Their point of the fixed image, or the mean of imported ones that differ.
    fixed = np.array([np.mean(sorted({mark.fixed_point for mark in group}), axis=0) for group in groups])
    moving = np.array([group[0].placement.moving for group in groups])
    covariances = np.array([group[0].placement.covariance for group in groups])
    several = [row for row, group in enumerate(groups) if len(group) > 1]
    fused = None
    if several:
        linear = np.eye(d)
        if any(mark.moved and not mark.elsewhere for group in groups for mark in group):
            linear = _linear(fixed, moving)
        fused = _fused([groups[row] for row in several], fixed[several], linear, default)
        moving[several] = fused.points
        covariances[several] = fused.covariances
    annotations = Annotations(fixed, moving, covariances)
    return LocatedAnnotations(tuple(locations), annotations, tuple(groups), fused, tuple(several))


def own_annotations(state: State, d: int, rater: str, *, sealed: bool = False) -> LocatedAnnotations:
    """Gather a rater's marks as that rater may see them: each an annotation of its own, in the order of answering.

    Answers to control questions and to repeats count like all others, or the rater would find out which they were; what
    an organiser asked again replaces the former answers.
    """
    marks = [
        mark
        for number in state.trails.get(rater, ())
        if (mark := _mark(state, rater, number)) is not None
        and not mark.disabled
        and not mark.excluded
        and (sealed or not state.is_sealed(number))
    ]
    last = {mark.query.location: mark.query.number for mark in marks if mark.query.origin == "again"}
    marks = [mark for mark in marks if last.get(mark.query.location, mark.query.number) == mark.query.number]
    if not marks:
        return LocatedAnnotations((), Annotations.empty(d), ())
    annotations = Annotations(
        np.array([mark.fixed_point for mark in marks]),
        np.array([mark.placement.moving for mark in marks]),
        np.array([mark.placement.covariance for mark in marks]),
    )
    return LocatedAnnotations(
        tuple(mark.query.location for mark in marks), annotations, tuple((mark,) for mark in marks)
    )


def _linear(fixed: Floats, moving: Floats) -> Floats:
    """Return the linear part of the landmarks' affine map; the identity where there are few."""
    d = fixed.shape[1]
    if len(fixed) < 2 * d + 4:
        return np.eye(d)
    return np.asarray(robust_affine(fixed, moving)[1:].T)


def _fused(groups: list[tuple[Mark, ...]], fixed: Floats, linear: Floats, default: Floats) -> FusedPlacements:
    """Fuse the marks of each group, each carried to the group's point of the fixed image."""
    marks = [mark for group in groups for mark in group]
    raters = sorted({mark.rater for mark in marks})
    columns = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    offsets = fixed[columns] - np.array([mark.fixed_point for mark in marks])
    points = np.full((len(raters), *fixed.shape), np.nan)
    rows = [raters.index(mark.rater) for mark in marks]
    points[rows, columns] = np.array([mark.placement.moving for mark in marks]) + offsets @ linear.T
    variances = np.linalg.eigvalsh([mark.placement.covariance for mark in marks])
    floor = float(np.sqrt(min(default[0, 0], variances.min())))
    return fuse_raters(dict(zip(raters, points, strict=True)), floor=floor)
