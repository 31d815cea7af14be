"""Study of the model: calibration of regions, of the paper's model and the default one.

Both models are given the same annotations. One run is one random split of one pair: half of the landmarks may be
annotated, the other half is held out. They are annotated in an order that no model decides (farthest points as in the
paper's Heuristic, and at random), so that both models see the same. The paper's weights come from one other pair (CIMA:
another region, the same stains where it has them; lungs: another case; AFIDs: two other subjects); the default model
learns from the pair's own annotations alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper.curves import SMALLEST_PX, deciles, disc, exact_answers, halves, paper_prior, rng_for
from paper.datasets import DATASETS, Floats, LandmarkPair, folders
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.core import Posterior
from warpgauge.errors import InvalidInputError

ORDERS = ("farthest", "random")
PAPER = "paper"
DEFAULT = "default"
MODELS = (PAPER, DEFAULT)
SETS = tuple(name for name, one in DATASETS.items() if one.counts)
QUICK_RUNS = 4
QUICK_COUNTS = 2


@dataclass(frozen=True, eq=False)
class Measured:
    """A model's posterior after some annotations: the N_2 error of its mean at the held-out points.

    ``squares`` (m,) are squared Mahalanobis lengths of the held-out matches, their own covariance included.
    """

    error: float
    squares: Floats
    posterior: Posterior

    def coverage(self, level: float) -> float:
        """Share of the held-out matches inside their regions."""
        return float(np.mean(self.squares <= self.posterior.squared_radius(level)))


def teachers(pair: LandmarkPair, pairs: Sequence[LandmarkPair]) -> list[LandmarkPair]:
    """Return the pairs that may train the paper's model for this one: alike where there are any, or others."""
    known = DATASETS[pair.dataset]
    return known.training(pair, pairs) or [other for other in pairs if known.apart(pair, other)]


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Return ``runs`` runs for each dataset; pairs take turns in a random order, then training pairs."""
    planned = []
    for name in SETS:
        counts = DATASETS[name].counts
        pairs = DATASETS[name].all_pairs(data)
        order = rng_for(seed, 5).permutation(len(pairs))
        for at in range(min(runs, QUICK_RUNS) if quick else runs):
            pair = pairs[order[at % len(pairs)]]
            split = int(np.random.SeedSequence(seed, spawn_key=(at,)).generate_state(1)[0])
            others = teachers(pair, pairs)
            if not others:
                raise InvalidInputError(f"The pair {pair.name!r} has no other pair of its dataset to train on.")
            usable = [n for n in counts if n <= len(pair) // 2][: QUICK_COUNTS if quick else None]
            parameters = {
                "dataset": name,
                "pair": pair.name,
                "training": others[split % len(others)].name,
                "split": split,
                "counts": usable,
            }
            planned.append(Run(f"{name}-{seed}-{at:04d}-{len(usable)}", parameters))
    return planned


@lru_cache(maxsize=64)
def _learned(teacher: LandmarkPair) -> wg.TransformationPrior:
    """Learn the paper's weights from all landmarks of a pair."""
    return paper_prior(teacher, [exact_answers(teacher.fixed, teacher.moving, disc(teacher))])


def default_posterior(pair: LandmarkPair, given: wg.Annotations) -> Posterior:
    """Return the default model, as a session has it for a pair without any training."""
    return wg.default_posterior(given, pair.extent, SMALLEST_PX * pair.pixel, center=pair.middle)


def _measured(posterior: Posterior, points: Floats, truth: Floats, covariance: Floats) -> Measured:
    misses = posterior.mean(points) - truth
    covariances = posterior.annotation_covariance(points, covariance)
    squares = np.einsum("na,na->n", misses, np.linalg.solve(covariances, misses[..., None])[..., 0])
    return Measured(float(wg.displacement_norm(misses, 2)), squares, posterior)


def measurements(data: Path, run: Run) -> dict[str, dict[int, dict[str, Measured]]]:
    """Condition all models on the same annotations: by order, number of annotations, and model."""
    name = str(run.parameters["dataset"])
    split = int(run.parameters["split"])
    by: Mapping[str, LandmarkPair] = {pair.name: pair for pair in DATASETS[name].all_pairs(data)}
    if missing := {str(run.parameters[key]) for key in ("pair", "training")} - set(by):
        raise InvalidInputError(f"The data have no pair {sorted(missing)[0]!r}, which this run is about.")
    pair = by[str(run.parameters["pair"])]
    paper = _learned(by[str(run.parameters["training"])])
    parts = halves(pair, split)
    covariance = disc(pair)
    answers = exact_answers(parts.fixed, parts.moving, covariance)
    found: dict[str, dict[int, dict[str, Measured]]] = {}
    for order in ORDERS:
        suggester = wg.Suggester(paper, parts.fixed, strategy=order, seed=split)
        asked: list[int] = []
        for _ in range(max(run.parameters["counts"])):
            asked.append(suggester.suggest())
            suggester.record(asked[-1])
        found[order] = {}
        for n in run.parameters["counts"]:
            given = answers[np.asarray(asked[:n])]
            models = {PAPER: paper.condition(given), DEFAULT: default_posterior(pair, given)}
            found[order][n] = {
                label: _measured(one, parts.held_fixed, parts.held_moving, covariance) for label, one in models.items()
            }
    return found


