# ruff: noqa: E501  (a case in a line each)
"""Hostile landmark and transform files: deep and endless text, packed arrays, links into other files, huge promises."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

Make = Callable[[Path], list[str]]
_ELASTIX = '(Transform "TranslationTransform")\n(NumberOfParameters 2)\n(TransformParameters 1 0)\n(FixedImageDimension 2)\n(MovingImageDimension 2)\n'
_HEAD = "fixed_x,fixed_y,moving_x,moving_y\n"
_ITK = "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\nParameters: {}\nFixedParameters: 0 0\n"


def _text(kind: str, name: str, make: Callable[[], str | bytes]) -> Make:
    def case(folder: Path) -> list[str]:
        content = make()
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["info", str(folder / name), "--as", kind]

    return case


def _special(kind: str, name: str, make: Callable[[Path], object]) -> Make:
    def case(folder: Path) -> list[str]:
        make(folder / name)
        return ["info", str(folder / name), "--as", kind]

    return case


def _hole(size: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with path.open("wb") as stream:
            stream.truncate(size)

    return make


def _npy(header: str, length: int | None = None, version: int = 1) -> bytes:
    text = header.encode()
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + text


def _npz(*members: tuple[str, bytes], lie: int | None = None) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    content = stream.getvalue()
    if lie is not None:  # the directory promises another size than the member has
        at = content.rindex(b"PK\1\2")
        content = content[: at + 24] + struct.pack("<I", lie) + content[at + 28 :]
    return content


def _array_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _h5(fill: Callable[[h5py.Group], None]) -> Make:
    def case(folder: Path) -> list[str]:
        with h5py.File(folder / "x.h5", "w") as store:
            member = store.create_group("TransformGroup/0")
            member["TransformType"] = np.array([b"AffineTransform_double_2_2"])
            member["TransformFixedParameters"] = np.zeros(2)
            fill(member)
        return ["info", str(folder / "x.h5"), "--as", "transform"]

    return case


def _put(name: str, **options: object) -> Callable[[h5py.Group], None]:
    def fill(member: h5py.Group) -> None:
        member.create_dataset(name, **options)

    return fill


def _h5_cycle(member: h5py.Group) -> None:
    member["TransformParameters"] = h5py.SoftLink("/TransformGroup/0/TransformParameters")


def _h5_hard_cycle(member: h5py.Group) -> None:
    member["TransformParameters"] = member.parent


def _h5_many(member: h5py.Group) -> None:
    member["TransformParameters"] = np.zeros(6)
    for number in range(1, 20_000):
        member.parent[str(number)] = member


def _h5_types(member: h5py.Group) -> None:
    del member["TransformType"]
    member["TransformType"] = np.zeros(3)
    member["TransformParameters"] = np.zeros(6)


def _loop(folder: Path) -> list[str]:
    for name, other in (("a.txt", "b.txt"), ("b.txt", "a.txt")):
        (folder / name).write_text(_ELASTIX + f'(InitialTransformParametersFileName "{folder / other}")\n')
    return ["info", str(folder / "a.txt"), "--as", "transform"]


def _chain(folder: Path) -> list[str]:
    for number in range(3000):
        following = f'(InitialTransformParametersFileName "{folder / f"{number + 1}.txt"}")\n' if number < 2999 else ""
        (folder / f"{number}.txt").write_text(_ELASTIX + following)
    return ["info", str(folder / "0.txt"), "--as", "transform"]


def _initial(path: str) -> Make:
    return _text(
        "transform", "TransformParameters.0.txt", lambda: _ELASTIX + f'(InitialTransformParametersFileName "{path}")\n'
    )


def _fifo_beside(folder: Path) -> list[str]:
    os.mkfifo(folder / "first.txt")
    (folder / "x.txt").write_text(_ELASTIX + '(InitialTransformParametersFileName "first.txt")\n')
    return ["info", str(folder / "x.txt"), "--as", "transform"]


def _native(**changes: object) -> str:
    return json.dumps(
        {"format": "warpgauge landmarks", "version": 1, "dimension": 2, "units": "px", "landmarks": [], **changes}
    )


def _mat(count: int) -> bytes:
    """A MATLAB 4 file, as ANTs writes them, that promises many numbers."""
    name = b"AffineTransform_double_2_2\0"
    return struct.pack("<IIIII", 0, count, 1, 0, len(name)) + name + bytes(48)


_TEXT_ENDS = {
    "landmarks": ("x.csv", "x.json", "x.fcsv", "x.mrk.json", "x.geojson", "x.pts", "x.txt"),
    "transform": ("x.txt", "x.tfm", "x.mat", "x.h5", "x.npy", "x.npz", "x.nii.gz"),
}
CASES: dict[str, Make] = {
    **{
        f"pipe as {kind} {name}": _special(kind, name, os.mkfifo)
        for kind, names in _TEXT_ENDS.items()
        for name in names
    },
    **{
        f"/dev/zero as {kind} {name}": _special(kind, name, lambda path: path.symlink_to("/dev/zero"))
        for kind, names in _TEXT_ENDS.items()
        for name in names[:3]
    },
    **{
        f"hole of 1 TB as {kind} {name}": _special(kind, name, _hole(10**12))
        for kind, names in _TEXT_ENDS.items()
        for name in names
    },
    "CSV of a million rows": _text("landmarks", "x.csv", lambda: _HEAD + "1,2,3,4\n" * 1_000_000),
    "CSV of one line of 50 MB": _text("landmarks", "x.csv", lambda: _HEAD + "1" * 50_000_000),
    "CSV of a million columns": _text(
        "landmarks", "x.csv", lambda: ",".join(["fixed_x"] * 1_000_000) + "\n" + ",".join(["1"] * 1_000_000)
    ),
    "CSV with an open quote": _text("landmarks", "x.csv", lambda: _HEAD + '"' + "1,2,3,4\n" * 90_000),
    "CSV of NaN": _text("landmarks", "x.csv", lambda: _HEAD + "nan,inf,-inf,1e308\n"),
    "CSV of 1e308": _text("landmarks", "x.csv", lambda: _HEAD + "1e308,-1e308,1e308,1e-320\n" * 5),
    "CSV of 5,000 digits": _text("landmarks", "x.csv", lambda: _HEAD + f"{'9' * 5000},1,1,1\n"),
    "CSV in UTF-16": _text("landmarks", "x.csv", lambda: (_HEAD + "1,2,3,4\n").encode("utf-16")),
    "CSV with other digits": _text("landmarks", "x.csv", lambda: _HEAD + "\u0661,\u0662,\uff13,4\n"),
    "CSV with names that turn the text": _text(
        "landmarks", "x.csv", lambda: "name,fixed_x,fixed_y,moving_x,moving_y\n\u202eabc,1,2,3,4\n\0,1,2,3,4\n"
    ),
    "CSV with columns twice": _text(
        "landmarks", "x.csv", lambda: "fixed_x,fixed_x,fixed_y,moving_x,moving_y\n1,2,3,4,5\n"
    ),
    "JSON nested 100,000 times": _text("landmarks", "x.json", lambda: "[" * 100_000),
    "JSON objects nested 100,000 times": _text("landmarks", "x.json", lambda: '{"a":' * 100_000),
    "JSON with keys twice": _text(
        "landmarks", "x.json", lambda: _native().replace('"units": "px"', '"units": "px", "units": "mm"')
    ),
    "JSON with a number of 10,000 digits": _text(
        "landmarks", "x.json", lambda: _native(version=1).replace('"version": 1', '"version": ' + "1" * 10_000)
    ),
    "JSON with lone surrogates": _text("landmarks", "x.json", lambda: _native(units="\ud800")),
    "JSON with NaN": _text("landmarks", "x.json", lambda: _native(dimension=float("nan"))),
    "JSON of 1e6 landmarks": _text("landmarks", "x.json", lambda: _native(landmarks=[{}] * 1_000_000)),
    "GeoJSON of deep coordinates": _text(
        "landmarks",
        "x.geojson",
        lambda: (
            '{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Point","coordinates":'
            + "[" * 900
            + "]" * 900
            + "}}]}"
        ),
    ),
    "GeoJSON of 1e308": _text(
        "landmarks",
        "x.geojson",
        lambda: (
            '{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Point","coordinates":[1e999,NaN]},"properties":{}}]}'
        ),
    ),
    "transformix points of 1e9": _text("landmarks", "x.txt", lambda: "point\n1000000000\n1 2\n"),
    "transform of ITK with 1e6 parameters": _text("transform", "x.tfm", lambda: _ITK.format("1 " * 1_000_000)),
    "transform of ITK with NaN": _text("transform", "x.tfm", lambda: _ITK.format("nan inf 1e308 -1e308 1e999 0")),
    "transform of ITK with 1e5 members": _text("transform", "x.tfm", lambda: _ITK.format("1 0 0 1 0 0") * 100_000),
    "transform of ITK named without end": _text(
        "transform", "x.tfm", lambda: "#Insight Transform File V1.0\nTransform: " + "A" * 10_000_000
    ),
    "matrix of 1e308": _text("transform", "x.txt", lambda: "1e308 1e308 0\n1e308 -1e308 0\n0 0 1\n"),
    "matrix of 1e6 rows": _text("transform", "x.txt", lambda: "1 0 0\n" * 1_000_000),
    "ANTs .mat of 4 billion numbers": _text("transform", "x.mat", lambda: _mat(2**32 - 1)),
    "ANTs .mat of 1e9 numbers": _text("transform", "x.mat", lambda: _mat(10**9)),
    "elastix in a circle": _loop,
    "elastix chain of 3,000": _chain,
    "elastix after itself": _initial("TransformParameters.0.txt"),
    "elastix after /dev/zero": _initial("/dev/zero"),
    "elastix after /dev/stdin": _initial("/dev/stdin"),
    "elastix after a pipe": _fifo_beside,
    "elastix with 1e7 parameters": _text(
        "transform", "TransformParameters.0.txt", lambda: _ELASTIX.replace("1 0)", "1 " * 10_000_000 + ")")
    ),
    "elastix of 10^4 dimensions": _text(
        "transform", "TransformParameters.0.txt", lambda: _ELASTIX.replace("Dimension 2", "Dimension 10000")
    ),
    "elastix with 1e999": _text(
        "transform", "TransformParameters.0.txt", lambda: _ELASTIX.replace("1 0)", "1e999 nan)")
    ),
    "elastix B-spline of 1e9 x 1e9": _text(
        "transform",
        "TransformParameters.0.txt",
        lambda: (
            _ELASTIX.replace("TranslationTransform", "BSplineTransform")
            + "(GridSize 1000000000 1000000000)\n(GridSpacing 1e-300 1e308)\n(GridOrigin nan 0)\n(GridIndex 0 0)\n(GridDirection 1 0 0 1)\n"
        ),
    ),
    "NPY header of 4 GB": _text("transform", "x.npy", lambda: _npy("{", 2**32 - 1, version=2)),
    "NPY header nested": _text("transform", "x.npy", lambda: _npy("(" * 60_000)),
    "NPY header nested in version 2": _text("transform", "x.npy", lambda: _npy("{'descr':" + "(" * 9_000, version=2)),
    "NPY of version 255": _text("transform", "x.npy", lambda: _npy("{}", version=255)),
    "NPY of negative shape": _text(
        "transform", "x.npy", lambda: _npy("{'descr':'<f4','fortran_order':False,'shape':(-1,-5,-2),}\n") + bytes(64)
    ),
    "NPY of 1e18 numbers": _text(
        "transform", "x.npy", lambda: _npy("{'descr':'<f4','fortran_order':False,'shape':(2,1000000000,1000000000),}\n")
    ),
    "NPY of objects": _text(
        "transform", "x.npy", lambda: _npy("{'descr':'|O','fortran_order':False,'shape':(2,3,4),}\n") + b"cos\nsystem\n"
    ),
    "NPY of a thousand axes": _text(
        "transform",
        "x.npy",
        lambda: _npy("{'descr':'<f4','fortran_order':False,'shape':(" + "1," * 1000 + "),}\n") + bytes(4),
    ),
    "NPZ of 100,000 members": _text("transform", "x.npz", lambda: _npz(*[(f"{n}.npy", b"") for n in range(100_000)])),
    "NPZ whose directory lies": _text(
        "transform", "x.npz", lambda: _npz(("a.npy", _array_bytes(np.zeros((2, 500, 500)))), lie=2**32 - 2)
    ),
    "NPZ of 1.6 GB of zeros": _text(
        "transform",
        "x.npz",
        lambda: _npz(
            ("a.npy", _npy("{'descr':'<f8','fortran_order':False,'shape':(2,10000,10000),}\n") + bytes(50_000_000)),
            lie=1_600_000_100,
        ),
    ),
    "NPZ within NPZ": _text("transform", "x.npz", lambda: _npz(("a.npy", _npz(("a.npy", bytes(10**7)))))),
    "NPZ with a path": _text("transform", "x.npz", lambda: _npz(("../../a.npy", _array_bytes(np.zeros((2, 3, 4)))))),
    "HDF5 with a link to itself": _h5(_h5_cycle),
    "HDF5 with a group in itself": _h5(_h5_hard_cycle),
    "HDF5 with 20,000 members": _h5(_h5_many),
    "HDF5 with numbers for names": _h5(_h5_types),
    "HDF5 of 1e12 numbers, none stored": _h5(
        _put("TransformParameters", shape=(10**12,), dtype="<f8", chunks=(10**6,))
    ),
    "HDF5 with a packed gigabyte": _h5(
        _put("TransformParameters", shape=(10**8,), dtype="<f8", chunks=(10**7,), compression="gzip", fillvalue=0)
    ),
    "HDF5 of text for numbers": _h5(_put("TransformParameters", data=np.array([b"a" * 1000] * 6))),
    "HDF5 of records": _h5(_put("TransformParameters", data=np.zeros(6, [("a", "<f8"), ("b", "<i4")]))),
    "HDF5 of NaN": _h5(_put("TransformParameters", data=np.full(6, np.nan))),
    "HDF5 of 1e308": _h5(_put("TransformParameters", data=np.full(6, 1e308))),
    "HDF5 that is empty": _h5(_put("TransformParameters", data=h5py.Empty("<f8"))),
}
