"""How well the covariance fused from some raters predicts where another rater places the same points.

AFIDs: every rater is left out in turn, the others (all, and smaller groups of them) are fused, and the left-out
placement is compared with ``N(mean, (1 + 1/m) Sigma)``: its own scatter and that of the mean of m. CIMA has two raters,
so that one is predicted from the other with twice the covariance pooled over all other locations.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import chi2

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import Floats, afids_placements, cima_stains
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.errors import InvalidInputError
from warpgauge.maps import OKABE_ITO

LEVELS = (0.5, 0.8, 0.95)
POINTS = range(1, 33)
# Weight of the pooled covariance in placements; infinity is one covariance for all points.
METHODS: dict[str, float | None] = {
    "sample": None, "pooled, strength 1": 1.0, "pooled": 5.0, "pooled, strength 20": 20.0, "one for all": np.inf,
}  # fmt: skip
_GROUPS = 12  # groups of raters of one size that are tried at most, for each left-out rater
_TEMPLATES = {"tpl-MNIColin27": "colin27", "tpl-MNI152NLin6Asym": "mni152"}
CIMA_IMAGES = (
    ("lung-lesion_3", "He"), ("lung-lesion_3", "proSPC"), ("mammary-gland_1", "HE37"), ("mammary-gland_1", "PR"),
)  # fmt: skip


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run per image: ``runs`` HCP subjects, the two templates, and CIMA's four images with two raters."""
    subjects = sorted(image for image in afids_placements(data) if image not in _TEMPLATES)
    images = [(image, "hcp") for image in subjects[: min(runs, 2 if quick else runs)]]
    images += [(image, _TEMPLATES[image]) for image in sorted(_TEMPLATES)]
    planned = [Run(image, {"dataset": dataset, "image": image, "seed": seed}) for image, dataset in images]
    return planned + [
        Run(f"{region}-{stain}", {"dataset": "cima", "region": region, "stain": stain}) for region, stain in CIMA_IMAGES
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Tally one image."""
    if run.parameters["dataset"] == "cima":
        return two_raters(*cima_placements(data, run.parameters["region"], run.parameters["stain"]))
    by_rater = afids_placements(data)[run.parameters["image"]]
    complete = [point for point in POINTS if all(point in points for points in by_rater.values())]
    placements = np.array([[by_rater[rater][point] for point in complete] for rater in sorted(by_rater)])
    return several_raters(placements, int(run.parameters["seed"]))


def several_raters(placements: Floats, seed: int) -> dict[str, Any]:
    """Leave each rater out of (R, L, d) placements; tallies by method and number of raters, and distances of means."""
    tallies: dict[str, dict[str, Any]] = {}
    for left_out in range(len(placements)):
        others = [rater for rater in range(len(placements)) if rater != left_out]
        for size in range(2, len(others) + 1):
            for group in _groups(others, size, seed):
                for method, found in predictions(placements[group]):
                    tally = tallies.setdefault(f"{method}|{size}", _empty())
                    if found is None:
                        tally["refused"] += 1
                        continue
                    _count(tally, placements[left_out] - found[0], (1 + 1 / size) * found[1])
    return {"tallies": tallies, "distances": _distances(placements, seed), "raters": len(placements)}


def _groups(others: Sequence[int], size: int, seed: int) -> list[list[int]]:
    """All groups of one size, or some of them by the seed where there are many."""
    every = [list(group) for group in combinations(others, size)]
    if len(every) <= _GROUPS:
        return every
    chosen = rng_for(seed, 1, size, others[0]).choice(len(every), _GROUPS, replace=False)
    return [every[row] for row in np.sort(chosen)]


def predictions(placements: Floats) -> Iterator[tuple[str, tuple[Floats, Floats] | None]]:
    """Each method's mean (L, d) and covariance of one placement (L, d, d), None where the method refuses."""
    for method, strength in METHODS.items():
        if strength is None:
            try:
                fused = wg.fuse_raters(placements, "sample")
            except InvalidInputError:
                yield method, None
                continue
            yield method, (fused.points, fused.covariances)
        elif np.isinf(strength):
            fused = wg.fuse_raters(placements)
            yield method, (fused.points, np.broadcast_to(fused.pooled_covariance, fused.covariances.shape))
        else:
            fused = wg.fuse_raters(placements, prior_strength=strength)
            yield method, (fused.points, fused.covariances)


def _empty() -> dict[str, Any]:
    return {"count": 0, "refused": 0, "inside": dict.fromkeys(map(str, LEVELS), 0), "log score": 0.0, "variance": 0.0}


def _count(tally: dict[str, Any], misses: Floats, covariances: Floats) -> None:
    """Add (L, d) deviations from their predictions to a tally."""
    d = misses.shape[1]
    squares = np.einsum("la,la->l", misses, np.linalg.solve(covariances, misses[..., None])[..., 0])
    tally["count"] += len(misses)
    for level in LEVELS:
        tally["inside"][str(level)] += int((squares <= chi2.ppf(level, d)).sum())
    logs = d * np.log(2 * np.pi) + np.linalg.slogdet(covariances)[1]
    tally["log score"] += float(-0.5 * (squares + logs).sum())
    tally["variance"] += float(np.trace(covariances, axis1=1, axis2=2).sum() / d)


def _distances(placements: Floats, seed: int) -> dict[str, float]:
    """Mean distance between the mean of m raters and that of half of all raters, none of them among the m; by m."""
    raters = range(len(placements))
    half = len(placements) // 2
    found = {}
    for size in range(1, len(placements) - half + 1):
        apart = [
            placements[group].mean(axis=0) - placements[list(others)].mean(axis=0)
            for group in _groups(list(raters), size, seed)
            for others in combinations([rater for rater in raters if rater not in group], half)
        ]
        found[str(size)] = float(np.linalg.norm(apart, axis=2).mean())
    return found


def cima_placements(data: Path, region: str, stain: str) -> tuple[Floats, Floats]:
    """Both raters' points of one CIMA image, pixels of the annotated scale.

    A file of the second rater has its last row twice; rows beyond the first rater's are left out.
    """
    first, second = (_rows(cima_stains(data, region, rater)[stain][0]) for rater in ("PS", "JB"))
    if len(second) < len(first):
        raise InvalidInputError(f"The second rater of {region} {stain} has {len(second)} points, not {len(first)}.")
    return first, second[: len(first)]


def _rows(file: Path) -> Floats:
    with file.open() as lines:
        return np.array([[float(row["X"]), float(row["Y"])] for row in csv.DictReader(lines)])


def two_raters(first: Floats, second: Floats) -> dict[str, Any]:
    """Predict the second of two raters from the first, each location with the covariance of all others.

    A gross error, a placement nearer to another of the first rater's points than to its own, is left out of the
    covariance in ``"without gross errors"``, and of the count in ``"others only"``.
    """
    gross = gross_errors(first, second)
    tallies = {name: _empty() for name in ("one for all|1", "without gross errors|1", "others only|1")}
    for row in range(len(first)):
        rest = np.arange(len(first)) != row
        for name, used in (("one for all|1", rest), ("without gross errors|1", rest & ~gross)):
            single = wg.fuse_raters([first[used], second[used]]).pooled_covariance
            _count(tallies[name], second[[row]] - first[[row]], 2 * single[None])
            if name.startswith("without") and not gross[row]:
                _count(tallies["others only|1"], second[[row]] - first[[row]], 2 * single[None])
    lengths = np.linalg.norm(second - first, axis=1)
    return {
        "tallies": tallies,
        "distances": {"mean": float(lengths.mean()), "median": float(np.median(lengths))},
        "gross errors": int(gross.sum()),
        "raters": 2,
    }


def gross_errors(first: Floats, second: Floats) -> Any:
    """Return which placements of the second rater lie nearer to another of the first rater's points, (L,) bool."""
    distances = np.linalg.norm(second[:, None] - first[None], axis=2)
    return distances.argmin(axis=1) != np.arange(len(first))


def merged(results: Sequence[Result]) -> dict[str, dict[str, dict[str, Any]]]:
    """Add the tallies of all images of each dataset and make shares of them, by ``method|raters``."""
    sums: dict[str, dict[str, dict[str, Any]]] = {}
    for run, result in results:
        of = sums.setdefault(str(run.parameters["dataset"]), {})
        for key, tally in result["tallies"].items():
            total = of.setdefault(key, _empty())
            for name in ("count", "refused", "log score", "variance"):
                total[name] += tally[name]
            for level in map(str, LEVELS):
                total["inside"][level] += tally["inside"][level]
    return {name: {key: _shares(total) for key, total in by.items()} for name, by in sums.items()}


def _shares(total: dict[str, Any]) -> dict[str, Any]:
    count = total["count"]
    if count == 0:
        return {"placements": 0, "refused": total["refused"]}
    return {
        "placements": count,
        "refused": total["refused"],
        "coverage": {level: inside / count for level, inside in total["inside"].items()},
        "log score": total["log score"] / count,
        "sd": float(np.sqrt(total["variance"] / count)),
    }


def mean_distances(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Mean over a dataset's images of the distances."""
    gathered: dict[str, dict[str, list[float]]] = {}
    for run, result in results:
        of = gathered.setdefault(str(run.parameters["dataset"]), {})
        for key, value in result["distances"].items():
            of.setdefault(key, []).append(value)
    return {name: {key: float(np.mean(values)) for key, values in by.items()} for name, by in gathered.items()}


def report(results: Sequence[Result]) -> Findings:
    """Coverage and log score by method and number of raters, and how fast the mean settles."""
    shares, distances = merged(results), mean_distances(results)
    gross = {run.key: result["gross errors"] for run, result in results if "gross errors" in result}
    sentences = [sentence for name, by in shares.items() for sentence in _said(name, by)]
    for name, by in distances.items():
        if name != "cima":
            told = ", ".join(f"{value:.2f} mm with {size}" for size, value in by.items())
            sentences.append(f"{name}: mean distance from the mean of so many raters to that of half of them: {told}.")
    sentences += [f"cima {key}: {count} gross errors of the second rater." for key, count in gross.items()]
    afids = {name: by for name, by in shares.items() if name != "cima"}
    figures = {"coverage": raters_figure(afids, distances, LEVELS)} if afids else {}
    return Findings({"shares": shares, "distances": distances, "gross errors": gross}, figures, sentences)


def _said(dataset: str, by: dict[str, dict[str, Any]]) -> Iterator[str]:
    for key, found in by.items():
        method, size = key.split("|")
        if found["placements"] == 0:
            yield f"{dataset}, {size} raters: {method} is refused, the covariance would be singular."
            continue
        held = ", ".join(
            f"{100 * share:.0f} % in {100 * float(level):.0f} % regions" for level, share in found["coverage"].items()
        )
        yield (
            f"{dataset}, {size} raters fused by {method}: of {found['placements']} left-out placements {held}; mean "
            f"log score {found['log score']:.3f}, expected sd {found['sd']:.3g}."
        )


EXPERIMENT = Experiment(
    "raters",
    "How the covariance fused from some raters predicts a further rater, and how many raters it takes",
    30,
    plan,
    compute,
    report,
    ("afids", "cima"),
)


_SHOWN = ("sample", "pooled", "one for all")
_LINES = ("-", "--", ":")
_MARKS = ("o", "s", "^")


def raters_figure(
    shares: Mapping[str, Mapping[str, Mapping[str, Any]]],
    distances: Mapping[str, Mapping[str, float]],
    levels: Sequence[float],
) -> Any:
    """Draw the dataset with most raters: coverage and log score by method; and distances of all datasets.

    Parameters
    ----------
    shares : mapping
        By dataset and ``method|raters``.
    distances : mapping
        By dataset and number of raters.
    levels : sequence of float
        Levels of the regions.
    """
    dataset = max(shares, key=lambda name: len(distances[name]))
    figure = Figure(figsize=(10.4, 3.2), layout="constrained", facecolor="white")
    coverage, score, apart = figure.subplots(1, 3)
    for at, method in enumerate(_SHOWN):
        found = _by_size(shares[dataset], method)
        for line, level in zip(_LINES, levels, strict=True):
            values = [one["coverage"][str(level)] for one in found.values()]
            label = method if level == levels[0] else None
            coverage.plot(list(found), values, line, marker=_MARKS[at], markersize=4, color=OKABE_ITO[at], label=label)
        score.plot(list(found), [one["log score"] for one in found.values()], marker=_MARKS[at], markersize=4,
                   color=OKABE_ITO[at], label=method)  # fmt: skip
    score.set_yscale("symlog", linthresh=10)
    for level in levels:
        coverage.axhline(level, color="#8A8A8A", linewidth=0.8)
    for at, (name, by) in enumerate((name, by) for name, by in distances.items() if name in shares):
        apart.plot([int(size) for size in by], list(by.values()), marker=_MARKS[at % 3], markersize=4,
                   color=OKABE_ITO[at + 3], label=name)  # fmt: skip
    _dress(coverage, f"{dataset}: left-out rater", "share inside the 50, 80, 95 % region", "raters fused")
    _dress(score, f"{dataset}: left-out rater", "mean log score (nats)", "raters fused")
    _dress(apart, "mean of m raters", "distance to the mean of half of them (mm)", "m")
    return figure


def _by_size(found: Mapping[str, Mapping[str, Any]], method: str) -> dict[int, Mapping[str, Any]]:
    sizes = {int(key.split("|")[1]): one for key, one in found.items() if key.split("|")[0] == method}
    return {size: sizes[size] for size in sorted(sizes) if sizes[size]["placements"]}


def _dress(axes: Any, title: str, ylabel: str, xlabel: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=10)
    axes.set_ylabel(ylabel, fontsize=9)
    axes.set_xlabel(xlabel, fontsize=9)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.08)
    axes.legend(fontsize=8, frameon=False)
