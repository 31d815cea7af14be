from __future__ import annotations

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813  # its own documentation's name for it
from hypothesis import given
from hypothesis import strategies as st

import warpgauge as wg
from warpgauge.errors import InvalidInputError


def rotation(d: int, seed: int) -> np.ndarray:
    """A random orthonormal matrix, right- or left-handed."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def as_itk(grid: wg.Grid) -> sitk.Image:
    image = sitk.Image(list(grid.size), sitk.sitkUInt8)
    image.SetSpacing(grid.spacing.tolist())
    image.SetOrigin(grid.origin.tolist())
    image.SetDirection(grid.direction.reshape(-1).tolist())
    return image


def oblique(d: int, seed: int = 0) -> wg.Grid:
    rng = np.random.default_rng(seed)
    return wg.Grid((5, 7, 4)[:d], rng.uniform(0.3, 3, d), rng.normal(0, 50, d), rotation(d, seed), "mm")


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_index_and_world_agree_with_itk(d: int, seed: int) -> None:
    """Anisotropic spacing, oblique and left-handed directions, fractional indices."""
    grid = oblique(d, seed)
    image = as_itk(grid)
    for index in np.random.default_rng(seed).uniform(-2, 8, (10, d)):
        world = np.array(image.TransformContinuousIndexToPhysicalPoint(index.tolist()))
        np.testing.assert_allclose(grid.index_to_world(index), world, atol=1e-9)
        np.testing.assert_allclose(grid.world_to_index(world), index, atol=1e-9)


@given(seed=st.integers(0, 10**6), d=st.sampled_from([2, 3]))
def test_world_to_index_undoes_index_to_world(seed: int, d: int) -> None:
    grid = oblique(d, seed)
    index = np.random.default_rng(seed).uniform(-100, 100, (6, d))
    np.testing.assert_allclose(grid.world_to_index(grid.index_to_world(index)), index, atol=1e-8)


@pytest.mark.parametrize("d", [2, 3])
def test_array_element_and_world_point_belong_together(d: int) -> None:
    """Array index [z, y, x] is the world point of index (x, y, z); points() lists them in array order."""
    grid = oblique(d)
    points = grid.points()
    for flat, array_index in enumerate(np.ndindex(grid.shape)):
        expected = as_itk(grid).TransformIndexToPhysicalPoint([int(i) for i in array_index[::-1]])
        np.testing.assert_allclose(points[flat], expected, atol=1e-9)
    coordinates = grid.array_coordinates(points)
    np.testing.assert_allclose(coordinates, np.stack(np.unravel_index(np.arange(grid.count), grid.shape)), atol=1e-9)


def test_blocks_cover_every_point_once_in_order() -> None:
    grid = oblique(3)
    seen = [points for _, points in grid.blocks(13)]
    np.testing.assert_array_equal(np.concatenate(seen), grid.points())
    assert [len(part) for part in seen] == [13] * 10 + [10]


def test_contains_reaches_half_a_pixel_beyond_the_centres() -> None:
    grid = wg.Grid((4, 3), [2.0, 1.0], [10.0, 20.0])
    inside = grid.contains([[9.0, 19.5], [17.0, 22.5], [8.99, 20.0], [10.0, 22.51]])
    assert inside.tolist() == [True, True, False, False]


def test_affine_and_back() -> None:
    grid = oblique(3)
    again = wg.Grid.from_affine(grid.affine, grid.size, "mm")
    np.testing.assert_allclose(again.affine, grid.affine, atol=1e-12)
    np.testing.assert_allclose(grid.affine @ [1, 2, 3, 1], [*grid.index_to_world([1, 2, 3]), 1], atol=1e-12)


def test_a_coarsened_grid_covers_the_same_extent() -> None:
    """Outer pixel borders, not outer centres, stay where they are."""
    grid = wg.Grid((10, 7), [0.5, 2.0], [3.0, 4.0], rotation(2, 1))
    coarse = grid.coarsened(3)
    assert coarse.size == (3, 2)
    for corner in ([-0.5, -0.5], [9.5, 6.5]):
        world = grid.index_to_world(corner)
        expected = [-0.5, -0.5] if corner[0] < 0 else [2.5, 1.5]
        np.testing.assert_allclose(coarse.world_to_index(world), expected, atol=1e-12)


def test_diagonal_and_equality() -> None:
    grid = wg.Grid((3, 4), [2.0, 2.0], units="um")
    assert grid.diagonal == pytest.approx(10.0)
    assert grid == wg.Grid((3, 4), [2.0, 2.0], units="um")
    assert grid != wg.Grid((3, 4), [2.0, 2.0], units="mm")
    assert len({grid, wg.Grid((3, 4), [2.0, 2.0], units="um")}) == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (((0, 3),), "size"),
        (((3,),), "size"),
        (((3, 3), [1.0, 0.0]), "spacing must be positive"),
        (((3, 3), [1.0]), "spacing must be 2"),
        (((3, 3), None, [np.nan, 0.0]), "origin"),
        (((3, 3), None, None, [[1.0, 0.5], [0.0, 1.0]]), "orthonormal"),
        (((3, 3), None, None, None, "cm"), "units"),
    ],
)
def test_bad_grids_are_refused(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        wg.Grid(*arguments)  # type: ignore[arg-type]


def test_a_shear_and_wrong_columns_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="orthonormal"):
        wg.Grid.from_affine([[1, 0.3, 0], [0, 1, 0], [0, 0, 1]], (3, 3))
    with pytest.raises(InvalidInputError, match="2 columns"):
        wg.Grid((3, 3)).index_to_world(np.zeros((4, 3)))


def test_pixel_extent_and_centre_of_a_turned_grid() -> None:
    """Checked by hand: 4 x 3 pixels of 2 x 8 mm, turned by 90 degrees about the first pixel at (10, 20)."""
    grid = wg.Grid((4, 3), spacing=(2.0, 8.0), origin=(10.0, 20.0), direction=[[0.0, -1.0], [1.0, 0.0]])
    assert grid.pixel == pytest.approx(4.0)
    assert grid.extent.tolist() == [8.0, 24.0]
    assert grid.centre.tolist() == [10.0 - 8.0, 20.0 + 3.0]
