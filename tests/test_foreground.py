"""The foreground is the tissue or body that was painted, in pictures and volumes of several kinds, and on real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from warpgauge.candidates import Foreground, find_candidates, find_foreground, foreground_from_mask
from warpgauge.candidates.foreground import foreground_of
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.images import read_image

SHAPE = (300, 400)


def blob(shape: tuple[int, ...] = SHAPE, share: float = 0.32) -> np.ndarray:
    """An ellipse or ellipsoid in the middle."""
    axes = np.meshgrid(*[(np.arange(n) + 0.5) / n - 0.5 for n in shape], indexing="ij")
    return sum(axis**2 for axis in axes) < share**2


def texture(shape: tuple[int, ...], rng: np.random.Generator, grain: float = 2.0) -> np.ndarray:
    """Smooth noise of unit standard deviation."""
    noise = ndimage.gaussian_filter(rng.normal(size=shape), grain)
    return noise / noise.std()


def stained(colour: tuple[int, int, int], strength: float = 1.0, light: float = 0.0) -> np.ndarray:
    """A stained section on glass; ``light`` is how much darker the glass is at the right than at the left."""
    rng = np.random.default_rng(4)
    glass = np.array([244.0, 243.0, 246.0]) - light * np.linspace(0, 1, SHAPE[1])[None, :, None]
    glass = np.broadcast_to(glass, (*SHAPE, 3)).copy()
    tissue = strength * (0.7 + 0.3 * texture(SHAPE, rng))[..., None] * (255.0 - np.array(colour))
    picture = glass - blob()[..., None] * tissue + rng.normal(0, 1.5, (*SHAPE, 3))
    return np.clip(picture, 0, 255).astype(np.uint8)


def overlap(found: np.ndarray, truth: np.ndarray) -> float:
    """Intersection over union."""
    return float((found & truth).sum() / (found | truth).sum())


@pytest.mark.parametrize(
    ("picture", "name"),
    [
        (stained((90, 30, 140)), "bright"),
        (stained((190, 180, 210), 0.5), "bright"),  # a pale stain
        (stained((90, 30, 140), 1.0, 40.0), "bright"),  # uneven light
        (stained((60, 60, 60))[..., 0], "bright"),  # grey
        (255 - stained((60, 60, 60)), "dark"),  # dark field
    ],
)
def test_tissue_on_glass_or_in_the_dark(picture: np.ndarray, name: str) -> None:
    """An ellipse of tissue is found whatever its stain, with even and uneven light, in colour and in grey."""
    found = foreground_of(picture, Grid(SHAPE[::-1]))
    assert overlap(found.mask, blob()) > 0.9
    assert name in found.method


def test_bars_of_a_scanner_are_no_tissue() -> None:
    """Black bars beside the glass do not count as what differs from the glass."""
    picture = stained((90, 30, 140))
    picture[:, :20] = 0
    picture[-15:] = 0
    found = foreground_of(picture, Grid(SHAPE[::-1]))
    assert overlap(found.mask, blob()) > 0.9
    assert not found.mask[:, :22].any()
    assert not found.mask[-17:].any()


def test_gaps_in_tissue_are_part_of_it_and_large_lumens_are_not() -> None:
    """A sponge of tissue with small holes is one region; a hole of an eighth of the picture's height stays a hole."""
    picture = np.full((*SHAPE, 3), 245, np.uint8)
    y, x = np.indices(SHAPE)
    walls = ((y % 8) < 2) | ((x % 8) < 2)
    hole = (y - 150) ** 2 + (x - 200) ** 2 < 38**2
    picture[walls & ~hole & (x > 80)] = (120, 60, 150)
    mask = foreground_of(picture, Grid(SHAPE[::-1])).mask
    assert mask[30:100, 120:380].all()
    assert not mask[140:160, 190:210].any()
    assert not mask[:, :70].any()


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.full(SHAPE, 7, np.uint8), "one brightness only"),
        (np.random.default_rng(1).integers(0, 255, SHAPE).astype(np.uint8), "no flat bright or dark background"),
        (np.zeros((20, 20, 20), np.int16), "one intensity only"),
        (np.random.default_rng(1).normal(100, 10, (30, 30, 30)), "no background of low or high intensity"),
    ],
)
def test_without_a_background_it_is_the_whole_image(array: np.ndarray, sentence: str) -> None:
    """Where everything is alike, or nothing is background, the whole image is taken, and the reason is stated."""
    grid = Grid(array.shape[::-1])
    found = foreground_of(array, grid)
    assert found.whole
    assert found.share == 1.0
    assert found.method.startswith("The whole image:")
    assert sentence in found.method
    assert found.contains(grid.points()).all()


