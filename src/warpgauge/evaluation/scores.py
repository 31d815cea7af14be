"""Scores, intervals and ranks of candidate transforms, with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotation_budget import CAP, FurtherAnnotations, further_by_growth
from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.error_scores import displacement_norm, norm_name, rank_distribution
from warpgauge.core.parallel import one_blas_thread
from warpgauge.core.process import Posterior
from warpgauge.display import cell_progress
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.columns import PRIMARY, SCORES, Row, draws_of
from warpgauge.evaluation.comparison import MOST_JOINT_TARGETS, Comparison, Scene
from warpgauge.evaluation.evidence import COPY
from warpgauge.evaluation.flags import Flag, excluded, undefined, untested
from warpgauge.evaluation.known_targets import excluded_targets
from warpgauge.evaluation.panel import missed_share
from warpgauge.evaluation.paper_judge import as_truth
from warpgauge.evaluation.regularity import Regularity, regularity
from warpgauge.evaluation.result import Evaluation, Interval, TransformScores, positive, summaries
from warpgauge.evaluation.truth import Judgement, Truth
from warpgauge.evaluation.verdict import COMPANY, DECISIVE, UNSEEN, Region, Verdict
from warpgauge.geometry import Grid
from warpgauge.io.transforms import Transform

# Where the annotations exclude every method, and all are off by so many times the smallest error, the verdict says so.
_BEYOND = 2.0
SAMPLES = 1000


@dataclass(frozen=True)
class Scoring:
    """How transforms are scored; the options of :func:`evaluate`, checked."""

    norms: Sequence[float] = (1, 2, np.inf)
    samples: int = SAMPLES
    seed: int = 0
    tolerance: float | None = None
    diagonal: float | None = None
    margin: float = 0.0
    further: int = CAP
    regularity_over: Any = True
    mask: Any = None
    jacobian_step: float | None = None

    def __post_init__(self) -> None:
        if int(self.samples) != self.samples or self.samples < 1:
            raise InvalidInputError(f"evaluate needs at least one sample, got {self.samples!r}.")
        if not (np.isfinite(self.margin) and self.margin >= 0):
            raise InvalidInputError(f"margin must be a length of at least 0 in world units, got {self.margin!r}.")
        for name in ("tolerance", "diagonal"):
            object.__setattr__(self, name, positive(getattr(self, name), name))


@one_blas_thread()
def evaluate(
    truth: Truth | Posterior,
    transforms: Mapping[str, Any],
    targets: ArrayLike,
    norms: Sequence[float] = (1, 2, np.inf),
    samples: int = 1000,
    seed: int = 0,
    *,
    tolerance: float | None = None,
    diagonal: float | Grid | None = None,
    regularity_over: ArrayLike | Grid | bool = True,
    mask: Any = None,
    jacobian_step: float | None = None,
    further: int = CAP,
    margin: float = 0.0,
    baseline: str | None = "identity",
) -> Evaluation:
    """Score and rank transforms by what the annotations say about the true one.

    Parameters
    ----------
    truth : Truth
        What the truth may be: ``judge(posterior, transforms)``, or the paper's posterior, which knows the annotations
        only. Scores are medians over the judge's samples, or distances from the posterior's mean as in the paper.
    transforms : mapping of name to transform
        Each an object with ``map``, a callable, or the (n, d) array of the targets already mapped.
    targets : (n, d) array
        Fixed points over which the error counts.
    norms : sequence of float
        The p of Eq. (p_norms).
    samples : int
        Joint posterior samples behind intervals and ranks.
    seed : int
    tolerance : float, optional
        Also return the share of targets whose error is above this, in world units.
    diagonal : float or Grid, optional
        Also give errors relative to the image's diagonal: its length in world units, or the fixed image's grid.
    regularity_over : bool, (m, d) array or Grid
        Where Jacobians are taken: True for the targets, False for nowhere. With a grid, ``mask`` restricts it.
    mask : array on the grid, optional
        Not zero where Jacobians count.
    jacobian_step : float, optional
        Half the distance of the central differences, in world units; see :func:`warpgauge.evaluation.default_step`.
    further : int
        Largest number of further annotations to try where the ranking is undecided; 0 to leave the estimate out.
    margin : float
        Smallest difference of two scores that matters, in world units; transforms that differ by less are tied.
    baseline : str, optional
        Name of the transform that does nothing, where it is among them; the verdict tells the others against it.

    Returns
    -------
    Evaluation
        A target at which a transform is not defined (NaN) counts against it with the error before registration, or that
        of the panel's worst reference if that is worse; its share is in ``outside``. Scores are over all targets;
        ``known`` says which of them the annotations inform. Of more than 1000 targets, each of ten batches of samples
        uses its own random 500; the error that this adds is part of every interval. The maximum over the targets (norm
        infinity) is then that over 500.
    """
    grid = diagonal if isinstance(diagonal, Grid) else None
    how = Scoring(
        norms, samples, seed, tolerance, diagonal.diagonal if isinstance(diagonal, Grid) else diagonal, margin, further,
        regularity_over, mask, jacobian_step,
    )  # fmt: skip
    model = as_truth(truth)
    if not transforms or len(np.asarray(targets)) == 0:
        raise InvalidInputError("evaluate needs at least one transform and one target.")
    scene = Scene(grid, None if grid is None else grid.units)
    with cell_progress(2) as begin:
        begin("mapping the targets")
        found = model.compared(transforms, targets)
        begin("scoring")
        return scored(model, replace(found, scene=scene, baseline=baseline if baseline in transforms else None), how)


@one_blas_thread()
def scored(truth: Truth, comparison: Comparison, how: Scoring) -> Evaluation:
    """Score the transforms of a comparison by a model of the truth."""
    every = _sampled(truth, comparison, how)
    whole = Standings.of(truth, comparison, every, how)
    more = None
    if how.further and len(whole.groups) < len(whole.judged.order):
        judged, annotations = whole.judged, len(truth.annotations)
        more = further_by_growth(judged.order, judged.win, annotations, how.further, int(how.samples))
    places, about = _excluded(truth, comparison, whole, how)
    found = (*undefined(comparison), *untested(comparison))
    flags = (*truth.flags, *found, *comparison.notes, *about)
    scores = _all_scores(truth, whole, comparison, flags, how)
    return Evaluation(
        comparison=comparison,
        judged_by=truth,
        scores=scores,
        norms=tuple(norm_name(p) for p in how.norms),
        win_probability=whole.judged.win,
        verdict=_verdict(truth, whole, comparison, scores, flags, more, how),
        known=comparison.known,
        excluded=places,
        seed=int(how.seed),
        tolerance=how.tolerance,
        diagonal=how.diagonal,
        candidate_weights=truth.candidate_weights,
        sampled_targets=len(comparison.parts(how.seed, 1)[0].targets),
        without_flagged=_without_flagged(truth, comparison, how),
        draws=every.draws,
    )


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the true errors over a set of targets.

    Attributes
    ----------
    draws : dict
        (S, K) draws of each norm and statistic for its size: half of those of a transform that is not vetted are
        unheard.
    calls : dict
        The same of each norm and of the root mean square, for the question which of two is better.
    heard, unheard : dict
        The same of each norm, all heard and all unheard, for the question who is best; those for sizes where a
        transform may not be compared by the others.
    sound : (S,) array of bool
        Draws in which nothing has failed unseen.
    """

    draws: dict[str, Floats]
    calls: dict[str, Floats]
    heard: dict[str, Floats]
    unheard: dict[str, Floats]
    sound: Bools

    @classmethod
    def joined(cls, parts: Sequence[Draws]) -> Draws:
        """Return the draws of several batches in one."""
        kinds = ([getattr(one, kind) for one in parts] for kind in ("draws", "calls", "heard", "unheard"))
        joined = ({key: np.concatenate([one[key] for one in each]) for key in each[0]} for each in kinds)
        draws, calls, heard, unheard = joined
        return cls(draws, calls, heard, unheard, np.concatenate([one.sound for one in parts]))


