"""The oracle itself, against hand-solved cases, other routes to the same number, scipy and Monte Carlo.

Monte Carlo tolerances are five standard errors of the estimate at hand, so a right formula passes for practically
every seed and a wrong constant does not.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

import oracle

FAMILIES = ("wendland", "gaussian", "inverse_quadratic")
DIMENSIONS = (2, 3)
SCALES = (4.0, 8.0, 16.0)
WEIGHTS = (2.0, 5.0, 9.0)


def bundle(family="wendland", trend=None):
    return partial(oracle.kernel, family, SCALES, WEIGHTS, trend=trend)


def random_covariances(rng, count, d, size=1.0):
    roots = rng.normal(size=(count, d, d))
    return size * (roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(d))


def problem(d, count=6, seed=0):
    """Annotations that are noisy, anisotropic and close enough to one another to matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 15, size=(count, d))
    Y = X + rng.normal(scale=3.0, size=(count, d))
    return rng, X, Y, random_covariances(rng, count, d)


def rotation(rng, d):
    q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return q


# ------------------------------------------------------------------------------------------------ kernels


@pytest.mark.parametrize("family", FAMILIES)
def test_radial_functions_have_the_same_integral_and_start_at_one(family):
    """eq:kernel_integral_normalisation: each integrates to 1/3, which is the Wendland integral by hand."""
    # By hand, with u = 1 - r: the integral of (4r + 1)(1 - r)^4 over [0, 1] is that of 5u^4 - 4u^5, 1 - 2/3.
    value, _ = integrate.quad(lambda r: oracle.radial(family, r), 0, 1 if family == "wendland" else np.inf)
    assert value == pytest.approx(1 / 3, abs=1e-10)
    assert oracle.radial(family, 0.0) == 1.0


def test_radial_functions_at_hand_computed_arguments():
    """K_W(1/2) = 3/16 and 0 from 1 on; K_G(r_G) = 1/e; K_IQ(r_IQ) = 1/2."""
    assert oracle.radial("wendland", 0.5) == pytest.approx(3 / 16, abs=1e-15)
    assert oracle.radial("wendland", 1.0) == 0.0
    assert oracle.radial("wendland", 7.0) == 0.0
    assert oracle.radial("gaussian", 2 / (3 * math.sqrt(math.pi))) == pytest.approx(math.exp(-1), abs=1e-15)
    assert oracle.radial("inverse_quadratic", 2 / (3 * math.pi)) == pytest.approx(0.5, abs=1e-15)


def test_kernel_bundle_by_hand():
    """Two Wendland scales at distance 5: 2 K(5/10) + 3 K(5/20) = 3/8 + 3 * 2 * (3/4)^4, times I."""
    value = oracle.kernel("wendland", [10, 20], [2, 3], [1.0, 1.0], [4.0, 5.0])
    assert value == pytest.approx((3 / 8 + 6 * 0.75**4) * np.eye(2), abs=1e-14)


# ------------------------------------------------------------------------------------------------ conditioning


def test_posterior_of_one_annotation_by_hand():
    """theta 4, scale 2, distance 1: k = 4 * 3/16 = 0.75; noise (1, 4) + 1; each axis is its own scalar problem."""
    k = partial(oracle.kernel, "wendland", [2.0], [4.0])
    X, Y = np.array([[0.0, 0.0]]), np.array([[3.0, -9.0]])
    means, joint = oracle.posterior(
        k, oracle.identity, X, Y, np.array([np.diag([1.0, 4.0])]), np.array([[1.0, 0.0]]), extra_noise=1.0
    )
    assert means[0] == pytest.approx([1 + 0.75 / 6 * 3, 0 + 0.75 / 9 * -9], abs=1e-14)
    assert joint == pytest.approx(np.diag([4 - 0.5625 / 6, 4 - 0.5625 / 9]), abs=1e-14)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_posterior_agrees_with_the_information_form(family, d):
    """Precisions add: (K^-1 + H^T R^-1 H)^-1 over annotated and new points together, a route without K_AA."""
    rng, X, Y, covariances = problem(d)
    k = bundle(family, trend=(2.0, 0.1, np.full(d, 7.0)))
    points = rng.uniform(0, 15, size=(5, d))
    everything = np.vstack([X, points])
    prior_precision = np.linalg.inv(oracle.kernel_matrix(k, everything, everything))
    noise_precision = np.linalg.inv(oracle.noise_matrix(covariances, 0.4))
    information = prior_precision.copy()
    information[: len(X) * d, : len(X) * d] += noise_precision
    covariance = np.linalg.inv(information)
    pull = np.zeros(len(everything) * d)
    pull[: len(X) * d] = noise_precision @ (Y - X).reshape(-1)
    shift = (covariance @ pull).reshape(-1, d)
    means, joint = oracle.posterior(k, oracle.identity, X, Y, covariances, points, extra_noise=0.4)
    assert means == pytest.approx(points + shift[len(X) :], abs=1e-9)
    assert joint == pytest.approx(covariance[len(X) * d :, len(X) * d :], abs=1e-9)


