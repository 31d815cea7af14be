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
from contextlib import suppress

import numpy as np
from scipy.spatial import cKDTree

from warpgauge.audit import contest_sizes, sequential_draw
from warpgauge.core.arrays import Ints
from warpgauge.core.process import Posterior
from warpgauge.errors import WarpgaugeError
from warpgauge.geometry import Floats
from warpgauge.project import Ask, DrawAudit, Project, State
from warpgauge.project.values import PROGRAM, Design
from warpgauge.session.prior import default_covariance
from warpgauge.session.queries import is_free

# Questions of a round: the design of disagreement follows what is known, so that its rounds are short.
ROUND = {"uniform": 64, "disagreement": 16}
# Share of the probability that is spread evenly, for the sizes of errors.
FLOOR = 0.1


def pending_candidates(state: State) -> set[int]:
    """Return the candidates that the round in use will ask for; they are not suggested."""
    if not state.audits:
        return set()
    drawn = state.audits[-1]
    pending = drawn.candidates[state.asked_in.get(drawn.number, 0) :]
    return {candidate for candidate in pending if candidate is not None}


def needs_round(project: Project, state: State) -> bool:
    """Return whether a new round is due: none yet, the last one all asked, or transforms or settings changed."""
    if not state.audits:
        return True
    drawn = state.audits[-1]
    if state.asked_in.get(drawn.number, 0) == len(drawn.targets):
        return True
    return drawn.transforms != _followed(state) or drawn.sealed != (project.settings.audit > 0)


def _followed(state: State) -> dict[str, int]:
    """Return the transforms that a draw follows, where there are several to differ from each other."""
    followed = {name: record.generation for name, record in state.transforms.items()}
    return followed if len(followed) > 1 else {}


def audit_round(project: Project, state: State, expected: Callable[[State], Posterior]) -> DrawAudit | None:
    """Draw targets that were not drawn before; None where none is left.

    Where transforms disagree, by the sizes of their differences, for which the posterior of the answers that are not
    sealed is asked for; else all are equally likely.
    """
    number = len(state.audits)
    followed = _followed(state)
    design: Design = "disagreement" if followed else "uniform"
    asked = [state.audits[query.audit[0]].targets[query.audit[1]] for query in state.queries if query.audit is not None]
    taken = [query.candidate for query in state.queries if query.candidate is not None and not is_free(state, query)]
    places, candidates = audit_places(project)
    is_left = ~np.isin(candidates, taken)
    is_left[asked] = False
    left = np.flatnonzero(is_left)
    if not len(left):
        return None
    seed = secrets.randbits(32)
    if project.settings.audit_seed is not None:
        digest = hashlib.sha256(f"{project.settings.audit_seed}\0audit\0{number}".encode()).digest()
        seed = int.from_bytes(digest[:4], "big")
    sizes = _sizes(project, state, places[left], expected) if followed else np.ones(len(left))
    order, chances = sequential_draw(sizes, ROUND[design], np.random.default_rng(seed))
    drawn = left[order]
    return DrawAudit(
        rater=PROGRAM,
        number=number,
        design=design,
        sealed=project.settings.audit > 0,
        population=len(project.targets),
        drawn_before=len(asked),
        seed=seed,
        targets=drawn.tolist(),
        points=places[drawn].tolist(),
        candidates=tuple(None if candidate < 0 else candidate for candidate in candidates[drawn].tolist()),
        probabilities=chances.tolist(),
        transforms=followed,
    )


def audit_places(project: Project) -> tuple[Floats, Ints]:
    """Return where each target is asked, and by which candidate; -1 for the target itself.

    A candidate stands for the target that it is nearest to, if it lies in that target's own cell (within half the
    typical distance between targets): a place that can be recognised, like all suggestions. The places are the
    population of the audit and never change; a target whose candidate was suggested meanwhile is not drawn.
    """
    targets = project.targets
    candidates = project.candidates
    stands_in = np.full(len(targets), -1, dtype=np.int64)
    if len(targets) > 1:
        tree = cKDTree(targets)
        reach = 0.5 * float(np.median(tree.query(targets, k=2)[0][:, 1]))
        distances, nearest = tree.query(candidates)
        order = np.argsort(-distances, kind="stable")
        order = order[distances[order] <= reach]
        stands_in[nearest[order]] = order  # of several the last one stays, which is the nearest
    return np.where((stands_in >= 0)[:, None], candidates[stands_in], targets), stands_in


def _sizes(project: Project, state: State, places: Floats, expected: Callable[[State], Posterior]) -> Floats:
    """Sizes by the differences of the transforms that can be read; even where fewer than two can be.

    Sizes follow what earlier answers say and are above 0 everywhere, so that verdicts on any two transforms stay exact.
    """
    mapped = []
    for name in state.transforms:
        with suppress(WarpgaugeError):  # shown wherever transforms are listed; the draw goes on without it
            mapped.append(project.transform(name).map(places))
    if len(mapped) < 2:
        return np.ones(len(places))
    values = np.stack(mapped)
    posterior = expected(state)
    noise = default_covariance(project.fixed_grid, project.settings)
    # Where a transform is not defined it counts as no registration, as in the verdict.
    values = np.where(np.isfinite(values).all(axis=2, keepdims=True), values, posterior.prior.prior_mean(places))
    return contest_sizes(values, posterior.mean(places), posterior.covariance(places) + noise, FLOOR)


def audit_question(state: State, drawn: DrawAudit, gain: float | None) -> Ask:
    """Write the next question of a round as a query, with the gain of the suggestion whose place it takes."""
    place = state.asked_in.get(drawn.number, 0)
    return Ask(
        rater=PROGRAM,
        query=len(state.queries),
        point=drawn.points[place],
        candidate=drawn.candidates[place],
        origin="audit",
        gain=gain,
        audit=(drawn.number, place),
    )
