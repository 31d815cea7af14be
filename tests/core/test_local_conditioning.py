"""More annotations than one factor holds: predictions from the nearest, which never claim more than they know."""

from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.core import local_conditioning, power_law, process
from warpgauge.core.local_conditioning import LocallyConditioned
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, NumericalWarning

SCALES, WEIGHTS = np.array([10.0, 20.0, 40.0, 80.0]), np.array([1.0, 2.0, 4.0, 8.0])


def drawn(d: int, isotropic: bool, count: int = 300) -> tuple[wg.TransformationPrior, wg.Annotations]:
    """Annotations drawn from the model itself."""
    rng = np.random.default_rng([d, isotropic])
    fixed = rng.uniform(0, 100, (count, d))
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, WEIGHTS), mean="affine", center=[50.0] * d)
    noise = np.stack([np.eye(d) * value for value in rng.uniform(0.3, 1.0, count)])
    if not isotropic:
        noise[:, 0, 0] *= 2
    truth = prior.condition(wg.Annotations(fixed[:0], fixed[:0], noise[:0])).sample(fixed, 1, seed=1)[0]
    return prior, wg.Annotations(
        fixed, truth + np.sqrt(np.diagonal(noise, axis1=1, axis2=2)) * rng.normal(size=(count, d)), noise
    )


def local(prior: wg.TransformationPrior, given: wg.Annotations, nearest: int) -> Posterior:
    whole = prior.condition(given)
    near = LocallyConditioned.near(whole.conditioned.kernel, given.fixed_points, whole.conditioned.noise, nearest)
    return Posterior(prior, given, given, near)


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("d", [2, 3])
def test_with_all_annotations_nearest_it_is_the_exact_posterior(d: int, isotropic: bool) -> None:
    prior, given = drawn(d, isotropic, 120)
    points = np.random.default_rng(3).uniform(-10, 110, (1500, d))
    exact, near = prior.condition(given), local(prior, given, 120)
    for ours, theirs in zip(near.mean_and_covariance(points), exact.mean_and_covariance(points), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(near.standard_deviation(points), exact.standard_deviation(points), rtol=1e-10)
    np.testing.assert_allclose(near.entropy(points), exact.entropy(points), atol=1e-9)
    np.testing.assert_allclose(near.left_out().residuals, exact.left_out().residuals, rtol=1e-8, atol=1e-9)
    assert near.asked_factor() == pytest.approx(exact.asked_factor(), rel=1e-6)


@pytest.mark.parametrize("isotropic", [True, False])
def test_what_is_left_out_is_in_the_standard_deviation(isotropic: bool) -> None:
    """The variance is never below the exact one, and is too large by as much as the mean is off, squared."""
    prior, given = drawn(2, isotropic)
    points = np.random.default_rng(4).uniform(0, 100, (2000, 2))
    exact, near = prior.condition(given), local(prior, given, 30)
    (mean, covariance), (near_mean, near_covariance) = (
        exact.mean_and_covariance(points),
        near.mean_and_covariance(points),
    )
    excess = np.trace(near_covariance - covariance, axis1=1, axis2=2)
    assert excess.min() > -1e-9
    off = np.square(near_mean - mean).sum(axis=1)
    # One draw of the data: neighbouring points are off together, so that their mean scatters by some ten per cent.
    assert 0.6 < off.mean() / excess.mean() < 1.6
    # With four times as many nearest annotations next to nothing is left out.
    closer = local(prior, given, 120)
    deviations = exact.standard_deviation(points)
    assert np.sqrt(np.square(closer.mean(points) - mean).mean() / np.square(deviations).mean()) < 0.05
    excess = closer.standard_deviation(points) / deviations - 1
    assert excess.max() < 0.04
    assert excess.mean() < 0.001


def test_nearest_is_by_the_distance_of_the_kernel() -> None:
    """A kernel four times as long along x: the same posterior as in a world that is four times as narrow there."""
    rng, axes = np.random.default_rng(6), np.array([4.0, 1.0])
    fixed, points = rng.uniform(0, [400, 100], (300, 2)), rng.uniform(0, [400, 100], (500, 2))
    shifts, noise = rng.normal(0, 2, (300, 2)), np.stack([0.5 * np.eye(2)] * 300)
    stretched = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, WEIGHTS, axes=axes))
    plain = wg.TransformationPrior(wg.KernelBundle("wendland", SCALES, WEIGHTS))
    near = local(stretched, wg.Annotations(fixed, fixed + shifts, noise), 30)
    same = local(plain, wg.Annotations(fixed / axes, fixed / axes + shifts, noise), 30)
    np.testing.assert_allclose(near.mean(points) - points, same.mean(points / axes) - points / axes, atol=1e-9)
    np.testing.assert_allclose(near.standard_deviation(points), same.standard_deviation(points / axes), rtol=1e-9)
    np.testing.assert_allclose(near.left_out().residuals, same.left_out().residuals, atol=1e-8)


def test_more_annotations_than_a_factor_holds_are_conditioned_on_nearby_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prior, given = drawn(2, False, 150)
    monkeypatch.setattr(process, "MOST_ROWS", 299)
    with pytest.warns(NumericalWarning, match="150 annotations are too many .* the 400 nearest"):
        posterior = prior.condition(given)
    assert posterior.nearest == 400
    assert "the nearest 400" in repr(posterior)
    with pytest.raises(InvalidInputError, match="all annotations at once"):
        posterior.sample(given.fixed_points[:3], 2)
    assert prior.condition(given, exact=True).nearest is None
    # Half of the rows where all noise is isotropic.
    assert (
        prior.condition(wg.Annotations(given.fixed_points, given.moving_points, np.stack([np.eye(2)] * 150))).nearest
        is None
    )


def test_what_twice_as_many_annotations_change_is_said() -> None:
    """Of a single constant far larger than the rest, near and far annotations tell the same: nothing changes."""
    prior, given = drawn(2, True, 120)
    near = local(prior, given, 120)
    assert isinstance(near.conditioned, LocallyConditioned)
    assert near.conditioned.changed_by_more(given.moving_points - given.fixed_points) == (0.0, 0.0)
    few = local(prior, given, 10)
    assert isinstance(few.conditioned, LocallyConditioned)
    mean, deviation = few.conditioned.changed_by_more(given.moving_points - given.fixed_points)
    assert 0.01 < deviation < mean < 1


def test_boxes_hold_every_point_once_and_few_annotations() -> None:
    rng = np.random.default_rng(5)
    locations, points = rng.normal(0, 20, (2000, 2)), rng.uniform(-50, 50, (5000, 2))
    points[:20] = points[0]
    boxes = list(local_conditioning._boxes(points, np.arange(5000), locations, 100))
    np.testing.assert_array_equal(np.sort(np.concatenate(boxes)), np.arange(5000))
    for rows in boxes:
        low, high = points[rows].min(axis=0), points[rows].max(axis=0)
        assert ((locations >= low) & (locations <= high)).all(axis=1).sum() <= 100


def test_a_fit_of_very_many_annotations_draws_some_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    prior, given = drawn(2, True, 120)
    monkeypatch.setattr(power_law, "MOST_TO_FIT", 60)
    with pytest.warns(NumericalWarning, match="learned from 60 of 120 annotations"):
        fitted = power_law.fit_power_law(prior, given, [100.0, 100.0])
    whole = power_law.fit_power_law(prior, given[:60], [100.0, 100.0])
    assert fitted.fit is not None
    # Another half of the same data: other numbers, within what the fit says it leaves open.
    assert 0.3 < fitted.kernel.weights[-1] / whole.kernel.weights[-1] < 3
