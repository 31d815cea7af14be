"""`evaluate`: scores, intervals and ranks of transforms, counted over joint draws of the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotation_budget import CAP, FurtherAnnotations, further_by_growth
from warpgauge.core.arrays import Floats
from warpgauge.core.error_scores import (
    RankDistribution,
    ascending,
    displacement_norm,
    mean_squared_errors,
    norm_name,
    rank_distribution,
    win_probabilities,
)
from warpgauge.core.parallel import one_blas_thread
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.comparison import MOST_JOINT_TARGETS, Comparison
from warpgauge.evaluation.evidence import COPY
from warpgauge.evaluation.flags import Flag, excluded, undefined
from warpgauge.evaluation.judge import Judge, distances
from warpgauge.evaluation.regularity import regularity
from warpgauge.evaluation.result import (
    PRIMARY,
    STATISTICS,
    Evaluation,
    Interval,
    TransformScores,
    statistic_of,
    summaries,
)
from warpgauge.evaluation.verdict import DECISIVE, Verdict

SAMPLES = 1000
Summary = dict[str, Floats]
# Comparing each transform with each exactly takes all pairs of points; a random part of so many serves for more.
_MOST_POINTS = 4000


@dataclass(frozen=True)
class Scoring:
    """How transforms are scored; the options of :func:`evaluate`, checked."""

    norms: Sequence[float] = (1, 2, np.inf)
    samples: int = SAMPLES
    seed: int = 0
    tolerance: float | None = None
    margin: float = 0.0
    regularity: bool = True

    def __post_init__(self) -> None:
        if int(self.samples) != self.samples or self.samples < 1:
            raise InvalidInputError(f"evaluate needs at least one sample, got {self.samples!r}.")
        if not (np.isfinite(self.margin) and self.margin >= 0):
            raise InvalidInputError(f"margin must be a length of at least 0 in world units, got {self.margin!r}.")
        if self.tolerance is not None and not (np.isfinite(self.tolerance) and self.tolerance > 0):
            raise InvalidInputError(f"tolerance must be a positive number of world units, got {self.tolerance!r}.")


def evaluate(
    truth: Judge | Posterior,
    transforms: Mapping[str, Any],
    targets: ArrayLike,
    norms: Sequence[float] = (1, 2, np.inf),
    samples: int = SAMPLES,
    seed: int = 0,
    *,
    tolerance: float | None = None,
    margin: float = 0.0,
    baseline: str | None = "identity",
    regularity: bool = True,
) -> Evaluation:
    """Score and rank transforms by what the annotations say about the true one.

    Parameters
    ----------
    truth : Judge or Posterior
        What the truth may be: ``judge(posterior, transforms)``, or the paper's posterior, which knows the annotations
        only. Scores are medians over the judge's draws, or distances from the posterior's mean as in the paper.
    transforms : mapping of name to transform
        Each an object with ``map``, a callable, or the (n, d) array of the targets already mapped.
    targets : (n, d) array
        Fixed points over which the error counts.
    norms : sequence of float
        The p of Eq. (p_norms).
    samples : int
        Joint draws behind intervals and ranks.
    tolerance : float, optional
        Also return the share of targets whose error is above this, in world units.
    margin : float
        Smallest difference of two scores that matters, in world units; transforms that differ by less are tied.
    baseline : str, optional
        Name of the transform that does nothing, where it is among them; the verdict tells the others against it.
    regularity : bool
        Whether Jacobians are taken at the targets.

    Returns
    -------
    Evaluation
        A target at which a transform is not defined (NaN) counts against it with the error before registration, or that
        of the worst reference if that is worse; its share is in ``outside``. Of more than 1000 targets, each of ten
        batches of draws uses its own random 500; the error that this adds is part of every interval.

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> x = np.random.default_rng(0).uniform(0, 100, (20, 2))
    >>> pairs = wg.Annotations.isotropic(x, x + [3.0, 0.0], sd=0.5)
    >>> posterior = wg.default_posterior(pairs, [100.0, 100.0])
    >>> moves = {"shift": lambda at: at + [3.0, 1.0], "identity": lambda at: at}
    >>> found = wg.evaluate(wg.judge(posterior, moves), moves, x, samples=100)
    >>> found.ranking(), found.verdict.best
    (['shift', 'identity'], 'shift')
    """
    how = Scoring(norms, samples, seed, tolerance, margin, regularity)
    judge = Judge(Comparison.of({}, None, truth)) if isinstance(truth, Posterior) else truth
    if not transforms or len(np.asarray(targets)) == 0:
        raise InvalidInputError("evaluate needs at least one transform and one target.")
    compared = judge.compared(transforms, targets)
    return scored(judge, replace(compared, baseline=baseline if baseline in transforms else None), how)


@one_blas_thread()
def scored(judge: Judge, comparison: Comparison, how: Scoring) -> Evaluation:
    """Score the transforms of a comparison by a model of the truth."""
    errors = _drawn(judge, comparison, how)
    standing = Standing.of(judge, comparison, errors, how)
    names = list(comparison.transforms)
    smallest = min((standing.scores[statistic_of(PRIMARY)][k] for k in standing.order), default=np.inf)
    flags = [*judge.flags, *undefined(comparison), *comparison.notes]
    methods = [names[k] for k in standing.order if names[k] != comparison.baseline]
    if judge.folds is not None and methods:
        flags += excluded(comparison.part(MOST_JOINT_TARGETS, how.seed).among(methods), float(smallest))
    further: FurtherAnnotations | None = None
    distinct = [[k for k in group if k not in standing.copy_of] for group in standing.groups]
    order = [k for group in distinct for k in group]
    norm = PRIMARY if PRIMARY in standing.best else next(iter(standing.best))
    best = float(standing.best[norm][order[0]]) if order else 1.0
    if best < DECISIVE or any(len(group) > 1 for group in distinct):
        further = further_by_growth(order, standing.win, len(judge.annotations), CAP, int(how.samples), best=best)
    scores = {name: _scores_of(k, judge, comparison, errors, standing, flags, how) for k, name in enumerate(names)}
    ranked = [names[k] for k in standing.order]
    verdict = Verdict(
        tuple(scores[name] for name in (*ranked, *(name for name in names if name not in ranked))),
        tuple(tuple(names[k] for k in group) for group in standing.groups),
        is_separated=all(standing.win[standing.order[0], k] >= DECISIVE for k in standing.order[1:]),
        too_few=judge.too_few,
        norm=norm,
        baseline=comparison.baseline,
        annotations=len(judge.annotations),
        targets=len(comparison.targets),
        samples=int(how.samples),
        region=comparison.scene.region,
        known=float(comparison.known.mean()),
        trust=judge.trust if len(judge.annotations) else None,
        flags=tuple(flags),
        suspected=judge.suspected,
        disqualified=judge.disqualified,
        references=judge.panel,
        by_transforms=judge.folds is not None,
        further=further,
        units=comparison.scene.units,
        margin=float(how.margin),
    )
    return Evaluation(
        comparison=comparison,
        judged_by=judge,
        scores=scores,
        norms=tuple(norm_name(p) for p in how.norms),
        win_probability=standing.win,
        verdict=verdict,
        known=comparison.known,
        seed=int(how.seed),
        tolerance=how.tolerance,
        candidate_weights=judge.candidate_weights,
        sampled_targets=len(comparison.parts(how.seed, 1)[0].targets),
        without_flagged=_without_flagged(judge, comparison, how),
        draws=errors.ends,
    )


@dataclass(frozen=True, eq=False)
class Errors:
    """Draws (S, K) of every norm and statistic of the errors of K transforms over the targets, by name.

    Attributes
    ----------
    sizes : dict
        How large an error is: of a transform that may have seen the annotations, half of the draws are unheard.
    ends : dict
        The same with the failures that no annotation met.
    unheard, heard : dict
        The same as `sizes`, all draws unheard and all heard.
    calls : dict
        Errors by one model of all annotations, of the transforms that are heard in all draws; of others as `sizes`.
    """

    sizes: Summary
    ends: Summary
    unheard: Summary
    heard: Summary
    calls: Summary


def _drawn(judge: Judge, comparison: Comparison, how: Scoring) -> Errors:
    """Draw the errors jointly over all targets; of many targets, each batch of draws has its own random part.

    Which of two is better is called by one model of all annotations. A method that may have seen these may be near that
    model for it; of the five models, one does not know each annotation. So what it takes part in is called by the five.
    """
    parts = comparison.parts(how.seed, int(how.samples))
    counts = np.diff(np.linspace(0, int(how.samples), len(parts) + 1).astype(np.int64)).tolist()
    sure = judge.is_heard(list(comparison.transforms))
    batches = []
    for batch, (part, count) in enumerate(zip(parts, counts, strict=True)):
        seed = how.seed + batch
        truth = judge.truth(part, count, seed)
        whole = truth if judge.folds is None else judge.truth(part, count, seed, whole=True)
        failures = judge.unseen_failures(part, count, seed)
        columns: list[tuple[Summary, ...]] = []
        for k, mapped in enumerate(part.counted):
            lengths = judge.heard_errors(truth, part, k, seed)  # of one transform at a time: they are large
            heard = unheard = _summarised(lengths, how)
            if not sure[k]:
                alone = distances(truth[0], mapped)
                unheard = _summarised(alone, how)
                lengths = _alternating(lengths, alone)
            sizes = _summarised(lengths, how)
            failed = _summarised(np.sqrt(np.square(lengths) + failures), how)
            calls = _summarised(judge.heard_errors(whole, part, k, seed), how) if sure[k] else sizes
            columns.append((sizes, failed, unheard, heard, calls))
        batches.append([_side_by_side(kind) for kind in zip(*columns, strict=True)])
    return Errors(*(_one_after_another(kind) for kind in zip(*batches, strict=True)))


def _side_by_side(columns: Sequence[Summary]) -> Summary:
    """Return draws (S, K) of the (S,) draws of each transform."""
    return {key: np.stack([column[key] for column in columns], axis=1) for key in columns[0]}


def _one_after_another(batches: Sequence[Summary]) -> Summary:
    """Return the draws of several batches in one."""
    return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}


def _alternating(heard: Floats, unheard: Floats) -> Floats:
    """Return draws of which every second is unheard."""
    mixed = heard.copy()
    mixed[1::2] = unheard[1::2]
    return mixed


def _summarised(lengths: Floats, how: Scoring) -> Summary:
    """Draws (S,) of every statistic and norm of (S, n) errors."""
    found = summaries(lengths, how.tolerance)
    for p in how.norms:
        key = statistic_of(norm_name(p))
        if key not in found:
            found[key] = np.array([displacement_norm(row, p) for row in lengths])
    return found


@dataclass(frozen=True, eq=False)
class Standing:
    """How K transforms stand.

    Attributes
    ----------
    scores, best, ranks : dict
        By the name of the norm, or of the statistic that equals it; ``best`` is the probability (K,) of having the
        smallest error, that of copies is of all of them together.
    squared : (K,) array
        Expected mean squared error.
    win : (K, K) array
        Probability that the row's transform has a smaller mean squared error than the column's.
    order, groups : list
        Best first, without transforms that the leak test disqualified, and in groups of tied ones.
    copy_of : dict of int
        Near copies, each with the first of them.
    """

    scores: dict[str, Floats]
    squared: Floats
    win: Floats
    order: list[int]
    groups: list[list[int]]
    copy_of: dict[int, int]
    best: dict[str, Floats]
    ranks: dict[str, RankDistribution]

    @classmethod
    def of(cls, judge: Judge, comparison: Comparison, errors: Errors, how: Scoring) -> Standing:
        """Count over the draws; in the paper scores are distances from the posterior's mean, and wins are exact."""
        names = list(comparison.transforms)
        keys = [statistic_of(norm_name(p)) for p in how.norms]
        if judge.folds is None:
            off = comparison.counted - judge.posterior.mean(comparison.targets)
            scores = {
                key: np.array([displacement_norm(one, p) for one in off])
                for key, p in zip(keys, how.norms, strict=True)
            }
            scores["rms"] = np.sqrt(mean_squared_errors(off))
            deviation = judge.posterior.standard_deviation(comparison.targets)
            squared = np.square(scores["rms"]) + judge.d * np.mean(np.square(deviation))
            part = comparison.part(_MOST_POINTS, 0)
            win = win_probabilities(judge.posterior, part.targets, part.counted)
        else:
            scores = {key: np.median(errors.sizes[key], axis=0) for key in {*keys, "rms"}}
            squared = np.mean(np.square(errors.ends["rms"]), axis=0)
            sure = judge.is_heard(names)
            win = np.where(sure[:, None] & sure, _won(errors.calls["rms"]), _won(errors.sizes["rms"]))
        order = [k for k in ascending(scores["rms"]) if names[k] not in judge.disqualified]
        groups = tied_groups(order, win, scores=scores["rms"], margin=how.margin)
        copy_of = _copies(comparison, order, scores["rms"], judge)
        best = {}
        ranks = {}
        for p, key in zip(how.norms, keys, strict=True):
            calls = errors.calls[key]
            if judge.is_heard(names).all():
                best[norm_name(p)] = probabilities_of_best(calls, calls, order, copy_of)
            else:
                best[norm_name(p)] = probabilities_of_best(errors.heard[key], errors.unheard[key], order, copy_of)
                calls = errors.sizes[key]
            ranks[norm_name(p)] = rank_distribution(calls)
        return cls(scores, squared, win, order, groups, copy_of, best, ranks)


