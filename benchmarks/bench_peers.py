"""Side by side with scikit-learn and GPyTorch on what all three can do: isotropic noise, the same kernel, d = 2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import peers
from timing import Row, compare

import warpgauge as wg

ITERATIONS = 50


def run() -> list[Row]:
    case = peers.problem()
    start = np.full(len(case.scales), 100.0)
    kernel = wg.KernelBundle("wendland", case.scales, case.weights)
    prior = wg.TransformationPrior(kernel)
    annotations = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
    data = (case.X, case.Y, case.noise_var, case.scales)

    def posterior() -> None:
        given = prior.condition(annotations)
        given.mean(case.grid_points)
        given.standard_deviation(case.grid_points)

    def fit() -> wg.TransformationPrior:
        return wg.fit_kernel(prior.with_kernel(kernel.with_weights(start)), annotations, max_iterations=ITERATIONS)

    evaluations = fit().fit.evaluations  # type: ignore[attr-defined]
    maps = f"mean and standard deviation on a 256 x 256 grid, L = {len(case.X)}"
    fits = f"leave-one-out fit of {len(case.scales)} weights, L = {len(case.X)}, from three starts"
    note = f"{evaluations} losses and gradients in all"
    work: dict[str, list[tuple[str, Callable[[], object], str, Callable[[], object], str]]] = {
        "sklearn": [
            (maps, posterior, "scikit-learn",
             lambda: peers.sklearn_posterior(*data, case.weights, case.grid_points), ""),
            (fits, fit, "scikit-learn's marginal likelihood, one start",
             lambda: peers.sklearn_fit(*data, start, ITERATIONS), note),
        ],
        "gpytorch": [
            (maps, posterior, "GPyTorch", lambda: peers.gpytorch_posterior(*data, case.weights, case.grid_points), ""),
            (
                fits,
                fit,
                "GPyTorch's leave-one-out, one start",
                lambda: peers.gpytorch_fit(*data, start, ITERATIONS, "leave_one_out"),
                note,
            ),
        ],
    }  # fmt: skip
    rows = []
    for peer, entries in work.items():
        reason = peers.missing(peer)
        for name, ours, bound, theirs, remark in entries:
            if reason is not None:
                rows.append(Row(name, bound, None, None, None, None, reason))
            else:
                rows.append(compare(name, ours, bound, theirs, None, 5, remark))
    return rows
