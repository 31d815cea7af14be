"""Landmarks in and out of a project."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from warpgauge.errors import InvalidInputError, say
from warpgauge.geometry import Floats
from warpgauge.io.landmarks import Landmarks, Skip
from warpgauge.project import SKIP_REASONS, Ask, Event, Place, Placement, Project, State, events
from warpgauge.project.events import Disable
from warpgauge.session.fused_annotations import LocatedAnnotations, Mark, all_marks
from warpgauge.session.plausibility import check_placement
from warpgauge.session.prior import default_covariance
from warpgauge.session.queries import is_retracted, number_for

# Two points nearer than this share of a pixel are the same location.
_SAME = 1e-6
# Landmarks of one name are the same if no farther apart than this share of the image's diagonal; without names they are
# the same if nearer to each other than this share of the distance to any other landmark.
_SAME_LANDMARK, _CLEARLY = 0.05, 0.25


def import_events(project: Project, state: State, landmarks: Landmarks, rater: str | None, shared: bool) -> list[Event]:
    """Turn landmarks into events: a query and a placement for each, switched off where they were, and skips.

    A landmark at a location of the list answers that query, and so does one that another rater's import has: by its
    name, or without names by lying far nearer to it than other landmarks do. Others become queries for their rater
    only, or for all (``shared``). All are of one batch, so that one undo takes the import back.
    """
    if landmarks.moving_points is None and not landmarks.skips:
        raise InvalidInputError("These landmarks are points of one image; an import needs pairs.")
    if landmarks.d != project.d or landmarks.units != project.units:
        raise InvalidInputError(
            f"The landmarks are {landmarks.d}D in {landmarks.units}, the project is {project.d}D in {project.units}; "
            f"read them with the project's grids, or with {say('units')} and {say('scale')}."
        )
    default = default_covariance(project.fixed_grid, project.settings)
    covariances = np.broadcast_to(default, (len(landmarks), *default.shape)).copy()
    if landmarks.covariances is not None:
        covariances[landmarks.has_covariance] = landmarks.covariances[landmarks.has_covariance]
    batch = f"import {secrets.token_hex(8)}"
    locations = _Locations(project, state, len(landmarks) + len(landmarks.skips), shared, batch)
    answers: list[Event] = []
    names = landmarks.names or ("",) * len(landmarks)
    raters = landmarks.raters or (None,) * len(landmarks)
    placed = landmarks.moving_points if landmarks.moving_points is not None else np.empty((0, landmarks.d))
    people = [_who(raters[row], rater, row) for row in range(len(placed))]
    apart = _apart(landmarks.fixed_points[: len(placed)], people)
    for row, point in enumerate(placed):
        who = people[row]
        at = landmarks.fixed_points[row]
        number = locations.query(at, who, names[row], float(apart[row]))
        moved = None if np.abs(at - locations.points[number]).max() <= locations.tolerance else at
        placement = Placement.drawn(point, covariances[row], alpha=project.settings.alpha, fixed=moved)
        check_placement(project, placement)
        answers.append(Place(rater=who, query=number, placement=placement, batch=batch))
        if not landmarks.active[row]:
            answers.append(Disable(rater=who, query=number, batch=batch))
    for skip in landmarks.skips:
        who = _who(skip.rater, rater, None)
        number = locations.query(skip.fixed_point, who, "")
        answers.append(events.Skip(rater=who, query=number, batch=batch, **_reason(skip.reason)))
    return [*locations.new, *answers]


def _apart(points: Floats, raters: list[str]) -> Floats:
    """Return how far each point is from the nearest other one of the same rater; infinity where there is none."""
    apart = np.full(len(points), np.inf)
    names = np.array(raters)
    for name in set(raters):
        rows = np.flatnonzero(names == name)
        if len(rows) > 1:
            apart[rows] = cKDTree(points[rows]).query(points[rows], k=2)[0][:, 1]
    return apart


def volunteered_query(project: Project, state: State, point: tuple[float, ...], who: str, name: str = "") -> Ask:
    """Ask for a place that a rater chose; the same place cannot be chosen twice."""
    tolerance = _SAME * project.fixed_grid.pixel
    for mark in all_marks(state, who, sealed=True):
        if np.abs(np.subtract(mark.fixed_point, point)).max() <= tolerance:
            raise InvalidInputError(f"{who} has a landmark at {list(point)} already; edit that one instead.")
    near = np.flatnonzero(np.abs(project.candidates - np.array(point)).max(axis=1) <= tolerance)
    candidate = int(near[0]) if len(near) and project.candidates[near[0]].tolist() == list(point) else None
    return Ask(
        rater=who,
        query=len(state.queries),
        point=point,
        candidate=candidate,
        origin="volunteered",
        for_rater=who,
        name=name,
    )


def _who(named: str | None, rater: str | None, row: int | None) -> str:
    who = rater if rater is not None else named
    if who is None:
        where = "A skip" if row is None else f"Landmark {row + 1}"
        raise InvalidInputError(f"{where} does not say who placed it; give the rater.")
    return who


def _reason(text: str) -> dict[str, Any]:
    """Split ``"reason: text"`` as it is exported; any other text gets the reason ``"other"``."""
    head, _, tail = text.partition(": ")
    return {"reason": head, "text": tail} if head in SKIP_REASONS else {"reason": "other", "text": text}


class _Locations:
    """The queries that an import can answer: those of the list, and those that it brings along."""

    def __init__(self, project: Project, state: State, most: int, shared: bool, batch: str) -> None:
        self.candidates = project.candidates
        self.nearest_candidate = cKDTree(project.candidates)
        self.tolerance = _SAME * project.fixed_grid.pixel
        self.reach = _SAME_LANDMARK * project.fixed_grid.diagonal
        self.shared = shared
        self.batch = batch
        self.new: list[Ask] = []
        self.queries = list(state.queries)
        self.points = np.full((len(self.queries) + most, project.d), np.inf)
        """Of each query, in the fixed image's world; infinity where there is none yet."""
        self.locations = np.full(len(self.points), -1)
        """Of each query, its location."""
        self.is_landmark = np.zeros(len(self.points), dtype=bool)
        """Which queries are the first of a location that an import has."""
        for query in self.queries:
            self.points[query.at] = query.point
            self.locations[query.at] = query.location
            own = query.same_as is None and query.origin == "given"
            self.is_landmark[query.at] = own and not is_retracted(state, query)
        self.taken = {(who, number) for (who, number), cell in state.cells.items() if cell.answer is not None}

    def query(self, point: Floats, who: str, name: str, apart: float = np.inf) -> int:
        """Return the number of the query at a point that the rater can answer; a new one where there is none.

        ``apart`` is how far the rater's next landmark is.
        """
        rows = np.flatnonzero(
            np.abs(self.points[:, 0] - point[0]) <= self.tolerance
        )  # few, before all axes are compared
        here: list[int] = rows[np.abs(self.points[rows] - point).max(axis=1) <= self.tolerance].tolist()
        here = here or self._of_others(point, who, name, apart)
        is_taken = [(who, number) in self.taken for number in here]
        for number, taken in zip(here, is_taken, strict=True):
            if not taken and self.queries[number].asks(who):
                self.taken.add((who, number))
                # One of an import that was undone is a landmark again.
                first = int(self.locations[number])
                self.is_landmark[first] |= self.queries[first].origin == "given"
                return number
        if any(is_taken):
            place = ", ".join(f"{x:g}" for x in point)
            raise InvalidInputError(
                f"The rater {who} has an answer at ({place}) already; undo it first, or leave the landmark out."
            )
        return self._add(point, who, name, self.queries[here[0]] if here else None)

    def _add(self, point: Floats, who: str, name: str, known: Ask | None) -> int:
        """Add a query, at the location of one that is known or at a new one: a candidate's if one lies there."""
        candidate = None
        if known is None:
            distance, nearest = self.nearest_candidate.query(point, p=np.inf)
            if distance <= self.tolerance:
                candidate = int(nearest)
                point = self.candidates[candidate]
        ask = Ask(
            rater=who,
            query=len(self.queries),
            point=tuple(point.tolist()) if known is None else known.point,
            candidate=candidate,
            origin="given",
            same_as=None if known is None else known.location,
            for_rater=None if self.shared else who,
            name=name,
            batch=self.batch,
        )
        self.new.append(ask)
        self.queries.append(ask)
        self.points[ask.at] = ask.point
        self.locations[ask.at] = ask.location
        self.is_landmark[ask.at] = known is None
        self.taken.add((who, ask.at))
        return ask.at

    def _of_others(self, point: Floats, who: str, name: str, apart: float) -> list[int]:
        """Return the imported queries of the location that other raters mean by this landmark, if there is one."""
        rows = np.flatnonzero(self.is_landmark)
        if not len(rows):
            return []
        away = np.linalg.norm(self.points[rows] - point, axis=1)
        location = None
        called = [int(row) for row in rows[away <= self.reach] if self.queries[row].name == name]
        if name and len(called) == 1:
            location = called[0]
        else:
            # The next location and the rater's next landmark are both far away beside this one.
            order = np.argsort(away)
            next_away = away[order[1]] if len(order) > 1 else np.inf
            nearest = int(rows[order[0]])
            if away[order[0]] <= _CLEARLY * min(apart, next_away, self.reach) and self.queries[nearest].name == name:
                location = nearest
        if location is None:
            return []
        here = np.flatnonzero(self.locations == location).tolist()
        return [] if any((who, number) in self.taken for number in here) else here


