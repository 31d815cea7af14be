"""Drawn questions: targets drawn at random with known probabilities and mixed with the suggestions.

A round is drawn ahead and logged (event ``audit``) with its first question; the others enter the list one by one, at
places of the list that nobody can guess. Raters are shown the same for them as for suggestions. In a project with an
audit their answers are sealed. What answers say is worked out in `warpgauge.evaluation.audit`; nothing here looks at
one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from warpgauge.audit import contest_sizes, sequential_draw
from warpgauge.core.arrays import Ints
from warpgauge.core.process import Posterior
from warpgauge.errors import WarpgaugeError
from warpgauge.geometry import Floats
from warpgauge.project import Ask, DrawAudit, Project, State
from warpgauge.session.queries import PROGRAM, is_free

# Questions of a round: the design of disagreement follows what is known, so that its rounds are short.
ROUND = {"uniform": 64, "disagreement": 16}
# Share of the probability that is spread evenly, for the sizes of errors.
FLOOR = 0.1


@dataclass(frozen=True, eq=False)
class Expected:
    """What is expected of answers, by which questions are drawn."""

    posterior: Posterior
    """What the answers that are not sealed say."""
    noise: Floats
    """Covariance of a placement, (d, d)."""
    chance: Callable[[Floats], Floats]
    """Returns the probability that (n, d) places can be answered."""


def pending_candidates(state: State) -> set[int]:
    """Return the candidates that the round in use will ask for; they are not suggested."""
    if not state.audits:
        return set()
    drawn = state.audits[-1]
    return {one for one in drawn.candidates[state.asked_in.get(drawn.number, 0) :] if one is not None}


def needs_round(project: Project, state: State) -> bool:
    """Return whether a new round is due: none yet, the last one all asked, or transforms or settings changed."""
    if not state.audits:
        return True
    drawn = state.audits[-1]
    if state.asked_in.get(drawn.number, 0) == len(drawn.targets):
        return True
    known = _transforms(state) if _design(state) == "disagreement" else {}
    return drawn.transforms != known or drawn.sealed != (project.settings.audit > 0)


def _design(state: State) -> str:
    return "disagreement" if len(state.transforms) > 1 else "uniform"


def _transforms(state: State) -> dict[str, int]:
    return {name: record.generation for name, record in state.transforms.items()}


def audit_round(project: Project, state: State, expected: Callable[[], Expected]) -> DrawAudit | None:
    """Draw a round; None where no target is left. What is expected is asked for where transforms disagree."""
    if _design(state) == "uniform":
        return _round(project, state, "uniform", ROUND["uniform"], lambda places: np.ones(len(places)))
    count = ROUND["disagreement"]
    return _round(project, state, "disagreement", count, lambda places: _sizes(project, state, places, expected))


def _round(
    project: Project, state: State, design: str, count: int, sizes: Callable[[Floats], Floats]
) -> DrawAudit | None:
    """Draw targets that were not drawn before, by the sizes of their places."""
    number = len(state.audits)
    gone = [state.audits[query.audit[0]].targets[query.audit[1]] for query in state.queries if query.audit is not None]
    taken = [query.candidate for query in state.queries if query.candidate is not None and not is_free(state, query)]
    places, candidates = audit_places(project)
    is_left = ~np.isin(candidates, taken)
    is_left[gone] = False
    left = np.flatnonzero(is_left)
    if not len(left):
        return None
    given = project.settings.audit_seed
    seed = secrets.randbits(32) if given is None else _derived(given, number)
    order, chances = sequential_draw(sizes(places[left]), count, np.random.default_rng(seed))
    return DrawAudit(
        rater=PROGRAM,
        number=number,
        design=design,
        sealed=project.settings.audit > 0,
        population=len(project.targets),
        drawn_before=len(gone),
        seed=seed,
        targets=left[order].tolist(),
        points=places[left[order]].tolist(),
        candidates=tuple(None if one < 0 else one for one in candidates[left[order]].tolist()),
        probabilities=chances.tolist(),
        transforms=_transforms(state) if design == "disagreement" else {},
    )


def _derived(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0audit\0{number}".encode()).digest()[:4], "big")


def audit_places(project: Project) -> tuple[Floats, Ints]:
    """Return where each target is asked, and by which candidate; -1 for the target itself.

    A candidate stands for the target that it is nearest to, if it lies in that target's own cell (within half the
    typical distance between targets): a place that can be recognised, like all suggestions. The places are the
    population of the audit and never change; a target whose candidate was suggested meanwhile is not drawn.
    """
    targets, candidates = project.targets, project.candidates
    found = np.full(len(targets), -1, dtype=np.int64)
    if len(targets) > 1:
        tree = cKDTree(targets)
        reach = 0.5 * float(np.median(tree.query(targets, k=2)[0][:, 1]))
        distances, nearest = tree.query(candidates)
        order = np.argsort(-distances, kind="stable")
        order = order[distances[order] <= reach]
        found[nearest[order]] = order  # of several the last one stays, which is the nearest
    return np.where((found >= 0)[:, None], candidates[np.maximum(found, 0)], targets), found


def _sizes(project: Project, state: State, places: Floats, expected: Callable[[], Expected]) -> Floats:
    """Sizes by the differences of the transforms that can be read; even where fewer than two can be.

    Sizes follow what earlier answers say and are above 0 everywhere, so that verdicts on any two transforms stay exact.
    """
    mapped = []
    for name in state.transforms:
        try:
            mapped.append(project.transform(name).map(places))
        except WarpgaugeError:  # shown wherever transforms are listed; the draw goes on without it
            continue
    if len(mapped) < 2:
        return np.ones(len(places))
    about, values = expected(), np.stack(mapped)
    known = about.posterior
    # Where a transform is not defined it counts as no registration, as in the verdict.
    values = np.where(np.isfinite(values).all(axis=2, keepdims=True), values, known.prior.prior_mean(places))
    return contest_sizes(values, known.mean(places), known.covariance(places) + about.noise, FLOOR)


def audit_question(state: State, drawn: DrawAudit, gain: float | None, ahead: int = 0) -> Ask:
    """Write the next question of a round as a query.

    Parameters
    ----------
    gain : float or None
        Of the suggestion whose place it takes: it must not tell.
    ahead : int
        Questions of the round that are written at the same time, before this one.
    """
    place = state.asked_in.get(drawn.number, 0) + ahead
    return Ask(
        rater=PROGRAM,
        query=len(state.queries) + ahead,
        point=drawn.points[place],
        candidate=drawn.candidates[place],
        origin="audit",
        gain=gain,
        audit=(drawn.number, place),
    )
