"""ITK's HDF5 transform files (``.h5``), as written by ITK, SimpleITK, ANTs and Slicer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import existing_file, foreign_decoder
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.headers import INFLATION, check_room
from warpgauge.io.transforms.itk_text import Entry, combine
from warpgauge.io.transforms.lattice import Vectors

FORMAT = "ITK HDF5"
SIGNATURE = b"\x89HDF\r\n\x1a\n"
_GROUP = "TransformGroup"
_MEMBERS = 1000
# Old versions of ITK wrote the second spelling.
_PARAMETERS = ("TransformParameters", "TranformParameters")
_FIXED = ("TransformFixedParameters", "TranformFixedParameters")


def read_itk_hdf5(path: Path) -> Transform:
    """Read an ITK HDF5 transform file."""
    import h5py

    file = existing_file(path, "transform")
    with foreign_decoder(file, "an ITK HDF5 transform"), h5py.File(file, "r") as store:
        entries = _entries(store, file)
    return combine(entries, FORMAT, file.name)


def _entries(store: Any, file: Path) -> list[Entry]:
    if _GROUP not in store:
        raise FileFormatError(f"{file.name!r} is an HDF5 file without {_GROUP!r}, so it is no ITK transform.")
    group = store[_GROUP]
    count = len(group)
    if count > _MEMBERS:
        raise FileFormatError(f"{file.name!r} holds {count} transforms; more than {_MEMBERS} are not read.")
    return [_entry(group, str(i), file) for i in range(count)]


def _entry(group: Any, key: str, file: Path) -> Entry:
    if key not in group or "TransformType" not in group[key]:
        raise FileFormatError(f"{file.name!r} has no type of its transform number {key}; the file is damaged.")
    stored = group[key]["TransformType"]
    if stored.size != 1:
        raise FileFormatError(f"{file.name!r} has a type of its transform number {key} that is not one text.")
    value = np.asarray(stored[()]).reshape(-1)[0]
    kind = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    parameters, fixed = (_numbers(group[key], names, file) for names in (_PARAMETERS, _FIXED))
    return Entry(kind, parameters, None if fixed is None else np.asarray(fixed, dtype=np.float64))


def _numbers(member: Any, names: tuple[str, str], file: Path) -> Vectors | None:
    found = next((member[name] for name in names if name in member), None)
    if found is None:
        return None
    if found.dtype.kind != "f":
        raise FileFormatError(f"{file.name!r}: {names[0]} are of type {found.dtype}, but must be floating point.")
    # A dataset may promise any shape and store nothing: ask what is on the disk before allocating.
    check_room(file.name, int(found.size) * found.dtype.itemsize, found.id.get_storage_size() * INFLATION, names[0])
    values = np.asarray(found[()]).reshape(-1)
    return values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64, copy=False)
