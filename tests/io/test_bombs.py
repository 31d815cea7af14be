"""Files that do harm when they are believed: code in a chunk, sizes beyond all memory, other files' numbers.

Each is written by hand, small, and has to be refused in one sentence without being unpacked.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import pickle
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import h5py
import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow

import corpus
from command_tools import call
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import read_landmarks
from warpgauge.io.limits import check_memory, memory_limit, physical_memory
from warpgauge.io.transforms import read_transform

GRID = Grid((4, 3), [1.0, 1.0], [0.0, 0.0], np.eye(2), "px")


class _Marker:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def sentence(call: Callable[[], object]) -> str:
    """Return the one sentence with which a call is refused."""
    with pytest.raises(FileFormatError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) < 500
    return text


def read_field(path: Path) -> object:
    return read_transform(path, reference=GRID, convention="voxelmorph", axes="yx")


def zarr_2(folder: Path, **changes: object) -> Path:
    """Write the description of an OME-Zarr volume and of its array, whose chunks lie in ``0``."""
    (folder / "0").mkdir(parents=True)
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    dataset = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.0, 1.0]}]}
    multiscale = {"version": "0.4", "axes": axes, "datasets": [dataset]}
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / ".zattrs").write_text(json.dumps({"multiscales": [multiscale]}))
    description = {
        "zarr_format": 2, "shape": [2, 3, 4], "chunks": [2, 3, 4], "dtype": "<f4", "compressor": None, "filters": None,
        "fill_value": 0, "order": "C",
    }  # fmt: skip
    (folder / "0" / ".zarray").write_text(json.dumps({**description, **changes}))
    return folder


def test_pickled_chunks_are_refused_before_they_are_read(tmp_path: Path):
    """An image of Python objects with pickled chunks is refused, and its payload does not run."""
    mark = tmp_path / "mark"
    for i, changes in enumerate((
        {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle", "protocol": 5}},
        {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}]},
        {"dtype": "<f4", "filters": [{"id": "pickle", "protocol": 5}]},
        {"dtype": "<f4", "compressor": {"id": "json2"}},
    )):  # fmt: skip
        folder = zarr_2(tmp_path / f"{i}.zarr", **changes)
        (folder / "0" / "0.0.0").write_bytes(pickle.dumps(_Marker(mark)))
        assert "read" in sentence(lambda folder=folder: read_image(folder).read())
    assert not mark.exists()


def test_consolidated_description_is_not_believed(tmp_path: Path):
    """The array's own description counts, not the copy in the group, which may say something else."""
    root = zarr_2(tmp_path / "x.zarr")
    harmless = json.loads((root / "0" / ".zarray").read_text())
    harmful = {**harmless, "dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}]}
    metadata = {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}, "0/.zarray": harmful}}
    (root / ".zmetadata").write_text(json.dumps(metadata))
    mark = tmp_path / "mark"
    (root / "0" / "0.0.0").write_bytes(pickle.dumps(_Marker(mark)))
    with pytest.raises(FileFormatError):
        read_image(root).read()
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shape": [2, 50_000, 50_000], "chunks": [2, 50_000, 50_000]}, "of memory"),
        ({"shape": [2, 50_000, 50_000], "chunks": [1, 1, 1]}, "too long"),
        ({"shape": [2, 10**9, 10**9], "chunks": [1, 10**9, 10**9]}, "of memory"),
        ({"shape": [2, "a", 3]}, "whole numbers"),
        ({"shape": [2, 3, 4, 5], "chunks": [2, 3, 4]}, "axes"),
    ],
)
def test_zarr_of_absurd_size(tmp_path: Path, changes: dict[str, object], reason: str):
    """Chunks beyond memory, and more chunks than can be read, are refused from the description."""
    folder = zarr_2(tmp_path / "x.zarr", **changes)
    assert reason in sentence(lambda: read_image(folder))


@pytest.mark.parametrize(
    ("codec", "pack"),
    [
        ("gzip", lambda data: gzip.compress(data, 9)),
        ("zlib", lambda data: zlib.compress(data, 9)),
        ("zstd", lambda data: imagecodecs.zstd_encode(data, level=1)),
    ],
)
def test_chunk_that_unfolds_to_more(tmp_path: Path, codec: str, pack: Callable[[bytes], bytes]):
    """A packed chunk that would unfold to far more than a chunk holds is refused; a right one is read."""
    folder = zarr_2(tmp_path / "x.zarr", compressor={"id": codec})
    values = np.arange(24, dtype="<f4")
    (folder / "0" / "0.0.0").write_bytes(pack(values.tobytes()))
    np.testing.assert_array_equal(read_image(folder).read().ravel(), values)
    (folder / "0" / "0.0.0").write_bytes(pack(bytes(50 * 2**20)))
    assert "unfold" in sentence(lambda: read_image(folder).read())


