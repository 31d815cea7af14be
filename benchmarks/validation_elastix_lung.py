"""Real registrations of one lung CT pair: which score ranks them as held-out landmarks do?

51 landmarks are split 50 times into 25 annotations and 26 held-out ones, whose errors are the truth. The landmark-based
score and the posterior scores see the 25 only. "expected" is the median over posterior samples, "residual" the one with
the registration as the prior's mean. Needs the folder of real data in ``WARPGAUGE_DATA``; writes
``bench-output/validation_elastix_lung.json`` and prints the table of ``docs/validation.md``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import warpgauge as wg
from warpgauge.candidates import targets_from_mask
from warpgauge.evaluation import diagnose, residual_posterior
from warpgauge.evaluation.residual import degrees_of_freedom
from warpgauge.evaluation.statistics import summaries

SPLITS, HELD_OUT, SD, TARGETS = 50, 26, 0.5, 500
STATISTICS = {"1": "mean", "2": "rms", "inf": "max"}

METHODS = ("landmark", "posterior, held-out locations", "posterior, lung mask", "expected", "residual")


def load(folder: Path) -> tuple[wg.Landmarks, dict[str, Any], wg.Grid, np.ndarray]:
    pairs = wg.read_landmarks(
        folder / "CT_3D_lung_fixed_point_set_corrected.txt", folder / "CT_3D_lung_moving_point_set_corrected.txt"
    )
    files = sorted((folder / "transforms").glob("TransformParameters_*.txt"))
    transforms = {re.sub(r"TransformParameters_3DCT_lung\.|\.txt$", "", f.name): wg.read_transform(f) for f in files}
    mask = wg.read_image(folder / "3DCT_lung_baseline_mask.mha")
    return pairs, transforms, mask.grid, targets_from_mask(mask.read(), mask.grid, TARGETS, seed=0)


def prior_of(points: np.ndarray) -> wg.TransformationPrior:
    kernel = wg.KernelBundle.pyramid("wendland", smallest=20.0, levels=5, weight=2.0)
    return wg.TransformationPrior(kernel, mean="affine", center=points.mean(axis=0))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    return float(stats.spearmanr(a, b).statistic)


def one_split(pairs: wg.Landmarks, images: dict[str, np.ndarray], targets: np.ndarray, seed: int) -> dict[str, Any]:
    order = np.random.default_rng(seed).permutation(len(pairs))
    held, known = order[:HELD_OUT], order[HELD_OUT:]
    annotations = wg.Annotations.isotropic(pairs.fixed_points[known], pairs.moving_points[known], SD)
    fitted = wg.fit_kernel(prior_of(pairs.fixed_points[known]), annotations, noise=True)
    posterior = fitted.condition(annotations, calibrate=True)
    at_landmarks, at_targets = images["landmarks"], images["targets"]
    errors = np.linalg.norm(at_landmarks - pairs.moving_points, axis=2)
    truth, classical = summaries(errors[:, held]), summaries(errors[:, known])
    where = pairs.fixed_points[held]
    proposed = {
        "held-out locations": summaries(np.linalg.norm(at_landmarks[:, held] - posterior.mean(where), axis=2)),
        "lung mask": summaries(np.linalg.norm(at_targets - posterior.mean(targets), axis=2)),
    }
    # A held-out landmark is itself placed with an error, which the truth holds and the posterior samples have to hold.
    rng = np.random.default_rng([seed, 1])
    samples = posterior.sample(where, 400, seed=seed)
    samples = samples + rng.normal(0, np.sqrt(SD**2 + fitted.noise), samples.shape)
    row: dict[str, Any] = {"verdict": diagnose(posterior).verdict, "factor": posterior.scale}
    own = [summaries(_residual(posterior, pairs.fixed_points, one, where, seed, rng)) for one in at_landmarks]
    drawn = [summaries(np.linalg.norm(one - samples, axis=2)) for one in at_landmarks[:, held]]
    for norm, name in STATISTICS.items():
        expected, residual = (np.array([np.median(one[name]) for one in every]) for every in (drawn, own))
        row[norm] = {
            "coverage": _coverage(drawn, name, truth[name]),
            "residual coverage": _coverage(own, name, truth[name]),
            "residual": (spearman(residual, truth[name]), _error(residual, truth[name])),
            "landmark": (spearman(classical[name], truth[name]), _error(classical[name], truth[name])),
            "expected": (spearman(expected, truth[name]), _error(expected, truth[name])),
            **{
                f"posterior, {kind}": (spearman(score[name], truth[name]), _error(score[name], truth[name]))
                for kind, score in proposed.items()
            },
        }
    best = int(np.argmin(truth["rms"]))
    win = wg.win_probabilities(posterior, where, at_landmarks[:, held])
    chosen = int(np.argmin(proposed["held-out locations"]["rms"]))
    others = np.delete(np.arange(len(win)), chosen)
    row["best beats all others with 0.95"] = bool(win[chosen, others].min() >= 0.95)
    row["best is right"] = chosen == best
    sure = (win >= 0.95) & ~np.eye(len(win), dtype=bool)
    order_true = truth["rms"][:, None] < truth["rms"][None]
    row["sure pairs"] = int(sure.sum())
    row["sure pairs right"] = int((sure & order_true).sum())
    return row


def _residual(
    posterior: wg.Posterior, fixed: np.ndarray, mapped: np.ndarray, where: np.ndarray, seed: int, rng: Any
) -> np.ndarray:
    """Draw error lengths at the held-out landmarks, their own placement error included."""
    rows = {point.tobytes(): value for point, value in zip(fixed, mapped, strict=True)}
    transform = lambda points: np.array([rows[point.tobytes()] for point in points]).reshape(points.shape)  # noqa: E731
    own = residual_posterior(posterior, transform)
    freedom, mean = degrees_of_freedom(own), own.mean(where)
    factors = np.sqrt(freedom / rng.chisquare(freedom, 400))[:, None, None]
    samples = mean + factors * (own.sample(where, 400, seed=seed) - mean)
    return np.linalg.norm(transform(where) - samples - rng.normal(0, SD, samples.shape), axis=2)


def _coverage(drawn: list[dict[str, np.ndarray]], name: str, truth: np.ndarray) -> float:
    ends = np.array([np.quantile(one[name], [0.05, 0.95]) for one in drawn])
    return float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))


def _error(score: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(np.abs(score - truth)))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"splits": len(rows)}
    for norm in STATISTICS:
        found[norm] = {
            "coverage of 90 % intervals": float(np.mean([row[norm]["coverage"] for row in rows])),
            "coverage of 90 % residual intervals": float(np.mean([row[norm]["residual coverage"] for row in rows])),
        }
        for method in METHODS:
            ranks, errors = np.array([row[norm][method] for row in rows]).T
            found[norm][method] = {
                "spearman": float(ranks.mean()),
                "spearman_sd": float(ranks.std()),
                "mean_absolute_error_mm": float(errors.mean()),
                "splits ranked at least as well as by landmarks": int(
                    np.sum(ranks >= np.array([row[norm]["landmark"][0] for row in rows]))
                ),
            }
    found["verdicts"] = {v: sum(row["verdict"] == v for row in rows) for v in sorted({r["verdict"] for r in rows})}
    pairs, right = sum(row["sure pairs"] for row in rows), sum(row["sure pairs right"] for row in rows)
    found["pairs decided at 0.95"] = {"count": pairs, "right": right, "share": right / pairs if pairs else None}
    found["best is right"] = float(np.mean([row["best is right"] for row in rows]))
    return found


def main() -> None:
    folder = os.environ.get("WARPGAUGE_DATA")
    if not folder:
        sys.exit("Set WARPGAUGE_DATA to the folder of real data.")
    started = time.perf_counter()
    pairs, transforms, _, targets = load(Path(folder) / "elastix-lung")
    images = {
        "landmarks": np.stack([one.map(pairs.fixed_points) for one in transforms.values()]),
        "targets": np.stack([one.map(targets) for one in transforms.values()]),
    }
    inside = np.isfinite(images["targets"]).all(axis=(0, 2))
    images["targets"], targets = images["targets"][:, inside], targets[inside]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        every = [one_split(pairs, images, targets, seed) for seed in range(SPLITS)]
    everything = wg.Annotations.isotropic(pairs.fixed_points, pairs.moving_points, SD)
    whole = diagnose(wg.fit_kernel(prior_of(pairs.fixed_points), everything, noise=True).condition(everything))
    result = {"all landmarks": summary(every), "outlying landmarks": [vars(one) for one in whole.outliers]}
    rest = [row for row in range(len(pairs)) if row not in {one.row for one in whole.outliers}]
    if len(rest) < len(pairs):
        kept = wg.Landmarks(pairs.fixed_points[rest], pairs.moving_points[rest], frame="LPS", units="mm")
        fewer = {"landmarks": images["landmarks"][:, rest], "targets": images["targets"]}
        result["without outlying landmarks"] = summary(
            [one_split(kept, fewer, targets, seed) for seed in range(SPLITS)]
        )
    result["seconds"] = time.perf_counter() - started
    out = Path("bench-output")
    out.mkdir(exist_ok=True)
    (out / "validation_elastix_lung.json").write_text(json.dumps(result, indent=2))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
