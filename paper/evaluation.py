"""Study of which score ranks registrations by their true errors, and estimates the size of these errors.

The paper's section IV-C: K real registrations of a pair, a growing number of annotations, and three ways to judge from
them: the classical error at the landmarks, the paper's posterior score, and the judge. Measured
for p = 1, 2, infinity: Spearman's correlation with the true ranking, and the mean absolute error of the score; for
p = 2 also how often 90 % intervals hold the true score and whether confident calls are right.

Datasets: eight real registrations each of simulated 2D and 3D pairs, with a truth that is known everywhere; elastix
registrations of CIMA's lung-lesion_1, and the 14 of elastix-lung, judged on the landmarks that were not annotated;
smoothed versions of COPDgene's motion (its images are not at hand) with three fused experts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import warpgauge as wg
from paper import registration_sets
from paper.datasets import Floats
from paper.evaluation_report import report
from paper.experiment import Experiment, Run
from paper.registration_sets import RegistrationSet
from warpgauge.core import Posterior
from warpgauge.evaluation import Evaluation, norm_name

METHODS = ("landmarks", "paper", "judge")
NORMS = (1.0, 2.0, np.inf)
COUNTS = (10, 15, 25, 40, 60)
SAMPLES = 400
SURE = 0.95
# The paper's model needs some annotations to learn its weights from.
_FEWEST_TO_FIT = 8


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` deformations of each kind, and a quarter as many splits of each real pair.

    The quick version has one 2D deformation, and leaves out what takes more than a minute to register: 3D and CIMA.
    """
    count = 1 if quick else runs
    splits = max(1, (count + 3) // 4)
    planned = [
        Run(f"{name}-{at}", {"dataset": name, "seed": seed + 1 + at})
        for name in (("simulated 2D",) if quick else ("simulated 2D", "simulated 3D"))
        for at in range(count)
    ]
    if not quick:
        pairs = registration_sets.cima_choices(data)
        # The pairs have one fixed image and its landmarks, so each gets splits of its own.
        planned += [
            Run(
                f"cima-{'-'.join(stains)}-{at}",
                {"dataset": "cima", "stains": stains, "seed": seed + splits * pair + at, "quick": True},
            )
            for pair, stains in enumerate(pairs)
            for at in range(splits)
        ]
        # The whole grid of 30 settings takes a quarter of an hour a pair, so it is one pair's.
        planned += [
            Run(f"cima30-{at}", {"dataset": "cima, 30 settings", "stains": pairs[0], "seed": seed + at, "quick": False})
            for at in range(count // 2)
        ]
    planned += [Run(f"lung-{at}", {"dataset": "elastix-lung", "seed": seed + at}) for at in range(count)]
    planned += [
        Run(f"copd{case}-{at}", {"dataset": "copdgene", "case": case, "seed": seed + at})
        for case in range(1 if quick else 5)
        for at in range(splits)
    ]
    return [Run(run.key.replace(" ", "-"), {**run.parameters, "counts": list(COUNTS)}) for run in planned]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Judge the transforms of one contest with a growing number of annotations."""
    met = registration_sets.contest(data, run.parameters)
    counts = [int(n) for n in run.parameters["counts"] if n <= len(met.answers)]
    order = asked(met, max(counts), int(run.parameters["seed"]))
    true = {norm_name(p): met.true_scores(p) for p in NORMS}
    by_count = {}
    for n in counts:
        given = met.answers[order[:n]]
        by_count[str(n)] = {
            "landmarks": measured(landmark_scores(met, order[:n]), true),
            "paper": judged(met, paper_posterior(met, given), true),
            "judge": judged(met, wg.judge(base_posterior(met, given), met.transforms), true),
        }
    return {"transforms": met.names, "true": true, "units": met.units, "counts": by_count}


def _scales(met: RegistrationSet) -> Floats:
    smallest = registration_sets.SMALLEST_PX[met.d] * met.pixel
    levels = 1 + int(np.ceil(np.log2(float(met.extent.max()) / smallest) - 1e-9))
    return np.asarray(smallest * 2.0 ** np.arange(levels))


def _prior(met: RegistrationSet, mean: str) -> wg.TransformationPrior:
    """Return the prior before anything is learned: weights that grow with the square of the scale."""
    scales = _scales(met)
    weights = (0.02 * float(np.linalg.norm(met.extent))) ** 2 * scales**2 / np.sum(scales**2)
    kernel = wg.KernelBundle("wendland", scales, weights)
    if mean == "identity":
        return wg.TransformationPrior(kernel)
    return wg.TransformationPrior(kernel, mean="affine", center=met.targets.mean(axis=0))


def by_entropy(met: RegistrationSet, seed: int) -> wg.Suggester:
    """Return what suggests the next candidate by Entropy."""
    return wg.Suggester(_prior(met, "affine"), met.answers.fixed_points, strategy="entropy", seed=seed)


def asked(met: RegistrationSet, count: int, seed: int) -> list[int]:
    """Return the candidates that Entropy asks for, in its order."""
    suggester = by_entropy(met, seed)
    order = []
    for _ in range(count):
        order.append(suggester.suggest())
        suggester.record(order[-1])
    return order


def paper_posterior(met: RegistrationSet, given: wg.Annotations) -> Posterior:
    """Return the paper's model: identity as mean, weights by its leave-one-out loss on the pair's own annotations."""
    prior = _prior(met, "identity")
    if len(given) >= _FEWEST_TO_FIT:
        prior = wg.fit_kernel(prior, given)
    return prior.condition(given)


def base_posterior(met: RegistrationSet, given: wg.Annotations) -> Posterior:
    """Return what the judge takes scales and noise from."""
    return _prior(met, "affine").condition(given)


def landmark_scores(met: RegistrationSet, rows: Sequence[int]) -> dict[str, Floats]:
    """Classical scores of every transform, by norm."""
    matches = met.answers.moving_points[list(rows)]
    errors = met.at_answers[:, list(rows)] - matches
    return {norm_name(p): np.array([wg.displacement_norm(one, p) for one in errors]) for p in NORMS}


def measured(scores: Mapping[str, Floats], true: Mapping[str, Floats]) -> dict[str, Any]:
    """Compare scores with the true ones: Spearman's correlation and mean absolute error, by norm."""
    return {
        "spearman": {p: float(stats.spearmanr(scores[p], true[p]).statistic) for p in true},
        "error": {p: float(np.mean(np.abs(scores[p] - true[p]))) for p in true},
        "first": {p: bool(np.argmin(scores[p]) == np.argmin(true[p])) for p in true},
    }


def judged(met: RegistrationSet, known: Any, true: Mapping[str, Floats]) -> dict[str, Any]:
    """Compare an evaluation with the true scores, intervals and confident calls included."""
    found = wg.evaluate(known, met.transforms, met.targets, norms=NORMS, samples=SAMPLES, regularity=False)
    scores = {p: np.array([found.scores[name].score[p] for name in met.names]) for p in true}
    return {**measured(scores, true), **_confidence(found, met.names, true["2"])}


def interval_scores(intervals: Floats, true: Floats) -> Floats:
    """Return the width of each 90 % interval, and 20 times what lies outside of it."""
    low, high = intervals.T
    return np.asarray(high - low + 20 * np.maximum(low - true, 0) + 20 * np.maximum(true - high, 0))


def _confidence(found: Evaluation, names: Sequence[str], true: Floats) -> dict[str, Any]:
    intervals = np.array([found.scores[name].interval["2"] for name in names])
    best = np.array([found.scores[name].probability_best["2"] for name in names])
    above = np.triu_indices(len(names), 1)
    win = found.win_probability[above]
    order = (true[:, None] < true[None])[above]
    called = (win >= SURE) | (win <= 1 - SURE)
    return {
        "held": int(np.sum((intervals[:, 0] <= true) & (true <= intervals[:, 1]))),
        "too_low": int(np.sum(true > intervals[:, 1])),
        # Width plus 20 times what lies outside, relative to the truth; Brier and log score of who is best.
        "interval_score": float(np.mean(interval_scores(intervals, true) / true)),
        "brier": float(np.sum(np.square(best - (true == true.min())))),
        "log_score": float(-np.log(max(best[np.argmin(true)], 0.5 / SAMPLES))),
        "width": float(np.mean((intervals[:, 1] - intervals[:, 0]) / true)),
        "sure": bool(best.max() > SURE),
        "right": bool(np.argmax(best) == np.argmin(true)),
        "pairs_called": int(called.sum()),
        "pairs_right": int(np.sum((win > 0.5)[called] == order[called])),
        "pairs": len(win),
    }


EXPERIMENT = Experiment(
    "evaluation",
    "can registrations be ranked, and their errors told, from few annotations?",
    20,
    plan,
    compute,
    report,
    ("cima", "copdgene", "elastix-lung"),
)
