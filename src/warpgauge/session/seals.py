"""Sealed answers: those of an audit, whose places were drawn at random, so that nobody can choose them by the answer.

Until the project is unsealed they do not exist for exports, maps, predictions, refits and verdicts (`State.is_sealed`).
Then they count like the others, and they test every transform that was added before for having seen the other answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Bools, Ints
from warpgauge.project import Event, Project, State
from warpgauge.project.events import Unseal
from warpgauge.project.values import ORGANISER
from warpgauge.session.fused_annotations import Mark, located_annotations
from warpgauge.session.prior import default_covariance


def sealed_answers(state: State) -> int:
    """Count the locations with a placement that is sealed now."""
    return sum(
        any(state.cells[key].placement is not None for key in state.cells_at.get(location, ()))
        for location in state.sealed_locations()
    )


@dataclass(frozen=True, eq=False)
class OnceSealed:
    """Answers that were sealed when they were given and have been opened since."""

    rows: Bools
    """Which of the annotations of the project's model they are, (n,)."""
    opened: Ints
    """Generation at which each of them was opened, (m,)."""

    def hidden_from(self, project: Project, name: str) -> Bools:
        """Return which of them a transform cannot have seen: it was added before, by any name, and is unchanged."""
        record = project.state.transforms.get(name)
        if record is None or not project.is_unchanged(name):
            return np.zeros(len(self.opened), dtype=bool)
        return np.asarray(project.state.first_added[record.content] < self.opened)

    def is_changed(self, project: Project, name: str) -> bool:
        """Return whether the files of a transform of the project are not those that were added."""
        return name in project.state.transforms and not project.is_unchanged(name)


def once_sealed(project: Project) -> OnceSealed:
    """Return which annotations of the project's model were sealed and have been opened.

    An answer that was placed or changed after the opening is not among them: it could have been chosen by then.
    """
    state = project.state
    located = located_annotations(state, project.d, default_covariance(project.fixed_grid, project.settings))
    opened = [_opened(state, location, marks) for location, marks in zip(located.locations, located.marks, strict=True)]
    return OnceSealed(
        np.array([one is not None for one in opened], dtype=bool),
        np.array([one for one in opened if one is not None], dtype=np.int64),
    )


def _opened(state: State, location: int, marks: tuple[Mark, ...]) -> int | None:
    opened = state.opened_at(location) if state.was_sealed(location) else None
    return opened if opened is not None and all(mark.generation < opened for mark in marks) else None


def unseal(project: Project, rater: str = ORGANISER, *, certificate: str = "") -> Event:
    """Open the answers of the audit for a verdict: they are used like all others from now on. Only for organisers.

    Transforms that are added or changed afterwards can no longer be tested by them.
    """
    return project.append(Unseal(rater=rater, certificate=certificate))[0]
