"""Transforms as estimates of the truth: their weighted median, their differences from it, and where they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.evaluation.comparison import Comparison

# Transforms nearer to each other than this share of the smallest landmark error share one weight.
_ALIKE = 0.2
# A transform nearer to another than this share of the smallest landmark error is a copy of it.
COPY = 0.05
# Differences and disagreements below this share of the typical one count as that much.
_FLOOR = 0.1
# An error at the annotations below this share of their noise counts as that much.
_NOISE_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class EvidenceValues:
    """What the transforms say at points.

    Attributes
    ----------
    median : (n, d) array
        Weighted componentwise median.
    directions : (n, d, K) array
        Differences from the median, each scaled to unit size at the annotations and by the root of its weight.
    disagreement : (n,) array
        Weighted median distance from the median, 1 where it is typical and never far below.
    affine : (n, d + 1) array
        1 and the coordinates, standardised by the annotations'; of unit size there together.
    """

    median: Floats
    directions: Floats
    disagreement: Floats
    affine: Floats

    def __getitem__(self, rows: Any) -> EvidenceValues:
        """Return the values at some of the points."""
        return EvidenceValues(self.median[rows], self.directions[rows], self.disagreement[rows], self.affine[rows])


@dataclass(frozen=True, eq=False)
class Evidence:
    """Transforms that may be near the truth, weighted so that similar ones do not outvote the others.

    Made by :meth:`Evidence.of`. Of copies only the first by name is kept. The weight of a transform is one over its
    root mean square error at the annotations, shared with the transforms that are like it there. Where a transform is
    not defined the others decide, and where none is the posterior's mean stands in.

    Attributes
    ----------
    comparison : Comparison
        Of the transforms that are kept.
    weights, scales : (K,) array
        Weight of each, and the factor that brings its differences from the median to the size of the square root of
        its share of the weights.
    typical : float
        Root mean square, over the annotations, of the median distance from the median.
    """

    comparison: Comparison
    weights: Floats
    scales: Floats
    typical: float

    @classmethod
    def of(cls, comparison: Comparison) -> Evidence:
        """Weigh transforms by their errors at the annotations."""
        given = comparison.annotations
        every = _standing_in(comparison.values.annotations, comparison.posterior, given.fixed_points)
        names = list(comparison.transforms)
        first = _without_copies(every, COPY * float(_errors(every, given).min()), names)
        every = every[first]
        weights = _weights(every, given)
        median = _filled(every, weights)[1]
        differences = np.where(np.isnan(every), 0.0, every - median)
        sizes = np.sqrt(np.mean(np.square(differences), axis=(1, 2)))
        least = _FLOOR * float(weighted_median(sizes[:, None], weights)[0])
        shares = np.sqrt(weights / weights.sum())
        scales = shares / np.where(np.maximum(sizes, least) > 0, np.maximum(sizes, least), 1.0)
        apart = weighted_median(np.linalg.norm(differences, axis=2), weights)
        typical = float(np.sqrt(np.mean(np.square(apart))))
        return cls(comparison.among(names[k] for k in first), weights, scales, typical)

    @property
    def posterior(self) -> Posterior:
        """What the annotations say without the transforms."""
        return self.comparison.posterior

    @property
    def names(self) -> list[str]:
        """Names of the transforms that are kept."""
        return list(self.comparison.transforms)

    @cached_property
    def at_annotations(self) -> EvidenceValues:
        """What the transforms say at the annotated points."""
        return self._values(self.posterior.annotations.fixed_points, self.comparison.values.annotations)

    def over(self, comparison: Comparison) -> EvidenceValues:
        """Return what the transforms say at the targets of a comparison, which may hold other transforms."""
        return self._values(comparison.targets, comparison.values_of(self.comparison.transforms))

    def _values(self, points: Floats, given: Floats) -> EvidenceValues:
        every, median = _filled(_standing_in(given, self.posterior, points), self.weights)
        differences = every - median
        directions = (differences * self.scales[:, None, None]).transpose(1, 2, 0)
        apart = weighted_median(np.linalg.norm(differences, axis=2), self.weights)
        disagreement = np.ones(len(points))
        if self.typical > 0:
            disagreement = np.sqrt((np.square(apart / self.typical) + _FLOOR**2) / (1 + _FLOOR**2))
        return EvidenceValues(median, directions, disagreement, self._affine(points))

    def _affine(self, points: Floats) -> Floats:
        known = self.posterior.annotations.fixed_points
        size = float(np.sqrt(np.mean(np.square(known - known.mean(axis=0))))) or 1.0
        basis = np.column_stack([np.ones(len(points)), (points - known.mean(axis=0)) / size])
        return np.asarray(basis / np.sqrt(basis.shape[1]))


def _standing_in(every: Floats, posterior: Posterior, points: Floats) -> Floats:
    """Return (K, n, d) values, with the posterior's mean where no transform is defined."""
    nowhere = np.isnan(every[:, :, 0]).all(axis=0)
    if not nowhere.any():
        return every
    filled = every.copy()
    filled[:, nowhere] = posterior.mean(points[nowhere])
    return filled


def _errors(every: Floats, given: Annotations) -> Floats:
    """Root mean square errors of (K, L, d) values at the annotations, where each is defined; not far below the noise.

    A transform that is defined at no annotation has nothing that speaks for it: its error is infinite.
    """
    squares = np.square(every - given.moving_points).sum(axis=2)
    known = ~np.isnan(squares)
    noise = float(np.mean(np.trace(given.covariances, axis1=1, axis2=2)))
    mean = np.where(known, squares, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.where(known.any(axis=1), np.sqrt(np.maximum(mean, _NOISE_SHARE * noise)), np.inf)


def _weights(every: Floats, given: Annotations) -> Floats:
    """Weights from (K, L, d) values at the annotations."""
    errors = _errors(every, given)
    unit = _ALIKE * float(errors.min())
    if not np.isfinite(unit):
        return np.ones(len(every))
    alike = np.exp(-0.5 * np.square(_distances(every) / unit))
    return np.asarray(errors.min() / errors / alike.sum(axis=1))


def _without_copies(every: Floats, limit: float, names: Sequence[str]) -> list[int]:
    """Return rows of (K, L, d) values, in the order of their names, that lie farther than the limit from each other.

    By name, not by column: which was added first must not matter.
    """
    apart = _distances(every)
    kept: list[int] = []
    for row in sorted(range(len(every)), key=lambda one: names[one]):
        if not any(apart[row, other] < limit < np.inf for other in kept):
            kept.append(row)
    return kept


def _distances(every: Floats) -> Floats:
    """Root mean square distances (K, K) of (K, L, d) values; infinite where no place is common to two of them."""
    apart = np.full((len(every), len(every)), np.inf)
    for k, one in enumerate(every):
        squares = np.square(every - one).sum(axis=2)
        both = ~np.isnan(squares)
        mean = np.where(both, squares, 0.0).sum(axis=1) / np.maximum(both.sum(axis=1), 1)
        apart[k, both.any(axis=1)] = np.sqrt(mean[both.any(axis=1)])
    np.fill_diagonal(apart, 0.0)
    return apart


def _filled(every: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Replace undefined values by the weighted median of the defined ones; return the values and the median."""
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
