"""Regularity of a transform, which needs no landmarks: Jacobian determinants, by central differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_points
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.comparison import mapped
from warpgauge.geometry import Grid
from warpgauge.io.transforms import as_transform, can_map

# Without a grid, the step is this share of the diagonal of the points' bounding box.
_STEP_SHARE = 1e-3


@dataclass(frozen=True)
class Regularity:
    """How regular a transform is over some points, where it is defined; None where no point is left."""

    folding: float | None
    """Share of the points with a Jacobian determinant of at most 0."""
    sd_log_jacobian: float | None
    """Standard deviation of the determinant's natural logarithm; **folded points are left out**, as they have none."""


def jacobian_determinants(transform: Any, points: ArrayLike, step: float) -> Floats:
    """Return Jacobian determinants at (n, d) points by central differences of ``map`` at ``x ± step e_a``.

    NaN where one of the 2 d neighbours lies outside the transform's domain.
    """
    at = as_points(points, "points")
    if not can_map(transform):
        raise InvalidInputError("A Jacobian needs a transform with map or a callable, not an array of mapped points.")
    if not (np.isfinite(step) and step > 0):
        raise InvalidInputError(f"The step of the Jacobian must be a positive number of world units, got {step!r}.")
    n, d = at.shape
    offsets = step * np.eye(d)[:, None]
    neighbours = np.concatenate([at + offsets, at - offsets]).reshape(-1, d)
    values = mapped([as_transform(transform, d=d, name="transform")], neighbours)[0]
    ahead, behind = values.reshape(2, d, n, d)
    columns = ((ahead - behind) / (2 * step)).transpose(1, 2, 0)
    defined = np.isfinite(columns).all(axis=(1, 2))
    determinants = np.full(n, np.nan)
    determinants[defined] = np.linalg.det(columns[defined])
    return determinants


def default_step(points: Floats | Grid) -> float:
    """Smallest spacing of a grid; else a thousandth of the diagonal of the points' bounding box, or 1 for one point."""
    if isinstance(points, Grid):
        return float(points.spacing.min())
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    return _STEP_SHARE * extent if extent > 0 else 1.0


def regularity(transform: Any, points: ArrayLike, step: float | None = None) -> Regularity:
    """Measure folding and the spread of the log Jacobian determinant over (n, d) points.

    ``step`` is half the distance of the central differences, in world units; see :func:`default_step`.
    """
    at = as_points(points, "points")
    if not len(at):
        raise InvalidInputError("Regularity needs at least one point.")
    width = default_step(at) if step is None else float(step)
    determinants = jacobian_determinants(transform, at, width)
    known = determinants[np.isfinite(determinants)]
    logs = np.log(known[known > 0])
    return Regularity(float(np.mean(known <= 0)) if len(known) else None, float(logs.std()) if len(logs) else None)
