"""The same isotropic problem in scikit-learn and in GPyTorch: posterior maps and the fit of the weights.

Both peers get the paper's Wendland bundle written as their own kernel object, in double precision, with the identity
as the mean (they see y - x) and one known noise variance for each annotation. The kernel is a scalar times I_d, so the
d components share one matrix; both peers are used in the way that lets them share its factor where they can.

What each one fits: scikit-learn knows the marginal likelihood only. GPyTorch can also minimise the leave-one-out loss
of the paper (``objective="leave_one_out"``). Both are driven by the same L-BFGS-B over log weights, so that the number
of iterations means the same.

A peer that is not installed costs nothing: :func:`rows` then gives its rows with ``seconds`` None and the reason.
Run it on its own with ``python benchmarks/peers.py``. Versions that were tried: see ``PINS``.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

PINS = ("scikit-learn==1.9.1", "gpytorch==1.15.2", "linear_operator==0.6.1", "torch==2.13.0")
BLOCK = 2048  # points a prediction: in one piece both peers were two to eight times slower
LOG_WEIGHT_BOUNDS = (-20.0, 20.0)


def missing(peer: str) -> str | None:
    """Return why a peer ("sklearn" or "gpytorch") cannot run here, or None where it can."""
    needed = {"sklearn": ("sklearn",), "gpytorch": ("torch", "gpytorch")}[peer]
    absent = [name for name in needed if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


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
    mean, sd = np.empty((len(points), d)), np.empty(len(points))
    for start in range(0, len(points), BLOCK):
        part = slice(start, start + BLOCK)
        mean[part], sd[part] = predict(points[part])
    return mean, sd


# ------------------------------------------------------------------------------------------------ scikit-learn


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
            work, term = np.empty_like(distance), np.empty_like(distance)
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


# ------------------------------------------------------------------------------------------------ GPyTorch


@cache
def _gpytorch_kernel_class() -> type:
    """Make the kernel class, once GPyTorch is known to be there."""
    import gpytorch
    import torch
    from linear_operator.operators import KernelLinearOperator

    class WendlandBundle(gpytorch.kernels.Kernel):  # type: ignore[misc]
        """sum_s weights_s K_W(|x - y| / scales_s); its free parameters are the log weights."""

        is_stationary = True

        def __init__(self, scales: np.ndarray, weights: np.ndarray) -> None:
            super().__init__()
            self.scales = [float(scale) for scale in scales]
            start = torch.tensor(np.log(weights), dtype=torch.float64)
            self.register_parameter("log_weights", torch.nn.Parameter(start))

        def forward(self, x1: Any, x2: Any, diag: bool = False, **_: Any) -> Any:
            if diag:
                return self.log_weights.exp().sum().expand(x1.shape[:-1])
            many = gpytorch.settings.max_eager_kernel_size.value()
            if not self.training and x1.shape[-2] == x2.shape[-2] > many:
                # Only the diagonal of the covariance among the points of a map is wanted. GPyTorch 1.15 evaluates
                # that n x n matrix unless the kernel hands it out unevaluated: minutes instead of seconds for a map.
                return KernelLinearOperator(x1, x2, covar_func=self._value)
            return self._value(x1, x2)

        def _value(self, x1: Any, x2: Any, **_: Any) -> Any:
            distance = torch.cdist(x1, x2, compute_mode="donot_use_mm_for_euclid_dist")
            value = torch.zeros_like(distance)
            for scale, weight in zip(self.scales, self.log_weights.exp(), strict=True):
                ratio = distance / scale
                value = value + weight * ((4.0 * ratio + 1.0) * (1.0 - ratio).clamp_min(0.0).square().square())
            return value

    return WendlandBundle


def _gpytorch_model(X: np.ndarray, Y: np.ndarray, noise_var: Any, scales: Any, weights: Any) -> Any:
    """Build the exact GP: the d components of y - x are a batch of targets over one set of points and one matrix."""
    import gpytorch
    import torch

    noise = torch.tensor(np.broadcast_to(np.asarray(noise_var, dtype=float), (len(X),)).copy())
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(noise)

    class ExactModel(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(torch.tensor(X), torch.tensor((Y - X).T.copy()), likelihood)
            self.kernel = _gpytorch_kernel_class()(np.asarray(scales, dtype=float), np.asarray(weights, dtype=float))

        def forward(self, points: Any) -> Any:
            mean = torch.zeros(X.shape[1], points.shape[-2], dtype=torch.float64)
            return gpytorch.distributions.MultivariateNormal(mean, self.kernel(points))

    return ExactModel()


def gpytorch_posterior(
    X: np.ndarray, Y: np.ndarray, noise_var: Any, scales: Any, weights: Any, grid_points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean (n, d) and standard deviation (n,) of the transformation, by GPyTorch's exact GP."""
    import gpytorch
    import torch

    model = _gpytorch_model(X, Y, noise_var, scales, weights).eval()

    def predict(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        output = model(torch.tensor(points))
        return points + output.mean.numpy().T, output.variance[0].sqrt().numpy()

    # fast_pred_var keeps the inverse factor between blocks; up to 800 annotations it is exact (a Cholesky).
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        return _in_blocks(predict, grid_points, X.shape[1])


def gpytorch_fit(
    X: np.ndarray,
    Y: np.ndarray,
    noise_var: Any,
    scales: Any,
    weights0: Any,
    max_iter: int,
    objective: str = "marginal",
) -> np.ndarray:
    """Weights that maximise the marginal or the "leave_one_out" likelihood, from ``weights0``, by autograd."""
    import torch

    loss = gpytorch_loss(X, Y, noise_var, scales, weights0, objective)
    start = np.log(np.asarray(weights0, dtype=float))
    bounds = [LOG_WEIGHT_BOUNDS] * len(start)
    with torch.enable_grad():
        result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iter})
    return np.exp(result.x)


