"""The maps of a posterior, and of a transform against it: their values at points, and over a whole grid in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior
from warpgauge.core.tails import adjusted_significance, beyond
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.maps.blocks import Maps, PathLike, Progress, defined_rows, over_grid, point_function
from warpgauge.maps.exceedance import exceedance_probability

_COST = 20  # of a probability, in the units of over_rows

_Transform = Maps | Callable[[Floats], Floats] | Posterior


def value_function(
    kind: str, posterior: Posterior, transform: Any = None, tolerance: float | None = None
) -> Callable[[Floats], Floats]:
    """Return the function that gives a map's values at (n, d) world points.

    Parameters
    ----------
    kind : {"mean", "entropy", "sd", "error", "exceedance", "p"}
        ``mean`` has d values per point, the others one.
    posterior : Posterior
    transform : transform or callable
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
        limit, apply = float(tolerance), point_function(transform, "exceedance_map")
        return lambda points: exceedance_probability(posterior, points, apply(points), limit)
    if kind == "error":
        return _against(posterior, transform, "error_map", posterior.level_of)
    if kind == "p":
        tails = posterior.prior.tails
        return _against(posterior, transform, "p_value_map", lambda squares: beyond(squares, posterior.d, tails))
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
    transform: _Transform,
    grid: Grid,
    *,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Floats:
    """Error score e(x) of a transform at every element, in [0, 1], NaN outside its domain, shape ``grid.shape``."""
    value = value_function("error", posterior, transform)
    return over_grid("error", posterior, grid, value, progress=progress, checkpoint=checkpoint, transform=transform)


def exceedance_map(
    posterior: Posterior,
    transform: _Transform,
    grid: Grid,
    tolerance: float,
    *,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Floats:
    """Probability that a transform's error exceeds ``tolerance`` (world units) at every element.

    Shape ``grid.shape``, NaN outside the transform's domain; see `exceedance_probability` for the method.
    """
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
    transform: _Transform,
    grid: Grid,
    *,
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Floats:
    """``1 - e(x)`` without cancellation: how probable a deviation at least that large is, were the transform right."""
    value = value_function("p", posterior, transform)
    return over_grid("p", posterior, grid, value, progress=progress, checkpoint=checkpoint, transform=transform)


def significance_map(
    posterior: Posterior,
    transform: _Transform,
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
    posterior: Posterior, transform: Any, asked_by: str, value: Callable[[Floats], Floats]
) -> Callable[[Floats], Floats]:
    """``value`` of the squared lengths of the transform's deviations where it is defined, NaN elsewhere."""
    apply = point_function(transform, asked_by)

    def at(points: Floats) -> Floats:
        mapped = apply(points)
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
