"""Wendland, Gaussian and inverse quadratic functions in the bundle (section IV-D-1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpgauge.experiments import default_setting
from warpgauge.experiments.curve_summary import curves_figure, gathered, panel, sentences, summary
from warpgauge.experiments.curves import annotation_curve
from warpgauge.experiments.default_setting import TITLES, UNITS
from warpgauge.experiments.experiment import Experiment, Findings, Result, Run

LABELS = {"wendland": "Wendland", "gaussian": "Gaussian", "inverse_quadratic": "Inverse quadratic"}
DIFFERENCES = [("Gaussian", "Wendland"), ("Inverse quadratic", "Wendland")]


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run for each split of CIMA and COPDgene."""
    return default_setting.plan(data, ("cima", "copdgene"), runs, seed, quick)


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Learn each family's weights on the training pair and let Entropy annotate with it."""
    given = default_setting.setting(data, run)
    parts, seed = given.halves, int(run.parameters["split"])
    curves, weights = {}, {}
    for family in LABELS:
        prior = given.prior(family)
        weights[family] = prior.kernel.weights
        curves[family] = annotation_curve(
            prior, given.answers, parts.held_fixed, parts.held_moving, seed=seed, count=int(run.parameters["count"])
        ).errors["2"]
    return {"curves": [curves], "weights": weights}


def report(results: Sequence[Result]) -> Findings:
    """Sum up each dataset: mean curves, and each family's error minus Wendland's."""
    return compared(results, LABELS, DIFFERENCES)


def compared(results: Sequence[Result], labels: dict[str, str], differences: list[tuple[str, str]]) -> Findings:
    """Sum up each dataset with all differences drawn."""
    numbers: dict[str, Any] = {}
    panels, told = [], []
    for dataset, curves in gathered(results, labels).items():
        title, unit = TITLES[dataset], UNITS[dataset]
        numbers[dataset] = {"unit": unit, **summary(curves, differences)}
        panels.append(panel(title, curves, unit, differences))
        told.extend(sentences(title, curves, unit, differences))
    return Findings(numbers, {"curves": curves_figure(panels)}, told)


EXPERIMENT = Experiment(
    "kernels",
    "Wendland, Gaussian and inverse quadratic functions: error against the number of annotations",
    80,
    plan,
    compute,
    report,
    ("cima", "copdgene"),
)
