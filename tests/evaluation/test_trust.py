from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Trust
from warpgauge.evaluation.comparison import known_targets
from warpgauge.evaluation.folds import Widening

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
    assert Trust.of_posterior(PRIOR.condition(drawn(80))).verdict == "calibrated"
    assert Trust.of_posterior(PRIOR.condition(drawn(80, spread=3.0))).verdict == "overconfident"
    assert Trust.of_posterior(PRIOR.condition(drawn(80, spread=0.3))).verdict == "underconfident"
    assert Trust.of_posterior(PRIOR.condition(drawn(9))).verdict == "undetermined"


def test_the_false_alarm_rate_of_the_verdict() -> None:
    """Models drawn from themselves are called calibrated in at least 93 of 100 cases: the test has the level 5 %."""
    verdicts = [Trust.of_posterior(PRIOR.condition(drawn(40, seed=seed))).verdict for seed in range(100)]
    assert verdicts.count("calibrated") >= 93


def test_a_calibrated_posterior_is_tested_with_its_own_factor() -> None:
    """The residuals of a model three times too sure are right again under its factor, nearly nine."""
    annotations = drawn(80, spread=3.0, sd=0.05)
    found = Trust.of_posterior(PRIOR.condition(annotations, calibrate=True))
    assert found.calibrated
    raw = wg.calibration(PRIOR, annotations)
    plain = Trust.of_posterior(PRIOR.condition(annotations))
    assert [one.inside for one in plain.coverage] == [one.inside for one in raw.coverage]
    assert plain.standardised == pytest.approx(raw.standardised, abs=1e-10)


def test_a_misplaced_annotation_is_found() -> None:
    annotations = drawn(40)
    moving = annotations.moving_points.copy()
    moving[17] += 25.0
    found = Trust.of_posterior(
        PRIOR.condition(wg.Annotations(annotations.fixed_points, moving, annotations.covariances))
    )
    assert found.outliers[0] == 17
    assert found.p[17] < 0.01 / 40
    assert "18" in found.sentence
    assert not Trust.of_posterior(PRIOR.condition(annotations)).outliers


def test_where_the_annotations_say_nothing() -> None:
    """Targets at the annotations are known; those farther away than the largest scale are not."""
    annotations = drawn(20)
    near, far = annotations.fixed_points, annotations.fixed_points + 1000.0
    posterior = PRIOR.condition(annotations)
    assert known_targets(posterior, near).all()
    assert not known_targets(posterior, far).any()


def test_no_annotations_no_diagnostics() -> None:
    with pytest.raises(InvalidInputError, match="there is none"):
        Trust.of_posterior(PRIOR.condition(wg.Annotations.empty(2)))


def test_coverage_follows_the_tails() -> None:
    """Regions reach d (nu - 2) / nu F(d, nu), here F(2, 4); p-values for finding slips stay chi-square."""
    prior = wg.TransformationPrior(KERNEL, tails=4.0)
    posterior = prior.condition(drawn(60, spread=1.5))
    found = Trust.of_posterior(posterior)
    reached = found.mahalanobis**2
    for one in found.coverage:
        assert one.inside == int(np.sum(reached <= 2 * 0.5 * stats.f.ppf(one.level, 2, 4)))
    np.testing.assert_allclose(found.p, stats.chi2.sf(reached, 2))


def test_the_calibration_of_a_judge_is_that_of_the_models_behind_its_numbers() -> None:
    """Levels by a plain loop: the factor and the tails of each annotation's region are those that the others show."""
    squares = 2.0 * np.random.default_rng(3).f(2, 5, 12)
    found = Widening.of_squares(squares, 2)
    for row in (0, 7):
        weights = Widening.of_squares(np.delete(squares, row), 2).weights
        factors = np.exp(np.linspace(-3.5, 3.5, 71))
        tails = 2 + np.exp(np.log(6) + np.linspace(-2.5, 2.5, 21))
        expected = sum(
            weights[i, j] * stats.f.cdf(squares[row] / c, 2, nu)
            for i, c in enumerate(factors)
            for j, nu in enumerate(tails)
        )
        assert found.levels[row] == pytest.approx(expected, rel=1e-9)
    levels = np.sort(found.levels)
    assert levels[0] >= 0
    assert levels[-1] <= 1
