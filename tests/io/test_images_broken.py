"""Files that are broken in ways of their own: endless or absurd headers, NaN, other dimensions, pages in a circle.

What holds for every kind of damage of every format stands in ``test_damage.py``.
"""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pydicom
import pytest
import tifffile

import corpus
from corpus import META_VOLUME, NRRD_VOLUME, PLANE, VOLUME, nifti, nrrd_head, pillow, tiff
from warpgauge.errors import WarpgaugeError
from warpgauge.io.images import read_image

NRRD = nrrd_head(NRRD_VOLUME)
META = META_VOLUME.format(more="CompressedData = False\n", file="LOCAL").encode()


def use(path: Path) -> None:
    """Read everything that an image offers."""
    image = read_image(path)
    image.read()
    image.summary()


def sentence(path: Path) -> str:
    """Use a broken file, and give the one sentence that it must be refused with."""
    with pytest.raises(WarpgaugeError) as caught:
        use(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) <= corpus.LONGEST
    return text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.png", pillow("PNG", PLANE)),
        ("x.jpg", pillow("JPEG", PLANE)),
        ("plain.tif", tiff(PLANE)),
        ("tiled.tif", tiff(PLANE, tile=(16, 16), compression="zlib")),
        ("x.nii", nifti(VOLUME)),
        ("x.nii.gz", gzip.compress(nifti(VOLUME))),
        ("x.nrrd", NRRD + VOLUME.tobytes()),
        ("x.mha", META + VOLUME.tobytes()),
    ],
)
def test_truncated_is_found_on_opening(tmp_path: Path, name: str, data: bytes):
    """Half a file is refused by read_image itself, before anyone has worked with it."""
    (tmp_path / name).write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(WarpgaugeError):
        read_image(tmp_path / name)


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


ENDLESS = {
    "long.nrrd": b"NRRD0004\n" + b"# a comment without end\n" * 200_000,
    "long.mha": b"ObjectType = Image\nNDims = 3\n" + b"Comment = without end\n" * 200_000,
    "line.mha": b"ObjectType = Image\nNDims = 3\nComment = " + b"x" * 5_000_000,
}


def peak_of(call: Callable[[], object]) -> int:
    """Bytes that a call takes at most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_header_takes_no_memory(tmp_path: Path, name: str):
    """A header that never ends is refused in a few megabytes."""
    (tmp_path / name).write_bytes(ENDLESS[name])
    sentence(tmp_path / name)  # libraries are imported outside of the measurement
    assert peak_of(lambda: sentence(tmp_path / name)) < 20 * 2**20


def test_a_gzip_bomb_is_bounded_by_its_header(tmp_path: Path):
    """A file that unfolds to far more than its header says is read for what the header says."""
    (tmp_path / "x.nii.gz").write_bytes(gzip.compress(nifti(VOLUME) + b"\0" * 50_000_000))
    image = read_image(tmp_path / "x.nii.gz")
    assert peak_of(image.read) < 20 * 2**20
    np.testing.assert_array_equal(image.read(), VOLUME)


NAN = np.full((3, 4, 5), np.nan, np.float32)


@pytest.mark.parametrize(
    ("name", "data"),
    [("x.nii", nifti(NAN)), ("x.nii.gz", gzip.compress(nifti(NAN), mtime=0)), ("x.nrrd", NRRD + NAN.tobytes()),
     ("x.mha", META + NAN.tobytes()), ("x.tif", tiff(NAN[0]))],
)  # fmt: skip
def test_filled_with_nan(tmp_path: Path, name: str, data: bytes):
    """Samples that are all NaN show nothing, and percentiles and summary say so."""
    (tmp_path / name).write_bytes(data)
    assert "no finite sample" in sentence(tmp_path / name)
    assert np.all(np.isnan(read_image(tmp_path / name).read()))


@pytest.mark.parametrize("field", ["pixdim", "srow_x", "vox_offset"])
def test_nan_in_the_header(tmp_path: Path, field: str):
    """NaN where a length or an offset should be is refused."""
    at = {"pixdim": 80, "srow_x": 280, "vox_offset": 108}[field]
    data = patched(nifti(VOLUME), at, struct.pack("<f", np.nan))
    if field == "pixdim":
        data = patched(data, 252, struct.pack("<hh", 1, 0))  # qform only, which is made from pixdim
    (tmp_path / "x.nii").write_bytes(data)
    sentence(tmp_path / "x.nii")


def test_dicom_slices_broken(tmp_path: Path):
    """An empty and a mislabelled slice are named as missing, and one that promises too much is refused."""
    series = corpus.dicom(tmp_path)
    good = (series / "1.dcm").read_bytes()
    for content in (b"", b"a note"):
        (series / "1.dcm").write_bytes(content)
        assert "lacks 1 slices" in sentence(series)
    file = tmp_path / "x.png"
    file.write_bytes(good)
    assert "its content is DICOM" in sentence(file)
    shutil.rmtree(series)
    series.mkdir()
    data = pydicom.dcmread(io.BytesIO(good))
    data.Rows = data.Columns = 65535
    data.SliceThickness = 1
    data.save_as(series / "0.dcm", enforce_file_format=True)
    assert "promises 4294836225 bytes" in sentence(series)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_pages_in_a_circle(tmp_path: Path, big: bool, order: str):
    """A directory that names itself as the next does not run for ever."""
    data = tiff(PLANE, bigtiff=big, byteorder=order)
    with tifffile.TiffFile(io.BytesIO(data)) as opened:
        start = opened.pages[0].offset
        entries = len(opened.pages[0].tags)
    at = start + (8 + 20 * entries if big else 2 + 12 * entries)
    (tmp_path / "x.tif").write_bytes(patched(data, at, struct.pack(f"{order}{'Q' if big else 'I'}", start)))
    assert "in a circle" in sentence(tmp_path / "x.tif")


def test_broken_files_do_not_warn(tmp_path: Path):
    """Libraries' warnings about a damaged file stay out of the way of the sentence."""
    data = bytearray(tiff(PLANE, tile=(16, 16), compression="zlib"))
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    (tmp_path / "x.tif").write_bytes(bytes(data))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sentence(tmp_path / "x.tif")
    assert caught == []
