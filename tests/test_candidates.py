"""Corners at known places, in world units, in bounded memory; target sets against their plain definitions."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from warpgauge import Grid
from warpgauge.candidates import (
    Candidates,
    find_candidates,
    targets_from_domain,
    targets_from_file,
    targets_from_labels,
    targets_from_mask,
    to_gray,
)
from warpgauge.candidates.structure import harris_strength
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning


def checkerboard(grid: Grid, corner_world: np.ndarray, width: float) -> np.ndarray:
    """Four (eight) fields that meet at one world point, with soft edges along the axes of the world."""
    offsets = grid.points() - corner_world
    return (100.0 * np.prod(np.tanh(offsets / width), axis=1)).reshape(grid.shape)


def noise(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# --- corners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trial", range(4))
def test_checkerboard_corner_in_2d(trial: int) -> None:
    """The meeting point of four fields is found to 0.05 px at any sub-pixel place."""
    corner = 20 + np.random.default_rng(trial).random(2)
    grid = Grid((41, 43))
    found = find_candidates(checkerboard(grid, corner, 0.8), grid, count=1, sigma=4.0, border=8.0)
    np.testing.assert_allclose(found.points_world[0], corner, atol=0.05)


@pytest.mark.parametrize("trial", range(2))
def test_checkerboard_corner_in_3d(trial: int) -> None:
    """The meeting point of eight fields is found to 0.06 voxels."""
    corner = 16 + np.random.default_rng(trial).random(3)
    grid = Grid((33, 34, 35))
    found = find_candidates(checkerboard(grid, corner, 0.8), grid, count=1, sigma=4.0, border=8.0)
    np.testing.assert_allclose(found.points_world[0], corner, atol=0.06)


def test_anisotropic_oblique_volume() -> None:
    """With voxels of 0.8 x 1 x 1.6 mm, a turned direction and an origin, the corner is found in the world."""
    direction = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    grid = Grid((40, 34, 24), (0.8, 1.0, 1.6), (50.0, -20.0, 300.0), direction, units="mm")
    corner = grid.index_to_world([19.3, 16.8, 11.6])
    found = find_candidates(checkerboard(grid, corner, 0.9), grid, count=1, sigma=4.0, border=8.0)
    assert np.linalg.norm(found.points_world[0] - corner) < 0.2  # mm; an eighth of the largest spacing


def test_all_corners_of_a_checkerboard_pattern() -> None:
    """Every inner corner of a pattern of soft squares is found, and nothing else."""
    grid = Grid((120, 100))
    x, y = np.meshgrid(np.arange(120), np.arange(100))
    image = np.tanh(4 * np.sin(np.pi * (x - 7.3) / 20)) * np.tanh(4 * np.sin(np.pi * (y - 4.6) / 20))
    expected = np.array(list(itertools.product(7.3 + 20 * np.arange(6), 4.6 + 20 * np.arange(5))))
    inside = np.all((expected >= 12) & (expected <= [107, 87]), axis=1)
    found = find_candidates(image, grid, count=None, sigma=3.0, border=12.5, min_distance=8.0)
    assert len(found) == int(inside.sum()) == 16
    distances = np.linalg.norm(found.points_world[:, None] - expected[inside], axis=2)
    assert distances.min(axis=1).max() < 0.15
    assert len(set(distances.argmin(axis=1))) == 16


@pytest.mark.parametrize("d", [2, 3])
def test_corners_of_a_box(d: int) -> None:
    """A box has 2^d corners; each is found within sigma, and no edge or face is taken for one."""
    shape = (36, 40, 44)[:d]
    image = np.zeros(shape)
    image[(slice(12, 24),) * d] = 100.0
    found = find_candidates(image, Grid(shape[::-1]), count=None, sigma=2.0, min_distance=4.0)
    corners = np.array(list(itertools.product((11.5, 23.5), repeat=d)))
    assert len(found) == 2**d
    distances = np.linalg.norm(found.points_world[:, None] - corners, axis=2)
    assert sorted(distances.argmin(axis=1)) == list(range(2**d))
    assert distances.min(axis=1).max() < 2.0 * np.sqrt(d)


def test_strength_is_that_of_scikit_image() -> None:
    """On square pixels, away from the border, the 2D strength is skimage's corner_harris up to the Sobel factor."""
    feature = pytest.importorskip("skimage.feature")
    image = noise((40, 50))
    mine = harris_strength(image, np.ones(2), 1.5)
    theirs = feature.corner_harris(image, k=0.05, sigma=1.5) / 8.0**4
    inner = (slice(10, -10),) * 2
    np.testing.assert_allclose(mine[inner], theirs[inner], rtol=1e-10, atol=1e-16)


