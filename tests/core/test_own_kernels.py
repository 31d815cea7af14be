"""Kernels of one's own, sums and products: one contract for every kernel, against the oracle; and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import EXTENT, NOISE, SCALES, WEIGHTS, random_covariances, soft_halves, stiffness
from warpgauge.core import own_kernels
from warpgauge.core.hyperparameters import leave_one_out_gradient
from warpgauge.core.kernels import FAMILIES
from warpgauge.errors import InvalidInputError, WarpgaugeWarning

pytestmark = pytest.mark.filterwarnings("ignore:The kernel .* has no compiled loop")
Value = Callable[[np.ndarray, np.ndarray], float]


class RationalQuadratic:
    """A radial kernel of one's own with two parameters that can be learned."""

    def __init__(self, length: float = 12.0, alpha: float = 1.5) -> None:
        self.parameters = np.array([length, alpha])
        self.scales = [length]

    def with_parameters(self, values: np.ndarray) -> RationalQuadratic:
        return RationalQuadratic(*values)

    def value(self, r2: np.ndarray) -> np.ndarray:
        length, alpha = self.parameters
        return (1 + r2 / (2 * alpha * length**2)) ** -alpha

    def derivative(self, r2: np.ndarray) -> np.ndarray:
        length, alpha = self.parameters
        base = 1 + r2 / (2 * alpha * length**2)
        by_length = base ** (-alpha - 1) * r2 / length**3
        by_alpha = base**-alpha * (-np.log(base) + (1 - 1 / base))
        return np.stack([by_length, by_alpha])


class Linear:
    """A kernel of one's own that is not stationary, by its matrix, and says nothing of scales or parameters."""

    def matrix(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        gaps = np.abs(X[:, None] - Y).sum(axis=2)
        return 2.0 + (X / EXTENT) @ (Y / EXTENT).T + np.exp(-gaps / 30)


def own_value(x: np.ndarray, y: np.ndarray) -> float:
    return float((1 + sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (3 * 12.0**2)) ** -1.5)


def linear_value(x: np.ndarray, y: np.ndarray) -> float:
    pairs = list(zip(x, y, strict=True))
    return 2.0 + sum(a * b for a, b in pairs) / EXTENT**2 + float(np.exp(-sum(abs(a - b) for a, b in pairs) / 30))


def built_in(family: str, **places: Any) -> tuple[wg.KernelBundle, Value]:
    kernel = wg.KernelBundle(family, SCALES, WEIGHTS, **places)
    return kernel, lambda x, y: float(oracle.kernel(family, SCALES, WEIGHTS, x, y, **places)[0, 0])


def every_kernel() -> dict[str, tuple[Any, Value]]:
    """Every kind of kernel by name, each with its slow version: the built-in families and what can be made of them."""
    found: dict[str, tuple[Any, Value]] = {family: built_in(family) for family in FAMILIES}
    found["soft regions"] = built_in("wendland", regions=soft_halves, own=np.full(4, 0.7))
    found["amplitude"] = built_in("wendland", amplitude=stiffness)
    found["length"] = built_in("matern52", length=stiffness)
    found["axes"] = built_in("wendland", axes=[1.0, 2.0])
    found["period"] = built_in("gaussian", period=[30.0, np.inf])
    bundle, value = built_in("wendland")
    found["value of one's own"] = RationalQuadratic(), own_value
    found["matrix of one's own"] = Linear(), linear_value
    found["sum"] = bundle + RationalQuadratic(), lambda x, y: value(x, y) + own_value(x, y)
    found["product"] = Linear() * bundle, lambda x, y: linear_value(x, y) * value(x, y)
    found["sum of products"] = (
        bundle * RationalQuadratic() + Linear(),
        lambda x, y: value(x, y) * own_value(x, y) + linear_value(x, y),
    )
    return found


EVERY = every_kernel()


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("name", EVERY)
def test_every_kernel_keeps_the_contract(name: str, isotropic: bool) -> None:
    """Condition, mean, covariance, entropy, samples' covariance, gains, leave-one-out and maps, as the oracle says."""
    kernel, value = EVERY[name]
    k: Callable[..., np.ndarray] = lambda x, y: value(x, y) * np.eye(2)  # noqa: E731
    rng = np.random.default_rng(4)
    fixed, points = rng.uniform(0, EXTENT, (6, 2)), rng.uniform(0, EXTENT, (4, 2))
    given = wg.Annotations(fixed, fixed + rng.normal(0, 2, fixed.shape), random_covariances(6, 2, isotropic, rng))
    prior = wg.TransformationPrior(kernel, noise=NOISE)
    posterior = prior.condition(given[:4]).append(given[4:])
    means, joint = oracle.posterior(
        k, oracle.identity, fixed, given.moving_points, given.covariances, points, extra_noise=NOISE
    )
    blocks = oracle.block_diagonal(joint, 2)
    np.testing.assert_allclose(posterior.mean(points), means, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(points), blocks, atol=1e-9)
    np.testing.assert_allclose(posterior.joint_covariance(points), joint, atol=1e-9)
    np.testing.assert_allclose(posterior.entropy(points), [oracle.entropy_gaussian(one) for one in blocks])
    drawn = posterior.sample(points[:1], 3000, seed=1)[:, 0]
    np.testing.assert_allclose(np.cov(drawn.T), blocks[0], atol=0.1 * blocks[0].max())
    suggester = wg.Suggester(prior, points, default_covariance=np.eye(2))
    suggester.record_at(fixed[0], given.covariances[0])
    gains = oracle.delta_entropy(k, points, points, fixed[:1], given.covariances[:1], NOISE)
    np.testing.assert_allclose(suggester.gains(), gains, atol=1e-9)
    loss = oracle.gpp_loss(k, oracle.identity, fixed, given.moving_points, given.covariances, extra_noise=NOISE)
    assert wg.leave_one_out_loss(prior, given) == pytest.approx(loss)
    grid = wg.Grid((3, 2), (20.0, 20.0))
    at = grid.index_to_world(np.array([[x, y] for y in range(2) for x in range(3)], dtype=float))
    np.testing.assert_allclose(wg.entropy_map(posterior, grid).reshape(-1), posterior.entropy(at))
    matrix = prior.kernel.matrix(fixed, points)
    np.testing.assert_allclose(matrix, prior.kernel.matrix(points, fixed).T, atol=1e-12)
    np.testing.assert_allclose(prior.kernel.diagonal(points), [value(x, x) for x in points])


@pytest.mark.parametrize("name", EVERY)
def test_weights_are_learned_by_their_derivatives(name: str) -> None:
    """The gradient is the slope of the loss in every weight and parameter, and learning lowers the loss."""
    rng = np.random.default_rng(7)
    fixed = rng.uniform(0, EXTENT, (8, 2))
    given = wg.Annotations.isotropic(fixed, fixed + rng.normal(0, 1, fixed.shape), 0.5)
    prior = wg.TransformationPrior(EVERY[name][0], noise=NOISE)
    prior.condition(given)
    loss, gradient, _ = leave_one_out_gradient(prior, given)
    weights = prior.kernel.weights
    for number in range(len(weights)):
        step = np.zeros(len(weights))
        step[number] = 1e-5 * weights[number]
        up, down = (
            leave_one_out_gradient(prior.with_kernel(prior.kernel.with_weights(weights + sign * step)), given)[0]
            for sign in (1, -1)
        )
        assert gradient[number] == pytest.approx((up - down) / (2 * step[number]), rel=1e-4, abs=1e-9)
    fitted = wg.fit_kernel(prior, given, max_iterations=10)
    assert wg.leave_one_out_loss(fitted, given) < loss


def test_evaluation_takes_a_kernel_of_ones_own() -> None:
    """The judge, the paper's scores and the sensitivity to the model."""
    from warpgauge.core.sensitivity import model_changes

    rng = np.random.default_rng(0)
    fixed = rng.uniform(0, EXTENT, (12, 2))
    given = wg.Annotations.isotropic(fixed, fixed + 1.0, 0.5)
    posterior = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, WEIGHTS) + Linear()).condition(given)
    transforms = {"near": lambda points: points + 1.1, "far": lambda points: points + 9.0}
    targets = rng.uniform(0, EXTENT, (30, 2))
    for known in (posterior, wg.judge(posterior, transforms)):
        assert wg.evaluate(known, transforms, targets, samples=50).ranking()[0] == "near"
    assert [code for code, _, _ in model_changes(posterior, 2.0)] == ["weights", "weights", "noise", "noise"]
    assert all(np.isfinite(make().mean(targets)).all() for _, _, make in model_changes(posterior, 2.0))


