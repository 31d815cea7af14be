from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import GRID, NOISE, WEIGHTS, make, names
from warpgauge.core.fit_reports import FitReport
from warpgauge.core.hyperparameters import leave_one_out_gradient
from warpgauge.errors import InvalidInputError, SingularModelError

CASES = pytest.mark.parametrize("case", GRID, ids=names)


@CASES
def test_loss_equals_the_oracle(case: tuple[int, str, bool, str]) -> None:
    """Eq. (gpp_loss_simplified), against full inverses and against leaving each one out in turn."""
    model = make(*case)
    a = model.annotations
    arguments = (model.k, model.mean, a.fixed_points, a.moving_points, a.covariances, NOISE)
    loss = wg.leave_one_out_loss(model.prior, a)
    assert loss == pytest.approx(oracle.gpp_loss(*arguments), abs=1e-9)
    likelihoods = oracle.leave_one_out_negative_log_likelihoods(*arguments)
    assert loss == pytest.approx(np.mean(likelihoods) + a.d / 2 - a.d / 2 * np.log(2 * np.pi), abs=1e-9)


@CASES
def test_residuals_equal_leaving_out_one_by_one(case: tuple[int, str, bool, str]) -> None:
    model = make(*case)
    a = model.annotations
    residuals, covariances = oracle.leave_one_out(
        model.k, model.mean, a.fixed_points, a.moving_points, a.covariances, NOISE
    )
    got = wg.leave_one_out_residuals(model.prior, a)
    np.testing.assert_allclose(got.residuals, residuals, atol=1e-8)
    np.testing.assert_allclose(got.covariances, covariances, atol=1e-8)
    squares = [r @ np.linalg.solve(c, r) for r, c in zip(residuals, covariances, strict=True)]
    np.testing.assert_allclose(got.mahalanobis**2, squares, rtol=1e-8)


@pytest.mark.parametrize("d", [2, 3])
def test_p_values_are_the_chi_square_tail(d: int) -> None:
    """A residual at the 99 % radius of d degrees of freedom has p = 0.01: checked on a single annotation."""
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [10.0], [3.0]))
    length = np.sqrt(4.0 * {2: 9.21034, 3: 11.34487}[d])
    moving = np.zeros((1, d))
    moving[0, 0] = length
    got = wg.leave_one_out_residuals(prior, wg.Annotations.isotropic(np.zeros((1, d)), moving, sd=1.0))
    assert got.p[0] == pytest.approx(0.01, abs=1e-6)


@CASES
def test_gradient_equals_finite_differences(case: tuple[int, str, bool, str]) -> None:
    """By weights and noise, over two sets of different size weighted by their annotations."""
    model = make(*case)
    parts = [model.annotations, model.annotations[:5]]

    def loss(weights: np.ndarray, noise: float) -> float:
        prior = model.prior.with_kernel(model.prior.kernel.with_weights(weights), noise)
        sums = [len(part) * wg.leave_one_out_loss(prior, part) for part in parts]
        return sum(sums) / sum(len(part) for part in parts)

    value, gradient, by_noise = leave_one_out_gradient(model.prior, parts)
    assert value == pytest.approx(loss(WEIGHTS, NOISE), abs=1e-10)
    for s in range(len(WEIGHTS)):
        step = np.zeros(len(WEIGHTS))
        step[s] = 1e-4
        numeric = (loss(WEIGHTS + step, NOISE) - loss(WEIGHTS - step, NOISE)) / 2e-4
        assert gradient[s] == pytest.approx(numeric, abs=1e-6)
    numeric = (loss(WEIGHTS, NOISE + 1e-4) - loss(WEIGHTS, NOISE - 1e-4)) / 2e-4
    assert by_noise == pytest.approx(numeric, abs=1e-6)


def drawn_pairs(weights: np.ndarray, noise_sd: float, pairs: int, seed: int) -> list[wg.Annotations]:
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [20.0, 80.0], weights))
    rng = np.random.default_rng(seed)
    sets = []
    for pair in range(pairs):
        fixed = rng.uniform(0, 200, (80, 2))
        truth = prior.condition(wg.Annotations.empty(2)).sample(fixed, 1, seed=seed + pair)[0]
        moving = truth + rng.normal(0, noise_sd, truth.shape)
        sets.append(wg.Annotations.isotropic(fixed, moving, sd=0.1))
    return sets


def test_fit_recovers_weights_and_noise_of_drawn_data() -> None:
    """Ten pairs from a known process: each parameter within 35 %, about three standard errors of such a fit."""
    sets = drawn_pairs(np.array([4.0, 50.0]), noise_sd=1.0, pairs=10, seed=1)
    start = wg.TransformationPrior(wg.KernelBundle("wendland", [20.0, 80.0], [1.0, 1.0]))
    fitted = wg.fit_kernel(start, sets, noise=True)
    np.testing.assert_allclose(fitted.kernel.weights, [4.0, 50.0], rtol=0.35)
    assert fitted.noise == pytest.approx(1.0 - 0.01, rel=0.35)
    report = fitted.fit
    assert isinstance(report, FitReport)
    assert report.converged
    pooled = np.mean([wg.leave_one_out_loss(fitted, part) for part in sets])
    assert report.loss == pytest.approx(pooled, rel=1e-9)


def test_fit_finds_the_same_minimum_from_far_away_starts() -> None:
    sets = drawn_pairs(np.array([4.0, 50.0]), noise_sd=0.1, pairs=2, seed=2)
    losses = []
    for weights in ([1e-3, 1e5], [1e4, 1e-2], [4.0, 50.0]):
        prior = wg.TransformationPrior(wg.KernelBundle("wendland", [20.0, 80.0], weights))
        losses.append(wg.fit_kernel(prior, sets).fit.loss)  # type: ignore[attr-defined]
    assert max(losses) - min(losses) < 1e-6


def test_fit_leaves_the_noise_alone_unless_asked() -> None:
    sets = drawn_pairs(np.array([4.0, 50.0]), noise_sd=1.0, pairs=1, seed=3)
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [20.0, 80.0], [1.0, 1.0]), noise=0.25)
    assert wg.fit_kernel(prior, sets[0]).noise == 0.25


@pytest.mark.parametrize(
    ("sets", "word"),
    [
        ([], "one or more"),
        ([wg.Annotations.empty(2)], "none of them empty"),
        ([wg.Annotations.isotropic([[0.0, 0.0]], [[0.0, 0.0]], 1.0)], "at least 2"),
        (
            [
                wg.Annotations.isotropic(np.eye(2), np.eye(2), 1.0),
                wg.Annotations.isotropic(np.eye(3), np.eye(3), 1.0),
            ],
            "one dimension",
        ),
    ],
)
def test_bad_training_sets_are_refused(sets: list[wg.Annotations], word: str) -> None:
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [10.0], [1.0]))
    with pytest.raises(InvalidInputError, match=word):
        wg.fit_kernel(prior, sets)


def test_a_singular_training_set_is_said_so() -> None:
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [10.0], [1e9]))
    twice = wg.Annotations.isotropic(np.zeros((2, 2)), np.ones((2, 2)), 1e-6)
    with pytest.raises(SingularModelError, match="merge coinciding"):
        wg.leave_one_out_loss(prior, twice)
