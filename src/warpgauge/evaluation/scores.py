"""Scores, intervals and ranks of candidate transforms, with their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotation_budget import CAP
from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.error_scores import Flag, Judgement, Truth, displacement_norm, norm_name, rank_distribution
from warpgauge.core.parallel import one_blas_thread
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.columns import PRIMARY, SCORES, Row, draws_of
from warpgauge.evaluation.result import Evaluation, Interval, TransformScores, positive, summaries
from warpgauge.evaluation.surrogate_metrics import Regularity, regularity
from warpgauge.evaluation.transforms import Comparable, comparable, converted, function_of
from warpgauge.evaluation.verdict import DECISIVE, Verdict
from warpgauge.geometry import Grid

# Up to so many targets are sampled jointly. Of more, every batch of samples has its own random part.
MOST_JOINT_TARGETS, PART, BATCHES = 1000, 500, 10


@one_blas_thread()
def evaluate(
    truth: Truth,
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
    candidates: ArrayLike | None = None,
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
    candidates : (m, d) array, optional
        Where further annotations may be suggested; the targets by default.

    Returns
    -------
    Evaluation
        Targets at which some transform is not defined (NaN) are left out for all transforms, so that they are compared
        on the same points; each one's own share is in ``outside``. Of more than 1000 targets, each of ten batches of
        samples uses its own random 500; the error that this adds is part of every interval. The maximum over the
        targets (norm infinity) is then that over 500.
    """
    if int(samples) != samples or samples < 1:
        raise InvalidInputError(f"evaluate needs at least one sample, got {samples!r}.")
    if not (np.isfinite(margin) and margin >= 0):
        raise InvalidInputError(f"margin must be a length of at least 0 in world units, got {margin!r}.")
    tolerance = positive(tolerance, "tolerance")
    length = positive(diagonal.diagonal if isinstance(diagonal, Grid) else diagonal, "diagonal")
    transforms = converted(transforms)
    common = comparable(truth, transforms, targets)
    names = list(transforms)
    draws = _sampled(truth, common, int(samples), seed, lambda s, m: _draws(s, m, norms, tolerance, length))
    judged = truth.judgement(common.points, common.mapped, norms, draws)
    groups = tied_groups(judged.order, judged.win, scores=judged.scores.get(PRIMARY), margin=margin)
    more = None
    if further and len(groups) < len(names):
        more = truth.further(
            judged,
            *common.part(MOST_JOINT_TARGETS, seed),
            cap=further,
            samples=int(samples),
            seed=seed,
            candidates=candidates,
        )
    flags = {name: tuple(flag for flag in truth.flags if flag.transform == name) for name in names}
    scores = _all_scores(judged, flags, common, draws, norms, tolerance, length)
    if regularity_over is not False:
        where = as_points(targets, "targets") if regularity_over is True else regularity_over
        scores = {
            name: replace(one, regularity=_regularity(transforms[name], where, mask, jacobian_step))
            for name, one in scores.items()
        }
    units = diagonal.units if isinstance(diagonal, Grid) else None
    found = Verdict.of(
        _rows(scores, judged.order, groups, draws),
        [[names[k] for k in group] for group in groups],
        separated=all(judged.win[groups[0][0], k] >= DECISIVE for k in groups[0][1:]),
        baseline=baseline,
        counts={
            "annotations": len(truth.annotations),
            "targets": len(common.points),
            "excluded_targets": common.excluded,
            "samples": int(samples),
        },
        flags=tuple(truth.flags),
        assumptions=(
            *(["unseen_annotations"] if truth.candidate_weights is not None else []),
            *(["common_targets"] if common.excluded else []),
        ),
        further=more,
        units=units,
        margin=float(margin),
    )
    return Evaluation(
        scores=scores,
        norms=tuple(norm_name(p) for p in norms),
        win_probability=judged.win,
        verdict=found,
        seed=int(seed),
        tolerance=tolerance,
        diagonal=length,
        candidate_weights=truth.candidate_weights,
        sampled_targets=min(len(common.points), PART)
        if len(common.points) > MOST_JOINT_TARGETS
        else len(common.points),
        without_flagged=_without_flagged(truth, transforms, targets, norms, samples, seed, margin, diagonal, baseline),
        draws=draws,
    )


def _without_flagged(
    truth: Truth,
    transforms: Mapping[str, Any],
    targets: ArrayLike,
    norms: Sequence[float],
    samples: int,
    seed: int,
    margin: float,
    diagonal: float | Grid | None,
    baseline: str | None,
) -> Evaluation | None:
    """Evaluate again without the annotations that are flagged as gross errors, where there are any."""
    other = truth.without_flagged()
    if other is None:
        return None
    return evaluate(
        other, transforms, targets, norms, samples, seed, diagonal=diagonal, regularity_over=False, further=0,
        margin=margin, baseline=baseline,
    )  # fmt: skip


