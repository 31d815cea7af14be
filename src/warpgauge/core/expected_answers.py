r"""The probability that a question can be answered.

.. math:: P(\text{answer} \mid x) = P(\phi(x) \in R \mid A) \; f(x)

A question can be answered where its match lies in the visible region ``R`` and people can recognise it. ``R`` is the
moving image, or its foreground, and the probability is the posterior's, Student-t tails included
(:func:`chance_in_box`, :func:`chance_in_region`). ``f`` is learned from answers and skips as a smooth field over the
fixed image (:class:`AnswerField`). How it weighs a suggestion stands in :mod:`warpgauge.core.gains`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.tails import GAUSSIAN, squared_radius

# Nodes of the rules below. The tests hold them against exact probabilities: 0.01 for boxes, 0.09 for regions.
_MIXTURE_NODES = 8
_RADII = 6
_DIRECTIONS_2D = 12


@lru_cache(maxsize=16)
def _mixture(tails: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return square roots of the factors ``w`` of the tails and their weights: Gauss-Laguerre on the gamma variable."""
    if np.isinf(tails):
        return (1.0,), (1.0,)
    # chi^2_nu / 2 is gamma with shape nu / 2; w = (nu - 2) / chi^2_nu.
    nodes, weights = special.roots_genlaguerre(_MIXTURE_NODES, tails / 2 - 1)
    factors = np.sqrt((tails - 2) / (2 * nodes))
    shares = weights / weights.sum()
    return tuple(factors.tolist()), tuple(shares.tolist())


def chance_in_box(mean: Floats, covariance: Floats, low: Floats, high: Floats, tails: float = GAUSSIAN) -> Floats:
    """Return the probability that points with this mean and covariance lie in a box along the axes.

    Directions count as independent given the factor of the tails, which is exact for isotropic noise (with a
    correlation of 0.6 it is off by up to 0.1); the factor is integrated by Gauss quadrature. Means (n, d), covariances
    (n, d, d), ends of the box (d,).
    """
    sd = np.sqrt(np.maximum(np.einsum("naa->na", covariance), np.finfo(float).tiny))
    below = (low - mean) / sd
    above = (high - mean) / sd
    total = np.zeros(len(mean))
    for factor, share in zip(*_mixture(float(tails)), strict=True):
        total += share * np.prod(special.ndtr(above / factor) - special.ndtr(below / factor), axis=1)
    return np.asarray(np.clip(total, 0.0, 1.0))


@lru_cache(maxsize=32)
def _nodes(d: int, tails: float) -> Floats:
    """Return (k, d) standard deviations from the mean of equal probability, balanced about it."""
    radii = [float(np.sqrt(squared_radius((ring + 0.5) / _RADII, d, tails))) for ring in range(_RADII)]
    rings = []
    for ring, radius in enumerate(radii):
        if d == 2:
            angles = 2 * np.pi * (np.arange(_DIRECTIONS_2D) + 0.5 * (ring % 2)) / _DIRECTIONS_2D
            directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        else:
            directions = _dodecahedron() * (-1.0) ** ring
        rings.append(radius * directions)
    nodes = np.concatenate(rings)
    nodes.setflags(write=False)
    return nodes


def _dodecahedron() -> Floats:
    """Return the 20 vertices of a dodecahedron on the unit sphere."""
    golden = (1 + np.sqrt(5)) / 2
    signs = np.array([(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], dtype=np.float64)
    pairs = np.array([(a, b) for a in (-1, 1) for b in (-1, 1)], dtype=np.float64) * [1 / golden, golden]
    planes = [np.insert(pairs, axis, 0.0, axis=1) for axis in range(3)]
    planes[1] = planes[1][:, [2, 1, 0]]
    return np.asarray(np.concatenate([signs, *planes]) / np.sqrt(3))


def chance_in_region(
    mean: Floats, covariance: Floats, contains: Callable[[Floats], Bools], tails: float = GAUSSIAN
) -> Floats:
    """Return the probability that points with this mean and covariance lie in a region of any shape.

    By a fixed rule of equally likely points about the mean: 72 in 2D, 120 in 3D. ``contains`` gives truth values of
    (n, d) points.
    """
    n, d = mean.shape
    nodes = _nodes(d, float(tails))
    factors = np.linalg.cholesky(covariance)
    total = np.zeros(n)
    for node in nodes:
        total += contains(mean + factors @ node)
    return np.asarray(total / len(nodes))


@dataclass(frozen=True, eq=False)
class AnswerField:
    r"""Share of questions that people can answer, smoothed over the fixed image.

    .. math:: f(x) = \frac{1 + \sum_a K_a(x)}{1 + \sum_a K_a(x) + w \sum_s K_s(x)}, \quad
              K_i(x) = \exp(-\lVert x - x_i\rVert^2 / 2 h_i^2)

    over answers a and skips s, each with its reach h: the mean of a Beta distribution whose prior counts one answer
    everywhere. It is 1 where nothing is known. The weight w says how many answers at the same place make up for a skip.
    """

    points: Floats
    skipped: Bools
    reaches: Floats
    weight: float = 1.0

    def at(self, points: Floats) -> Floats:
        """Return the field at (n, d) points, in (0, 1]."""
        nearness = np.exp(-0.5 * np.square(cdist(points, self.points) / self.reaches))
        answers = 1 + nearness[:, ~self.skipped].sum(axis=1)
        return np.asarray(answers / (answers + self.weight * nearness[:, self.skipped].sum(axis=1)))
