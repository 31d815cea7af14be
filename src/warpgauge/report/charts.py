"""The report's charts, as matplotlib figures without pyplot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.display import rounded
from warpgauge.evaluation import Evaluation, Trust
from warpgauge.maps.pictures import OKABE_ITO, matplotlib, plain_text

_BLUE, _RED = OKABE_ITO[0], OKABE_ITO[1]
_GREY, _SHADE, _LINE = "#595959", "#EEF2F5", "#DDDDDD"
# An interval that begins beyond so many times the middle one is named at the edge instead of drawn.
_FAR = 4.0


def _axes(width: float, height: float) -> tuple[Any, Any]:
    figure = matplotlib().figure.Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    return figure, axes


def _rows(names: Sequence[str], label: str) -> tuple[Any, Any]:
    """Return a figure with a row for each name, the first at the top, and a grid along a measured axis."""
    figure, axes = _axes(8.5, 0.9 + 0.42 * len(names))
    axes.set_yticks(range(len(names)), [plain_text(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", color=_LINE, linewidth=0.7)
    axes.set_xlabel(label, fontsize=10)
    return figure, axes


def _interval(axes: Any, row: int, middle: float, ends: tuple[float, float], colour: str = _BLUE) -> None:
    axes.plot(ends, [row, row], color=colour, linewidth=3, solid_capstyle="butt", zorder=2)
    axes.plot(middle, row, "o", color=colour, markeredgecolor="white", markersize=8, zorder=4)


def intervals(evaluation: Evaluation, norm: str, label: str) -> Any:
    """Draw true scores with 90 % intervals and the scores at the landmarks, best on top; tied ones share a shade."""
    scores = [evaluation.scores[name] for name in evaluation.ranking(norm)]
    figure, axes = _rows([one.name for one in scores], label)
    start = 0
    for at, group in enumerate(evaluation.verdict.groups):
        if at % 2 == 0:
            axes.axhspan(start - 0.5, start + len(group) - 0.5, color=_SHADE, zorder=0)
        start += len(group)
    highs = np.array([one.interval[norm][1] for one in scores])
    near = highs <= _FAR * np.sort(highs)[(len(highs) - 1) // 2]
    end = None if near.all() else 1.1 * highs[near].max()
    for row, one in enumerate(scores):
        low, high = one.interval[norm]
        if end is not None and low > end:
            axes.annotate(
                f"{rounded(one.score[norm])} (off the scale)", (0.99, row), xycoords=("axes fraction", "data"),
                ha="right", va="center", fontsize=9, color=_GREY,
            )  # fmt: skip
            continue
        _interval(axes, row, one.score[norm], (low, high), _GREY if one.name == evaluation.verdict.baseline else _BLUE)
        if one.landmark[norm] is not None:
            axes.plot(one.landmark[norm], row, "D", color=_RED, markerfacecolor="none", markersize=7, zorder=3)
    axes.set_xlim(0, end)
    axes.plot([], [], "o-", color=_BLUE, linewidth=3, markersize=8, label="true error: median and 90 % interval")
    axes.plot([], [], "D", color=_RED, markerfacecolor="none", label="at the landmarks alone")
    figure.legend(loc="outside upper right", ncols=3, fontsize=9, frameon=False)
    return figure


def mean_ranks(names: Sequence[str], means: Sequence[float], bounds: Sequence[tuple[float, float]]) -> Any:
    """Draw mean ranks with their intervals, best on top."""
    figure, axes = _rows(names, "mean rank")
    for row, (mean, ends) in enumerate(zip(means, bounds, strict=True)):
        _interval(axes, row, mean, ends)
    axes.set_xlim(0.9, len(names) + 0.1)
    return figure


def wins(evaluation: Evaluation, norm: str) -> Any:
    """Draw the probability that the row's method beats the column's."""
    names = evaluation.ranking(norm)
    every = list(evaluation.scores)
    order = [every.index(name) for name in names]
    values = evaluation.win_probability[np.ix_(order, order)].copy()
    np.fill_diagonal(values, np.nan)
    return _matrix(values, names, names, "against", "RdBu")


def rank_matrix(names: Sequence[str], probabilities: Floats) -> Any:
    """Draw (K, K) probabilities of ranks, one method per row."""
    return _matrix(probabilities, names, [str(k + 1) for k in range(len(names))], "rank", "Blues")


def _matrix(values: Floats, rows: Sequence[str], columns: Sequence[str], label: str, colours: str) -> Any:
    """Draw probabilities as colours and percentages."""
    figure, axes = _axes(max(4.5, 3.2 + 0.52 * len(columns)), max(2.0, 1.3 + 0.42 * len(rows)))
    scale = matplotlib().colormaps[colours].with_extremes(bad="#F3F3F3")
    shown = axes.imshow(values, cmap=scale, vmin=0, vmax=1, aspect="auto")
    middle = 0.5 if colours == "RdBu" else 0.2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if abs(value - middle) > 0.38 else "black"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=ink, fontsize=8)
    turned = any(len(name) > 3 for name in columns)
    axes.set_yticks(range(len(rows)), [plain_text(name) for name in rows])
    axes.set_xticks(range(len(columns)), [plain_text(name, 24) for name in columns], rotation=40 if turned else 0,
                    ha="right" if turned else "center", rotation_mode="anchor")  # fmt: skip
    axes.set_xlabel(label, fontsize=10)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(shown, ax=axes, format=lambda value, _: f"{100 * value:.0f} %")
    bar.set_label("probability", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def residuals(trust: Trust) -> Any:
    """Draw the standardised residuals of each annotation, counted from 1, by component."""
    figure, axes = _axes(8.5, 3.0)
    numbers = range(1, len(trust.standardised) + 1)
    axes.axhspan(-1.96, 1.96, color=_SHADE, zorder=0)
    axes.axhline(0, color=_GREY, linewidth=0.8)
    for component, marker in zip(range(trust.standardised.shape[1]), "osD", strict=False):
        axes.plot(
            numbers, trust.standardised[:, component], marker, color=OKABE_ITO[component], markerfacecolor="none",
            markersize=5, label=f"component {component + 1}",
        )  # fmt: skip
    for row in trust.outliers:
        axes.annotate(str(row + 1), (row + 1, trust.standardised[row].max()), fontsize=8, xytext=(3, 3),
                      textcoords="offset points")  # fmt: skip
    axes.set_xlabel("annotation", fontsize=10)
    axes.set_ylabel("standardised residual", fontsize=10)
    figure.legend(loc="outside upper right", ncols=3, fontsize=8, frameon=False)
    return figure
