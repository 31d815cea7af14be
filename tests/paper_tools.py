"""A small data directory in the form of the real one, toy experiments, and curves recomputed by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import oracle
from paper.experiment import Findings, Run
from warpgauge.errors import InvalidInputError

STAINS = {"He": "1-HE", "CD31": "2-cd31", "Ki67": "6-ki67"}


def write_cima(data: Path, regions: Sequence[str] = ("lung-a_1", "lung-b_1"), count: int = 16) -> None:
    """Landmarks at 100 %: the program reads them at 10 %."""
    for number, region in enumerate(regions):
        rng = np.random.default_rng(number)
        base = rng.uniform(0, 9000, (count, 2))
        folder = data / "cima" / region / "user-PS_scale-100pc"
        folder.mkdir(parents=True)
        for turn, name in enumerate(STAINS.values()):
            points = np.round(base + 300 * turn * np.sin(base[:, ::-1] / 3000 + number) + rng.normal(0, 20, base.shape))
            rows = "\n".join(f"{i},{x:.0f},{y:.0f}" for i, (x, y) in enumerate(points))
            (folder / f"29-039-U-{name}.csv").write_text(f",X,Y\n{rows}\n")


def write_copdgene(data: Path, cases: Sequence[int] = (1, 2), count: int = 16) -> None:
    folder = data / "copdgene"
    folder.mkdir(parents=True)
    head = "case,nx,ny,nz,dx_mm,dy_mm,dz_mm\n"
    (folder / "copd_cases.csv").write_text(head + "".join(f"{case},200,200,80,1.0,1.0,2.5\n" for case in cases))
    for case in cases:
        rng = np.random.default_rng(case)
        fixed = rng.integers([20, 20, 10], [180, 180, 70], (count, 3))
        moving = np.round(fixed + [6, 4, 3] * np.sin(fixed[:, ::-1] / 40 + case)).astype(int)
        for letter, points in (("i", fixed), ("e", moving)):
            rows = "\n".join("\t".join(str(value) for value in point) for point in points)
            (folder / f"copd{case}_300_{letter}BH_xyz_r1.txt").write_text(rows + "\n")


def square(data: Path, run: Run) -> dict[str, Any]:
    return {"value": np.float64(run.parameters["x"]) ** 2, "array": np.arange(2.0), "nothing": float("nan")}


def fail_on_two(data: Path, run: Run) -> dict[str, Any]:
    if run.parameters["x"] == 2:
        raise InvalidInputError("Two cannot be squared.")
    return square(data, run)


def plan_numbers(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    return [Run(f"x{i}", {"x": i + seed, "dataset": "even" if i % 2 == 0 else "odd"}) for i in range(runs)]


def report_sum(results: Sequence[tuple[Run, dict[str, Any]]]) -> Findings:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([result["value"] for _, result in results])
    total = sum(result["value"] for _, result in results)
    return Findings(
        {"sum": total, "order": [run.key for run, _ in results]}, {"plot": figure}, [f"The sum is {total}."]
    )


def oracle_kernel(scales: Sequence[float], weights: Sequence[float], family: str = "wendland") -> oracle.Kernel:
    return lambda x, y: oracle.kernel(family, scales, weights, x, y)


def oracle_errors(
    k: oracle.Kernel,
    order: Sequence[int],
    fixed: np.ndarray,
    placed: np.ndarray,
    covariances: np.ndarray,
    held_fixed: np.ndarray,
    held_moving: np.ndarray,
) -> list[float]:
    """N_2 error at the held-out points after each annotation of an order, everything conditioned anew each time."""
    errors = []
    for n in range(1, len(order) + 1):
        rows = list(order[:n])
        mean, _ = oracle.posterior(k, oracle.identity, fixed[rows], placed[rows], covariances[rows], held_fixed)
        errors.append(oracle.displacement_norm(mean - held_moving, 2))
    return errors


def first_asked(curve: Sequence[float], k: oracle.Kernel, *data: np.ndarray) -> int:
    """Which candidate was asked first: the one whose annotation alone leaves the curve's first error."""
    matches = [i for i in range(len(data[0])) if abs(oracle_errors(k, [i], *data)[0] - curve[0]) < 1e-9 * curve[0]]
    assert len(matches) == 1
    return matches[0]


def disc(d: int, radius: float) -> np.ndarray:
    return oracle.ellipse_to_covariance(np.full(d, radius), np.eye(d), 0.01)


def assert_learned(
    scales: Sequence[float], weights: Sequence[float], X: np.ndarray, Y: np.ndarray, Sigma: np.ndarray, **family: str
) -> None:
    """No weight can be changed by a tenth without a larger leave-one-out loss (but for rounding where it is flat)."""
    best = oracle.gpp_loss(oracle_kernel(scales, weights, **family), oracle.identity, X, Y, Sigma)
    for s in range(len(weights)):
        for factor in (0.9, 1.1):
            other = [weight * (factor if i == s else 1) for i, weight in enumerate(weights)]
            assert oracle.gpp_loss(oracle_kernel(scales, other, **family), oracle.identity, X, Y, Sigma) > best - 1e-6