class Triangle:
    """Positive definite on a line and not in the plane."""

    def value(self, r2: np.ndarray) -> np.ndarray:
        return np.maximum(1 - np.sqrt(r2) / 40, 0)


class Lopsided:
    def matrix(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.exp(-np.square(X[:, None] - Y).sum(axis=2) / 200) + 0.01 * X[:, :1]


class Torn:
    def matrix(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.full((len(X), len(Y)), np.nan)


class Flat:
    def matrix(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.ones(len(X))


class HalfLearned(Linear):
    parameters = (1.0,)


@pytest.mark.parametrize(
    ("kernel", "word"),
    [
        (Triangle, "not positive definite in 2D"),
        (Lopsided, "not symmetric"),
        (Torn, "finite values"),
        (Flat, "shape"),
        (HalfLearned, "needs all of parameters"),
        (object, "value"),
    ],
)
def test_wrong_kernels_are_refused_on_use(kernel: type, word: str) -> None:
    rng = np.random.default_rng(0)
    fixed = rng.uniform(0, EXTENT, (40, 2))
    with pytest.raises(InvalidInputError, match=word):
        wg.TransformationPrior(kernel()).condition(wg.Annotations.isotropic(fixed, fixed, 1.0))


def test_a_length_is_asked_for_where_it_is_needed_only() -> None:
    fixed = np.random.default_rng(0).uniform(0, EXTENT, (5, 2))
    given = wg.Annotations.isotropic(fixed, fixed, 1.0)
    wg.TransformationPrior(Linear()).condition(given)
    with pytest.raises(InvalidInputError, match="translation_sd"):
        wg.TransformationPrior(Linear(), mean="affine").condition(given)
    wg.TransformationPrior(Linear(), mean="affine", translation_sd=5.0).condition(given)


def test_how_slow_it_is_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ratio that was measured; times are set here."""
    monkeypatch.setattr(own_kernels, "_noted", set())
    seconds = iter([0.030, 0.002])
    monkeypatch.setattr(own_kernels, "_seconds", lambda work: next(seconds))
    fixed = np.random.default_rng(0).uniform(0, EXTENT, (5, 2))
    with pytest.warns(WarpgaugeWarning, match="Linear has no compiled loop: its values take about 15 times"):
        wg.TransformationPrior(Linear()).condition(wg.Annotations.isotropic(fixed, fixed, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.TransformationPrior(Linear()).condition(wg.Annotations.isotropic(fixed, fixed, 1.0))
