"""The ``.mat`` files of ANTs: one ITK transform in MATLAB's version 4 format.

The file holds two matrices: one named after the ITK type, as ``AffineTransform_double_3_3``, with the parameters, and
``fixed`` with the fixed parameters. The format is simple enough to be read here with every length checked first.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats
from warpgauge.io.files import existing_file, read_head
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.itk_types import itk_transform

TITLE = "ANTs .mat"
_LIMIT = 2**20
_TYPES = {0: "f8", 1: "f4"}


def looks_like_mat4(head: bytes) -> bool:
    """Return whether a file starts with the header of a version 4 matrix of floats, in either byte order."""
    return _byte_order(head) is not None


def _byte_order(head: bytes) -> str | None:
    if len(head) < 20:
        return None
    for order, machine in (("<", 0), (">", 1)):
        kind, rows, columns, imaginary, name = struct.unpack(order + "5i", head[:20])
        if (
            kind in (1000 * machine, 1000 * machine + 10)
            and rows >= 0
            and columns >= 0
            and imaginary == 0
            and 1 < name < 256
        ):
            return order
    return None


def read_mat(path: Path) -> Transform:
    """Read a ``.mat`` file of ANTs."""
    file = existing_file(path, "transform")
    size = file.stat().st_size
    if size > _LIMIT:
        raise FileFormatError(f"{file.name!r} has {size} bytes, far more than a linear transform needs.")
    matrices = _matrices(read_head(file, _LIMIT), file.name)
    kinds = [name for name in matrices if name != "fixed"]
    if len(kinds) != 1 or len(matrices) != 2:
        found = ", ".join(repr(name) for name in list(matrices)[:5])
        raise FileFormatError(f"{file.name!r} must hold one ITK transform and 'fixed', but holds {found}.")
    return itk_transform(kinds[0], matrices[kinds[0]], matrices["fixed"], TITLE, file.name)


def _matrices(data: bytes, name: str) -> dict[str, Floats]:
    order = _byte_order(data)
    if order is None:
        raise FileFormatError(f"{name!r} is not a MATLAB version 4 file, as the .mat files of ANTs are.")
    found: dict[str, Floats] = {}
    place = 0
    while place < len(data):
        if len(data) - place < 20:
            raise FileFormatError(f"{name!r} is truncated: {len(data) - place} bytes are left over at its end.")
        kind, rows, columns, imaginary, letters = struct.unpack_from(order + "5i", data, place)
        dtype = _TYPES.get(kind % 100 // 10)
        if dtype is None or kind % 10 or imaginary or rows < 0 or columns < 0 or not 1 < letters < 256:
            raise FileFormatError(f"{name!r} holds a matrix that is not of real floating point numbers.")
        start = place + 20 + letters
        end = start + rows * columns * int(dtype[1])
        if end > len(data):
            raise FileFormatError(f"{name!r} is truncated: a matrix of {rows} x {columns} does not fit into it.")
        title = data[place + 20 : start - 1].decode("latin-1")
        if title in found:
            raise FileFormatError(f"{name!r} holds two matrices named {title[:60]!r}.")
        found[title] = np.frombuffer(data[start:end], dtype=order + dtype).astype(np.float64)
        place = end
    return found