# ------------------------------------------------------------------------------------------------ entropy


@pytest.mark.parametrize("size", [1, 2, 7])
def test_entropy_agrees_with_scipy(size):
    """eq:entropy_gp is scipy's entropy of a multivariate normal."""
    rng = np.random.default_rng(size)
    covariance = random_covariances(rng, 1, size)[0]
    expected = stats.multivariate_normal(np.zeros(size), covariance).entropy()
    assert oracle.entropy_gaussian(covariance) == pytest.approx(expected, abs=1e-10)


# ------------------------------------------------------------------------------------------------ suggestion


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("inside", [True, False])
def test_greedy_sequence_solves_the_minimisation_of_the_paper(d, inside):
    """Each query of Algorithm 1 is the argmin of eq:minimisation_problem_greedy, written out candidate by candidate."""
    rng = np.random.default_rng(5)
    candidates = rng.uniform(0, 15, size=(7, d))
    targets = np.vstack([candidates, rng.uniform(0, 15, size=(2, d))]) if inside else rng.uniform(0, 8, size=(6, d))
    covariances = random_covariances(rng, 7, d, size=2.0)
    k = bundle()
    sequence = oracle.greedy_sequence(k, candidates, targets, covariances, 5, first=2, extra_noise=0.1)
    assert sequence[0] == 2
    assert len(set(sequence)) == 5
    for step in range(1, 5):
        done = sequence[:step]
        entropies = {}
        for i in range(7):
            if i not in done:
                x = candidates[i]
                rest = np.array([t for t in targets if not np.array_equal(t, x)])
                entropies[i] = oracle.joint_entropy_given(
                    k, rest, candidates[done], covariances[done], 0.1, exact_points=x[None]
                )
        assert sequence[step] == min(entropies, key=entropies.get)


# ------------------------------------------------------------------------------------------------ annotations


@pytest.mark.parametrize(("d", "gamma_squared"), [(2, 9.2103), (3, 11.3449)])
def test_gamma_squared_depends_on_the_dimension(d, gamma_squared):
    """A unit ball at alpha 0.01 is 1 / 9.2103 I in 2D (-2 log 0.01 by hand) and 1 / 11.3449 I in 3D (tables)."""
    covariance = oracle.ellipse_to_covariance(np.ones(d), np.eye(d), 0.01)
    assert 1 / np.diag(covariance) == pytest.approx(np.full(d, gamma_squared), abs=5e-5)
    assert np.count_nonzero(covariance - np.diag(np.diag(covariance))) == 0


def test_fusion_agrees_with_numpy_and_by_hand():
    """np.cov's n - 1; and (0, 0), (2, 0), (1, 3) by hand: mean (1, 1), covariance diag(1, 3)."""
    points = np.random.default_rng(2).normal(size=(6, 3))
    center, covariance = oracle.sample_covariance_fusion(points)
    assert center == pytest.approx(points.mean(axis=0), abs=1e-14)
    assert covariance == pytest.approx(np.cov(points.T), abs=1e-14)
    center, covariance = oracle.sample_covariance_fusion([[0, 0], [2, 0], [1, 3]])
    assert center.tolist() == [1, 1]
    assert covariance.tolist() == [[1, 0], [0, 3]]


# ------------------------------------------------------------------------------------------------ leave one out


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("extra_noise", [0.0, 0.7])
def test_leave_one_out_likelihood_is_the_gpp_loss_up_to_its_constant(family, d, extra_noise):
    """Mean of -log P(y_l | A^(l)) = gpp_loss - d/2 + (d/2) log(2 pi): the two routes share no step."""
    _, X, Y, covariances = problem(d, count=7)
    arguments = (bundle(family), oracle.identity, X, Y, covariances, extra_noise)
    mean_likelihood = oracle.leave_one_out_negative_log_likelihoods(*arguments).mean()
    expected = oracle.gpp_loss(*arguments) - d / 2 + d / 2 * math.log(2 * math.pi)
    assert mean_likelihood == pytest.approx(expected, abs=1e-9)


