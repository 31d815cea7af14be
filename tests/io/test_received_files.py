"""Files that once ended in a traceback, were read wrongly, or did harm: each through the door that a user takes."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow

from warpgauge import Grid, read_image, read_landmarks, read_transform
from warpgauge.errors import FileFormatError, SuspiciousDataWarning, WarpgaugeError
from warpgauge.io.files import confined
from warpgauge.io.images import Image
from warpgauge.io.images.frame import Frame
from warpgauge.io.images.stored import Array, Region, StoredImage, StoredLevel
from warpgauge.io.transforms import MappedPoints

AFFINE = np.diag([2.0, 3.0, 4.0, 1.0])


def refused(path: Path, sentence: str) -> None:
    assert path.name in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def nifti(file: Path, values: Any, **fields: Any) -> Path:
    image = nibabel.Nifti1Image(values, AFFINE)
    image.set_sform(AFFINE, 1)
    image.header.set_xyzt_units("mm")
    for name, value in fields.items():
        image.header[name] = value
    nibabel.save(image, file)
    return file


@pytest.mark.parametrize(("kind", "squarings"), [(np.nan, 0), (np.inf, 0), (1e30, 0), (3, np.nan), (3, np.inf)])
def test_niftyreg_file_with_damaged_kind(tmp_path: Path, kind: float, squarings: float) -> None:
    file = nifti(
        tmp_path / "cpp.nii",
        np.zeros((5, 6, 7, 1, 3), np.float32),
        intent_code=1007,
        intent_name=b"NREG_TRANS",
        intent_p1=kind,
        intent_p2=squarings,
    )
    with pytest.raises(FileFormatError) as caught:
        read_transform(file, reference=Grid((5, 6, 7), (2, 3, 4), units="mm"))
    refused(file, str(caught.value))


def test_deeperhistreg_record_of_nested_lists(tmp_path: Path) -> None:
    file = tmp_path / "displacement_field.mha"
    file.write_bytes(
        b"ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\nDimSize = 3 4 2\n"
        b"ElementType = MET_FLOAT\nElementDataFile = LOCAL\n" + bytes(4 * 24)
    )
    (tmp_path / "postprocessing_params.json").write_text("[" * 100_000 + "]" * 100_000)
    grid = Grid((12, 16))
    with pytest.raises(FileFormatError) as caught:
        read_transform(file, reference=grid, moving=grid)
    refused(file, str(caught.value))


def test_napari_index_of_5000_digits(tmp_path: Path) -> None:
    """Such an index is a label like any other: the two files are paired by it."""
    digits = "9" * 5000
    for name in ("fixed.csv", "moving.csv"):
        (tmp_path / name).write_text(f"index,axis-0,axis-1\n{digits},10.5,3\n1,20,4.25\n1,21,9\n")
    landmarks = read_landmarks(tmp_path / "fixed.csv", tmp_path / "moving.csv")
    assert len(landmarks) == 3


def test_colours_are_not_a_field(tmp_path: Path) -> None:
    colours = np.zeros((5, 6, 7, 1, 3), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    colours["R"] = np.random.default_rng(0).integers(0, 256, colours.shape)
    file = nifti(tmp_path / "field.nii", colours, intent_code=1007)
    with pytest.raises(FileFormatError) as caught:
        read_transform(file)
    refused(file, str(caught.value))


def slicer_field(file: Path, lines: str) -> Path:
    """A smooth field whose inverse differs from it, with free lines of Slicer in its header."""
    z, y, x = np.meshgrid(*(np.arange(n) for n in (8, 9, 10)), indexing="ij")
    vectors = np.stack([2 + 0.1 * y, 1 + 0.1 * z, 0.1 * x], axis=-1)
    header = (
        "NRRD0005\ntype: double\ndimension: 4\nspace: left-posterior-superior\nsizes: 3 10 9 8\n"
        "space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: vector domain domain domain\nendian: little\n"
        f"encoding: raw\nspace origin: (0,0,0)\n{lines}\n"
    )
    file.write_bytes(header.encode() + vectors.astype("<f8").tobytes())
    return file


@pytest.mark.parametrize("direction", ["fixed_to_moving", "moving_to_fixed"])
def test_slicer_field_of_the_modeling_kind_is_inverted(tmp_path: Path, direction: Any) -> None:
    """Slicer's 'modeling' is the inverse of the resampling that other fields are; the file's word is enough."""
    plain = slicer_field(tmp_path / "plain.nrrd", "")
    modeling = slicer_field(tmp_path / "modeling.nrrd", "displacement field type:=modeling\n")
    resampling = slicer_field(tmp_path / "resampling.nrrd", "displacement field type:=resampling\n")
    moving_points = np.random.default_rng(0).uniform(2, 6, (50, 3))
    fixed_points = read_transform(plain).map(moving_points)
    np.testing.assert_array_equal(read_transform(resampling).map(moving_points), fixed_points)
    back = read_transform(modeling, direction=direction).map(fixed_points)
    np.testing.assert_allclose(back, moving_points, atol=1e-5)


def test_slicer_field_of_an_unknown_kind(tmp_path: Path) -> None:
    file = slicer_field(tmp_path / "other.nrrd", "displacement field type:=other\n")
    with pytest.raises(FileFormatError, match="other") as caught:
        read_transform(file)
    refused(file, str(caught.value))


def test_warnings_point_at_the_line_that_read_the_file(tmp_path: Path) -> None:
    vectors = np.ones((5, 6, 7, 1, 3), np.float32)
    vectors[0, 0, 0] = np.nan
    field = nifti(tmp_path / "gaps.nii", vectors, intent_code=1007)
    two_places = nibabel.Nifti1Image(np.zeros((5, 6, 7), np.float32), AFFINE)
    two_places.set_sform(AFFINE, 2)
    two_places.set_qform(np.diag([2.0, 3.0, 5.0, 1.0]), 1)
    nibabel.save(two_places, tmp_path / "volume.nii")
    points = np.random.default_rng(0).uniform(0, 50, (9, 2))
    rows = np.hstack([points, points * [-1, 1]]).tolist()
    table = "\n".join(["fixed_x,fixed_y,moving_x,moving_y", *(",".join(map(str, row)) for row in rows)])
    (tmp_path / "mirror.csv").write_text(table + "\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_transform(field)
        read_transform([field, field])
        read_image(tmp_path / "volume.nii")
        read_landmarks(tmp_path / "mirror.csv")
    ours = [warning for warning in caught if warning.category is SuspiciousDataWarning]
    assert len(ours) >= 5
    assert {warning.filename for warning in ours} == {__file__}


def test_mapped_points_in_the_plane_have_no_anatomical_frame() -> None:
    about = MappedPoints([[1.0, 2.0]], [[3.0, 4.0]]).description
    assert about.frame == "world"
    assert about.units == "unstated"


@pytest.mark.parametrize("name", ["x.mhd", "x.nhdr", "x.hdr"])
def test_samples_behind_a_link_out_of_the_folder_are_not_read(tmp_path: Path, name: str) -> None:
    """A header is received with a link as its data file: it leads to a file of somebody else."""
    (tmp_path / "received").mkdir()
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(24))
    headers = {
        "x.mhd": b"ObjectType = Image\nNDims = 2\nDimSize = 4 6\nElementType = MET_UCHAR\nElementDataFile = x.img\n",
        "x.nhdr": b"NRRD0004\ntype: uchar\ndimension: 2\nsizes: 4 6\nencoding: raw\ndata file: x.img\n",
    }
    nibabel.Nifti1Pair(np.zeros((4, 6), np.uint8), np.eye(4)).to_filename(tmp_path / "received" / "x.hdr")
    (tmp_path / "received" / "x.img").unlink()
    (tmp_path / "received" / "x.img").symlink_to(secret)
    file = tmp_path / "received" / name
    if name in headers:
        file.write_bytes(headers[name])
    assert read_image(file).read().shape == (6, 4)
    with confined(tmp_path / "received"), pytest.raises(FileFormatError, match="outside the project's folder"):
        read_image(file)


def test_a_full_disk_leaves_the_former_landmark_file(tmp_path: Path) -> None:
    """As other outputs, a landmark file is replaced whole or not at all."""
    file = tmp_path / "landmarks.csv"
    file.write_text("former\n")
    script = (
        "import sys, numpy as np, resource\n"
        "from warpgauge.errors import InvalidInputError\n"
        "from warpgauge.io.landmarks import Landmarks, write_landmarks\n"
        "points = np.random.default_rng(0).uniform(0, 9, (1000, 2))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_landmarks(Landmarks(points, points), sys.argv[1])\n"
        "except InvalidInputError:\n    print('refused')\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    assert run.stdout == "refused\n"
    assert file.read_text() == "former\n"
    assert [one.name for one in tmp_path.iterdir()] == ["landmarks.csv"]


@pytest.fixture(scope="module")
def large_plain_tiff(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiled file of 72 million samples without coarse levels, of which an overview has to be made."""
    file = tmp_path_factory.mktemp("large") / "large.tif"
    tifffile.imwrite(file, np.zeros((8448, 8448), np.uint8), tile=(512, 512), compression="zlib")
    return file


