"""The same isotropic problem in scikit-learn: posterior maps and the fit of the weights.

It gets the paper's Wendland bundle written as its own kernel object, in double precision, with the identity as the mean
(it sees y - x) and one known noise variance for each annotation. The kernel is a scalar times I_d, so the d components
share one factor. scikit-learn fits the marginal likelihood, by the same L-BFGS-B over log weights as we do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

BLOCK = 2048  # points a prediction: in one piece it was two to eight times slower
LOG_WEIGHT_BOUNDS = (-20.0, 20.0)


def missing() -> str | None:
    """Return why scikit-learn cannot run here, or None where it can."""
    return None if find_spec("sklearn") else "not installed: sklearn"


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


def _add_gaussian(
    total: np.ndarray, distance: np.ndarray, scale: float, weight: float, work: np.ndarray, term: np.ndarray
) -> None:
    """Add weight exp(-(distance / (r_G scale))^2), r_G = 2 / (3 sqrt(pi)), to ``total``; keep it in ``term``."""
    np.multiply(distance, 1.5 * np.sqrt(np.pi) / scale, out=work)
    np.multiply(work, work, out=work)
    np.negative(work, out=work)
    np.exp(work, out=term)
    term *= weight
    total += term


_ADD = {"wendland": _add_wendland, "gaussian": _add_gaussian}


def _in_blocks(
    predict: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], points: np.ndarray, d: int
) -> tuple[np.ndarray, np.ndarray]:
    mean = np.empty((len(points), d))
    sd = np.empty(len(points))
    for start in range(0, len(points), BLOCK):
        part = slice(start, start + BLOCK)
        mean[part], sd[part] = predict(points[part])
    return mean, sd


@cache
def _sklearn_kernel_class() -> type:
    """Make the kernel class, once scikit-learn is known to be there."""
    from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

    class Bundle(Kernel):  # type: ignore[misc]
        """sum_s weights_s K(|x - y| / scales_s); its free parameters are the log weights."""

        def __init__(self, scales: Any, weights: Any, family: str = "wendland") -> None:
            # scikit-learn clones an estimator by its constructor's arguments: they are stored as they came.
            self.scales = scales
            self.weights = weights
            self.family = family

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
                _ADD[self.family](value, distance, scale, weight, work, term)
                if gradient is not None:
                    gradient[..., s] = term  # d/d log(weight) of weight * K is weight * K
            return value if gradient is None else (value, gradient)

        def diag(self, X: np.ndarray) -> np.ndarray:
            return np.full(len(X), float(np.sum(self.weights)))

        def is_stationary(self) -> bool:
            return True

    return Bundle


def _sklearn_model(X: np.ndarray, Y: np.ndarray, noise_var: Any, kernel: Any, optimizer: Any) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor

    alpha = np.broadcast_to(np.asarray(noise_var, dtype=float), (len(X),)).copy()
    return GaussianProcessRegressor(kernel=kernel, alpha=alpha, optimizer=optimizer).fit(X, Y - X)


def sklearn_predictor(
    X: np.ndarray, Y: np.ndarray, noise_var: Any, scales: Any, weights: Any, family: str = "wendland"
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Condition a GaussianProcessRegressor; return what gives mean (n, d) and standard deviation (n,) at points."""
    kernel = _sklearn_kernel_class()(np.asarray(scales, dtype=float), np.asarray(weights, dtype=float), family)
    model = _sklearn_model(X, Y, noise_var, kernel, None)

    def predict(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, sd = model.predict(points, return_std=True)
        return points + mean, sd[:, 0]  # the components share one variance

    return lambda points: _in_blocks(predict, points, X.shape[1])


def sklearn_posterior(
    X: np.ndarray,
    Y: np.ndarray,
    noise_var: Any,
    scales: Any,
    weights: Any,
    grid_points: np.ndarray,
    family: str = "wendland",
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean (n, d) and standard deviation (n,) of the transformation, by GaussianProcessRegressor."""
    return sklearn_predictor(X, Y, noise_var, scales, weights, family)(grid_points)


def sklearn_fit(X: np.ndarray, Y: np.ndarray, noise_var: Any, scales: Any, weights0: Any, max_iter: int) -> np.ndarray:
    """Weights that maximise the marginal likelihood, from ``weights0``, in at most ``max_iter`` iterations."""

    def optimizer(objective: Any, start: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, float]:
        result = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iter})
        return result.x, float(result.fun)

    kernel = _sklearn_kernel_class()(np.asarray(scales, dtype=float), np.asarray(weights0, dtype=float))
    model = _sklearn_model(X, Y, noise_var, kernel, optimizer)
    return np.exp(model.kernel_.theta)


def problem(count: int = 100, grid: int = 256, levels: int = 9, seed: int = 0) -> SimpleNamespace:
    """Make a 2D isotropic problem: annotations drawn from the model itself on a square of 2560, and a grid over it."""
    rng = np.random.default_rng(seed)
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
