"""Accuracy of the posterior mean: error by number of annotations, for the paper's model and the default one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.experiments.curve_summary import deciles
from warpgauge.experiments.experiment import Experiment, Findings, Result, Run
from warpgauge.experiments.model_setting import COUNTS, DEFAULT, ORDERS, PAPER, TITLES, UNITS, measurements, plan
from warpgauge.maps.picture_parts import OKABE_ITO, matplotlib

MODELS = (PAPER, DEFAULT)
# Aimed at: so many per cent less than the paper's model at 10 annotations, and at 40 or what comes nearest.
GOALS = {10: 10.0, 40: 5.0}


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Measure the N_2 error of both posterior means at the held-out landmarks, for both orders."""
    found = measurements(data, run)
    return {
        "errors": {
            order: [{"n": n, **{label: by[label].error for label in MODELS}} for n, by in rows.items()]
            for order, rows in found.items()
        }
    }


def _gathered(results: Sequence[Result]) -> dict[str, dict[str, dict[int, list[list[float]]]]]:
    """Errors by dataset, order and number of annotations, one row (paper, default) a run."""
    by: dict[str, dict[str, dict[int, list[list[float]]]]] = {}
    for run, result in results:
        for order, rows in result["errors"].items():
            place = by.setdefault(str(run.parameters["dataset"]), {}).setdefault(order, {})
            for row in rows:
                place.setdefault(int(row["n"]), []).append([row[label] for label in MODELS])
    return by


def report(results: Sequence[Result]) -> Findings:
    """Return mean errors, the difference with its deciles over runs, and by how many per cent the mean is smaller."""
    numbers: dict[str, Any] = {}
    told = []
    for dataset, orders in _gathered(results).items():
        numbers[dataset] = {"unit": UNITS[dataset]}
        for order, counts in orders.items():
            rows = {n: _numbers(np.array(values)) for n, values in counts.items()}
            numbers[dataset][order] = rows
            told.extend(_sentences(TITLES[dataset], UNITS[dataset], order, rows))
    return Findings(numbers, {"errors": _figure(numbers)}, told)


def _numbers(errors: Any) -> dict[str, Any]:
    low, middle, high = deciles(errors[:, 0] - errors[:, 1])
    means = errors.mean(axis=0)
    return {
        "runs": len(errors),
        "mean": dict(zip(MODELS, means.tolist(), strict=True)),
        "percent smaller": float(100 * (1 - means[1] / means[0])),
        "paper minus default": {"first decile": low, "median": middle, "ninth decile": high},
        "runs better": float(np.mean(errors[:, 1] < errors[:, 0])),
    }


def _sentences(title: str, unit: str, order: str, rows: dict[int, dict[str, Any]]) -> list[str]:
    told = []
    for n, row in rows.items():
        gain = row["paper minus default"]
        told.append(
            f"{title}, {order} order, n = {n}, {row['runs']} runs: mean N_2 error {row['mean'][PAPER]:.3g} {unit} "
            f"(paper) and {row['mean'][DEFAULT]:.3g} {unit} (default), {row['percent smaller']:.1f} % smaller; "
            f"median difference {gain['median']:.3g} (first and ninth decile {gain['first decile']:.3g} and "
            f"{gain['ninth decile']:.3g}); "
            f"smaller in {100 * row['runs better']:.0f} % of the runs."
        )
    for asked, percent in GOALS.items():
        n = min(rows, key=lambda count: abs(count - asked))
        word = "is met" if rows[n]["percent smaller"] >= percent else "is missed"
        told.append(
            f"{title}, {order} order: the goal of an error {percent:g} % smaller at n = {n} {word} "
            f"({rows[n]['percent smaller']:.1f} %)."
        )
    return told


def _figure(numbers: dict[str, Any]) -> Any:
    """Draw one column per dataset: mean errors above, the difference in per cent of the paper's below."""
    figure = matplotlib().figure.Figure(
        figsize=(3.1 * len(numbers) + 0.4, 5.2), layout="constrained", facecolor="white"
    )
    places = figure.subplots(2, len(numbers), squeeze=False)
    for column, (dataset, found) in enumerate(numbers.items()):
        top, bottom = places[:, column]
        for axes in (top, bottom):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="#E4E4E4", linewidth=0.6)
            axes.tick_params(labelsize=8)
        for at, order in enumerate(ORDERS):
            rows = found[order]
            for label, style in ((PAPER, "--"), (DEFAULT, "-")):
                means = [row["mean"][label] for row in rows.values()]
                top.plot(
                    list(rows), means, style, color=OKABE_ITO[at], marker="o", markersize=3, label=f"{label}, {order}"
                )
            smaller = [row["percent smaller"] for row in rows.values()]
            bottom.plot(list(rows), smaller, "-", color=OKABE_ITO[at], marker="o", markersize=3, label=order)
        bottom.axhline(0, color="black", linewidth=1)
        top.set_title(TITLES[dataset], fontsize=10)
        top.set_ylabel(f"mean $N_2$ error ({found['unit']})", fontsize=8)
        bottom.set_ylabel("smaller by, %", fontsize=8)
        bottom.set_xlabel("number of annotations", fontsize=8)
    places[0, 0].legend(fontsize=7, frameon=False)
    return figure


EXPERIMENT = Experiment(
    "accuracy",
    "error of the posterior mean against the number of annotations: the paper's model and the default one",
    100,
    plan,
    compute,
    report,
    tuple(COUNTS),
)
