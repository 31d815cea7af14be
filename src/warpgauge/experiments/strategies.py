"""Random, Heuristic and Entropy in the paper's default setting, on five datasets (section IV-B-1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpgauge.experiments import default_setting
from warpgauge.experiments.curve_summary import curves_figure, gathered, panel, sentences, summary
from warpgauge.experiments.curves import annotation_curve
from warpgauge.experiments.default_setting import TEN, TITLES, UNITS
from warpgauge.experiments.experiment import Experiment, Findings, Result, Run

LABELS = {"random": "Random", "farthest": "Heuristic", "entropy": "Entropy"}
DIFFERENCES = [("Heuristic", "Entropy"), ("Random", "Entropy")]


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run for each split of each dataset."""
    return default_setting.plan(data, tuple(TITLES), runs, seed, quick)


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Let each strategy annotate the same half and measure on the other."""
    given = default_setting.setting(data, run)
    prior = given.prior()
    parts, seed = given.halves, int(run.parameters["split"])
    curves = {
        strategy: annotation_curve(
            prior, given.answers, parts.held_fixed, parts.held_moving, strategy=strategy, seed=seed,
            count=int(run.parameters["count"]), first=given.first,
        ).errors["2"]
        for strategy in LABELS
    }  # fmt: skip
    return {"curves": [curves], "weights": prior.kernel.weights, "scales": prior.kernel.scales}


def report(results: Sequence[Result]) -> Findings:
    """Sum up each dataset: mean curves, and Heuristic minus Entropy."""
    numbers: dict[str, Any] = {}
    panels, told = [], []
    for dataset, curves in gathered(results, LABELS).items():
        title, unit = TITLES[dataset], UNITS[dataset]
        start = TEN if dataset == "dense" else 1  # before that all strategies share their annotations
        shown = {label: values[:, start - 1 :] for label, values in curves.items()}
        numbers[dataset] = {"unit": unit, **summary(shown, DIFFERENCES, start)}
        panels.append(panel(title, shown, unit, DIFFERENCES[:1], start))
        told.extend(sentences(title, shown, unit, DIFFERENCES[:1], start))
    return Findings(numbers, {"curves": curves_figure(panels)}, told)


EXPERIMENT = Experiment(
    "strategies",
    "Random, Heuristic and Entropy: error of the posterior mean against the number of annotations",
    120,
    plan,
    compute,
    report,
    ("cima", "copdgene", "dirlab4dct"),
)
