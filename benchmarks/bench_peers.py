"""Side by side with scikit-learn on what both can do: isotropic noise, d = 2, one thread each.

scikit-learn gets the paper's Wendland bundle written as its own kernel object, in double precision, with the identity
as the mean (it sees y - x) and one known noise variance for each annotation. The kernel is a scalar times I_d, so the d
components share one factor. It fits the marginal likelihood, by the same L-BFGS-B over log weights as we do.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits
from timing import Row, compare, threads

import warpgauge as wg

ITERATIONS = 50
BLOCK = 2048  # points a prediction: in one piece it was two to eight times slower
LOG_WEIGHT_BOUNDS = (-20.0, 20.0)


def _add_wendland(
    total: np.ndarray, distance: np.ndarray, scale: float, weight: float, work: np.ndarray, term: np.ndarray
) -> None:
    """Add weight K_W(r), K_W(r) = (4 r + 1) (1 - r)_+^4 at r = distance / scale, to ``total``; keep it in ``term``.

    In the two work arrays, because temporaries of this size can cost more than the arithmetic: the C library hands
    their pages back to the system and fetches them again, which made the same map three times slower or not.
    """
    np.multiply(distance, -1.0 / scale, out=work)
    work += 1.0
    np.maximum(work, 0.0, out=work)  # (1 - r)_+
    np.multiply(work, -4.0, out=term)
    term += 5.0  # 4 r + 1 = 5 - 4 (1 - r), and beyond r = 1 the other factor is 0
    work *= work
    work *= work
    term *= work
    term *= weight
    total += term


@cache
def _kernel_class() -> type:
    """Make the kernel class, once scikit-learn is known to be there."""
    from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

    class Bundle(Kernel):  # type: ignore[misc]
        """sum_s weights_s K(|x - y| / scales_s); its free parameters are the log weights."""

        def __init__(self, scales: Any, weights: Any) -> None:
            # scikit-learn clones an estimator by its constructor's arguments: they are stored as they came.
            self.scales = scales
            self.weights = weights

        @property
        def hyperparameter_weights(self) -> Any:
            bounds = np.exp(LOG_WEIGHT_BOUNDS)
            return Hyperparameter("weights", "numeric", bounds, len(self.scales))

        def __call__(self, X: np.ndarray, Y: np.ndarray | None = None, eval_gradient: bool = False) -> Any:
            distance = cdist(X, X if Y is None else Y)
            value = np.zeros_like(distance)
            gradient = np.empty((*distance.shape, len(self.scales))) if eval_gradient else None
            work = np.empty_like(distance)
            term = np.empty_like(distance)
            for s, (scale, weight) in enumerate(zip(self.scales, self.weights, strict=True)):
                _add_wendland(value, distance, scale, weight, work, term)
                if gradient is not None:
                    gradient[..., s] = term  # d/d log(weight) of weight * K is weight * K
            return value if gradient is None else (value, gradient)

        def diag(self, X: np.ndarray) -> np.ndarray:
            return np.full(len(X), float(np.sum(self.weights)))

        def is_stationary(self) -> bool:
            return True

    return Bundle


def _model(case: SimpleNamespace, weights: Any, optimizer: Any) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor

    kernel = _kernel_class()(case.scales, np.asarray(weights, dtype=float))
    return GaussianProcessRegressor(kernel=kernel, alpha=case.noise_var, optimizer=optimizer).fit(
        case.X, case.Y - case.X
    )


def sklearn_posterior(case: SimpleNamespace) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean (n, d) and standard deviation (n,) of the transformation at the points of the grid."""
    model = _model(case, case.weights, None)
    points = case.grid_points
    mean = np.empty((len(points), 2))
    sd = np.empty(len(points))
    for start in range(0, len(points), BLOCK):
        part = slice(start, start + BLOCK)
        moved, deviations = model.predict(points[part], return_std=True)
        mean[part] = points[part] + moved
        sd[part] = deviations[:, 0]  # the components share one variance
    return mean, sd


def sklearn_fit(case: SimpleNamespace, start: np.ndarray) -> np.ndarray:
    """Weights that maximise the marginal likelihood."""

    def optimizer(objective: Any, first: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, float]:
        options = {"maxiter": ITERATIONS}
        result = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return result.x, float(result.fun)

    return np.exp(_model(case, start, optimizer).kernel_.theta)


def _problem(count: int, grid: int = 256, levels: int = 9) -> SimpleNamespace:
    """Make a 2D isotropic problem: annotations drawn from the model itself on a square of 2560, and a grid over it."""
    rng = np.random.default_rng(0)
    side = 2560.0
    scales = 10.0 * 2.0 ** np.arange(levels)
    weights = 4.0 ** np.arange(levels) / 16.0
    X = rng.uniform(0.0, side, size=(count, 2))
    distance = cdist(X, X)
    covariance = np.zeros_like(distance)
    work = np.empty_like(distance)
    term = np.empty_like(distance)
    for scale, weight in zip(scales, weights, strict=True):
        _add_wendland(covariance, distance, scale, weight, work, term)
    noise_var = rng.uniform(0.5, 2.0, size=count)
    Y = X + np.linalg.cholesky(covariance + np.diag(noise_var)) @ rng.normal(size=(count, 2))
    axis = np.linspace(0.0, side, grid)
    grid_points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return SimpleNamespace(X=X, Y=Y, noise_var=noise_var, scales=scales, weights=weights, grid_points=grid_points)


def _prior(case: SimpleNamespace, weights: Any) -> wg.TransformationPrior:
    return wg.TransformationPrior(wg.KernelBundle("wendland", case.scales, weights))


def _annotations(case: SimpleNamespace) -> wg.Annotations:
    return wg.Annotations(case.X, case.Y, case.noise_var[:, None, None] * np.eye(2))


def _map() -> Row:
    case = _problem(100)
    prior = _prior(case, case.weights)
    annotations = _annotations(case)
    return compare(
        "mean and standard deviation on a 256 x 256 grid, L = 100, wendland",
        lambda: prior.condition(annotations).mean_and_deviation(case.grid_points),
        "scikit-learn",
        lambda: sklearn_posterior(case),
        1 / 3,
        5,
        one_thread=True,
    )


def _fit() -> Row:
    case = _problem(500)
    start = np.full(9, 100.0)
    prior = _prior(case, start)
    annotations = _annotations(case)
    return compare(
        "leave-one-out fit of 9 weights, L = 500, from three starts",
        lambda: wg.fit_kernel(prior, annotations, max_iterations=ITERATIONS),
        "scikit-learn's marginal likelihood, one start",
        lambda: sklearn_fit(case, start),
        1 / 1.5,
        3,
        one_thread=True,
    )


def run() -> list[Row]:
    if find_spec("sklearn") is None:
        return [
            Row("mean and standard deviation, fit", "scikit-learn", None, None, None, None, "not installed: sklearn")
        ]
    with threads(1), threadpool_limits(1):
        return [_map(), _fit()]
