"""NIfTI, NRRD and MetaImage against SimpleITK: samples, origin, spacing and direction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from warpgauge.io.images import Image, read_image

sitk = pytest.importorskip("SimpleITK")

DIRECTIONS_3D = {
    "identity": np.eye(3),
    "flipped": np.diag([-1.0, 1.0, -1.0]),
    "left-handed": np.diag([1.0, 1.0, -1.0]),
    "permuted": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]),
    "oblique": Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix(),
    "oblique left-handed": Rotation.from_euler("zyx", [10, 70, -15], degrees=True).as_matrix() @ np.diag([1, -1, 1]),
}
DIRECTIONS_2D = {
    "identity": np.eye(2),
    "flipped": np.diag([1.0, -1.0]),
    "rotated": Rotation.from_euler("z", 25, degrees=True).as_matrix()[:2, :2],
}
ENDINGS = [".nii", ".nii.gz", ".nrrd", ".nhdr", ".mha", ".mhd"]
DTYPES = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


def sitk_image(array: np.ndarray, direction: np.ndarray) -> sitk.Image:
    image = sitk.GetImageFromArray(array)
    d = len(direction)
    image.SetSpacing([0.7, 1.3, 2.9][:d])
    image.SetOrigin([10.1, -55.3, 201.7][:d])
    image.SetDirection(direction.ravel().tolist())
    return image


def assert_same_frame(image: Image, reference: sitk.Image) -> None:
    grid = image.grid
    d = grid.d
    assert grid.size == reference.GetSize()
    np.testing.assert_allclose(grid.spacing, reference.GetSpacing(), rtol=1e-12)
    np.testing.assert_allclose(grid.origin, reference.GetOrigin(), rtol=1e-12)
    np.testing.assert_allclose(grid.direction, np.reshape(reference.GetDirection(), (d, d)), atol=1e-12)
    index = np.random.default_rng(0).uniform(-50, 300, (20, d))
    world = [reference.TransformContinuousIndexToPhysicalPoint(point.tolist()) for point in index]
    np.testing.assert_allclose(grid.index_to_world(index), world, atol=1e-9)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", DIRECTIONS_3D)
def test_volumes_lie_where_simpleitk_says(tmp_path: Path, ending: str, name: str):
    """Anisotropic, non-cubic volumes of every direction have SimpleITK's samples and frame."""
    array = np.random.default_rng(1).normal(size=(4, 5, 7)).astype(np.float32)
    file = tmp_path / f"volume{ending}"
    sitk.WriteImage(sitk_image(array, DIRECTIONS_3D[name]), str(file))
    image, reference = read_image(file), sitk.ReadImage(str(file))
    assert_same_frame(image, reference)
    assert (image.grid.units, image.channels, image.levels) == ("mm", 1, 1)
    np.testing.assert_array_equal(image.read(), sitk.GetArrayFromImage(reference))
    np.testing.assert_array_equal(image.read(), array)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", DIRECTIONS_2D)
def test_planar_files_are_2d(tmp_path: Path, ending: str, name: str):
    """2D files of the medical formats are 2D images with SimpleITK's frame."""
    array = np.random.default_rng(2).integers(-99, 99, (5, 7)).astype(np.int16)
    file = tmp_path / f"plane{ending}"
    sitk.WriteImage(sitk_image(array, DIRECTIONS_2D[name]), str(file))
    image, reference = read_image(file), sitk.ReadImage(str(file))
    assert_same_frame(image, reference)
    np.testing.assert_array_equal(image.read(), array)
    np.testing.assert_array_equal(image.plane(2, 0), array)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".nrrd", ".mha"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sample_types(tmp_path: Path, ending: str, dtype: str):
    """Every integer and float type keeps its type and its extreme values."""
    array = np.zeros((2, 3, 4), dtype)
    info = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    array.flat[:2] = info.min, info.max
    array.flat[2:] = np.arange(22)
    file = tmp_path / f"x{ending}"
    sitk.WriteImage(sitk.GetImageFromArray(array), str(file))
    image = read_image(file)
    assert image.dtype == np.dtype(dtype)
    assert image.read().dtype == np.dtype(dtype)
    assert image.read().dtype.isnative
    np.testing.assert_array_equal(image.read(), array)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".nrrd", ".mha"])
def test_planes_and_tiles_are_slices_of_the_array(tmp_path: Path, ending: str):
    """A plane by its normal, and a tile of it, equal slices of SimpleITK's array."""
    array = np.arange(4 * 5 * 7, dtype=np.int32).reshape(4, 5, 7)
    file = tmp_path / f"x{ending}"
    sitk.WriteImage(sitk.GetImageFromArray(array), str(file))
    image = read_image(file)
    np.testing.assert_array_equal(image.plane(0, 6), array[:, :, 6])
    np.testing.assert_array_equal(image.plane(1, 2), array[:, 2, :])
    np.testing.assert_array_equal(image.plane(2, 3), array[3])
    np.testing.assert_array_equal(image.tile(0, 6, 0, 1, 2, 3, 2), array[1:4, 2:4, 6])
    np.testing.assert_array_equal(image.tile(1, 2, 0, 0, 3, 2, 4), array[0:2, 2, 3:7])
    np.testing.assert_array_equal(image.tile(2, 3, 0, 4, 0, 1, 7), array[3, 4:5, :])


@pytest.mark.parametrize("ending", [".nrrd", ".mha", ".nii"])
def test_vector_volumes_are_refused_as_images(tmp_path: Path, ending: str):
    """A displacement field is not an image, and the sentence says which function reads it."""
    file = tmp_path / f"x{ending}"
    sitk.WriteImage(sitk.GetImageFromArray(np.zeros((2, 3, 4, 3), np.float32), isVector=True), str(file))
    from warpgauge.errors import FileFormatError

    with pytest.raises(FileFormatError, match="read_transform"):
        read_image(file)


@pytest.mark.parametrize("ending", [".mhd", ".nhdr"])
def test_hash_of_header_and_data_covers_both(tmp_path: Path, ending: str):
    """A change of a byte of the data file changes the hash, though the header is the same."""
    file = tmp_path / f"x{ending}"
    sitk.WriteImage(sitk.GetImageFromArray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)), str(file))
    before = read_image(file).content_hash
    raw = tmp_path / "x.raw"
    raw.write_bytes(raw.read_bytes()[:-1] + b"\x7f")
    assert read_image(file).content_hash != before
