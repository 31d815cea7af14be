"""The blended map: unknown is not good."""

from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from models import make
from warpgauge.errors import InvalidInputError
from warpgauge.maps import entropy_limits, known_share

pytest.importorskip("matplotlib")


def prior(weight: float = 16.0) -> wg.TransformationPrior:
    return wg.TransformationPrior(wg.KernelBundle("wendland", [30.0], [weight]))


def test_colour_follows_the_error_and_opacity_the_entropy() -> None:
    """Plasma's ends as published; opaque at an annotation, transparent far from all and outside the domain."""
    posterior = prior().condition(wg.Annotations.isotropic([[10.0, 5.0]], [[10.0, 5.0]], sd=0.01))
    grid = wg.Grid((100, 10))

    def transform(points: np.ndarray) -> np.ndarray:
        moved = points + np.where(points[:, :1] > 12, 40.0, 0.0)
        moved[points[:, 1] == 9] = np.nan
        return moved

    picture = wg.blended_map(posterior, transform, grid)
    assert picture.shape == (10, 100, 4)
    np.testing.assert_allclose(picture[5, 10, :3], [13, 8, 135], atol=1)
    np.testing.assert_allclose(picture[5, 14, :3], [240, 249, 33], atol=1)
    assert picture[5, 10, 3] == 255
    row = picture[5, 10:, 3].astype(int)
    assert np.all(np.diff(row) <= 0)
    assert np.all(row[40:] == 0)
    assert np.all(picture[9, :, 3] == 0)
    nothing = wg.blended_map(prior().condition(wg.Annotations.empty(2)), transform, grid)
    assert np.all(nothing[..., 3] == 0)


def test_limits_are_absolute() -> None:
    """A map without annotations is wholly transparent, and so is one far from all annotations."""
    model = make(2, "wendland", True, "identity")
    posterior = model.prior.condition(model.annotations)
    empty = model.prior.condition(wg.Annotations.empty(2))
    points = np.random.default_rng(0).uniform(0, 60, (50, 2))
    for one in (empty, posterior):
        assert np.all(known_share(one.entropy(points + 1e4), entropy_limits(one)) < 1e-9)
    assert known_share(posterior.entropy(model.annotations.fixed_points), entropy_limits(posterior)).min() > 0.5


@pytest.mark.parametrize("d", [2, 3])
def test_half_of_the_variance_explained_is_half_known(d: int) -> None:
    """At sd = alone / sqrt(2) the share is 1/2, whatever the kernel; below half of it 1; at the kernel's own sd 0."""
    limits = entropy_limits(prior(16.0).condition(wg.Annotations.empty(d)))
    deviations = np.array([4.0, 4.0 / np.sqrt(2), 2.0, 0.4])
    entropies = d * (0.5 * np.log(2 * np.pi * np.e) + np.log(deviations))
    np.testing.assert_allclose(known_share(entropies, limits), [0, 0.5, 1, 1], atol=1e-12)


def test_less_than_a_pixel_is_never_unknown() -> None:
    """A stiff kernel (sd 4) with pixels of 10: known up to a deviation of 10, unknown from 30 on."""
    posterior = prior(16.0).condition(wg.Annotations.empty(2))
    limits = entropy_limits(posterior, pixel=10.0)
    np.testing.assert_allclose(limits, [np.log(2 * np.pi * np.e * 100), np.log(2 * np.pi * np.e * 900)])
    small = entropy_limits(posterior, pixel=0.5)
    np.testing.assert_allclose(small, [np.log(2 * np.pi * np.e * 4), np.log(2 * np.pi * np.e * 16)])
    with pytest.raises(InvalidInputError, match="pixel"):
        entropy_limits(posterior, pixel=0.0)
    with pytest.raises(InvalidInputError, match="ascending"):
        known_share([0.0], (1.0, 1.0))
