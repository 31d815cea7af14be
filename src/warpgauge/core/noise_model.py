"""The noise to expect of an annotation: learned from the ellipses drawn so far and the local image structure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_covariances
from warpgauge.errors import InvalidInputError

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
