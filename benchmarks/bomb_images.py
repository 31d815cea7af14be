# ruff: noqa: E501  (a case in a line each)
"""Hostile images: huge promises, streams that unfold, endless and looping headers, pipes and devices."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import module

_BOMBS = module("io/test_bombs.py")
_MHA = "ObjectType = Image\nNDims = {d}\nDimSize = {size}\nElementSpacing = {ones}\nElementType = MET_UCHAR\n"
Make = Callable[[Path], list[str]]


def _file(name: str, make: Callable[[], bytes]) -> Make:
    def case(folder: Path) -> list[str]:
        (folder / name).write_bytes(make())
        return ["info", str(folder / name), "--as", "image"]

    return case


def _sparse(name: str, head: Callable[[], bytes], size: int) -> Make:
    """A file whose end is a hole: large by its size, nothing on disk."""

    def case(folder: Path) -> list[str]:
        with (folder / name).open("wb") as stream:
            stream.write(head())
            stream.truncate(size)
        return ["info", str(folder / name), "--as", "image"]

    return case


def nifti(shape: tuple[int, ...], offset: float = 352, code: int = 2, extension: bytes = b"", **fields: Any) -> bytes:
    """A NIfTI header and what follows it."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, len(shape), *shape, *[1] * (7 - len(shape)))
    struct.pack_into("<hh", header, 70, code, {2: 8, 16: 32, 64: 64}[code])
    struct.pack_into("<8f", header, 76, *fields.get("pixdim", [1, 1, 1, 1, 0, 0, 0, 0]))
    struct.pack_into("<f", header, 108, offset)
    struct.pack_into("<ff", header, 112, *fields.get("slope", (0, 0)))
    header[344:348] = b"n+1\0"
    if extension:
        header[348] = 1
    return bytes(header) + extension


def _many_members() -> bytes:
    """A gzip stream of 200,000 members that hold nothing."""
    return gzip.compress(nifti((4, 4, 4))) + gzip.compress(b"") * 200_000


def _png(*chunks: tuple[bytes, bytes], width: int = 8, height: int = 8) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(min(height, 8))))
    parts = [(b"IHDR", head), *chunks, (b"IDAT", body), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_BOMBS.chunk(kind, data) for kind, data in parts)


def _tiff(entries: list[tuple[int, int, int, int]], following: int = 0, extra: bytes = b"") -> bytes:
    """A little-endian TIFF with one directory of (tag, type, count, value)."""
    body = b"".join(struct.pack("<HHII", *entry) for entry in sorted(entries))
    return (
        b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(entries)) + body + struct.pack("<I", following) + extra
    )


def _plain(width: int = 64, height: int = 64, **other: int) -> list[tuple[int, int, int, int]]:
    fields = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 4096, 277: 1, 278: height, 279: width * height}
    fields |= {int(tag): value for tag, value in other.items()}
    return [(tag, 4, 1, value) for tag, value in fields.items()]


def _tiff_chain(count: int) -> bytes:
    """A TIFF with so many directories, one after the other."""
    entries = _plain(8, 8)
    size = 2 + 12 * len(entries) + 4
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    parts = [b"II*\0" + struct.pack("<I", 8)]
    for n in range(count):
        following = 8 + (n + 1) * size if n + 1 < count else 0
        parts.append(struct.pack("<H", len(entries)) + body + struct.pack("<I", following))
    return b"".join(parts) + bytes(8192)