LEVELS = (0.5, 0.8, 0.95)
# What is aimed at, for the levels that have an aim.
COVERAGE_GOALS = {0.5: (0.45, 0.55), 0.95: (0.93, 0.97)}


def measure_coverage(data: Path, run: Run) -> dict[str, Any]:
    """Measure the coverage of every model's regions at the held-out landmarks, for both orders."""
    found = measurements(data, run)
    return {
        "coverage": {
            order: [
                {"n": n, **{label: [one.coverage(level) for level in LEVELS] for label, one in by.items()}}
                for n, by in rows.items()
            ]
            for order, rows in found.items()
        },
        "scale": {order: [by[DEFAULT].posterior.scale for by in rows.values()] for order, rows in found.items()},
    }


def _gathered_coverage(results: Sequence[Result]) -> dict[str, dict[str, dict[int, dict[str, list[list[float]]]]]]:
    """Coverages by dataset, order, number of annotations and model, one row of levels per run."""
    by: dict[str, dict[str, dict[int, dict[str, list[list[float]]]]]] = {}
    for run, result in results:
        for order, rows in result["coverage"].items():
            place = by.setdefault(str(run.parameters["dataset"]), {}).setdefault(order, {})
            for row in rows:
                models = place.setdefault(int(row["n"]), {label: [] for label in MODELS})
                for label in MODELS:
                    models[label].append(row[label])
    return by


def _inside(level: float, share: float) -> bool:
    low, high = COVERAGE_GOALS[level]
    return low <= round(share, 3) <= high


def report_coverage(results: Sequence[Result]) -> Findings:
    """Return mean coverage with deciles over runs at every number of annotations, and where the goal is met."""
    numbers: dict[str, Any] = {}
    told = []
    for dataset, orders in _gathered_coverage(results).items():
        numbers[dataset] = {}
        for order, counts in orders.items():
            rows = {n: {label: _coverage_numbers(values) for label, values in by.items()} for n, by in counts.items()}
            numbers[dataset][order] = rows
            told.extend(_coverage_sentences(DATASETS[dataset].title, order, rows))
    return Findings(numbers, {}, told)


def _coverage_numbers(values: list[list[float]]) -> dict[str, Any]:
    array = np.array(values)
    low, middle, high = deciles(array)
    return {"runs": len(array), "mean": array.mean(axis=0), "first decile": low, "median": middle, "ninth decile": high}


def _coverage_sentences(title: str, order: str, rows: dict[int, dict[str, dict[str, Any]]]) -> list[str]:
    told = []
    for label in MODELS:
        parts = ", ".join(
            f"n = {n}: " + " / ".join(f"{100 * share:.0f}" for share in by[label]["mean"]) for n, by in rows.items()
        )
        runs = max(by[label]["runs"] for by in rows.values())
        told.append(
            f"{title}, {order} order, {label} model, {runs} runs, coverage of 50 / 80 / 95 % regions in %: {parts}."
        )
    for level, (low, high) in COVERAGE_GOALS.items():
        at = LEVELS.index(level)
        met = [n for n, by in rows.items() if _inside(level, by[DEFAULT]["mean"][at])]
        missed = {n: by[DEFAULT]["mean"][at] for n, by in rows.items() if n not in met}
        words = f"{title}, {order} order: the default model's {level:.0%} regions hold {low:.0%} to {high:.0%}"
        if not missed:
            told.append(f"{words} at every n.")
        else:
            other = ", ".join(f"{100 * share:.1f} % at n = {n}" for n, share in missed.items())
            told.append(f"{words} at {len(met)} of {len(rows)} numbers of annotations, but {other}.")
    return told


CALIBRATION = Experiment(
    "calibration",
    "coverage of the 50, 80 and 95 % regions against the number of annotations: the paper's model and the default one",
    100,
    plan,
    measure_coverage,
    report_coverage,
    folders(SETS),
)