def test_zstd_chunks_of_any_size_are_read(tmp_path: Path):
    """What a stream can unfold to is bounded by the headers of its blocks: never so tightly that it is refused."""
    for n in (1, 1000, 2**15, 2**15 + 1, 250_000):
        for name, values in (("even", np.zeros(n, "<f4")), ("noise", np.random.default_rng(0).random(n, dtype="<f4"))):
            folder = zarr_2(tmp_path / f"{name}{n}", shape=[2, 1, n], chunks=[2, 1, n], compressor={"id": "zstd"})
            data = np.stack([values, values])[:, None]
            (folder / "0" / "0.0.0").write_bytes(imagecodecs.zstd_encode(data.tobytes(), level=3))
            np.testing.assert_array_equal(read_image(folder).read(), data)


@pytest.mark.parametrize(("promised", "reason"), [((100, 100, 99), "header says"), ((2**31, 100, 20), "unfold")])
def test_blosc_header_is_checked(tmp_path: Path, promised: tuple[int, int, int], reason: str):
    """A Blosc chunk that says another length than it has is refused before Blosc reads beyond its end."""
    folder = zarr_2(tmp_path / "x.zarr", compressor={"id": "blosc"})
    (folder / "0" / "0.0.0").write_bytes(b"\2\1\1\4" + struct.pack("<III", *promised) + bytes(4))
    assert reason in sentence(lambda: read_image(folder).read())


PACKED = ("plane.png", "plane.jpg", "tiled.tif", "volume.nii.gz", "packed.nrrd", "packed.mha")


@pytest.mark.parametrize("one", [one for one in corpus.IMAGES if one.name in PACKED], ids=attrgetter("name"))
def test_the_memory_of_an_image_is_checked_before_it_is_unpacked(
    one: corpus.Specimen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each format that unfolds says how much on opening, and names the variable that allows more."""
    monkeypatch.setenv("WARPGAUGE_MEMORY", "100")
    path = one.make(tmp_path)
    assert "WARPGAUGE_MEMORY" in sentence(lambda: read_image(path))
    assert "WARPGAUGE_MEMORY" in call("info", path, code=1)  # not hidden behind "nothing that is read"


def test_npz_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An array that unfolds beyond the limit is refused by its header."""
    monkeypatch.setenv("WARPGAUGE_MEMORY", "1MB")
    np.savez_compressed(tmp_path / "x.npz", np.zeros((2, 3, 4)))
    read_field(tmp_path / "x.npz")
    grid = Grid((1000, 1000), [1.0, 1.0], [0.0, 0.0], np.eye(2), "px")
    np.savez_compressed(tmp_path / "y.npz", np.zeros((2, 1000, 1000)))
    text = sentence(lambda: read_transform(tmp_path / "y.npz", reference=grid, convention="voxelmorph", axes="yx"))
    assert "16.0 MB of memory" in text
    monkeypatch.setenv("WARPGAUGE_MEMORY", "16MB")
    read_transform(tmp_path / "y.npz", reference=grid, convention="voxelmorph", axes="yx")


def test_npz_with_other_packing(tmp_path: Path):
    """NumPy packs by deflate or not at all; lzma and bzip2, which unfold without bounds, are not read."""
    stream = io.BytesIO()
    np.save(stream, np.zeros((2, 3, 4)))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.npy", stream.getvalue())
    assert "packed" in sentence(lambda: read_field(tmp_path / "x.npz"))


def test_table_of_a_million_rows(tmp_path: Path):
    """A landmark file of a million rows is refused by its number of lines."""
    head = "fixed_x,fixed_y,moving_x,moving_y\n"
    (tmp_path / "x.csv").write_text(head + "1,2,3,4\n" * 1_000_000)
    started = time.monotonic()
    assert "lines" in sentence(lambda: read_landmarks(tmp_path / "x.csv"))
    assert time.monotonic() - started < 60  # it took 12 s to parse on a free machine; this is a net, not a figure


@pytest.mark.parametrize("variant", ["external", "soft", "link", "virtual"])
def test_hdf5_does_not_reach_into_other_files(tmp_path: Path, variant: str):
    """External storage, links and virtual data of an HDF5 transform are refused: they would show another file."""
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.arange(6, dtype="<f8").tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["values"] = np.arange(6, dtype="<f8")
    with h5py.File(tmp_path / "x.h5", "w") as store:
        member = store.create_group("TransformGroup/0")
        member["TransformType"] = np.array([b"AffineTransform_double_2_2"])
        member["TransformFixedParameters"] = np.zeros(2)
        if variant == "external":
            member.create_dataset("TransformParameters", (6,), "<f8", external=[(str(secret), 0, 48)])
        elif variant == "link":
            member["TransformParameters"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "values")
        elif variant == "soft":
            member["TransformParameters"] = h5py.SoftLink("/TransformGroup/0/TransformFixedParameters")
        else:
            layout = h5py.VirtualLayout((6,), "<f8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "values", (6,))
            member.create_virtual_dataset("TransformParameters", layout)
    assert "another file" in sentence(lambda: read_transform(tmp_path / "x.h5"))


@pytest.mark.parametrize(
    ("text", "expected"), [("4GB", 4 * 10**9), ("4 GiB", 4 * 2**30), ("512m", 512 * 10**6), ("1000", 1000)]
)
def test_limit_by_variable(monkeypatch: pytest.MonkeyPatch, text: str, expected: int):
    """Sizes with decimal and binary units are understood."""
    monkeypatch.setenv("WARPGAUGE_MEMORY", text)
    assert memory_limit() == expected


def test_limit_as_a_share_and_wrong_values(monkeypatch: pytest.MonkeyPatch):
    """A share is one of this machine's memory; anything else is refused with an example."""
    monkeypatch.setenv("WARPGAUGE_MEMORY", "50%")
    assert memory_limit() == physical_memory() // 2
    for wrong in ("much", "-1", "0", "200%"):
        monkeypatch.setenv("WARPGAUGE_MEMORY", wrong)
        with pytest.raises(InvalidInputError, match="4GB"):
            memory_limit()


def test_large_files_may_take_more_than_bombs(monkeypatch: pytest.MonkeyPatch):
    """By default a sixteenth of the memory for what unfolds, half of it for a file that is large itself."""
    monkeypatch.delenv("WARPGAUGE_MEMORY", raising=False)
    monkeypatch.setattr("warpgauge.io.limits.physical_memory", lambda: 32 * 2**30)
    check_memory("x", 2 * 2**30, 2**20)
    check_memory("x", 16 * 2**30, 4 * 2**30)
    for needed, on_disk in ((2 * 2**30 + 1, 2**20), (17 * 2**30, 17 * 2**30)):
        with pytest.raises(FileFormatError, match="one file may take"):
            check_memory("x", needed, on_disk)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "hole"])
