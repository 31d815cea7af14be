from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import GRID, NOISE, make, names
from warpgauge.core.factors import cholesky
from warpgauge.errors import InvalidInputError, NumericalWarning, SingularModelError

CASES = pytest.mark.parametrize("case", GRID, ids=names)


@CASES
def test_mean_and_covariance_equal_the_oracle(case: tuple[int, str, bool, str]) -> None:
    model = make(*case)
    means, joint = model.oracle_posterior()
    posterior = model.prior.condition(model.annotations)
    np.testing.assert_allclose(posterior.mean(model.points), means, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(model.points), oracle.block_diagonal(joint, model.d), atol=1e-9)
    np.testing.assert_allclose(posterior.joint_covariance(model.points), joint, atol=1e-9)


@CASES
def test_entropy_and_standard_deviation_equal_the_oracle(case: tuple[int, str, bool, str]) -> None:
    model = make(*case)
    blocks = oracle.block_diagonal(model.oracle_posterior()[1], model.d)
    posterior = model.prior.condition(model.annotations)
    expected = [oracle.entropy_gaussian(block) for block in blocks]
    np.testing.assert_allclose(posterior.entropy(model.points), expected, atol=1e-10)
    root_mean_variance = [np.sqrt(np.mean(np.diag(block))) for block in blocks]
    np.testing.assert_allclose(posterior.standard_deviation(model.points), root_mean_variance, rtol=1e-10)


@pytest.mark.parametrize("split", [0, 1, 4, 8])
@CASES
def test_append_equals_conditioning_from_scratch(case: tuple[int, str, bool, str], split: int) -> None:
    model = make(*case)
    whole = model.prior.condition(model.annotations)
    grown = model.prior.condition(model.annotations[:split]).append(model.annotations[split:])
    np.testing.assert_allclose(grown.mean(model.points), whole.mean(model.points), atol=1e-9)
    np.testing.assert_allclose(grown.covariance(model.points), whole.covariance(model.points), atol=1e-9)
    np.testing.assert_array_equal(grown.annotations.fixed_points, model.annotations.fixed_points)


def test_append_one_by_one_across_the_first_anisotropic_annotation() -> None:
    """The switch from L x L to Ld x Ld half-way changes nothing."""
    model = make(3, "wendland", False, "affine")
    covariances = model.annotations.covariances.copy()
    covariances[:4] = np.arange(1.0, 5)[:, None, None] * np.eye(3)
    annotations = wg.Annotations(model.annotations.fixed_points, model.annotations.moving_points, covariances)
    posterior = model.prior.condition(wg.Annotations.empty(3))
    for row in range(len(annotations)):
        posterior = posterior.append(annotations[[row]])
        assert posterior.isotropic is (row < 4)
    whole = model.prior.condition(annotations)
    np.testing.assert_allclose(posterior.covariance(model.points), whole.covariance(model.points), atol=1e-9)
    np.testing.assert_allclose(posterior.mean(model.points), whole.mean(model.points), atol=1e-9)


@CASES
def test_no_annotations_give_the_prior(case: tuple[int, str, bool, str]) -> None:
    model = make(*case)
    posterior = model.prior.condition(wg.Annotations.empty(model.d))
    np.testing.assert_allclose(posterior.mean(model.points), model.mean(model.points), atol=1e-12)
    for point, covariance in zip(model.points, posterior.covariance(model.points), strict=True):
        np.testing.assert_allclose(covariance, model.k(point, point), rtol=1e-12)


def test_nearly_coinciding_exact_annotations_fail_with_a_sentence_or_warn_with_the_number() -> None:
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [50.0], [1e6]))
    twice = wg.Annotations.isotropic([[5.0, 5.0], [5.0, 5.0 + 1e-9]], [[6.0, 5.0], [8.0, 7.0]], sd=1e-9)
    with pytest.warns(NumericalWarning, match=r"variance of \S+ was added"):
        prior.condition(twice)
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(SingularModelError, match="merge coinciding locations"):
        cholesky(matrix, "the annotations")


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("mean", ["identity", "affine"])
def test_samples_have_the_posterior_moments(isotropic: bool, mean: str) -> None:
    """Mean and joint covariance of 40,000 draws, annotated points and a repeated point included."""
    model = make(2, "wendland", isotropic, mean)
    points = np.concatenate([model.points, model.points[:1], model.annotations.fixed_points[:2]])
    means, joint = model.oracle_posterior(points)
    posterior = model.prior.condition(model.annotations)
    draws = posterior.sample(points, 40_000, seed=3).reshape(40_000, -1)
    sd = np.sqrt(np.diag(joint))
    assert np.abs((draws.mean(axis=0) - means.reshape(-1)) / sd).max() < 4.5 / np.sqrt(40_000)
    standardised = (np.cov(draws.T) - joint) / np.outer(sd, sd)
    assert np.abs(standardised).max() < 4.5 * np.sqrt(2 / 40_000)
    np.testing.assert_allclose(draws[:, :2], draws[:, 12:14], atol=1e-5)


