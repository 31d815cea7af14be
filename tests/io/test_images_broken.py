"""Broken files of every format: truncated, mislabelled, empty, huge, filled with NaN, of the wrong dimension."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pydicom
import pytest
import tifffile
import zarr
from PIL import Image as Pillow
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from warpgauge.errors import WarpgaugeError
from warpgauge.io.images import read_image

RNG = np.random.default_rng(0)
SENTENCE = r"[^\n]{20,480}\."
PLANE = RNG.integers(0, 256, (9, 11)).astype(np.uint8)
VOLUME = RNG.normal(size=(3, 4, 5)).astype(np.float32)


def picture(kind: str, array: np.ndarray = PLANE, **options: object) -> bytes:
    stream = io.BytesIO()
    Pillow.fromarray(array).save(stream, kind, **options)
    return stream.getvalue()


def tiff(array: np.ndarray = PLANE, **options: object) -> bytes:
    stream = io.BytesIO()
    tifffile.imwrite(stream, array, **options)
    return stream.getvalue()


def nifti(array: np.ndarray = VOLUME) -> bytes:
    return bytes(nibabel.Nifti1Image(array.T, np.diag([1.0, 2.0, 3.0, 1.0])).to_bytes())


def nrrd(array: np.ndarray = VOLUME, encoding: str = "raw") -> bytes:
    head = f"NRRD0004\ntype: float\ndimension: {array.ndim}\nsizes: {' '.join(map(str, array.T.shape))}\n"
    head += f"spacings: {' '.join(['2'] * array.ndim)}\nendian: little\nencoding: {encoding}\n\n"
    return head.encode() + (gzip.compress(array.tobytes()) if encoding == "gzip" else array.tobytes())


def metaimage(array: np.ndarray = VOLUME, packed: bool = False) -> bytes:
    head = f"ObjectType = Image\nNDims = {array.ndim}\nDimSize = {' '.join(map(str, array.T.shape))}\n"
    head += f"ElementSpacing = {' '.join(['2'] * array.ndim)}\nCompressedData = {packed}\nElementType = MET_FLOAT\n"
    head += "ElementDataFile = LOCAL\n"
    return head.encode() + (zlib.compress(array.tobytes()) if packed else array.tobytes())


def dicom_slice(k: int, array: np.ndarray = PLANE) -> bytes:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, f"1.2.{k + 1}"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset("x", {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID, data.SeriesInstanceUID = CTImageStorage, f"1.2.{k + 1}", "1.2"
    data.Rows, data.Columns = array.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
    data.ImagePositionPatient, data.ImageOrientationPatient = [0, 0, 2 * k], [1, 0, 0, 0, 1, 0]
    data.PixelSpacing = [1, 1]
    data.PixelData = array.tobytes() + b"\0" * (array.size % 2)
    stream = io.BytesIO()
    data.save_as(stream, enforce_file_format=True)
    return stream.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "png.png": lambda: picture("PNG"),
    "jpeg.jpg": lambda: picture("JPEG"),
    "plain.tif": tiff,
    "tiled.tif": lambda: tiff(tile=(16, 16), compression="zlib"),
    "ome.ome.tif": lambda: tiff(ome=True, metadata={"axes": "YX", "PhysicalSizeX": 1.0, "PhysicalSizeY": 1.0}),
    "nifti.nii": nifti,
    "nifti.nii.gz": lambda: gzip.compress(nifti()),
    "nrrd.nrrd": nrrd,
    "packed.nrrd": lambda: nrrd(encoding="gzip"),
    "meta.mha": metaimage,
    "packed.mha": lambda: metaimage(packed=True),
}


def write_dicom(folder: Path, slices: list[bytes]) -> Path:
    folder.mkdir()
    for k, data in enumerate(slices):
        (folder / f"{k}.dcm").write_bytes(data)
    return folder


def write_zarr(folder: Path, array: np.ndarray, axes: str, version: int = 2) -> Path:
    group = zarr.open_group(folder, mode="w", zarr_format=version)
    group.create_array("0", data=array, chunks=tuple(min(n, 4) for n in array.shape))
    multiscale = {
        "version": "0.4",
        "axes": [{"name": a, "unit": "micrometer"} for a in axes],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0] * len(axes)}]}],
    }
    group.attrs.update(
        {"multiscales": [multiscale]} if version == 2 else {"ome": {"version": "0.5", "multiscales": [multiscale]}}
    )
    return folder


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
    assert re.fullmatch(SENTENCE, text), text
    return text


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_good_before_they_are_broken(tmp_path: Path, name: str):
    """The builders write files that are read, so that what follows tests the breaking."""
    (tmp_path / name).write_bytes(FILES[name]())
    use(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
def test_empty(tmp_path: Path, name: str):
    """Nothing in the file."""
    (tmp_path / name).touch()
    assert "is empty (0 bytes)" in sentence(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
def test_truncated_anywhere(tmp_path: Path, name: str):
    """Cut anywhere, a file is refused with one sentence, at the latest when its samples are read."""
    data = FILES[name]()
    file = tmp_path / name
    if name == "jpeg.jpg":
        last = len(data) - 2  # a JPEG without its end mark but with all samples is whole
    elif name == "png.png":
        last = len(data) - 20  # likewise the end chunk and the last checksums of a PNG
    elif name in ("ome.ome.tif", "plain.tif"):
        last = min(len(data), tifffile.TiffFile(io.BytesIO(data)).pages[0].dataoffsets[0] + PLANE.nbytes)
    else:
        last = len(data)
    accepted: list[int | str] = []
    for length in [*range(1, min(last, 700), 2), *range(700, last, 97), last - 1]:
        file.write_bytes(data[:length])
        try:
            use(file)
        except WarpgaugeError as error:
            if re.fullmatch(SENTENCE, str(error)):
                continue
            accepted.append(str(error))
        accepted.append(length)
    assert accepted == []


@pytest.mark.parametrize("name", ["png.png", "jpeg.jpg", "plain.tif", "tiled.tif", "nifti.nii", "nifti.nii.gz",
                                  "nrrd.nrrd", "meta.mha"])  # fmt: skip
def test_truncated_is_found_on_opening(tmp_path: Path, name: str):
    """Half a file is refused by read_image itself, before anyone has worked with it."""
    data = FILES[name]()
    (tmp_path / name).write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(WarpgaugeError):
        read_image(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", [".png", ".jpg", ".tif", ".nii", ".nii.gz", ".nrrd", ".mha", ".dcm"])
def test_mislabelled(tmp_path: Path, name: str, ending: str):
    """A file under the name of another format is refused, with what it really is."""
    right = name[name.index(".") :].replace(".ome.tif", ".tif")
    file = tmp_path / f"x{ending}"
    file.write_bytes(FILES[name]())
    if right == ending or {right, ending} == {".nii", ".nii.gz"}:
        use(file)
    else:
        assert re.search(
            "is named as .* but its content is (PNG|JPEG|TIFF|NIfTI|NRRD|MetaImage); rename it to", sentence(file)
        )


@pytest.mark.parametrize(
    "ending", [".png", ".jpg", ".tif", ".nii", ".nii.gz", ".nrrd", ".mha", ".dcm", ".hdr", ".xyz", ""]
)
def test_text_instead_of_an_image(tmp_path: Path, ending: str):
    """A text file under any name is refused."""
    file = tmp_path / f"x{ending}"
    file.write_text("This is a note about the image, not the image. x = 3\n" * 20)
    assert "content is not" in sentence(file) or "not of a kind that is read" in sentence(file)


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def huge_png() -> bytes:
    data = picture("PNG")
    head = b"IHDR" + struct.pack(">II", 2**31 - 1, 2**31 - 1) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


def huge_jpeg() -> bytes:
    data = picture("JPEG")
    return patched(data, data.index(b"\xff\xc0") + 5, b"\xff\xff\xff\xff")


def huge_tiff(**options: object) -> bytes:
    data = tiff(np.zeros((9, 11), np.float64), **options)
    page = tifffile.TiffFile(io.BytesIO(data)).pages[0]
    for tag in (256, 257):
        data = patched(data, page.tags[tag].valueoffset, struct.pack("<I", 2**31))
    return data


def huge_nifti() -> bytes:
    return patched(nifti(), 40, struct.pack("<8h", 3, 32767, 32767, 32767, 1, 1, 1, 1))


HUGE: dict[str, Callable[[], bytes]] = {
    "x.png": huge_png,
    "x.jpg": huge_jpeg,
    "plain.tif": huge_tiff,
    "tiled.tif": lambda: huge_tiff(tile=(16, 16), compression="zlib"),
    "x.nii": huge_nifti,
    "x.nii.gz": lambda: gzip.compress(huge_nifti()),
    "x.nrrd": lambda: nrrd().replace(b"sizes: 5 4 3", b"sizes: 500000 400000 300000"),
    "packed.nrrd": lambda: nrrd(encoding="gzip").replace(b"sizes: 5 4 3", b"sizes: 500000 400000 300000"),
    "x.mha": lambda: metaimage().replace(b"DimSize = 5 4 3", b"DimSize = 500000 400000 300000"),
    "packed.mha": lambda: metaimage(packed=True).replace(b"DimSize = 5 4 3", b"DimSize = 500000 400000 300000"),
    "long.nrrd": lambda: b"NRRD0004\n" + b"# a comment without end\n" * 200_000,
    "long.mha": lambda: b"ObjectType = Image\nNDims = 3\n" + b"Comment = without end\n" * 200_000,
    "line.mha": lambda: b"ObjectType = Image\nNDims = 3\nComment = " + b"x" * 5_000_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_header_allocates_nothing(tmp_path: Path, name: str):
    """A header that promises terabytes, or never ends, is refused in a few megabytes of memory."""
    (tmp_path / name).write_bytes(HUGE[name]())
    with pytest.raises(WarpgaugeError):  # libraries are imported outside of the measurement
        use(tmp_path / name)
    tracemalloc.start()
    sentence(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_a_gzip_bomb_is_bounded_by_its_header(tmp_path: Path):
    """A file that unfolds to far more than its header says is read for what the header says."""
    data = gzip.compress(nifti() + b"\0" * 50_000_000)
    (tmp_path / "x.nii.gz").write_bytes(data)
    image = read_image(tmp_path / "x.nii.gz")
    tracemalloc.start()
    np.testing.assert_array_equal(image.read(), VOLUME)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


NAN = np.full((3, 4, 5), np.nan, np.float32)


@pytest.mark.parametrize(
    ("name", "data"),
    [("x.nii", nifti(NAN)), ("x.nii.gz", gzip.compress(nifti(NAN), mtime=0)), ("x.nrrd", nrrd(NAN)),
     ("x.mha", metaimage(NAN)), ("x.tif", tiff(NAN[0]))],
)  # fmt: skip
def test_filled_with_nan(tmp_path: Path, name: str, data: bytes):
    """Samples that are all NaN show nothing, and percentiles and summary say so."""
    (tmp_path / name).write_bytes(data)
    assert "no finite sample" in sentence(tmp_path / name)
    assert np.all(np.isnan(read_image(tmp_path / name).read()))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("x.nii", nifti(np.zeros((2, 3, 4, 5), np.float32)), "several volumes"),
        ("x.nii", nifti(np.zeros(7, np.float32)), "1 dimension"),
        ("x.nrrd", nrrd(np.zeros((2, 3, 4, 5), np.float32)), "spatial axes"),
        ("x.nrrd", nrrd(np.zeros(7, np.float32)), "spatial axes"),
        ("x.mha", metaimage(np.zeros((2, 3, 4, 5), np.float32)), "4 dimensions"),
        ("x.mha", metaimage(np.zeros(7, np.float32)), "1 dimensions"),
        ("x.tif", tiff(np.zeros((2, 3, 4, 5), np.float32), photometric="minisblack"), "stack of pages"),
    ],
)
def test_wrong_dimension(tmp_path: Path, name: str, data: bytes, reason: str):
    """One dimension, or four that count, are refused with the number."""
    (tmp_path / name).write_bytes(data)
    assert reason in sentence(tmp_path / name)


@pytest.mark.parametrize("field", ["pixdim", "srow_x", "vox_offset"])
def test_nan_in_the_header(tmp_path: Path, field: str):
    """NaN where a length or an offset should be is refused."""
    at = {"pixdim": 80, "srow_x": 280, "vox_offset": 108}[field]
    data = patched(nifti(), at, struct.pack("<f", np.nan))
    if field == "pixdim":
        data = patched(data, 252, struct.pack("<hh", 1, 0))  # qform only, which is made from pixdim
    (tmp_path / "x.nii").write_bytes(data)
    sentence(tmp_path / "x.nii")


def test_dicom_slices_broken(tmp_path: Path):
    """A truncated, an empty and a mislabelled slice are each refused or named; so is a truncated one that is packed."""
    good = [dicom_slice(k) for k in range(4)]
    use(write_dicom(tmp_path / "good", good))
    for length in (140, 300, 500, len(good[1]) - 60):
        folder = write_dicom(tmp_path / f"cut{length}", [good[0], good[1][:length], *good[2:]])
        sentence(folder)
    assert "lacks 1 slices" in sentence(write_dicom(tmp_path / "empty", [good[0], b"", *good[2:]]))
    assert "lacks 1 slices" in sentence(write_dicom(tmp_path / "text", [good[0], b"a note", *good[2:]]))
    file = tmp_path / "x.png"
    file.write_bytes(good[0])
    assert "its content is DICOM" in sentence(file)
    data = pydicom.dcmread(io.BytesIO(good[1]))
    data.Rows = data.Columns = 65535
    data.SliceThickness = 1
    stream = io.BytesIO()
    data.save_as(stream, enforce_file_format=True)
    assert "promises 4294836225 bytes" in sentence(write_dicom(tmp_path / "huge", [stream.getvalue()]))


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_folders_broken(tmp_path: Path, version: int):
    """Truncated chunks and descriptions, huge shapes, NaN and files in place of folders get one sentence."""
    name = ".zarray" if version == 2 else "zarr.json"
    use(write_zarr(tmp_path / "good.zarr", VOLUME, "zyx", version))
    for path in [p for p in (tmp_path / "good.zarr").rglob("*") if p.is_file()]:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        sentence(tmp_path / "good.zarr")
        path.write_bytes(data)
    assert "no finite sample" in sentence(write_zarr(tmp_path / "nan.zarr", NAN, "zyx", version))
    folder = write_zarr(tmp_path / "huge.zarr", VOLUME, "zyx", version)
    description = json.loads((folder / "0" / name).read_text())
    description["shape"] = [10**7, 10**7, 10**7]
    (folder / "0" / name).write_text(json.dumps(description))
    tracemalloc.start()
    assert "would take too long" in sentence(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20
    (tmp_path / "file.zarr").write_bytes(b"PK\3\4 a zipped store")
    assert "not of a kind that is read" in sentence(tmp_path / "file.zarr")


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_pages_in_a_circle(tmp_path: Path, big: bool, order: str):
    """A directory that names itself as the next does not run for ever."""
    data = tiff(bigtiff=big, byteorder=order)
    with tifffile.TiffFile(io.BytesIO(data)) as opened:
        start = opened.pages[0].offset
        entries = len(opened.pages[0].tags)
    at = start + (8 + 20 * entries if big else 2 + 12 * entries)
    (tmp_path / "x.tif").write_bytes(patched(data, at, struct.pack(f"{order}{'Q' if big else 'I'}", start)))
    assert "in a circle" in sentence(tmp_path / "x.tif")


def test_broken_files_do_not_warn(tmp_path: Path):
    """Libraries' warnings about a damaged file stay out of the way of the sentence."""
    data = bytearray(tiff(tile=(16, 16), compression="zlib"))
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    (tmp_path / "x.tif").write_bytes(bytes(data))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sentence(tmp_path / "x.tif")
    assert caught == []
