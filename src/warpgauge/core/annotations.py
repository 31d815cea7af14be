"""Uncertain correspondences ``(x_l, y_l, Sigma_l)``, ellipses as people draw them, and the fusion of several raters.

Fusion makes one uncertain annotation per location from the placements of any number of raters (section III-A-2).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats, Ints, as_covariances, as_points, readonly
from warpgauge.display import counted, html_table, landmark_rows, landmark_title
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

    def _repr_html_(self) -> str:
        return html_table(
            *landmark_rows(self.fixed_points, self.moving_points, self.covariances), landmark_title(len(self))
        )

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
        index: slice | Floats
        index = rows if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows))
        return Annotations(self.fixed_points[index], self.moving_points[index], self.covariances[index])

    def without(self, row: int) -> Annotations:
        """All annotations but one: the ``A^(l)`` of the leave-one-out loss."""
        if not -len(self) <= row < len(self):
            raise InvalidInputError(f"There is no annotation {row} to leave out; there are {len(self)}.")
        return self[np.arange(len(self)) != row % len(self)]


def confidence_radius(d: int, alpha: float = 0.01) -> float:
    """``gamma``: radius of the 1 - alpha region of a standard d-variate normal, ``F(gamma^2, d) = 1 - alpha``."""
    if not 0 < alpha < 1:
        raise InvalidInputError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return float(np.sqrt(special.chdtri(d, alpha)))


def covariance_from_ellipse(half_lengths: ArrayLike, axes: ArrayLike, alpha: float = 0.01) -> Floats:
    """Covariance whose 1 - alpha region is the given ellipse or ellipsoid, Eq. (covariance_matrix_from_ellipse).

    Parameters
    ----------
    half_lengths : (d,) or (n, d) array
        Half-lengths ``r_i`` of the axes, positive, in world units.
    axes : (d, d) or (n, d, d) array
        Orthonormal directions ``v_i`` as **columns**.
    alpha : float
        The true match lies in the ellipse with probability ``1 - alpha``.

    Returns
    -------
    (d, d) or (n, d, d) array
    """
    lengths, V = np.asarray(half_lengths, dtype=np.float64), np.asarray(axes, dtype=np.float64)
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
    """Half-lengths (longest first) and axes (columns) of the 1 - alpha region, the inverse of the above."""
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

    Parameters
    ----------
    annotations : Annotations
    smallest : float
        Smallest scale of the model in world units; a spot is smaller than this.
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


@dataclass(frozen=True, eq=False)
class FusedPlacements:
    """Result of :func:`warpgauge.fuse_raters`.

    Attributes
    ----------
    points : (L, d) array
        Mean placement of each location.
    covariances : (L, d, d) array
        Covariance of one placement there (or of the mean placement, when that was asked for).
    counts : (L,) array
        Raters who stood behind each location.
    pooled_covariance : (d, d) array
        Scatter of a single placement about its location's mean, pooled over all locations.
    raters : tuple of str
        Names, in the order of ``bias``.
    bias, bias_se : (R, d) arrays
        Each rater's mean offset from the others in an additive model, and its standard error.
    method : str
        ``"pooled"`` or ``"sample"``.
    placements : (R, L, d) array
        What was fused, NaN where a rater did not place a location.
    """

    points: Floats
    covariances: Floats
    counts: Ints
    pooled_covariance: Floats
    raters: tuple[str, ...]
    method: str
    placements: Floats

    @cached_property
    def _offsets(self) -> tuple[Floats, Floats]:
        # Costs the cube of the number of raters, and is asked for far less often than the points.
        return _bias(self.placements, (~np.isnan(self.placements[:, :, 0])).astype(np.float64))

    @property
    def bias(self) -> Floats:
        """Each rater's mean offset from the others."""
        return self._offsets[0]

    @property
    def bias_se(self) -> Floats:
        """Standard error of each rater's mean offset."""
        return self._offsets[1]

    def __repr__(self) -> str:
        placed, by = counted(len(self.points), "location"), counted(len(self.raters), "rater")
        return f"<FusedPlacements: {placed}, {by}, covariances {self.method}>"


