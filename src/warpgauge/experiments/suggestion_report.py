"""What the suggestion study found: areas under curves, and numbers of annotations until the best is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpgauge.experiments import deciding
from warpgauge.experiments.comparing import summary
from warpgauge.experiments.default_setting import TITLES, UNITS
from warpgauge.experiments.experiment import Findings, Result
from warpgauge.experiments.figures import Panel, curves_figure, deciles
from warpgauge.experiments.suggestion_figures import decision_figure

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
                _area_sentence(TITLES[dataset], model, LABELS[name], found[name])
                for name in LABELS
                if name != "entropy"
            ]
            if model == "trend":
                differences = [("Entropy", "Variance"), ("Entropy", "Mutual information")]
                panels.append(Panel(TITLES[dataset], arrays, range(1, length + 1), UNITS[dataset], differences))
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
            for name in deciding.STRATEGIES
        }  # fmt: skip
        curves[dataset] = {
            name: np.array([result["contest"][name]["true best"] for result in every]) for name in deciding.STRATEGIES
        }
        found = numbers[f"decision, {dataset}"]
        sentences += [_contest_sentence(dataset, name, found[name], limit) for name in deciding.STRATEGIES]
    if curves:
        figures["decision"] = decision_figure(curves, deciding.FIRST, deciding.SURE)


def _contest_sentence(dataset: str, name: str, found: dict[str, Any], limit: int) -> str:
    return (
        f"{dataset}, {name}: the true best of the transforms is known with 95 % after {found['median']:g} annotations "
        f"in the median of {found['runs']} runs (mean {found['mean']:.1f}, those never counted as {limit + 1}), in "
        f"{100 * found['reached']:.0f} % within {limit}; {found['mean saved']:+.1f} (standard error "
        f"{found['standard error']:.1f}) fewer than with Entropy; the first that was held for best with 95 % was "
        f"the true best in {100 * found['right when first sure']:.0f} %."
    )


def right_when_sure(curves: list[dict[str, Any]]) -> float:
    """Share of the runs that were ever sure of a best in which the first such was the true best; NaN where none was."""
    firsts = [
        next((right for lead, right in zip(curve["lead"], curve["right"], strict=True) if lead >= deciding.SURE), None)
        for curve in curves
    ]
    sure = [right for right in firsts if right is not None]
    return float(np.mean(sure)) if sure else float("nan")


def contest_numbers(curves: list[dict[str, Any]], entropy: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """Annotations until the true best is known, and how many fewer than with Entropy."""
    counts = np.array([deciding.identified(curve, limit) for curve in curves])
    saved = np.array([deciding.identified(curve, limit) for curve in entropy]) - counts
    return {
        "runs": len(counts),
        "median": float(np.median(counts)),
        "mean": float(counts.mean()),
        "reached": float((counts <= limit).mean()),
        "mean saved": float(saved.mean()),
        "standard error": float(saved.std(ddof=1) / np.sqrt(len(saved))) if len(saved) > 1 else 0.0,
        "sooner": float((saved > 0).mean()),
        "later": float((saved < 0).mean()),
        "misled": float(np.mean([deciding.misled(curve) for curve in curves])),
        "right when first sure": right_when_sure(curves),
        "right at the end": float(np.mean([curve["right"][-1] for curve in curves])),
    }
