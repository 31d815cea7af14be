"""Strategies of suggestion beyond the paper's, against Entropy.

Three questions: does another objective lower the error faster (four landmark sets), does it help to expect how exact an
annotation will be (two CIMA regions with images), and which strategy finds the best of several transforms soonest
(simulated registrations, and real ones of elastix-lung).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from warpgauge.experiments import deciding, default_setting, expecting
from warpgauge.experiments.curves import annotation_curve, disc, exact_answers, paper_scales
from warpgauge.experiments.datasets import LandmarkPair, cima
from warpgauge.experiments.experiment import Experiment, Run
from warpgauge.experiments.suggestion_report import LABELS, report

CURVE_SETS = ("cima", "copdgene", "dirlab4dct", "brain")
CONTESTS = {"simulated": 60, "elastix-lung": 30}  # annotations at most
_LONGEST, _NOISE_COUNT = 60, 36


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` splits of each landmark set, of the pairs with images, and of each contest."""
    planned = []
    for run in default_setting.plan(data, CURVE_SETS, runs, seed, quick):
        count = min(int(run.parameters["count"]), _LONGEST)
        planned.append(Run(run.key, {**run.parameters, "count": count, "part": "curves"}))
    number = min(runs, 2) if quick else runs
    for at in range(number):
        region = ("lung-lesion_1", "lung-lesion_3")[at % 2]
        stains = expecting.PAIRS[at // 2 % len(expecting.PAIRS)]
        more = {"region": region, "stains": list(stains), "split": seed * 100_000 + at, "count": _NOISE_COUNT}
        planned.append(Run(f"ellipses-{seed}-{at:04d}", {"dataset": "ellipses", "part": "noise", **more}))
    planned += [
        Run(f"raters-{stain}", {"dataset": "ellipses", "part": "raters", "stain": stain}) for stain in ("He", "proSPC")
    ]
    for name, count in CONTESTS.items():
        for at in range(number):
            more = {"dataset": name, "part": "decision", "split": seed * 100_000 + at, "count": 12 if quick else count}
            planned.append(Run(f"{name}-{seed}-{at:04d}-{more['count']}", more))
    return planned


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Compute one run of whichever part."""
    part, given = run.parameters["part"], run.parameters
    if part == "curves":
        return _curves(data, run)
    if part == "raters":
        return expecting.two_raters_and_the_tensor(data, given["stain"])
    split, count = int(given["split"]), int(given["count"])
    if part == "noise":
        stains = (given["stains"][0], given["stains"][1])
        prior = _noise_prior(data, given["region"], stains)
        return {"curves": expecting.compare(data, given["region"], stains, prior, split, count)}
    contest = deciding.simulated(split) if given["dataset"] == "simulated" else deciding.lung(data, split)
    curves = {name: deciding.contend(contest, name, count, split) for name in deciding.STRATEGIES}
    return {"contest": curves, "true errors": contest.true_errors}


def _curves(data: Path, run: Run) -> dict[str, Any]:
    given = default_setting.setting(data, run)
    split, count = int(run.parameters["split"]), int(run.parameters["count"])
    rows = None if given.lessons is None else tuple(given.lessons)
    priors = {"paper": given.prior(), "trend": trend_prior(given.pair, given.teacher, rows)}
    parts = given.halves
    return {
        model: {
            strategy: annotation_curve(
                prior, given.answers, parts.held_fixed, parts.held_moving, strategy=strategy, seed=split, count=count,
                assumed=disc(given.pair),
            ).errors["2"]
            for strategy in LABELS
        }
        for model, prior in priors.items()
    }  # fmt: skip


def trend_prior(pair: LandmarkPair, teacher: LandmarkPair, rows: tuple[int, ...] | None) -> wg.TransformationPrior:
    """Give the model with an affine trend about the pair's middle, weights and noise learned on the training pair."""
    return replace(_taught(teacher, rows), center=np.array(pair.middle), fit=None)


@lru_cache(maxsize=64)
def _taught(teacher: LandmarkPair, rows: tuple[int, ...] | None) -> wg.TransformationPrior:
    scales = paper_scales(teacher)
    kernel = wg.KernelBundle("wendland", scales, np.full(len(scales), teacher.pixel**2))
    chosen = np.arange(len(teacher)) if rows is None else np.array(rows)
    lessons = exact_answers(teacher.fixed[chosen], teacher.moving[chosen], disc(teacher))
    start = wg.TransformationPrior(kernel, mean="affine", center=np.array(teacher.middle))
    return wg.fit_kernel(start, lessons, noise=True)


def _noise_prior(data: Path, region: str, stains: tuple[str, str]) -> wg.TransformationPrior:
    """Learn on the same stains of the other region that has images, at the scale of this one's."""
    percent = 10.0 if region == "lung-lesion_1" else 5.0
    other = "lung-lesion_3" if region == "lung-lesion_1" else "lung-lesion_1"
    pairs = {pair.name: pair for pair in cima(data, percent=percent)}
    here, there = (pairs[f"{name}_{stains[0]}_{stains[1]}"] for name in (region, other))
    return trend_prior(here, there, None)


EXPERIMENT = Experiment(
    "suggestion",
    "Strategies beyond the paper's: area under the error curve, and annotations until the best method is known",
    40,
    plan,
    compute,
    report,
    ("cima", "copdgene", "dirlab4dct", "elastix-lung"),
)
