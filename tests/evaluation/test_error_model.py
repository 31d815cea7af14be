"""The error model against dense matrices: every shape, noise factor and size with a covariance of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.core.spectra import Likelihoods, Spectrum, WidenedSpectrum
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.error_model import ALONG, NOISE_FACTORS, TREND, UNEVENNESS, ErrorModel, _distinguishable
from warpgauge.evaluation.evidence import Evidence, EvidenceValues
from warpgauge.evaluation.folds import Widening


def bend(size: float, phase: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda points: points + size * np.sin(points[:, ::-1] / 30 + phase)


def evidence(d: int, isotropic: bool, count: int = 9) -> Evidence:
    rng = np.random.default_rng([d, isotropic])
    fixed = rng.uniform(0, 200, (count, d))
    roots = rng.normal(size=(count, d, d))
    noise = 0.3 * roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(d)
    if isotropic:
        noise = rng.uniform(0.3, 1, count)[:, None, None] * np.eye(d)
    given = wg.Annotations(fixed, bend(4.0, 0.0)(fixed) + rng.normal(0, 0.7, (count, d)), noise)
    transforms = {f"t{k}": bend(4 - 0.5 * k, 0.1 * k) for k in range(3)}
    return Evidence.of(Comparison.of(transforms, None, wg.default_posterior(given, np.full(d, 200.0))))


class Dense:
    """All combinations, each with its whole covariance matrix."""

    def __init__(self, model: ErrorModel, points: np.ndarray) -> None:
        given, here = model.evidence.posterior.annotations, model.evidence.at_annotations
        there = model.evidence.over(model.evidence.comparison.over(points))
        n, d = points.shape
        L = len(given)
        noise = np.zeros((L * d, L * d))
        for row, one in enumerate(model.noise):
            noise[row * d : (row + 1) * d, row * d : (row + 1) * d] = one
        residuals = (given.moving_points - here.median).reshape(-1)
        scales = _distinguishable(model.evidence.posterior.prior.kernel, given.fixed_points)
        logs, self.means, self.covariances = [], [], []
        for kernel, power, along, trend in product(scales, UNEVENNESS, ALONG, TREND):

            def between(
                x: np.ndarray, a: EvidenceValues, y: np.ndarray, b: EvidenceValues,
                kernel: wg.KernelBundle = kernel, power: float = power, along: float = along, trend: float = trend,
            ) -> np.ndarray:  # fmt: skip
                r = np.linalg.norm(x[:, None] - y[None], axis=2)
                smooth = np.outer(a.disagreement**power, b.disagreement**power) * kernel(r)
                smooth = smooth + trend**2 * a.affine @ b.affine.T
                whole = np.kron(smooth, np.eye(d))
                left, right = (one.directions.reshape(-1, one.directions.shape[2]) for one in (a, b))
                return np.asarray(whole + along**2 * left @ right.T)

            B = between(given.fixed_points, here, given.fixed_points, here)
            C, own = between(points, there, given.fixed_points, here), between(points, there, points, there)
            for factor, size in product(NOISE_FACTORS, model.sizes):
                K = factor * noise + size * B
                solved = np.linalg.solve(K, np.column_stack([residuals, size * C.T]))
                logs.append(-0.5 * (np.linalg.slogdet(K)[1] + residuals @ solved[:, 0]))
                self.means.append((size * C @ solved[:, 0]).reshape(n, d))
                joint = size * own - size * C @ solved[:, 1:]
                self.covariances.append(joint.reshape(n, d, n, d)[np.arange(n), :, np.arange(n)])
        self.logs = np.array(logs).reshape(-1, len(NOISE_FACTORS), len(model.sizes))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("isotropic", [True, False])
def test_weights_means_and_covariances_are_those_of_dense_matrices(d: int, isotropic: bool) -> None:
    """Weights by the likelihood: half of them for any noise, half for noise up to the stated one; small ones left out.

    Sizes and factors of a weight below 1e-13 are left out of means, which is why they differ by 1e-9 and not less.
    """
    model = ErrorModel.fit(evidence(d, isotropic))
    points = np.random.default_rng(5).uniform(0, 200, (6, d))
    dense = Dense(model, points)
    prior = np.array([0.2, 0.4, 0.25, 0.15])[:, None]
    any_ = np.exp(dense.logs - dense.logs.max()) * prior
    up_to = np.exp(dense.logs - dense.logs.max()) * (np.array(NOISE_FACTORS) <= 1)[:, None]
    weights = 0.5 * any_ / any_.sum() + 0.5 * up_to / up_to.sum()
    weights[weights.sum(axis=(1, 2)) < 1e-4] = 0
    weights /= weights.sum()
    used = weights.sum(axis=(1, 2)) > 0
    np.testing.assert_allclose(model.weights, weights[used], atol=1e-11)
    flat = weights.reshape(-1)
    mean = np.einsum("s,sni->ni", flat, np.array(dense.means))
    spread = np.array(dense.means) - mean
    covariance = np.einsum("s,snij->nij", flat, np.array(dense.covariances))
    covariance += np.einsum("s,sni,snj->nij", flat, spread, spread)
    here = model.evidence.over(model.evidence.comparison.over(points))
    np.testing.assert_allclose(model.mean(points, here), here.median + mean, atol=1e-9)
    found = model.moments(points, here)
    np.testing.assert_allclose(found[0], here.median + mean, atol=1e-9)
    np.testing.assert_allclose(found[1], covariance, atol=1e-9 * np.abs(covariance).max())


def test_residuals_of_zero_have_a_likelihood() -> None:
    """Transforms that meet every annotation exactly: the squared length is 0, and only determinants differ."""
    rng = np.random.default_rng(1)
    variances, columns = rng.uniform(0, 4, 12), rng.normal(size=(12, 3))
    factors, sizes = np.array([0.5, 2.0]), np.array([0.1, 1.0, 7.0])
    found = Likelihoods(variances, columns, np.zeros(12), factors, sizes).of(np.array([2.0, 0.0, 1.0]))
    for i, f in enumerate(factors):
        for j, v in enumerate(sizes):
            U = columns * [2.0, 0.0, 1.0]
            expected = -0.5 * np.linalg.slogdet(f * np.eye(12) + v * (np.diag(variances) + U @ U.T))[1]
            assert found[i, j] == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("isotropic", [True, False])
def test_a_spectrum_solves_as_the_dense_matrix(isotropic: bool) -> None:
    rng = np.random.default_rng(2)
    L, d = 7, 2
    root = rng.normal(size=(L, L))
    whitening = np.tril(rng.normal(size=(L, d, d))) + 2 * np.eye(d)
    if isotropic:
        whitening = rng.uniform(1, 2, L)[:, None, None] * np.eye(d)
    spectrum = Spectrum.of(root @ root.T, whitening)
    white = np.zeros((L * d, L * d))
    for row, one in enumerate(whitening):
        white[row * d : (row + 1) * d, row * d : (row + 1) * d] = one
    columns, right = rng.normal(size=(L * d, 3)), rng.normal(size=(L * d, 2))
    B = np.kron(root @ root.T, np.eye(d)) + columns @ columns.T
    widened = WidenedSpectrum(spectrum, spectrum.rotated(columns))
    factors, sizes = np.array([0.5, 3.0]), np.array([2.0, 0.1])
    found = spectrum.weights(widened.solve(factors, sizes, spectrum.rotated(right)))
    for s in range(2):
        K = factors[s] * np.eye(L * d) + sizes[s] * white @ B @ white.T
        expected = white.T @ np.linalg.solve(K, white @ right[:, s])
        np.testing.assert_allclose(found[:, s], expected, rtol=1e-10, atol=1e-12)


def test_tails_widen_the_regions_of_a_draw_apart() -> None:
    """Within one draw the factor is the same, so regions that differ show the tails: E[w] is nu / (nu - 2) above 1."""
    rng = np.random.default_rng(5)
    widening = Widening.of_squares(rng.chisquare(2, 30), 2)
    drawn = widening.draw(rng.uniform(0, 200, (40, 2)), 200, rng)
    assert np.ptp(drawn, axis=1).min() > 0