@dataclass(frozen=True, eq=False)
class Standings:
    """How the transforms stand over a set of targets.

    Attributes
    ----------
    judged : Judgement
        Scores, comparisons of each with each, and the order without disqualified transforms.
    groups : list of list of int
        Tied groups, best first.
    best : dict
        (K,) probabilities of being best by the norm's name; 0 for a disqualified transform.
    drawn : Draws
    """

    judged: Judgement
    groups: list[list[int]]
    best: dict[str, Floats]
    drawn: Draws

    @classmethod
    def of(cls, truth: Truth, comparison: Comparison, drawn: Draws, how: Scoring) -> Standings:
        """Judge the draws over the targets of a comparison."""
        names = list(comparison.transforms)
        judged = truth.judgement(comparison, how.norms, drawn.draws, drawn.calls["rms"], drawn.sound)
        judged = replace(judged, order=[k for k in judged.order if names[k] not in truth.disqualified])
        groups = tied_groups(judged.order, judged.win, scores=judged.scores.get(PRIMARY), margin=how.margin)
        first = _first_copies(comparison, judged, how.margin, truth.vetted)
        best = {
            norm: probabilities_of_best(drawn.heard[draws_of(norm)], drawn.unheard[draws_of(norm)], first)
            for norm in map(norm_name, how.norms)
        }
        return cls(judged, groups, best, drawn)


