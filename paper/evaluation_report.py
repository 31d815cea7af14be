"""Summary of the contests of the evaluation study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from paper.curves import deciles, plain_axes
from paper.experiment import Findings, Result
from warpgauge.maps import OKABE_ITO

METHODS = ("landmarks", "paper", "judge")
_LABELS = {"landmarks": "landmark-based", "paper": "posterior (paper)", "judge": "judge"}
_MARKS = {"landmarks": "o", "paper": "s", "judge": "^"}
_NORMS = ("1", "2", "inf")


def report(results: Sequence[Result]) -> Findings:
    """Sum up by dataset and number of annotations."""
    datasets = list(dict.fromkeys(str(run.parameters["dataset"]) for run, _ in results))
    numbers: dict[str, Any] = {}
    sentences = []
    for dataset in datasets:
        own = [result for run, result in results if run.parameters["dataset"] == dataset]
        counts = [n for n in own[0]["counts"] if all(n in one["counts"] for one in own)]
        numbers[dataset] = {
            "runs": len(own),
            "transforms": len(own[0]["transforms"]),
            "units": own[0]["units"],
            "counts": {n: {method: _summed([one["counts"][n][method] for one in own]) for method in METHODS}
                       for n in counts},
            "together": {method: _summed([one["counts"][n][method] for one in own for n in counts])
                         for method in METHODS},
        }  # fmt: skip
        sentences.append(_sentence(dataset, numbers[dataset]))
    return Findings(numbers, {f"p{p}": _figure(numbers, p) for p in _NORMS}, sentences)


def _summed(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means and deciles over cases; shares of what was held and of what was called."""
    out: dict[str, Any] = {"cases": len(cases)}
    for what in ("spearman", "error"):
        out[what] = {}
        for p in _NORMS:
            values = [one[what][p] for one in cases if one[what][p] is not None]
            low, middle, high = deciles(values)
            out[what][p] = {
                "mean": float(np.mean(values)), "median": float(middle), "deciles": [float(low), float(high)],
            }  # fmt: skip
    out["first"] = {p: float(np.mean([one["first"][p] for one in cases])) for p in _NORMS}
    if "held" not in cases[0]:
        return out
    transforms = sum(one["held"] for one in cases), sum(one["too_low"] for one in cases)
    # pairs = K (K - 1) / 2
    total = sum(round((1 + np.sqrt(1 + 8 * one["pairs"])) / 2) for one in cases)
    sure = [one["right"] for one in cases if one["sure"]]
    called = sum(one["pairs_called"] for one in cases)
    right = sum(one["pairs_right"] for one in cases)
    return out | {
        "held": transforms[0] / total,
        "true_above": transforms[1] / total,
        **{
            what: float(np.mean([one[what] for one in cases]))
            for what in ("width", "interval_score", "brier", "log_score")
        },
        "sure": len(sure),
        "sure_and_right": sum(sure),
        "pairs_called": called,
        "pairs_right": right,
        "pairs": sum(one["pairs"] for one in cases),
    }


def _sentence(dataset: str, found: dict[str, Any]) -> str:
    by = found["together"]
    rank = ", ".join(f"{_LABELS[m]} {by[m]['spearman']['2']['mean']:.3f}" for m in METHODS)
    error = ", ".join(f"{by[m]['error']['2']['mean']:.3g}" for m in METHODS)
    ours = by["judge"]
    return (
        f"{dataset} ({found['runs']} runs of {found['transforms']} transforms): Spearman's correlation with the true "
        f"ranking by RMS error: {rank}; mean absolute error of the score {error} {found['units']}; 90 % intervals hold "
        f"the true score in {by['paper']['held']:.0%} (paper) and {ours['held']:.0%} (judge) of cases; where the "
        f"judge is surer than 0.95 of the best, it is right in {ours['sure_and_right']} of {ours['sure']} cases."
    )


def _figure(numbers: dict[str, Any], p: str) -> Any:
    """Draw one column per dataset as in the paper: correlation above, error of the score below."""
    size = (2.9 * len(numbers) + 0.4, 5.3)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    places = figure.subplots(2, len(numbers), squeeze=False)
    for column, (dataset, found) in enumerate(numbers.items()):
        counts = [int(n) for n in found["counts"]]
        for row, what in enumerate(("spearman", "error")):
            axes = places[row, column]
            plain_axes(axes)
            for at, method in enumerate(METHODS):
                values = [found["counts"][str(n)][method][what][p]["mean"] for n in counts]
                axes.plot(counts, values, color=OKABE_ITO[at], marker=_MARKS[method], markersize=4, linewidth=1.4,
                          label=_LABELS[method])  # fmt: skip
            axes.set_xticks(counts)
            if row == 1:
                axes.set_ylim(bottom=0)
                axes.set_xlabel("number of annotations", fontsize=9)
        places[0, column].set_title(f"{dataset}, K = {found['transforms']}", fontsize=9)
        places[1, column].set_ylabel(f"error of the score ({found['units']})", fontsize=8)
        places[0, column].set_ylabel("Spearman's correlation", fontsize=8)
    places[0, 0].legend(fontsize=7, frameon=False)
    return figure
