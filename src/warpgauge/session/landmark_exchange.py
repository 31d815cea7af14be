"""Landmarks in and out of a project."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import InvalidInputError, say
from warpgauge.geometry import Floats
from warpgauge.io.landmarks import Landmarks, Skip
from warpgauge.project import SKIP_REASONS, Event, Placement, Project, Skipped, State, events
from warpgauge.project.events import Ask, Disable, Place
from warpgauge.session.fused_annotations import LocatedAnnotations, all_marks
from warpgauge.session.plausibility import check_placement

# Two points nearer than this share of a pixel are the same location.
_SAME = 1e-6


def import_events(
    project: Project, state: State, landmarks: Landmarks, rater: str | None, shared: bool, default: Floats
) -> list[Event]:
    """Turn landmarks into events: a query and a placement for each, switched off where they were, and skips.

    A landmark at a location of the list answers that query; others become queries for their rater only, or for all
    (``shared``). All are of one batch, so that one undo takes the import back.
    """
    if landmarks.moving_points is None and not landmarks.skips:
        raise InvalidInputError("These landmarks are points of one image; an import needs pairs.")
    if landmarks.d != project.d or landmarks.units != project.units:
        raise InvalidInputError(
            f"The landmarks are {landmarks.d}D in {landmarks.units}, the project is {project.d}D in {project.units}; "
            f"read them with the project's grids, or with {say('units')} and {say('scale')}."
        )
    covariances = np.broadcast_to(default, (len(landmarks), *default.shape)).copy()
    if landmarks.covariances is not None:
        covariances[landmarks.has_covariance] = landmarks.covariances[landmarks.has_covariance]
    batch = f"import {secrets.token_hex(8)}"
    entry = _Entry(project, state, shared, batch)
    names = landmarks.names or ("",) * len(landmarks)
    raters = landmarks.raters or (None,) * len(landmarks)
    placed = landmarks.moving_points if landmarks.moving_points is not None else np.empty((0, landmarks.d))
    for row, point in enumerate(placed):
        who = _who(raters[row], rater, row)
        placement = Placement.drawn(point, covariances[row], alpha=project.settings.alpha)
        check_placement(project, placement)
        number = entry.query(landmarks.fixed_points[row], who, names[row])
        entry.events.append(Place(rater=who, query=number, placement=placement, batch=batch))
        if not landmarks.active[row]:
            entry.events.append(Disable(rater=who, query=number, batch=batch))
    for skip in landmarks.skips:
        who = _who(skip.rater, rater, None)
        reason, text = _reason(skip.reason)
        number = entry.query(skip.fixed_point, who, "")
        entry.events.append(events.Skip(rater=who, query=number, reason=reason, text=text, batch=batch))
    return entry.events


def volunteered_query(project: Project, state: State, point: tuple[float, ...], who: str, name: str = "") -> Ask:
    """Ask for a place that a rater chose; the same place cannot be chosen twice."""
    tolerance = _SAME * project.fixed_grid.pixel
    for mark in all_marks(state, who, sealed=True):
        if np.abs(np.subtract(mark.fixed_point, point)).max() <= tolerance:
            raise InvalidInputError(
                f"{who} has a landmark at {list(point)} already (query {mark.query.number}); edit that one instead."
            )
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


def _reason(text: str) -> tuple[str, str]:
    """Split ``"reason: text"`` as it is exported; any other text gets the reason ``"other"``."""
    head, _, tail = text.partition(": ")
    return (head, tail) if head in SKIP_REASONS else ("other", text)


class _Entry:
    """Collects the events of an import, and the queries that these events will make."""

    def __init__(self, project: Project, state: State, shared: bool, batch: str) -> None:
        self.project, self.state, self.shared, self.batch = project, state, shared, batch
        self.events: list[Event] = []
        self.tolerance = _SAME * project.fixed_grid.pixel
        self.points: list[tuple[float, ...]] = [query.point for query in state.queries]
        self.only: list[str | None] = [query.for_rater for query in state.queries]
        self.first: list[int] = [query.location for query in state.queries]
        self.taken = {(who, number) for (who, number), cell in state.cells.items() if cell.answer is not None}

    def query(self, point: Floats, who: str, name: str) -> int:
        """Return the number of the query at a point that the rater can answer; a new one where there is none."""
        near = self._near(np.array(self.points), point) if self.points else []
        for number in near:
            if self.only[number] in (None, who) and (who, number) not in self.taken:
                self.taken.add((who, number))
                return number
        if any((who, number) in self.taken for number in near):
            raise InvalidInputError(
                f"{who} has an answer at {point.tolist()} already; undo or skip it first, or leave the landmark out."
            )
        number, candidates = len(self.points), self._near(self.project.candidates, point)
        ask = Ask(
            rater=who,
            query=number,
            point=tuple((self.project.candidates[candidates[0]] if candidates else point).tolist()),
            candidate=candidates[0] if candidates else None,
            origin="given",
            same_as=self.first[near[0]] if near else None,
            for_rater=None if self.shared else who,
            name=name,
            batch=self.batch,
        )
        self.events.append(ask)
        self.points.append(ask.point)
        self.only.append(ask.for_rater)
        self.first.append(number if ask.same_as is None else ask.same_as)
        self.taken.add((who, number))
        return number

    def _near(self, points: Floats, point: Floats) -> list[int]:
        return [int(row) for row in np.flatnonzero(np.abs(points - point).max(axis=1) <= self.tolerance)]


def raters_landmarks(project: Project, state: State, rater: str | None) -> Landmarks:
    """Return every current mark of all raters or one, with its rater and whether it is switched off, and the skips."""
    marks = list(all_marks(state, rater))
    skips = [
        Skip(np.array(state.queries[number].point), f"{cell.answer.reason}: {cell.answer.text}".removesuffix(": "), who)
        for (who, number), cell in sorted(state.cells.items(), key=lambda item: (item[0][1], item[0][0]))
        if isinstance(cell.answer, Skipped) and (rater is None or who == rater) and not state.is_sealed(number)
    ]
    bare = _landmarks(
        project,
        [mark.fixed_point for mark in marks],
        [mark.placement.point for mark in marks],
        [mark.placement.covariance for mark in marks],
        [mark.query.name or f"q{mark.query.number}" for mark in marks],
    )
    return replace(
        bare,
        raters=tuple(mark.rater for mark in marks),
        active=np.array([mark.active for mark in marks], dtype=bool),
        skips=tuple(skips),
    )


def fused_landmarks(project: Project, state: State, located: LocatedAnnotations) -> Landmarks:
    """Return the landmarks that the model uses: one per location, raters fused."""
    a = located.annotations
    names = []
    for number, marks in zip(located.locations, located.marks, strict=True):
        name = state.queries[number].name or f"q{number}"
        names.append(f"{name} moved by {marks[0].rater}" if marks[0].origin == "moved" else name)
    return _landmarks(project, a.fixed_points, a.moving_points, a.covariances, names)


def _landmarks(
    project: Project, fixed: ArrayLike, moving: ArrayLike, covariances: ArrayLike, names: list[str]
) -> Landmarks:
    d, images = project.d, project.document.images
    return Landmarks(
        np.reshape(np.asarray(fixed, dtype=np.float64), (-1, d)),
        np.reshape(np.asarray(moving, dtype=np.float64), (-1, d)),
        np.reshape(np.asarray(covariances, dtype=np.float64), (-1, d, d)),
        tuple(names),
        frame="LPS" if d == 3 and project.units == "mm" else "image",
        units=project.units,
        image_hashes={role: images[role].content_hash for role in ("fixed", "moving")},
    )
