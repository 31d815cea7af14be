"""Linear transforms of FreeSurfer (``.lta``): they take points of the source (moving) to the destination (fixed) image.

Matrices are of RAS millimetres or of voxels; for the latter the file holds the geometry of both images.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats
from warpgauge.io.files import read_text
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform
from warpgauge.io.transforms.linear import affine_of_ras

TITLE = "FreeSurfer LTA"
_VOXELS, _RAS = 0, 1
_NITRANSFORMS = "created by NiTransforms"
_TYPE = re.compile(r"^type\s*=\s*(-?[0-9]{1,4})", re.MULTILINE)
_COUNT = re.compile(r"^nxforms\s*=\s*([0-9]{1,6})", re.MULTILINE)
_ROWS = re.compile(r"^1 4 4\s*\n((?:[^\n]*\n){4})", re.MULTILINE)
_MARK = re.compile(rb"^type\s*=\s*-?[0-9]+.*^nxforms\s*=", re.MULTILINE | re.DOTALL)


def read_lta(path: Path, options: Options) -> Transform:
    """Read a linear transform of FreeSurfer."""
    text = read_text(path, "FreeSurfer transform")
    kind, count, rows = _TYPE.search(text), _COUNT.search(text), _ROWS.search(text)
    if kind is None or count is None or rows is None:
        raise FileFormatError(f"{path.name!r} is not an LTA of FreeSurfer: it needs type, nxforms and a 4 x 4 matrix.")
    if int(count[1]) != 1:
        raise FileFormatError(f"{path.name!r} holds {count[1]} transforms; split it, one registration is one of them.")
    matrix = _numbers(rows[1], 16, path.name).reshape(4, 4)
    code = int(kind[1])
    if code not in (_VOXELS, _RAS):
        raise FileFormatError(
            f"{path.name!r} is an LTA of type {code}; types 0 (voxels) and 1 (RAS) are read: turn it into one of them "
            f"with lta_convert --outlta OUT --ltavox2vox, or without that option."
        )
    if code == _VOXELS:
        source, destination = (_geometry(text, side, path.name) for side in ("src", "dst"))
        matrix = destination @ matrix @ np.linalg.inv(source)
    foreign = _NITRANSFORMS in text.partition("\n")[0]
    words = "FreeSurfer's file maps source (moving) to destination (fixed) points; inverted exactly."
    if foreign:
        words = "NiTransforms wrote this file, which keeps the map from reference (fixed) to moving points in it."
    about = Description(TITLE, "affine", frame="world, LPS", units="mm", assumptions=(words,), source=path.name)
    found = affine_of_ras(matrix, about)
    return found if foreign else found.inverse().described(direction="fixed_to_moving")


def _numbers(text: str, count: int, name: str) -> Floats:
    try:
        values = np.array(text.split(), dtype=np.float64)
    except ValueError:
        values = np.empty(0)
    if values.size != count or not np.isfinite(values).all():
        raise FileFormatError(f"{name!r}: expected {count} finite numbers, got {text.strip()[:60]!r}.")
    return values


def _geometry(text: str, side: str, name: str) -> Floats:
    """Return the matrix from voxels to RAS of one image."""
    part = text.partition(f"\n{side} volume info")[2].partition("\ndst volume info")[0]
    found = {}
    for key in ("valid", "volume", "voxelsize", "xras", "yras", "zras", "cras"):
        line = re.search(rf"^{key}\s*=\s*([^#\n]*)", part, re.MULTILINE)
        if line is None:
            raise FileFormatError(f"{name!r} has no {key!r} of its {side} volume, which a matrix of voxels needs.")
        found[key] = _numbers(line[1], 1 if key == "valid" else 3, name)
    if found["valid"][0] != 1:
        raise FileFormatError(f"{name!r} says that the geometry of its {side} volume is not valid, which voxels need.")
    axes = np.column_stack([found["xras"], found["yras"], found["zras"]])
    return voxels_to_ras(found["volume"], found["voxelsize"], axes, found["cras"])


def voxels_to_ras(size: Floats, spacing: Floats, axes: Floats, centre: Floats) -> Floats:
    """Return the matrix from voxels to RAS of an image, whose centre is the voxel half its size."""
    matrix = np.eye(4)
    matrix[:3, :3] = axes * spacing
    matrix[:3, 3] = centre - matrix[:3, :3] @ (size / 2)
    return matrix


def _recognise(head: bytes, suffix: str) -> int:
    return BY_SIGNATURE if b"\0" not in head and _MARK.search(head) is not None else NO


FORMAT = Format("lta", read_lta, _recognise)
