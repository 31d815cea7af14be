"""The candidate transforms as guesses of the truth, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.mapping import function_of, mapped_points

# Fewer candidates than this have no median that is another guess than they are themselves.
FEWEST_FOR_MEDIAN = 3


class Centres:
    """Every candidate transform, and their pointwise median, as a possible centre of the truth.

    Where a candidate is not defined the median of those that are stands in, and where none is the posterior's mean, so
    that annotations there still count.

    Parameters
    ----------
    transforms : mapping of name to transform
        Objects with ``map``, or callables: mapped targets alone do not say what happens at the annotations.
    fallback : Posterior
    """

    def __init__(self, transforms: Mapping[str, Any], fallback: Posterior) -> None:
        if not transforms or any(function_of(one) is None for one in transforms.values()):
            raise InvalidInputError(
                "Judging transforms against each other needs transforms that can be evaluated anywhere: objects with "
                "map, or callables; mapped targets alone do not say what happens at the annotations."
            )
        self.transforms, self.fallback = dict(transforms), fallback
        self.names = [*transforms, *(["median"] if len(transforms) >= FEWEST_FOR_MEDIAN else [])]

    def at(self, points: Floats) -> tuple[Floats, Floats]:
        """Give all centres at (n, d) points, (C, n, d), and how far the candidates disagree there, (n,).

        The disagreement is the median distance of a candidate from their componentwise median: a few failed
        registrations do not move it.
        """
        mapped = np.stack([mapped_points(name, one, points) for name, one in self.transforms.items()])
        missing = ~np.isfinite(mapped).all(axis=2)
        mapped[missing] = np.nan
        nowhere = missing.all(axis=0)
        if nowhere.any():
            mapped[:, nowhere] = self.fallback.mean(points[nowhere])
        median = np.nanmedian(mapped, axis=0)
        mapped = np.where(np.isnan(mapped), median, mapped)
        disagreement = np.median(np.linalg.norm(mapped - median, axis=2), axis=0)
        if len(self.names) > len(mapped):
            mapped = np.concatenate([mapped, median[None]])
        return mapped, np.asarray(disagreement)
