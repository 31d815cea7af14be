"""Side by side with scikit-learn on what both can do: isotropic noise, d = 2, one thread each."""

from __future__ import annotations

import numpy as np
import peers
from threadpoolctl import threadpool_limits
from timing import Row, compare, threads

import warpgauge as wg

ITERATIONS = 50
# Annotations, kernel, and how many times as fast we are to be at least.
_MAPS = ((100, "wendland", 10.0), (300, "wendland", 8.0), (100, "gaussian", 6.0))
_FITS = ((100, None), (500, 1.5))


def run() -> list[Row]:
    with threads(1), threadpool_limits(1):
        return [*(_map(*one) for one in _MAPS), *(_fit(*one) for one in _FITS)]


def _fit(count: int, faster: float | None) -> Row:
    """Fit of the paper's weights against scikit-learn's."""
    name = f"leave-one-out fit of 9 weights, L = {count}, from three starts"
    bound = "scikit-learn's marginal likelihood, one start"
    if (reason := peers.missing()) is not None:
        return Row(name, bound, None, None, None, None, reason)
    case = peers.problem(count)
    start = np.full(9, 100.0)
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", case.scales, start))
    annotations = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
    return compare(
        name,
        lambda: wg.fit_kernel(prior, annotations, max_iterations=ITERATIONS),
        bound,
        lambda: peers.sklearn_fit(case.X, case.Y, case.noise_var, case.scales, start, ITERATIONS),
        None if faster is None else 1 / faster,
        3,
        one_thread=True,
    )


def _map(count: int, family: str, faster: float) -> Row:
    name = f"mean and standard deviation on a 256 x 256 grid, L = {count}, {family}"
    if (reason := peers.missing()) is not None:
        return Row(name, "scikit-learn", None, None, None, None, reason)
    case = peers.problem(count)
    prior = wg.TransformationPrior(wg.KernelBundle(family, case.scales, case.weights))
    annotations = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
    data = (case.X, case.Y, case.noise_var, case.scales, case.weights, case.grid_points, family)
    return compare(
        name,
        lambda: prior.condition(annotations).mean_and_deviation(case.grid_points),
        "scikit-learn",
        lambda: peers.sklearn_posterior(*data),
        1 / faster,
        5,
        one_thread=True,
    )
