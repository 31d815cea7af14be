"""Values over a grid, made block by block: memory is bounded by the block, whatever the grid."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.parallel import only_one_thread, over_items, over_rows, thread_count
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms.base import Transform
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

    # Our transforms only read; what else is called from several threads, one after the other.
    turn = nullcontext() if isinstance(transform, Transform) else threading.Lock()

    def mapped(points: Floats) -> Floats:
        with turn:
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
        Called with (finished elements, all elements) in the caller's thread, after blocks and at the end.
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
    starts = [
        start for block, start in enumerate(range(0, grid.count, POINTS)) if kept is None or block not in kept.finished
    ]
    threads, caller, lock = thread_count(), threading.current_thread(), threading.Lock()
    # Whole blocks side by side where there are enough of them, else the work within each.
    side_by_side = len(starts) >= 2 * threads > 2
    finished = grid.count - sum(min(POINTS, grid.count - start) for start in starts)

    def fill(item: int) -> None:
        nonlocal finished
        start = starts[item]
        stop = min(start + POINTS, grid.count)
        with only_one_thread() if side_by_side else nullcontext():
            flat[start:stop] = value(_points_of(grid, start, stop)).reshape(stop - start, -1)
        with lock:
            if kept is not None:
                kept.finish(start // POINTS)
            finished += stop - start
        # Only the caller's thread reports: what draws the progress may belong to it.
        if progress is not None and threading.current_thread() is caller:
            progress(finished, grid.count)

    over_items(lambda: fill, len(starts), threads if side_by_side else 1)
    if progress is not None and (side_by_side or not starts):
        progress(finished, grid.count)
    return out