def raters_landmarks(project: Project, state: State, rater: str | None) -> Landmarks:
    """Return every current mark of all raters or one, with its rater and whether it is switched off, and the skips."""
    marks = list(all_marks(state, rater))
    names = [mark.query.name or f"q{mark.query.number}" for mark in marks]
    keys = sorted((key for key in state.cells if rater in (None, key[0])), key=lambda key: (key[1], key[0]))
    return _of_raters(project, state, marks, names, keys)


def own_landmarks(project: Project, state: State, rater: str, left_out: Collection[int]) -> Landmarks:
    """Return a rater's marks and skips as that rater may have them: in the order and with the numbers of answering.

    Nothing tells which were control questions, or how many questions others were asked.
    """
    trail = [number for number in state.trails.get(rater, ()) if number not in left_out and not state.is_sealed(number)]
    by_number = {mark.query.number: mark for mark in all_marks(state, rater)}
    marks = [replace(by_number[number], control=False) for number in trail if number in by_number]
    names = [mark.query.name or f"mark {number_for(state, rater, mark.query.number)}" for mark in marks]
    return _of_raters(project, state, marks, names, [(rater, number) for number in trail])


def _of_raters(
    project: Project, state: State, marks: list[Mark], names: list[str], keys: list[tuple[str, int]]
) -> Landmarks:
    """Return marks as landmarks, each with its rater and whether it is switched off, and the open skips among keys."""
    skips = []
    for who, number in keys:
        answer = state.answer(who, number)
        if isinstance(answer, events.Skip) and not state.is_sealed(number):
            reason = f"{answer.reason}: {answer.text}".removesuffix(": ")
            skips.append(Skip(np.array(state.queries[number].point), reason, who))
    landmarks = _landmarks(
        project,
        [mark.fixed_point for mark in marks],
        [mark.placement.moving for mark in marks],
        [mark.placement.covariance for mark in marks],
        names,
    )
    return replace(
        landmarks,
        raters=tuple(mark.rater for mark in marks),
        active=np.array([mark.active for mark in marks], dtype=bool),
        skips=tuple(skips),
    )


def fused_landmarks(project: Project, state: State, located: LocatedAnnotations) -> Landmarks:
    """Return the landmarks that the model uses: one per location, raters fused."""
    names = []
    for number, marks in zip(located.locations, located.marks, strict=True):
        name = state.queries[number].name or f"q{number}"
        names.append(f"{name} moved by {marks[0].rater}" if marks[0].origin == "moved" else name)
    annotations = located.annotations
    return _landmarks(project, annotations.fixed_points, annotations.moving_points, annotations.covariances, names)


def _landmarks(
    project: Project, fixed: ArrayLike, moving: ArrayLike, covariances: ArrayLike, names: list[str]
) -> Landmarks:
    d = project.d
    return Landmarks(
        np.reshape(np.asarray(fixed, dtype=np.float64), (-1, d)),
        np.reshape(np.asarray(moving, dtype=np.float64), (-1, d)),
        np.reshape(np.asarray(covariances, dtype=np.float64), (-1, d, d)),
        tuple(names),
        frame="LPS" if d == 3 and project.units == "mm" else "image",
        units=project.units,
    )
