"""Shared by the studies of the model: the paper's model and the default one, given the same annotations.

One run is one random split of one pair: half of the landmarks may be annotated, the other half is held out. They are
annotated in an order that no model decides (farthest points as in the paper's Heuristic, and at random), so that both
models see the same. The paper's weights come from one other pair (CIMA: another region, the same stains where it has
them; lungs: another case; AFIDs: two other subjects); the default model learns from the pair's own annotations alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

import warpgauge as wg
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.experiments import datasets
from warpgauge.experiments.curves import SMALLEST_PX, disc, exact_answers, halves, paper_prior, rng_for
from warpgauge.experiments.datasets import Floats, LandmarkPair
from warpgauge.experiments.experiment import Run

TITLES = {"cima": "CIMA", "copdgene": "COPDgene", "dirlab4dct": "DIR-Lab 4DCT", "afids": "AFIDs"}
UNITS = {"cima": "px", "copdgene": "mm", "dirlab4dct": "mm", "afids": "mm"}
ORDERS = ("farthest", "random")
PAPER, GAUSSIAN, DEFAULT = "paper", "default, Gaussian tails", "default"
# Numbers of annotations; 38 is half of the smallest CIMA set, 16 half of the AFIDs.
COUNTS = {
    "cima": (10, 15, 20, 30, 38),
    "copdgene": (10, 15, 20, 30, 40, 60, 100),
    "dirlab4dct": (10, 15, 20, 30, 40, 60, 100),
    "afids": (10, 13, 16),
}
QUICK_RUNS, QUICK_COUNTS = 4, 2


@dataclass(frozen=True, eq=False)
class Measured:
    """A model's posterior after some annotations, at the held-out points.

    Attributes
    ----------
    error : float
        N_2 error of its mean.
    squares : (m,) array
        Squared Mahalanobis lengths of the held-out matches, their own covariance included.
    posterior : Posterior
    """

    error: float
    squares: Floats
    posterior: Posterior

    def coverage(self, level: float) -> float:
        """Share of the held-out matches inside their regions."""
        return float(np.mean(self.squares <= self.posterior.squared_radius(level)))


def pairs_of(data: Path, name: str) -> tuple[LandmarkPair, ...]:
    """Return all pairs of a dataset."""
    if name == "cima":
        return datasets.cima(data, ordered=False)
    if name == "afids":
        return datasets.afids(data)
    return datasets.copdgene(data) if name == "copdgene" else datasets.dirlab4dct(data)


def teachers(pair: LandmarkPair, pairs: Sequence[LandmarkPair]) -> list[LandmarkPair]:
    """Return the pairs that may train the paper's model for this one."""
    if pair.dataset == "afids":
        own = set(pair.name.split("_"))
        return [other for other in pairs if not own & set(other.name.split("_"))]
    others = [other for other in pairs if other.group != pair.group]
    alike = [one for one in others if one.name.removeprefix(one.group) == pair.name.removeprefix(pair.group)]
    return alike or others if pair.dataset == "cima" else others


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Return ``runs`` runs for each dataset; pairs take turns in a random order, then training pairs."""
    planned = []
    for name, counts in COUNTS.items():
        pairs = pairs_of(data, name)
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


def _gaussian(posterior: Posterior) -> Posterior:
    """Return the same model with Gaussian tails, calibrated as such."""
    return replace(posterior.prior, tails=np.inf).condition(posterior.annotations, calibrate=True)


def _measured(posterior: Posterior, points: Floats, truth: Floats, covariance: Floats) -> Measured:
    misses = posterior.mean(points) - truth
    covariances = posterior.annotation_covariance(points, covariance)
    squares = np.einsum("na,na->n", misses, np.linalg.solve(covariances, misses[..., None])[..., 0])
    return Measured(float(wg.displacement_norm(misses, 2)), squares, posterior)


def measurements(data: Path, run: Run) -> dict[str, dict[int, dict[str, Measured]]]:
    """Condition all models on the same annotations: by order, number of annotations, and model."""
    name, split = str(run.parameters["dataset"]), int(run.parameters["split"])
    by: Mapping[str, LandmarkPair] = {pair.name: pair for pair in pairs_of(data, name)}
    if missing := {str(run.parameters[key]) for key in ("pair", "training")} - set(by):
        raise InvalidInputError(f"The data have no pair {sorted(missing)[0]!r}, which this run is about.")
    pair, paper = by[str(run.parameters["pair"])], _learned(by[str(run.parameters["training"])])
    parts, covariance = halves(pair, split), disc(pair)
    answers = exact_answers(parts.fixed, parts.moving, covariance)
    found: dict[str, dict[int, dict[str, Measured]]] = {}
    for order in ORDERS:
        suggester = wg.Suggester(paper, parts.fixed, strategy=order, seed=split)
        asked = suggester.suggest(max(run.parameters["counts"]))
        found[order] = {}
        for n in run.parameters["counts"]:
            given = answers[np.asarray(asked[:n])]
            default = default_posterior(pair, given)
            models = {PAPER: paper.condition(given), GAUSSIAN: _gaussian(default), DEFAULT: default}
            found[order][n] = {
                label: _measured(one, parts.held_fixed, parts.held_moving, covariance) for label, one in models.items()
            }
    return found