def _stack(points_by_rater: Any) -> tuple[Floats, tuple[str, ...]]:
    """Placements as (R, L, d) with NaN rows where missing, and the raters' names."""
    if isinstance(points_by_rater, Mapping):
        names = tuple(str(name) for name in points_by_rater)
        parts: Sequence[ArrayLike] = list(points_by_rater.values())
    else:
        parts = list(points_by_rater)
        names = tuple(f"rater {k + 1}" for k in range(len(parts)))
    arrays = [np.asarray(part, dtype=np.float64) for part in parts]
    shapes = {array.shape for array in arrays}
    if not arrays or len(shapes) != 1 or arrays[0].ndim != 2 or arrays[0].shape[1] not in (2, 3):
        raise InvalidInputError(
            "fuse_raters needs for each rater an (L, d) array of the same shape, NaN where a location was not placed; "
            f"got shapes {sorted(shapes)}."
        )
    placements = np.stack(arrays)
    missing = np.isnan(placements)
    partly = missing.any(axis=2) & ~missing.all(axis=2)
    if partly.any() or np.isinf(placements).any():
        rater, location = np.argwhere(partly | np.isinf(placements).any(axis=2))[0]
        raise InvalidInputError(
            f"Placement of location {location} by {names[rater]} is neither finite nor wholly missing: "
            f"{placements[rater, location].tolist()}."
        )
    empty = missing[:, :, 0].all(axis=0)
    if empty.any():
        raise InvalidInputError(f"Location {int(np.argmax(empty))} was placed by nobody; leave it out.")
    return placements, names


def _bias(placements: Floats, present: Floats) -> tuple[Floats, Floats]:
    """Least-squares offsets b_r of ``y_rl = m_l + b_r + e`` with ``sum_r b_r = 0``, and their standard errors."""
    raters, locations, d = placements.shape
    counts = present.sum(axis=0)
    filled = np.where(present[:, :, None] > 0, placements, 0.0)
    centred = np.where(present[:, :, None] > 0, placements - filled.sum(axis=0) / counts[:, None], 0.0)
    # Normal equations after the location means are projected out; the constraint is the null space of ones.
    normal = np.diag(present.sum(axis=1)) - (present / counts) @ present.T
    inverse = np.linalg.pinv(normal, hermitian=True)
    bias = inverse @ centred.sum(axis=1)
    # Location means of the remainder are projected out once more, as y - b has its own means.
    remainder = np.where(present[:, :, None] > 0, filled - bias[:, None, :], 0.0)
    residual = np.where(present[:, :, None] > 0, remainder - remainder.sum(axis=0) / counts[:, None], 0.0)
    freedom = present.sum() - locations - np.linalg.matrix_rank(normal, hermitian=True)
    if freedom <= 0:
        return bias, np.full((raters, d), np.nan)
    variance = np.square(residual).sum(axis=(0, 1)) / freedom
    return bias, np.sqrt(np.outer(np.clip(np.diag(inverse), 0, None), variance))