def test_zarr_chunk_that_is_no_file(tmp_path: Path, kind: str):
    """A chunk that is a pipe, a device, a folder or far too long is refused, not waited for."""
    chunk = zarr_2(tmp_path / "x.zarr") / "0" / "0.0.0"
    if kind == "pipe":
        os.mkfifo(chunk)
    elif kind == "device":
        chunk.symlink_to("/dev/zero")
    elif kind == "folder":
        chunk.mkdir()
    else:
        with chunk.open("wb") as stream:
            stream.truncate(10**11)
    assert "0.0.0" in sentence(lambda: read_image(tmp_path / "x.zarr").read())


def test_holes_do_not_count_as_content(tmp_path: Path):
    """A raw image of a terabyte of which nothing is on the disk is refused when it is opened."""
    head = "ObjectType = Image\nNDims = 3\nDimSize = 10000 10000 10000\nElementSpacing = 1 1 1\n"
    (tmp_path / "x.mhd").write_text(head + "ElementType = MET_UCHAR\nElementDataFile = x.raw\n")
    with (tmp_path / "x.raw").open("wb") as stream:
        stream.truncate(10**12)
    assert "nearly empty" in sentence(lambda: read_image(tmp_path / "x.mhd"))


def test_tiff_with_a_huge_tag(tmp_path: Path):
    """A text of gigabytes in a TIFF's directory is refused before the library reads it."""
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((8, 8), np.uint8), description="a" * 100)
    with tifffile.TiffFile(tmp_path / "x.tif") as opened:
        tag = opened.pages[0].tags["ImageDescription"]
    with (tmp_path / "x.tif").open("r+b") as stream:
        stream.seek(tag.offset + 4)
        stream.write(struct.pack("<I", 3 * 10**9))
        stream.truncate(3 * 10**9 + 9000)
    assert "tag (270)" in sentence(lambda: read_image(tmp_path / "x.tif"))


def test_nearly_empty_image_without_overview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A Zarr image of missing chunks that would take hours to look through is refused when it is opened."""
    monkeypatch.setattr("warpgauge.io.limits.physical_memory", lambda: 16 * 2**30)
    folder = zarr_2(tmp_path / "x.zarr", shape=[2, 200_000, 100_000], chunks=[1, 1000, 1000], dtype="|u1")
    assert "nearly empty" in sentence(lambda: read_image(folder))


def test_honest_files_are_still_read(tmp_path: Path):
    """The checks let through what is merely well packed."""
    plane = np.zeros((2000, 3000), np.uint8)
    Pillow.fromarray(plane).save(tmp_path / "x.png")
    assert read_image(tmp_path / "x.png").read().shape == (2000, 3000)
    tifffile.imwrite(tmp_path / "x.tif", plane, compression="zstd", rowsperstrip=2000)
    assert read_image(tmp_path / "x.tif").read().shape == (2000, 3000)
    assert base64.b64encode(read_image(tmp_path / "x.tif").read()[:1, :3]) == b"AAAA"


@pytest.mark.parametrize("field", ["ObjectType", "ElementType"])
def test_long_values_are_not_quoted_at_length(tmp_path: Path, field: str):
    """A header's value of 100,000 characters makes no sentence of that length; its end still says what to do."""
    fields = {"ObjectType": "Image", "NDims": "2", "DimSize": "2 2", "ElementType": "MET_UCHAR"}
    lines = [f"{key} = {value}" for key, value in {**fields, field: "[" * 100_000}.items()]
    (tmp_path / "x.mha").write_bytes("\n".join([*lines, "ElementDataFile = LOCAL", ""]).encode() + bytes(4))
    text = sentence(lambda: read_image(tmp_path / "x.mha"))
    assert text.startswith("'x.mha'")
    assert text.endswith(".")