def gpytorch_loss(
    X: np.ndarray, Y: np.ndarray, noise_var: Any, scales: Any, weights0: Any, objective: str
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return the negative log likelihood of all components, and its gradient, as a function of the log weights."""
    import gpytorch
    import torch

    model = _gpytorch_model(X, Y, noise_var, scales, weights0).train()
    kinds = {
        "marginal": gpytorch.mlls.ExactMarginalLogLikelihood,
        "leave_one_out": gpytorch.mlls.LeaveOneOutPseudoLikelihood,
    }
    likelihood = kinds[objective](model.likelihood, model)
    points, displacement = model.train_inputs[0], model.train_targets
    log_weights = model.kernel.log_weights

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        with torch.no_grad():
            log_weights.copy_(torch.from_numpy(theta))
        model.zero_grad()
        value = -len(points) * likelihood(model(points), displacement).sum()  # GPyTorch's is per annotation
        value.backward()
        return value.item(), log_weights.grad.numpy().copy()

    return loss


# ------------------------------------------------------------------------------------------------ the comparison


def problem(count: int = 100, grid: int = 256, levels: int = 9, seed: int = 0) -> SimpleNamespace:
    """Make a 2D isotropic problem: annotations drawn from the model itself on a square of 2560, and a grid over it."""
    rng = np.random.default_rng(seed)
    side = 2560.0
    scales, weights = 10.0 * 2.0 ** np.arange(levels), 4.0 ** np.arange(levels) / 16.0
    X = rng.uniform(0.0, side, size=(count, 2))
    distance = cdist(X, X)
    covariance, work, term = np.zeros_like(distance), np.empty_like(distance), np.empty_like(distance)
    for scale, weight in zip(scales, weights, strict=True):
        _add_wendland(covariance, distance, scale, weight, work, term)
    noise_var = rng.uniform(0.5, 2.0, size=count)
    Y = X + np.linalg.cholesky(covariance + np.diag(noise_var)) @ rng.normal(size=(count, 2))
    axis = np.linspace(0.0, side, grid)
    grid_points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return SimpleNamespace(X=X, Y=Y, noise_var=noise_var, scales=scales, weights=weights, grid_points=grid_points)


def _works(case: SimpleNamespace, max_iter: int) -> list[tuple[str, str, Callable[[], Any]]]:
    data = (case.X, case.Y, case.noise_var, case.scales)
    start = np.full(len(case.scales), 100.0)
    return [
        ("sklearn", "posterior mean and sd", lambda: sklearn_posterior(*data, case.weights, case.grid_points)),
        ("sklearn", "fit, marginal likelihood", lambda: sklearn_fit(*data, start, max_iter)),
        ("gpytorch", "posterior mean and sd", lambda: gpytorch_posterior(*data, case.weights, case.grid_points)),
        ("gpytorch", "fit, marginal likelihood", lambda: gpytorch_fit(*data, start, max_iter)),
        ("gpytorch", "fit, leave-one-out", lambda: gpytorch_fit(*data, start, max_iter, "leave_one_out")),
    ]


def rows(case: SimpleNamespace | None = None, max_iter: int = 50, repeats: int = 3) -> list[dict[str, Any]]:
    """Time every peer's work: the median over ``repeats`` after one untimed call; None and a reason where missing."""
    table = []
    for peer, work, call in _works(case or problem(), max_iter):
        row: dict[str, Any] = {"peer": peer, "work": work, "seconds": None, "reason": missing(peer)}
        if row["reason"] is None:
            call()
            row["seconds"] = statistics.median(_seconds(call) for _ in range(repeats))
        table.append(row)
    return table


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Print the table, or JSON with ``--json``."""
    table = rows()
    if "--json" in sys.argv[1:]:
        print(json.dumps(table, indent=2))
        return
    print(f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'not set')}")
    for row in table:
        value = row["reason"] if row["seconds"] is None else f"{row['seconds']:9.4f} s"
        print(f"{row['peer']:10} {row['work']:26} {value}")


if __name__ == "__main__":
    main()
