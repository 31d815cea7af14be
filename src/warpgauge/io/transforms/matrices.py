"""Linear transforms as text: matrices, FreeSurfer's ``.lta``, AFNI's ``.1D`` and MNI's ``.xfm``."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError, say
from warpgauge.geometry import Floats
from warpgauge.io.files import finite_numbers, read_text
from warpgauge.io.limits import check_parts
from warpgauge.io.transforms.meaning import RAS_SIGNS, Options
from warpgauge.io.transforms.transform import AffineTransform, Chain, Transform
from warpgauge.io.transforms.volumes import read_afni_warp, voxels_to_ras

_LIMIT = 2**16
_SIGNS = np.diag([*RAS_SIGNS, 1.0])


def read_numbers(path: Path) -> Floats:
    """Read rows of numbers between blanks or commas; lines that start with ``#`` are comments."""
    text = read_text(path, "matrix", _LIMIT)
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            rows.append([float(word) for word in words])
        except ValueError as error:
            raise FileFormatError(f"{path.name!r}, line {number}: {line.strip()[:60]!r} are not numbers.") from error
    if not rows or len({len(row) for row in rows}) > 1:
        raise FileFormatError(f"{path.name!r} is not a matrix: its rows have {[len(row) for row in rows][:8]} numbers.")
    return finite_numbers(rows, path.name, "the numbers of its matrix")


def read_matrix(path: Path, options: Options) -> Transform:
    """Read an affine matrix that maps fixed to moving points, of the world LPS (by default) or RAS."""
    rows = read_numbers(path)
    d = rows.shape[1] - 1
    if d not in (2, 3) or rows.shape[0] not in (d, d + 1):
        raise FileFormatError(
            f"{path.name!r} is a matrix of {rows.shape[0]} x {rows.shape[1]}, but an affine one is 2 x 3, 3 x 3, "
            f"3 x 4 or 4 x 4."
        )
    if rows.shape[0] == d + 1 and not np.allclose(rows[d], [0] * d + [1], atol=1e-9):
        raise FileFormatError(f"{path.name!r}: the last row of an affine matrix is 0 ... 0 1, not {rows[d].tolist()}.")
    matrix = rows[:d, :d]
    offset = rows[:d, d]
    note = (
        f"The matrix maps fixed to moving world points (column vectors); a flirt matrix needs {say('format', 'fsl')}."
    )
    if options.frame == "RAS":
        signs = RAS_SIGNS[:d]
        matrix = matrix * np.outer(signs, signs)
        offset = offset * signs
        note += " Its RAS world is turned into LPS."
    elif options.frame is None and d == 3:
        note += f" Its world is taken to be LPS; give {say('frame', 'RAS')} where it is not."
    return AffineTransform(matrix, offset, notes=[note])


def _affine_of_ras(matrix: Floats, note: str) -> AffineTransform:
    """Return the affine transform of the LPS world that a 4 x 4 matrix of RAS points stands for."""
    world = _SIGNS @ matrix @ _SIGNS
    return AffineTransform(world[:3, :3], world[:3, 3], notes=[note])


LTA = re.compile(rb"^type\s*=\s*-?[0-9]+.*^nxforms\s*=", re.MULTILINE | re.DOTALL)
_VOXELS, _RAS = 0, 1
_TYPE = re.compile(r"^type\s*=\s*(-?[0-9]{1,4})", re.MULTILINE)
_COUNT = re.compile(r"^nxforms\s*=\s*([0-9]{1,6})", re.MULTILINE)
_ROWS = re.compile(r"^1 4 4\s*\n((?:[^\n]*\n){4})", re.MULTILINE)


def read_lta(path: Path, options: Options) -> Transform:
    """Read a linear transform of FreeSurfer, which takes source (moving) to destination (fixed) points.

    Matrices are of RAS millimetres or of voxels; for the latter the file holds the geometry of both images.
    """
    text = read_text(path, "FreeSurfer transform")
    kind = _TYPE.search(text)
    count = _COUNT.search(text)
    rows = _ROWS.search(text)
    if kind is None or count is None or rows is None:
        raise FileFormatError(f"{path.name!r} is not an LTA of FreeSurfer: it needs type, nxforms and a 4 x 4 matrix.")
    if int(count[1]) != 1:
        raise FileFormatError(f"{path.name!r} holds {count[1]} transforms; split it, one registration is one of them.")
    matrix = finite_numbers(rows[1].split(), path.name, "the rows of its matrix", 16).reshape(4, 4)
    code = int(kind[1])
    if code not in (_VOXELS, _RAS):
        raise FileFormatError(
            f"{path.name!r} is an LTA of type {code}; types 0 (voxels) and 1 (RAS) are read: turn it into one of them "
            f"with lta_convert --outlta OUT --ltavox2vox, or without that option."
        )
    if code == _VOXELS:
        matrix = _geometry(text, "dst", path.name) @ matrix @ np.linalg.inv(_geometry(text, "src", path.name))
    if "created by NiTransforms" in text.partition("\n")[0]:
        return _affine_of_ras(
            matrix, "NiTransforms wrote this file, which keeps the map from reference (fixed) to moving points in it."
        )
    forward = _affine_of_ras(
        matrix, "FreeSurfer's file maps source (moving) to destination (fixed) points; inverted exactly."
    )
    return forward.inverse().described(direction="fixed_to_moving")


