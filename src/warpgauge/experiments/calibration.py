"""Calibration of regions: coverage at 50, 80 and 95 % by number of annotations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.experiments.curve_summary import deciles
from warpgauge.experiments.experiment import Experiment, Findings, Result, Run
from warpgauge.experiments.model_setting import COUNTS, DEFAULT, GAUSSIAN, ORDERS, PAPER, TITLES, measurements, plan
from warpgauge.maps.picture_parts import OKABE_ITO, matplotlib

LEVELS = (0.5, 0.8, 0.95)
MODELS = (PAPER, GAUSSIAN, DEFAULT)
# What is aimed at, for the levels that have an aim.
GOALS = {0.5: (0.45, 0.55), 0.95: (0.93, 0.97)}


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Measure the coverage of every model's regions at the held-out landmarks, for both orders."""
    found = measurements(data, run)
    return {
        "coverage": {
            order: [
                {"n": n, **{label: [one.coverage(level) for level in LEVELS] for label, one in by.items()}}
                for n, by in rows.items()
            ]
            for order, rows in found.items()
        },
        "scale": {order: [by[DEFAULT].posterior.scale for by in rows.values()] for order, rows in found.items()},
    }


def _gathered(results: Sequence[Result]) -> dict[str, dict[str, dict[int, dict[str, list[list[float]]]]]]:
    """Coverages by dataset, order, number of annotations and model, one row of levels a run."""
    by: dict[str, dict[str, dict[int, dict[str, list[list[float]]]]]] = {}
    for run, result in results:
        for order, rows in result["coverage"].items():
            place = by.setdefault(str(run.parameters["dataset"]), {}).setdefault(order, {})
            for row in rows:
                models = place.setdefault(int(row["n"]), {label: [] for label in MODELS})
                for label in MODELS:
                    models[label].append(row[label])
    return by


def _inside(level: float, share: float) -> bool:
    low, high = GOALS[level]
    return low <= round(share, 3) <= high


def report(results: Sequence[Result]) -> Findings:
    """Return mean coverage with deciles over runs at every number of annotations, and where the goal is met."""
    numbers: dict[str, Any] = {}
    told = []
    for dataset, orders in _gathered(results).items():
        numbers[dataset] = {}
        for order, counts in orders.items():
            rows = {n: {label: _numbers(values) for label, values in by.items()} for n, by in counts.items()}
            numbers[dataset][order] = rows
            told.extend(_sentences(TITLES[dataset], order, rows))
    return Findings(numbers, {"coverage": _figure(numbers)}, told)


def _numbers(values: list[list[float]]) -> dict[str, Any]:
    array = np.array(values)
    low, middle, high = deciles(array)
    return {"runs": len(array), "mean": array.mean(axis=0), "first decile": low, "median": middle, "ninth decile": high}


def _sentences(title: str, order: str, rows: dict[int, dict[str, dict[str, Any]]]) -> list[str]:
    told = []
    for label in MODELS:
        parts = ", ".join(
            f"n = {n}: " + " / ".join(f"{100 * share:.0f}" for share in by[label]["mean"]) for n, by in rows.items()
        )
        runs = max(by[label]["runs"] for by in rows.values())
        told.append(
            f"{title}, {order} order, {label} model, {runs} runs, coverage of 50 / 80 / 95 % regions in %: {parts}."
        )
    for level, (low, high) in GOALS.items():
        at = LEVELS.index(level)
        met = [n for n, by in rows.items() if _inside(level, by[DEFAULT]["mean"][at])]
        missed = {n: by[DEFAULT]["mean"][at] for n, by in rows.items() if n not in met}
        words = f"{title}, {order} order: the default model's {level:.0%} regions hold {low:.0%} to {high:.0%}"
        if not missed:
            told.append(f"{words} at every n.")
        else:
            other = ", ".join(f"{100 * share:.1f} % at n = {n}" for n, share in missed.items())
            told.append(f"{words} at {len(met)} of {len(rows)} numbers of annotations, but {other}.")
    return told


def _figure(numbers: dict[str, Any]) -> Any:
    """Draw one column per dataset and one row per order: coverage of each level, the paper's dashed, goals as bands."""
    figure = matplotlib().figure.Figure(
        figsize=(3.1 * len(numbers) + 0.4, 2.8 * len(ORDERS)), layout="constrained", facecolor="white"
    )
    places = figure.subplots(len(ORDERS), len(numbers), squeeze=False, sharey=True)
    for column, (dataset, orders) in enumerate(numbers.items()):
        for row, (order, counts) in enumerate(orders.items()):
            axes = places[row, column]
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=8)
            for low, high in GOALS.values():
                axes.axhspan(100 * low, 100 * high, color="#E9E9E9")
            for at, level in enumerate(LEVELS):
                axes.axhline(100 * level, color="#9A9A9A", linewidth=0.8)
                for label, style in ((PAPER, "--"), (DEFAULT, "-")):
                    shares = [100 * by[label]["mean"][at] for by in counts.values()]
                    name = f"{level:.0%}, {label}" if row == column == 0 else None
                    axes.plot(list(counts), shares, style, color=OKABE_ITO[at], marker="o", markersize=3, label=name)
            axes.set_ylim(30, 101)
            axes.set_title(f"{TITLES[dataset]}, {order}", fontsize=9)
            axes.set_xlabel("number of annotations", fontsize=8)
    places[0, 0].set_ylabel("held-out landmarks inside, %", fontsize=8)
    figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure


EXPERIMENT = Experiment(
    "calibration",
    "coverage of the 50, 80 and 95 % regions against the number of annotations: the paper's model and the default one",
    100,
    plan,
    compute,
    report,
    tuple(COUNTS),
)
