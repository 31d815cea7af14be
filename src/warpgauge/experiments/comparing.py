"""What the studies of curves share: gathering them by dataset, numbers over runs, sentences that follow from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpgauge.experiments.datasets import Floats
from warpgauge.experiments.experiment import Result
from warpgauge.experiments.figures import Panel, deciles

# Numbers of annotations that sentences and tables speak of, as far as the curves reach.
SPOKEN = (5, 10, 20, 40, 80, 150)


def gathered(results: Sequence[Result], labels: Mapping[str, str]) -> dict[str, dict[str, Floats]]:
    """Give, by dataset, each label's curves as an array (curves, n), cut to the shortest.

    A result has ``"curves"``: a list of mappings from the keys of ``labels`` to one curve each.
    """
    by: dict[str, list[Mapping[str, Sequence[float]]]] = {}
    for run, result in results:
        by.setdefault(str(run.parameters["dataset"]), []).extend(result["curves"])
    return {
        dataset: {
            label: np.array([one[key][: min(len(curve[key]) for curve in curves)] for one in curves])
            for key, label in labels.items()
        }
        for dataset, curves in by.items()
    }


def spoken(length: int) -> list[int]:
    """Numbers of annotations to speak of in curves of this length; the last one always."""
    return [*(n for n in SPOKEN if n < length), length]


def summary(curves: Mapping[str, Floats], differences: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Numbers of one dataset: means, and differences (first minus second) with deciles and shares, at every n."""
    compared = {}
    for worse, better in differences:
        gain = curves[worse] - curves[better]
        low, middle, high = deciles(gain)
        share = gain / curves[worse]
        compared[f"{worse} - {better}"] = {
            "median": middle,
            "first decile": low,
            "ninth decile": high,
            "mean": gain.mean(axis=0),
            "standard error": gain.std(axis=0, ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.zeros(len(middle)),
            "median percent": 100 * np.median(share, axis=0),
            "runs better": (gain > 0).mean(axis=0),
        }
    first = next(iter(curves.values()))
    return {
        "curves": len(first),
        "annotations": list(range(1, first.shape[1] + 1)),
        "mean": {label: values.mean(axis=0) for label, values in curves.items()},
        "median": {label: np.median(values, axis=0) for label, values in curves.items()},
        "differences": compared,
    }


def panel(title: str, curves: Mapping[str, Floats], unit: str, differences: Sequence[tuple[str, str]]) -> Panel:
    """Give a column of the figure."""
    first = next(iter(curves.values()))
    return Panel(title, curves, list(range(1, first.shape[1] + 1)), unit, differences)


def sentences(title: str, curves: Mapping[str, Floats], unit: str, differences: Sequence[tuple[str, str]]) -> list[str]:
    """Say the mean errors and each difference at the spoken numbers of annotations."""
    first = next(iter(curves.values()))
    told = []
    for n in spoken(first.shape[1]):
        means = ", ".join(f"{label} {values[:, n - 1].mean():.3g}" for label, values in curves.items())
        told.append(f"{title}, n = {n}, {len(first)} curves: mean N_2 error in {unit}: {means}.")
        told.extend(_compared(title, n, worse, better, curves, unit) for worse, better in differences)
    return told


def _compared(title: str, n: int, worse: str, better: str, curves: Mapping[str, Floats], unit: str) -> str:
    gain = curves[worse][:, n - 1] - curves[better][:, n - 1]
    low, middle, high = (float(value) for value in deciles(gain))
    percent = 100 * float(np.median(gain / curves[worse][:, n - 1]))
    won = int((gain > 0).sum())
    word = "smaller" if middle > 0 else "larger" if middle < 0 else "no different"
    amount = "" if middle == 0 else f" by {abs(middle):.3g} {unit} ({abs(percent):.1f} %)"
    return (
        f"{title}, n = {n}: the error of {better} is {word} than that of {worse}{amount} in the median "
        f"(first and ninth decile {low:.3g} and {high:.3g}), and smaller in {won} of {len(gain)} curves."
    )
