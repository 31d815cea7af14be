"""Do 90 % intervals hold the true error of a registration that has seen the images?

A true map and the error of a registration are drawn from Gaussian processes, the error smaller than the deformation and
with short, mixed or long scales. 20 or 40 annotations are placed with an error of 0.3. And are decisions between two
such registrations right? Writes ``bench-output/validation_intervals.json``, the tables of ``docs/validation.md``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import warpgauge as wg
from warpgauge.evaluation import evaluate

CASES, SD, SCALES = 60, 0.3, 10.0 * 2.0 ** np.arange(6)
ERRORS = {
    "short": [1.5, 3.0, 1.5, 0.3, 0.1, 0.1],
    "mixed": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    "long": [0.1, 0.1, 0.3, 1.5, 3.0, 3.0],
}


class Table:
    def __init__(self, points: np.ndarray, values: np.ndarray) -> None:
        self.rows = {point.tobytes(): value for point, value in zip(points, values, strict=True)}

    def map(self, points: np.ndarray) -> np.ndarray:
        return np.array([self.rows[point.tobytes()] for point in points]).reshape(points.shape)


def drawn(weights: list[float], points: np.ndarray, seed: int) -> np.ndarray:
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, weights))
    return prior.condition(wg.Annotations.empty(2)).sample(points, 1, seed=seed)[0] - points


def one(count: int, weights: list[float], seed: int) -> dict[str, tuple[bool, float]]:
    rng = np.random.default_rng([seed, count])
    points = rng.uniform(0, 300, (count + 150, 2))
    truth = points + drawn([0.3, 0.6, 1.5, 3.0, 6.0, 12.0], points, seed)
    error = 0.5 * drawn(weights, points, seed + 1000)
    moving = truth[:count] + rng.normal(0, SD, (count, 2))
    annotations = wg.Annotations.isotropic(points[:count], moving, SD)
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, np.ones(6)), "affine", center=[150.0, 150.0])
    posterior = wg.fit_kernel(prior, annotations, noise=True).condition(annotations, calibrate=True)
    transform = Table(points, truth + error)
    scores = evaluate(
        posterior, {"it": transform}, points[count:], samples=400, regularity_over=False, residual=True
    ).scores["it"]
    true = float(np.sqrt(np.mean(np.square(error[count:]).sum(axis=1))))
    assert scores.residual is not None
    found = {"posterior": scores.statistics["rms"], "residual": scores.residual["rms"]}
    result = {k: (v.low <= true <= v.high, abs(v.median - true) / true) for k, v in found.items()}
    landmark = scores.landmark["2"]
    assert landmark is not None
    result["landmark"] = (False, abs(landmark - true) / true)
    return result


def decision(ratio: float, fitted: bool, seed: int) -> float:
    """Win probability of the better of two registrations whose root mean square errors have this ratio."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 300, (130, 2))
    weights = [0.3, 0.6, 1.5, 3.0, 6.0, 12.0]
    truth = points + drawn(weights, points, seed)
    errors = [drawn(ERRORS["mixed"], points, seed + offset) for offset in (1000, 2000)]
    sizes = [np.sqrt(np.mean(np.square(error[30:]).sum(axis=1))) for error in errors]
    mapped = np.stack([truth + errors[0] / sizes[0], truth + ratio * errors[1] / sizes[1]])
    annotations = wg.Annotations.isotropic(points[:30], truth[:30] + rng.normal(0, SD, (30, 2)), SD)
    if fitted:
        prior = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, np.ones(6)), "affine", center=[150.0, 150.0])
        posterior = wg.fit_kernel(prior, annotations, noise=True).condition(annotations, calibrate=True)
    else:
        posterior = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, weights)).condition(annotations)
    return float(wg.win_probabilities(posterior, points[30:], mapped[:, 30:])[0, 1])


def decisions() -> list[dict[str, object]]:
    rows = []
    for ratio in (1.1, 1.3, 1.6, 2.0):
        for fitted in (False, True):
            wins = np.array([decision(ratio, fitted, seed) for seed in range(200)])
            right, wrong = float(np.mean(wins >= 0.95)), float(np.mean(wins <= 0.05))
            rows.append({"ratio": ratio, "weights": "learned" if fitted else "known", "right": right, "wrong": wrong})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def intervals() -> list[dict[str, object]]:
    rows = []
    for count in (20, 40):
        for name, weights in ERRORS.items():
            cases = [one(count, weights, seed) for seed in range(CASES)]
            row: dict[str, object] = {"annotations": count, "errors": name, "cases": CASES}
            for kind in ("posterior", "residual", "landmark"):
                held, off = np.array([case[kind] for case in cases]).T
                row[kind] = {"held": float(held.mean()), "relative_error": float(off.mean())}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    result = {"intervals": intervals(), "decisions": decisions()}
    out = Path("bench-output")
    out.mkdir(exist_ok=True)
    (out / "validation_intervals.json").write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
