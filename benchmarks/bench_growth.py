"""How times grow: with points, with annotations, with targets. Each curve is of one run, smallest of three times."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import bench_evaluate
import former_maps
import numpy as np
import peers
from bench_core import EXTENT, annotations, covariances, prior
from threadpoolctl import threadpool_limits
from timing import seconds, threads

import warpgauge as wg
from warpgauge.core.hyperparameters import leave_one_out_gradient
from warpgauge.core.process import Posterior


def _smallest(work: Callable[[], object]) -> float:
    return min(seconds(work) for _ in range(3))


def _former(posterior: Posterior, points: np.ndarray) -> None:
    with threadpool_limits(1, "blas"):
        former_maps.covariances(posterior, points)


def _points() -> dict[str, Any]:
    rng = np.random.default_rng(20)
    posterior = prior(2).condition(annotations(100, 2, False, rng))
    counts = [1000, 4000, 16_000, 64_000, 256_000]
    points = [rng.uniform(0, EXTENT, (count, 2)) for count in counts]
    posterior.covariance(points[1])
    return {
        "title": "Covariances, 100 anisotropic annotations, 2D",
        "x": "points",
        "values": counts,
        "seconds": {
            "now": [_smallest(lambda at=at: posterior.covariance(at)) for at in points],
            "former": [_smallest(lambda at=at: _former(posterior, at)) for at in points],
        },
    }


def _annotations() -> dict[str, Any]:
    rng = np.random.default_rng(21)
    counts = [12, 25, 50, 100, 200, 400]
    posteriors = [prior(2).condition(annotations(count, 2, False, rng)) for count in counts]
    points = rng.uniform(0, EXTENT, (20_000, 2))
    return {
        "title": "Covariances at 20,000 points, anisotropic annotations, 2D",
        "x": "annotations",
        "values": counts,
        "seconds": {
            "now": [_smallest(lambda one=one: one.covariance(points)) for one in posteriors],
            "former": [_smallest(lambda one=one: _former(one, points)) for one in posteriors],
        },
    }


def _first_suggestion() -> dict[str, Any]:
    rng = np.random.default_rng(22)
    counts = [12, 25, 50, 100, 200, 400]
    points = rng.uniform(0, EXTENT, (20_000, 2))

    def first(count: int) -> float:
        suggester = wg.Suggester(prior(2), points)
        for row, noise in zip(rng.choice(20_000, count, replace=False), covariances(count, 2, False, rng), strict=True):
            suggester.record(int(row), noise)
        return seconds(suggester.suggest)

    first(200)
    return {
        "title": "First suggestion after so many annotations at once, 20,000 candidates, anisotropic, 2D",
        "x": "annotations",
        "values": counts,
        "seconds": {"now": [min(first(count) for _ in range(3)) for count in counts]},
    }


def _fit() -> dict[str, Any]:
    rng = np.random.default_rng(23)
    counts = [25, 50, 100, 200, 400]
    sets = [annotations(count, 2, False, rng) for count in counts]
    model = prior(2, levels=9)
    return {
        "title": "Leave-one-out loss and gradient, anisotropic annotations, 2D",
        "x": "annotations",
        "values": counts,
        "seconds": {"now": [_smallest(lambda one=one: leave_one_out_gradient(model, one)) for one in sets]},
    }


def _targets() -> dict[str, Any]:
    counts = [1000, 3000, 10_000, 30_000, 100_000]
    judge, transforms, targets = bench_evaluate.case(counts[-1])
    wg.evaluate(judge, transforms, targets[:1000])
    work = [lambda n=n: wg.evaluate(judge, transforms, targets[:n]) for n in counts]
    return {
        "title": "Evaluation of 8 transforms, 60 annotations, 2D",
        "x": "targets",
        "values": counts,
        "seconds": {"now": [_smallest(one) for one in work]},
    }


def _kernels() -> dict[str, Any]:
    counts = [40, 100, 300, 1000, 3000]
    cases = [peers.problem(count) for count in counts]
    points = cases[0].grid_points[np.random.default_rng(23).choice(len(cases[0].grid_points), 5000, replace=False)]
    found: dict[str, list[float]] = {}
    with threads(1), threadpool_limits(1):
        for family, case in product(("wendland", "gaussian"), cases):
            kernel = wg.KernelBundle(family, case.scales, case.weights)
            given = wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))
            posterior = wg.TransformationPrior(kernel).condition(given)
            found.setdefault(family, []).append(_smallest(lambda one=posterior: one.mean_and_deviation(points)))
            if peers.missing("sklearn") is None:
                predict = peers.sklearn_predictor(
                    case.X, case.Y, case.noise_var, case.scales, case.weights, family=family
                )
                found.setdefault(f"{family}, scikit-learn", []).append(_smallest(lambda f=predict: f(points)))
    return {
        "title": "Mean and standard deviation at 5,000 points, isotropic annotations, 2D, one thread",
        "x": "annotations",
        "values": counts,
        "seconds": found,
    }


def curves() -> list[dict[str, Any]]:
    return [_points(), _annotations(), _kernels(), _first_suggestion(), _fit(), _targets()]