def _sparse_bigtiff() -> bytes:
    """A tiled BigTIFF of a million by a million pixels without any tile."""
    entries = [(256, 4, 1, 10**6), (257, 4, 1, 10**6), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
    entries += [(322, 3, 1, 256), (323, 3, 1, 256), (324, 16, 3907 * 3907, 4096), (325, 16, 3907 * 3907, 4096)]
    body = b"".join(struct.pack("<HHQQ", *entry) for entry in entries)
    return b"II+\0" + struct.pack("<HHQ", 8, 0, 16) + struct.pack("<Q", len(entries)) + body + struct.pack("<Q", 0)


def _jpeg(width: int, height: int, scans: int) -> bytes:
    """A progressive JPEG with its size rewritten and its scans repeated."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.zeros((64, 64), np.uint8)).save(stream, "JPEG", progressive=True)
    data = bytearray(stream.getvalue())
    at = data.index(b"\xff\xc2")
    struct.pack_into(">HH", data, at + 5, height, width)
    first = data.index(b"\xff\xda")
    return bytes(data[:first]) + bytes(data[first:-2]) * scans + b"\xff\xd9"


def _header(kind: str, lines: str, data: str | None = None, make: str = "") -> Make:
    """A MetaImage or NRRD header, beside a data file that is a pipe, a link to a device, or a hole."""

    def case(folder: Path) -> list[str]:
        (folder / f"x.{kind}").write_text(lines)
        if data is not None and make == "fifo":
            os.mkfifo(folder / data)
        elif data is not None and make == "hole":
            with (folder / data).open("wb") as stream:
                stream.truncate(10**12)
        elif data is not None:
            (folder / data).symlink_to(make)
        return ["info", str(folder / f"x.{kind}"), "--as", "image"]

    return case


def _meta(size: str, data: str) -> str:
    d = len(size.split())
    return _MHA.format(d=d, size=size, ones=" ".join("1" * d)) + f"ElementDataFile = {data}\n"


def _nrrd(*fields: str, sizes: str = "8 8") -> str:
    d = len(sizes.split())
    return "\n".join(
        ["NRRD0004", "type: uchar", f"dimension: {d}", f"sizes: {sizes}", "encoding: raw", *fields, "", ""]
    )


def _zarr(change: Callable[[Path, dict[str, Any]], None]) -> Make:
    """An OME-Zarr image of one level, changed by a function of the array's folder and of the multiscale description."""

    def case(folder: Path) -> list[str]:
        root = folder / "x.zarr"
        root.mkdir()
        (root / ".zgroup").write_text('{"zarr_format": 2}')
        axes = [{"name": axis, "type": "space"} for axis in "yx"]
        scale = [{"type": "scale", "scale": [1.0, 1.0]}]
        about = {"version": "0.4", "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
        _BOMBS.zarr_2(root / "0", shape=[8, 8], chunks=[8, 8], dtype="|u1")
        change(root / "0", about)
        (root / ".zattrs").write_text(json.dumps({"multiscales": [about]}))
        return ["info", str(root), "--as", "image"]

    return case


def _array(**changes: Any) -> Make:
    def change(array: Path, about: dict[str, Any]) -> None:
        description = json.loads((array / ".zarray").read_text())
        (array / ".zarray").write_text(json.dumps({**description, **changes}))

    return _zarr(change)


def _chunk_is(make: Callable[[Path], object]) -> Make:
    def change(array: Path, about: dict[str, Any]) -> None:
        make(array / "0.0")

    return _zarr(change)


def _many_levels(array: Path, about: dict[str, Any]) -> None:
    about["datasets"] = about["datasets"] * 200_000


def _strange_scale(array: Path, about: dict[str, Any]) -> None:
    about["datasets"][0]["coordinateTransformations"][0]["scale"] = [1e308, 1e-320]


def _nested_description(array: Path, about: dict[str, Any]) -> None:
    (array / ".zarray").write_text("[" * 100_000)


def _endless_description(array: Path, about: dict[str, Any]) -> None:
    (array / ".zarray").unlink()
    os.mkfifo(array / ".zarray")


def _dicom(folder: Path, change: Callable[[Any], None]) -> list[str]:
    import pydicom

    series = folder / "series"
    series.mkdir()
    for number, data in enumerate(module("io/test_images_fuzz.py").SLICES):
        one = pydicom.dcmread(io.BytesIO(data))
        change(one)
        one.save_as(series / f"{number}.dcm")
    return ["info", str(series), "--as", "image"]


def _huge_slices(one: Any) -> None:
    one.Rows = one.Columns = 65_535
    one.NumberOfFrames = 10_000


def _strange_place(one: Any) -> None:
    one.PixelSpacing, one.ImagePositionPatient = ["1e308", "1e-320"], ["1e308", "0", "0"]


def _deep_dicom(folder: Path) -> list[str]:
    """Sequences of undefined length, each in the one before, written by hand."""
    arguments = _dicom(folder, lambda one: None)
    for file in (folder / "series").iterdir():
        item = b"\x08\x00\x40\x11SQ\0\0\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff"
        file.write_bytes(file.read_bytes() + item * 100_000)
    return arguments


CASES: dict[str, Make] = {
    **{f"image bomb {name}": _file(name, make) for name, make in _BOMBS.BOMBS.items()},
    "bz2 NRRD of 1.8 kB": _file("x.nrrd", lambda: (_nrrd(sizes="2000 2000 600").replace("raw", "bzip2")).encode()
                                + bz2.compress(bytes(2**22)) * 40),
    "Zarr with one chunk of 50000 x 50000": _array(shape=[50_000, 50_000], chunks=[50_000, 50_000]),
    "Zarr with chunks of 1": _array(shape=[50_000, 50_000], chunks=[1, 1]),
    "Zarr of 1e9 x 1e9": _array(shape=[10**9, 10**9], chunks=[10**9, 10**9]),
    "Zarr chunk that is a pipe": _chunk_is(os.mkfifo),
    "Zarr chunk that is /dev/zero": _chunk_is(lambda path: path.symlink_to("/dev/zero")),
    "Zarr chunk that is a folder": _chunk_is(lambda path: path.mkdir()),
    "Zarr with 200,000 levels": _zarr(_many_levels),
    "Zarr with scales of 1e308": _zarr(_strange_scale),
    "Zarr with 10,000 filters": _array(filters=[{"id": "zlib"}] * 10_000),
    "Zarr of negative size": _array(shape=[-8, 8]),
    "Zarr fill value": _array(fill_value={"a": [1] * 1000}),
    "Zarr description nested": _zarr(_nested_description),
    "Zarr description without end": _zarr(_endless_description),
    "NIfTI of 10000^3 with a hole": _sparse("x.nii", lambda: nifti((10_000, 10_000, 10_000)), 10**12 + 352),
    "NIfTI of 7 axes": _file("x.nii", lambda: nifti((32767,) * 7)),
    "NIfTI with NaN sizes": _file("x.nii", lambda: nifti((4, 4, 4), pixdim=[np.nan] * 8) + bytes(64)),
    "NIfTI with sizes of 1e38": _file("x.nii", lambda: nifti((4, 4, 4), pixdim=[1e38] * 8) + bytes(64)),
    "NIfTI with slope of infinity": _file("x.nii", lambda: nifti((4, 4, 4), slope=(np.inf, np.nan)) + bytes(64)),
    "NIfTI with data at 1e30": _file("x.nii", lambda: nifti((4, 4, 4), offset=1e30)),
    "NIfTI with data at NaN": _file("x.nii", lambda: nifti((4, 4, 4), offset=np.nan)),
    "NIfTI extension of size 0": _file("x.nii", lambda: nifti((4, 4, 4), 10_000, extension=bytes(20_000))),
    "NIfTI extension of size -16": _file("x.nii", lambda: nifti((4, 4, 4), 10_000, extension=struct.pack("<ii", -16, 4) * 2000)),
    "NIfTI.gz of 200,000 members": _file("x.nii.gz", _many_members),
    "NIfTI.gz.gz": _file("x.nii.gz", lambda: gzip.compress(gzip.compress(nifti((4, 4, 4)) + bytes(64)))),
    "NIfTI.gz with values of 1e300": _file("x.nii.gz", lambda: gzip.compress(nifti((4, 4, 4), code=64) + np.full(64, 1e300).tobytes())),
    "NIfTI.gz with values of NaN": _file("x.nii.gz", lambda: gzip.compress(nifti((4, 4, 4), code=64) + np.full(64, np.nan).tobytes())),
    "PNG with 300,000 comments": _file("x.png", lambda: _png(*[(b"tEXt", b"a\0b")] * 300_000)),
    "PNG with a packed comment of 1 GB": _file("x.png", lambda: _png((b"zTXt", b"a\0\0" + zlib.compress(bytes(10**9), 9)))),
    "PNG with a packed profile of 1 GB": _file("x.png", lambda: _png((b"iCCP", b"a\0\0" + zlib.compress(bytes(10**9), 9)))),
    "PNG of 2^31 - 1 x 1": _file("x.png", lambda: _png()[:16] + struct.pack(">II", 2**31 - 1, 1) + _png()[24:]),
    "JPEG of 65500 x 65500": _file("x.jpg", lambda: _jpeg(65_500, 65_500, 1)),
    "JPEG of 20000 x 20000 with 2,000 scans": _file("x.jpg", lambda: _jpeg(20_000, 20_000, 400)),
    "TIFF directory that follows itself": _file("x.tif", lambda: _tiff(_plain(), following=8, extra=bytes(9000))),
    "TIFF of 200,000 directories": _file("x.tif", lambda: _tiff_chain(200_000)),
    "TIFF with a tag of 4 billion values": _file("x.tif", lambda: _tiff([*_plain(), (65000, 12, 2**32 - 1, 8)], extra=bytes(9000))),
    "TIFF with a text of 3 GB in a hole": _sparse("x.tif", lambda: _tiff([*_plain(), (270, 2, 3 * 10**9, 512)]), 3 * 10**9 + 9000),
    "TIFF with sub-directories that loop": _file("x.tif", lambda: _tiff([*_plain(), (330, 4, 1, 8)], extra=bytes(9000))),
    "TIFF of 4e9 x 4e9": _file("x.tif", lambda: _tiff(_plain(4 * 10**9, 4 * 10**9, **{"279": 100}), extra=bytes(9000))),
    "TIFF with 65,535 samples": _file("x.tif", lambda: _tiff(_plain(2000, 2000, **{"277": 65_535}), extra=bytes(9000))),
    "TIFF with resolution 0/0": _file("x.tif", lambda: _tiff([*_plain(), (282, 5, 1, 300), (283, 5, 1, 300)], extra=bytes(9000))),
    "BigTIFF of 1e6 x 1e6 without tiles": _sparse("x.tif", _sparse_bigtiff, 16 * 3907 * 3907 + 8192),
    "MHD with data in /dev/zero": _header("mhd", _meta("8 8", "/dev/zero")),
    "MHD with data in a link to /dev/zero": _header("mhd", _meta("8 8", "x.raw"), "x.raw", "/dev/zero"),
    "MHD with data in a pipe": _header("mhd", _meta("8 8", "x.raw"), "x.raw", "fifo"),
    "MHD with data in a hole of 1 TB": _header("mhd", _meta("10000 10000 10000", "x.raw"), "x.raw", "hole"),
    "MHD with a list of files": _header("mhd", _meta("8 8 8", "LIST\n" + "a.raw\n" * 200_000)),
    "MHD with a pattern": _header("mhd", _meta("8 8 8", "x%d.raw 0 1000000000 1")),
    "MHD that is its own data": _header("mhd", _meta("8 8", "x.mhd")),
    "MHA of 1e6 lines": _file("x.mha", lambda: b"ObjectType = Image\n" + b"A = 1\n" * 1_000_000),
    "MHA of one endless line": _file("x.mha", lambda: b"ObjectType = Image\nComment = " + b"a" * 50_000_000),
    "MHA with 1e6 sizes": _file("x.mha", lambda: _meta("8 8", "LOCAL").replace("8 8", "8 " * 1_000_000).encode()),
    "MHA with spacing 1e308": _file("x.mha", lambda: _meta("8 8", "LOCAL").replace("Spacing = 1 1", "Spacing = 1e308 1e308").encode() + bytes(64)),
    "MHA with spacing of 10^5 digits": _file("x.mha", lambda: _meta("8 8", "LOCAL").replace("DimSize = 8 8", "DimSize = " + "9" * 100_000 + " 8").encode() + bytes(64)),
    "NRRD with data in /dev/zero": _header("nrrd", _nrrd("data file: /dev/zero")),
    "NRRD with data in a pipe": _header("nrrd", _nrrd("data file: x.raw"), "x.raw", "fifo"),
    "NRRD with data above": _header("nrrd", _nrrd("data file: ../../etc/passwd")),
    "NRRD with a list of files": _header("nrrd", _nrrd("data file: LIST")),
    "NRRD with a pattern of files": _header("nrrd", _nrrd("data file: x%d.raw 0 1000000000 1")),
    "NRRD with data in a hole of 1 TB": _header("nhdr", _nrrd("data file: x.raw", sizes="10000 10000 10000"), "x.raw", "hole"),
    "NRRD of 1e6 lines": _file("x.nrrd", lambda: b"NRRD0004\n" + b"a:=b\n" * 1_000_000),
    "NRRD with sizes of 10^5 digits": _file("x.nrrd", lambda: _nrrd(sizes="8 " + "9" * 100_000).encode()),
    "NRRD with line skip 1e9": _file("x.nrrd", lambda: _nrrd("line skip: 1000000000").encode() + bytes(64)),
    "NRRD with byte skip -1e9": _file("x.nrrd", lambda: _nrrd("byte skip: -1000000000").encode() + bytes(64)),
    "DICOM of 65535 x 65535 x 10000": lambda folder: _dicom(folder, _huge_slices),
    "DICOM with 100,000 nested sequences": _deep_dicom,
    "DICOM with spacing 1e308": lambda folder: _dicom(folder, _strange_place),
}  # fmt: skip