def _geometry(text: str, side: str, name: str) -> Floats:
    """Return the matrix from voxels to RAS of one image."""
    part = text.partition(f"\n{side} volume info")[2].partition("\ndst volume info")[0]
    values: dict[str, Floats] = {}
    for key in ("valid", "volume", "voxelsize", "xras", "yras", "zras", "cras"):
        line = re.search(rf"^{key}\s*=\s*([^#\n]*)", part, re.MULTILINE)
        if line is None:
            raise FileFormatError(f"{name!r} has no {key!r} of its {side} volume, which a matrix of voxels needs.")
        count = 1 if key == "valid" else 3
        values[key] = finite_numbers(line[1].split(), name, f"the values of {key!r}", count)
    if values["valid"][0] != 1:
        raise FileFormatError(f"{name!r} says that the geometry of its {side} volume is not valid, which voxels need.")
    axes = np.column_stack([values["xras"], values["yras"], values["zras"]])
    return voxels_to_ras(values["volume"], values["voxelsize"], axes, values["cras"])


AFNI_MARKS = (b"DICOM-to-DICOM", b"3dvolreg matrices", b"3dAllineate matrices")
_DATASET = (".head", ".brik")


def read_afni(path: Path, options: Options) -> Transform:
    """Read a matrix of AFNI, as one row of 12 numbers or as 3 x 4, or a warp (``.HEAD`` with ``.BRIK``)."""
    if path.suffix.lower() in _DATASET:
        return read_afni_warp(path)
    rows = read_numbers(path)
    if rows.size != 12:
        raise FileFormatError(
            f"{path.name!r} has {rows.shape[0]} x {rows.shape[1]} numbers, but one matrix of AFNI has 12; of a series, "
            f"give the row of one volume."
        )
    matrix = rows.reshape(3, 4)
    note = "AFNI's matrix maps base (fixed) to input (moving) points in DICOM order, which is LPS."
    return AffineTransform(matrix[:, :3], matrix[:, 3], notes=[note])


def is_afni(head: bytes, suffix: str) -> bool:
    """Return whether a file is a header or brick of a dataset, or a matrix of AFNI."""
    if suffix in (".brik", ".1d") or (head.lstrip().startswith(b"type ") and b"-attribute\nname " in head):
        return True
    return head.startswith(b"#") and any(mark in head for mark in AFNI_MARKS)


def afni_files(path: Path) -> list[Path]:
    """Return the files of the dataset that a header or a brick of AFNI belongs to; none for a matrix."""
    stem = path.with_suffix("")
    endings = (".HEAD", ".BRIK", ".BRIK.gz") if path.suffix.lower() in _DATASET else ()
    return [file for file in (stem.with_name(f"{stem.name}{ending}") for ending in endings) if file.is_file()]


_ITEM = re.compile(r"(\w+)\s*=\s*([^;]*);")


def read_xfm(path: Path, options: Options) -> Transform:
    """Read the linear transforms of a file of MNI, applied in their order, and return the way from fixed to moving."""
    text = re.sub(r"%[^\n]*", "", read_text(path, "MNI transform"))
    items = [(key, value.strip()) for key, value in _ITEM.findall(text)]
    starts = [row for row, (key, _) in enumerate(items) if key == "Transform_Type"]
    if not starts:
        raise FileFormatError(f"{path.name!r} has no Transform_Type, so it holds no transform.")
    check_parts(path.name, len(starts))
    backwards: list[Transform] = []
    for start, end in zip(starts, [*starts[1:], len(items)], strict=True):
        part = dict(items[start:end])
        kind = part["Transform_Type"]
        if kind.lower() != "linear":
            raise FileFormatError(
                f"{path.name!r} has a transform of type {kind[:40]!r}, but only Linear is read; write its field with "
                f"ITK, as .nrrd or .nii.gz."
            )
        if "Linear_Transform" not in part:
            raise FileFormatError(f"{path.name!r} lacks Linear_Transform of its {kind} transform.")
        rows = finite_numbers(part["Linear_Transform"].split(), path.name, "Linear_Transform", 12).reshape(3, 4)
        forward = _affine_of_ras(
            np.vstack([rows, [0, 0, 0, 1]]),
            "MNI's file maps source (moving) to target (fixed) points in RAS; inverted.",
        )
        inverted = part.get("Invert_Flag", "False").lower() == "true"
        backwards.insert(0, forward if inverted else forward.inverse().described(direction="fixed_to_moving"))
    return backwards[0] if len(backwards) == 1 else Chain(backwards)


# Each alternative starts with other bytes, so that no input can make the search go back and forth.
_NUMBERS = re.compile(rb"(?:#[^\n]*\n|[-+0-9.eE,\s]|nan|inf)*\Z", re.IGNORECASE)


def is_matrix(head: bytes, suffix: str) -> bool:
    """Return whether a file holds nothing but numbers and comments."""
    return _NUMBERS.match(head.removeprefix(b"\xef\xbb\xbf")) is not None