def probabilities_of_best(heard: Floats, unheard: Floats, first: Mapping[int, int]) -> Floats:
    """Return the probability of each of some transforms to have the smallest error; 0 for the others.

    A transform that is not vetted competes unheard against the others heard: what it knows of the annotations cannot
    make it the best. Near copies share one probability, that of the first of them, which competes for all.

    Parameters
    ----------
    heard, unheard : (S, K) array
    first : mapping of int to int
        The transforms that compete, each with the first of its near copies.
    """
    found, firsts = np.zeros(heard.shape[1]), sorted(set(first.values()))
    for k in firsts:
        others = [j for j in firsts if j != k]
        if not others:
            found[k] = 1.0
            continue
        least, own = heard[:, others].min(axis=1), unheard[:, k]
        ties = 1 + (heard[:, others] == own[:, None]).sum(axis=1)
        found[k] = np.mean((own <= least) / ties)
    for k, one in first.items():
        found[k] = found[one]
    return found


def _first_copies(comparison: Comparison, judged: Judgement, margin: float, vetted: frozenset[str]) -> dict[int, int]:
    """Return, for each transform that is ranked, the first of its near copies: vetted ones first, then by name.

    Near copies lie nearer to each other than the margin, or a small part of their errors.
    """
    names, mapped, scores = list(comparison.transforms), comparison.counted, judged.scores.get(PRIMARY)
    first: dict[int, int] = {}
    for k in sorted(judged.order, key=lambda one: (names[one] not in vetted, names[one])):
        for other in dict.fromkeys(first.values()):
            apart = float(np.sqrt(np.mean(np.square(mapped[k] - mapped[other]).sum(axis=1))))
            if apart <= max(margin, 0.0 if scores is None else COPY * float(min(scores[k], scores[other]))):
                first[k] = other
                break
        else:
            first[k] = k
    return first


def _excluded(truth: Truth, comparison: Comparison, whole: Standings, how: Scoring) -> tuple[Floats, tuple[Flag, ...]]:
    """Return targets at which the annotations exclude every method, and the flag that names them.

    The judge centres the truth at the methods. Where all fail alike and nobody asked, only the annotations around show.
    """
    names = list(comparison.transforms)
    methods = [names[k] for k in whole.judged.order if names[k] != comparison.baseline]
    if truth.candidate_weights is None or not methods:
        return comparison.targets[:0], ()
    part = comparison.part(MOST_JOINT_TARGETS, how.seed).among(methods)
    error = float(np.median(whole.drawn.draws["rms"], axis=0)[[names.index(name) for name in methods]].min())
    rows = excluded_targets(comparison.posterior, part.targets, part.counted, _BEYOND * error)
    flags = excluded(part, rows)
    return part.targets[rows] if flags else comparison.targets[:0], flags


