"""Shared by the studies of curves: grouping by dataset, statistics over runs, and summary sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpgauge.experiments.datasets import Floats
from warpgauge.experiments.experiment import Result
from warpgauge.experiments.figures import Panel, deciles

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
