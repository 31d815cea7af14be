"""The report's charts, as matplotlib figures without pyplot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.evaluation import Evaluation, Trust
from warpgauge.evaluation.result import PRIMARY
from warpgauge.maps.pictures import OKABE_ITO, matplotlib, plain_text

_BLUE, _RED, _GREEN = OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[2]
_GREY = "#595959"
# An interval that begins beyond so many times the middle one is named at the edge instead of drawn.
_FAR = 4.0


def _axes(width: float, height: float) -> tuple[Any, Any]:
    figure = matplotlib().figure.Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    return figure, axes


def _named(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [plain_text(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def intervals(evaluation: Evaluation, norm: str, label: str) -> Any:
    """Draw true scores with 90 % intervals and the scores without uncertainty, best on top; ties are shaded."""
    names = evaluation.ranking(norm)
    figure, axes = _axes(8.5, 0.9 + 0.42 * len(names))
    start = 0
    for at, group in enumerate(evaluation.tied):
        if at % 2 == 0 and norm == PRIMARY:
            axes.axhspan(start - 0.5, start + len(group) - 0.5, color="#EEF2F5", zorder=0)
        start += len(group)
    top = _far(evaluation, norm)
    for row, name in enumerate(names):
        one = evaluation.scores[name]
        true, (low, high) = one.score[norm], one.interval[norm]
        colour = _GREY if name == evaluation.baseline else _BLUE
        if top is not None and low > top:
            axes.annotate(
                f"{true:.3g} (off the scale)", (0.99, row), xycoords=("axes fraction", "data"),
                ha="right", va="center", fontsize=9, color=_GREY,
            )  # fmt: skip
            continue
        axes.plot([low, high], [row, row], color=colour, linewidth=3, solid_capstyle="butt", zorder=2)
        axes.plot(true, row, "o", color=colour, markeredgecolor="white", markersize=8, zorder=4)
        if one.landmark[norm] is not None:
            axes.plot(one.landmark[norm], row, "D", color=_RED, markerfacecolor="none", markersize=7, zorder=3)
    axes.plot([], [], "o-", color=_BLUE, linewidth=3, markersize=8, label="true error: median and 90 % interval")
    axes.plot([], [], "D", color=_RED, markerfacecolor="none", label="at the landmarks alone")
    _named(axes, names)
    axes.set_xlim(0, None if top is None else top)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.7)
    axes.set_xlabel(label, fontsize=10)
    figure.legend(loc="outside upper right", ncols=3, fontsize=9, frameon=False)
    return figure


def _far(evaluation: Evaluation, norm: str) -> float | None:
    """Return where the scale ends so that methods that are far off do not flatten the others; None for all of it."""
    highs = sorted(one.interval[norm][1] for one in evaluation.scores.values())
    median = highs[(len(highs) - 1) // 2]
    within = [high for high in highs if high <= _FAR * median]
    return 1.1 * within[-1] if len(within) < len(highs) else None


def _matrix(
    values: Floats, rows: Sequence[str], columns: Sequence[str], label: str, x: str, colours: str = "Blues"
) -> Any:
    size = 0.52 * len(columns)
    figure, axes = _axes(max(4.5, 3.2 + size), max(2.0, 1.3 + 0.42 * len(rows)))
    scale = matplotlib().colormaps[colours].with_extremes(bad="#F3F3F3")
    shown = axes.imshow(values, cmap=scale, vmin=0, vmax=1, aspect="auto")
    middle = 0.5 if colours == "RdBu" else 0.2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if abs(value - middle) > 0.38 else "black"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=ink, fontsize=8)
    _named(axes, rows)
    turned = max((len(name) for name in columns), default=0) > 3
    axes.set_xticks(range(len(columns)), [plain_text(name, 24) for name in columns], rotation=40 if turned else 0,
                    ha="right" if turned else "center", rotation_mode="anchor")  # fmt: skip
    axes.set_xlabel(x, fontsize=10)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(shown, ax=axes, format=lambda value, _: f"{100 * value:.0f} %")
    bar.set_label(label, fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def rank_matrix(names: Sequence[str], probabilities: Floats) -> Any:
    """Heat map of (K, K) probabilities of ranks, one method per row."""
    return _matrix(probabilities, names, [str(k + 1) for k in range(len(names))], "probability", "rank")


def mean_ranks(names: Sequence[str], means: Sequence[float], bounds: Sequence[tuple[float, float]]) -> Any:
    """Mean ranks with their intervals, best on top."""
    figure, axes = _axes(8.5, 0.9 + 0.42 * len(names))
    for row, (mean, (low, high)) in enumerate(zip(means, bounds, strict=True)):
        axes.plot([low, high], [row, row], color=_BLUE, linewidth=3, solid_capstyle="butt")
        axes.plot(mean, row, "o", color=_BLUE, markeredgecolor="white", markersize=8)
    _named(axes, names)
    axes.set_xlim(0.9, len(names) + 0.1)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.7)
    axes.set_xlabel("mean rank", fontsize=10)
    return figure


def wins(evaluation: Evaluation, norm: str) -> Any:
    """Heat map of the probability that the row's method beats the column's."""
    names, given = evaluation.ranking(norm), list(evaluation.scores)
    order = [given.index(name) for name in names]
    values = evaluation.win_probability[np.ix_(order, order)].copy()
    np.fill_diagonal(values, np.nan)
    return _matrix(values, names, names, "probability", "against", "RdBu")


def boxes(errors: Mapping[str, Floats], label: str, tolerance: float | None = None) -> Any:
    """Box plots of the expected errors over the targets; whiskers from 5 to 95 %."""
    figure, axes = _axes(8.5, 1.0 + 0.42 * len(errors))
    drawn = axes.boxplot(
        list(errors.values()), orientation="horizontal", positions=range(len(errors)), widths=0.55, whis=(5, 95),
        showfliers=False, patch_artist=True, medianprops={"color": "black", "linewidth": 1.6},
    )  # fmt: skip
    for box in drawn["boxes"]:
        box.set(facecolor="#BFD9EA", edgecolor=_BLUE)
    if tolerance is not None:
        axes.axvline(tolerance, color=_RED, linestyle="--", linewidth=1.3)
        axes.annotate(
            f"tolerance {tolerance:g}", (tolerance, 1), xycoords=("data", "axes fraction"), xytext=(4, -2),
            textcoords="offset points", fontsize=9, color="#9A4300", va="top",
        )  # fmt: skip
    _named(axes, list(errors))
    axes.set_xlim(left=0)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.7)
    axes.set_xlabel(label, fontsize=10)
    return figure


def coverage(found: Trust) -> Any:
    """Stated against observed coverage, with binomial intervals."""
    figure, axes = _axes(4.6, 3.4)
    for at, one in enumerate(found.coverage):
        colour = _GREEN if one.consistent else _RED
        axes.bar(at, one.share, width=0.55, color=colour, alpha=0.75)
        axes.plot([at, at], [one.low, one.high], color="black", linewidth=1.6)
        axes.plot([at - 0.36, at + 0.36], [one.level, one.level], color="black", linestyle=(0, (4, 2)), linewidth=1.8)
    axes.plot([], [], color="black", linestyle=(0, (4, 2)), label="expected")
    axes.plot([], [], color="black", label="95 % interval of the share")
    axes.set_xticks(range(len(found.coverage)), [f"{100 * one.level:.0f} % region" for one in found.coverage])
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_ylabel("annotations inside", fontsize=10)
    figure.legend(loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    return figure


def residuals(found: Trust) -> Any:
    """Standardised leave-one-out residuals of each annotation, counted from 1, by component."""
    figure, axes = _axes(4.6, 3.4)
    numbers = range(1, len(found.standardised) + 1)
    axes.axhspan(-1.96, 1.96, color="#EEF2F5", zorder=0)
    axes.axhline(0, color=_GREY, linewidth=0.8)
    for component, marker in zip(range(found.standardised.shape[1]), "osD", strict=False):
        axes.plot(
            numbers, found.standardised[:, component], marker, color=OKABE_ITO[component], markerfacecolor="none",
            markersize=5, label=f"component {component + 1}",
        )  # fmt: skip
    for row in found.outliers:
        axes.annotate(str(row + 1), (row + 1, found.standardised[row].max()), fontsize=8, xytext=(3, 3),
                      textcoords="offset points")  # fmt: skip
    axes.set_xlabel("annotation", fontsize=10)
    axes.set_ylabel("standardised residual", fontsize=10)
    figure.legend(loc="outside upper right", ncols=3, fontsize=8, frameon=False)
    return figure