def test_leave_one_out_of_two_annotations_by_hand():
    """Each predicts the other: residual 3 - 0.75/5 * 1 and variance 4 - 0.5625/5 + 1 on the first axis."""
    k = partial(oracle.kernel, "wendland", [2.0], [4.0])
    X = np.array([[0.0, 0.0], [1.0, 0.0]])
    Y = X + np.array([[1.0, 0.0], [3.0, 0.0]])
    residuals, predictive = oracle.leave_one_out(k, oracle.identity, X, Y, np.array([np.eye(2)] * 2))
    assert residuals == pytest.approx(np.array([[1 - 0.15 * 3, 0], [3 - 0.15 * 1, 0]]), abs=1e-14)
    assert predictive == pytest.approx(np.array([(5 - 0.1125) * np.eye(2)] * 2), abs=1e-14)


# ------------------------------------------------------------------------------------------------ scores


def test_displacement_norms_by_hand():
    """Lengths 5, 0, 1: mean 2, root mean square sqrt(26/3), largest 5, and the cubic mean cbrt(126/3)."""
    errors = np.array([[3.0, -4.0], [0.0, 0.0], [0.0, 1.0]])
    assert oracle.displacement_norm(errors, 1) == pytest.approx(2, abs=1e-14)
    assert oracle.displacement_norm(errors, 2) == pytest.approx(math.sqrt(26 / 3), abs=1e-14)
    assert oracle.displacement_norm(errors, 3) == pytest.approx(42 ** (1 / 3), abs=1e-14)
    assert oracle.displacement_norm(errors, np.inf) == 5
    assert oracle.displacement_norm(np.array([5.0, 0.0, 1.0]), 1) == pytest.approx(2, abs=1e-14)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_expected_squared_error_agrees_with_monte_carlo(d):
    """Sampled mean squared errors average to |.|^2 + 1/|T| sum of traces; without the 1/|T| it would be far off."""
    rng = np.random.default_rng(11)
    n, count = 5, 100_000
    mu, mapped = rng.normal(size=(2, n, d))
    joint = random_covariances(rng, 1, n * d)[0]
    phi = rng.multivariate_normal(mu.reshape(-1), joint, size=count).reshape(count, n, d)
    errors = np.mean(np.sum((phi - mapped) ** 2, axis=2), axis=1)
    tolerance = 5 * errors.std() / math.sqrt(count)
    expected = oracle.expected_squared_error(mu, joint, mapped)
    assert errors.mean() == pytest.approx(expected, abs=tolerance)
    assert oracle.expected_squared_error(mu, oracle.block_diagonal(joint, d), mapped) == pytest.approx(expected)


def test_error_score_by_hand():
    """Covariance diag(4, 1), deviation (2, 1): F(2, 2) = 1 - 1/e; a rotation of everything changes nothing."""
    q = rotation(np.random.default_rng(4), 2)
    mu, covariance, mapped = np.array([[1.0, 1.0]]), np.diag([4.0, 1.0]), np.array([[3.0, 2.0]])
    expected = [1 - math.exp(-1)]
    assert oracle.error_score(mu, covariance[None], mapped) == pytest.approx(expected, abs=1e-12)
    turned = oracle.error_score(mu @ q.T, (q @ covariance @ q.T)[None], mapped @ q.T)
    assert turned == pytest.approx(expected, abs=1e-12)
    assert oracle.error_score(mu, covariance[None], mu).tolist() == [0.0]


def test_win_probability_by_hand_and_where_nothing_is_uncertain():
    """One target, a = 1, b = -1 on the axis, phi ~ N(0.5, 4): P(phi > 0) = Phi(1/4); no variance: 0, 1 or a tie."""
    mu, a, b = np.array([[0.5, 0.0]]), np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]])
    assert oracle.probability_smaller_mse(mu, np.diag([4.0, 9.0]), a, b) == pytest.approx(stats.norm.cdf(0.25))
    assert oracle.probability_smaller_mse(mu, np.zeros((2, 2)), a, b) == 1.0
    assert oracle.probability_smaller_mse(mu, np.zeros((2, 2)), b, a) == 0.0
    assert oracle.probability_smaller_mse(mu, np.eye(2), a, a) == 0.5
