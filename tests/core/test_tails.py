"""Student-t tails: regions, samples and the leave-one-out factor, against scipy and the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import oracle
import warpgauge as wg
from models import make
from warpgauge.core.error_scores import win_probabilities
from warpgauge.core.leave_one_out import T_PRIOR_ANNOTATIONS, T_PRIOR_FACTOR
from warpgauge.core.tails import beyond, level_of, squared_radius
from warpgauge.errors import InvalidInputError

NU = 4.0


def with_tails(prior: wg.TransformationPrior, tails: float = NU) -> wg.TransformationPrior:
    return replace(prior, tails=tails)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("nu", [2.5, 4.0, 30.0])
def test_levels_are_those_of_a_t_distribution_with_that_covariance(d: int, nu: float) -> None:
    """Of draws by scipy with covariance C, each level's region holds that share; C is the covariance (nu = 30)."""
    covariance = np.diag([4.0, 1.0, 0.25][:d]) + 0.1
    drawn = stats.multivariate_t(np.zeros(d), covariance * (nu - 2) / nu, nu).rvs(40_000, random_state=1)
    squares = np.einsum("na,na->n", drawn, np.linalg.solve(covariance, drawn.T).T)
    for level in (0.5, 0.8, 0.95):
        assert np.mean(squares <= squared_radius(level, d, nu)) == pytest.approx(level, abs=0.008)
    assert np.allclose(level_of(squares[:50], d, nu) + beyond(squares[:50], d, nu), 1)
    assert level_of(squared_radius(0.8, d, nu), d, nu) == pytest.approx(0.8)
    if nu == 30.0:
        assert np.allclose(np.cov(drawn.T), covariance, atol=0.1)


@pytest.mark.parametrize("anisotropic", [False, True])
@pytest.mark.parametrize("d", [2, 3])
def test_tails_change_regions_and_nothing_of_mean_and_covariance(d: int, anisotropic: bool) -> None:
    model = make(d, "wendland", anisotropic, "identity", count=12)
    plain, heavy = model.prior.condition(model.annotations), with_tails(model.prior).condition(model.annotations)
    points = model.annotations.fixed_points[:5] + 3.0
    assert np.array_equal(plain.mean(points), heavy.mean(points))
    assert np.array_equal(plain.covariance(points), heavy.covariance(points))
    assert plain.scale == heavy.scale == 1.0
    truth = plain.mean(points) + 1.0
    squares = np.einsum(
        "na,na->n", np.ones((5, d)), np.linalg.solve(plain.covariance(points), np.ones((5, d, 1)))[..., 0]
    )
    assert np.allclose(wg.error_score(heavy, points, truth), stats.f.cdf(squares * NU / (NU - 2) / d, d, NU))
    half_lengths, axes = heavy.region(points, 0.8)
    # The end of each axis lies on the region's border.
    for row in range(5):
        for axis in range(d):
            end = half_lengths[row, axis] * axes[row, :, axis]
            length = end @ np.linalg.solve(plain.covariance(points)[row], end)
            assert length == pytest.approx(stats.f.ppf(0.8, d, NU) * d * (NU - 2) / NU)


@pytest.mark.parametrize("nu", [np.inf, NU])
@pytest.mark.parametrize("anisotropic", [False, True])
def test_the_factor_is_that_of_the_oracle(nu: float, anisotropic: bool) -> None:
    """The penalised maximum over a fine search with scipy's densities, for Gaussian and for t residuals."""
    model = make(2, "wendland", anisotropic, "identity", count=6)
    prior = with_tails(model.prior, nu)
    found = wg.leave_one_out_residuals(prior, model.annotations)
    noise = prior.total_noise(model.annotations.covariances)
    count, said = (2.0, 1.0) if np.isinf(nu) else (T_PRIOR_ANNOTATIONS, T_PRIOR_FACTOR)
    expected = oracle.leave_one_out_factor(found.residuals, found.covariances - noise, noise, nu, count, said)
    assert prior.condition(model.annotations, calibrate=True).scale == pytest.approx(expected, rel=0.011)
    assert wg.calibration(prior, model.annotations).factor == pytest.approx(expected, rel=0.011)


def test_one_gross_error_moves_the_factor_little() -> None:
    """The Gaussian factor grows with the square of the error, that of the t distribution hardly."""
    model = make(2, "wendland", False, "identity", count=30)
    moved = np.array(model.annotations.moving_points)
    moved[7] += 400.0
    spoiled = wg.Annotations(model.annotations.fixed_points, moved, model.annotations.covariances)
    ratios = []
    for prior in (model.prior, with_tails(model.prior)):
        before, after = (prior.condition(given, calibrate=True).scale for given in (model.annotations, spoiled))
        ratios.append(after / before)
    assert ratios[0] > 10
    assert ratios[1] < 0.35 * ratios[0]


def test_samples_are_a_t_process() -> None:
    """Marginals are t with the stated covariance; within one sample all points share the factor."""
    model = make(2, "wendland", False, "identity", count=10)
    posterior = with_tails(model.prior).condition(model.annotations)
    points = np.array([[20.0, 30.0], [150.0, 160.0], [75.0, 10.0]])
    drawn = posterior.sample(points, 20_000, seed=3) - posterior.mean(points)
    squares = np.square(drawn).sum(axis=2) / posterior.standard_deviation(points) ** 2
    for level in (0.5, 0.95):
        assert np.allclose(np.mean(squares <= posterior.squared_radius(level), axis=0), level, atol=0.012)
    gaussian = model.prior.condition(model.annotations).sample(points, 20_000, seed=3) - posterior.mean(points)
    factors = np.linalg.norm(drawn, axis=(1, 2)) / np.linalg.norm(gaussian, axis=(1, 2))
    assert np.allclose(drawn, factors[:, None, None] * gaussian)


def test_win_probabilities_are_those_of_the_samples() -> None:
    """The probability of the smaller mean squared error is that of many joint samples, with tails too."""
    model = make(2, "wendland", False, "identity", count=10)
    posterior = with_tails(model.prior, 3.0).condition(model.annotations)
    points = np.array([[20.0, 30.0], [150.0, 160.0], [75.0, 10.0]])
    mean, sd = posterior.mean(points), posterior.standard_deviation(points)[:, None]
    a, b = mean + 0.6 * sd, mean - 0.9 * sd
    drawn = posterior.sample(points, 20_000, seed=5)
    errors = [np.square(drawn - one).sum(axis=2).mean(axis=1) for one in (a, b)]
    expected = np.mean(errors[0] < errors[1])
    assert win_probabilities(posterior, points, [a, b])[0, 1] == pytest.approx(expected, abs=0.012)


def test_calibration_counts_with_the_tails() -> None:
    model = make(3, "wendland", False, "identity", count=30)
    prior = with_tails(model.prior)
    summary, found = wg.calibration(prior, model.annotations), wg.leave_one_out_residuals(prior, model.annotations)
    for one in summary.coverage:
        inside = found.mahalanobis**2 * NU / (NU - 2) / 3 <= stats.f.ppf(one.level, 3, NU)
        assert one.inside == inside.sum()
    assert np.allclose(found.p, stats.f.sf(found.mahalanobis**2 * NU / (NU - 2) / 3, 3, NU))


@pytest.mark.parametrize("tails", [2.0, 0.0, float("nan"), -1.0])
def test_tails_need_a_covariance(tails: float) -> None:
    with pytest.raises(InvalidInputError, match="more than 2 degrees"):
        wg.TransformationPrior(wg.KernelBundle("wendland", [10.0], [1.0]), tails=tails)
