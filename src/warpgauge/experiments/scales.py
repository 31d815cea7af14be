"""One scale, half of them, or all of them in the bundle (section IV-D-2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpgauge.experiments import default_setting
from warpgauge.experiments.curves import annotation_curve, paper_scales
from warpgauge.experiments.datasets import Floats, LandmarkPair
from warpgauge.experiments.experiment import Experiment, Findings, Result, Run
from warpgauge.experiments.kernels import compared

LABELS = {"one": "One scale", "half": "Half of the scales", "all": "All scales"}
DIFFERENCES = [("One scale", "All scales"), ("Half of the scales", "All scales")]


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run for each split of CIMA and COPDgene."""
    return default_setting.plan(data, ("cima", "copdgene"), runs, seed, quick)


def coarsest(pair: LandmarkPair) -> Floats:
    """Keep the coarsest scale alone."""
    return paper_scales(pair)[-1:]


def coarser_half(pair: LandmarkPair) -> Floats:
    """Keep the coarser half: 5 of 9, 3 of 6, as in the paper."""
    scales = paper_scales(pair)
    return scales[len(scales) // 2 :]


BUNDLES = {"one": coarsest, "half": coarser_half, "all": paper_scales}


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Learn each bundle's weights on the training pair and let Entropy annotate with it."""
    given = default_setting.setting(data, run)
    parts, seed = given.halves, int(run.parameters["split"])
    curves, weights = {}, {}
    for which, scales in BUNDLES.items():
        prior = given.prior(scales=scales)
        weights[which] = prior.kernel.weights
        curves[which] = annotation_curve(
            prior, given.answers, parts.held_fixed, parts.held_moving, seed=seed, count=int(run.parameters["count"])
        ).errors["2"]
    return {"curves": [curves], "weights": weights}


def report(results: Sequence[Result]) -> Findings:
    """Sum up each dataset: mean curves, and the error with fewer scales minus that with all."""
    return compared(results, LABELS, DIFFERENCES)


EXPERIMENT = Experiment(
    "scales",
    "One scale, half of them, all of them: error against the number of annotations",
    80,
    plan,
    compute,
    report,
    ("cima", "copdgene"),
)
