"""Files of maps: every element where the grid says, in the eyes of SimpleITK and of read_image."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.maps import write_map

sitk = pytest.importorskip("SimpleITK")


def rotation(degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, -s], [s, c]])


def oblique() -> np.ndarray:
    z, x = np.eye(3), np.eye(3)
    z[:2, :2], x[1:, 1:] = rotation(25), rotation(-40)
    return z @ x


GRIDS = {
    "3d-oblique": wg.Grid((4, 5, 6), [0.7, 1.3, 2.5], [-11.0, 7.5, 30.0], oblique(), "mm"),
    "3d-flipped": wg.Grid((4, 5, 6), [0.7, 1.3, 2.5], [-11.0, 7.5, 30.0], np.diag([-1.0, 1.0, -1.0]), "mm"),
    "3d-mirrored": wg.Grid((4, 5, 6), [0.7, 1.3, 2.5], [-11.0, 7.5, 30.0], np.diag([-1.0, 1.0, 1.0]), "mm"),
    "2d-turned": wg.Grid((7, 4), [0.5, 1.5], [3.0, -2.0], rotation(30), "mm"),
    "2d-mirrored": wg.Grid((7, 4), [0.5, 1.5], [3.0, -2.0], np.diag([1.0, -1.0]), "mm"),
    "2d-um": wg.Grid((7, 4), [0.5, 1.5], [3.0, -2.0], None, "um"),
}


def numbers(grid: wg.Grid, components: int = 0) -> np.ndarray:
    shape = (*grid.shape, components) if components else grid.shape
    values = np.random.default_rng(0).normal(size=shape)
    values.reshape(grid.count, -1)[5] = np.nan
    return values


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", ".nrrd"])
@pytest.mark.parametrize("name", GRIDS)
def test_simpleitk_finds_every_element_at_its_world_point(name: str, suffix: str, tmp_path: Path) -> None:
    """SimpleITK's own index-to-world map and its pixel values agree with the grid and the array.

    ITK's NIfTI reader itself turns NaN into 0 (the file holds NaN, see the next test); its NRRD reader keeps it.
    """
    grid = GRIDS[name]
    values = numbers(grid)
    image = sitk.ReadImage(str(write_map(values, grid, tmp_path / f"map{suffix}")))
    assert image.GetSize() == grid.size
    # NIfTI keeps the frame in single precision; ITK turns the micrometres of a header into its own millimetres.
    factor = 1e-3 if suffix != ".nrrd" and grid.units == "um" else 1.0
    for index in np.ndindex(grid.size):
        world = image.TransformIndexToPhysicalPoint(tuple(int(i) for i in index))
        np.testing.assert_allclose(world, factor * grid.index_to_world(index), atol=2e-5)
        expected = values[index[::-1]]
        np.testing.assert_array_equal(
            image.GetPixel(*index), 0.0 if suffix != ".nrrd" and np.isnan(expected) else expected
        )


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd"])
@pytest.mark.parametrize("name", GRIDS)
def test_read_image_gives_back_grid_and_numbers(name: str, suffix: str, tmp_path: Path) -> None:
    grid, values = GRIDS[name], numbers(GRIDS[name])
    image = wg.read_image(write_map(values, grid, tmp_path / f"map{suffix}"))
    np.testing.assert_allclose(image.grid.affine, grid.affine, atol=2e-6)
    assert (image.grid.units, image.grid.size) == (grid.units, grid.size)
    np.testing.assert_array_equal(image.read(), values)


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd"])
def test_vectors_are_a_displacement_field_for_simpleitk_and_for_read_transform(suffix: str, tmp_path: Path) -> None:
    """A mean map written as vectors is read as the transform it is."""
    grid = GRIDS["3d-oblique"]
    values = np.random.default_rng(1).normal(size=(*grid.shape, 3))
    path = write_map(values, grid, tmp_path / f"mean{suffix}")
    field = sitk.ReadImage(str(path))
    np.testing.assert_allclose(sitk.GetArrayFromImage(field), values, atol=1e-12)
    np.testing.assert_allclose(field.GetDirection(), grid.direction.ravel(), atol=1e-6)
    read = wg.read_transform(path)
    inside = grid.index_to_world([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
    np.testing.assert_allclose(read.map(inside), inside + values[[3, 4], [2, 3], [1, 2]], atol=1e-4)


@pytest.mark.parametrize("units", ["px", "um", "mm"])
@pytest.mark.parametrize("d", [2, 3])
def test_tiff_and_zarr_keep_spacing_units_and_numbers(d: int, units: str, tmp_path: Path) -> None:
    """OME-Zarr keeps the origin too; a coarsened grid, whose origin moves, survives it."""
    spacing = np.ones(d) if units == "px" else np.array([0.5, 0.75, 2.0])[:d]
    grid = wg.Grid((9, 8, 6)[:d], spacing, None, None, units)  # type: ignore[arg-type]
    for suffix in (".tif", ".ome.tiff", ".ome.zarr"):
        values = numbers(grid)
        image = wg.read_image(write_map(values, grid, tmp_path / f"map{suffix}"))
        np.testing.assert_allclose(image.grid.affine, grid.affine, rtol=1e-12)
        assert image.grid.units == units
        np.testing.assert_array_equal(image.read(), values)
    coarse = wg.Grid((9, 8, 6)[:d], np.array([0.5, 0.75, 2.0])[:d], None, None, "um").coarsened(2)
    image = wg.read_image(write_map(numbers(coarse), coarse, tmp_path / "coarse.ome.zarr"))
    np.testing.assert_allclose(image.grid.affine, coarse.affine, rtol=1e-12)
    assert np.any(coarse.origin != 0)


def test_a_format_that_cannot_hold_the_frame_is_refused_by_name(tmp_path: Path) -> None:
    grid = GRIDS["2d-turned"]
    with pytest.raises(InvalidInputError, match="cannot hold the direction of its axes; write"):
        write_map(numbers(grid), grid, tmp_path / "map.zarr")
    with pytest.raises(InvalidInputError, match=r"cannot hold its origin; write \.nrrd or \.nii\.gz or \.zarr"):
        write_map(numbers(GRIDS["2d-um"]), GRIDS["2d-um"], tmp_path / "map.tif")
    with pytest.raises(InvalidInputError, match=r"must end in \.nii"):
        write_map(numbers(grid), grid, tmp_path / "map.csv")
    with pytest.raises(InvalidInputError, match="does not lie on a grid"):
        write_map(np.zeros((7, 4)), grid, tmp_path / "map.nrrd")
    assert not list(tmp_path.iterdir())
    write_map(numbers(GRIDS["2d-um"]), GRIDS["2d-um"], tmp_path / "map.tif", drop_frame=True)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Writing again over a file or an OME-Zarr folder leaves the new numbers and nothing else."""
    grid = wg.Grid((6, 5))
    for name in ("map.nrrd", "map.zarr"):
        write_map(np.zeros(grid.shape), grid, tmp_path / name)
        write_map(np.ones(grid.shape, dtype=np.float32), grid, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.nrrd", "map.zarr"]
    about = json.loads((tmp_path / "map.zarr" / "zarr.json").read_text())
    assert about["attributes"]["ome"]["multiscales"][0]["axes"][0] == {"name": "y", "type": "space"}
    assert sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "map.nrrd"))).min() == 1
