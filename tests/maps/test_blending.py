"""The blended map: unknown is not good."""

from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from models import make
from warpgauge.errors import InvalidInputError
from warpgauge.maps import blended_map, entropy_limits, entropy_of_deviation, known_share

pytest.importorskip("matplotlib")


def test_opacity_never_rises_with_entropy_and_reaches_both_ends() -> None:
    entropy = np.linspace(-5, 5, 101)
    opacity = blended_map(np.full(101, 0.3), entropy, (-2.0, 3.0))[:, 3].astype(int)
    assert np.all(np.diff(opacity) <= 0)
    assert np.all(opacity[entropy <= -2] == 255)
    assert np.all(opacity[entropy >= 3] == 0)
    assert opacity[50] == round(255 * 3 / 5)


def test_colour_follows_the_error_alone_and_undefined_is_transparent() -> None:
    """The ends of the colour scale as published for plasma; NaN shows nothing, however low the entropy."""
    result = blended_map([0.0, 1.0, np.nan], [0.0, 0.5, -9.0], (0.0, 1.0))
    np.testing.assert_allclose(result[0, :3], [13, 8, 135], atol=1)
    np.testing.assert_allclose(result[1, :3], [240, 249, 33], atol=1)
    assert result[:, 3].tolist() == [255, 128, 0]


def test_limits_are_absolute() -> None:
    """A map without annotations is wholly transparent, and so is one far from all annotations."""
    model = make(2, "wendland", True, "identity")
    posterior = model.prior.condition(model.annotations)
    empty = model.prior.condition(wg.Annotations.empty(2))
    points = np.random.default_rng(0).uniform(0, 60, (50, 2))
    for one in (empty, posterior):
        far = one.entropy(points + 1e4)
        assert np.all(known_share(far, entropy_limits(one)) < 1e-9)
    assert known_share(posterior.entropy(model.annotations.fixed_points), entropy_limits(posterior)).min() > 0.5
    assert entropy_of_deviation(1.0, 3) == pytest.approx(1.5 * np.log(2 * np.pi * np.e))


def test_half_of_the_variance_explained_is_half_known() -> None:
    """At sd = alone / sqrt(2) the share is 1/2, whatever the kernel; below half of it 1; at the kernel's own sd 0."""
    for d in (2, 3):
        prior = wg.TransformationPrior(wg.KernelBundle("wendland", [30.0, 60.0], [7.0, 9.0]))
        posterior = prior.condition(wg.Annotations.empty(d))
        limits = entropy_limits(posterior)
        entropies = [entropy_of_deviation(4.0 * part, d) for part in (1.0, 1 / np.sqrt(2), 0.5, 0.1)]  # sqrt(7 + 9) = 4
        np.testing.assert_allclose(known_share(entropies, limits), [0, 0.5, 1, 1], atol=1e-12)


def test_less_than_a_pixel_is_never_unknown() -> None:
    """A stiff kernel (sd 4) with pixels of 10: known up to a deviation of 10, unknown from 30 on."""
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [30.0], [16.0]))
    limits = entropy_limits(prior.condition(wg.Annotations.empty(2)), pixel=10.0)
    np.testing.assert_allclose(limits, [np.log(2 * np.pi * np.e * 100), np.log(2 * np.pi * np.e * 900)])
    small = entropy_limits(prior.condition(wg.Annotations.empty(2)), pixel=0.5)
    np.testing.assert_allclose(small, [np.log(2 * np.pi * np.e * 4), np.log(2 * np.pi * np.e * 16)])
    with pytest.raises(InvalidInputError, match="pixel must be a positive length"):
        entropy_limits(prior.condition(wg.Annotations.empty(2)), pixel=0.0)


def test_wrong_limits_and_shapes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="ascending entropies"):
        known_share([0.0], (1.0, 1.0))
    with pytest.raises(InvalidInputError, match="same grid"):
        blended_map(np.zeros(3), np.zeros(4), (0.0, 1.0))