def _sampled(
    truth: Truth, common: Comparable, samples: int, seed: int, summarise: Callable[[Floats, Floats], dict[str, Floats]]
) -> dict[str, Floats]:
    """Summarise joint samples of the truth, in batches over random parts of the targets where there are many.

    The draws of different batches differ by what their parts are, so that the error of taking parts is in them.
    """
    if len(common.points) <= MOST_JOINT_TARGETS:
        return summarise(truth.sample(common.points, samples, seed), common.mapped)
    found = []
    for batch, count in enumerate(np.diff(np.linspace(0, samples, min(BATCHES, samples) + 1).astype(np.int64))):
        points, mapped = common.part(PART, [seed, batch])
        found.append(summarise(truth.sample(points, int(count), seed + batch), mapped))
    return {key: np.concatenate([one[key] for one in found]) for key in found[0]}


def _rows(
    scores: Mapping[str, TransformScores],
    order: Sequence[int],
    groups: Sequence[Sequence[int]],
    draws: Mapping[str, Floats],
) -> list[Row]:
    """Return the rows of the verdict, best first."""
    best, every = rank_distribution(draws[SCORES[PRIMARY].statistic]).best, list(scores.values())
    group = {k: number for number, members in enumerate(groups, 1) for k in members}
    return [Row(every[k], at, group[k], float(best[k])) for at, k in enumerate(order, 1)]


def _regularity(transform: Any, where: Any, mask: Any, step: float | None) -> Regularity | None:
    if function_of(transform) is None:
        return None
    return regularity(transform, where, mask=mask, step=step)


def _draws(
    samples: Floats, mapped: Floats, norms: Sequence[float], tolerance: float | None, diagonal: float | None
) -> dict[str, Floats]:
    """Draws (S, K) of every norm and statistic; the lengths of one transform at a time are held."""
    columns: dict[str, list[Floats]] = {}
    for one in mapped:
        lengths = np.linalg.norm(samples - one, axis=2)
        for name, values in summaries(lengths, tolerance, diagonal).items():
            columns.setdefault(name, []).append(values)
        for p in norms:
            known = SCORES.get(norm_name(p))
            values = columns[known.statistic][-1] if known else np.array([displacement_norm(row, p) for row in lengths])
            columns.setdefault(draws_of(norm_name(p)), []).append(values)
    return {name: np.stack(values, axis=1) for name, values in columns.items()}


def _all_scores(
    judged: Judgement,
    flags: Mapping[str, tuple[Flag, ...]],
    common: Comparable,
    draws: Mapping[str, Floats],
    norms: Sequence[float],
    tolerance: float | None,
    diagonal: float | None,
) -> dict[str, TransformScores]:
    keys = {p: norm_name(p) for p in norms}
    by_norm = {draws_of(norm) for norm in keys.values()}
    ranks = {norm: rank_distribution(draws[draws_of(norm)]) for norm in keys.values()}
    result = {}
    for k, name in enumerate(flags):
        lengths, squared = common.landmark_lengths[k], float(judged.squared[k])
        intervals = {key: Interval.of(value[:, k]) for key, value in draws.items()}
        classical = {} if lengths is None else summaries(lengths, tolerance, diagonal)
        result[name] = TransformScores(
            name=name,
            landmark={norm: None if lengths is None else displacement_norm(lengths, p) for p, norm in keys.items()},
            score={norm: float(judged.scores[norm][k]) for norm in keys.values()},
            interval={norm: _holding(intervals[draws_of(norm)], judged.scores[norm][k]) for norm in keys.values()},
            expected_squared_error=squared,
            root_expected_squared_error=float(np.sqrt(squared)),
            probability_best={norm: float(one.best[k]) for norm, one in ranks.items()},
            expected_rank={norm: float(one.mean[k]) for norm, one in ranks.items()},
            rank_probabilities={norm: one.probabilities[k].tolist() for norm, one in ranks.items()},
            outside=float(common.outside[k]),
            statistics={key: one for key, one in intervals.items() if key not in by_norm},
            landmark_statistics={key: float(value) for key, value in classical.items()} or None,
            flags=flags[name],
        )
    return result


def _holding(interval: Interval, score: float) -> tuple[float, float]:
    """Return the interval, widened to contain the score: the paper's score can lie below all draws."""
    return min(interval.low, float(score)), max(interval.high, float(score))


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
