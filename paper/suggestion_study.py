"""Strategies of suggestion beyond the paper's, against Entropy.

Three questions: does another objective lower the error faster (four landmark sets), does it help to expect how exact an
annotation will be (two CIMA regions with images), and which strategy finds the best of several transforms soonest
(simulated registrations, and real ones of elastix-lung).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import warpgauge as wg
from paper import default_setting, suggestion_parts
from paper.curves import (
    Panel,
    annotation_curve,
    curves_figure,
    deciles,
    disc,
    exact_answers,
    paper_scales,
    plain_axes,
    summary,
)
from paper.datasets import DATASETS, Floats, LandmarkPair, cima, folders
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.maps import OKABE_ITO

LABELS = {
    "random": "Random", "farthest": "Heuristic", "entropy": "Entropy", "variance": "Variance",
    "mutual_information": "Mutual information",
}  # fmt: skip
MODELS = ("paper", "trend")
NOISE = {"entropy": "Entropy", "noise_aware": "Noise-aware"}
AREA_FROM = 5  # annotations from which on the area counts: before, the errors of all are those of the trend


def areas(curves: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Area under each curve from the fifth annotation on, as a share of Entropy's on the same split."""
    length = min(len(one) for every in curves.values() for one in every)
    start = min(AREA_FROM, length) - 1
    area = {name: np.array([one[start:length] for one in every]).mean(axis=1) for name, every in curves.items()}
    found = {}
    for name, values in area.items():
        low, middle, high = deciles(values / area["entropy"])
        log = np.log(values / area["entropy"])
        found[name] = {
            "runs": len(values),
            "mean area": float(values.mean()),
            "share": {"first decile": float(low), "median": float(middle), "ninth decile": float(high)},
            "mean percent": float(100 * np.expm1(log.mean())),
            "standard error percent": float(100 * log.std(ddof=1) / np.sqrt(len(log))) if len(log) > 1 else 0.0,
            "better": float((values < area["entropy"]).mean()),
        }
    return found


def report(results: Sequence[Result]) -> Findings:
    """Areas by dataset and model, the noise-aware curves, and the numbers of annotations of the contests."""
    numbers: dict[str, Any] = {}
    sentences: list[str] = []
    figures: dict[str, Any] = {}
    _report_curves(results, numbers, sentences, figures)
    _report_noise(results, numbers, sentences, figures)
    _report_contests(results, numbers, sentences, figures)
    return Findings(numbers, figures, sentences)


