"""Side by side with scikit-learn and GPyTorch on what all three can do: isotropic noise, d = 2, one thread each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import peers
from threadpoolctl import threadpool_limits
from timing import Row, compare, threads

import warpgauge as wg

ITERATIONS = 50


# The other package's time over ours is to be at least 10 and 15.
MAP_LIMITS = {"sklearn": 1 / 10, "gpytorch": 1 / 15}
# Of other numbers of annotations and the other kernel, against scikit-learn.
_MORE_MAPS = ((40, "wendland", None), (300, "wendland", 1 / 8), (100, "gaussian", 1 / 6), (300, "gaussian", None))


def run() -> list[Row]:
    with threads(1), threadpool_limits(1):
        return [*_rows(), *(_map(*one) for one in _MORE_MAPS), *_growth(), _fit(500, 1 / 1.5)]


def _growth() -> list[Row]:
    """Mean and standard deviation at 5,000 points with 3,000 annotations against 1,000."""
    rows = []
    for family in ("wendland", "gaussian"):
        posteriors = []
        for count in (3000, 1000):
            case = peers.problem(count)
            given = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
            prior = wg.TransformationPrior(wg.KernelBundle(family, case.scales, case.weights))
            posteriors.append(prior.condition(given))
        points = case.grid_points[np.random.default_rng(23).choice(len(case.grid_points), 5000, replace=False)]
        name = f"mean and standard deviation at 5,000 points, L = 3,000, {family}"
        many, few = (lambda one=one, at=points: one.mean_and_deviation(at) for one in posteriors)
        rows.append(compare(name, many, "L = 1,000", few, 9.0, 5, one_thread=True))
    return rows


def _fit(count: int, limit: float) -> Row:
    """Fit of the paper's weights against scikit-learn's."""
    name, bound = (
        f"leave-one-out fit of 9 weights, L = {count}, from three starts",
        "scikit-learn's likelihood, one start",
    )
    reason = peers.missing("sklearn")
    if reason is not None:
        return Row(name, bound, None, None, None, None, reason)
    case, start = peers.problem(count), np.full(9, 100.0)
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", case.scales, start))
    given = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
    return compare(
        name, lambda: wg.fit_kernel(prior, given, max_iterations=ITERATIONS), bound,
        lambda: peers.sklearn_fit(case.X, case.Y, case.noise_var, case.scales, start, ITERATIONS),
        limit, 3, one_thread=True,
    )  # fmt: skip


def _map(count: int, family: str, limit: float | None) -> Row:
    case, name = peers.problem(count), f"mean and standard deviation on a 256 x 256 grid, L = {count}, {family}"
    reason = peers.missing("sklearn")
    if reason is not None:
        return Row(name, "scikit-learn", None, None, None, None, reason)
    prior = wg.TransformationPrior(wg.KernelBundle(family, case.scales, case.weights))
    given = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
    data = (case.X, case.Y, case.noise_var, case.scales, case.weights, case.grid_points, family)
    return compare(
        name, lambda: prior.condition(given).mean_and_deviation(case.grid_points), "scikit-learn",
        lambda: peers.sklearn_posterior(*data), limit, 5, one_thread=True,
    )  # fmt: skip


def _rows() -> list[Row]:
    case = peers.problem()
    start = np.full(len(case.scales), 100.0)
    kernel = wg.KernelBundle("wendland", case.scales, case.weights)
    prior = wg.TransformationPrior(kernel)
    annotations = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
    data = (case.X, case.Y, case.noise_var, case.scales)

    def posterior() -> None:
        given = prior.condition(annotations)
        given.mean_and_deviation(case.grid_points)

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
                limit = MAP_LIMITS[peer] if name == maps else None
                rows.append(compare(name, ours, bound, theirs, limit, 5, remark, one_thread=True))
    return rows
