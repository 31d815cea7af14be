"""Candidate transforms in; scores, intervals and ranks with their probabilities out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.process import Posterior
from warpgauge.core.scoring import displacement_norm, rank_distribution
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.averaging import CandidateAverage
from warpgauge.evaluation.comparison import Comparable, comparable
from warpgauge.evaluation.further import CAP, further_annotations, further_by_growth
from warpgauge.evaluation.jacobian import Regularity, regularity
from warpgauge.evaluation.judging import Judgement, judge
from warpgauge.evaluation.mapping import function_of
from warpgauge.evaluation.result import Evaluation, TransformScores
from warpgauge.evaluation.statistics import Interval, norm_name, positive, summaries
from warpgauge.evaluation.ties import tied_groups, verdict
from warpgauge.geometry import Grid

_NORM_OF = {1.0: "mean", 2.0: "rms", np.inf: "max"}


def evaluate(
    posterior: Posterior | CandidateAverage,
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
) -> Evaluation:
    """Score and rank transforms by what the annotations say about the true one.

    Parameters
    ----------
    posterior : Posterior or CandidateAverage
        What is known of the truth: the paper's posterior, which knows the annotations only, or
        ``candidate_average(posterior, transforms)``, which lets the transforms compete for being nearest to it. Scores
        are distances from the posterior's mean as in the paper, or medians over the average's samples.
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
        Also give the share of targets whose error is above this, in world units.
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
    candidates : (m, d) array, optional
        Where further annotations may be suggested; the targets by default.

    Returns
    -------
    Evaluation
        Targets at which some transform is not defined (NaN) are left out for all transforms, so that they are compared
        on the same points; each one's own share is in ``outside``.
    """
    if int(samples) != samples or samples < 1:
        raise InvalidInputError(f"evaluate needs at least one sample, got {samples!r}.")
    tolerance = positive(tolerance, "tolerance")
    length = positive(diagonal.diagonal if isinstance(diagonal, Grid) else diagonal, "diagonal")
    common = comparable(posterior, transforms, targets)
    names = list(transforms)
    draws = _draws(posterior.sample(common.points, int(samples), seed), common.mapped, norms, tolerance, length)
    judged = judge(posterior, common, draws, norms)
    groups = tied_groups(judged.order, judged.win)
    more = None
    if further and len(groups) < len(names):
        if isinstance(posterior, CandidateAverage):
            more = further_by_growth(judged.order, judged.win, len(posterior.annotations), further, int(samples))
        else:
            more = further_annotations(
                posterior, common.points, common.mapped, candidates=candidates, cap=further, seed=seed
            )
    scores = _all_scores(judged, names, common, draws, norms, tolerance, length)
    if regularity_over is not False:
        where = as_points(targets, "targets") if regularity_over is True else regularity_over
        scores = {
            name: replace(one, regularity=_regularity(transforms[name], where, mask, jacobian_step))
            for name, one in scores.items()
        }
    best = dict(zip(names, rank_distribution(draws["rms"]).best.tolist(), strict=True))
    return Evaluation(
        scores=scores,
        norms=tuple(norm_name(p) for p in norms),
        win_probability=judged.win,
        annotations=len(posterior.annotations),
        targets=len(common.points),
        samples=int(samples),
        seed=int(seed),
        excluded_targets=common.excluded,
        tolerance=tolerance,
        diagonal=length,
        tied=[[names[k] for k in group] for group in groups],
        further=more,
        verdict=verdict(names, groups, best, len(posterior.annotations), more),
        centre_weights=posterior.centre_weights if isinstance(posterior, CandidateAverage) else None,
        draws=draws,
    )


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
            known = _NORM_OF.get(float(p))
            values = columns[known][-1] if known else np.array([displacement_norm(row, p) for row in lengths])
            columns.setdefault(f"norm {norm_name(p)}", []).append(values)
    return {name: np.stack(values, axis=1) for name, values in columns.items()}


def _all_scores(
    judged: Judgement,
    names: Sequence[str],
    common: Comparable,
    draws: Mapping[str, Floats],
    norms: Sequence[float],
    tolerance: float | None,
    diagonal: float | None,
) -> dict[str, TransformScores]:
    keys = {p: norm_name(p) for p in norms}
    ranks = {norm: rank_distribution(draws[f"norm {norm}"]) for norm in keys.values()}
    result = {}
    for k, name in enumerate(names):
        lengths, squared = common.landmark_lengths[k], float(judged.squared[k])
        intervals = {key: Interval.of(value[:, k]) for key, value in draws.items()}
        classical = {} if lengths is None else summaries(lengths, tolerance, diagonal)
        result[name] = TransformScores(
            name=name,
            landmark={norm: None if lengths is None else displacement_norm(lengths, p) for p, norm in keys.items()},
            posterior={norm: float(judged.scores[norm][k]) for norm in keys.values()},
            interval={norm: (intervals[f"norm {norm}"].low, intervals[f"norm {norm}"].high) for norm in keys.values()},
            expected_squared_error=squared,
            root_expected_squared_error=float(np.sqrt(squared)),
            probability_best={norm: float(one.best[k]) for norm, one in ranks.items()},
            expected_rank={norm: float(one.mean[k]) for norm, one in ranks.items()},
            rank_probabilities={norm: one.probabilities[k].tolist() for norm, one in ranks.items()},
            outside=float(common.outside[k]),
            statistics={key: one for key, one in intervals.items() if not key.startswith("norm ")},
            landmark_statistics={key: float(value) for key, value in classical.items()} or None,
        )
    return result
