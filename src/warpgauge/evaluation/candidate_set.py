"""The transforms as estimates of the truth: their median, their differences from it, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.transforms import function_of, mapped_points

# Transforms nearer to each other than this share of the smallest landmark error count as one.
_ALIKE = 0.2
# Transforms nearer to each other than this share of that distance are copies.
_COPY = 0.25
# Differences and disagreements below this share of the typical one count as that much.
_FLOOR = 0.1
# An error at the annotations below this share of their noise counts as that much.
_NOISE_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class CandidateValues:
    """What the candidates say at points.

    Attributes
    ----------
    median : (n, d) array
        Weighted componentwise median.
    directions : (n, d, K) array
        Differences from the median, each scaled to unit size at the annotations and by the root of its weight.
    disagreement : (n,) array
        Weighted median distance from the median, 1 where it is typical and never far below.
    """

    median: Floats
    directions: Floats
    disagreement: Floats

    def __getitem__(self, rows: Any) -> CandidateValues:
        """Return the values at some of the points."""
        return CandidateValues(self.median[rows], self.directions[rows], self.disagreement[rows])


class CandidateSet:
    """Transforms that may be near the truth, weighted so that copies of one count once.

    The weight of a transform is one over its root mean square error at the annotations, shared with the transforms that
    are like it there. Where a
    transform is not defined the others decide, and where none is the posterior's mean stands in.

    Parameters
    ----------
    transforms : mapping of name to transform
        Objects with ``map``, or callables: mapped targets alone do not say what happens at the annotations.
    posterior : Posterior
        Brings the annotations.
    """

    def __init__(self, transforms: Mapping[str, Any], posterior: Posterior) -> None:
        if not transforms or any(function_of(one) is None for one in transforms.values()):
            raise InvalidInputError(
                "Judging transforms against each other needs transforms that can be evaluated anywhere: objects with "
                "map, or callables; mapped targets alone do not say what happens at the annotations."
            )
        self.transforms, self.fallback = dict(transforms), posterior
        given = posterior.annotations
        every = self._mapped(given.fixed_points)
        self.weights = _weights(every, given)
        median = _filled(every, self.weights)[1]
        differences = np.where(np.isnan(every), 0.0, every - median)
        sizes = np.sqrt(np.mean(np.square(differences), axis=(1, 2)))
        least = _FLOOR * float(weighted_median(sizes[:, None], self.weights)[0])
        shares = np.sqrt(self.weights / self.weights.sum())
        self._scales = shares / np.where(np.maximum(sizes, least) > 0, np.maximum(sizes, least), 1.0)
        apart = weighted_median(np.linalg.norm(differences, axis=2), self.weights)
        self._typical = float(np.sqrt(np.mean(np.square(apart))))

    def _mapped(self, points: Floats) -> Floats:
        """Values (K, n, d); NaN where not defined, the fallback where none is."""
        mapped = np.stack([mapped_points(name, one, points) for name, one in self.transforms.items()])
        mapped[~np.isfinite(mapped).all(axis=2)] = np.nan
        nowhere = np.isnan(mapped[:, :, 0]).all(axis=0)
        if nowhere.any():
            mapped[:, nowhere] = self.fallback.mean(points[nowhere])
        return mapped

    def at(self, points: Floats) -> CandidateValues:
        """Return what the candidates say at (n, d) points."""
        every, median = _filled(self._mapped(points), self.weights)
        differences = every - median
        directions = (differences * self._scales[:, None, None]).transpose(1, 2, 0)
        apart = weighted_median(np.linalg.norm(differences, axis=2), self.weights)
        if self._typical == 0:
            return CandidateValues(median, directions, np.ones(len(points)))
        relative = (np.square(apart / self._typical) + _FLOOR**2) / (1 + _FLOOR**2)
        return CandidateValues(median, directions, np.asarray(np.sqrt(relative)))


def _weights(every: Floats, given: Annotations) -> Floats:
    """Weights from (K, L, d) values at the annotations, where each transform is defined at one of them at least."""
    squares = np.square(every - given.moving_points).sum(axis=2)
    known = ~np.isnan(squares)
    noise = float(np.mean(np.trace(given.covariances, axis1=1, axis2=2)))
    mean = np.where(known, squares, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    errors = np.sqrt(np.maximum(mean, _NOISE_SHARE * noise))
    # A transform that is defined at no annotation has nothing that speaks for it.
    errors[~known.any(axis=1)] = np.inf
    unit = _ALIKE * float(errors.min())
    if not np.isfinite(unit):
        return np.ones(len(every))
    return np.asarray(errors.min() / errors * _shares(every, unit))


def _shares(every: Floats, unit: float) -> Floats:
    """Share of each of (K, L, d) transforms in a vote that those alike within ``unit`` have together.

    Copies are counted first, so that what is merely like them is not crowded out by their number.
    """
    alike = np.empty((len(every), len(every)))
    for k, one in enumerate(every):
        apart = np.square(every - one).sum(axis=2)
        both = ~np.isnan(apart)
        distances = np.where(both, apart, 0.0).sum(axis=1) / np.maximum(both.sum(axis=1), 1)
        alike[k] = np.where(both.any(axis=1), np.exp(-0.5 * distances / unit**2), 0.0)
    np.fill_diagonal(alike, 1.0)
    once = 1 / np.sum(alike ** (1 / _COPY) ** 2, axis=1)
    return np.asarray(once / (alike @ once))


def _filled(every: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Replace what is not defined by the weighted median of what is; return both."""
    median = weighted_median(every, weights)
    return np.where(np.isnan(every), median, every), median


def weighted_median(values: Floats, weights: Floats) -> Floats:
    """Median over the first axis of (K, ...) values with a weight each; NaN counts nothing."""
    shares = np.broadcast_to(weights.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
    shares = np.where(np.isnan(values), 0.0, shares)
    order = np.argsort(values, axis=0)  # NaN last
    ordered = np.take_along_axis(values, order, axis=0)
    below = np.cumsum(np.take_along_axis(shares, order, axis=0), axis=0)
    below /= below[-1]
    # The middle of the two values about half the weight, as the usual median of an even number.
    low = np.take_along_axis(ordered, np.argmax(below >= 0.5 - 1e-12, axis=0)[None], axis=0)[0]
    high = np.take_along_axis(ordered, np.argmax(below > 0.5 + 1e-12, axis=0)[None], axis=0)[0]
    return np.asarray((low + high) / 2)