def _verdict(
    truth: Truth,
    whole: Standings,
    comparison: Comparison,
    scores: Mapping[str, TransformScores],
    flags: tuple[Flag, ...],
    more: FurtherAnnotations | None,
    how: Scoring,
) -> Verdict:
    names, scene = list(comparison.transforms), comparison.scene
    groups, win = whole.groups, whole.judged.win
    return Verdict.of(
        _rows(scores, whole),
        [[names[k] for k in group] for group in groups],
        separated=all(win[groups[0][0], k] >= DECISIVE for k in groups[0][1:]) if groups else False,
        baseline=comparison.baseline,
        counts={
            "annotations": len(truth.annotations),
            "targets": len(comparison.targets),
            "samples": int(how.samples),
        },
        flags=flags,
        region=Region.of(scene.region) if scene.region else None,
        known=float(comparison.known.mean()),
        assumptions=_assumptions(truth, names),
        missed=missed_share(len(truth.annotations)) if truth.candidate_weights is not None else None,
        further=more,
        units=scene.units,
        margin=float(how.margin),
    )


def _assumptions(truth: Truth, names: Sequence[str]) -> tuple[str, ...]:
    """Return the codes of what a verdict takes for granted."""
    if truth.candidate_weights is None:
        return ()
    unseen = any(name not in truth.vetted and name not in truth.disqualified for name in names)
    return (*([UNSEEN] if unseen else []), *([] if truth.panel else [COMPANY]))


def _without_flagged(truth: Truth, comparison: Comparison, how: Scoring) -> Evaluation | None:
    """Evaluate again without the annotations that are flagged as gross errors, where there are any."""
    other = truth.without_flagged()
    if other is None:
        return None
    rows = [flag.row for flag in truth.flags if flag.row is not None]
    return scored(other, comparison.without(rows), replace(how, tolerance=None, regularity_over=False, further=0))


def _sampled(truth: Truth, comparison: Comparison, how: Scoring) -> Draws:
    """Summarise joint draws of the truth over all targets.

    Of many targets, each batch has its own random part: the draws of different batches differ by what their parts are,
    so that the error of taking parts is in them.
    """
    samples = int(how.samples)
    parts = comparison.parts(how.seed, samples)
    counts = np.diff(np.linspace(0, samples, len(parts) + 1).astype(np.int64))
    return Draws.joined(
        [
            _drawn(truth, part, int(count), how.seed + batch, how)
            for batch, (part, count) in enumerate(zip(parts, counts, strict=True))
        ]
    )


def _drawn(truth: Truth, part: Comparison, count: int, seed: int, how: Scoring) -> Draws:
    """Draw the errors over the targets; the lengths of one transform at a time are held."""
    sizes, calls = truth.draws_over(part, count, seed)
    columns: list[tuple[dict[str, Floats], ...]] = []
    half, together = np.arange(count) % 2 == 1, bool(truth.comparable(part.transforms).all())
    for k in range(len(part.transforms)):
        sized, one = (_both(each.lengths(k), how) for each in (sizes, calls))
        columns.append((_mixed(*sized, half), _mixed(*one, half), *(one if together else sized)))
    norms = {"rms", *(draws_of(norm_name(p)) for p in how.norms)}
    every, called, heard, unheard = (
        {key: np.stack([one[at][key] for one in columns], axis=1) for key in columns[0][0] if at == 0 or key in norms}
        for at in range(4)
    )
    return Draws(every, called, heard, unheard, sizes.sound)