def head(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A ball with a dark hollow."""
    shape = (48, 56, 64)
    body, hollow = blob(shape, 0.35), blob(shape, 0.12)
    values = np.where(body & ~hollow, 300 + 40 * texture(shape, rng), 0.0)
    return values, body


def test_a_body_in_noise_is_found_with_its_hollow() -> None:
    """A magnitude image: the background is Rayleigh noise, and a dark hollow inside belongs to the body."""
    rng = np.random.default_rng(7)
    values, body = head(rng)
    noisy = np.hypot(values + rng.normal(0, 12, values.shape), rng.normal(0, 12, values.shape))
    noisy[2:5, 2:5, 2:5] = 400  # something small beside it
    found = foreground_of(noisy, Grid(values.shape[::-1]))
    assert overlap(found.mask, body) > 0.9
    assert found.mask[24, 28, 32]
    assert not found.mask[3, 3, 3]


def test_lungs_that_are_open_in_some_planes_are_inside() -> None:
    """Air within a chest belongs to the body, although it is like the air outside and open at the top and bottom."""
    rng = np.random.default_rng(7)
    values = np.full((40, 60, 70), -1000.0)
    y, x = np.indices((60, 70))
    chest = ((y - 30) / 24) ** 2 + ((x - 35) / 30) ** 2 < 1
    lung = ((y - 30) / 14) ** 2 + ((x - 35) / 18) ** 2 < 1
    values[:, chest & ~lung] = 40.0
    values[:, lung] = -900.0
    found = foreground_of(values + rng.normal(0, 15, values.shape), Grid((70, 60, 40)))
    assert overlap(found.mask, np.broadcast_to(chest, values.shape)) > 0.95


def test_padding_inside_the_body_is_left_out() -> None:
    """Where exactly the padding value stands inside the body nothing was recorded, so it is no foreground."""
    values, _ = head(np.random.default_rng(7))
    found = foreground_of(values, Grid(values.shape[::-1]))
    assert not found.mask[24, 28, 32]
    assert not (found.mask & (values == 0)).any()


def test_points_are_looked_up_in_the_world() -> None:
    """`contains` follows spacing, origin and direction of the grid; what lies outside the image is no foreground."""
    mask = np.zeros((4, 5), dtype=bool)
    mask[1, 3] = True
    grid = Grid((5, 4), (2.0, 3.0), (10.0, 20.0), [[0.0, -1.0], [1.0, 0.0]], "mm")
    found = Foreground(mask, grid, "Painted.")
    centre = grid.index_to_world([3, 1])
    assert centre.tolist() == [7.0, 26.0]  # x falls along the second index axis, y grows along the first
    points = centre + np.array([[0.0, 0.0], [1.4, 0.9], [1.6, 0.0], [0.0, 1.1], [1e6, 0.0]])
    assert found.contains(points).tolist() == [True, True, False, False, False]
    assert found.contains(points.reshape(5, 1, 2)).shape == (5, 1)
    assert found.share == 1 / 20


def test_a_mask_is_reduced_without_losing_a_pixel() -> None:
    """A mask of more pixels than are kept becomes coarser, and every pixel of it is still inside."""
    mask = np.zeros((901, 1203), np.uint8)
    mask[100:103, 50:1100] = 1
    mask[900, 1202] = 255
    grid = Grid((1203, 901), (0.5, 0.5), units="um")
    found = foreground_from_mask(mask, grid, "thin.png")
    inside = np.argwhere(mask)[:, ::-1]
    assert found.mask.size <= 400_000
    assert found.contains(grid.index_to_world(inside)).all()
    assert not found.contains(grid.index_to_world([[600, 400]])).any()
    with pytest.raises(InvalidInputError, match=r"thin\.png' is zero everywhere"):
        foreground_from_mask(0 * mask, grid, "thin.png")


def test_candidates_keep_away_from_the_edge_of_the_foreground() -> None:
    """No corner lies on the background or within one element of the edge, also where the mask is coarser."""
    picture = stained((90, 30, 140))[..., 1]
    grid = Grid(SHAPE[::-1], (2.0, 2.0), units="um")
    coarse = foreground_from_mask(blob(), grid, "painted")
    coarse = Foreground(coarse.mask[::4, ::4], grid.coarsened(4), "every fourth")
    found = find_candidates(picture, grid, foreground=coarse, count=200)
    assert len(found) > 100
    depth = ndimage.distance_transform_edt(coarse.mask)  # 1 at the edge
    index = np.round(coarse.grid.world_to_index(found.points_world)).astype(int)
    assert (depth[index[:, 1], index[:, 0]] > 1).all()
    assert "in the foreground" in found.method
    with pytest.raises(InvalidInputError, match="give one of them"):
        find_candidates(picture, grid, foreground=coarse, mask=blob())


def test_a_large_picture_is_read_reduced(tmp_path: Path) -> None:
    """What is found in a picture of 12 million pixels has at most 0.4 million elements and covers the picture."""
    small = stained((90, 30, 140))
    Image.fromarray(small).resize((4001, 3001), Image.Resampling.BICUBIC).save(tmp_path / "large.png")
    image = read_image(tmp_path / "large.png")
    found = find_foreground(image)
    assert found.mask.size <= 400_000
    points = image.grid.index_to_world([[0, 0], [4000, 3000], [2000, 1500], [2000, 10]])
    assert found.contains(points).tolist() == [False, False, True, False]
