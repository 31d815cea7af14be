"""The default model: weights averaged over a power law, against the oracle and on drawn deformations."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oracle
import warpgauge as wg
from warpgauge.core.fit_reports import PowerLawReport
from warpgauge.core.power_law import default_prior, fit_power_law
from warpgauge.errors import InvalidInputError, NumericalWarning

EXTENT = (200.0, 150.0)
CENTER = np.array([100.0, 75.0])


def annotations(count: int, seed: int = 0, amplitude: float = 0.01, slope: float = 1.4) -> wg.Annotations:
    """Annotations of a deformation drawn from a power law, with an affine part."""
    prior = default_prior(EXTENT, center=CENTER, smallest=10.0)
    scales = prior.kernel.scales
    weights = (amplitude * np.hypot(*EXTENT)) ** 2 * (scales / max(EXTENT)) ** slope
    truth = wg.TransformationPrior(wg.KernelBundle("wendland", scales, weights))
    rng = np.random.default_rng(seed)
    fixed = rng.uniform(0, 1, (count, 2)) * EXTENT
    drawn = truth.condition(wg.Annotations.empty(2)).sample(fixed, 1, seed=seed)[0]
    affine = (fixed - CENTER) @ rng.normal(0, 0.05, (2, 2)) + rng.normal(0, 10, 2)
    return wg.Annotations.isotropic(fixed, drawn + affine + rng.normal(0, 0.3, fixed.shape), 0.3)


def test_before_any_annotation_the_weights_are_the_priors_mean() -> None:
    """As the oracle averages them; scales double from the smallest until one reaches the longest side."""
    prior = default_prior(EXTENT, center=CENTER, smallest=10.0)
    assert np.allclose(prior.kernel.scales, [10, 20, 40, 80, 160, 320])
    expected = oracle.power_law_weights(prior.kernel.scales, EXTENT, np.empty((0, 2)), np.empty((0, 2)), [])[0]
    assert np.allclose(prior.kernel.weights, expected)
    assert (prior.mean, prior.tails, prior.noise) == ("affine", 4.0, 0.0)
    assert default_prior(EXTENT, center=CENTER, smallest=12.5).kernel.scales[-1] == 200
    fitted = fit_power_law(prior, wg.Annotations.empty(2), EXTENT)
    assert np.allclose(fitted.kernel.weights, expected)


@pytest.mark.parametrize("mean", ["affine", "identity"])
def test_the_weights_are_the_oracles_average(mean: str) -> None:
    """Likelihood times prior over the grid, by full matrices and scipy's density."""
    given = annotations(7)
    prior = replace(default_prior(EXTENT, center=CENTER, smallest=40.0), mean=mean)
    fitted = fit_power_law(prior, given, EXTENT)
    trends = [(320.0, 1.0, CENTER), (0.05 * 250.0, 0.1, CENTER)] if mean == "affine" else [None]
    known = (prior.kernel.scales, EXTENT, given.fixed_points, given.moving_points, np.full(7, 0.09))
    expected, _ = max((oracle.power_law_weights(*known, trend=trend) for trend in trends), key=lambda found: found[1])
    assert np.allclose(fitted.kernel.weights, expected, rtol=1e-6)
    assert (fitted.mean, fitted.tails, fitted.noise) == (mean, 4.0, 0.0)


def test_turned_images_keep_the_wide_trend() -> None:
    """Annotations of images that lie alike have the narrow trend; turned by 90 degrees they keep the wide one."""
    given = annotations(12)
    prior = default_prior(EXTENT, center=CENTER, smallest=10.0)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    turned = wg.Annotations(given.fixed_points, (given.moving_points - CENTER) @ turn + CENTER, given.covariances)
    alike, other = (fit_power_law(prior, one, EXTENT) for one in (given, turned))
    assert (alike.linear_sd, alike.translation_sd) == (0.1, pytest.approx(12.5))
    assert (other.linear_sd, other.translation_sd) == (1.0, None)
    assert alike.fit.narrow_trend
    assert not other.fit.narrow_trend
    # The deformation left over is the same, so its weights are nearly so.
    assert other.kernel.at_zero == pytest.approx(alike.kernel.at_zero, rel=0.5)


