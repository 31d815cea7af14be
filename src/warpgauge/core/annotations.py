"""Uncertain correspondences ``(x_l, y_l, Sigma_l)``, and ellipses as people draw them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats, as_covariances, as_points, readonly
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning

FEWEST_OF_A_CLUSTER = 5


@dataclass(frozen=True, eq=False)
class Annotations:
    """Annotated correspondences, section III-A of the paper.

    Parameters
    ----------
    fixed_points : (L, d) array
        Queried locations ``x_l`` in the fixed image's world.
    moving_points : (L, d) array
        Expected matches ``y_l`` in the moving image's world.
    covariances : (L, d, d) array
        ``Sigma_l``, symmetric and positive definite, in squared world units.

    Raises
    ------
    InvalidInputError
        When a row is not finite, not symmetric or not positive definite; the message names the row.

    Examples
    --------
    >>> import warpgauge as wg
    >>> wg.Annotations([[1.0, 2.0]], [[1.5, 2.0]], [[[0.5, 0.0], [0.0, 0.2]]])
    <Annotations: 2D, 1 annotation>
    >>> len(wg.Annotations.isotropic([[1.0, 2.0], [3.0, 4.0]], [[1.5, 2.0], [3.5, 4.0]], sd=0.5))
    2
    """

    fixed_points: Floats
    moving_points: Floats
    covariances: Floats

    def __init__(self, fixed_points: ArrayLike, moving_points: ArrayLike, covariances: ArrayLike) -> None:
        fixed = as_points(fixed_points, "fixed_points")
        moving = as_points(moving_points, "moving_points", fixed.shape[1])
        if len(fixed) != len(moving):
            raise InvalidInputError(
                f"Annotations need as many moving as fixed points, got {len(fixed)} fixed and {len(moving)} moving."
            )
        checked = as_covariances(covariances, len(fixed), fixed.shape[1])
        object.__setattr__(self, "fixed_points", readonly(fixed.copy()))
        object.__setattr__(self, "moving_points", readonly(moving.copy()))
        object.__setattr__(self, "covariances", readonly(checked.copy()))

    @classmethod
    def isotropic(cls, fixed_points: ArrayLike, moving_points: ArrayLike, sd: float) -> Annotations:
        """Annotations that all have the same standard deviation ``sd`` in every direction."""
        fixed = as_points(fixed_points, "fixed_points")
        return cls(
            fixed, moving_points, np.broadcast_to(sd**2 * np.eye(fixed.shape[1]), (*fixed.shape, fixed.shape[1]))
        )

    def __repr__(self) -> str:
        return f"<Annotations: {self.d}D, {counted(len(self), 'annotation')}>"

    @classmethod
    def empty(cls, d: int) -> Annotations:
        """No annotations in d dimensions."""
        return cls(np.empty((0, d)), np.empty((0, d)), np.empty((0, d, d)))

    @classmethod
    def concatenate(cls, parts: Iterable[Annotations]) -> Annotations:
        """All annotations of all parts, in order."""
        sets = list(parts)
        if not sets:
            raise InvalidInputError(
                "Annotations.concatenate needs at least one set; for none use Annotations.empty(d)."
            )
        return cls(
            np.concatenate([part.fixed_points for part in sets]),
            np.concatenate([part.moving_points for part in sets]),
            np.concatenate([part.covariances for part in sets]),
        )

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return int(self.fixed_points.shape[1])

    def __len__(self) -> int:
        return len(self.fixed_points)

    def __getitem__(self, rows: slice | ArrayLike) -> Annotations:
        index = rows if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows))
        return Annotations(self.fixed_points[index], self.moving_points[index], self.covariances[index])

    def merged(self, noise: float = 0.0) -> Annotations:
        """Return one annotation per location, itself where no two share one.

        Annotations ``y_l`` of one location with covariances ``N_l`` say exactly what one annotation says whose
        precision ``M^-1 = sum_l N_l^-1`` is the sum of theirs, and that lies at ``M sum_l N_l^-1 y_l``. ``noise`` is a
        variance to be added to each covariance before.
        """
        places, first, spot = np.unique(self.fixed_points, axis=0, return_index=True, return_inverse=True)
        if len(places) == len(self):
            return self
        precisions = np.linalg.inv(self.covariances + noise * np.eye(self.d))
        sums = np.zeros((len(places), self.d, self.d))
        weighted = np.zeros((len(places), self.d))
        np.add.at(sums, spot.reshape(-1), precisions)
        np.add.at(weighted, spot.reshape(-1), np.einsum("lab,lb->la", precisions, self.moving_points))
        order = np.argsort(first)  # as they were given
        covariances = np.linalg.inv(sums)[order]
        moving = np.einsum("lab,lb->la", covariances, weighted[order])
        return Annotations(places[order], moving, (covariances + np.swapaxes(covariances, 1, 2)) / 2)


def confidence_radius(d: int, alpha: float = 0.01) -> float:
    """``gamma``: radius of the 1 - alpha region of a standard d-variate normal, ``F(gamma^2, d) = 1 - alpha``."""
    if not 0 < alpha < 1:
        raise InvalidInputError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return float(np.sqrt(special.chdtri(d, alpha)))


def covariance_from_ellipse(half_lengths: ArrayLike, axes: ArrayLike, alpha: float = 0.01) -> Floats:
    """Covariance whose 1 - alpha region is the given ellipse or ellipsoid, Eq. (covariance_matrix_from_ellipse).

    Half-lengths (d,) or (n, d) of the axes in world units, and their orthonormal directions as **columns**, (d, d) or
    (n, d, d). The true match lies in the ellipse with probability ``1 - alpha``.

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> covariance = wg.covariance_from_ellipse([6.0, 3.0], np.eye(2))  # holds the match with 99 %
    >>> covariance.round(3).tolist()
    [[3.909, 0.0], [0.0, 0.977]]
    """
    lengths = np.asarray(half_lengths, dtype=np.float64)
    V = np.asarray(axes, dtype=np.float64)
    d = lengths.shape[-1] if lengths.ndim else 0
    if d not in (2, 3) or V.shape != (*lengths.shape, d):
        raise InvalidInputError(
            f"An ellipse needs d half-lengths and d x d axes, d = 2 or 3, got shapes {lengths.shape} and {V.shape}."
        )
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise InvalidInputError(f"Half-lengths of an ellipse must be positive and finite, got {lengths.tolist()}.")
    if not np.allclose(np.swapaxes(V, -1, -2) @ V, np.eye(d), atol=1e-6):
        raise InvalidInputError("The axes of an ellipse must be orthonormal columns; normalise them first.")
    scaled = V * (lengths / confidence_radius(d, alpha))[..., None, :]
    return np.asarray(scaled @ np.swapaxes(scaled, -1, -2))


def ellipse_from_covariance(covariance: ArrayLike, alpha: float = 0.01) -> tuple[Floats, Floats]:
    """Half-lengths (longest first) and axes (columns) of the 1 - alpha region: `covariance_from_ellipse` undone.

    Examples
    --------
    >>> import warpgauge as wg
    >>> half_lengths, axes = wg.ellipse_from_covariance([[1.0, 0.0], [0.0, 4.0]])
    >>> half_lengths.round(2).tolist(), abs(axes).tolist()  # the longest axis is y
    ([6.07, 3.03], [[0.0, 1.0], [1.0, 0.0]])
    """
    matrices = np.asarray(covariance, dtype=np.float64)
    if matrices.ndim not in (2, 3) or matrices.shape[-1] not in (2, 3):
        raise InvalidInputError(f"A covariance must be (d, d) or (n, d, d) with d = 2 or 3, got {matrices.shape}.")
    d = matrices.shape[-1]
    checked = as_covariances(matrices.reshape(-1, d, d), matrices.size // d**2, d, "covariance")
    values, vectors = np.linalg.eigh(checked)
    lengths = np.sqrt(values[:, ::-1]) * confidence_radius(d, alpha)
    return lengths.reshape(matrices.shape[:-1]), vectors[:, :, ::-1].reshape(matrices.shape)


def warn_of_one_spot(annotations: Annotations, smallest: float) -> None:
    """Warn where all annotations lie on one spot: however many they are, they say nothing about other places.

    A spot is smaller than ``smallest``, the smallest scale of the model in world units.
    """
    if len(annotations) < FEWEST_OF_A_CLUSTER:
        return
    points = annotations.fixed_points
    radius = float(np.linalg.norm(points - points.mean(axis=0), axis=1).max())
    if radius < smallest:
        warnings.warn(
            f"All {len(points)} annotations lie within {radius:.3g} of {points.mean(axis=0).round(3).tolist()}, closer "
            f"than the smallest scale of the model ({smallest:.3g}): the uncertainty elsewhere is that of the prior, "
            f"so annotate other places.",
            SuspiciousDataWarning,
            stacklevel=3,
        )
