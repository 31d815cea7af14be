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
    """Annotations of the model, one for each location, and one for each mark that its rater moved away from there.

    Attributes
    ----------
    locations : tuple of int
        Number of the first query at the location of each annotation, ascending. A location with moved marks can be
        there more than once, its moved marks last.
    annotations : Annotations
    marks : tuple of tuple of Mark
        The marks behind each annotation, one per rater.
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

    def without(self, locations: Collection[int]) -> LocatedAnnotations:
        """Return the annotations at all other locations; what the fusion found is left out."""
        kept = [row for row, location in enumerate(self.locations) if location not in locations]
        if len(kept) == len(self):
            return self
        return LocatedAnnotations(
            tuple(self.locations[row] for row in kept),
            self.annotations[np.array(kept, dtype=np.int64)],
            tuple(self.marks[row] for row in kept),
            None,
            (),
        )

    def row_at(self, location: int) -> int | None:
        """Return the row of the marks at a location, those that nobody moved first, or None."""
        return self._first_rows.get(location)

    def row_of(self, mark: Mark) -> int | None:
        """Return the row made from marks at the same point as this one, or None."""
        for row in self._rows.get(mark.query.location, ()):
            if any(one.fixed_point == mark.fixed_point for one in self.marks[row]):
                return row
        return None

    @cached_property
    def _rows(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {}
        for row, location in enumerate(self.locations):
            rows.setdefault(location, []).append(row)
        return rows

    @cached_property
    def _first_rows(self) -> dict[int, int]:
        return {location: rows[0] for location, rows in self._rows.items()}


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
    """Gather the annotations of all raters, fused, or of one rater.

    A location with one rater has that rater's own covariance, and so has a mark that its rater moved to another point
    of the fixed image, which is an annotation of its own. Where several answered, mean and covariance come from
    :func:`warpgauge.fuse_raters` (pooled over those locations); no standard deviation there falls below that of a plain
    click, or below the smallest that the raters themselves stated, whichever is smaller. Where imported raters marked
    different points of the fixed image as well, the location is at their mean, and the match of each is carried there
    by the affine map of all landmarks: so their scatter includes the error in both images.

    Parameters
    ----------
    default : (d, d) array
        Covariance of a plain click.
    sealed : bool
        Whether sealed answers are among them.
    """
    standing = standing_marks(state, rater, sealed=sealed)
    groups = [(location, group) for location, marks in standing.items() for group in _groups(state, location, marks)]
    if not groups:
        return LocatedAnnotations((), Annotations.empty(d), (), None, ())
    locations, marks = tuple(location for location, _ in groups), tuple(group.marks for _, group in groups)
    fixed = np.array([group.fixed for _, group in groups])
    moving = np.array([group.points[0] for _, group in groups])
    covariances = np.array([group.marks[0].placement.covariance for _, group in groups])
    several = tuple(row for row, group in enumerate(marks) if len(group) > 1)
    fused = None
    if several:
        carried = any(group.carried for _, group in groups)
        linear = _linear(fixed, moving) if carried else np.eye(d)
        fused = _fused([groups[row][1] for row in several], linear, default)
        moving[list(several)] = fused.points
        covariances[list(several)] = fused.covariances
    return LocatedAnnotations(locations, Annotations(fixed, moving, covariances), marks, fused, several)


@dataclass(frozen=True, eq=False)
class _Group:
    """Marks that are fused to one annotation, and what the fusion takes of them.

    Attributes
    ----------
    marks : tuple of Mark
    fixed : (d,) array
        The point of the fixed image that they are about.
    points, offsets : (m, d) arrays
        Of each mark its match, and how far its own point of the fixed image lies from ``fixed``.
    smallest_sd : float
        Smallest standard deviation that one of them states.
    carried : bool
        Whether one of them is about another point of the fixed image, from where its match is carried to ``fixed``.
    """

    marks: tuple[Mark, ...]
    fixed: Floats
    points: Floats
    offsets: Floats
    smallest_sd: float
    carried: bool

    @classmethod
    def of(cls, marks: tuple[Mark, ...]) -> _Group:
        """Gather the marks."""
        fixed = _fixed_point(marks)
        return cls(
            marks,
            fixed,
            np.array([mark.placement.moving for mark in marks]),
            fixed - np.array([mark.fixed_point for mark in marks]),
            float(np.sqrt(np.linalg.eigvalsh([mark.placement.covariance for mark in marks]).min())),
            any(mark.moved and not mark.elsewhere for mark in marks),
        )


def _groups(state: State, location: int, marks: tuple[Mark, ...]) -> list[_Group]:
    """Return the groups of the marks at a location; made again only where the marks have changed."""
    known: dict[int, tuple[tuple[Mark, ...], list[_Group]]] = state.derived.setdefault("groups of marks", {})
    if location not in known or known[location][0] is not marks:
        known[location] = marks, [_Group.of(group) for group in _at_one_point(marks)]
    return known[location][1]


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
        return LocatedAnnotations((), Annotations.empty(d), (), None, ())
    given = Annotations(
        np.array([mark.fixed_point for mark in marks]),
        np.array([mark.placement.moving for mark in marks]),
        np.array([mark.placement.covariance for mark in marks]),
    )
    return LocatedAnnotations(
        tuple(mark.query.location for mark in marks), given, tuple((mark,) for mark in marks), None, ()
    )


def standing_generations(state: State) -> set[int]:
    """Return the generations of the marks that the model uses."""
    return {mark.generation for marks in standing_marks(state).values() for mark in marks}


def _at_one_point(marks: tuple[Mark, ...]) -> list[tuple[Mark, ...]]:
    """Split the marks at a location: those at the queried point together, then each moved one alone."""
    together = tuple(mark for mark in marks if not mark.elsewhere)
    return ([together] if together else []) + [(mark,) for mark in marks if mark.elsewhere]


def _fixed_point(group: tuple[Mark, ...]) -> Floats:
    """Return the point of the fixed image that marks are about: theirs, or the mean where they differ."""
    points = {mark.fixed_point for mark in group}
    return np.array(points.pop()) if len(points) == 1 else np.mean([mark.fixed_point for mark in group], axis=0)


def _linear(fixed: Floats, moving: Floats) -> Floats:
    """Return the linear part of the landmarks' affine map; the identity where there are few."""
    d = fixed.shape[1]
    if len(fixed) < 2 * d + 4:
        return np.eye(d)
    return np.asarray(robust_affine(fixed, moving)[1:].T)


def _fused(groups: list[_Group], linear: Floats, default: Floats) -> FusedPlacements:
    raters = sorted({mark.rater for group in groups for mark in group.marks})
    number = {rater: k for k, rater in enumerate(raters)}
    points = np.full((len(raters), len(groups), len(default)), np.nan)
    who = [number[mark.rater] for group in groups for mark in group.marks]
    rows = np.repeat(np.arange(len(groups)), [len(group.marks) for group in groups])
    # Where imported raters marked different points of the fixed image, each match is carried to their mean.
    points[who, rows] = np.concatenate(
        [group.points + group.offsets @ linear.T if group.carried else group.points for group in groups]
    )
    stated = min(float(np.sqrt(default[0, 0])), *(group.smallest_sd for group in groups))
    return fuse_raters(dict(zip(raters, points, strict=True)), floor=stated)