def _with_floor(covariances: Floats, floor: float | None) -> Floats:
    """Raise every standard deviation below ``floor`` to it."""
    if floor is None:
        return covariances
    if not floor > 0:
        raise InvalidInputError(f"fuse_raters floor must be a positive standard deviation, got {floor!r}.")
    values, vectors = np.linalg.eigh(covariances)
    return np.asarray((vectors * np.maximum(values, floor**2)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def _pool(scatter: Floats, freedom: int, floor: float | None) -> Floats:
    """Pooled covariance, drawn to a multiple of the identity by one observation's weight so that it has full rank."""
    d = scatter.shape[-1]
    total = scatter.sum(axis=0)
    mean_variance = np.trace(total) / (d * max(freedom, 1))
    if mean_variance <= 0 and floor is None:
        raise InvalidInputError(
            "The raters never disagree (or no location has two of them), so their placements say nothing about the "
            "uncertainty; give fuse_raters a floor, the smallest standard deviation you believe in."
        )
    return np.asarray((total + mean_variance * np.eye(d)) / (freedom + 1))


def fuse_raters(
    points_by_rater: Mapping[str, ArrayLike] | Sequence[ArrayLike] | Floats,
    method: Literal["pooled", "sample"] = "pooled",
    *,
    floor: float | None = None,
    prior_strength: float | None = None,
    covariance_of: Literal["placement", "mean"] = "placement",
) -> FusedPlacements:
    """Fuse the placements of any number of raters into one mean and covariance for each location.

    Parameters
    ----------
    points_by_rater : (R, L, d) array, or a mapping or sequence of (L, d) arrays
        Placements in the moving image's world; a row of NaN where a rater did not place a location.
    method : {"pooled", "sample"}
        ``"sample"`` is the paper's Gaussian fit: the sample covariance (divisor n - 1) at each location alone. It is
        singular with d or fewer raters there, and then refused unless ``floor`` is given. ``"pooled"`` shrinks it to
        the covariance pooled over all locations and is never singular.
    floor : float, optional
        Smallest standard deviation, in world units, that any direction of any covariance may have.
    prior_strength : float, optional
        Weight of the pooled covariance against each location's own, in placements; d + 2 by default.
    covariance_of : {"placement", "mean"}
        The paper uses the scatter of one placement; ``"mean"`` divides by the number of raters.

    Returns
    -------
    FusedPlacements
    """
    if method not in ("pooled", "sample"):
        raise InvalidInputError(f'fuse_raters method must be "pooled" or "sample", got {method!r}.')
    if covariance_of not in ("placement", "mean"):
        raise InvalidInputError(f'fuse_raters covariance_of must be "placement" or "mean", got {covariance_of!r}.')
    placements, names = _stack(points_by_rater)
    d = placements.shape[2]
    present = (~np.isnan(placements[:, :, 0])).astype(np.float64)
    counts = present.sum(axis=0).astype(np.int64)
    points = np.nansum(placements, axis=0) / counts[:, None]
    offsets = np.where(present[:, :, None] > 0, placements - points, 0.0)
    scatter = np.einsum("rla,rlb->lab", offsets, offsets)
    freedom = counts - 1
    pooled = _with_floor(_pool(scatter, int(freedom.sum()), floor), floor)
    if method == "sample":
        covariances = _sample_covariances(scatter, counts, floor)
    else:
        strength = d + 2.0 if prior_strength is None else float(prior_strength)
        if not strength > 0:
            raise InvalidInputError(f"fuse_raters prior_strength must be positive, got {prior_strength!r}.")
        covariances = _with_floor((scatter + strength * pooled) / (freedom + strength)[:, None, None], floor)
    if covariance_of == "mean":
        covariances = covariances / counts[:, None, None]
    return FusedPlacements(points, covariances, counts, pooled, names, method, placements)


def _sample_covariances(scatter: Floats, counts: Ints, floor: float | None) -> Floats:
    d = scatter.shape[-1]
    if floor is None and (counts <= d).any():
        location = int(np.argmax(counts <= d))
        raise InvalidInputError(
            f'fuse_raters method "sample" would give a singular covariance at location {location}, where '
            f'{counts[location]} raters stand against {d} dimensions; use method "pooled" or give a floor.'
        )
    sample = _with_floor(scatter / np.maximum(counts - 1, 1)[:, None, None], floor)
    smallest = np.linalg.eigvalsh(sample)[:, 0]
    if not (smallest > 0).all():
        raise InvalidInputError(
            f'fuse_raters method "sample" gives a singular covariance at location {int(np.argmin(smallest))}: its '
            'placements lie on a line or plane; use method "pooled" or give a floor.'
        )
    return sample
