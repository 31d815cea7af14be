"""Scores, intervals and ranks of candidate transforms, with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotation_budget import CAP, FurtherAnnotations
from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.error_scores import displacement_norm, norm_name, rank_distribution
from warpgauge.core.parallel import one_blas_thread
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.columns import PRIMARY, SCORES, Row, draws_of
from warpgauge.evaluation.comparison import Comparison, Scene
from warpgauge.evaluation.paper_judge import as_truth
from warpgauge.evaluation.regularity import Regularity, regularity
from warpgauge.evaluation.result import Evaluation, Interval, TransformScores, positive, summaries
from warpgauge.evaluation.truth import Judgement, Truth
from warpgauge.evaluation.verdict import DECISIVE, Region, Verdict
from warpgauge.geometry import Grid
from warpgauge.io.transforms import Transform

# Up to so many targets are sampled jointly. Of more, every batch of samples has its own random part.
MOST_JOINT_TARGETS, PART, BATCHES = 1000, 500, 10


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
    grid = diagonal if isinstance(diagonal, Grid) else None
    how = Scoring(
        norms, samples, seed, tolerance, diagonal.diagonal if isinstance(diagonal, Grid) else diagonal, margin, further,
        regularity_over, mask, jacobian_step,
    )  # fmt: skip
    model = as_truth(truth)
    if not transforms or len(np.asarray(targets)) == 0:
        raise InvalidInputError("evaluate needs at least one transform and one target.")
    found = model.compared(transforms, targets)
    at = None if candidates is None else as_points(candidates, "candidates", model.d)
    scene = Scene(grid, None if grid is None else grid.units, candidates=at)
    return scored(model, replace(found, scene=scene, baseline=baseline if baseline in transforms else None), how)


@one_blas_thread()
def scored(truth: Truth, comparison: Comparison, how: Scoring) -> Evaluation:
    """Score the transforms of a comparison by a model of the truth."""
    common = comparison.complete
    draws = _sampled(truth, common, how)
    judged = truth.judgement(common, how.norms, draws)
    groups = tied_groups(judged.order, judged.win, scores=judged.scores.get(PRIMARY), margin=how.margin)
    more = None
    if how.further and len(groups) < len(comparison.transforms):
        part = common.part(MOST_JOINT_TARGETS, how.seed)
        more = truth.further(judged, part, cap=how.further, samples=int(how.samples), seed=how.seed)
    scores, count = _all_scores(truth, judged, comparison, draws, how), len(common.targets)
    return Evaluation(
        comparison=comparison,
        judged_by=truth,
        scores=scores,
        norms=tuple(norm_name(p) for p in how.norms),
        win_probability=judged.win,
        verdict=_verdict(truth, judged, comparison, groups, _rows(scores, judged.order, groups, draws), more, how),
        seed=int(how.seed),
        tolerance=how.tolerance,
        diagonal=how.diagonal,
        candidate_weights=truth.candidate_weights,
        sampled_targets=min(count, PART) if count > MOST_JOINT_TARGETS else count,
        without_flagged=_without_flagged(truth, comparison, how),
        draws=draws,
    )


def _verdict(
    truth: Truth,
    judged: Judgement,
    comparison: Comparison,
    groups: Sequence[Sequence[int]],
    rows: Sequence[Row],
    more: FurtherAnnotations | None,
    how: Scoring,
) -> Verdict:
    names, scene, kept = list(comparison.transforms), comparison.scene, len(comparison.complete.targets)
    excluded = len(comparison.targets) - kept
    return Verdict.of(
        rows,
        [[names[k] for k in group] for group in groups],
        separated=all(judged.win[groups[0][0], k] >= DECISIVE for k in groups[0][1:]),
        baseline=comparison.baseline,
        counts={
            "annotations": len(truth.annotations),
            "targets": kept,
            "excluded_targets": excluded,
            "samples": int(how.samples),
        },
        flags=tuple(truth.flags),
        region=Region.of(scene.region) if scene.region else None,
        assumptions=(
            *(["unseen_annotations"] if truth.candidate_weights is not None else []),
            *(["common_targets"] if excluded else []),
        ),
        further=more,
        units=scene.units,
        margin=float(how.margin),
    )


def _without_flagged(truth: Truth, comparison: Comparison, how: Scoring) -> Evaluation | None:
    """Evaluate again without the annotations that are flagged as gross errors, where there are any."""
    other = truth.without_flagged()
    if other is None:
        return None
    rows = [flag.row for flag in truth.flags if flag.row is not None]
    return scored(other, comparison.without(rows), replace(how, tolerance=None, regularity_over=False, further=0))


def _sampled(truth: Truth, common: Comparison, how: Scoring) -> dict[str, Floats]:
    """Summarise joint samples of the truth, in batches over random parts of the targets where there are many.

    The draws of different batches differ by what their parts are, so that the error of taking parts is in them.
    """
    samples = int(how.samples)
    if len(common.targets) <= MOST_JOINT_TARGETS:
        return _draws(truth.sample_over(common, samples, how.seed), common, how)
    found = []
    for batch, count in enumerate(np.diff(np.linspace(0, samples, min(BATCHES, samples) + 1).astype(np.int64))):
        part = common.part(PART, [how.seed, batch])
        found.append(_draws(truth.sample_over(part, int(count), how.seed + batch), part, how))
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


def _draws(samples: Floats, common: Comparison, how: Scoring) -> dict[str, Floats]:
    """Draws (S, K) of every norm and statistic; the lengths of one transform at a time are held."""
    columns: dict[str, list[Floats]] = {}
    for one in common.values.targets:
        lengths = np.linalg.norm(samples - one, axis=2)
        for name, values in summaries(lengths, how.tolerance, how.diagonal).items():
            columns.setdefault(name, []).append(values)
        for p in how.norms:
            known = SCORES.get(norm_name(p))
            values = columns[known.statistic][-1] if known else np.array([displacement_norm(row, p) for row in lengths])
            columns.setdefault(draws_of(norm_name(p)), []).append(values)
    return {name: np.stack(values, axis=1) for name, values in columns.items()}


def _all_scores(
    truth: Truth, judged: Judgement, comparison: Comparison, draws: Mapping[str, Floats], how: Scoring
) -> dict[str, TransformScores]:
    keys = {p: norm_name(p) for p in how.norms}
    by_norm = {draws_of(norm) for norm in keys.values()}
    ranks = {norm: rank_distribution(draws[draws_of(norm)]) for norm in keys.values()}
    outside, errors = (~comparison.defined).mean(axis=1), comparison.landmark_errors
    result = {}
    for k, (name, transform) in enumerate(comparison.transforms.items()):
        lengths, squared = errors[k][np.isfinite(errors[k])], float(judged.squared[k])
        intervals = {key: Interval.of(value[:, k]) for key, value in draws.items()}
        classical = summaries(lengths, how.tolerance, how.diagonal) if len(lengths) else {}
        result[name] = TransformScores(
            name=name,
            landmark={norm: displacement_norm(lengths, p) if len(lengths) else None for p, norm in keys.items()},
            score={norm: float(judged.scores[norm][k]) for norm in keys.values()},
            interval={norm: _holding(intervals[draws_of(norm)], judged.scores[norm][k]) for norm in keys.values()},
            expected_squared_error=squared,
            root_expected_squared_error=float(np.sqrt(squared)),
            probability_best={norm: float(one.best[k]) for norm, one in ranks.items()},
            expected_rank={norm: float(one.mean[k]) for norm, one in ranks.items()},
            rank_probabilities={norm: one.probabilities[k].tolist() for norm, one in ranks.items()},
            outside=float(outside[k]),
            statistics={key: one for key, one in intervals.items() if key not in by_norm},
            landmark_statistics={key: float(value) for key, value in classical.items()} or None,
            regularity=_regularity(transform, comparison.targets, how),
            flags=tuple(flag for flag in truth.flags if flag.transform == name),
        )
    return result


def _regularity(transform: Transform, targets: Floats, how: Scoring) -> Regularity | None:
    """Return the regularity where it is asked for; a table of points has no neighbours to take differences of."""
    if how.regularity_over is False or not transform.anywhere:
        return None
    where = targets if how.regularity_over is True else how.regularity_over
    return regularity(transform, where, mask=how.mask, step=how.jacobian_step)


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
