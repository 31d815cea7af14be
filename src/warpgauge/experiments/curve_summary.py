"""Error curves of a study: grouping by dataset, statistics over runs, sentences, and figures in the look of the paper.

Mean curves are drawn above, the median difference with bars from the first to the ninth decile below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.experiments.datasets import Floats
from warpgauge.experiments.experiment import Result
from warpgauge.maps.picture_parts import OKABE_ITO, matplotlib

# Numbers of annotations that sentences and tables speak of, as far as the curves reach.
SPOKEN = (5, 10, 20, 40, 80)
# Errors that differ by less, relatively, are equal.
_ROUNDING = 1e-9


def gathered(
    results: Sequence[Result], labels: Mapping[str, str], by_parameter: str = "dataset"
) -> dict[str, dict[str, Floats]]:
    """Give, by dataset (or another parameter), each label's curves as an array (curves, n), cut to the shortest.

    A result has ``"curves"``: a list of mappings from the keys of ``labels`` to one curve each.
    """
    by: dict[str, list[Mapping[str, Sequence[float]]]] = {}
    for run, result in results:
        by.setdefault(str(run.parameters[by_parameter]), []).extend(result["curves"])
    return {
        dataset: {
            label: np.array([one[key][: min(len(curve[key]) for curve in curves)] for one in curves])
            for key, label in labels.items()
        }
        for dataset, curves in by.items()
    }


def spoken(start: int, stop: int) -> list[int]:
    """Numbers of annotations to speak of between these; the last one always."""
    return [*(n for n in SPOKEN if start <= n < stop), stop]


def difference(worse: Floats, better: Floats) -> Floats:
    """First minus second; zero where they differ by rounding only, as where two strategies asked the same."""
    gain = worse - better
    return np.where(np.abs(gain) <= _ROUNDING * np.abs(worse), 0.0, gain)


def summary(curves: Mapping[str, Floats], differences: Sequence[tuple[str, str]], start: int = 1) -> dict[str, Any]:
    """Numbers of one dataset: means, and differences (first minus second) with deciles and shares, at every n.

    The first column is that of ``start`` annotations.
    """
    compared = {}
    for worse, better in differences:
        gain = difference(curves[worse], curves[better])
        low, middle, high = deciles(gain)
        compared[f"{worse} - {better}"] = {
            "median": middle,
            "first decile": low,
            "ninth decile": high,
            "mean": gain.mean(axis=0),
            "standard error": gain.std(axis=0, ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else None,
            "median percent": 100 * np.median(gain / curves[worse], axis=0),
            "share of curves better": (gain > 0).mean(axis=0),
            "share of curves worse": (gain < 0).mean(axis=0),
        }
    first = next(iter(curves.values()))
    return {
        "curves": len(first),
        "annotations": list(range(start, start + first.shape[1])),
        "mean": {label: values.mean(axis=0) for label, values in curves.items()},
        "first decile": {label: deciles(values)[0] for label, values in curves.items()},
        "median": {label: deciles(values)[1] for label, values in curves.items()},
        "ninth decile": {label: deciles(values)[2] for label, values in curves.items()},
        "mean over all annotations": {label: values.mean() for label, values in curves.items()},
        "differences": compared,
    }


def panel(
    title: str, curves: Mapping[str, Floats], unit: str, differences: Sequence[tuple[str, str]], start: int = 1
) -> Panel:
    """Return a column of the figure."""
    first = next(iter(curves.values()))
    return Panel(title, curves, list(range(start, start + first.shape[1])), unit, differences)


def sentences(
    title: str, curves: Mapping[str, Floats], unit: str, differences: Sequence[tuple[str, str]], start: int = 1
) -> list[str]:
    """Report the mean errors and each difference at the spoken numbers of annotations."""
    first = next(iter(curves.values()))
    told = []
    for n in spoken(start, start + first.shape[1] - 1):
        column = {label: values[:, n - start] for label, values in curves.items()}
        means = ", ".join(f"{label} {values.mean():.3g}" for label, values in column.items())
        compared = "; ".join(_compared(column, worse, better, unit) for worse, better in differences)
        told.append(f"{title}, {n} annotations, {len(first)} curves: mean N_2 error in {unit}: {means}; {compared}.")
    return told


def _compared(column: Mapping[str, Floats], worse: str, better: str, unit: str) -> str:
    gain = difference(column[worse], column[better])
    low, middle, high = (float(value) for value in deciles(gain))
    percent = 100 * float(np.median(gain / column[worse]))
    size = "as large as" if middle == 0 else f"{'smaller' if middle > 0 else 'larger'} than"
    amount = "" if middle == 0 else f" by {abs(middle):.3g} {unit} or {abs(percent):.1f} %"
    return (
        f"with {better} it is {size} with {worse}{amount} in the median (deciles of the difference {low:.3g} and "
        f"{high:.3g}), smaller in {int((gain > 0).sum())} and larger in {int((gain < 0).sum())} curves"
    )


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