def _won(draws: Floats) -> Floats:
    """Share of the draws in which the row's value is below the column's; half of those where they are equal."""
    below = draws[:, :, None] < draws[:, None, :]
    equal = draws[:, :, None] == draws[:, None, :]
    return np.asarray(below.mean(axis=0) + 0.5 * equal.mean(axis=0))


def probabilities_of_best(heard: Floats, unheard: Floats, order: Sequence[int], copy_of: Mapping[int, int]) -> Floats:
    """Return the probability (K,) of each transform of an order to have the smallest error; 0 for the others.

    It is the best in a draw where it is so both heard and unheard, against the others heard: what it knows of the
    annotations cannot make it the best. Beside references the probabilities add up to at most 1; the rest depends on
    whether a method has seen the annotations. Copies compete as one.
    """
    best = np.zeros(heard.shape[1])
    firsts = [k for k in order if k not in copy_of]
    for k in firsts:
        others = heard[:, [j for j in firsts if j != k]]
        least = others.min(axis=1, initial=np.inf)
        ties = 1 + (others == heard[:, [k]]).sum(axis=1)
        wins = (heard[:, k] <= least) & (unheard[:, k] <= least)
        best[k] = np.mean(wins / ties)
    for k, first in copy_of.items():
        best[k] = best[first]
    return best


