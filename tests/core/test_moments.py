"""Means and covariances at many points: equal to the dense formulas whatever the blocks of points and of the factor."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from warpgauge.core.process import Posterior
from warpgauge.errors import SingularModelError

SCALES, WEIGHTS = np.array([5.0, 10.0, 20.0, 40.0]), np.array([1.0, 2.0, 3.0, 4.0])
CENTER = 30.0


def model(
    d: int, isotropic: bool, *, count: int = 30, mean: str = "identity", family: str = "wendland", spread: float = 100.0
) -> Posterior:
    rng = np.random.default_rng([d, count, isotropic])
    fixed = rng.uniform(0, spread, (count, d))
    factors = rng.normal(size=(count, d, d))
    noise = factors @ factors.transpose(0, 2, 1) + 0.3 * np.eye(d)
    if isotropic:
        noise = rng.uniform(0.3, 2, count)[:, None, None] * np.eye(d)
    prior = wg.TransformationPrior(
        wg.KernelBundle(family, SCALES, WEIGHTS),
        mean=mean,  # type: ignore[arg-type]
        center=[CENTER] * d if mean == "affine" else None,
        translation_sd=7.0,
        linear_sd=0.2,
    )
    return prior.condition(wg.Annotations(fixed, fixed + rng.normal(0, 2, (count, d)), noise))


def dense(posterior: Posterior, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariances by the paper's formulas with whole matrices, the kernel written out scale by scale."""
    X, Y, d = posterior.annotations.fixed_points, posterior.annotations.moving_points, points.shape[1]
    prior = posterior.prior

    def kappa(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r = np.linalg.norm(a[:, None] - b[None], axis=2)
        scales = zip(prior.kernel.scales, prior.kernel.weights, strict=True)
        total = sum(weight * oracle.radial(prior.kernel.family, r / scale) for scale, weight in scales)
        if prior.mean == "affine":
            total = total + 7.0**2 + 0.2**2 * (a - CENTER) @ (b - CENTER).T
        return np.asarray(total)

    K = np.kron(kappa(X, X), np.eye(d)) + oracle.noise_matrix(posterior.annotations.covariances)
    cross = np.kron(kappa(X, points), np.eye(d))
    mean = points + (cross.T @ np.linalg.solve(K, (Y - X).reshape(-1))).reshape(points.shape)
    solved = np.linalg.solve(K, cross)
    own = prior.kernel.weights.sum() + np.zeros(len(points))
    if prior.mean == "affine":
        own = own + 49.0 + 0.04 * np.square(points - CENTER).sum(axis=1)
    explained = np.einsum(
        "rna,rnb->nab",
        cross.reshape(len(cross), len(points), d),
        np.asarray(solved).reshape(len(cross), len(points), d),
    )
    return mean, own[:, None, None] * np.eye(d) - explained


def assert_equal(posterior: Posterior, points: np.ndarray) -> None:
    mean, covariances = dense(posterior, points)
    size = np.abs(covariances).max()
    both = posterior.mean_and_covariance(points)
    np.testing.assert_allclose(both[0], mean, rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(both[1], covariances, rtol=1e-11, atol=1e-11 * size)
    # Alone they are the same numbers, to the last bit for the mean: error maps of a posterior's own mean are zero.
    np.testing.assert_array_equal(posterior.mean(points), both[0])
    np.testing.assert_allclose(posterior.covariance(points), both[1], rtol=1e-13, atol=1e-13 * size)
    deviations = np.sqrt(np.trace(covariances, axis1=1, axis2=2) / posterior.d)
    np.testing.assert_allclose(posterior.standard_deviation(points), deviations, rtol=1e-11)
    mean_again, deviations_again = posterior.mean_and_deviation(points)
    np.testing.assert_array_equal(mean_again, both[0])
    np.testing.assert_allclose(deviations_again, deviations, rtol=1e-11)
    entropies = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariances)[1]
    np.testing.assert_allclose(posterior.entropy(points), entropies, atol=1e-10)
    mapped = points + np.linspace(-3, 3, points.size).reshape(points.shape)
    gaps = mapped - mean
    squares = np.einsum("na,na->n", gaps, np.linalg.solve(covariances, gaps[..., None])[..., 0])
    np.testing.assert_allclose(posterior.squared_lengths(points, mapped), squares, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mean", ["identity", "affine"])
@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 128, 129, 1025, 5003])
def test_any_number_of_points(n: int, d: int, isotropic: bool, mean: str) -> None:
    """Points reach beyond the kernel's largest scale from all annotations."""
    points = np.random.default_rng(n).uniform(-80, 180, (n, d))
    assert_equal(model(d, isotropic, mean=mean, count=12), points)


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("mean", ["identity", "affine"])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 7, 35, 130])
def test_any_number_of_annotations(count: int, mean: str, isotropic: bool) -> None:
    """The factor is applied in blocks of rows: none, one, several, and blocks of different sizes."""
    points = np.random.default_rng(count).uniform(-20, 120, (2000, 2))  # beside 130 annotations in several blocks
    assert_equal(model(2, isotropic, mean=mean, count=count), points)


def test_the_kernel_is_exactly_zero_beyond_its_largest_scale() -> None:
    posterior = model(2, True)
    far = np.random.default_rng(6).uniform(1000, 1100, (3000, 2))
    np.testing.assert_array_equal(posterior.mean(far), far)
    np.testing.assert_array_equal(posterior.standard_deviation(far), np.full(3000, np.sqrt(10.0)))
    np.testing.assert_array_equal(posterior.covariance(far), np.broadcast_to(10.0 * np.eye(2), (3000, 2, 2)))


def test_points_at_annotations_and_at_scales_from_them() -> None:
    """On the borders between the quintics of the kernel, where a distance may round either way."""
    posterior = model(2, False)
    fixed = posterior.annotations.fixed_points
    turned = np.stack([np.cos(np.arange(12.0)), np.sin(np.arange(12.0))], axis=1)
    rings = fixed[:, None, None] + SCALES[None, :, None, None] * turned[None, None]
    assert_equal(posterior, np.concatenate([fixed, rings.reshape(-1, 2), fixed + np.array([5.0, 0.0])]))


def test_read_only_and_transposed_points_give_the_same() -> None:
    posterior = model(2, True)
    points = np.random.default_rng(8).uniform(0, 100, (2500, 2))
    expected = posterior.mean_and_covariance(points)
    points.flags.writeable = False
    for given in (points, np.asfortranarray(points), points.tolist()):
        for ours, theirs in zip(posterior.mean_and_covariance(given), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_variance_lost_to_rounding_is_refused_with_the_number_of_the_point() -> None:
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [50.0], [1e12]))
    posterior = prior.condition(wg.Annotations.isotropic([[5.0, 5.0]], [[5.0, 5.0]], sd=1e-5))
    points = np.random.default_rng(10).uniform(0, 100, (4000, 2))
    points[2345] = 5.0
    for ask in (posterior.entropy, lambda at: posterior.squared_lengths(at, at)):
        with pytest.raises(SingularModelError, match="point 2345 is lost to rounding"):
            ask(points)


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("d", [2, 3])
def test_the_number_of_threads_changes_nothing(d: int, isotropic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = model(d, isotropic)
    points = np.random.default_rng(11).uniform(0, 100, (7001, d))
    expected = posterior.mean_and_covariance(points)
    monkeypatch.setenv("WARPGAUGE_THREADS", "1")
    for ours, theirs in zip(posterior.mean_and_covariance(points), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
