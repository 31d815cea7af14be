"""Entropy informed by a target structure against strategies that do not know it (section IV-B-2).

The targets are points on the edge of a labelled structure, the candidates are corners of the whole brain, and the error
is measured at the targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.candidates import targets_from_labels
from warpgauge.experiments.brains import brain_pair, deformation, labelled_brain, structures
from warpgauge.experiments.curve_summary import curves_figure, gathered, panel, sentences, summary
from warpgauge.experiments.curves import annotation_curve, disc, exact_answers, paper_prior, rng_for
from warpgauge.experiments.experiment import Experiment, Findings, Result, Run
from warpgauge.simulate import SimulatedDeformation

TITLES = {"cobra": "CoBrA labels", "aal": "AAL labels", "tissue": "Grey and white matter"}
LABELS = {
    "random": "Random",
    "farthest": "Heuristic",
    "uninformed": "Entropy without T",
    "informed": "Entropy with T",
}
DIFFERENCES = [("Heuristic", "Entropy with T"), ("Entropy without T", "Entropy with T")]
COUNT, TARGETS = 100, 150
STRUCTURES = 10  # a deformation
QUICK_RUNS, QUICK_COUNT = 4, 15


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ten random structures (or all, where there are fewer) for each deformation of each brain."""
    planned = []
    for name in TITLES:
        known = structures(data, name)
        each = min(STRUCTURES, len(known))
        for at in range(min(runs, QUICK_RUNS) if quick else runs):
            which, turn = divmod(at, each)
            drawn = np.random.SeedSequence(seed, spawn_key=(list(TITLES).index(name), which)).generate_state(2)
            chosen = rng_for(int(drawn[0]), 3).permutation(known)[turn]
            count = QUICK_COUNT if quick else COUNT
            parameters = {
                "dataset": name,
                "structure": int(chosen),
                "deformation": int(drawn[0]),
                "training": int(drawn[1]),
                "split": int(drawn[0]) + turn,
                "count": count,
            }
            planned.append(Run(f"{name}-{seed}-{at:04d}-{count}", parameters))
    return planned


@lru_cache(maxsize=4)
def _deformation(data: Path, name: str, seed: int) -> SimulatedDeformation:
    return deformation(labelled_brain(data, name), seed)


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Let each strategy ask among the corners, and measure at the edge of the structure."""
    name, seed = str(run.parameters["dataset"]), int(run.parameters["split"])
    brain = labelled_brain(data, name)
    edge = targets_from_labels(brain.labels, brain.grid, int(run.parameters["structure"]), count=TARGETS, seed=seed)
    pair = brain_pair(brain, _deformation(data, name, int(run.parameters["deformation"])), name, edge)
    other = brain_pair(brain, _deformation(data, name, int(run.parameters["training"])), name, edge[:1])
    lessons = rng_for(seed, 2).permutation(len(other))[: len(other) // 2]
    prior = paper_prior(pair, [exact_answers(other.fixed[lessons], other.moving[lessons], disc(other))])
    answers = exact_answers(pair.fixed, pair.moving, disc(pair))
    truth = _deformation(data, name, int(run.parameters["deformation"])).map(edge)
    curves = {}
    for key in LABELS:
        strategy = "entropy" if key in ("informed", "uninformed") else key
        curves[key] = annotation_curve(
            prior, answers, edge, truth, strategy=strategy, seed=seed, count=int(run.parameters["count"]),
            targets=edge if key == "informed" else None,
        ).errors["2"]  # fmt: skip
    return {"curves": [curves], "weights": prior.kernel.weights}


def report(results: Sequence[Result]) -> Findings:
    """Sum up each brain: mean curves, and the differences to informed Entropy."""
    numbers: dict[str, Any] = {}
    panels, told = [], []
    for name, curves in gathered(results, LABELS).items():
        numbers[name] = {"unit": "mm", **summary(curves, DIFFERENCES)}
        panels.append(panel(TITLES[name], curves, "mm", DIFFERENCES))
        told.extend(sentences(TITLES[name], curves, "mm", DIFFERENCES))
    return Findings(numbers, {"curves": curves_figure(panels)}, told)


EXPERIMENT = Experiment(
    "targets",
    "Entropy informed by a target structure, in labelled brains",
    50,
    plan,
    compute,
    report,
    ("afids", "cobralab"),
)
