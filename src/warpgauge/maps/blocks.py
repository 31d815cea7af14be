"""Values over a grid, made block by block: memory is bounded by the block, whatever the grid."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms.in_memory import as_transform, is_foreign
from warpgauge.maps.checkpoint import Checkpoint, map_key

Progress = Callable[[int, int], None]
PathLike = str | os.PathLike[str]
PointFunction = Callable[[Floats], Floats]

# Points handed to the posterior at a time: its own blocks are smaller, this bounds the coordinates.
POINTS = 1 << 18


class Maps(Protocol):
    """Anything with ``map(points_world) -> points_world``."""

    def map(self, points_world: Floats) -> Floats:
        """Map (n, d) fixed world points to moving world points, NaN outside the domain."""
        ...


def point_function(transform: Any, asked_by: str) -> PointFunction:
    """Return the function of a transform: its ``map``, the mean of a posterior, or the callable itself."""
    if isinstance(transform, Posterior):
        return transform.mean
    if is_foreign(transform):
        transform = as_transform(transform)
    apply = transform.map if hasattr(transform, "map") else transform
    if not callable(apply):
        raise InvalidInputError(f"{asked_by} needs a transform with map or a callable, got {type(transform).__name__}.")

    def mapped(points: Floats) -> Floats:
        values = np.asarray(apply(points), dtype=np.float64)
        if values.shape != points.shape:
            raise InvalidInputError(
                f"{asked_by} got an array of shape {values.shape} from the transform for points of shape "
                f"{points.shape}; it has to give one moving point for each fixed point."
            )
        return values

    return mapped


def defined_rows(mapped: Floats) -> Bools:
    """Return which mapped points are defined."""
    return np.asarray(np.isfinite(mapped).all(axis=1))


def _points_of(grid: Grid, start: int, stop: int) -> Floats:
    """World points of the elements ``start:stop``, made in threads."""
    points = np.empty((stop - start, grid.d))

    def work(first: int, last: int) -> None:
        points[first:last] = grid.points(start + first, start + last)

    over_rows(work, len(points), grid.d)
    return points


def over_grid(
    kind: str,
    posterior: Posterior,
    grid: Grid,
    value: PointFunction,
    *,
    components: int = 0,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
    transform: Any = None,
    settings: dict[str, Any] | None = None,
) -> Floats:
    """Fill an array on the grid with ``value(points_world)``.

    Parameters
    ----------
    kind : str
        Name of the map, part of a checkpoint's key.
    posterior : Posterior
    grid : Grid
    value : callable
        Gives (n,) or (n, components) numbers at (n, d) points.
    components : int
        0 for one number an element, else the length of a last axis.
    progress : callable, optional
        Called with (finished elements, all elements) after each block.
    checkpoint : path, optional
        An ``.npy`` file in which the map is kept and, after an interruption, continued; the result is then that file
        mapped into memory.
    transform, settings
        What else the checkpoint's key depends on.
    """
    if grid.d != posterior.d:
        raise InvalidInputError(f"A {grid.d}D grid cannot map a {posterior.d}D posterior.")
    shape = (*grid.shape, components) if components else grid.shape
    kept = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, shape, map_key(kind, posterior, grid, transform, **(settings or {})))
    out: Floats = np.empty(shape) if kept is None else kept.array
    flat = out.reshape(grid.count, -1)
    for block, start in enumerate(range(0, grid.count, POINTS)):
        stop = min(start + POINTS, grid.count)
        if kept is None or block not in kept.finished:
            points = _points_of(grid, start, stop)
            flat[start:stop] = value(points).reshape(stop - start, -1)
            if kept is not None:
                kept.finish(block)
        if progress is not None:
            progress(stop, grid.count)
    return out
