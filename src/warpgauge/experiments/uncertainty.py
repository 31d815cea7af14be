"""Annotations with the ellipses of the log-normal user, and with ellipses five times as large (section IV-B-3).

The paper does not say whether the simulated placements scatter as the ellipses say, so both are run: "noisy" placements
are drawn from the stated distribution about the landmark, "exact" ones are the landmark itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpgauge.experiments import default_setting
from warpgauge.experiments.curve_summary import curves_figure, gathered, panel, sentences, summary
from warpgauge.experiments.curves import annotation_curve
from warpgauge.experiments.experiment import Experiment, Findings, Result, Run
from warpgauge.experiments.strategies import DIFFERENCES, LABELS
from warpgauge.simulate import EllipseAnnotator

# Name: factor on the semi-axes, whether placements scatter, title.
CONDITIONS = {
    "ellipses": (1.0, True, "Ellipses"),
    "fivefold": (5.0, True, "Fivefold ellipses"),
    "ellipses-exact": (1.0, False, "Ellipses, exact placements"),
    "fivefold-exact": (5.0, False, "Fivefold, exact placements"),
}


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan the same splits of CIMA for each condition."""
    splits = default_setting.plan(data, ("cima",), runs, seed, quick)
    return [
        Run(f"{condition}-{run.key}", {**run.parameters, "condition": condition})
        for condition in CONDITIONS
        for run in splits
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Draw the user's answer at every candidate, the same for all strategies, and let each annotate."""
    given = default_setting.setting(data, run)
    prior = given.prior()
    parts, seed = given.halves, int(run.parameters["split"])
    factor, noisy, _ = CONDITIONS[str(run.parameters["condition"])]
    user = EllipseAnnotator(scale=factor, pixel_size=given.pair.pixel, noisy=noisy)
    answers = user.annotate(parts.fixed, lambda _: parts.moving, seed)
    curves = {
        strategy: annotation_curve(
            prior, answers, parts.held_fixed, parts.held_moving, strategy=strategy, seed=seed,
            count=int(run.parameters["count"]),
        ).errors["2"]
        for strategy in LABELS
    }  # fmt: skip
    return {"curves": [curves], "weights": prior.kernel.weights}


def report(results: Sequence[Result]) -> Findings:
    """Sum up each condition: mean curves, and Heuristic minus Entropy."""
    numbers: dict[str, Any] = {}
    panels, told = [], []
    for condition, curves in gathered(results, LABELS, "condition").items():
        title = CONDITIONS[condition][2]
        numbers[condition] = {"unit": "px", **summary(curves, DIFFERENCES)}
        panels.append(panel(title, curves, "px", DIFFERENCES[:1]))
        told.extend(sentences(title, curves, "px", DIFFERENCES[:1]))
    return Findings(numbers, {"curves": curves_figure(panels)}, told)


EXPERIMENT = Experiment(
    "uncertainty",
    "Random, Heuristic and Entropy with the ellipses of a log-normal user, and fivefold",
    120,
    plan,
    compute,
    report,
    ("cima",),
)