def test_several_sets_multiply_their_likelihoods() -> None:
    """Two sets far apart from each other are as one, for a mean without trend and kernels of compact support."""
    one, other = annotations(8, 1), annotations(8, 2)
    prior = replace(default_prior(EXTENT, center=CENTER, smallest=40.0), mean="identity")
    shift = np.array([1e5, 0.0])
    moved = wg.Annotations(other.fixed_points + shift, other.moving_points + shift, np.asarray(other.covariances))
    together = fit_power_law(prior, wg.Annotations.concatenate([one, moved]), EXTENT)
    pooled = fit_power_law(prior, [one, other], EXTENT)
    assert np.allclose(pooled.kernel.weights, together.kernel.weights, rtol=1e-9)
    assert isinstance(pooled.fit, PowerLawReport)
    assert pooled.fit.annotations == 16


def test_many_annotations_find_amplitude_and_slope() -> None:
    """Of deformations drawn with known parameters, 150 annotations find both, more surely than 10 do."""
    prior = default_prior(EXTENT, center=CENTER, smallest=10.0)
    for amplitude, slope in ((0.01, 1.8), (0.004, 0.8)):
        few, many = (fit_power_law(prior, annotations(n, 4, amplitude, slope), EXTENT).fit for n in (10, 150))
        assert isinstance(few, PowerLawReport)
        assert isinstance(many, PowerLawReport)
        assert many.amplitude == pytest.approx(amplitude, rel=0.5)
        assert many.slope == pytest.approx(slope, abs=0.4)
        assert many.slope_sd < few.slope_sd
        assert many.log_amplitude_sd < few.log_amplitude_sd


def test_noise_is_learned_where_asked_for() -> None:
    given = annotations(60, 6)
    rng = np.random.default_rng(1)
    noisy = wg.Annotations(given.fixed_points, given.moving_points + rng.normal(0, 1, (60, 2)), given.covariances)
    prior = default_prior(EXTENT, center=CENTER, smallest=10.0)
    assert fit_power_law(prior, noisy, EXTENT).noise == 0
    assert fit_power_law(prior, noisy, EXTENT, noise=True).noise > fit_power_law(prior, given, EXTENT, True).noise


def test_the_unit_does_not_matter() -> None:
    """In other units the same annotations give the same weights, in the square of the unit."""
    given = annotations(12, 3)
    prior = default_prior(EXTENT, center=CENTER, smallest=10.0)
    factor = 25.4
    scaled = wg.Annotations(
        factor * given.fixed_points, factor * given.moving_points, factor**2 * np.asarray(given.covariances)
    )
    other = default_prior(factor * np.array(EXTENT), center=factor * CENTER, smallest=10.0 * factor)
    one, two = fit_power_law(prior, given, EXTENT), fit_power_law(other, scaled, factor * np.array(EXTENT))
    assert np.allclose(two.kernel.weights, factor**2 * one.kernel.weights, rtol=1e-6)


@pytest.mark.parametrize(
    ("extent", "smallest", "match"),
    [((1.0,), 1.0, "2 or 3 sides"), ((1.0, -1.0), 1.0, "2 or 3 sides"), ((1.0, 1.0), 0.0, "positive length")],
)
def test_bad_input_is_told(extent: tuple[float, ...], smallest: float, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        default_prior(extent, center=CENTER, smallest=smallest)


def test_sets_of_another_dimension_are_refused() -> None:
    prior = default_prior(EXTENT, center=CENTER, smallest=10.0)
    with pytest.raises(InvalidInputError, match="another dimension"):
        fit_power_law(prior, wg.Annotations.empty(3), EXTENT)
    with pytest.raises(InvalidInputError, match=r"wg\.Annotations"):
        fit_power_law(prior, [np.zeros((3, 2))], EXTENT)


def test_the_page_about_the_model_is_true() -> None:
    """Its examples run."""
    page = Path(__file__).parents[2] / "docs" / "model.md"
    assert doctest.testfile(str(page), module_relative=False).attempted > 5
    assert doctest.testfile(str(page), module_relative=False).failed == 0


def test_a_fit_of_very_many_annotations_draws_some_and_says_so() -> None:
    """Another draw of the same data: other numbers, within what the fit says it leaves open."""
    rng = np.random.default_rng(2)
    fixed = rng.uniform(0, 100, (2100, 2))
    given = wg.Annotations.isotropic(fixed, fixed + np.sin(fixed[:, ::-1] / 15) + rng.normal(0, 0.3, fixed.shape), 0.3)
    prior = default_prior([100.0, 100.0], center=[50.0, 50.0], smallest=50.0)
    with pytest.warns(NumericalWarning, match="learned from 2000 of 2100 annotations"):
        fitted = fit_power_law(prior, given, [100.0, 100.0])
    assert fitted.fit is not None
    assert fitted.fit.annotations == 2100
