from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import warpgauge as wg
from models import make
from warpgauge.core.calibration import binomial_interval
from warpgauge.errors import InvalidInputError


def draw(
    factor: float, count: int, d: int, seed: int, noise_sd: float = 0.2
) -> tuple[wg.Annotations, np.ndarray, np.ndarray]:
    """Annotations, held-out points and their true matches from a process with ``factor`` times the stated variance."""
    kernel = wg.KernelBundle("wendland", [30.0, 120.0], [4.0 * factor, 20.0 * factor])
    rng = np.random.default_rng(seed)
    fixed = rng.uniform(0, 200, (count + 60, d))
    truth = wg.TransformationPrior(kernel).condition(wg.Annotations.empty(d)).sample(fixed, 1, seed=seed)[0]
    moving = truth[:count] + rng.normal(0, noise_sd, (count, d))
    return wg.Annotations.isotropic(fixed[:count], moving, noise_sd), fixed[count:], truth[count:]


PRIOR = wg.TransformationPrior(wg.KernelBundle("wendland", [30.0, 120.0], [4.0, 20.0]))


def coverage(factor: float, calibrate: bool, level: float, d: int, pairs: int = 60) -> float:
    inside = []
    for seed in range(pairs):
        annotations, points, truth = draw(factor, 40, d, seed)
        posterior = PRIOR.condition(annotations, calibrate=calibrate)
        score = wg.error_score(posterior, points, truth)
        inside.append(np.mean(score <= level))
    return float(np.mean(inside))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_a_right_model_covers_what_it_states(level: float, d: int) -> None:
    """Held-out true matches lie in the stated regions, with and without calibration."""
    assert coverage(1.0, False, level, d) == pytest.approx(level, abs=0.03)
    assert coverage(1.0, True, level, d) == pytest.approx(level, abs=0.03)


@pytest.mark.parametrize("factor", [6.0, 1 / 6])
def test_calibration_mends_a_wrong_scale(factor: float) -> None:
    """A prior whose variance is off by six covers far from 95 %; its calibrated posterior comes within 3 %."""
    assert abs(coverage(factor, False, 0.95, 2) - 0.95) > 0.04
    assert coverage(factor, True, 0.95, 2) == pytest.approx(0.95, abs=0.03)


def test_calibration_scales_covariance_and_leaves_the_mean() -> None:
    annotations, points, _ = draw(6.0, 40, 2, seed=7)
    plain, scaled = PRIOR.condition(annotations), PRIOR.condition(annotations, calibrate=True)
    factor = wg.calibration(PRIOR, annotations).factor
    assert factor > 2
    assert scaled.scale == factor
    np.testing.assert_array_equal(scaled.mean(points), plain.mean(points))
    np.testing.assert_allclose(scaled.covariance(points), factor * plain.covariance(points))
    np.testing.assert_allclose(scaled.entropy(points), plain.entropy(points) + np.log(factor))
    np.testing.assert_allclose(scaled.standard_deviation(points), np.sqrt(factor) * plain.standard_deviation(points))
    deviations = [one.sample(points, 5, seed=1) - one.mean(points) for one in (plain, scaled)]
    np.testing.assert_allclose(deviations[1], np.sqrt(factor) * deviations[0])
    own = np.eye(2)
    np.testing.assert_allclose(
        scaled.annotation_covariance(points, own), factor * plain.covariance(points) + own, rtol=1e-12
    )


def test_append_calibrates_anew() -> None:
    annotations, points, _ = draw(6.0, 40, 2, seed=8)
    grown = PRIOR.condition(annotations[:10], calibrate=True).append(annotations[10:])
    np.testing.assert_allclose(
        grown.covariance(points), PRIOR.condition(annotations, calibrate=True).covariance(points), rtol=1e-6
    )


def test_summary_counts_by_hand() -> None:
    """Coverage counts leave-one-out residuals inside the chi-square radius; standardised ones have that length."""
    model = make(3, "wendland", False, "identity", count=30)
    summary = wg.calibration(model.prior, model.annotations)
    residuals = wg.leave_one_out_residuals(model.prior, model.annotations)
    np.testing.assert_allclose(np.linalg.norm(summary.standardised, axis=1), residuals.mahalanobis, rtol=1e-9)
    for one, level in zip(summary.coverage, (0.5, 0.8, 0.95), strict=True):
        assert one.level == level
        assert one.inside == np.sum(residuals.mahalanobis**2 <= stats.chi2.ppf(level, 3))
        assert one.share == one.inside / 30
        assert one.low <= one.share <= one.high


@pytest.mark.parametrize(("inside", "count"), [(0, 20), (20, 20), (13, 20)])
def test_binomial_interval_equals_scipy(inside: int, count: int) -> None:
    expected = stats.binomtest(inside, count).proportion_ci(0.95, method="exact")
    assert binomial_interval(inside, count) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_no_annotations_have_no_calibration() -> None:
    with pytest.raises(InvalidInputError, match="at least one"):
        wg.calibration(PRIOR, wg.Annotations.empty(2))


def test_the_annotators_noise_is_not_scaled() -> None:
    """Residuals five times the stated noise, of a process that hardly varies: no factor explains them."""
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [30.0], [1e-6]))
    rng = np.random.default_rng(4)
    fixed = rng.uniform(0, 200, (20, 2))
    annotations = wg.Annotations.isotropic(fixed, fixed + rng.normal(0, 5.0, (20, 2)), 1.0)
    plain, scaled = (prior.condition(annotations, calibrate=on).covariance(fixed[:1]) for on in (False, True))
    assert scaled[0, 0, 0] / plain[0, 0, 0] < 2
