"""Part of the suggestion study: whether predicting the noise of an annotation helps.

A simulated user draws ellipses that follow the structure tensor of the real **moving** image at the true match; what is
expected at a candidate is predicted from the tensor of the real **fixed** image there and the ellipses so far. Whether
people do so is a question of its own: the second rater of lung-lesion_3 answers it as far as two raters can.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import warpgauge as wg
from warpgauge.candidates import structure_tensors
from warpgauge.core.expected_noise import fit_noise_model
from warpgauge.experiments.curves import rng_for
from warpgauge.experiments.datasets import Floats, cima_stains
from warpgauge.experiments.raters import cima_placements
from warpgauge.simulate import CIMA_LOG_MEAN

# The user: ellipses as large as those of the paper's user, the tensor to the power -1/2, and what neither explains.
POWER, SCATTER = -0.5, 0.4
SIGMA = 4.0  # window of the structure tensor, px
_REGIONS = {"lung-lesion_1": ("{}.jpg", 10.0), "lung-lesion_3": ("images-5pc/{}.jpg", 5.0)}
PAIRS = tuple(permutations(("CD31", "Cc10", "He", "Ki67", "proSPC"), 2))


@lru_cache(maxsize=16)
def image_points(data: Path, region: str, stain: str) -> tuple[Floats, Floats]:
    """Landmarks of one stain in px of its image, and the structure tensors there."""
    name, percent = _REGIONS[region]
    file, annotated = cima_stains(data, region)[stain]
    image = wg.read_image(data / "cima" / region / name.format(file.stem))
    points = wg.read_landmarks(file, scale=percent / annotated, units="px").fixed_points
    return points, structure_tensors(image.read(), wg.Grid(image.grid.size), points, SIGMA)


def drawn(tensors: Floats, rng: np.random.Generator) -> Floats:
    """Covariances (n, d, d) that the simulated user states where the moving image has these tensors."""
    values, vectors = np.linalg.eigh(tensors)
    values = np.maximum(values, 0) + 1e-3 * values.mean()
    logs = POWER * (np.log(values) - np.log(values).mean()) + SCATTER * rng.standard_normal(values.shape)
    return np.asarray((vectors * np.exp(CIMA_LOG_MEAN + logs)[:, None, :]) @ vectors.transpose(0, 2, 1))


def compare(
    data: Path, region: str, stains: tuple[str, str], prior: wg.TransformationPrior, seed: int, count: int
) -> Any:
    """Curves of the N_2 error by strategy, for one split of one pair of stains."""
    (fixed, fixed_tensors), (moving, moving_tensors) = (image_points(data, region, stain) for stain in stains)
    rng = rng_for(seed, 5)
    rows = rng.permutation(len(fixed))
    ask, held = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    stated = drawn(moving_tensors, rng)[ask]
    noise = np.einsum("nab,nb->na", np.linalg.cholesky(stated), rng.standard_normal((len(ask), 2)))
    answers = wg.Annotations(fixed[ask], moving[ask] + noise, stated)
    total = min(count, len(ask))
    return {
        strategy: noise_curve(prior, answers, fixed_tensors[ask], fixed[held], moving[held], strategy, total, seed)
        for strategy in ("entropy", "noise_aware")
    }


def noise_curve(
    prior: wg.TransformationPrior, answers: wg.Annotations, tensors: Floats, held: Floats, truth: Floats,
    strategy: str, count: int, seed: int,
) -> list[float]:  # fmt: skip
    """Return the N_2 error after each answer; what Noise-aware expects is learned anew before each question."""
    default = np.exp(CIMA_LOG_MEAN) * np.eye(2)
    suggester = wg.Suggester(prior, answers.fixed_points, None, strategy, seed, default)
    posterior = prior.condition(wg.Annotations.empty(2))
    asked: list[int] = []
    errors = []
    for _ in range(count):
        if strategy == "noise_aware":
            model = fit_noise_model(tensors, default, tensors[asked], answers.covariances[asked])
            suggester.expect(model.predict(tensors))
        asked.append(suggester.suggest())
        suggester.record(asked[-1], answers.covariances[asked[-1]])
        posterior = posterior.append(answers[asked[-1:]])
        errors.append(wg.displacement_norm(posterior.mean(held) - truth, 2))
    return errors


def two_raters_and_the_tensor(data: Path, stain: str) -> dict[str, float]:
    """Rank correlation between the tensor along its axes and how far the raters of lung-lesion_3 lie apart there."""
    first, second = (placed / 10.0 for placed in cima_placements(data, "lung-lesion_3", stain))
    _, tensors = image_points(data, "lung-lesion_3", stain)
    values, vectors = np.linalg.eigh(tensors)
    apart = np.abs(np.einsum("nai,na->ni", vectors, second - first))
    every, size = spearmanr(values.reshape(-1), apart.reshape(-1)), spearmanr(values.sum(1), apart.sum(1))
    ratio = spearmanr(values[:, 0] / values[:, 1], apart[:, 1] / np.maximum(apart[:, 0], 1e-9))
    return {
        "components": float(every.statistic), "components p": float(every.pvalue),
        "sizes": float(size.statistic), "sizes p": float(size.pvalue),
        "directions": float(ratio.statistic), "directions p": float(ratio.pvalue), "points": len(first),
    }  # fmt: skip
