"""Kernels that vary in space: soft regions, amplitude, length scale, axes, periods, against the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import EXTENT, NOISE, OWN, SCALES, WEIGHTS, halves, make, random_covariances, soft_halves, stiffness
from warpgauge.core import parallel, tiles
from warpgauge.core.power_law import default_prior, fit_power_law
from warpgauge.errors import InvalidInputError

INF = float("inf")
PLACES: dict[str, dict[str, Any]] = {
    "soft": {"regions": soft_halves, "own": OWN},
    "axes": {"axes": [1.0, 0.5, 2.0]},
    "axes and regions": {"axes": [1.5, 1.0, 0.8], "regions": halves, "own": OWN},
    "amplitude": {"amplitude": stiffness},
    "amplitude and regions": {"amplitude": stiffness, "regions": halves, "own": OWN},
    "length": {"length": stiffness},
    "everything": {
        "regions": soft_halves,
        "own": OWN,
        "axes": [1.0, 2.0, 1.0],
        "amplitude": stiffness,
        "length": stiffness,
    },
    "period": {"period": [25.0, INF, INF]},
    "periods": {"period": [25.0, 40.0, INF], "axes": [2.0, 1.0, 1.0], "length": stiffness},
}


def placed(name: str, d: int) -> dict[str, Any]:
    return {key: value[:d] if isinstance(value, list) else value for key, value in PLACES[name].items()}


def allowed(name: str, family: str, d: int) -> bool:
    """Wendland functions have no length scale that varies, and at most three coordinates."""
    extra = sum(np.isfinite(placed(name, d).get("period", [])))
    return family != "wendland" or ("length" not in PLACES[name] and d + extra <= 3)


CASES = [
    (name, family, d, isotropic)
    for name in PLACES
    for family, d, isotropic in (("wendland", 2, True), ("wendland", 3, False), ("gaussian", 2, False),
                                 ("inverse_quadratic", 3, True), ("matern32", 2, True), ("matern52", 3, False))
    if allowed(name, family, d)
]  # fmt: skip


@pytest.mark.parametrize(("name", "family", "d", "isotropic"), CASES)
def test_the_posterior_equals_the_oracle(name: str, family: str, d: int, isotropic: bool) -> None:
    """Mean, covariance, entropy and joint covariance, with and without a trend."""
    for mean in ("identity", "affine"):
        model = make(d, family, isotropic, mean, count=7, places=placed(name, d))
        means, joint = model.oracle_posterior()
        posterior = model.prior.condition(model.annotations[:3]).append(model.annotations[3:])
        blocks = oracle.block_diagonal(joint, d)
        np.testing.assert_allclose(posterior.mean(model.points), means, atol=1e-8)
        np.testing.assert_allclose(posterior.covariance(model.points), blocks, atol=1e-8)
        np.testing.assert_allclose(posterior.joint_covariance(model.points), joint, atol=1e-8)
        np.testing.assert_allclose(posterior.entropy(model.points), [oracle.entropy_gaussian(one) for one in blocks])
        prior = model.prior.condition(model.annotations[:0])
        at = [model.k(x, x) for x in model.points]
        np.testing.assert_allclose(prior.covariance(model.points), at, atol=1e-9)
        np.testing.assert_allclose(prior.entropy(model.points), [oracle.entropy_gaussian(one) for one in at])


@pytest.mark.parametrize(("name", "family", "d", "isotropic"), CASES[::3])
def test_gains_and_leave_one_out_equal_the_oracle(name: str, family: str, d: int, isotropic: bool) -> None:
    model = make(d, family, isotropic, "identity", places=placed(name, d))
    given = model.annotations
    loss = oracle.gpp_loss(
        model.k, model.mean, given.fixed_points, given.moving_points, given.covariances, extra_noise=NOISE
    )
    assert wg.leave_one_out_loss(model.prior, given) == pytest.approx(loss)
    candidates = np.random.default_rng(3).uniform(0, EXTENT, (8, d))
    covariances = random_covariances(8, d, isotropic, np.random.default_rng(8))
    suggester = wg.Suggester(model.prior, candidates)
    chosen: list[int] = []
    for _ in range(3):
        left = [i for i in range(8) if i not in chosen]
        expected = oracle.delta_entropy(
            model.k, candidates[left], candidates, candidates[chosen], covariances[chosen], NOISE
        )
        np.testing.assert_allclose(suggester.gains()[left], expected, atol=1e-8)
        chosen.append(suggester.suggest())
        suggester.record(chosen[-1], covariances[chosen[-1]])


@pytest.mark.parametrize("name", ["soft", "axes", "axes and regions", "amplitude"])
def test_many_points_give_what_single_points_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks, tiles and groups."""
    monkeypatch.setattr(tiles, "_BLOCK", 2000)
    model = make(3, "wendland", False, "affine", count=30, places=placed(name, 3))
    posterior = model.prior.condition(model.annotations)
    points = np.random.default_rng(1).uniform(-5, EXTENT + 5, (5000, 3))
    some = np.random.default_rng(2).choice(len(points), 6, replace=False)
    means, joint = model.oracle_posterior(points[some])
    mean, covariance = posterior.mean_and_covariance(points)
    np.testing.assert_allclose(mean[some], means, atol=1e-8)
    np.testing.assert_allclose(covariance[some], oracle.block_diagonal(joint, 3), atol=1e-8)