def _both(lengths: tuple[Floats, Floats], how: Scoring) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Summarise the errors over the targets, heard and unheard."""
    heard, unheard = lengths
    one = _summarised(heard, how)
    return one, one if unheard is heard else _summarised(unheard, how)


def _mixed(heard: Mapping[str, Floats], unheard: Mapping[str, Floats], half: Bools) -> dict[str, Floats]:
    """Return draws of which a half is unheard."""
    return {key: np.where(half, unheard[key], one) for key, one in heard.items()}


def _summarised(lengths: Floats, how: Scoring) -> dict[str, Floats]:
    """Draws (S,) of every statistic and norm of (S, n) errors."""
    found = summaries(lengths, how.tolerance, how.diagonal)
    for p in how.norms:
        known = SCORES.get(norm_name(p))
        values = found[known.statistic] if known else np.array([displacement_norm(row, p) for row in lengths])
        found[draws_of(norm_name(p))] = values
    return found


def _rows(scores: Mapping[str, TransformScores], standing: Standings) -> list[Row]:
    """Return the rows of the verdict, best first; disqualified transforms come last, without a group."""
    every, best = list(scores.values()), standing.best.get(PRIMARY)
    group = {k: number for number, members in enumerate(standing.groups, 1) for k in members}
    order = [*standing.judged.order, *(k for k in range(len(every)) if k not in group)]
    return [Row(every[k], at, group.get(k), 0.0 if best is None else float(best[k])) for at, k in enumerate(order, 1)]


def _all_scores(
    truth: Truth,
    whole: Standings,
    comparison: Comparison,
    flags: tuple[Flag, ...],
    how: Scoring,
) -> dict[str, TransformScores]:
    keys = {p: norm_name(p) for p in how.norms}
    by_norm = {draws_of(norm) for norm in keys.values()}
    draws, judged = whole.drawn.draws, whole.judged
    called = whole.drawn.calls if truth.comparable(comparison.transforms).all() else draws
    ranks = {norm: rank_distribution(called[draws_of(norm)]) for norm in keys.values()}
    outside, errors = (~comparison.defined).mean(axis=1), comparison.landmark_errors
    result = {}
    for k, (name, transform) in enumerate(comparison.transforms.items()):
        lengths, squared = errors[k][np.isfinite(errors[k])], float(judged.squared[k])
        intervals = {key: Interval.of(value[:, k], whole.drawn.sound) for key, value in draws.items()}
        classical = summaries(lengths, how.tolerance, how.diagonal) if len(lengths) else {}
        result[name] = TransformScores(
            name=name,
            landmark={norm: displacement_norm(lengths, p) if len(lengths) else None for p, norm in keys.items()},
            score={norm: float(judged.scores[norm][k]) for norm in keys.values()},
            interval={norm: _interval(whole, norm, k) for norm in keys.values()},
            expected_squared_error=squared,
            root_expected_squared_error=float(np.sqrt(squared)),
            probability_best={norm: float(whole.best[norm][k]) for norm in keys.values()},
            expected_rank={norm: float(one.mean[k]) for norm, one in ranks.items()},
            rank_probabilities={norm: one.probabilities[k].tolist() for norm, one in ranks.items()},
            outside=float(outside[k]),
            statistics={key: one for key, one in intervals.items() if key not in by_norm},
            landmark_statistics={key: float(value) for key, value in classical.items()} or None,
            regularity=_regularity(transform, comparison.targets, how),
            flags=tuple(flag for flag in flags if flag.transform == name),
            vetted=name in truth.vetted,
        )
    return result


def _interval(standing: Standings, norm: str, k: int) -> tuple[float, float]:
    """Return the interval, widened to contain the score: the paper's score can lie below all draws."""
    found = Interval.of(standing.drawn.draws[draws_of(norm)][:, k], standing.drawn.sound)
    score = float(standing.judged.scores[norm][k])
    return min(found.low, score), max(found.high, score)


def _regularity(transform: Transform, targets: Floats, how: Scoring) -> Regularity | None:
    """Return the regularity where it is asked for; a table of points has no neighbours to take differences of."""
    if how.regularity_over is False or not transform.anywhere:
        return None
    where = targets if how.regularity_over is True else how.regularity_over
    return regularity(transform, where, mask=how.mask, step=how.jacobian_step)


def tied_groups(
    order: Sequence[int], win: Floats, level: float = DECISIVE, *, scores: Floats | None = None, margin: float = 0.0
) -> list[list[int]]:
    """Split a ranking into groups whose members cannot be distinguished.

    A transform starts a new group if a member of the current group beats it with at least this probability and, if
    scores are given, by more than the margin.

    Parameters
    ----------
    order : sequence of int
        The ranking, best first.
    win : (K, K) array
        Win probabilities.
    level : float
        Probability that decides a pair.
    scores : (K,) array, optional
    margin : float
        Smallest difference of two scores that matters.
    """
    groups: list[list[int]] = []
    for one in order:
        if groups and not any(
            win[member, one] >= level and (margin <= 0 or scores is None or scores[one] - scores[member] > margin)
            for member in groups[-1]
        ):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
