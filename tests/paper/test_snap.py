"""Refining a mark by the images: matching."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import ndimage

from warpgauge.registration.patch_match import local_map, match_patch


def picture(d: int, seed: int) -> np.ndarray:
    """A texture with structure at several scales."""
    rng = np.random.default_rng(seed)
    size = (160,) * d if d == 2 else (48,) * d
    layers = [ndimage.gaussian_filter(rng.normal(size=size), s) * s ** (d / 2) for s in (1.5, 4.0)]
    return np.asarray(sum(layers))


def sampled(array: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda points: ndimage.map_coordinates(array, points[:, ::-1].T, order=1, cval=np.nan)


@pytest.mark.parametrize("d", [2, 3])
def test_a_known_shift_is_found_though_the_brightness_is_another(d: int) -> None:
    """A slip of 3 pixels is corrected to a fifth of a pixel where the moving image is inverted and squeezed."""
    fixed = picture(d, 1)
    moving = 40.0 - 3.0 * np.sign(fixed) * np.abs(fixed) ** 0.8
    at = np.full(d, fixed.shape[0] / 2)
    slip = np.array([2.0, -2.0, 1.0])[:d]
    found = match_patch(sampled(fixed), sampled(moving), at, at + slip, np.eye(d), 1.0)
    assert found.distinctive
    np.testing.assert_allclose(found.point, at, atol=0.2)


def test_equal_images_and_empty_ones() -> None:
    """Equal images a whole number of pixels apart give the match, where the cost is rounding; flat ones give none."""
    fixed, at = picture(2, 5), np.array([80.0, 80.0])
    found = match_patch(sampled(fixed), sampled(fixed), at, at + np.array([3.0, -2.0]), np.eye(2), 1.0)
    assert found.distinctive
    np.testing.assert_allclose(found.point, at, atol=0.2)
    flat = sampled(np.full((160, 160), 7.0))
    assert not match_patch(flat, flat, at, at, np.eye(2), 1.0).distinctive
    assert not match_patch(sampled(fixed), flat, at, at, np.eye(2), 1.0).distinctive


def test_a_turned_image_is_matched_by_the_linear_map_and_axes_are_not_exchanged() -> None:
    """With x and y exchanged in the moving image, the map that says so finds the match; noise alone stands out less."""
    fixed = picture(2, 2)
    at, swap = np.array([90.0, 60.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    found = match_patch(sampled(fixed), sampled(fixed.T), at, at[::-1] + np.array([2.0, 1.0]), swap, 1.0)
    np.testing.assert_allclose(found.point, at[::-1], atol=0.2)
    noise = match_patch(sampled(fixed), sampled(np.random.default_rng(3).normal(size=fixed.shape)), at, at, swap, 1.0)
    assert noise.ratio < found.ratio


def test_the_other_landmarks_give_the_local_map() -> None:
    """Landmarks of an affine map give its linear part, whatever the one left out says."""
    rng = np.random.default_rng(4)
    points, linear = rng.uniform(0, 100, (20, 2)), np.array([[0.9, 0.3], [-0.2, 1.1]])
    matches = points @ linear.T + [5.0, 7.0]
    matches[3] += 50.0
    others = np.arange(20) != 3
    np.testing.assert_allclose(local_map(points[others], matches[others], points[3]), linear, atol=1e-9)