def _of(results: Sequence[Result], part: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for run, result in results:
        if run.parameters["part"] == part:
            found.setdefault(str(run.parameters["dataset"]), []).append(result)
    return found


def _report_curves(results: Sequence[Result], numbers: Any, sentences: list[str], figures: Any) -> None:
    panels = []
    for dataset, every in _of(results, "curves").items():
        for model in MODELS:
            curves = {name: [result[model][name] for result in every] for name in LABELS}
            found = areas(curves)
            length = min(len(one) for many in curves.values() for one in many)
            arrays = {label: np.array([one[:length] for one in curves[name]]) for name, label in LABELS.items()}
            numbers[f"{dataset}, {model}"] = {"areas": found, **summary(arrays, [])}
            sentences += [
                _area_sentence(DATASETS[dataset].title, model, LABELS[name], found[name])
                for name in LABELS
                if name != "entropy"
            ]
            if model == "trend":
                differences = [("Entropy", "Variance"), ("Entropy", "Mutual information")]
                panels.append(
                    Panel(DATASETS[dataset].title, arrays, range(1, length + 1), DATASETS[dataset].units, differences)
                )
    if panels:
        figures["curves"] = curves_figure(panels)


def _area_sentence(title: str, model: str, label: str, found: dict[str, Any]) -> str:
    share = found["share"]
    return (
        f"{title}, {model} model: the area under the error curve of {label} is {found['mean percent']:+.1f} % "
        f"(standard error {found['standard error percent']:.1f}) from Entropy's over {found['runs']} runs, median "
        f"ratio {share['median']:.3f} (deciles {share['first decile']:.3f}, {share['ninth decile']:.3f}), smaller in "
        f"{100 * found['better']:.0f} % of them."
    )


def _report_noise(results: Sequence[Result], numbers: Any, sentences: list[str], figures: Any) -> None:
    for every in _of(results, "noise").values():
        curves = {name: [result["curves"][name] for result in every] for name in NOISE}
        length = min(len(one) for many in curves.values() for one in many)
        arrays = {label: np.array([one[:length] for one in curves[name]]) for name, label in NOISE.items()}
        differences = [("Entropy", "Noise-aware")]
        numbers["noise"] = {"areas": areas(curves), **summary(arrays, differences)}
        sentences.append(
            _area_sentence(
                "Ellipses by the structure tensor", "trend", "Noise-aware", numbers["noise"]["areas"]["noise_aware"]
            )
        )
        panel = Panel("CIMA, ellipses by the image", arrays, range(1, length + 1), "px", differences)
        figures["noise"] = curves_figure([panel])
    raters = {run.parameters["stain"]: found for run, found in results if run.parameters["part"] == "raters"}
    numbers["raters and tensor"] = raters
    for stain, found in raters.items():
        sentences.append(
            f"lung-lesion_3 {stain}: rank correlation of the tensor's eigenvalues with the raters' distance along its "
            f"axes {found['components']:.2f} (p = {found['components p']:.2g}), of sizes {found['sizes']:.2f} "
            f"(p = {found['sizes p']:.2g}), of directions {found['directions']:.2f} (p = {found['directions p']:.2g})."
        )


def _report_contests(results: Sequence[Result], numbers: Any, sentences: list[str], figures: Any) -> None:
    curves: dict[str, Any] = {}
    for dataset, every in _of(results, "decision").items():
        limit = len(every[0]["contest"]["entropy"]["asked"])
        numbers[f"decision, {dataset}"] = {
            name: contest_numbers([result["contest"][name] for result in every],
                                  [result["contest"]["entropy"] for result in every], limit)
            for name in suggestion_parts.STRATEGIES
        }  # fmt: skip
        curves[dataset] = {
            name: np.array([result["contest"][name]["true best"] for result in every])
            for name in suggestion_parts.STRATEGIES
        }
        found = numbers[f"decision, {dataset}"]
        sentences += [_contest_sentence(dataset, name, found[name], limit) for name in suggestion_parts.STRATEGIES]
    if curves:
        figures["decision"] = decision_figure(curves, suggestion_parts.FIRST, suggestion_parts.SURE)


def _contest_sentence(dataset: str, name: str, found: dict[str, Any], limit: int) -> str:
    return (
        f"{dataset}, {name}: the true best of the transforms is known with 95 % after {found['median']:g} annotations "
        f"in the median of {found['runs']} runs (mean {found['mean']:.1f}, those never counted as {limit + 1}), in "
        f"{100 * found['reached']:.0f} % within {limit}; {found['mean saved']:+.1f} (standard error "
        f"{found['standard error']:.1f}) fewer than with Entropy; the first that was held for best with 95 % was "
        f"the true best in {100 * found['right when first sure']:.0f} %."
    )


def right_when_sure(curves: list[dict[str, Any]]) -> float:
    """Return the share of correct first confident calls of the best, among the runs that made one; NaN without any."""
    firsts = [
        next(
            (right for lead, right in zip(curve["lead"], curve["right"], strict=True) if lead >= suggestion_parts.SURE),
            None,
        )
        for curve in curves
    ]
    sure = [right for right in firsts if right is not None]
    return float(np.mean(sure)) if sure else float("nan")


def contest_numbers(curves: list[dict[str, Any]], entropy: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """Annotations until the true best is known, and how many fewer than with Entropy."""
    counts = np.array([suggestion_parts.identified(curve, limit) for curve in curves])
    saved = np.array([suggestion_parts.identified(curve, limit) for curve in entropy]) - counts
    return {
        "runs": len(counts),
        "median": float(np.median(counts)),
        "mean": float(counts.mean()),
        "reached": float((counts <= limit).mean()),
        "mean saved": float(saved.mean()),
        "standard error": float(saved.std(ddof=1) / np.sqrt(len(saved))) if len(saved) > 1 else 0.0,
        "sooner": float((saved > 0).mean()),
        "later": float((saved < 0).mean()),
        "misled": float(np.mean([suggestion_parts.misled(curve) for curve in curves])),
        "right when first sure": right_when_sure(curves),
        "right at the end": float(np.mean([curve["right"][-1] for curve in curves])),
    }


_MARKS = ("o", "s", "^", "D", "v", "P")


def decision_figure(curves: Mapping[str, Mapping[str, Floats]], first: int, sure: float) -> Any:
    """Draw a panel for each set of contests: share of runs that have known the true best so far.

    Parameters
    ----------
    curves : mapping
        By dataset and strategy, the least win probability of the true best, one row per run, from ``first`` on.
    first : int
        Annotations that all strategies share.
    sure : float
        The probability at which a best is held for known.
    """
    figure = Figure(figsize=(4.4 * len(curves), 3.2), layout="constrained", facecolor="white")
    for axes, (dataset, by) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for at, (strategy, values) in enumerate(by.items()):
            known = np.logical_or.accumulate(values >= sure, axis=1).mean(axis=0)
            counts = first + np.arange(len(known))
            axes.plot(counts, known, color=OKABE_ITO[at], marker=_MARKS[at], markevery=(at, 6), markersize=4,
                      linewidth=1.4, label=strategy)  # fmt: skip
        plain_axes(axes)
        axes.set_title(dataset, fontsize=10)
        axes.set_xlabel("number of annotations", fontsize=9)
        axes.set_ylabel(f"share that knew the true best at {sure:g}", fontsize=9)
        axes.legend(fontsize=7, frameon=False)
    return figure


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
        stains = suggestion_parts.PAIRS[at // 2 % len(suggestion_parts.PAIRS)]
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
        return suggestion_parts.two_raters_and_the_tensor(data, given["stain"])
    split, count = int(given["split"]), int(given["count"])
    if part == "noise":
        stains = (given["stains"][0], given["stains"][1])
        prior = _noise_prior(data, given["region"], stains)
        return {"curves": suggestion_parts.compare(data, given["region"], stains, prior, split, count)}
    contest = (
        suggestion_parts.simulated(split) if given["dataset"] == "simulated" else suggestion_parts.lung(data, split)
    )
    curves = {name: suggestion_parts.contend(contest, name, count, split) for name in suggestion_parts.STRATEGIES}
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
    """Return the model with an affine trend about the pair's middle, weights and noise learned on the training pair."""
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
    folders((*CURVE_SETS, "elastix-lung")),
)