def test_minimum_distance_is_in_world_units() -> None:
    """No two candidates are nearer than min_distance in mm, and dropping it brings nearer ones."""
    grid = Grid((60, 50, 20), (0.5, 0.5, 2.5), units="mm")
    image = noise(grid.shape)
    found = find_candidates(image, grid, count=None, sigma=0.8, min_distance=4.0)
    assert len(found) > 50
    assert pdist(found.points_world).min() > 4.0
    close = find_candidates(image, grid, count=None, sigma=0.8, min_distance=0.0)
    assert pdist(close.points_world).min() < 4.0
    assert len(close) > len(found)


def test_strongest_first_and_no_more_than_count() -> None:
    """The candidates are the first of the longer list, by falling strength."""
    grid = Grid((80, 70))
    image = noise(grid.shape)
    many = find_candidates(image, grid, count=None, min_distance=6.0)
    few = find_candidates(image, grid, count=10, min_distance=6.0)
    assert len(few) == 10
    np.testing.assert_array_equal(few.points_world, many.points_world[:10])
    assert np.all(np.diff(many.strengths) <= 0)
    assert np.all(many.strengths > 0)


def test_mask_and_border_are_respected() -> None:
    """Every candidate's own pixel is in the mask, and the margin is kept from the outer edge of the image."""
    grid = Grid((90, 80), (0.5, 0.5), (10.0, 20.0), units="um")
    image = noise(grid.shape)
    mask = np.zeros(grid.shape, dtype=np.uint8)
    mask[20:60, 30:70] = 1
    found = find_candidates(image, grid, mask=mask, count=None, sigma=0.5, min_distance=0.0, border=0.0)
    index = grid.world_to_index(found.points_world)
    pixel = np.round(index).astype(int)
    assert len(found) > 30
    assert np.all(mask[pixel[:, 1], pixel[:, 0]] == 1)
    found = find_candidates(image, grid, count=None, sigma=0.5, min_distance=0.0, border=7.0)
    index = grid.world_to_index(found.points_world)
    # the image reaches from index -0.5 to n - 0.5; 7 um are 14 pixels
    assert index.min() >= 13.5
    assert np.all(index <= np.array([90, 80]) - 0.5 - 14)
    assert index.min() < 16  # and no more than that is cut off


def test_blocks_give_what_the_whole_gives() -> None:
    """Worked through in many overlapping blocks the result is the same to the last bit, and progress is reported."""
    grid = Grid((50, 46, 42), (1.0, 1.2, 1.5), units="mm")
    image = (1000 * noise(grid.shape)).astype(np.int16)
    mask = noise(grid.shape, 5) > -1
    calls: list[tuple[int, int]] = []
    whole = find_candidates(image, grid, mask=mask, count=200, min_distance=3.0)
    parts = find_candidates(
        image, grid, mask=mask, count=200, min_distance=3.0, memory=5 * 2**20, progress=lambda *a: calls.append(a)
    )
    assert len(calls) > 8
    assert calls == [(i, len(calls)) for i in range(1, len(calls) + 1)]
    same(parts, whole)


def test_blocks_in_2d_and_of_colour() -> None:
    """The same in 2D, with three channels."""
    grid = Grid((300, 200))
    image = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    same(find_candidates(image, grid, memory=2**20), find_candidates(image, grid))


def same(a: Candidates, b: Candidates) -> None:
    np.testing.assert_array_equal(a.points_world, b.points_world)
    np.testing.assert_array_equal(a.strengths, b.strengths)
    assert a.method == b.method


