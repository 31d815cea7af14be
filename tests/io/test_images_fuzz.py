"""More than ten thousand damaged files: each is an image or an error of warpgauge, never another exception."""

from __future__ import annotations

import gzip
import io
import shutil
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from warpgauge.errors import WarpgaugeError, WarpgaugeWarning
from warpgauge.io.images import read_image

EXAMPLES = {
    "PNG": 1500, "JPEG": 1200, "TIFF": 1800, "NIfTI": 1800, "NRRD": 1700, "MetaImage": 1700, "DICOM": 600,
    "OME-Zarr": 500, "random": 800,
}  # fmt: skip
PLANE = np.arange(63, dtype=np.uint8).reshape(7, 9)
VOLUME = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 4, 5)
WORDS = [b"\0", b"\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\1\0\0", b"9",
         b"-", b"999999999", b"nan", b"1e999", b"\n", b" ", b"LIST", b"../x", b"null", b"[]", b"{}"]  # fmt: skip


def pictures(kind: str, *modes: str) -> list[bytes]:
    files = []
    for mode in modes:
        stream = io.BytesIO()
        picture = Pillow.fromarray(PLANE).convert(mode)
        picture.getexif()[274] = 6
        picture.save(stream, kind, exif=picture.getexif())
        files.append(stream.getvalue())
    return files


def tiffs() -> list[bytes]:
    colour = np.dstack([PLANE] * 3)
    files = []
    for array, options in (
        (PLANE, {}),
        (PLANE, {"tile": (16, 16), "compression": "zlib", "predictor": True}),
        (colour, {"photometric": "rgb", "rowsperstrip": 3, "compression": "lzw"}),
        (colour, {"photometric": "rgb", "tile": (16, 16), "compression": "jpeg"}),
        (VOLUME, {"ome": True, "photometric": "minisblack", "metadata": {"axes": "ZYX", "PhysicalSizeX": 2.0}}),
    ):
        stream = io.BytesIO()
        tifffile.imwrite(stream, array, **options)
        files.append(stream.getvalue())
    return files


def nrrds() -> list[bytes]:
    head = "NRRD0004\ntype: float\ndimension: 3\nspace: RAS\nsizes: 5 4 3\nspace directions: (1,0,0) (0,2,0) (0,0,3)\n"
    head += "space origin: (1,2,3)\nkinds: domain domain domain\nendian: little\nencoding: {}\n\n"
    text = " ".join(map(str, VOLUME.ravel())).encode()
    packed = gzip.compress(VOLUME.tobytes())
    return [
        head.format(name).encode() + data
        for name, data in (("raw", VOLUME.tobytes()), ("gzip", packed), ("text", text))
    ]


def metaimages() -> list[bytes]:
    head = "ObjectType = Image\nNDims = 3\nDimSize = 5 4 3\nTransformMatrix = 0 1 0 1 0 0 0 0 1\nOffset = 1 2 3\n"
    head += "ElementSpacing = 1 2 3\nCompressedData = {}\nElementType = MET_FLOAT\nElementDataFile = LOCAL\n"
    return [
        head.format("False").encode() + VOLUME.tobytes(),
        head.format("True").encode() + zlib.compress(VOLUME.tobytes()),
    ]


def niftis() -> list[bytes]:
    return [
        bytes(nibabel.Nifti1Image(VOLUME.T, np.diag([1.0, 2.0, 3.0, 1.0])).to_bytes()),
        bytes(nibabel.Nifti2Image(PLANE.T, np.diag([1.0, 2.0, 3.0, 1.0])).to_bytes()),
    ]


