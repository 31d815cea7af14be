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
    fixed, moving = np.asarray(fixed_points, dtype=np.float64), np.asarray(moving_points, dtype=np.float64)
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
        The grid of the map; its axes must not be turned.
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
    if array.ndim == 3:
        array = array[array.shape[0] // 2 if slice_index is None else slice_index]
    ax = axes_or_new(ax)
    low = np.asarray(grid.origin)[:2] - np.asarray(grid.spacing)[:2] / 2
    high = low + np.asarray(grid.size)[:2] * np.asarray(grid.spacing)[:2]
    shown = ax.imshow(array, extent=(low[0], high[0], high[1], low[1]), **{"interpolation": "nearest", **options})
    ax.figure.colorbar(shown, ax=ax, label=label)
    ax.set_xlabel(f"x {grid.units}")
    ax.set_ylabel(f"y {grid.units}")
    return ax