def test_memory_is_bounded_by_the_block() -> None:
    """192^3 voxels in blocks of 48 MiB: all allocations together peak below that, where at once it takes 700 MiB."""
    grid = Grid((192, 192, 192))
    image = np.random.default_rng(0).integers(0, 255, grid.shape, dtype=np.uint8)
    limit = 48 * 2**20
    find_candidates(image[:40, :40, :40], Grid((40, 40, 40)), count=5)  # imports are not what is measured
    tracemalloc.start()
    found = find_candidates(image, grid, count=50, memory=limit, pool=20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 50
    assert peak < limit


def test_the_pool_keeps_the_strongest() -> None:
    """With a pool that just suffices the result is the same; with too small a one that is said with the numbers."""
    grid = Grid((120, 120))
    image = noise(grid.shape)
    full = find_candidates(image, grid, count=20, min_distance=5.0)
    same(find_candidates(image, grid, count=20, min_distance=5.0, pool=120, memory=2**19), full)
    with pytest.warns(SuspiciousDataWarning, match="among the 20 strongest maxima"):
        find_candidates(image, grid, count=20, min_distance=30.0, pool=20)


def test_flat_image_has_no_candidates() -> None:
    """A constant image and a plain edge give none, and say so by their number."""
    grid = Grid((40, 40))
    assert len(find_candidates(np.full((40, 40), 7.3), grid)) == 0
    edge = np.zeros((40, 40))
    edge[:, 20:] = 1.0
    assert len(find_candidates(edge, grid)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image_array": np.zeros((9, 9))}, "does not lie on a grid"),
        ({"image_array": np.zeros((20, 30, 2))}, "1, 3 .RGB. or 4"),
        ({"image_array": np.full((20, 30), np.nan)}, "600 values that are not finite"),
        ({"image_array": np.zeros((20, 30), dtype=complex)}, "no grey values"),
        ({"mask": np.ones((3, 3))}, "A mask of shape"),
        ({"count": 0}, "count must be at least 1"),
        ({"sigma": 0.0}, "sigma must be a positive length"),
        ({"border": -1.0}, "border must be a length"),
        ({"min_distance": float("nan")}, "min_distance must be a length"),
        ({"memory": 1000}, "more memory"),
        ({"pool": 5}, "pool must be"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    """Each wrong argument is one clear error."""
    given = {"image_array": np.zeros((20, 30)), "grid": Grid((30, 20))} | arguments
    with pytest.raises(InvalidInputError, match=message):
        find_candidates(**given)


# --- grey values -----------------------------------------------------------------------------------


def test_luma_rule() -> None:
    """Grey is 0.2126 R + 0.7152 G + 0.0722 B; opacity is left out; one channel stays as it is."""
    gray, rule = to_gray(np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], dtype=np.uint8))
    np.testing.assert_allclose(gray[0], [54.213, 182.376, 18.411, 255.0])
    assert "0.2126 R + 0.7152 G + 0.0722 B" in rule
    rgba = np.zeros((2, 5, 4), dtype=np.uint16)
    rgba[..., :3], rgba[..., 3] = 1000, 65535
    gray, rule = to_gray(rgba)
    np.testing.assert_allclose(gray, np.full((2, 5), 1000.0))
    assert "opacity" in rule
    image = np.arange(6).reshape(2, 3)
    assert to_gray(image)[0] is image
    volume = np.zeros((4, 5, 3))
    assert to_gray(volume, d=3)[0] is volume
    assert to_gray(np.zeros((4, 5, 6, 3)))[0].shape == (4, 5, 6)
    with pytest.raises(InvalidInputError, match="shape"):
        to_gray(np.zeros(5))


# --- targets ---------------------------------------------------------------------------------------


def test_regular_targets_fill_the_domain_evenly() -> None:
    """Cells as cubic as the image allows: 24 points on a domain of 60 x 40 x 20 mm are 4 x 3 x 2 with equal cells."""
    grid = Grid((60, 20, 10), (1.0, 2.0, 2.0), (5.0, 0.0, -3.0), units="mm")
    targets = targets_from_domain(grid, 24)
    assert len(targets) <= 24
    assert np.all(grid.contains(targets))
    steps = [np.unique(np.round(np.diff(np.unique(targets[:, axis])), 9)) for axis in range(3)]
    assert all(len(step) <= 1 for step in steps)
    np.testing.assert_allclose(targets.mean(axis=0), grid.index_to_world([29.5, 9.5, 4.5]), atol=1e-9)
    many = targets_from_domain(grid, 5000)
    assert 4000 < len(many) <= 5000


def test_regular_targets_of_every_pixel_are_the_pixels() -> None:
    """Asked for as many points as an isotropic image has pixels, the lattice is the pixel centres."""
    grid = Grid((7, 5), (0.5, 0.5), units="um")
    targets = targets_from_domain(grid, 35)
    order = np.lexsort((targets[:, 0], targets[:, 1]))
    np.testing.assert_allclose(targets[order], grid.points(), atol=1e-12)


def test_random_targets_are_uniform_and_repeat() -> None:
    """Random targets lie in the domain, fill it evenly to the edge of its pixels, and depend on the seed alone."""
    grid = Grid((50, 30), (2.0, 1.0), (100.0, 0.0))
    targets = targets_from_domain(grid, 4000, method="random", seed=4)
    assert targets.shape == (4000, 2)
    assert np.all(grid.contains(targets))
    np.testing.assert_array_equal(targets, targets_from_domain(grid, 4000, method="random", seed=4))
    assert not np.array_equal(targets, targets_from_domain(grid, 4000, method="random", seed=5))
    np.testing.assert_allclose(targets.min(axis=0), [99.0, -0.5], atol=0.2)
    counts = np.histogram2d(*targets.T, bins=4)[0]
    assert counts.min() > 180  # 250 expected, sd 15


def test_mask_targets_are_its_pixels() -> None:
    """All pixels of a mask, or a choice of them without repetition, in the order of the array."""
    grid = Grid((30, 20), (0.5, 0.25), units="um")
    mask = noise(grid.shape) > 0.5
    everything = targets_from_mask(mask, grid)
    rows, columns = np.nonzero(mask)
    np.testing.assert_allclose(everything, np.column_stack([columns * 0.5, rows * 0.25]))
    some = targets_from_mask(mask, grid, 40, seed=1)
    assert len(np.unique(some, axis=0)) == 40
    assert {tuple(p) for p in some} <= {tuple(p) for p in everything}
    np.testing.assert_array_equal(some, targets_from_mask(mask, grid, 40, seed=1))
    lattice = targets_from_mask(mask, grid, 40, method="regular")
    pixel = np.round(grid.world_to_index(lattice)).astype(int)
    assert 10 < len(lattice) <= 40
    assert np.all(mask[pixel[:, 1], pixel[:, 0]])


@pytest.mark.parametrize("shape", [(9, 11), (6, 7, 8)])
def test_label_edges_by_brute_force(shape: tuple[int, ...]) -> None:
    """A pixel is on the edge when one of its neighbours along an axis, inside the image, has another label."""
    labels = np.random.default_rng(0).integers(0, 4, shape)
    labels[tuple(slice(1, 5) for _ in shape)] = 2
    grid = Grid(shape[::-1])
    for wanted in (2, [1, 2]):
        expected = []
        for index in np.ndindex(*shape):
            if labels[index] not in np.atleast_1d(wanted):
                continue
            for axis, step in itertools.product(range(len(shape)), (-1, 1)):
                near = list(index)
                near[axis] += step
                if 0 <= near[axis] < shape[axis] and labels[tuple(near)] != labels[index]:
                    expected.append(index[::-1])
                    break
        np.testing.assert_array_equal(targets_from_labels(labels, grid, wanted), np.array(expected, dtype=float))
    inside = targets_from_labels(labels, grid, 2, edge=False)
    assert len(inside) == int(np.sum(labels == 2))
    assert len(targets_from_labels(labels, grid, 2, count=5, seed=1)) == 5


def test_targets_from_a_file(tmp_path: Path) -> None:
    """Points of any landmark file; of pairs, the fixed and active ones; indices by the grid."""
    path = tmp_path / "p.csv"
    path.write_text("fixed_x,fixed_y,moving_x,moving_y,active\n1,2,9,9,true\n3,4,9,9,false\n5,6,9,9,true\n")
    np.testing.assert_array_equal(targets_from_file(path), [[1, 2], [5, 6]])
    path = tmp_path / "n.csv"
    path.write_text("index,axis-0,axis-1\n0,4,10\n")
    grid = Grid((20, 20), (0.5, 0.5), (100.0, 0.0), units="um")
    np.testing.assert_array_equal(targets_from_file(path, grid=grid), [[105.0, 2.0]])
    np.testing.assert_array_equal(targets_from_file(path, format="napari", scale=2.0), [[20, 8]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: targets_from_domain(g, 0), "count must be at least 1"),
        (lambda g: targets_from_domain(g, 5, method="grid"), "method must be"),
        (lambda g: targets_from_mask(np.ones((2, 2)), g), "A mask of shape"),
        (lambda g: targets_from_mask(np.zeros((6, 5)), g), "has 0 pixels"),
        (lambda g: targets_from_mask(np.zeros((6, 5)), g, 3, method="regular"), "has 0 pixels"),
        (lambda g: targets_from_mask(np.eye(6, 5), g, 9), "has 5 pixels, fewer than the 9"),
        (lambda g: targets_from_labels(np.zeros((6, 5), int), g, 3), "no label 3"),
        (lambda g: targets_from_labels(np.zeros((6, 5), int), g, 0), "edge of the labels has 0 pixels"),
        (lambda g: targets_from_labels(np.zeros((6, 5), int), g, 1.5), "whole number"),
        (lambda g: targets_from_labels(np.zeros((6, 5), int), g, []), "whole number"),
    ],
)
def test_impossible_targets_are_named(call: object, message: str) -> None:
    """Each impossible request for targets is one clear error."""
    with pytest.raises(InvalidInputError, match=message):
        call(Grid((5, 6)))
