"""Warped images: against analytic functions, exact shifts, and a real image."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import DisplacementField
from warpgauge.simulate import deformation_of, random_deformation, warp_image

A = {
    2: np.array([[-0.2, 0.15], [-0.1, -0.25]]),
    3: np.array([[-0.2, 0.1, 0.05], [-0.1, -0.25, 0.08], [0.03, -0.06, -0.2]]),
}
CASES = {
    2: Grid((90, 80), (0.5, 0.6), (4.0, -3.0)),
    3: Grid((40, 36, 30), (0.9, 1.0, 1.2), (4.0, -3.0, 10.0)),
}


def shift(grid: Grid, vector: list[float]) -> DisplacementField:
    velocity = np.broadcast_to(np.reshape(vector, (grid.d, *[1] * grid.d)), (grid.d, *grid.shape))
    return deformation_of(velocity, grid)


def contraction(grid: Grid, centre: np.ndarray) -> DisplacementField:
    """The flow of v(x) = A (x - c), which is x -> c + e^A (x - c)."""
    return deformation_of(((grid.points() - centre) @ A[grid.d].T).T.reshape(grid.d, *grid.shape), grid)


WAVE = np.array([0.21, 0.17, 0.13])


def smooth(points: np.ndarray) -> np.ndarray:
    return 50 + 20 * np.sin(points @ WAVE[: points.shape[1]] + 0.4)


@pytest.mark.parametrize("d", [2, 3])
def test_warp_of_a_smooth_function(d: int) -> None:
    """moving(y) = f(c + e^-A (y - c)) where that origin lies in the image, and the fill elsewhere.

    Linear interpolation is off by up to h^2 |f''| / 8 an axis.
    """
    grid = CASES[d]
    centre = grid.index_to_world((np.asarray(grid.size) - 1) / 2)
    image = smooth(grid.points()).reshape(grid.shape)
    moving = warp_image(image, grid, contraction(grid, centre), fill=-7)
    origins = centre + (grid.points() - centre) @ expm(-A[d]).T
    index = (origins - grid.origin) / grid.spacing
    top = np.asarray(grid.size) - 1
    inside = ((index > 1e-3) & (index < top - 1e-3)).all(axis=1)
    outside = ((index < -1e-3) | (index > top + 1e-3)).any(axis=1)
    assert inside.mean() > 0.3
    assert outside.mean() > 0.1
    tolerance = 20 / 8 * np.square(grid.spacing * WAVE[:d]).sum()
    np.testing.assert_allclose(moving.ravel()[inside], smooth(origins)[inside], rtol=0, atol=tolerance + 1e-3)
    assert (moving.ravel()[outside] == -7).all()


def test_same_structure_at_mapped_points() -> None:
    """A bright spot at x in the fixed image is seen at phi(x) in the moving one, and not where the inverse puts it."""
    grid = Grid((120, 100))
    y, x = np.mgrid[:100, :120]
    deformation = random_deformation(grid, 4.0, 40.0, seed=3)
    for spot in ([60, 50], [30, 70], [85, 25]):
        fixed = np.exp(-((x - spot[0]) ** 2 + (y - spot[1]) ** 2) / (2 * 2.0**2))
        moving = warp_image(fixed, grid, deformation)
        row, column = np.unravel_index(np.argmax(moving), moving.shape)
        mapped, other = (f(np.array([spot], dtype=float))[0] for f in (deformation.map, deformation.inverse().map))
        # The brightest pixel is the one nearest to the spot, up to a pixel where the image is stretched.
        assert np.abs(mapped - [column, row]).max() <= 1.0
        assert np.linalg.norm(mapped - other) > 3.0


def test_whole_pixel_shift_is_exact() -> None:
    """phi(x) = x + (3, -2) moves every element by three columns and two rows; the rest is the fill value."""
    grid = Grid((9, 8))
    image = np.random.default_rng(0).integers(0, 255, (8, 9)).astype(np.uint8)
    moving = warp_image(image, grid, shift(grid, [3.0, -2.0]), fill=255)
    expected = np.full((8, 9), 255, dtype=np.uint8)
    expected[:-2, 3:] = image[2:, :-3]
    assert moving.dtype == np.uint8
    np.testing.assert_array_equal(moving, expected)


def test_integers_are_rounded() -> None:
    """Between 10 and 13 an integer image has 12 (11.8)."""
    grid = Grid((6, 4))
    image = np.tile(np.array([0, 10, 13, 16, 19, 22], dtype=np.int16), (4, 1))
    linear = warp_image(image, grid, shift(grid, [0.4, 0.0]))
    np.testing.assert_array_equal(linear[1], [0, 6, 12, 15, 18, 21])
    assert linear.dtype == np.int16


def test_channels_are_warped_alike() -> None:
    grid = Grid((30, 20), (2.0, 2.0))
    ramp = grid.points()
    image = np.stack([ramp[:, 0], ramp[:, 1], 3 * ramp[:, 0]], axis=-1).reshape(20, 30, 3)
    moving = warp_image(image, grid, shift(grid, [5.3, 1.7]), fill=np.nan)
    origin = ramp - [5.3, 1.7]
    inside = (origin >= 0).all(axis=1)
    np.testing.assert_allclose(moving.reshape(-1, 3)[inside], np.c_[origin, 3 * origin[:, 0]][inside], atol=1e-6)
    assert np.isnan(moving.reshape(-1, 3)[~inside]).all()


@pytest.mark.parametrize(
    ("image", "options", "words"),
    [
        (np.zeros((5, 6)), {}, "shape"),
        (np.zeros((4, 6, 2, 2)), {}, "shape"),
        (np.zeros((4, 6), np.uint8), {"fill": 300}, "fill value 300"),
        (np.zeros((4, 6), np.uint8), {"fill": np.nan}, "fill value nan"),
        (np.zeros((4, 6), np.uint8), {"fill": 0.5}, "fill value 0.5"),
        (np.zeros((4, 6), bool), {}, "integers, float32 and float64, got bool"),
        (np.zeros((4, 6), complex), {}, "complex"),
    ],
)
def test_bad_images_are_named(image: np.ndarray, options: dict[str, object], words: str) -> None:
    grid = Grid((6, 4))
    with pytest.raises(InvalidInputError, match=words):
        warp_image(image, grid, shift(grid, [1.0, 0.0]), **options)  # type: ignore[arg-type]