def dicoms() -> list[bytes]:
    files = []
    for k in range(3):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, f"1.2.{k + 1}"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data = FileDataset("x", {}, file_meta=meta, preamble=b"\0" * 128)
        data.SeriesInstanceUID = "1.2"
        data.Rows, data.Columns = PLANE.shape
        data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
        data.ImagePositionPatient, data.ImageOrientationPatient = [0, 0, 2 * k], [1, 0, 0, 0, 1, 0]
        data.PixelSpacing, data.RescaleSlope, data.RescaleIntercept = [1, 1], 2, -5
        data.PixelData = PLANE.tobytes() + b"\0"
        stream = io.BytesIO()
        data.save_as(stream, enforce_file_format=True)
        files.append(stream.getvalue())
    return files


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Draw a few changes: bytes set, removed, inserted or doubled, words put in, an end cut off."""
    places = st.floats(0, 1, exclude_max=True, width=32)
    kinds = st.sampled_from(["set", "word", "remove", "insert", "double", "cut"])
    steps = draw(
        st.lists(st.tuples(kinds, places, st.integers(0, 255), st.sampled_from(WORDS)), min_size=1, max_size=5)
    )

    def apply(data: bytes) -> bytes:
        for kind, place, value, word in steps:
            # Half of the changes fall into the first bytes, where headers are.
            at = int(place * 2 * min(len(data), 256)) if place < 0.5 else int(place * len(data))
            if kind == "set":
                data = data[:at] + bytes([value]) + data[at + 1 :]
            elif kind == "word":
                data = data[:at] + word + data[at + len(word) :]
            elif kind == "remove":
                data = data[:at] + data[at + 1 + value % 16 :]
            elif kind == "insert":
                data = data[:at] + word + data[at:]
            elif kind == "double":
                data = data[: at + value] + data[at:]
            elif kind == "cut" and at:
                data = data[:at]
        return data

    return apply


def use(path: Path) -> None:
    """Do all that an image offers; errors of warpgauge, and no others, are right."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WarpgaugeWarning)  # but warnings of libraries are errors here
            image = read_image(path)
            if image.grid.count < 10**7:
                image.read()
                image.percentiles()
            image.read(image.levels - 1)
            image.plane(2, 0)
    except WarpgaugeError as error:
        text = str(error)
        if "\n" in text or not text.endswith(".") or isinstance(error.__cause__, MemoryError):
            raise AssertionError(f"not one clear sentence: {text!r}") from error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of this module."""
    return tmp_path_factory.mktemp("fuzz")


def many(name: str) -> settings:
    return settings(max_examples=EXAMPLES[name], suppress_health_check=list(HealthCheck), database=None)


def run(folder: Path, ending: str, data: bytes) -> None:
    file = folder / f"x{ending}"
    file.write_bytes(data)
    use(file)


SEEDS: dict[str, tuple[str, list[bytes]]] = {
    "PNG": (".png", pictures("PNG", "L", "RGBA", "P")),
    "JPEG": (".jpg", pictures("JPEG", "L", "RGB", "CMYK")),
    "TIFF": (".tif", tiffs()),
    "NRRD": (".nrrd", nrrds()),
    "MetaImage": (".mha", metaimages()),
}
NIFTIS = niftis()
SLICES = dicoms()


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_good(folder: Path, name: str):
    """The undamaged files are read, so that the damage is what is tested."""
    ending, seeds = SEEDS[name]
    for seed in seeds:
        (folder / f"x{ending}").write_bytes(seed)
        read_image(folder / f"x{ending}").read()


@many("PNG")
@given(change=damage(), which=st.integers(0, 2))
def test_png(folder: Path, change: Callable[[bytes], bytes], which: int):
    """Damaged PNG; in one of three the checksums are put right, so that the damage gets past them."""
    data = change(SEEDS["PNG"][1][which])
    run(folder, ".png", with_checksums(data) if which == 0 else data)


def with_checksums(data: bytes) -> bytes:
    out, at = data[:8], 8
    while at + 12 <= len(data):
        length = min(int.from_bytes(data[at : at + 4], "big"), len(data) - at - 12)
        body = data[at + 4 : at + 8 + length]
        out += length.to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
        at += 12 + length
    return out


@many("JPEG")
@given(change=damage(), which=st.integers(0, 2))
def test_jpeg(folder: Path, change: Callable[[bytes], bytes], which: int):
    """Damaged JPEG."""
    run(folder, ".jpg", change(SEEDS["JPEG"][1][which]))


@many("TIFF")
@given(change=damage(), which=st.integers(0, 4))
def test_tiff(folder: Path, change: Callable[[bytes], bytes], which: int):
    """Damaged TIFF and OME-TIFF."""
    run(folder, ".tif", change(SEEDS["TIFF"][1][which]))


@many("NIfTI")
@given(change=damage(), which=st.integers(0, 1), packed=st.sampled_from(["no", "before", "after"]))
def test_nifti(folder: Path, change: Callable[[bytes], bytes], which: int, packed: str):
    """Damaged NIfTI-1 and NIfTI-2: plain, damaged and then gzipped, gzipped and then damaged."""
    seed = NIFTIS[which]
    if packed == "no":
        run(folder, ".nii", change(seed))
    else:
        run(folder, ".nii.gz", gzip.compress(change(seed), 1) if packed == "before" else change(gzip.compress(seed, 1)))


@many("NRRD")
@given(change=damage(), which=st.integers(0, 2))
def test_nrrd(folder: Path, change: Callable[[bytes], bytes], which: int):
    """Damaged NRRD."""
    run(folder, ".nrrd", change(SEEDS["NRRD"][1][which]))


@many("MetaImage")
@given(change=damage(), which=st.integers(0, 1))
def test_metaimage(folder: Path, change: Callable[[bytes], bytes], which: int):
    """Damaged MetaImage."""
    run(folder, ".mha", change(SEEDS["MetaImage"][1][which]))


@many("DICOM")
@given(change=damage())
def test_dicom(folder: Path, change: Callable[[bytes], bytes]):
    """One damaged slice among good ones."""
    series = folder / "dicom"
    if not series.exists():
        series.mkdir()
        for k, data in enumerate(SLICES):
            (series / f"{k}.dcm").write_bytes(data)
        read_image(series).read()
    # The slice in the middle is damaged; the preamble of 128 bytes says nothing.
    (series / "1.dcm").write_bytes(SLICES[1][:128] + change(SLICES[1][128:]))
    use(series)


@many("OME-Zarr")
@given(change=damage(), version=st.sampled_from([2, 3]), which=st.integers(0, 20))
def test_ome_zarr(folder: Path, change: Callable[[bytes], bytes], version: int, which: int):
    """One damaged file, description or chunk, of an OME-Zarr of either version."""
    root = folder / f"v{version}.zarr"
    if not root.exists():
        write_zarr(root, version)
        read_image(root).read()
        shutil.copytree(root, folder / f"good{version}")
    files = sorted(p for p in (folder / f"good{version}").rglob("*") if p.is_file())
    good = files[which % len(files)]
    target = root / good.relative_to(folder / f"good{version}")
    target.write_bytes(change(good.read_bytes()))
    try:
        use(root)
    finally:
        shutil.copyfile(good, target)


def write_zarr(root: Path, version: int) -> None:
    group = zarr.open_group(root, mode="w", zarr_format=version)
    group.create_array("0", data=VOLUME, chunks=(3, 4, 3))
    scale = {"type": "scale", "scale": [1.0, 2.0, 3.0]}
    multiscale = {
        "version": "0.4",
        "axes": [{"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"],
        "datasets": [{"path": "0", "coordinateTransformations": [scale]}],
    }
    ome = {"multiscales": [multiscale]}
    group.attrs.update(ome if version == 2 else {"ome": {"version": "0.5", **ome}})


STARTS = [
    b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b"II+\0\x08\0\0\0",
    b"NRRD0004\n", b"ObjectType = Image\nNDims = 3\n", b"\x1f\x8b\x08\0", b"\\\x01\0\0", b"\0" * 128 + b"DICM",
]  # fmt: skip
ENDINGS = ["", ".png", ".jpg", ".tif", ".nii", ".nii.gz", ".nrrd", ".mha", ".dcm", ".hdr"]


@many("random")
@given(start=st.sampled_from(STARTS), rest=st.binary(max_size=400), ending=st.sampled_from(ENDINGS))
def test_random_bytes(folder: Path, start: bytes, rest: bytes, ending: str):
    """Random bytes after the mark of any format, under the name of any."""
    run(folder, ending, start + rest)


def test_there_are_ten_thousand():
    """The promise of this file in numbers."""
    assert sum(EXAMPLES.values()) >= 10_000
