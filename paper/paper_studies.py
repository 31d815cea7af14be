"""The paper's studies of suggestion and of the kernel bundle (sections IV-B and IV-D).

======================  =========  ==============================================================================
study                   section    question
======================  =========  ==============================================================================
:data:`STRATEGIES`      IV-B-1     Random, Heuristic and Entropy in the paper's default setting, on five datasets
:data:`TARGETS`         IV-B-2     Entropy informed by a target structure against strategies that do not know it
:data:`UNCERTAINTY`     IV-B-3     annotations with the ellipses of the log-normal user, and five times as large
:data:`KERNELS`         IV-D-1     Wendland, Gaussian and inverse quadratic functions in the bundle
:data:`SCALES`          IV-D-2     one scale, half of them, or all of them in the bundle
======================  =========  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper import default_setting
from paper.brains import BRAINS, brain_pair, deformation, labelled_brain, structures
from paper.curves import (
    Panel,
    annotation_curve,
    curves_figure,
    disc,
    exact_answers,
    gathered,
    paper_prior,
    paper_scales,
    rng_for,
    sentences,
    summary,
)
from paper.datasets import DATASETS, Floats, LandmarkPair, folders
from paper.default_setting import CURVES, TEN
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.candidates import targets_from_labels
from warpgauge.simulate import EllipseAnnotator

NAMED = {name: (one.title, one.units) for name, one in DATASETS.items()}


def _compared(
    results: Sequence[Result],
    labels: dict[str, str],
    differences: list[tuple[str, str]],
    named: Mapping[str, tuple[str, str]] = NAMED,
    *,
    by: str = "dataset",
    shown: int | None = None,
) -> Findings:
    """Sum up each dataset, or other parameter, with title and unit by its name; show the first differences or all."""
    numbers: dict[str, Any] = {}
    panels = []
    told = []
    for name, curves in gathered(results, labels, by).items():
        title, unit = named[name]
        numbers[name] = {"unit": unit, **summary(curves, differences)}
        panels.append(Panel(title, curves, unit, differences[:shown]))
        told.extend(sentences(title, curves, unit, differences[:shown]))
    return Findings(numbers, {"curves": curves_figure(panels)}, told)


STRATEGY_LABELS = {"random": "Random", "farthest": "Heuristic", "entropy": "Entropy"}
STRATEGY_DIFFERENCES = [("Heuristic", "Entropy"), ("Random", "Entropy")]


def _plan_strategies(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run for each split of each dataset."""
    return default_setting.plan(data, CURVES, runs, seed, quick)


def _compute_strategies(data: Path, run: Run) -> dict[str, Any]:
    """Let each strategy annotate the same half and measure on the other."""
    given = default_setting.setting(data, run)
    prior = given.prior()
    curves = _by_strategy(given, run, prior, given.answers)
    return {"curves": [curves], "weights": prior.kernel.weights, "scales": prior.kernel.scales}


def _by_strategy(
    given: default_setting.Setting, run: Run, prior: wg.TransformationPrior, answers: wg.Annotations
) -> dict[str, list[float]]:
    """Let each strategy annotate; return its error curve by its name."""
    parts = given.halves
    seed = int(run.parameters["split"])
    count = int(run.parameters["count"])
    return {
        strategy: annotation_curve(
            prior, answers, parts.held_fixed, parts.held_moving, strategy=strategy, seed=seed, count=count,
            first=given.first,
        )
        for strategy in STRATEGY_LABELS
    }  # fmt: skip


def _report_strategies(results: Sequence[Result]) -> Findings:
    """Sum up each dataset: mean curves, and Heuristic minus Entropy."""
    numbers: dict[str, Any] = {}
    panels = []
    told = []
    for dataset, curves in gathered(results, STRATEGY_LABELS).items():
        title, unit = NAMED[dataset]
        start = TEN if dataset == "dense" else 1  # before that all strategies share their annotations
        shown = {label: values[:, start - 1 :] for label, values in curves.items()}
        numbers[dataset] = {"unit": unit, **summary(shown, STRATEGY_DIFFERENCES, start)}
        panels.append(Panel(title, shown, unit, STRATEGY_DIFFERENCES[:1], start))
        told.extend(sentences(title, shown, unit, STRATEGY_DIFFERENCES[:1], start))
    return Findings(numbers, {"curves": curves_figure(panels)}, told)


