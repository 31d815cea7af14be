"""Checks to look at before any ranking: transforms too good to be true, and grossly wrong annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from warpgauge.core.annotations import Annotations
from warpgauge.core.judgement import Flag
from warpgauge.core.linalg import mahalanobis
from warpgauge.evaluation.sentences import length
from warpgauge.evaluation.transforms import mapped_points

TOO_GOOD = 0.001
GROSS = 6.0
# A median needs some annotations before six times of it says anything.
_FEWEST_FOR_GROSS = 6


def too_good(transforms: Mapping[str, Any], given: Annotations, noise_factor: float = 1.0) -> tuple[Flag, ...]:
    """Flag transforms whose residuals at the annotations are smaller than the noise allows.

    The squared Mahalanobis lengths of the residuals add up to at least a chi-square variable with one degree of freedom
    per coordinate, whatever the transform, unless it has seen the annotations or the noise is overstated.
    ``noise_factor`` is the part of the stated variances that is believed.
    """
    flags = []
    for name, one in transforms.items():
        residuals = mapped_points(name, one, given.fixed_points) - given.moving_points
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
                    "probably seen them, or the stated uncertainty is too large. It is not used as evidence.",
                    transform=name,
                    p=p,
                )
            )
    return tuple(flags)


def gross_errors(transforms: Mapping[str, Any], given: Annotations, units: str | None = None) -> tuple[Flag, ...]:
    """Flag annotations that even the best of the better half of the transforms misses by six times its median.

    The sentences carry the world unit where it is given.
    """
    if not transforms or len(given) < _FEWEST_FOR_GROSS:
        return ()
    lengths = np.stack(
        [
            np.linalg.norm(mapped_points(name, one, given.fixed_points) - given.moving_points, axis=1)
            for name, one in transforms.items()
        ]
    )
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
