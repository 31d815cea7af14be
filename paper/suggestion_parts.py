"""Two parts of the suggestion study: finding the best of several transforms, and predicting the noise of an annotation.

Best transform: all strategies share their first annotations (by farthest points). The posterior is centred on the
transforms' median, its weights are learned from the annotations of the pair itself at the same numbers of annotations,
and it is calibrated by leave-one-out. After each annotation the exact win probabilities over the targets are computed.

Noise: a simulated user draws ellipses that follow the structure tensor of the real **moving** image at the true match;
what is expected at a candidate is predicted from the tensor of the real **fixed** image there and the ellipses so far.
Whether people do so is a question of its own: the second rater of lung-lesion_3 answers it as far as two raters can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.stats import spearmanr

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import Floats, cima_stains, elastix_lung_registrations, looked_up
from paper.raters import cima_placements
from warpgauge.candidates import structure_tensors
from warpgauge.core import DecisionSuggester, Posterior, fit_noise_model, win_probabilities
from warpgauge.simulate import CIMA_LOG_MEAN, random_deformation

STRATEGIES = ("random", "farthest", "entropy", "variance", "decision: best", "decision: ranking")
FIRST, SURE = 8, 0.95
REFIT = (8, 12, 18, 27, 40)
# Simulated registrations: their true errors, in px, as multiples of the best one's.
_RATIOS = (1.0, 1.15, 1.3, 1.5, 1.8, 2.2)
_BEST_ERROR, _SHARED, _SD = 2.0, 0.6, 0.5


@dataclass(frozen=True, eq=False)
class Contest:
    """Transforms, where they are compared, and what an annotator would answer.

    Attributes
    ----------
    answers : Annotations
        At every candidate.
    centre : (n, d) array
        The median of the transforms at the candidates.
    targets : (N, d) array
    mapped : (K, N, d) array
    truth : (N, d) array
        True matches of the targets.
    scales : sequence of float
        Of the kernel.
    """

    answers: wg.Annotations
    centre: Floats
    targets: Floats
    mapped: Floats
    truth: Floats
    scales: Sequence[float]

    @property
    def true_errors(self) -> Floats:
        """Root mean square error of each transform, (K,)."""
        return np.array([wg.displacement_norm(one - self.truth, 2) for one in self.mapped])

    def prior(self) -> wg.TransformationPrior:
        """Return the prior about the median, before its weights are learned."""
        places = np.concatenate([self.answers.fixed_points, self.targets])
        values = np.concatenate([self.centre, np.median(self.mapped, axis=0)])
        weights = np.full(len(self.scales), 1.0 / len(self.scales))
        return wg.TransformationPrior(
            wg.KernelBundle("wendland", self.scales, weights),
            mean=looked_up(places, values),
        )


def simulated(seed: int) -> Contest:
    """Six registrations of a 2D pair whose errors share a part, as those of real ones do."""
    grid = wg.Grid((300, 300))
    rng = rng_for(seed, 1)
    candidates, targets = rng.uniform(10, 289, (120, 2)), rng.uniform(10, 289, (300, 2))
    places = np.concatenate([candidates, targets])

    def field(stream: int, spacing: float) -> Floats:
        state = int(np.random.SeedSequence(seed, spawn_key=(2, stream)).generate_state(1)[0])
        moved = random_deformation(grid, 3.0, spacing, state).map(places) - places
        return np.asarray(moved / np.sqrt(np.square(moved).sum(axis=1).mean()))

    truth, shared = places + 8.0 * field(0, 100.0), field(1, 70.0)
    ratios = rng.permutation(_RATIOS)
    mapped = []
    for k, ratio in enumerate(ratios):
        error = _SHARED * shared + np.sqrt(1 - _SHARED**2) * field(2 + k, float(rng.choice([50.0, 80.0])))
        error /= np.sqrt(np.square(error[len(candidates) :]).sum(axis=1).mean())
        mapped.append(truth + _BEST_ERROR * ratio * error)
    every = np.array(mapped)
    n = len(candidates)
    placed = truth[:n] + rng.normal(0, _SD, (n, 2))
    answers = wg.Annotations.isotropic(candidates, placed, _SD)
    scales = [15.0, 30.0, 60.0, 120.0]
    return Contest(answers, np.median(every[:, :n], axis=0), targets, every[:, n:], truth[n:], scales)


def lung(data: Path, seed: int) -> Contest:
    """Five of the eight best real registrations: 30 landmarks may be asked, the errors at the 20 others are the truth.

    The five are drawn anew until the best of them is better than the second by a twentieth: others have no true best.
    """
    _, fixed, moving, mapped = elastix_lung_registrations(data)
    rng = rng_for(seed, 3)
    rows = rng.permutation(len(fixed))
    ask, held = rows[:30], rows[30:]
    errors = np.sqrt(np.square(mapped[:, held] - moving[held]).sum(axis=2).mean(axis=1))
    near = np.argsort(errors)[:8]
    chosen = rng.choice(near, 5, replace=False)
    while np.divide(*np.sort(errors[chosen])[1::-1]) < 1.05:
        chosen = rng.choice(near, 5, replace=False)
    answers = wg.Annotations.isotropic(fixed[ask], moving[ask], 0.5)
    centre = np.median(mapped[chosen][:, ask], axis=0)
    return Contest(answers, centre, fixed[held], mapped[chosen][:, held], moving[held], [20.0, 40.0, 80.0, 160.0])


class _Asks(Protocol):
    def suggest(self) -> int:
        """Return the index of the next candidate."""
        ...


def _asker(strategy: str, contest: Contest, posterior: Posterior, asked: list[int], seed: int) -> _Asks:
    """Return a suggester of the strategy that knows of everything asked so far."""
    candidates, assumed = contest.answers.fixed_points, contest.answers.covariances[0]
    if strategy.startswith("decision"):
        goal: Any = strategy.split(": ")[1]
        deciding = DecisionSuggester(
            posterior, contest.targets, contest.mapped, candidates, goal, seed, default_covariance=assumed
        )
        for index in asked:
            deciding.skip(index)
        return deciding
    targets = contest.targets if strategy == "variance" else None
    suggester = wg.Suggester(posterior.prior, candidates, targets, strategy, seed, default_covariance=assumed)
    for index in asked:
        suggester.record(index, contest.answers.covariances[index])
    return suggester


def contend(contest: Contest, strategy: str, count: int, seed: int) -> dict[str, Any]:
    """Let a strategy ask; after each annotation the leader's least win probability, the true best's, and who leads."""
    best = int(np.argmin(contest.true_errors))
    asked = wg.Suggester(contest.prior(), contest.answers.fixed_points, strategy="farthest", seed=seed).suggest(FIRST)
    prior = contest.prior()
    leads: list[float] = []
    true_leads: list[float] = []
    right: list[bool] = []
    total = min(count, len(contest.answers))
    while True:
        annotations = contest.answers[asked]
        if len(asked) in REFIT:
            prior = replace(wg.fit_kernel(contest.prior(), annotations, noise=True), fit=None)
        posterior = prior.condition(annotations, calibrate=True)
        wins = win_probabilities(posterior, contest.targets, contest.mapped) + np.eye(len(contest.mapped))
        least = wins.min(axis=1)
        leader = int(np.argmax(least))
        leads.append(float(least[leader]))
        true_leads.append(float(least[best]))
        right.append(leader == best)
        if len(asked) >= total:
            break
        asked.append(_asker(strategy, contest, posterior, asked, seed).suggest())
    return {"lead": leads, "true best": true_leads, "right": right, "first": FIRST, "asked": asked}


def identified(curve: dict[str, Any], limit: int) -> int:
    """Count the annotations until the true best is known with 95 % for the first time; ``limit`` + 1 where never."""
    for step, lead in enumerate(curve["true best"]):
        if lead >= SURE:
            return int(curve["first"]) + step
    return limit + 1


def misled(curve: dict[str, Any]) -> bool:
    """Return whether another than the true best was held for best with 95 % at any time."""
    return any(lead >= SURE and not right for lead, right in zip(curve["lead"], curve["right"], strict=True))


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