def test_no_other_file_is_written_after_a_failed_overview(large_plain_tiff: Path, tmp_path: Path) -> None:
    """Making the overview fails in the middle, then its folder is gone: what else is open stays as it is."""
    data = bytearray(large_plain_tiff.read_bytes())
    with tifffile.TiffFile(large_plain_tiff) as tiff:
        starts, sizes = tiff.pages[0].dataoffsets, tiff.pages[0].databytecounts
    data[starts[-1] : starts[-1] + sizes[-1]] = bytes(sizes[-1])
    (tmp_path / "damaged.tif").write_bytes(data)
    image = read_image(tmp_path / "damaged.tif")
    cache = tmp_path / "cache"
    image.keep_overview(cache / "overview.npy")
    with pytest.raises(WarpgaugeError):
        image.read(1)
    for file in cache.iterdir():
        file.unlink()
    cache.rmdir()
    cache.write_text("not a folder")
    names = [tmp_path / f"log-{n}" for n in range(5)]
    streams = [name.open("w+") for name in names]
    for stream in streams:
        stream.write("an acknowledged answer of somebody")
        stream.flush()
    with pytest.raises(WarpgaugeError):
        image.read(1)
    for name, stream in zip(names, streams, strict=True):
        stream.close()
        assert name.read_text() == "an acknowledged answer of somebody"


def test_images_are_decoded_side_by_side(tmp_path: Path) -> None:
    """While one image is being read, another thread gets a tile of another one."""
    Pillow.fromarray(np.zeros((20, 30), np.uint8)).save(tmp_path / "small.png")
    small = read_image(tmp_path / "small.png")
    answers: list[bool] = []

    def read_other(region: Region) -> Array:
        thread = threading.Thread(target=small.read, daemon=True)
        thread.start()
        thread.join(20)
        answers.append(not thread.is_alive())
        return np.zeros([part.stop - part.start for part in region], np.uint8)

    size = (600, 400)
    level = StoredLevel.full(size, read_other)
    stored = StoredImage(tmp_path, "made", Frame(size), np.dtype(np.uint8), 1, (level,), ())
    Image(stored, Grid(size), []).read(1)
    assert answers == [True]