def _copies(comparison: Comparison, order: Sequence[int], scores: Floats, judge: Judge) -> dict[int, int]:
    """Return, for each near copy of another transform, the first of them: vetted ones first, then by name.

    Near copies lie nearer to each other than a small part of their errors. Which was added first must not matter.
    """
    names = list(comparison.transforms)
    mapped = comparison.counted
    firsts: list[int] = []
    copy_of = {}
    for k in sorted(order, key=lambda one: (names[one] not in judge.vetted, names[one])):
        for first in firsts:
            apart = float(np.sqrt(np.mean(np.square(mapped[k] - mapped[first]).sum(axis=1))))
            if apart <= COPY * float(min(scores[k], scores[first])):
                copy_of[k] = first
                break
        else:
            firsts.append(k)
    return copy_of


def tied_groups(
    order: Sequence[int], win: Floats, level: float = DECISIVE, *, scores: Floats | None = None, margin: float = 0.0
) -> list[list[int]]:
    """Split a ranking, best first, into groups whose members cannot be distinguished.

    A transform starts a new group if a member of the current group beats it with at least this probability and, if
    (K,) scores are given, by more than the margin.
    """
    groups: list[list[int]] = []
    for one in order:
        beaten = groups and any(
            win[member, one] >= level and (margin <= 0 or scores is None or scores[one] - scores[member] > margin)
            for member in groups[-1]
        )
        if groups and not beaten:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _scores_of(
    k: int,
    judge: Judge,
    comparison: Comparison,
    errors: Errors,
    standing: Standing,
    flags: Sequence[Flag],
    how: Scoring,
) -> TransformScores:
    """Gather the numbers of one transform."""
    names = list(comparison.transforms)
    transform = comparison.transforms[names[k]]
    at_landmarks = comparison.landmark_errors[k]
    at_landmarks = at_landmarks[np.isfinite(at_landmarks)]
    landmark: dict[str, float | None] = {}
    score = {}
    interval = {}
    for p in how.norms:
        norm = norm_name(p)
        key = statistic_of(norm)
        landmark[norm] = displacement_norm(at_landmarks, p) if len(at_landmarks) else None
        score[norm] = float(standing.scores[key][k])
        ends = Interval.of(errors.sizes[key][:, k], errors.ends[key][:, k])
        # The paper's score can lie below all draws.
        interval[norm] = (min(ends.low, score[norm]), max(ends.high, score[norm]))
    classical = summaries(at_landmarks, how.tolerance) if len(at_landmarks) else {}
    group = next((number for number, members in enumerate(standing.groups, 1) if k in members), None)
    return TransformScores(
        name=names[k],
        landmark=landmark,
        score=score,
        interval=interval,
        expected_squared_error=float(standing.squared[k]),
        root_expected_squared_error=float(np.sqrt(standing.squared[k])),
        probability_best={norm: float(best[k]) for norm, best in standing.best.items()},
        expected_rank={norm: float(one.mean[k]) for norm, one in standing.ranks.items()},
        rank_probabilities={norm: one.probabilities[k].tolist() for norm, one in standing.ranks.items()},
        outside=float((~comparison.defined[k]).mean()),
        group=group,
        copy_of=names[standing.copy_of[k]] if k in standing.copy_of else None,
        statistics={
            key: Interval.of(sizes[:, k], errors.ends[key][:, k])
            for key, sizes in errors.sizes.items()
            if key in STATISTICS
        },
        landmark_statistics={key: float(value) for key, value in classical.items()} or None,
        regularity=regularity(transform, comparison.targets) if how.regularity and transform.anywhere else None,
        flags=tuple(flag for flag in flags if flag.transform == names[k]),
        vetted=names[k] in judge.vetted,
    )


def _without_flagged(judge: Judge, comparison: Comparison, how: Scoring) -> Evaluation | None:
    """Evaluate again without the annotations that are flagged as gross errors, where there are any."""
    other = judge.without_flagged()
    if other is None:
        return None
    rows = [flag.row for flag in judge.flags if flag.row is not None]
    return scored(other, comparison.without(rows), replace(how, tolerance=None, regularity=False))