@pytest.mark.parametrize("family", ["gaussian", "inverse_quadratic", "matern32", "matern52"])
def test_matrices_are_positive_definite_for_length_scales_without_any_order(family: str) -> None:
    """Neighbours whose length scales differ a hundredfold: distances in units of their mean alone are not enough."""
    rng = np.random.default_rng(5)
    points = rng.uniform(0, EXTENT, (80, 3))
    lengths = {point.tobytes(): 10 ** rng.uniform(-1, 1) for point in points}
    kernel = wg.KernelBundle(
        family, SCALES, WEIGHTS, length=lambda at: np.array([lengths[point.tobytes()] for point in at])
    )
    assert np.linalg.eigvalsh(kernel.matrix(points, points)).min() > 0


def test_wendland_functions_with_such_length_scales_would_not_be() -> None:
    """Why they are refused: the same form, written by hand, has a clearly negative eigenvalue in 3D."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 10, (300, 3))
    squares = 200 * 10 ** rng.uniform(-0.5, 0.5, 300)
    mean = (squares[:, None] + squares) / 2
    distances = np.linalg.norm(points[:, None] - points, axis=2) / np.sqrt(mean)
    factor = (np.sqrt(np.outer(squares, squares)) / mean) ** 1.5
    gaussian, wendland = (
        np.linalg.eigvalsh(factor * oracle.radial(family, distances))[0] for family in ("gaussian", "wendland")
    )
    assert gaussian > -1e-12
    assert wendland < -0.01


def test_probabilities_of_zero_and_one_are_labels() -> None:
    """Soft regions with hard probabilities equal hard regions, and a boundary that is everywhere equals none."""

    def certain(points: np.ndarray) -> np.ndarray:
        return (halves(points)[:, None] == np.array([0, 3, 7])).astype(float)

    def even(points: np.ndarray) -> np.ndarray:
        return np.full((len(points), 3), 1 / 3)

    points = np.random.default_rng(0).uniform(0, EXTENT, (40, 2))
    for family in ("wendland", "matern32"):
        hard, soft, none = (
            wg.KernelBundle(family, SCALES, WEIGHTS, regions, OWN).matrix(points, points)
            for regions in (halves, certain, even)
        )
        np.testing.assert_allclose(soft, hard, atol=1e-12)
        np.testing.assert_allclose(none, wg.KernelBundle(family, SCALES, WEIGHTS).matrix(points, points), atol=1e-12)


def test_the_prior_variance_is_the_same_on_a_soft_boundary() -> None:
    """Roots of probabilities have unit length: products of the probabilities would lower it by a half there."""
    points = np.array([[0.0, 0.0], [EXTENT / 2, 0.0], [EXTENT, 0.0]])
    kernel = wg.KernelBundle("wendland", SCALES, WEIGHTS, soft_halves, 1.0)
    np.testing.assert_allclose(np.diagonal(kernel.matrix(points, points)), WEIGHTS.sum())


def test_points_a_period_apart_move_together() -> None:
    points = np.array([[3.0, 5.0], [28.0, 5.0], [3.0, 45.0], [15.5, 5.0]])
    matrix = wg.KernelBundle("gaussian", SCALES, WEIGHTS, period=[25.0, INF]).matrix(points, points)
    assert matrix[0, 1] == pytest.approx(WEIGHTS.sum())
    assert matrix[0, 2] < 0.5 * WEIGHTS.sum()
    assert matrix[0, 3] == matrix[0].min() or matrix[0, 3] < 0.9 * WEIGHTS.sum()


def test_numbers_for_each_region_are_functions_of_the_points() -> None:
    """By label; and by the mean over probabilities where regions are soft."""
    points = np.random.default_rng(0).uniform(0, EXTENT, (12, 2))
    by_label = wg.KernelBundle("gaussian", SCALES, WEIGHTS, halves, OWN, length={0: 1.0, 3: 0.5, 7: 2.0})
    chosen = {0: 1.0, 3: 0.5, 7: 2.0}
    by_hand = wg.KernelBundle(
        "gaussian", SCALES, WEIGHTS, halves, OWN, length=lambda at: np.array([chosen[int(one)] for one in halves(at)])
    )
    np.testing.assert_array_equal(by_label.matrix(points, points), by_hand.matrix(points, points))
    soft = wg.KernelBundle("wendland", SCALES, WEIGHTS, soft_halves, amplitude={0: 1.0, 1: 3.0})
    np.testing.assert_allclose(soft.diagonal(points), WEIGHTS.sum() * (1 + 2 * soft_halves(points)[:, 1]) ** 2)


def test_learning_keeps_the_places_and_lowers_the_loss() -> None:
    model = make(2, "gaussian", True, "identity", places=placed("everything", 2))
    fitted = wg.fit_kernel(model.prior, model.annotations)
    assert fitted.kernel.places.length is stiffness
    assert fitted.kernel.regions is soft_halves
    assert wg.leave_one_out_loss(fitted, model.annotations) < wg.leave_one_out_loss(model.prior, model.annotations)


@pytest.mark.parametrize(
    ("family", "places", "word"),
    [
        ("wendland", {"length": stiffness}, "mixture of Gaussians"),
        ("wendland", {"period": [10.0, 10.0]}, "at most 3 dimensions"),
        ("gaussian", {"axes": [1.0, -1.0]}, "each of 2 or 3 axes"),
        ("gaussian", {"axes": [1.0, 1.0, 1.0]}, "but the points have 2 axes"),
        ("gaussian", {"length": lambda points: points[:, 0] - 1e9}, "positive finite number"),
        ("gaussian", {"amplitude": lambda points: points}, "positive finite number"),
        ("gaussian", {"amplitude": 3.0}, "function of"),
        ("gaussian", {"length": {0: 1.0}}, "no regions"),
        ("gaussian", {"regions": halves, "length": {0: 1.0}}, "no number for the region"),
        ("gaussian", {"regions": lambda points: np.full((len(points), 2), 0.4), "own": 0.5}, "add up to 1"),
    ],
)
def test_wrong_places_are_refused_in_one_sentence(family: str, places: dict[str, Any], word: str) -> None:
    points = np.random.default_rng(0).uniform(0, EXTENT, (30, 2))
    with pytest.raises(InvalidInputError, match=word):
        wg.KernelBundle(family, SCALES, WEIGHTS, **places).matrix(points, points)


def test_images_say_what_is_at_a_point() -> None:
    """Linear between elements, the border's value beyond; what maps leave and the outside are the first region."""
    from warpgauge.candidates import ImageValues, ProbabilityRegions

    grid = wg.Grid((3, 2), (10.0, 20.0))  # x has three elements at 0, 10, 20; y two at 0, 20
    values = np.array([[1.0, 2.0, 4.0], [3.0, 4.0, 6.0]])
    points = np.array([[0.0, 0.0], [15.0, 0.0], [10.0, 10.0], [99.0, 20.0]])
    np.testing.assert_allclose(ImageValues.of(values, grid)(points), [1.0, 3.0, 3.0, 6.0])
    soft = ProbabilityRegions.of([values / 8, values / 40], grid)
    expected = [[0.85, 0.125, 0.025], [0.55, 0.375, 0.075], [0.55, 0.375, 0.075], [1.0, 0.0, 0.0]]
    np.testing.assert_allclose(soft(points), expected, atol=1e-12)
    for maps, word in (([values], "add up to 6"), ([-values], "from 0 on"), (values / 8, "one or more arrays")):
        with pytest.raises(InvalidInputError, match=word):
            ProbabilityRegions.of(maps, grid)
    with pytest.raises(InvalidInputError, match="not finite"):
        ImageValues.of(values * np.nan, grid)


