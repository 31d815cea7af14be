"""The probability that an error exceeds a tolerance, against independent ways to the same number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import warpgauge as wg
from models import make, random_covariances
from warpgauge.errors import InvalidInputError
from warpgauge.maps import exceedance_map, exceedance_probability
from warpgauge.maps.exceedance import exceedance

ACCURACY = 1e-6  # as documented


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("isotropic", [True, False])
def test_agrees_with_monte_carlo_over_the_posterior(d: int, isotropic: bool) -> None:
    """The share of 40,000 joint posterior samples beyond the tolerance, within 4.5 binomial standard errors."""
    model = make(d, "wendland", isotropic, "affine")
    posterior = model.prior.condition(model.annotations)
    mapped = model.points + np.random.default_rng(3).normal(0, 4, model.points.shape)
    draws = posterior.sample(model.points, 40_000, seed=1)
    for tolerance in (1.0, 4.0, 12.0):
        p = exceedance_probability(posterior, model.points, mapped, tolerance)
        shares = (np.linalg.norm(draws - mapped, axis=2) > tolerance).mean(axis=0)
        assert np.all(np.abs(shares - p) <= 4.5 * np.sqrt(p * (1 - p) / 40_000) + 1e-4)
        assert not np.allclose(p, p[0])


@pytest.mark.parametrize("d", [2, 3])
def test_quadrature_equals_the_noncentral_chi_square_where_all_deviations_are_equal(d: int) -> None:
    """Over six orders of magnitude of deviation, near the boundary of the ball and far from it."""
    rng = np.random.default_rng(0)
    n, t = (4000, 2.0) if d == 2 else (400, 2.0)
    sd = np.exp(rng.uniform(-7, 7, n))
    direction = rng.normal(size=(n, d))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    length = np.where(np.arange(n) % 2, np.abs(t + sd * rng.normal(size=n)), rng.uniform(0, 4, n))
    found = exceedance(direction * length[:, None], np.square(sd)[:, None, None] * np.eye(d), t)
    expected = stats.ncx2.sf(np.square(t / sd), d, np.square(length / sd))
    np.testing.assert_allclose(found, expected, atol=ACCURACY)
    assert ((expected > 0.01) & (expected < 0.99)).sum() > n / 10


def test_quadrature_equals_scipys_double_integral_in_an_unrotated_frame() -> None:
    """Strongly anisotropic and correlated: dblquad of the plain bivariate density over the disc."""
    rng, t = np.random.default_rng(1), 2.5
    for covariance in random_covariances(4, 2, False, rng):
        mean = rng.normal(0, 2, 2)
        inverse, norm = np.linalg.inv(covariance), 2 * np.pi * np.sqrt(np.linalg.det(covariance))

        def density(y: float, x: float, m: np.ndarray = mean, P: np.ndarray = inverse, c: float = norm) -> float:
            z = np.array([x, y]) - m
            return float(np.exp(-0.5 * z @ P @ z) / c)

        inside, _ = integrate.dblquad(
            density, -t, t, lambda x: -np.sqrt(t**2 - x**2), lambda x: np.sqrt(t**2 - x**2), epsabs=1e-8
        )
        found = exceedance(mean[None], covariance[None], t)[0]
        assert found == pytest.approx(1 - inside, abs=ACCURACY)


def test_the_order_of_the_axes_and_the_sign_of_the_mean_do_not_matter() -> None:
    """A rotation of everything leaves the probability; the quadrature sees another eigenbasis."""
    rng = np.random.default_rng(2)
    covariances = random_covariances(30, 3, False, rng)
    means = rng.normal(0, 2, (30, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    straight = exceedance(means, covariances, 3.0)
    turned = exceedance(-means @ turn.T, turn @ covariances @ turn.T, 3.0)
    np.testing.assert_allclose(straight, turned, atol=ACCURACY)


def test_map_is_nan_outside_the_domain_and_pointwise_inside() -> None:
    model = make(2, "wendland", False, "affine")
    posterior, grid = model.prior.condition(model.annotations), wg.Grid((6, 5), [9.0, 11.0], [-20.0, 0.0])

    def half(points: np.ndarray) -> np.ndarray:
        return np.where(points[:, :1] < 0, np.nan, points + 2.0)

    found = exceedance_map(posterior, half, grid, 3.0)
    for index in np.ndindex(grid.shape):
        world = grid.index_to_world(index[::-1])
        if world[0] < 0:
            assert np.isnan(found[index])
        else:
            assert found[index] == pytest.approx(exceedance_probability(posterior, [world], [world + 2], 3.0)[0])


def test_a_tolerance_must_be_positive() -> None:
    model = make(2, "wendland", True, "identity")
    posterior = model.prior.condition(model.annotations)
    for tolerance in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="tolerance must be a positive length"):
            exceedance_probability(posterior, model.points, model.points, tolerance)
