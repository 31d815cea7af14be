"""Fusion of several raters: one uncertain annotation per location from any number of placements (section III-A-2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, Ints
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class FusedPlacements:
    """Result of :func:`warpgauge.fuse_raters`.

    Mean placement (L, d) of each location, covariance (L, d, d) of one placement there, and the number of raters behind
    it (L,); the scatter (d, d) of a placement about its location's mean, pooled over all locations; and what was fused,
    (R, L, d), NaN where a rater did not place a location.
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
        """Each rater's mean offset from the others in an additive model, (R, d)."""
        return self._offsets[0]

    @property
    def bias_se(self) -> Floats:
        """Standard error of each rater's mean offset."""
        return self._offsets[1]

    def __repr__(self) -> str:
        placed = counted(len(self.points), "location")
        by = counted(len(self.raters), "rater")
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
) -> FusedPlacements:
    """Fuse the placements of any number of raters into one mean and covariance for each location.

    Placements are (L, d) points of the moving image's world for each rater, NaN where one did not place a location.
    ``"sample"`` is the paper's Gaussian fit: the sample covariance (divisor n - 1) at each location alone. It is
    singular with d or fewer raters there, and then refused unless ``floor`` is given, the smallest standard deviation,
    in world units, that any direction may have. ``"pooled"`` shrinks it to the covariance pooled over all locations and
    is never singular.

    Examples
    --------
    >>> import warpgauge as wg
    >>> ann = [[10.0, 10.0], [20.0, 20.0]]
    >>> bob = [[10.4, 10.0], [20.0, 20.6]]
    >>> eve = [[10.2, 10.3], [float("nan")] * 2]  # did not place the second
    >>> fused = wg.fuse_raters({"ann": ann, "bob": bob, "eve": eve})
    >>> fused.points.round(1).tolist(), fused.counts.tolist()
    ([[10.2, 10.1], [20.0, 20.3]], [3, 2])
    """
    if method not in ("pooled", "sample"):
        raise InvalidInputError(f'fuse_raters method must be "pooled" or "sample", got {method!r}.')
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
        strength = d + 2.0  # of the pooled covariance against each location's own, in placements
        covariances = _with_floor((scatter + strength * pooled) / (freedom + strength)[:, None, None], floor)
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
