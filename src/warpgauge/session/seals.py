"""Which answers are sealed: drawn at random when the question is asked, so that nobody can choose them by the answer.

Until the project is unsealed, sealed answers do not exist for exports, maps, predictions, refits and verdicts
(`State.is_sealed`). Then they count like the others, and they test every transform that was added before for having
seen the other answers. Answers to audit questions are sealed as well (`warpgauge.session.audit_questions`).
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from warpgauge.core.arrays import Bools, Ints
from warpgauge.errors import InvalidInputError
from warpgauge.project import Entry, Project, Skipped, State
from warpgauge.project.events import Ask, Seal, Unseal
from warpgauge.project.values import ORGANISER
from warpgauge.session.audit_questions import is_slot
from warpgauge.session.fused_annotations import Mark, located_annotations
from warpgauge.session.prior import default_covariance
from warpgauge.session.queries import PROGRAM, is_retracted

# Share of the answers that is sealed, and how many at most: with 20 open answers, 15 sealed ones found most leaks.
SHARE, MOST = 0.25, 15
# The first suggestions are open, since the model begins with their answers; those after them make up for it.
OPEN_FIRST = 4


def with_seals(project: Project, asked: list[Ask]) -> list[Ask]:
    """Draw which of the suggestions that are about to be asked are sealed."""
    settings = project.settings
    share = _share_beside(settings.audit) if settings.seal else 0.0
    if not share or not any(ask.origin == "suggested" for ask in asked):
        return asked
    if project.state.seal is None:
        seed = secrets.randbits(32) if settings.audit_seed is None else _derived(settings.audit_seed)
        with suppress(InvalidInputError):  # another process has written the seed: that one holds
            project.append(Seal(rater=PROGRAM, seed=seed, share=SHARE, most=MOST))
    state = project.state
    if state.seal is None:
        return asked
    rank = sum(query.origin == "suggested" for query in state.queries)
    # Where the list depends on nobody's answers, a sealed place that was skipped is not made up for either.
    fixed = settings.fixes_places(state.has_raters)
    left, result = state.seal.most - len(state.sealed_locations() if fixed else live_seals(state)), []
    for ask in asked:
        drawn = ask.origin == "suggested" and left > 0 and _is_drawn(state.seal.seed, share, rank)
        rank, left = rank + (ask.origin == "suggested"), left - drawn
        result.append(replace(ask, sealed=True) if drawn else ask)
    return result


def _is_drawn(seed: int, share: float, rank: int) -> bool:
    """Return whether the suggestion of this rank is drawn: one in every 1 / share, two in the first two of these."""
    early = int(np.ceil(2 / share - 1e-9))
    if rank < early:
        later = np.random.default_rng([seed, 0]).permutation(np.arange(OPEN_FIRST, early))
        return rank in later[:2]
    return is_slot(seed, share, rank)


def _share_beside(audit: float) -> float:
    """Return the share of suggestions to draw so that, with the audit questions, a quarter of all is sealed."""
    return max(0.0, (SHARE - audit) / (1 - audit))


def _derived(seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0seal".encode()).digest()[:4], "big")


def live_seals(state: State) -> list[int]:
    """Return the sealed locations that have an answer or are still asked, not those that were withdrawn or skipped."""
    return [location for location in state.sealed_locations() if _is_live(state, location)]


def _is_live(state: State, location: int) -> bool:
    answers = [state.cells[key].answer for key in state.cells_at.get(location, ())]
    given = [answer for answer in answers if answer is not None]
    return any(not isinstance(answer, Skipped) for answer in given) or not (
        given or is_retracted(state, state.queries[location])
    )


def drawn_rows(count: int, wanted: int, seed: int) -> Bools:
    """Return which of ``count`` locations of an import are sealed: ``wanted`` of them, all equally likely."""
    chosen = np.zeros(count, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(count)[:wanted]] = True
    return chosen


def default_count(locations: int) -> int:
    """Return how many of so many imported locations are sealed unless a number is given: a quarter, at most 15."""
    return min(MOST, int(locations * SHARE))


def sealed_answers(state: State) -> int:
    """Count the locations with a placement that is sealed now."""
    return sum(
        any(state.cells[key].placement is not None for key in state.cells_at.get(location, ()))
        for location in state.sealed_locations()
    )


@dataclass(frozen=True, eq=False)
class OnceSealed:
    """Answers that were sealed when they were given and have been opened since.

    Attributes
    ----------
    rows : (n,) array of bool
        Which of the annotations of the project's model they are.
    opened : (m,) array of int
        Generation at which each of them was opened.
    """

    rows: Bools
    opened: Ints

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


def unseal(project: Project, rater: str = ORGANISER, *, certificate: str = "") -> Entry:
    """Open all sealed answers for a verdict: they are used like all others from now on. Only for organisers.

    Transforms that are added or changed afterwards can no longer be tested by them.
    """
    return project.append(Unseal(rater=rater, certificate=certificate))[0]