def test_samples_repeat_with_the_seed_and_only_with_it() -> None:
    model = make(3, "wendland", False, "identity")
    posterior = model.prior.condition(model.annotations)
    first = posterior.sample(model.points, 3, seed=5)
    np.testing.assert_array_equal(first, posterior.sample(model.points, 3, seed=5))
    assert np.abs(first - posterior.sample(model.points, 3, seed=6)).max() > 0.1


@pytest.mark.parametrize("isotropic", [True, False])
def test_annotation_covariance_adds_sigma_and_noise(isotropic: bool) -> None:
    model = make(2, "gaussian", isotropic, "identity")
    posterior = model.prior.condition(model.annotations)
    own = np.array([[2.0, 0.3], [0.3, 1.0]])
    expected = oracle.block_diagonal(model.oracle_posterior()[1], 2) + own + NOISE * np.eye(2)
    np.testing.assert_allclose(posterior.annotation_covariance(model.points, own), expected, atol=1e-9)
    many = np.broadcast_to(own, (len(model.points), 2, 2))
    np.testing.assert_allclose(posterior.annotation_covariance(model.points, many), expected, atol=1e-9)


def test_an_affine_trend_follows_a_large_affine_map_that_the_identity_cannot() -> None:
    """A rotation by 40 degrees and a shift, learned from 6 points, extrapolated beyond the kernel's reach."""
    rng = np.random.default_rng(0)
    fixed = rng.uniform(0, 100, (6, 2))
    angle = np.deg2rad(40)
    matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    target = np.array([[200.0, -100.0]])
    kernel = wg.KernelBundle("wendland", [100.0], [1.0])
    annotations = wg.Annotations.isotropic(fixed, fixed @ matrix.T + 30, sd=0.1)
    affine = wg.TransformationPrior(kernel, mean="affine", center=[50, 50]).condition(annotations)
    error = np.linalg.norm(affine.mean(target) - (target @ matrix.T + 30))
    assert error < 3 * affine.standard_deviation(target)[0]
    assert error < 6
    identity = wg.TransformationPrior(kernel).condition(annotations)
    assert np.linalg.norm(identity.mean(target) - (target @ matrix.T + 30)) > 100


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"mean": "rigid"}, "rigid"),
        ({"noise": -1.0}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"linear_sd": 0.0}, "linear_sd"),
        ({"kernel": "wendland"}, "KernelBundle"),
    ],
)
def test_bad_priors_are_refused(change: dict[str, object], word: str) -> None:
    arguments: dict[str, object] = {"kernel": wg.KernelBundle("wendland", [1.0], [1.0]), **change}
    with pytest.raises(InvalidInputError, match=word):
        wg.TransformationPrior(**arguments)  # type: ignore[arg-type]


def test_wrong_dimensions_are_refused() -> None:
    model = make(2, "wendland", True, "identity")
    posterior = model.prior.condition(model.annotations)
    with pytest.raises(InvalidInputError, match="2 columns"):
        posterior.mean(np.zeros((4, 3)))
    with pytest.raises(InvalidInputError, match="3D annotations to a 2D"):
        posterior.append(wg.Annotations.empty(3))
    prior = wg.TransformationPrior(model.prior.kernel, mean="affine", center=[1.0, 2.0, 3.0])
    with pytest.raises(InvalidInputError, match="2 finite numbers"):
        prior.condition(model.annotations)
    bad = wg.TransformationPrior(model.prior.kernel, mean=lambda at: at[:, :1])
    with pytest.raises(InvalidInputError, match="must give finite points of shape"):
        bad.condition(model.annotations).mean(model.points)


def test_a_joint_sample_too_large_to_factor_is_refused_before_it_is_tried() -> None:
    model = make(2, "wendland", True, "identity")
    with pytest.raises(InvalidInputError, match="at most 16000 points"):
        model.prior.condition(model.annotations).sample(np.zeros((20_000, 2)), 1)


def test_more_annotations_than_one_factor_holds_are_refused_before_it_is_made() -> None:
    fixed = np.random.default_rng(0).uniform(0, 1000, (3500, 3))
    noise = np.broadcast_to(np.diag([1.0, 1.0, 2.0]), (3500, 3, 3))
    prior = wg.TransformationPrior(wg.KernelBundle.pyramid(levels=2))
    with pytest.raises(InvalidInputError, match="factor of 10,500 rows"):
        prior.condition(wg.Annotations(fixed, fixed, noise))
