r"""What to expect of an answer: the probability that a question can be answered, and the noise of the annotation.

.. math:: P(\text{answer} \mid x) = P(\phi(x) \in R \mid A) \; f(x)

A question can be answered where its match lies in the visible region ``R`` and people can recognise it. ``R`` is the
moving image, or its foreground, and the probability is the posterior's, Student-t tails included
(:func:`chance_in_box`, :func:`chance_in_region`). ``f`` is learned from answers and skips as a smooth field over the
fixed image (:class:`AnswerField`). How it weighs a suggestion stands in :mod:`warpgauge.core.strategies`.

The noise is learned from the ellipses drawn so far and the local image structure
(:func:`~warpgauge.core.fit_noise_model`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.spatial.distance import cdist

from warpgauge.core.arrays import Bools, Floats, as_covariances
from warpgauge.core.tails import GAUSSIAN, squared_radius
from warpgauge.errors import InvalidInputError

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
    correlation of 0.6 it is off by up to 0.1); the factor is integrated by Gauss quadrature.

    Parameters
    ----------
    mean : (n, d) array
    covariance : (n, d, d) array
    low, high : (d,) arrays
    tails : float
        Degrees of freedom of Student-t deviations with this covariance; infinite for a Gaussian.
    """
    sd = np.sqrt(np.maximum(np.einsum("naa->na", covariance), np.finfo(float).tiny))
    below, above = (low - mean) / sd, (high - mean) / sd
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

    By a fixed rule of equally likely points about the mean: 72 in 2D, 120 in 3D.

    Parameters
    ----------
    mean : (n, d) array
    covariance : (n, d, d) array
    contains : callable
        From (m, d) points to (m,) truth values.
    tails : float
        As for :func:`chance_in_box`.
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
    everywhere. It is 1 where nothing is known.

    Parameters
    ----------
    points : (m, d) array
        Where questions were answered or skipped.
    skipped : (m,) bool array
    reaches : (m,) array
        How far each speaks for its neighbourhood, world units.
    weight : float
        How many answers at the same place make up for a skip.
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


# Standard deviations of the prior of the two coefficients: a factor of e^2 either way in the variance, and half a
# power of the structure tensor (the power of an ideal observer, the inverse tensor, lies at two of them).
_LEVEL_SD, _POWER_SD = 2.0, 0.5
# Scatter of the logarithm of an eigenvalue about the model: that of the paper's user on the CIMA set.
_SCATTER = 0.83
# Share of the mean eigenvalue that is added to all, so that a flat direction has a finite, large variance.
_FLOOR = 1e-3


@dataclass(frozen=True, eq=False)
class NoiseModel:
    r"""Expected covariance of an annotation where the structure tensor of the image is S.

    .. math:: \log \Sigma = \alpha I + \beta \log (S / s_0)

    with matrix logarithms, so that an ellipse has the axes of the tensor, and :math:`\beta < 0` where people place
    better across edges than along them. Before any annotation :math:`\beta = 0`: the default ellipse everywhere.

    Attributes
    ----------
    level : float
        :math:`\alpha`, the logarithm of the variance where the tensor is typical.
    power : float
        :math:`\beta`.
    typical : float
        :math:`s_0`, the geometric mean of the candidates' eigenvalues.
    floor : float
        Added to all eigenvalues.
    """

    level: float
    power: float
    typical: float
    floor: float

    def predict(self, tensors: ArrayLike) -> Floats:
        """Return the expected covariances, (n, d, d): geometric means, as the model is of logarithms."""
        values, vectors = _eigen(_checked(tensors), self.floor)
        variances = np.exp(self.level + self.power * np.log(values / self.typical))
        return np.asarray((vectors * variances[:, None, :]) @ vectors.transpose(0, 2, 1))


def fit_noise_model(
    candidate_tensors: ArrayLike,
    default_covariance: ArrayLike,
    tensors: ArrayLike | None = None,
    covariances: ArrayLike | None = None,
) -> NoiseModel:
    """Learn what is expected of an annotation from the annotations so far, by Bayesian linear regression.

    The diagonal of ``log Sigma_l`` in the axes of the tensor there is regressed on the logarithms of the tensor's
    eigenvalues; the coefficients' Gaussian prior has the default ellipse as its mean. O(L d^3).

    Parameters
    ----------
    candidate_tensors : (n, d, d) array
        Structure tensors of all candidates (:func:`warpgauge.candidates.structure_tensors`): what is typical.
    default_covariance : (d, d) array
        Expected before any annotation.
    tensors, covariances : (L, d, d) arrays, optional
        Structure tensors where annotations are, and the annotations' own covariances.
    """
    everywhere = _checked(candidate_tensors)
    d = everywhere.shape[-1]
    default = as_covariances(np.asarray(default_covariance)[None], 1, d, "default_covariance")[0]
    floor = _FLOOR * float(np.trace(everywhere, axis1=1, axis2=2).mean()) / d
    if not floor > 0:
        raise InvalidInputError("The structure tensors of the candidates are all zero: the image is flat there.")
    typical = float(np.exp(np.log(_eigen(everywhere, floor)[0]).mean()))
    mean = np.array([np.linalg.slogdet(default)[1] / d, 0.0])
    precision = np.diag([1 / _LEVEL_SD**2, 1 / _POWER_SD**2])
    right = precision @ mean
    if tensors is not None and covariances is not None and len(np.asarray(tensors)):
        values, vectors = _eigen(_checked(tensors), floor)
        stated = as_covariances(covariances, len(values), d)
        powers, axes = np.linalg.eigh(stated)
        overlaps = np.square(np.einsum("nai,naj->nij", vectors, axes))
        answers = np.einsum("nij,nj->ni", overlaps, np.log(powers)).reshape(-1)
        design = np.stack([np.ones(values.size), np.log(values / typical).reshape(-1)], axis=1)
        precision = precision + design.T @ design / _SCATTER**2
        right = right + design.T @ answers / _SCATTER**2
    level, power = np.linalg.solve(precision, right)
    return NoiseModel(float(level), float(power), typical, floor)


def _checked(tensors: ArrayLike) -> Floats:
    array = np.asarray(tensors, dtype=np.float64)
    if array.ndim != 3 or array.shape[1:] not in ((2, 2), (3, 3)) or not np.isfinite(array).all():
        raise InvalidInputError(f"Structure tensors must be finite, of shape (n, d, d); got shape {array.shape}.")
    return array


def _eigen(tensors: Floats, floor: float) -> tuple[Floats, Floats]:
    """Eigenvalues, the floor added, and eigenvectors; a structure tensor has none below zero but for rounding."""
    values, vectors = np.linalg.eigh(tensors)
    return np.maximum(values, 0.0) + floor, vectors
