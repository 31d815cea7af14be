"""Dense maps over a grid, made block by block: memory is bounded by the block, whatever the grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.core.scoring import error_score
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid

Progress = Callable[[int, int], None]

# Points handed to the posterior at a time: its own blocks are smaller, this bounds the coordinates.
_POINTS = 1 << 18


class Maps(Protocol):
    """Anything with ``map(points_world) -> points_world``."""

    def map(self, points_world: Floats) -> Floats:
        """Map (n, d) fixed world points to moving world points, NaN outside the domain."""
        ...


def _over_grid(
    posterior: Posterior, grid: Grid, out: Floats, value: Callable[[Floats], Floats], progress: Progress | None
) -> Floats:
    if grid.d != posterior.d:
        raise InvalidInputError(f"A {grid.d}D grid cannot map a {posterior.d}D posterior.")
    flat = out.reshape(grid.count, -1)
    for rows, points in grid.blocks(_POINTS):
        flat[rows] = value(points).reshape(len(points), -1)
        if progress is not None:
            progress(rows.stop, grid.count)
    return out


def mean_map(posterior: Posterior, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Posterior mean **displacement** ``mu_|A(x) - x`` at every element, (*grid.shape, d), components x, y[, z]."""
    out = np.empty((*grid.shape, grid.d))
    return _over_grid(posterior, grid, out, lambda points: posterior.mean(points) - points, progress)


def entropy_map(posterior: Posterior, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Entropy of the true match at every element, in nats, shape ``grid.shape``."""
    return _over_grid(posterior, grid, np.empty(grid.shape), posterior.entropy, progress)


def standard_deviation_map(posterior: Posterior, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Posterior standard deviation ``sqrt(tr k / d)`` at every element, in world units, shape ``grid.shape``."""
    return _over_grid(posterior, grid, np.empty(grid.shape), posterior.standard_deviation, progress)


def error_map(posterior: Posterior, transform: Maps, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Error score e(x) of a transform at every element, in [0, 1], NaN outside its domain, shape ``grid.shape``."""
    apply = transform.map if hasattr(transform, "map") else transform
    if not callable(apply):
        raise InvalidInputError(f"error_map needs a transform with map or a callable, got {type(transform).__name__}.")

    def value(points: Floats) -> Floats:
        mapped = np.asarray(apply(points), dtype=np.float64)
        scores = np.full(len(points), np.nan)
        defined: NDArray[np.bool_] = np.asarray(~np.isnan(mapped).any(axis=1))
        if defined.any():
            scores[defined] = error_score(posterior, points[defined], mapped[defined])
        return scores

    return _over_grid(posterior, grid, np.empty(grid.shape), value, progress)
