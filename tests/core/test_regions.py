"""Regions that move on their own: k = k_shared + [same region] k_own, against the oracle in every path of the core."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import EXTENT, GRID, NOISE, OWN, SCALES, WEIGHTS, halves, make, names, random_covariances
from warpgauge.core.power_law import default_prior, fit_power_law
from warpgauge.errors import InvalidInputError

CASES = pytest.mark.parametrize("case", GRID, ids=names)


@CASES
def test_the_posterior_equals_the_oracle(case: tuple[int, str, bool, str]) -> None:
    """Mean, covariance, entropy and joint covariance, with points on both sides of each boundary."""
    model = make(*case, divided=True)
    means, joint = model.oracle_posterior()
    posterior = model.prior.condition(model.annotations)
    blocks = oracle.block_diagonal(joint, model.d)
    np.testing.assert_allclose(posterior.mean(model.points), means, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(model.points), blocks, atol=1e-9)
    np.testing.assert_allclose(posterior.joint_covariance(model.points), joint, atol=1e-9)
    np.testing.assert_allclose(posterior.entropy(model.points), [oracle.entropy_gaussian(one) for one in blocks])
    grown = model.prior.condition(model.annotations[:4]).append(model.annotations[4:])
    np.testing.assert_allclose(grown.mean(model.points), means, atol=1e-9)


@pytest.mark.parametrize(("family", "isotropic"), [("wendland", False), ("gaussian", True)])
def test_gains_equal_the_definition_after_every_annotation(family: str, isotropic: bool) -> None:
    """The lazy updates know the regions of candidates and of annotations, candidate or not."""
    model = make(2, family, isotropic, "identity", divided=True)
    candidates = np.random.default_rng(3).uniform(0, EXTENT, (14, 2))
    covariances = random_covariances(14, 2, isotropic, np.random.default_rng(8))
    suggester = wg.Suggester(model.prior, candidates)
    chosen: list[int] = []
    for _ in range(5):
        left = [i for i in range(14) if i not in chosen]
        expected = oracle.delta_entropy(
            model.k, candidates[left], candidates, candidates[chosen], covariances[chosen], NOISE
        )
        np.testing.assert_allclose(suggester.gains()[left], expected, atol=1e-8)
        chosen.append(suggester.suggest())
        suggester.record(chosen[-1], covariances[chosen[-1]])


def test_samples_jump_at_a_boundary_and_have_the_posteriors_covariance() -> None:
    """Joint samples of two points a step apart differ across a boundary as the joint covariance says."""
    model = make(2, "wendland", True, "affine", divided=True)
    posterior = model.prior.condition(model.annotations)
    pair = np.array([[EXTENT / 2 - 1e-3, 40.0], [EXTENT / 2 + 1e-3, 40.0]])
    drawn = posterior.sample(pair, 4000, seed=1)
    step = drawn[:, 0] - drawn[:, 1]
    joint = posterior.joint_covariance(pair)
    expected = joint[0, 0] + joint[2, 2] - 2 * joint[0, 2]
    assert expected > 5
    assert step.var() == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("mean", ["identity", "affine"])
def test_the_share_is_averaged_as_the_oracle_does(mean: str) -> None:
    extent, center = (60.0, 45.0), np.array([30.0, 22.5])
    rng = np.random.default_rng(2)
    fixed = rng.uniform(0, 1, (6, 2)) * extent
    slid = fixed + np.where(halves(fixed)[:, None] == 0, 1.0, -1.0) + rng.normal(0, 0.2, fixed.shape)
    given = wg.Annotations.isotropic(fixed, slid, 0.2)
    prior = replace(default_prior(extent, center=center, smallest=40.0, regions=halves), mean=mean)
    if mean == "affine":  # no wider than the narrow trend, so that there is no choice between two
        prior = replace(prior, linear_sd=0.1, translation_sd=0.05 * 75.0)
    fitted = fit_power_law(prior, given, extent)
    trend = (0.05 * 75.0, 0.1, center) if mean == "affine" else None
    weights, own = oracle.power_law_with_regions(
        prior.kernel.scales, extent, fixed, slid, np.full(6, 0.04), halves, trend
    )
    np.testing.assert_allclose(fitted.kernel.weights, weights, rtol=1e-6)
    np.testing.assert_allclose(fitted.kernel.own * fitted.kernel.weights, own, rtol=1e-6)


def test_sliding_is_learned_and_its_absence_too() -> None:
    """A step at the boundary raises the share above one half; a smooth field over it lowers it below the prior's."""
    rng = np.random.default_rng(4)
    fixed = rng.uniform(0, EXTENT, (40, 2))
    smooth = 1.5 * np.sin(fixed[:, ::-1] / 12)
    step = np.where(halves(fixed)[:, None] == 0, 2.0, -2.0) * [0.0, 1.0]
    shares = []
    for field in (smooth + step, smooth):
        given = wg.Annotations.isotropic(fixed, fixed + field + rng.normal(0, 0.1, fixed.shape), 0.1)
        shares.append(wg.default_posterior(given, (EXTENT, EXTENT), 6.0, regions=halves).prior.kernel.own_share)
    before = default_prior((EXTENT, EXTENT), center=[30, 30], smallest=6.0, regions=halves).kernel.own_share
    assert before == pytest.approx(0.375)
    assert shares[0] > 0.5
    assert shares[1] < 0.1


def test_learning_by_leave_one_out_keeps_the_share() -> None:
    """fit_kernel learns weights for the regions that are given; its gradient is the slope of the oracle's loss."""
    model = make(2, "wendland", True, "identity", divided=True)
    given = model.annotations
    loss = oracle.gpp_loss(
        model.k, model.mean, given.fixed_points, given.moving_points, given.covariances, extra_noise=NOISE
    )
    assert wg.leave_one_out_loss(model.prior, given) == pytest.approx(loss)
    fitted = wg.fit_kernel(model.prior, given)
    assert np.array_equal(fitted.kernel.own, OWN)
    assert fitted.kernel.regions is halves
    assert wg.leave_one_out_loss(fitted, given) < loss


@pytest.mark.parametrize(
    ("regions", "own", "word"),
    [
        (None, 0.5, "needs regions"),
        (halves, 1.5, "from 0 to 1"),
        (halves, [0.5], "one for each scale"),
        (halves, float("nan"), "from 0 to 1"),
        (lambda points: points[:, 0], 0.5, "whole number"),
        (lambda points: np.zeros(3, dtype=int), 0.5, "whole number"),
    ],
)
def test_wrong_regions_are_refused_in_one_sentence(regions: object, own: object, word: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        wg.KernelBundle("wendland", SCALES, WEIGHTS, regions, own).matrix(np.zeros((2, 2)), np.ones((2, 2)))  # type: ignore[arg-type]
