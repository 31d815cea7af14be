"""The interface that compares transforms (scores, win probabilities, order), and its form for the paper's posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Floats, thinned_rows
from warpgauge.core.process import Posterior
from warpgauge.core.scoring import displacement_norm, mean_squared_errors, win_probabilities

# Comparing each transform with each takes all pairs of points; a random part of so many serves for more.
_MOST_POINTS = 4000


def norm_name(p: float) -> str:
    """Name of a norm in tables: ``1``, ``2``, ``inf``."""
    return "inf" if np.isinf(p) else f"{p:g}"


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


@dataclass(frozen=True)
class Flag:
    """Something that a person should look at before reading any ranking.

    Attributes
    ----------
    kind : {"too_good", "gross_error"}
        A transform that fits the annotations better than their stated precision allows, so that it has probably seen
        them; or an annotation that the transforms and the other annotations contradict.
    sentence : str
    transform : str or None
        Which transform, for ``"too_good"``.
    row : int or None
        Row of the annotation, from 0, for ``"gross_error"``; sentences count from 1.
    p : float or None
        Probability of something as odd by chance, where it was computed.
    """

    kind: str
    sentence: str
    transform: str | None = None
    row: int | None = None
    p: float | None = None


def ascending(values: Floats) -> list[int]:
    """Return the order of values, smallest first; equal ones stay in their order."""
    return [int(k) for k in np.argsort(values, kind="stable")]


def posterior_judgement(posterior: Posterior, points: Floats, mapped: Floats, norms: Sequence[float]) -> Judgement:
    """Judge (K, n, d) mapped targets by distances from the posterior mean; win probabilities are exact.

    Scores are those of Eq. (target_set_displacements_on_annotations).
    """
    errors = mapped - posterior.mean(points)
    scores = {norm_name(p): np.array([displacement_norm(one, p) for one in errors]) for p in norms}
    squared = mean_squared_errors(errors)
    rows = thinned_rows(len(points), _MOST_POINTS)
    trace = posterior.d * np.mean(np.square(posterior.standard_deviation(points)))
    return Judgement(
        scores, squared + trace, win_probabilities(posterior, points[rows], mapped[:, rows]), ascending(squared)
    )