@pytest.mark.parametrize("d", [2, 3])
def test_factors_along_the_axes_are_averaged_as_the_oracle_does(d: int) -> None:
    """Fewer than four factors for each axis would differ; the weights are those that were learned without them."""
    extent, center = np.array([60.0, 45.0, 30.0])[:d], np.array([30.0, 22.5, 15.0])[:d]
    rng = np.random.default_rng(2)
    fixed = rng.uniform(0, 1, (7, d)) * extent
    given = wg.Annotations.isotropic(fixed, fixed + np.sin(fixed[:, :1] / 6) + rng.normal(0, 0.1, fixed.shape), 0.2)
    prior = replace(
        default_prior(extent, center=center, smallest=40.0), linear_sd=0.1, translation_sd=0.05 * np.linalg.norm(extent)
    )  # no wider than the narrow trend, so that there is no choice between two
    fitted = fit_power_law(prior, given, extent, axes=True)
    trend = (prior.translation_sd, 0.1, center)
    weights = fit_power_law(prior, given, extent).kernel.weights
    expected = oracle.power_law_axes(
        prior.kernel.scales, weights, fixed, given.moving_points, np.full(len(fixed), 0.04), trend
    )
    np.testing.assert_array_equal(fitted.kernel.weights, weights)
    np.testing.assert_allclose(fitted.kernel.places.axes, expected, rtol=1e-7)


