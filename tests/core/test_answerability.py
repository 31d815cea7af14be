"""The chance of an answer: probabilities of boxes and regions, with and without tails, and the field."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import oracle
from warpgauge.core.expected_answers import AnswerField, chance_in_box, chance_in_region


def in_box(points: np.ndarray) -> np.ndarray:
    """Within 0 to 10 along every axis."""
    return np.all((points > 0) & (points < 10), axis=-1)


@pytest.mark.parametrize("d", [2, 3])
def test_a_box_under_independent_gaussians_is_a_product_of_normal_probabilities(d: int) -> None:
    rng = np.random.default_rng(1)
    mean, sds = rng.uniform(-2, 12, (6, d)), rng.uniform(0.5, 8, (6, d))
    low, high = np.zeros(d), np.full(d, 10.0)
    wanted = np.prod(stats.norm.cdf(high, mean, sds) - stats.norm.cdf(low, mean, sds), axis=1)
    covariance = sds[:, :, None] ** 2 * np.eye(d)
    np.testing.assert_allclose(chance_in_box(mean, covariance, low, high), wanted, atol=1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_a_box_under_student_t_deviations(d: int) -> None:
    """Against draws of scipy's multivariate t; 400,000 of them are good to 0.0016 at two standard errors."""
    for mean, sd in (([5.0] * d, 2.0), ([0.0, 5.0, 5.0][:d], 3.0), ([-4.0, 2.0, 8.0][:d], 6.0), ([30.0] * d, 1.0)):
        wanted = oracle.chance_by_draws(mean, sd**2 * np.eye(d), in_box, 4.0, 400_000, 3)
        found = chance_in_box(np.array([mean]), sd**2 * np.eye(d)[None], np.zeros(d), np.full(d, 10.0), 4.0)
        assert found[0] == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("offset", [0.0, 1.0, 2.5])
def test_a_ball_under_a_gaussian_is_a_noncentral_chi_square(d: int, offset: float) -> None:
    mean = np.zeros((1, d))
    mean[0, 0] = offset
    for radius in (0.8, 1.6, 3.0):
        wanted = stats.ncx2.cdf(radius**2, d, offset**2) if offset else stats.chi2.cdf(radius**2, d)
        found = chance_in_region(mean, np.eye(d)[None], lambda at, radius=radius: np.linalg.norm(at, axis=-1) < radius)
        assert found[0] == pytest.approx(wanted, abs=0.09)


def test_a_half_plane_under_turned_student_t_deviations() -> None:
    """A region of any shape, with the covariance turned against its edge: the t probability of the edge's distance."""
    covariance = np.array([[8.0, 3.0], [3.0, 2.0]])
    normal = np.array([0.6, -0.8])
    sd = np.sqrt(normal @ covariance @ normal)
    for distance in (-2.0, 0.0, 0.5, 3.0):
        wanted = stats.t(4.0, scale=sd / np.sqrt(2)).cdf(distance)
        found = chance_in_region(
            np.array([[1.0, 2.0]]),
            covariance[None],
            lambda at, distance=distance: (at - [1.0, 2.0]) @ normal < distance,
            4.0,
        )
        assert found[0] == pytest.approx(wanted, abs=0.05)


def test_the_field_is_the_smoothed_share_of_answers() -> None:
    rng = np.random.default_rng(2)
    points, answered, skipped = rng.uniform(0, 100, (40, 2)), rng.uniform(0, 100, (5, 2)), rng.uniform(0, 100, (3, 2))
    told = np.concatenate([answered, skipped])
    field = AnswerField(told, np.arange(8) >= 5, np.full(8, 15.0), 2.0)
    np.testing.assert_allclose(field.at(points), oracle.answer_field(points, answered, skipped, 15.0, 2.0), rtol=1e-12)
    nothing = AnswerField(np.empty((0, 2)), np.empty(0, dtype=bool), np.empty(0))
    assert (nothing.at(points) == 1).all()


def test_a_skip_with_a_longer_reach_says_more() -> None:
    points = np.array([[10.0, 0.0]])
    near, far = (
        AnswerField(np.zeros((1, 2)), np.array([True]), np.array([reach])).at(points)[0] for reach in (5.0, 20.0)
    )
    assert near == pytest.approx(1 / (1 + np.exp(-2.0)))
    assert far == pytest.approx(1 / (1 + np.exp(-0.125)))
