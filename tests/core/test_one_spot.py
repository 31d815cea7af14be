"""Annotations on one spot: finite and sensible anywhere, and never without a word."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning

EXTENT = np.array([1000.0, 800.0])


def on_one_spot(place: tuple[float, float], count: int) -> wg.Annotations:
    rng = np.random.default_rng(0)
    fixed = np.tile(np.array(place), (count, 1))
    moving = fixed + np.array([5.0, 3.0]) + rng.normal(0, 0.5, (count, 2))
    return wg.Annotations(fixed, moving, np.tile(np.eye(2), (count, 1, 1)))


@pytest.mark.parametrize("place", [(500.0, 400.0), (10.0, 10.0), (990.0, 400.0)])
def test_many_annotations_on_one_spot(place: tuple[float, float]):
    """Near the spot the answer is known; elsewhere the uncertainty is finite and stays below the image's size."""
    with pytest.warns(SuspiciousDataWarning, match="annotate other places"):
        posterior = wg.default_posterior(on_one_spot(place, 300), EXTENT)
    x, y = np.meshgrid(np.linspace(0, 1000, 9), np.linspace(0, 800, 9))
    spread = posterior.standard_deviation(np.stack([x.ravel(), y.ravel()], axis=1))
    assert np.isfinite(spread).all()
    assert spread.max() < 300  # a third of the image: a wide prior, not an explosion
    assert posterior.standard_deviation(np.array([place]))[0] < 1.0
    np.testing.assert_allclose(posterior.mean(np.array([place]))[0] - place, [5.0, 3.0], atol=0.5)


def anisotropic(seed: int, d: int, spots: int, count: int) -> wg.Annotations:
    """Annotations of which many share a location, each with a covariance of its own."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 100, (spots, d))
    fixed = places[rng.integers(0, spots, count)]
    roots = rng.normal(0, 1, (count, d, d))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(d)
    return wg.Annotations(fixed, fixed + rng.normal(2, 1, (count, d)), covariances)


@pytest.mark.parametrize(("d", "noise"), [(2, 0.0), (3, 0.0), (2, 0.7)])
def test_merging_is_exact(d: int, noise: float):
    """The dense posterior of all annotations is that of one annotation per location, their precisions added."""
    given = anisotropic(5, d, 6, 30)
    merged = given.merged(noise)
    assert len(merged) == 6
    kernel = wg.KernelBundle("wendland", [20.0, 60.0], [30.0, 50.0])

    def dense(x: np.ndarray, y: np.ndarray) -> float:
        return oracle.kernel("wendland", [20.0, 60.0], [30.0, 50.0], x, y)

    points = np.random.default_rng(1).uniform(0, 100, (7, d))
    full = wg.TransformationPrior(kernel, noise=noise).condition(given)
    few = wg.TransformationPrior(kernel).condition(merged)
    told = given.fixed_points, given.moving_points, given.covariances
    mean, covariance = oracle.posterior(dense, oracle.identity, *told, points, noise)
    for posterior in (full, few):
        np.testing.assert_allclose(posterior.mean(points), np.reshape(mean, points.shape), rtol=1e-9)
        np.testing.assert_allclose(posterior.joint_covariance(points), covariance, rtol=1e-7, atol=1e-8)
    assert full.asked_factor() == pytest.approx(few.asked_factor(), rel=1e-6)


@pytest.mark.parametrize(("d", "noise", "family"), [(2, 0.0, "wendland"), (3, 0.4, "wendland"), (2, 0.7, "gaussian")])
def test_what_is_left_out_of_a_shared_location(d: int, noise: float, family: str):
    """Each annotation is predicted from all others, its own location's among them, as when it is really left out."""
    given, scales, weights = anisotropic(7, d, 5, 17), [20.0, 60.0], [30.0, 50.0]
    prior = wg.TransformationPrior(wg.KernelBundle(family, scales, weights), noise=noise)

    def dense(x: np.ndarray, y: np.ndarray) -> float:
        return oracle.kernel(family, scales, weights, x, y)

    told = given.fixed_points, given.moving_points, given.covariances
    residuals, covariances = oracle.leave_one_out(dense, oracle.identity, *told, noise)
    found = wg.leave_one_out_residuals(prior, given)
    np.testing.assert_allclose(found.residuals, residuals, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.covariances, covariances, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_location_annotated_again_is_appended(noise: float):
    """Appending in any portions gives the posterior of all annotations at once, also at locations known before."""
    given = anisotropic(11, 2, 8, 24)
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [20.0, 60.0], [30.0, 50.0]), noise=noise)
    points = np.random.default_rng(1).uniform(0, 100, (7, 2))
    elsewhere = wg.Annotations([[120.0, 3.0]], [[121.0, 4.0]], [np.eye(2)])
    whole = prior.condition(wg.Annotations.concatenate([given, elsewhere]), calibrate=True)
    grown = prior.condition(given[:5], calibrate=True).append(given[5:20]).append(given[20:]).append(elsewhere)
    assert len(grown.annotations) == len(whole.annotations) == 25
    np.testing.assert_allclose(grown.mean(points), whole.mean(points), rtol=1e-10)
    np.testing.assert_allclose(grown.covariance(points), whole.covariance(points), rtol=1e-8, atol=1e-10)
    assert grown.scale == pytest.approx(whole.scale, rel=1e-8)