def test_layers_are_learned_and_few_annotations_leave_the_axes_alike() -> None:
    """Displacements that vary fast along y alone get short scales there; three annotations tell next to nothing."""
    rng = np.random.default_rng(4)
    fixed = rng.uniform(0, EXTENT, (60, 2))
    given = wg.Annotations.isotropic(fixed, fixed + 2 * np.sin(fixed[:, 1:] / 4) + rng.normal(0, 0.1, fixed.shape), 0.1)
    x, y = wg.default_posterior(given, (EXTENT, EXTENT), 6.0, axes=True).prior.kernel.places.axes
    assert x / y > 1.6
    few = wg.default_posterior(given[:3], (EXTENT, EXTENT), 6.0, axes=True).prior.kernel.places.axes
    np.testing.assert_allclose(few, 1, atol=0.1)
    assert wg.default_posterior(given, (EXTENT, EXTENT), 6.0).prior.kernel.places.axes is None


def test_a_tile_of_points_needs_no_thread_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of the pool ask for so many points themselves: waiting for each other, they would wait for ever."""
    model = make(2, "wendland", True, "affine", count=60, places=placed("soft", 2))
    posterior = model.prior.condition(model.annotations)
    points = np.random.default_rng(0).uniform(0, EXTENT, (tiles.TILE + 1, 2))
    expected = posterior.mean(points)

    def refused() -> None:
        raise AssertionError("the pool was asked")

    monkeypatch.setenv("WARPGAUGE_THREADS", "2")
    monkeypatch.setattr(parallel, "_executor", refused)
    np.testing.assert_allclose(posterior.mean(points[:-1]), expected[:-1], atol=1e-9)
    with pytest.raises(AssertionError, match="pool"):
        posterior.mean(points)
