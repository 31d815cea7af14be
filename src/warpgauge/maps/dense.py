"""Maps of a posterior, and of a transform against it: values at points, and over a grid block by block.

Memory is bounded by the block, whatever the grid. Files are in :mod:`warpgauge.maps.map_files`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.parallel import only_one_thread, over_items, over_rows, thread_count
from warpgauge.core.process import Posterior
from warpgauge.core.tails import adjusted_significance, beyond
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.in_memory import as_transform, can_map
from warpgauge.maps.checkpoints import Checkpoint, map_key
from warpgauge.maps.exceedance import exceedance_probability

Progress = Callable[[int, int], None]
PathLike = str | os.PathLike[str]
PointFunction = Callable[[Floats], Floats]

# Points handed to the posterior at a time: its own blocks are smaller, this bounds the coordinates.
POINTS = 1 << 18


def mapping(transform: Any, asked_by: str, d: int) -> Transform:
    """Return what is to be mapped as a `Transform`; refuse what maps no points."""
    if not can_map(transform):
        raise InvalidInputError(f"{asked_by} needs a transform with map or a callable, got {type(transform).__name__}.")
    return as_transform(transform, d=d)


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
        0 for one number per element, else the length of a last axis.
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


_COST = 20  # of a probability, in the units of over_rows


def masked(values: Floats, grid: Grid, missing: Callable[[Floats], Bools] | None) -> Floats:
    """Return the values of a map, NaN where the points of the grid have no match."""
    if missing is None:
        return values
    kept = np.array(values)
    flat = kept.reshape(grid.count, -1)
    for part, points in grid.blocks(POINTS):
        flat[part][missing(points)] = np.nan
    return kept


def value_function(
    kind: str, posterior: Posterior, transform: Transform | None = None, tolerance: float | None = None
) -> Callable[[Floats], Floats]:
    """Return the function that gives a map's values at (n, d) world points.

    Parameters
    ----------
    kind : {"mean", "entropy", "sd", "error", "exceedance", "p"}
        ``mean`` has d values per point, the others one.
    posterior : Posterior
    transform : Transform
        For ``error``, ``exceedance`` and ``p``.
    tolerance : float
        For ``exceedance``, in world units.
    """
    if kind in _OF_POSTERIOR:
        return _OF_POSTERIOR[kind](posterior)
    if transform is None:
        raise InvalidInputError(f"A map of kind {kind!r} needs a transform.")
    if kind == "exceedance":
        if tolerance is None:
            raise InvalidInputError("An exceedance map needs a tolerance, the error that counts in world units.")
        limit, apply = float(tolerance), transform.map
        return lambda points: exceedance_probability(posterior, points, apply(points), limit)
    if kind == "error":
        return _against(posterior, transform, posterior.level_of)
    if kind == "p":
        tails = posterior.prior.tails
        return _against(posterior, transform, lambda squares: beyond(squares, posterior.d, tails))
    raise InvalidInputError(f"There is no map of kind {kind!r} that is made point by point.")


_OF_POSTERIOR: dict[str, Callable[[Posterior], Callable[[Floats], Floats]]] = {
    "mean": lambda posterior: lambda points: posterior.mean(points) - points,
    "entropy": lambda posterior: posterior.entropy,
    "sd": lambda posterior: posterior.standard_deviation,
}


def mean_map(
    posterior: Posterior, grid: Grid, *, progress: Progress | None = None, checkpoint: PathLike | None = None
) -> Floats:
    """Posterior mean **displacement** ``mu_|A(x) - x`` at every element, shape ``(*grid.shape, d)``.

    The components are x, y[, z] in world units. Every map takes ``progress``, called with (finished, all) elements
    after each block, and ``checkpoint``, an ``.npy`` file in which it is kept and continued after an interruption.
    """
    return over_grid(
        "mean",
        posterior,
        grid,
        value_function("mean", posterior),
        components=grid.d,
        progress=progress,
        checkpoint=checkpoint,
    )


def entropy_map(
    posterior: Posterior, grid: Grid, *, progress: Progress | None = None, checkpoint: PathLike | None = None
) -> Floats:
    """Entropy of the true match at every element, in nats, shape ``grid.shape``."""
    return over_grid("entropy", posterior, grid, posterior.entropy, progress=progress, checkpoint=checkpoint)


def standard_deviation_map(
    posterior: Posterior, grid: Grid, *, progress: Progress | None = None, checkpoint: PathLike | None = None
) -> Floats:
    """Posterior standard deviation ``sqrt(tr k / d)`` at every element, in world units, shape ``grid.shape``."""
    return over_grid("sd", posterior, grid, posterior.standard_deviation, progress=progress, checkpoint=checkpoint)


def error_map(
    posterior: Posterior,
    transform: Any,
    grid: Grid,
    *,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Floats:
    """Error score e(x) of a transform at every element, in [0, 1], NaN outside its domain, shape ``grid.shape``."""
    transform = mapping(transform, "error_map", posterior.d)
    value = value_function("error", posterior, transform)
    return over_grid("error", posterior, grid, value, progress=progress, checkpoint=checkpoint, transform=transform)


def exceedance_map(
    posterior: Posterior,
    transform: Any,
    grid: Grid,
    tolerance: float,
    *,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Floats:
    """Probability that a transform's error exceeds ``tolerance`` (world units) at every element.

    Shape ``grid.shape``, NaN outside the transform's domain; see `exceedance_probability` for the method.
    """
    transform = mapping(transform, "exceedance_map", posterior.d)
    value = value_function("exceedance", posterior, transform, tolerance)
    return over_grid(
        "exceedance",
        posterior,
        grid,
        value,
        progress=progress,
        checkpoint=checkpoint,
        transform=transform,
        settings={"tolerance": float(tolerance)},
    )


def p_value_map(
    posterior: Posterior,
    transform: Any,
    grid: Grid,
    *,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Floats:
    """``1 - e(x)`` without cancellation: how probable a deviation at least that large is, were the transform right."""
    transform = mapping(transform, "p_value_map", posterior.d)
    value = value_function("p", posterior, transform)
    return over_grid("p", posterior, grid, value, progress=progress, checkpoint=checkpoint, transform=transform)


def significance_map(
    posterior: Posterior,
    transform: Any,
    grid: Grid,
    *,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Floats:
    """Benjamini-Hochberg-adjusted p-values over the elements at which the transform is defined.

    Elements below q may be called contradicted by the annotations with a share of at most q of false calls expected.
    NaN outside the transform's domain. Needs all elements at once: about three times the memory of the result.
    """
    return adjusted_significance(p_value_map(posterior, transform, grid, progress=progress, checkpoint=checkpoint))


def _against(
    posterior: Posterior, transform: Transform, value: Callable[[Floats], Floats]
) -> Callable[[Floats], Floats]:
    """``value`` of the squared lengths of the transform's deviations where it is defined, NaN elsewhere."""

    def at(points: Floats) -> Floats:
        mapped = transform.map(points)
        defined = defined_rows(mapped)
        if defined.all():
            return _by_rows(value, posterior.squared_lengths(points, mapped))
        result = np.full(len(points), np.nan)
        if defined.any():
            result[defined] = _by_rows(value, posterior.squared_lengths(points[defined], mapped[defined]))
        return result

    return at


def _by_rows(value: Callable[[Floats], Floats], squares: Floats) -> Floats:
    """Replace squared lengths by ``value`` of them, in threads."""

    def work(start: int, stop: int) -> None:
        squares[start:stop] = value(squares[start:stop])

    over_rows(work, len(squares), _COST)
    return squares