STRATEGIES = Experiment(
    "strategies",
    "Random, Heuristic and Entropy: error of the posterior mean against the number of annotations",
    120,
    _plan_strategies,
    _compute_strategies,
    _report_strategies,
    folders(CURVES),
)


# The paper does not say whether the simulated placements scatter as the ellipses say, so both are run: "noisy"
# placements are drawn from the stated distribution about the landmark, "exact" ones are the landmark itself.
# Name: factor on the semi-axes, whether placements scatter, title.
CONDITIONS = {
    "ellipses": (1.0, True, "Ellipses"),
    "fivefold": (5.0, True, "Fivefold ellipses"),
    "ellipses-exact": (1.0, False, "Ellipses, exact placements"),
    "fivefold-exact": (5.0, False, "Fivefold, exact placements"),
}


def _plan_uncertainty(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan the same splits of CIMA for each condition."""
    splits = default_setting.plan(data, ("cima",), runs, seed, quick)
    return [
        Run(f"{condition}-{run.key}", {**run.parameters, "condition": condition})
        for condition in CONDITIONS
        for run in splits
    ]


def _compute_uncertainty(data: Path, run: Run) -> dict[str, Any]:
    """Draw the user's answer at every candidate, the same for all strategies, and let each annotate."""
    given = default_setting.setting(data, run)
    prior = given.prior()
    parts = given.halves
    seed = int(run.parameters["split"])
    factor, noisy, _ = CONDITIONS[str(run.parameters["condition"])]
    user = EllipseAnnotator(scale=factor, pixel_size=given.pair.pixel, noisy=noisy)
    answers = user.annotate(parts.fixed, lambda _: parts.moving, seed)
    return {"curves": [_by_strategy(given, run, prior, answers)], "weights": prior.kernel.weights}


def _report_uncertainty(results: Sequence[Result]) -> Findings:
    """Sum up each condition: mean curves, and Heuristic minus Entropy."""
    named = {name: (title, "px") for name, (_, _, title) in CONDITIONS.items()}
    return _compared(results, STRATEGY_LABELS, STRATEGY_DIFFERENCES, named, by="condition", shown=1)


UNCERTAINTY = Experiment(
    "uncertainty",
    "Random, Heuristic and Entropy with the ellipses of a log-normal user, and fivefold",
    120,
    _plan_uncertainty,
    _compute_uncertainty,
    _report_uncertainty,
    ("cima",),
)


# The targets are points on the edge of a labelled structure, the candidates are corners of the whole brain, and the
# error is measured at the targets.
TARGET_LABELS = {
    "random": "Random",
    "farthest": "Heuristic",
    "uninformed": "Entropy without T",
    "informed": "Entropy with T",
}
TARGET_DIFFERENCES = [("Heuristic", "Entropy with T"), ("Entropy without T", "Entropy with T")]
TARGET_COUNT = 100
EDGE_POINTS = 150
STRUCTURES = 10  # per deformation
QUICK_TARGET_RUNS = 4
QUICK_TARGET_COUNT = 15


def _plan_targets(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ten random structures (or all, where there are fewer) for each deformation of each brain."""
    planned = []
    for name in BRAINS:
        known = structures(data, name)
        each = min(STRUCTURES, len(known))
        for at in range(min(runs, QUICK_TARGET_RUNS) if quick else runs):
            which, turn = divmod(at, each)
            drawn = np.random.SeedSequence(seed, spawn_key=(list(BRAINS).index(name), which)).generate_state(2)
            chosen = rng_for(int(drawn[0]), 3).permutation(known)[turn]
            count = QUICK_TARGET_COUNT if quick else TARGET_COUNT
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
def _deformation(data: Path, name: str, seed: int) -> Any:
    return deformation(labelled_brain(data, name), seed)


def _compute_targets(data: Path, run: Run) -> dict[str, Any]:
    """Let each strategy ask among the corners, and measure at the edge of the structure."""
    name = str(run.parameters["dataset"])
    seed = int(run.parameters["split"])
    brain = labelled_brain(data, name)
    edge = targets_from_labels(brain.labels, brain.grid, int(run.parameters["structure"]), count=EDGE_POINTS, seed=seed)
    pair = brain_pair(brain, _deformation(data, name, int(run.parameters["deformation"])), name, edge)
    other = brain_pair(brain, _deformation(data, name, int(run.parameters["training"])), name, edge[:1])
    lessons = rng_for(seed, 2).permutation(len(other))[: len(other) // 2]
    prior = paper_prior(pair, [exact_answers(other.fixed[lessons], other.moving[lessons], disc(other))])
    answers = exact_answers(pair.fixed, pair.moving, disc(pair))
    truth = _deformation(data, name, int(run.parameters["deformation"])).map(edge)
    curves = {}
    for key in TARGET_LABELS:
        strategy = "entropy" if key in ("informed", "uninformed") else key
        curves[key] = annotation_curve(
            prior, answers, edge, truth, strategy=strategy, seed=seed, count=int(run.parameters["count"]),
            targets=edge if key == "informed" else None,
        )  # fmt: skip
    return {"curves": [curves], "weights": prior.kernel.weights}


def _report_targets(results: Sequence[Result]) -> Findings:
    """Sum up each brain: mean curves, and the differences to informed Entropy."""
    named = {name: (one.title, "mm") for name, one in BRAINS.items()}
    return _compared(results, TARGET_LABELS, TARGET_DIFFERENCES, named)


TARGETS = Experiment(
    "targets",
    "Entropy informed by a target structure, in labelled brains",
    50,
    _plan_targets,
    _compute_targets,
    _report_targets,
    tuple(one.folder for one in BRAINS.values() if one.folder),
)


BUNDLE_SETS = ("cima", "copdgene")
FAMILY_LABELS = {"wendland": "Wendland", "gaussian": "Gaussian", "inverse_quadratic": "Inverse quadratic"}
FAMILY_DIFFERENCES = [("Gaussian", "Wendland"), ("Inverse quadratic", "Wendland")]
BUNDLE_LABELS = {"one": "One scale", "half": "Half of the scales", "all": "All scales"}
BUNDLE_DIFFERENCES = [("One scale", "All scales"), ("Half of the scales", "All scales")]


def _plan_bundles(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run for each split of CIMA and COPDgene."""
    return default_setting.plan(data, BUNDLE_SETS, runs, seed, quick)


def _compute_kernels(data: Path, run: Run) -> dict[str, Any]:
    """Learn each family's weights on the training pair and let Entropy annotate with it."""
    given = default_setting.setting(data, run)
    return _by_prior(given, run, {family: given.prior(family) for family in FAMILY_LABELS})


def _by_prior(given: default_setting.Setting, run: Run, priors: Mapping[str, wg.TransformationPrior]) -> dict[str, Any]:
    """Let Entropy annotate with each prior; curves and weights by its name."""
    parts = given.halves
    seed = int(run.parameters["split"])
    count = int(run.parameters["count"])
    curves = {
        name: annotation_curve(
            prior, given.answers, parts.held_fixed, parts.held_moving, seed=seed, count=count
        )
        for name, prior in priors.items()
    }  # fmt: skip
    return {"curves": [curves], "weights": {name: prior.kernel.weights for name, prior in priors.items()}}


def _report_kernels(results: Sequence[Result]) -> Findings:
    """Sum up each dataset: mean curves, and each family's error minus Wendland's."""
    return _compared(results, FAMILY_LABELS, FAMILY_DIFFERENCES)


KERNELS = Experiment(
    "kernels",
    "Wendland, Gaussian and inverse quadratic functions: error against the number of annotations",
    80,
    _plan_bundles,
    _compute_kernels,
    _report_kernels,
    folders(BUNDLE_SETS),
)


def coarsest(pair: LandmarkPair) -> Floats:
    """Keep the coarsest scale alone."""
    return paper_scales(pair)[-1:]


def coarser_half(pair: LandmarkPair) -> Floats:
    """Keep the coarser half: 5 of 9, 3 of 6, as in the paper."""
    scales = paper_scales(pair)
    return scales[len(scales) // 2 :]


BUNDLES = {"one": coarsest, "half": coarser_half, "all": paper_scales}


def _compute_scales(data: Path, run: Run) -> dict[str, Any]:
    """Learn each bundle's weights on the training pair and let Entropy annotate with it."""
    given = default_setting.setting(data, run)
    return _by_prior(given, run, {which: given.prior(scales=scales) for which, scales in BUNDLES.items()})


def _report_scales(results: Sequence[Result]) -> Findings:
    """Sum up each dataset: mean curves, and the error with fewer scales minus that with all."""
    return _compared(results, BUNDLE_LABELS, BUNDLE_DIFFERENCES)


SCALES = Experiment(
    "scales",
    "One scale, half of them, all of them: error against the number of annotations",
    80,
    _plan_bundles,
    _compute_scales,
    _report_scales,
    folders(BUNDLE_SETS),
)
