"""Point scores, win probabilities and the order of transforms, by the paper's posterior or by an average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.core.scoring import displacement_norm, win_probabilities
from warpgauge.evaluation.averaging import CandidateAverage
from warpgauge.evaluation.comparison import Comparable
from warpgauge.evaluation.statistics import norm_name


@dataclass(frozen=True, eq=False)
class Judgement:
    """What ranks the transforms.

    Attributes
    ----------
    scores : dict
        (K,) point scores by the norm's name.
    squared : (K,) array
        Expected mean squared error over the targets.
    win : (K, K) array
        Probability that the row's transform has a smaller mean squared error than the column's.
    order : list of int
        Best first, by the mean squared error.
    """

    scores: dict[str, Floats]
    squared: Floats
    win: Floats
    order: list[int]


def judge(
    known: Posterior | CandidateAverage, common: Comparable, draws: Mapping[str, Floats], norms: Sequence[float]
) -> Judgement:
    """Judge transforms at their common targets.

    By a posterior the scores are distances from its mean, Eq. (target_set_displacements_on_annotations), and win
    probabilities are exact. By an average both come from its samples: the mean of an average lies near whichever
    candidate leads, so a distance from it says little about that one's error.
    """
    if isinstance(known, CandidateAverage):
        scores = {norm_name(p): np.median(draws[f"norm {norm_name(p)}"], axis=0) for p in norms}
        middle = np.median(draws["rms"], axis=0)
        return Judgement(scores, np.mean(np.square(draws["rms"]), axis=0), _won(draws["rms"]), _order(middle))
    errors = common.mapped - known.mean(common.points)
    scores = {norm_name(p): np.array([displacement_norm(one, p) for one in errors]) for p in norms}
    squared = np.square(errors).sum(axis=2).mean(axis=1)
    trace = known.d * np.mean(np.square(known.standard_deviation(common.points)))
    win = win_probabilities(known, common.points, common.mapped)
    return Judgement(scores, squared + trace, win, _order(squared))


def _order(values: Floats) -> list[int]:
    return [int(k) for k in np.argsort(values, kind="stable")]


def _won(draws: Floats) -> Floats:
    """Share of the draws in which the row's value is below the column's; half of those where they are equal."""
    below = draws[:, :, None] < draws[:, None, :]
    equal = draws[:, :, None] == draws[:, None, :]
    return np.asarray(below.mean(axis=0) + 0.5 * equal.mean(axis=0))
