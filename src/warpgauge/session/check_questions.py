"""Questions other than suggestions: audit questions, drawn at random, and control questions with known answers.

A certificate relies on audit questions; control questions and repeats measure the precision of each rater.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from warpgauge.core.annotations import confidence_radius
from warpgauge.core.arrays import Ints
from warpgauge.core.calibration import binomial_interval
from warpgauge.core.designs import balanced_order, disagreement_sizes, inclusion_probabilities
from warpgauge.core.factors import mahalanobis
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.geometry import Floats
from warpgauge.project import AuditRound, Draft, Event, Placement, Project, QueryRecord, State
from warpgauge.session.agreement import intra_rater
from warpgauge.session.fused_annotations import all_marks
from warpgauge.session.queries import PROGRAM, is_free

# Audit questions: targets drawn at random with known probabilities and mixed with the suggestions.
#
# A round is drawn ahead and logged (event ``audit``); its questions enter the list one by one, at places of the list
# that nobody can guess. Raters are shown the same for them as for suggestions. What answers say is worked out in
# `warpgauge.evaluation.audit`; nothing here looks at one.

# Questions of a round: the design of disagreement follows what is known, so that its rounds are short.
ROUND = {"uniform": 64, "disagreement": 16}
# Share of the probability that is spread evenly; no weight exceeds its inverse times the mean weight.
FLOOR = 0.25


def slots(state: State, share: float, count: int) -> list[bool]:
    """Return which of the next ``count`` locations are audit questions: a random one in every 1 / share locations.

    Places come from the seed of the first round, which nobody can guess.
    """
    if not state.audits or share == 0:
        return [False] * count
    before = sum(query.origin in ("suggested", "audit") for query in state.queries)
    seed = state.audits[0].seed
    return [is_slot(seed, share, before + step) for step in range(count)]


def is_slot(seed: int, share: float, rank: int) -> bool:
    """Return whether the question of this rank is the one drawn by the seed among its 1 / share neighbours."""
    stretch = int(np.floor(rank * share + 1e-9))
    for part in (stretch - 1, stretch, stretch + 1):
        low, high = (int(np.ceil(one / share - 1e-9)) for one in (part, part + 1))
        if part >= 0 and low <= rank < high:
            digest = hashlib.sha256(f"{seed}\0slot\0{part}".encode()).digest()
            return rank == low + int.from_bytes(digest[:8], "big") % (high - low)
    return False


def asked_of(state: State, drawn: AuditRound) -> int:
    """Return how many questions of a round are in the list."""
    return sum(query.audit is not None and query.audit[0] == drawn.number for query in state.queries)


def pending_candidates(state: State) -> set[int]:
    """Return the candidates that the round in use will ask for; they are not suggested."""
    if not state.audits:
        return set()
    drawn = state.audits[-1]
    return {one for one in drawn.candidates[asked_of(state, drawn) :] if one is not None}


def needs_round(project: Project, state: State) -> bool:
    """Return whether a new round is due: none yet, the last one all asked, or transforms or settings changed."""
    if not state.audits:
        return True
    drawn, settings = state.audits[-1], project.settings
    if asked_of(state, drawn) == len(drawn.targets):
        return True
    known = _transforms(state) if _design(project, state) == "disagreement" else {}
    return drawn.transforms != known or drawn.sealed != settings.seal


def _design(project: Project, state: State) -> str:
    several = len(state.transforms) > 1 and project.settings.audit_design == "auto"
    return "disagreement" if several else "uniform"


def _transforms(state: State) -> dict[str, int]:
    return {name: record.generation for name, record in state.transforms.items()}


def round_draft(project: Project, state: State, posterior: Callable[[], Posterior], noise: Floats) -> Draft | None:
    """Draw a round; None where no target is left.

    Parameters
    ----------
    posterior : callable
        Returns what the answers that are not sealed say; called where transforms disagree.
    noise : (d, d) array
        Covariance of a placement.
    """
    number, settings = len(state.audits), project.settings
    gone = {state.audits[query.audit[0]].targets[query.audit[1]] for query in state.queries if query.audit is not None}
    left = np.setdiff1d(np.arange(len(project.targets)), np.array(sorted(gone), dtype=np.int64))
    if not len(left):
        return None
    seed = secrets.randbits(32) if settings.audit_seed is None else _derived(settings.audit_seed, number)
    design = _design(project, state)
    sizes = _sizes(project, state, left, posterior, noise) if design == "disagreement" else np.ones(len(left))
    shares = inclusion_probabilities(sizes, min(ROUND[design], len(left)))
    order = balanced_order(project.targets[left], shares, np.random.default_rng(seed))
    candidates = question_candidates(project, state)[left[order]]
    points = [
        (project.targets[target] if candidate < 0 else project.candidates[candidate]).tolist()
        for target, candidate in zip(left[order], candidates, strict=True)
    ]
    payload: dict[str, Any] = {
        "round": number,
        "design": design,
        "sealed": settings.seal,
        "population": len(project.targets),
        "drawn_before": len(gone),
        "seed": seed,
        "targets": left[order].tolist(),
        "points": points,
        "candidates": [None if one < 0 else int(one) for one in candidates],
        "probabilities": np.minimum(shares[order], 1.0).tolist(),
        "transforms": _transforms(state) if design == "disagreement" else {},
    }
    return Draft("audit", PROGRAM, payload=payload)


def _derived(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0audit\0{number}".encode()).digest()[:4], "big")


def question_candidates(project: Project, state: State) -> Ints:
    """Return for each target the candidate that is asked in its place, -1 for the target itself.

    A candidate stands for the target that it is nearest to, if it lies in that target's own cell (within half the
    typical distance between targets) and is not in the list yet: a place that can be recognised, like all suggestions.
    """
    targets, candidates = project.targets, project.candidates
    found = np.full(len(targets), -1, dtype=np.int64)
    if len(targets) < 2:
        return found
    tree = cKDTree(targets)
    reach = 0.5 * float(np.median(tree.query(targets, k=2)[0][:, 1]))
    taken = {query.candidate for query in state.queries if query.candidate is not None and not is_free(state, query)}
    distances, nearest = tree.query(candidates)
    for candidate in np.argsort(-distances, kind="stable"):  # the nearest comes last and stays
        if distances[candidate] <= reach and int(candidate) not in taken:
            found[nearest[candidate]] = candidate
    return found


def _sizes(project: Project, state: State, rows: Ints, posterior: Callable[[], Posterior], noise: Floats) -> Floats:
    """Sizes by the disagreement of the transforms that can be read; even where fewer than two can."""
    points, mapped = project.targets[rows], []
    for name in state.transforms:
        try:
            mapped.append(project.transform(name).map(points))
        except WarpgaugeError:  # shown wherever transforms are listed; the draw goes on without it
            continue
    if len(mapped) < 2:
        return np.ones(len(rows))
    return disagreement_sizes(np.stack(mapped), posterior().covariance(points) + noise, FLOOR)


def question_draft(state: State, number: int, gain: float | None, ahead: int = 0) -> Draft:
    """Write the next question of the round in use as query ``number``.

    Parameters
    ----------
    gain : float or None
        Of the suggestion whose place it takes: raters may see it, and it must not tell.
    ahead : int
        Questions of the round that are written at the same time, before this one.
    """
    drawn = state.audits[-1]
    place = asked_of(state, drawn) + ahead
    payload = {
        "point": list(drawn.points[place]),
        "candidate": drawn.candidates[place],
        "origin": "audit",
        "gain": gain,
        "audit": {"round": drawn.number, "place": place},
    }
    return Draft("query", PROGRAM, number, payload)


# Control questions, whose answers are known, and what they and repeats say about each rater.
#
# The pairs are logged once (event ``controls``); their questions replace suggestions one by one, at places of the list
# that nobody can guess. The model never uses an answer to one: they only measure the rater.

EVERY = 8  # of so many questions one is a control question
LEVEL = 0.95


def add_controls(project: Project, fixed: Floats, moving: Floats, rater: str, *, seed: int | None = None) -> Event:
    """Log pairs with known matches; from now on they are mixed into the questions, each once.

    Parameters
    ----------
    project : Project
    fixed, moving : (n, d) array
        Points and their known matches, world units.
    rater : str
        An organiser.
    seed : int, optional
        Of their places in the list; one that nobody can guess by default.
    """
    for points, grid, side in ((fixed, project.fixed_grid, "fixed"), (moving, project.moving_grid, "moving")):
        outside = np.flatnonzero(~grid.contains(points))
        if len(outside):
            raise InvalidInputError(
                f"Control {outside[0] + 1} lies outside the {side} image, at "
                f"{', '.join(f'{value:.4g}' for value in points[outside[0]])}; a control question needs a match that "
                f"can be marked: leave it out."
            )
    drawn = secrets.randbits(32) if seed is None else seed
    payload = {"fixed": fixed.tolist(), "moving": moving.tolist(), "every": EVERY, "seed": drawn}
    (event,) = project.append(Draft("controls", rater, payload=payload))
    return event


def with_controls(state: State, drafts: list[Draft]) -> list[Draft]:
    """Replace suggestions by control questions where one is due."""
    if state.controls is None:
        return drafts
    known = state.controls.payload
    asked = [query for query in state.queries if query.known and query.generation > state.controls.generation]
    left = known["fixed"][len(asked) :]
    rank = sum(query.origin in ("suggested", "audit", "control") for query in state.queries)
    result = list(drafts)
    for step, draft in enumerate(drafts):
        if (
            not left
            or draft.payload["origin"] != "suggested"
            or not is_slot(known["seed"], 1 / known["every"], rank + step)
        ):
            continue
        place = len(known["fixed"]) - len(left)
        payload = {
            "point": known["fixed"][place],
            "candidate": None,
            "origin": "control",
            "known": known["moving"][place],
            "gain": draft.payload["gain"],  # of the suggestion in whose stead it is asked: nothing gives it away
        }
        result[step] = Draft("query", draft.rater, draft.query, payload)
        left = left[1:]
    return result


@dataclass(frozen=True, eq=False)
class RaterCertificate:
    """Precision of a rater, with 95 % intervals.

    Attributes
    ----------
    controls : int
        Control questions placed.
    bias, bias_low, bias_high : (d,) array or None
        Mean offset from the known matches, and its interval by Student's t; from two controls on.
    sd, sd_low, sd_high : float or None
        Standard deviation of one placement in one direction about the bias, and its interval by chi-square.
    inside, inside_low, inside_high : int, float, float
        Known matches within the region that the rater drew, and the binomial interval of that share.
    repeats : int
        Locations placed twice.
    repeat_sd, repeat_low, repeat_high : float or None
        Standard deviation of one placement in one direction, from those.
    """

    controls: int
    bias: Floats | None
    bias_low: Floats | None
    bias_high: Floats | None
    sd: float | None
    sd_low: float | None
    sd_high: float | None
    inside: int
    inside_low: float
    inside_high: float
    repeats: int
    repeat_sd: float | None
    repeat_low: float | None
    repeat_high: float | None


def rater_certificate(state: State, rater: str) -> RaterCertificate | None:
    """Return what control questions and repeats say about a rater; None where there is neither."""
    pairs = [
        (mark.query, mark.placement)
        for mark in all_marks(state, rater, sealed=True)
        if mark.query.known and not mark.moved
    ]
    intra = intra_rater(state, rater)
    repeats = 0 if intra is None else intra.pairs
    if not pairs and not repeats:
        return None
    d = len(state.queries[0].point)
    offsets = np.array([_offset(query, placement) for query, placement in pairs]).reshape(len(pairs), d)
    inside = sum(_holds(query, placement) for query, placement in pairs)
    low, high = binomial_interval(inside, len(pairs)) if pairs else (0.0, 1.0)
    repeat_sd: tuple[float | None, ...] = (None, None, None)
    if intra is not None and repeats:
        repeat_sd = (intra.sd, *sd_interval(intra.sd, repeats * d))
    return RaterCertificate(len(pairs), *_bias(offsets), *_scatter(offsets), inside, low, high, repeats, *repeat_sd)


def rater_certificates(state: State) -> dict[str, RaterCertificate]:
    """Return the certificates of all raters who have one."""
    found = {name: rater_certificate(state, name) for name in sorted(state.who_answered())}
    return {name: one for name, one in found.items() if one is not None}


def sd_interval(sd: float, freedom: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a standard deviation that was estimated with so many degrees of freedom."""
    from scipy import stats  # takes longer to load than all of the core

    low, high = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], freedom)
    return float(sd * np.sqrt(freedom / low)), float(sd * np.sqrt(freedom / high))


def _bias(offsets: Floats) -> tuple[Floats | None, Floats | None, Floats | None]:
    from scipy import stats

    count = len(offsets)
    if count < 2:
        return None, None, None
    mean = offsets.mean(axis=0)
    half = stats.t.ppf((1 + LEVEL) / 2, count - 1) * offsets.std(axis=0, ddof=1) / np.sqrt(count)
    return mean, mean - half, mean + half


def _scatter(offsets: Floats) -> tuple[float | None, float | None, float | None]:
    count = len(offsets)
    if count < 2:
        return None, None, None
    freedom = offsets.shape[1] * (count - 1)
    sd = float(np.sqrt(np.square(offsets - offsets.mean(axis=0)).sum() / freedom))
    return (sd, *sd_interval(sd, freedom))


def _offset(query: QueryRecord, placement: Placement) -> Floats:
    return np.subtract(placement.point, query.known or ())


def _holds(query: QueryRecord, placement: Placement) -> bool:
    offset = _offset(query, placement)
    square = mahalanobis(offset[None], placement.covariance_world[None])[0]
    return bool(square <= confidence_radius(len(offset), placement.alpha) ** 2)
