"""Maps of a posterior, and of a transform against it: values over a grid, block by block.

Memory is bounded by the block, whatever the grid. Every map takes ``progress``, called with (finished, all) elements
after each block. Files are in :mod:`warpgauge.maps.map_files`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior
from warpgauge.core.tails import adjusted_significance, beyond
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import Transform, as_transform, can_map
from warpgauge.maps.exceedance import exceedance_probability

Progress = Callable[[int, int], None]

# Points handed to the posterior at a time: its own blocks are smaller, this bounds the coordinates.
POINTS = 1 << 18
_COST = 20  # of a probability, in the units of over_rows


def mapping(transform: Any, asked_by: str, d: int) -> Transform:
    """Return what is to be mapped as a `Transform`; refuse what maps no points."""
    if not can_map(transform):
        raise InvalidInputError(f"{asked_by} needs a transform with map or a callable, got {type(transform).__name__}.")
    return as_transform(transform, d=d)


def defined_rows(mapped: Floats) -> Bools:
    """Return which mapped points are defined."""
    return np.asarray(np.isfinite(mapped).all(axis=1))


def masked(values: Floats, grid: Grid, missing: Callable[[Floats], Bools] | None) -> Floats:
    """Return the values of a map, NaN where the points of the grid have no match."""
    if missing is None:
        return values
    copy = np.array(values)
    rows_of_copy = copy.reshape(grid.count, -1)
    for rows, points in grid.blocks(POINTS):
        rows_of_copy[rows][missing(points)] = np.nan
    return copy


def mean_map(posterior: Posterior, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Posterior mean **displacement** ``mu_|A(x) - x`` at every element, shape ``(*grid.shape, d)``.

    The components are x, y[, z] in world units.

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[20.0], weights=[4.0]))
    >>> posterior = prior.condition(wg.Annotations.isotropic([[5.0, 5.0]], [[6.0, 5.0]], sd=0.1))
    >>> displacement = wg.mean_map(posterior, wg.Grid((60, 10)))
    >>> displacement.shape, displacement[5, 5].round(2).tolist(), displacement[5, 50].tolist()
    ((10, 60, 2), [1.0, 0.0], [0.0, 0.0])
    """

    def displacement(points: Floats) -> Floats:
        return posterior.mean(points) - points

    return _over_grid(posterior, grid, displacement, progress)


def entropy_map(posterior: Posterior, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Entropy of the true match at every element, in nats, shape ``grid.shape``.

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[20.0], weights=[4.0]))
    >>> posterior = prior.condition(wg.Annotations.isotropic([[5.0, 5.0]], [[6.0, 5.0]], sd=0.1))
    >>> entropy = wg.entropy_map(posterior, wg.Grid((60, 10)))
    >>> entropy[5, [5, 50]].round(2).tolist()  # at the annotation, and far from it
    [-1.77, 4.22]
    """
    return _over_grid(posterior, grid, posterior.entropy, progress)


def standard_deviation_map(posterior: Posterior, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Posterior standard deviation ``sqrt(tr k / d)`` at every element, in world units, shape ``grid.shape``."""
    return _over_grid(posterior, grid, posterior.standard_deviation, progress)


def error_map(posterior: Posterior, transform: Any, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Error score e(x) of a transform at every element, in [0, 1], NaN outside its domain, shape ``grid.shape``.

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[20.0], weights=[4.0]))
    >>> posterior = prior.condition(wg.Annotations.isotropic([[5.0, 5.0]], [[6.0, 5.0]], sd=0.5))
    >>> error = wg.error_map(posterior, lambda points: points + [1.0, 0.0], wg.Grid((20, 10)))
    >>> error.shape, float(error[5, 5])
    ((10, 20), 0.0...)
    """
    transform = mapping(transform, "error_map", posterior.d)
    return _over_grid(posterior, grid, _against(posterior, transform, posterior.level_of), progress)


def exceedance_map(
    posterior: Posterior, transform: Any, grid: Grid, tolerance: float, *, progress: Progress | None = None
) -> Floats:
    """Probability that a transform's error exceeds ``tolerance`` (world units) at every element.

    Shape ``grid.shape``, NaN outside the transform's domain; see `exceedance_probability` for the method.
    """
    transform = mapping(transform, "exceedance_map", posterior.d)

    def probability(points: Floats) -> Floats:
        return exceedance_probability(posterior, points, transform.map(points), tolerance)

    return _over_grid(posterior, grid, probability, progress)


def significance_map(posterior: Posterior, transform: Any, grid: Grid, *, progress: Progress | None = None) -> Floats:
    """Benjamini-Hochberg-adjusted p-values (``1 - e(x)``) over the elements at which the transform is defined.

    Elements below q may be called contradicted by the annotations with a share of at most q of false calls expected.
    NaN outside the transform's domain. Needs all elements at once: about three times the memory of the result.
    """
    transform = mapping(transform, "significance_map", posterior.d)

    def p_value(squares: Floats) -> Floats:
        return beyond(squares, posterior.d, posterior.prior.tails)

    return adjusted_significance(_over_grid(posterior, grid, _against(posterior, transform, p_value), progress))


def _over_grid(
    posterior: Posterior, grid: Grid, value: Callable[[Floats], Floats], progress: Progress | None
) -> Floats:
    """Put ``value(points_world)``, (n,) or (n, d) numbers at (n, d) points, into an array on the grid."""
    if grid.d != posterior.d:
        raise InvalidInputError(f"A {grid.d}D grid cannot map a {posterior.d}D posterior.")
    values = np.empty(0)
    for rows, points in grid.blocks(POINTS):
        block = value(points)
        if rows.start == 0:
            values = np.empty((grid.count, *block.shape[1:]))
        values[rows] = block
        if progress is not None:
            progress(rows.stop, grid.count)
    return values.reshape(*grid.shape, *values.shape[1:])


def _against(
    posterior: Posterior, transform: Transform, value: Callable[[Floats], Floats]
) -> Callable[[Floats], Floats]:
    """``value`` of the squared lengths of the transform's deviations where it is defined, NaN elsewhere."""

    def at(points: Floats) -> Floats:
        mapped = transform.map(points)
        defined = defined_rows(mapped)
        squares = posterior.squared_lengths(points[defined], mapped[defined])

        def work(start: int, stop: int) -> None:
            squares[start:stop] = value(squares[start:stop])

        over_rows(work, len(squares), _COST)
        values = np.full(len(points), np.nan)
        values[defined] = squares
        return values

    return at
