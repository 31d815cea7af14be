"""Figures for notebooks, by matplotlib, on axes that are given or made; imported when the first one is drawn.

Functions take plain arrays, so that the values of every layer can draw themselves with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice


def axes_or_new(ax: Any = None) -> Any:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError(
            f"Plots need matplotlib, which is not installed; {install_advice('report')}."
        ) from error
    return plt.subplots(layout="constrained")[1]


def plot_intervals(
    names: Sequence[str], values: ArrayLike, lows: ArrayLike, highs: ArrayLike, *, label: str = "", ax: Any = None
) -> Any:
    """Draw one horizontal interval with its point for each name, the first at the top."""
    ax = axes_or_new(ax)
    middle, low, high = (np.asarray(one, dtype=np.float64) for one in (values, lows, highs))
    rows = np.arange(len(names))[::-1]
    ax.hlines(rows, low, high, linewidth=2)
    ax.plot(middle, rows, "o")
    ax.set_yticks(rows, names)
    ax.set_xlabel(label)
    ax.set_xlim(left=min(0.0, float(np.nanmin(low))) if len(names) else 0.0)
    return ax


def plot_landmarks(
    fixed_points: ArrayLike, moving_points: ArrayLike, *, half_lengths: ArrayLike | None = None,
    axes_of_ellipses: ArrayLike | None = None, units: str = "", ax: Any = None,
) -> Any:  # fmt: skip
    """Draw 2D landmarks as arrows from fixed to moving points, with the ellipses of their uncertainty where given."""
    fixed = np.asarray(fixed_points, dtype=np.float64)
    moving = np.asarray(moving_points, dtype=np.float64)
    if fixed.ndim != 2 or fixed.shape[1] != 2 or fixed.shape != moving.shape:
        raise InvalidInputError(
            f"Landmarks can be drawn in 2D, as two (n, 2) arrays, not with shapes {fixed.shape} and {moving.shape}."
        )
    ax = axes_or_new(ax)
    shift = moving - fixed
    ax.quiver(*fixed.T, *shift.T, angles="xy", scale_units="xy", scale=1, width=3e-3)
    ax.plot(*fixed.T, ".", label="fixed")
    if half_lengths is not None and axes_of_ellipses is not None:
        from matplotlib.patches import Ellipse

        for centre, lengths, turn in zip(moving, np.asarray(half_lengths), np.asarray(axes_of_ellipses), strict=True):
            angle = float(np.degrees(np.arctan2(turn[1, 0], turn[0, 0])))
            ax.add_patch(Ellipse(tuple(centre), 2 * lengths[0], 2 * lengths[1], angle=angle, fill=False))
    ax.set_aspect("equal")
    if not ax.yaxis_inverted():
        ax.invert_yaxis()  # as images are shown
    ax.set_xlabel(f"x {units}".strip())
    ax.set_ylabel(f"y {units}".strip())
    ax.autoscale_view()
    return ax


def plot_map(
    values: ArrayLike, grid: Any, *, ax: Any = None, slice_index: int | None = None, label: str = "", **options: Any
) -> Any:
    """Show a map over its grid in world coordinates, with a colour bar.

    Parameters
    ----------
    values : (y, x) or (z, y, x) array
        One number per element; NaN is left blank.
    grid : Grid
        The grid of the map; its axes must run along those of the world, in either direction.
    ax : matplotlib axes, optional
        A new figure by default.
    slice_index : int, optional
        The z of a volume that is shown; the middle by default.
    label : str
        Of the colour bar.
    **options
        For ``imshow``, as ``cmap`` and ``vmax``.
    """
    array = np.asarray(values)
    if array.shape != tuple(grid.shape):
        raise InvalidInputError(f"plot_map shows an array of the grid's shape {grid.shape}, got {array.shape}.")
    along = np.abs(grid.direction).argmax(axis=0)  # the world axis of each index axis
    if not np.allclose(np.abs(grid.direction).max(axis=0), 1.0, atol=1e-4):
        raise InvalidInputError(
            "plot_map shows grids whose axes run along those of the world, but this one is oblique; resample the map, "
            "or show it by its indices with matplotlib's imshow."
        )
    if array.ndim == 3:
        at = array.shape[0] // 2 if slice_index is None else slice_index
        if not 0 <= at < array.shape[0]:
            raise InvalidInputError(f"slice_index must be from 0 to {array.shape[0] - 1}, got {slice_index!r}.")
        array = array[at]
    ax = axes_or_new(ax)
    ends = grid.index_to_world([[-0.5] * grid.d, np.asarray(grid.size) - 0.5])  # outer edges of the outer elements
    (left, right), (top, bottom) = (ends[:, along[axis]] for axis in (0, 1))
    shown = ax.imshow(array, extent=(left, right, bottom, top), **{"interpolation": "nearest", **options})
    ax.figure.colorbar(shown, ax=ax, label=label)
    ax.set_xlabel(f"{'xyz'[along[0]]} {grid.units}")
    ax.set_ylabel(f"{'xyz'[along[1]]} {grid.units}")
    return ax
