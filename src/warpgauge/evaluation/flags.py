"""Flags: what to look at before reading a ranking. Transforms too good to be true, and grossly wrong annotations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.factors import mahalanobis
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.sentences import length

TOO_GOOD = 0.001
GROSS = 6.0
# A median needs some annotations before six times of it says anything.
_FEWEST_FOR_GROSS = 6


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


def too_good(comparison: Comparison, noise_factor: float = 1.0) -> tuple[Flag, ...]:
    """Flag transforms whose residuals at the annotations are smaller than the noise allows.

    The squared Mahalanobis lengths of the residuals add up to at least a chi-square variable with one degree of freedom
    per coordinate, whatever the transform, unless it has seen the annotations or the noise is overstated.
    ``noise_factor`` is the part of the stated variances that is believed.
    """
    given, flags = comparison.annotations, []
    for name, values in zip(comparison.transforms, comparison.values.annotations, strict=True):
        residuals = values - given.moving_points
        known = np.isfinite(residuals).all(axis=1)
        if not known.any():
            continue
        total = float(mahalanobis(residuals[known], given.covariances[known]).sum())
        p = float(special.chdtr(given.d * int(known.sum()), total / noise_factor))
        if p < TOO_GOOD:
            flags.append(
                Flag(
                    "too_good",
                    f"{name} fits the annotations better than their stated precision allows (p = {p:.1g}): it has "
                    "probably seen them, or the stated uncertainty is too large.",
                    transform=name,
                    p=p,
                )
            )
    return tuple(flags)


def gross_errors(comparison: Comparison) -> tuple[Flag, ...]:
    """Flag annotations that all good transforms miss by more than six times the usual distance.

    The sentences carry the world unit where it is known.
    """
    given, units = comparison.annotations, comparison.scene.units
    if not comparison.transforms or len(given) < _FEWEST_FOR_GROSS:
        return ()
    lengths = comparison.landmark_errors
    lengths[~np.isfinite(lengths)] = np.inf
    order = np.argsort(np.median(lengths, axis=1), kind="stable")
    best = lengths[order[: (len(order) + 1) // 2]].min(axis=0)
    usual = float(np.median(best))
    if not np.isfinite(usual) or usual == 0:
        return ()
    return tuple(
        Flag(
            "gross_error",
            f"Annotation {row + 1}, at ({', '.join(f'{x:.5g}' for x in given.fixed_points[row])}) in the fixed image, "
            f"lies {length(float(best[row]), units)} from every good transform, where {length(usual, units)} is usual: "
            "look at it again, it may be a wrong match.",
            row=int(row),
        )
        for row in np.flatnonzero(np.isfinite(best) & (best > GROSS * usual))
    )