@pytest.mark.parametrize("d", [2, 3])
def test_thousand_annotations_that_claim_too_much(d: int):
    """A thousand of one spot with a stated SD of 1e-4 say what one with 1e-4 / sqrt(1000) at their mean says."""
    rng = np.random.default_rng(0)
    fixed = np.vstack([np.full((1000, d), 50.0), np.full((1, d), 80.0)])
    moving = fixed + rng.normal(2, 0.5, fixed.shape)
    covariances = np.tile(1e-8 * np.eye(d), (1001, 1, 1))
    points = np.vstack([fixed[[0, -1]], rng.uniform(0, 100, (6, d))])
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [20.0, 60.0], [3.0, 5.0]))
    posterior = prior.condition(wg.Annotations(fixed, moving, covariances))

    def dense(x: np.ndarray, y: np.ndarray) -> float:
        return oracle.kernel("wendland", [20.0, 60.0], [3.0, 5.0], x, y)

    few = fixed[[0, -1]], np.vstack([moving[:1000].mean(axis=0), moving[-1:]]), covariances[:2] / [[[1000]], [[1]]]
    mean, covariance = oracle.posterior(dense, oracle.identity, *few, points)
    np.testing.assert_allclose(posterior.mean(points), np.reshape(mean, points.shape), rtol=1e-9)
    np.testing.assert_allclose(posterior.joint_covariance(points), covariance, rtol=1e-8, atol=1e-13)
    assert np.isfinite(posterior.entropy(points[2:])).all()
    assert np.isfinite(posterior.sample(points, 3)).all()
    found = wg.leave_one_out_residuals(prior, posterior.annotations)
    others = (moving[:1000].sum(axis=0) - moving[:1000]) / 999
    np.testing.assert_allclose(found.residuals[:1000], moving[:1000] - others, atol=1e-6)
    np.testing.assert_allclose(
        found.covariances[:1000], np.tile(1e-8 * (1 + 1 / 999) * np.eye(d), (1000, 1, 1)), rtol=1e-3
    )


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones((3, 2)) + 1j,
        np.ma.masked_less(np.arange(6.0).reshape(3, 2), 1),
        np.array([["1", "2"]] * 3),
        np.array([["a", None]] * 3, dtype=object),
        np.zeros((3, 2), dtype="datetime64[s]"),
        np.zeros((3, 2), dtype="timedelta64[s]"),
        np.array([[1.0, 2j]] * 3, dtype=object),
        np.zeros((3, 2), dtype=[("x", float)]),
    ],
    ids=["complex", "masked", "text", "object", "datetime", "timedelta", "object complex", "record"],
)
def test_arrays_that_would_lose_a_part_are_refused(wrong: np.ndarray):
    """Imaginary parts, masks, units of time and text are not dropped in silence, on any side."""
    good = np.arange(6.0).reshape(3, 2)
    covariances = np.tile(np.eye(2), (3, 1, 1))
    for given in ((wrong, good, covariances), (good, wrong, covariances)):
        with pytest.raises(InvalidInputError, match=r"points (must be|has masked)"):
            wg.Annotations(*given)
    with pytest.raises(InvalidInputError, match=r"covariances (must be|has masked)"):
        wg.Annotations(
            good, good, np.ma.masked_equal(covariances, 0) if np.ma.isMaskedArray(wrong) else covariances + 0j
        )
    posterior = wg.TransformationPrior(wg.KernelBundle("wendland", [10.0], [1.0])).condition(
        wg.Annotations(good, good, covariances)
    )
    with pytest.raises(InvalidInputError):
        posterior.mean(wrong)


def test_other_kinds_of_numbers_are_taken():
    """Whole numbers, an unmasked masked array, and objects that are numbers are what they say."""
    good = np.arange(6).reshape(3, 2)
    covariances = np.tile(np.eye(2), (3, 1, 1))
    for given in (good, np.ma.array(good), good.astype(object), good.tolist(), good.astype(np.float32)):
        assert wg.Annotations(given, given, covariances).fixed_points.dtype == np.float64
