"""The paper's look: mean curves above, the median difference with first and ninth decile bars below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.experiments.datasets import Floats
from warpgauge.maps.colours import OKABE_ITO, matplotlib

_MARKS = ("o", "s", "^", "D", "v", "P")
_EARLY = 8  # annotations
_TINY = 1e-12  # where all differences are 0
_BARS = 24  # bars a panel at most, so that they do not touch


@dataclass(frozen=True)
class Panel:
    """One dataset's curves, a column of the figure.

    Parameters
    ----------
    title : str
    curves : mapping
        For each label an array of one row per run and one column per number of annotations; rows of labels correspond.
    counts : sequence of int
        The numbers of annotations.
    unit : str
        Of the error.
    differences : sequence of pairs
        Labels (worse, better): the difference first minus second is drawn, above 0 where the second is better.
    ylabel : str
    """

    title: str
    curves: Mapping[str, ArrayLike]
    counts: Sequence[int]
    unit: str
    differences: Sequence[tuple[str, str]] = field(default_factory=tuple)
    ylabel: str = "$N_2$ error"


def deciles(values: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """First decile, median and ninth decile over the first axis."""
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [10, 50, 90], axis=0)
    return low, middle, high


def curves_figure(panels: Sequence[Panel]) -> Any:
    """Draw a column for each panel: mean curves on top, a row for each difference below."""
    below = max((len(panel.differences) for panel in panels), default=0)
    figure = matplotlib().figure.Figure(
        figsize=(3.3 * len(panels) + 0.4, 2.9 + 2.1 * below), layout="constrained", facecolor="white"
    )
    ratios = [1.35] + [1.0] * below
    places = figure.subplots(1 + below, len(panels), squeeze=False, height_ratios=ratios)
    for column, panel in enumerate(panels):
        _means(places[0, column], panel)
        for row in range(below):
            if row < len(panel.differences):
                _difference(places[1 + row, column], panel, *panel.differences[row])
            else:
                places[1 + row, column].set_visible(False)
        places[below, column].set_xlabel("number of annotations", fontsize=9)
    return figure


def plain_axes(axes: Any) -> None:
    """Leave a light grid and the two axes that are read."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def _means(axes: Any, panel: Panel) -> None:
    plain_axes(axes)
    step = max(1, len(panel.counts) // 8)
    for at, (label, values) in enumerate(panel.curves.items()):
        axes.plot(
            panel.counts, np.mean(np.asarray(values, dtype=np.float64), axis=0), color=OKABE_ITO[at],
            marker=_MARKS[at % len(_MARKS)], markevery=(at * step // 4, step), markersize=4, linewidth=1.4, label=label,
        )  # fmt: skip
    axes.set_title(panel.title, fontsize=10)
    axes.set_ylabel(f"{panel.ylabel} ({panel.unit})", fontsize=9)
    axes.legend(fontsize=8, frameon=False)


def _difference(axes: Any, panel: Panel, worse: str, better: str) -> None:
    plain_axes(axes)
    gain = np.asarray(panel.curves[worse], dtype=np.float64) - np.asarray(panel.curves[better], dtype=np.float64)
    low, middle, high = deciles(gain)
    rows = np.unique(np.linspace(0, len(panel.counts) - 1, min(_BARS, len(panel.counts))).astype(int))
    counts = np.asarray(panel.counts)
    axes.axhline(0, color="black", linewidth=1)
    axes.errorbar(
        counts[rows], middle[rows], yerr=[middle[rows] - low[rows], high[rows] - middle[rows]], fmt="none",
        ecolor="#8A8A8A", elinewidth=1, capsize=2,
    )  # fmt: skip
    axes.plot(counts, middle, color=OKABE_ITO[0], linewidth=1.5)
    axes.set_ylabel(f"{worse} −\n{better} ({panel.unit})", fontsize=8)
    # The first few annotations differ by more than all the rest; the view is that of the rest, bars may leave it.
    later = counts >= min(_EARLY, counts[-1])
    bottom, top = min(float(low[later].min()), 0.0), max(float(high[later].max()), 0.0)
    margin = 0.1 * max(top - bottom, _TINY)
    axes.set_ylim(bottom - margin, top + margin)
