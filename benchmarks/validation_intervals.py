"""Do 90 % intervals hold the true error of a registration that has seen the images?

A true map and the error of a registration are drawn from Gaussian processes, the error smaller than the deformation and
with short, mixed or long scales. 20 or 40 annotations are placed with an error of 0.3. Writes
``bench-output/validation_intervals.json``, the table of ``docs/validation.md``.
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


def main() -> None:
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
    out = Path("bench-output")
    out.mkdir(exist_ok=True)
    (out / "validation_intervals.json").write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
