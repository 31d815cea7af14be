"""Arrays in ``.npy`` and ``.npz`` files of untrusted origin: no Python objects, no array beyond the file's size."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import FileFormatError
from warpgauge.io.files import read_head
from warpgauge.io.limits import INFLATION, check_memory, check_room

_ZIP = b"PK"
_NPY = b"\x93NUMPY"
_HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_array(
    file: Path, check: Callable[[tuple[int, ...]], None] = lambda shape: None, member: str | None = None
) -> NDArray[Any]:
    """Read one array of an existing ``.npy`` or ``.npz`` file; to be called within `foreign_decoder`.

    ``check`` is given the shape before anything is allocated, and raises where that is not what was expected.
    ``member`` names the array of a ``.npz`` file, which must hold exactly one by default.
    """
    head = read_head(file, 6)
    size = file.stat().st_size
    if head == _NPY:
        with file.open("rb") as stream:
            return _from_stream(stream, file.name, size, size, check)
    if not head.startswith(_ZIP):
        raise FileFormatError(f"{file.name!r} is not a NumPy file: it starts neither as .npy nor as .npz.")
    with zipfile.ZipFile(file) as archive:
        info = _member(file, archive, member)
        with archive.open(info) as packed:
            return _from_stream(packed, file.name, min(info.file_size, size * INFLATION), size, check)


def _member(file: Path, archive: zipfile.ZipFile, wanted: str | None) -> zipfile.ZipInfo:
    members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    if wanted is not None:
        members = [info for info in members if info.filename == f"{wanted}.npy"]
    if len(members) != 1:
        names = ", ".join(info.filename.removesuffix(".npy")[:40] for info in members[:5]) or "none"
        what = "one array" if wanted is None else f"one array {wanted!r}"
        raise FileFormatError(f"{file.name!r} must hold {what}, but holds {len(members)} ({names}).")
    if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FileFormatError(f"{file.name!r} is packed in another way than NumPy packs; save it with numpy.savez.")
    return members[0]


def _from_stream(
    stream: Any, name: str, room: int, on_disk: int, check: Callable[[tuple[int, ...]], None]
) -> NDArray[Any]:
    version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
    shape, by_columns, dtype = _HEADERS.get(version, np.lib.format.read_array_header_2_0)(stream)
    if dtype.hasobject or dtype.kind not in "biufc":
        raise FileFormatError(f"{name!r} holds Python objects or text, which are not read; save plain numbers.")
    check(shape)
    needed = math.prod(shape) * dtype.itemsize
    check_room(name, needed, room, f"{math.prod(shape)} numbers")
    check_memory(name, needed, on_disk)
    data = stream.read(needed)
    if len(data) < needed:
        raise FileFormatError(f"{name!r} is truncated: {needed} bytes of numbers are promised, {len(data)} are there.")
    array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if by_columns else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)
