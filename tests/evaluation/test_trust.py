from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import diagnose, known_targets, trust

KERNEL = wg.KernelBundle("wendland", [20.0, 60.0], [4.0, 9.0])
PRIOR = wg.TransformationPrior(KERNEL)


def drawn(count: int, spread: float = 1.0, seed: int = 0, sd: float = 0.5) -> wg.Annotations:
    """Annotations of a transformation drawn from the prior itself; ``spread`` > 1 makes the model overconfident."""
    rng = np.random.default_rng(seed)
    fixed = rng.uniform(0, 200, (count, 2))
    empty = PRIOR.condition(wg.Annotations.empty(2))
    truth = empty.sample(fixed, 1, seed=seed)[0]
    moving = fixed + spread * (truth - fixed + rng.normal(0, sd, fixed.shape))
    return wg.Annotations.isotropic(fixed, moving, sd)


def test_a_model_that_is_right_is_called_calibrated_and_wrong_ones_are_not() -> None:
    assert trust(PRIOR.condition(drawn(80))).verdict == "calibrated"
    assert trust(PRIOR.condition(drawn(80, spread=3.0))).verdict == "overconfident"
    assert trust(PRIOR.condition(drawn(80, spread=0.3))).verdict == "underconfident"
    assert trust(PRIOR.condition(drawn(9))).verdict == "undetermined"


def test_the_false_alarm_rate_of_the_verdict() -> None:
    """Models drawn from themselves are called calibrated in at least 93 of 100 cases: the test has the level 5 %."""
    verdicts = [diagnose(PRIOR.condition(drawn(40, seed=seed))).verdict for seed in range(100)]
    assert verdicts.count("calibrated") >= 93


def test_a_calibrated_posterior_is_tested_with_its_own_factor() -> None:
    """The residuals of a model three times too sure are right again under its factor, nearly nine."""
    annotations = drawn(80, spread=3.0, sd=0.05)
    found = diagnose(PRIOR.condition(annotations, calibrate=True))
    assert found.applied_factor == pytest.approx(found.asked_factor)
    assert 6 < found.applied_factor < 12
    assert found.calibrated
    raw = wg.calibration(PRIOR, annotations)
    plain = diagnose(PRIOR.condition(annotations))
    assert [one.inside for one in plain.coverage] == [one.inside for one in raw.coverage]
    assert plain.standardised == pytest.approx(raw.standardised, abs=1e-10)


def test_quantiles_are_those_of_the_distributions() -> None:
    found = diagnose(PRIOR.condition(drawn(30)))
    assert found.qq_normal[0, 0] == pytest.approx(stats.norm.ppf(0.5 / 60))
    assert found.qq_normal[:, 1] == pytest.approx(np.sort(found.standardised.ravel()))
    assert found.qq_chi[-1, 0] == pytest.approx(np.sqrt(stats.chi2.ppf(29.5 / 30, 2)))
    assert np.all(np.diff(found.qq_chi[:, 1]) >= 0)


def test_a_misplaced_annotation_is_found() -> None:
    annotations = drawn(40)
    moving = annotations.moving_points.copy()
    moving[17] += 25.0
    found = diagnose(PRIOR.condition(wg.Annotations(annotations.fixed_points, moving, annotations.covariances)))
    assert found.outliers[0].row == 17
    assert found.outliers[0].p < 0.01 / 40
    assert "17" in found.sentence
    assert not diagnose(PRIOR.condition(annotations)).outliers


def test_where_the_annotations_say_nothing() -> None:
    """Targets at the annotations are known; those farther away than the largest scale are not."""
    annotations = drawn(20)
    near, far = annotations.fixed_points, annotations.fixed_points + 1000.0
    posterior = PRIOR.condition(annotations)
    assert known_targets(posterior, near).all()
    assert not known_targets(posterior, far).any()


def test_no_annotations_no_diagnostics() -> None:
    with pytest.raises(InvalidInputError, match="at least one annotation"):
        trust(PRIOR.condition(wg.Annotations.empty(2)))


def test_coverage_and_quantiles_follow_the_tails() -> None:
    """Regions reach d (nu - 2) / nu F(d, nu), here F(2, 4); p-values for finding slips stay chi-square."""
    prior = wg.TransformationPrior(KERNEL, tails=4.0)
    posterior = prior.condition(drawn(60, spread=1.5))
    found = diagnose(posterior)
    reached = found.mahalanobis**2
    for one in found.coverage:
        assert one.inside == int(np.sum(reached <= 2 * 0.5 * stats.f.ppf(one.level, 2, 4)))
    np.testing.assert_allclose(found.p, stats.chi2.sf(reached, 2))
    shares = (np.arange(120) + 0.5) / 120
    np.testing.assert_allclose(found.qq_normal[:, 0], stats.t.ppf(shares, 4) * np.sqrt(0.5))
    np.testing.assert_allclose(found.qq_chi[:, 0] ** 2, stats.f.ppf((np.arange(60) + 0.5) / 60, 2, 4))
