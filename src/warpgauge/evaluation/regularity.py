"""Regularity of a transform, which needs no landmarks: Jacobian determinants, by central differences.

It stands beside the landmark verdict; there is no uncertainty here. Definitions and their checks are in
``docs/evaluation.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_points
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import as_transform, can_map

_JACOBIAN_BLOCK = 1 << 16
# Without a grid, the step is this share of the diagonal of the points' bounding box.
_STEP_SHARE = 1e-3


@dataclass(frozen=True)
class Regularity:
    """How regular a transform is over some points.

    Attributes
    ----------
    folding : float or None
        Share of the points with a Jacobian determinant of at most 0, among those where it is defined; None where it is
        defined nowhere.
    sd_log_jacobian : float or None
        Standard deviation of the natural logarithm of the determinant. **Folded points are left out of it**, since they
        have no logarithm; read it together with ``folding``. None where no point is left.
    mean_log_jacobian : float or None
        Its mean; 0 keeps volumes.
    smallest, largest : float or None
        Extreme determinants, folded ones included.
    points, undefined : int
        Points asked, and those among them at which some neighbour lies outside the transform's domain.
    step : float
        Half the distance between the two points of each difference, in world units.
    """

    folding: float | None
    sd_log_jacobian: float | None
    mean_log_jacobian: float | None
    smallest: float | None
    largest: float | None
    points: int
    undefined: int
    step: float


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
    neighbours = np.concatenate([at + offsets, at - offsets]).reshape(-1, d)  # all of them in one call
    ahead, behind = as_transform(transform, d=d, name="transform").map(neighbours).reshape(2, d, n, d)
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


def regularity(transform: Any, points: ArrayLike | Grid, *, mask: Any = None, step: float | None = None) -> Regularity:
    """Measure folding and the spread of the log Jacobian determinant over points.

    Parameters
    ----------
    transform : object with ``map``, or callable
    points : (n, d) array or Grid
        Where; all elements of a grid, or those of its mask.
    mask : array on the grid, optional
        Not zero where it counts.
    step : float, optional
        Half the distance of the central differences, in world units; see :func:`default_step`.
    """
    chosen = default_step(points if isinstance(points, Grid) else as_points(points, "points")) if step is None else step
    total = undefined = folded = count = 0
    mean = squares = 0.0
    smallest, largest = np.inf, -np.inf
    for block in _blocks(points, mask):
        determinants = jacobian_determinants(transform, block, chosen)
        known = determinants[np.isfinite(determinants)]
        total, undefined = total + len(block), undefined + len(block) - len(known)
        if len(known) == 0:
            continue
        smallest, largest = min(smallest, float(known.min())), max(largest, float(known.max()))
        folded += int(np.sum(known <= 0))
        logs = np.log(known[known > 0])
        if len(logs):
            # Blocks are merged by their means and sums of squares about them, so that nothing cancels.
            shift, grown = float(logs.mean()) - mean, count + len(logs)
            squares += float(np.sum(np.square(logs - logs.mean()))) + shift**2 * count * len(logs) / grown
            mean, count = mean + shift * len(logs) / grown, grown
    if total == 0:
        raise InvalidInputError("Regularity needs at least one point; the mask is empty.")
    known_count = total - undefined
    return Regularity(
        folding=folded / known_count if known_count else None,
        sd_log_jacobian=float(np.sqrt(squares / count)) if count else None,
        mean_log_jacobian=mean if count else None,
        smallest=smallest if known_count else None,
        largest=largest if known_count else None,
        points=total,
        undefined=undefined,
        step=float(chosen),
    )


def _blocks(points: ArrayLike | Grid, mask: Any) -> Iterator[Floats]:
    if not isinstance(points, Grid):
        if mask is not None:
            raise InvalidInputError("A mask needs the Grid that it lies on; pass the Grid as points.")
        at = as_points(points, "points")
        for start in range(0, len(at), _JACOBIAN_BLOCK):
            yield at[start : start + _JACOBIAN_BLOCK]
        return
    inside = None if mask is None else np.asarray(mask)
    if inside is not None and inside.shape != points.shape:
        raise InvalidInputError(f"The mask must have the grid's shape {points.shape}, got {inside.shape}.")
    flat = None if inside is None else inside.reshape(-1) != 0
    for rows, block in points.blocks(_JACOBIAN_BLOCK):
        yield block if flat is None else block[flat[rows]]
