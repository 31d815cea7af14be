"""Maps of a posterior with Student-t tails, against scipy's F and t distributions and draws of the posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import warpgauge as wg
from models import make
from warpgauge import maps
from warpgauge.core.process import Posterior
from warpgauge.maps.exceedance import exceedance

NU = 4.0
ACCURACY = 1e-3  # as documented


def posterior_with(tails: float, d: int = 2, isotropic: bool = False) -> Posterior:
    model = make(d, "wendland", isotropic, "affine")
    return replace(model.prior, tails=tails).condition(model.annotations)


def grid_in(d: int) -> wg.Grid:
    return wg.Grid((7, 5, 4)[:d], [9.0, 11.0, 13.0][:d], [-10.0, 0.0, 5.0][:d])


def shifted(points: np.ndarray) -> np.ndarray:
    """Where it is defined, some elements lie far off and some near the mean."""
    return np.where(points[:, :1] < 0, np.nan, points + points[:, 1:2] / 5)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("isotropic", [True, False])
def test_error_and_significance_maps_follow_the_tails(d: int, isotropic: bool) -> None:
    """Level and adjusted p of the whitened deviation by scipy's F; the error map is ``error_score``, bit by bit."""
    posterior, grid = posterior_with(NU, d, isotropic), grid_in(d)
    points = grid.points()
    inside = points[:, 0] >= 0
    gaps = shifted(points)[inside] - posterior.mean(points[inside])
    squares = np.array(
        [gap @ np.linalg.inv(C) @ gap for gap, C in zip(gaps, posterior.covariance(points[inside]), strict=True)]
    )
    law = stats.f(d, NU)
    ratio = squares / d * NU / (NU - 2)
    error = maps.error_map(posterior, shifted, grid).reshape(-1)
    np.testing.assert_allclose(error[inside], law.cdf(ratio), rtol=1e-8)
    assert np.isnan(error[~inside]).all()
    assert np.array_equal(error[inside], wg.error_score(posterior, points[inside], shifted(points)[inside]))
    adjusted = maps.significance_map(posterior, shifted, grid).reshape(-1)
    np.testing.assert_allclose(adjusted[inside], stats.false_discovery_control(law.sf(ratio)), rtol=1e-8)
    assert np.abs(law.cdf(ratio) - stats.chi2.cdf(squares, d)).max() > 0.05


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("isotropic", [True, False])
def test_exceedance_agrees_with_draws_of_the_t_process(d: int, isotropic: bool) -> None:
    """The share of 40,000 posterior samples beyond the tolerance, within 4.5 binomial standard errors."""
    posterior = posterior_with(NU, d, isotropic)
    points = make(d, "wendland", isotropic, "affine").points
    mapped = points + np.random.default_rng(3).normal(0, 4, points.shape)
    draws = posterior.sample(points, 40_000, seed=1)
    for tolerance in (2.0, 12.0, 25.0):
        p = maps.exceedance_probability(posterior, points, mapped, tolerance)
        shares = (np.linalg.norm(draws - mapped, axis=2) > tolerance).mean(axis=0)
        assert np.all(np.abs(shares - p) <= 4.5 * np.sqrt(p * (1 - p) / 40_000) + 2e-4)
    gaussian = posterior_with(np.inf, d, isotropic)
    assert np.abs(p - maps.exceedance_probability(gaussian, points, mapped, tolerance)).max() > 0.01


@pytest.mark.parametrize("nu", [2.1, 3.0, 4.0, 9.0, 200.0])
def test_exceedance_about_the_mean_is_the_tail_of_an_f_distribution(nu: float) -> None:
    """A transform that maps onto the mean: ``|r|^2 / (2 v) nu / (nu - 2)`` is F(2, nu), at every ratio of lengths."""
    posterior = posterior_with(nu, 2, True)
    points = make(2, "wendland", True, "affine").points
    sd = posterior.standard_deviation(points)
    for ratio in np.geomspace(0.02, 50, 25):
        tolerance = float(ratio * sd[0])
        found = maps.exceedance_probability(posterior, points, posterior.mean(points), tolerance)
        expected = stats.f(2, nu).sf(np.square(tolerance / sd) / 2 * nu / (nu - 2))
        np.testing.assert_allclose(found, expected, atol=ACCURACY)


def test_exceedance_equals_the_integral_of_the_t_density_over_the_disc() -> None:
    """Anisotropic and off the mean: dblquad of scipy's bivariate t with the posterior's mean and covariance."""
    posterior, t = posterior_with(NU), 9.0
    points = make(2, "wendland", False, "affine").points[:3]
    mapped = points + np.array([4.0, -6.0])
    found = maps.exceedance_probability(posterior, points, mapped, t)
    for row, (mean, covariance) in enumerate(zip(posterior.mean(points), posterior.covariance(points), strict=True)):
        inverse = np.linalg.inv(covariance * (NU - 2) / NU)
        peak = np.sqrt(np.linalg.det(inverse)) / (2 * np.pi)
        gap = mapped[row] - mean

        def density(y: float, x: float, g: np.ndarray = gap, P: np.ndarray = inverse, c: float = peak) -> float:
            z = np.array([x, y]) + g
            return float(c * (1 + z @ P @ z / NU) ** (-(NU + 2) / 2))

        inside, _ = integrate.dblquad(
            density, -t, t, lambda x: -np.sqrt(t**2 - x**2), lambda x: np.sqrt(t**2 - x**2), epsabs=1e-6
        )
        assert found[row] == pytest.approx(1 - inside, abs=ACCURACY)
        assert 0.02 < found[row] < 0.98


@pytest.mark.parametrize("d", [2, 3])
def test_probabilities_near_and_far_from_the_boundary(d: int) -> None:
    """Of a t distribution with equal deviations about any mean, against scipy's integral over the mixing factor."""
    rng, t = np.random.default_rng(0), 2.0
    n = 60
    sd = np.exp(rng.uniform(-5, 4, n))
    length = np.abs(t + sd * rng.normal(size=n))
    means = np.zeros((n, d))
    means[:, 0] = length
    found = exceedance(means, np.square(sd)[:, None, None] * np.eye(d), t, NU)
    for row in range(n):

        def weighted(chi: float, s: float = sd[row], m: float = length[row]) -> float:
            variance = s**2 * (NU - 2) / chi
            return float(stats.chi2.pdf(chi, NU) * stats.ncx2.sf(t**2 / variance, d, m**2 / variance))

        expected = integrate.quad(weighted, 0, np.inf, limit=200)[0]
        assert found[row] == pytest.approx(expected, abs=ACCURACY)
    assert ((found > 0.01) & (found < 0.99)).sum() > n / 2
