"""ITK transform files: text and HDF5, and the MATLAB form that ANTs writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, warn_suspicious
from warpgauge.geometry import Floats
from warpgauge.io.files import existing_file, foreign_decoder, read_head, read_text
from warpgauge.io.limits import INFLATION, check_memory, check_parts
from warpgauge.io.transforms import ants
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Format, Transform, check_room
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field import Vectors
from warpgauge.io.transforms.itk_types import itk_transform, split_type

COMPOSITE = "CompositeTransform"
TEXT_FORMAT = "ITK text"
TEXT_SIGNATURE = b"#Insight Transform File"
# A dense field written as text has about 20 bytes per number; this is a field of 256^3.
_LIMIT = 2**30


@dataclass
class Entry:
    """One transform of an ITK file, as stored."""

    type_name: str
    parameters: Vectors | None = None
    fixed_parameters: Floats | None = None


def read_itk_text(path: Path) -> Transform:
    """Read an ITK text transform file."""
    text = read_text(path, "ITK transform file", _LIMIT)
    if not text.startswith(TEXT_SIGNATURE.decode()):
        raise FileFormatError(
            f"{path.name!r} is not an ITK transform file: its first line is not '#Insight Transform File V1.0'."
        )
    if not text.endswith("\n"):
        warn_suspicious(
            f"{path.name} does not end with a line end, as ITK writes it, so its last number may be cut; check it."
        )
    return combine(_text_entries(text, path.name), TEXT_FORMAT, path.name)


def _text_entries(text: str, name: str) -> list[Entry]:
    entries: list[Entry] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise FileFormatError(f"{name!r}, line {number}: expected 'Key: values', got {line[:60]!r}.")
        if key == "Transform":
            entries.append(Entry(value.strip()))
            check_parts(name, len(entries) - 1)  # the first is the composite itself
        elif key in ("Parameters", "FixedParameters"):
            if not entries:
                raise FileFormatError(f"{name!r}, line {number}: {key!r} comes before any 'Transform:' line.")
            numbers = _text_numbers(value, name, number)
            if key == "Parameters":
                entries[-1].parameters = numbers
            else:
                entries[-1].fixed_parameters = numbers
        else:
            raise FileFormatError(f"{name!r}, line {number}: unknown key {key[:60]!r} in an ITK transform file.")
    return entries


def _text_numbers(value: str, name: str, line: int) -> Floats:
    try:
        return np.array(value.split(), dtype=np.float64)
    except ValueError as error:
        raise FileFormatError(f"{name!r}, line {line}: some of its values are not numbers.") from error


def combine(entries: list[Entry], file_format: str, name: str) -> Transform:
    """Make one transform of the entries of a file.

    A composite stands first and has no parameters; its members follow, and **the last of them is applied first**.
    """
    if not entries:
        raise FileFormatError(f"{name!r} holds no transform.")
    kinds = [split_type(entry.type_name, name)[0] for entry in entries]
    if kinds[0] != COMPOSITE:
        if len(entries) > 1:
            raise AmbiguousFileError(
                f"{name!r} holds {len(entries)} transforms without a CompositeTransform that says how to apply them; "
                f"split it and give its parts as a list of files, in the order of application to points."
            )
        return _one(entries[0], file_format, name)
    if COMPOSITE in kinds[1:]:
        raise FileFormatError(f"{name!r} holds a composite within a composite, which ITK does not write; flatten it.")
    if len(entries) == 1:
        raise FileFormatError(f"{name!r} holds a composite without members, so it maps nothing.")
    members = [_one(entry, file_format, name) for entry in reversed(entries[1:])]
    if len({member.d for member in members}) > 1:
        raise FileFormatError(f"{name!r} mixes 2D and 3D transforms in one composite.")
    chain = Chain(members)
    note = "ITK composites apply the last stored transform first; the members are listed in the order of application."
    return chain.described(source=name, assumptions=(note, *chain.description.assumptions))


def _one(entry: Entry, file_format: str, name: str) -> Transform:
    if entry.parameters is None or entry.fixed_parameters is None:
        missing = "parameters" if entry.parameters is None else "fixed parameters"
        raise FileFormatError(f"{name!r} has no {missing} of its {entry.type_name[:60]}; it is truncated.")
    return itk_transform(entry.type_name, entry.parameters, entry.fixed_parameters, file_format, name)


HDF5_FORMAT = "ITK HDF5"
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_GROUP = "TransformGroup"
# Old versions of ITK wrote the second spelling.
_PARAMETERS = ("TransformParameters", "TranformParameters")
_FIXED = ("TransformFixedParameters", "TranformFixedParameters")


def read_itk_hdf5(path: Path) -> Transform:
    """Read an ITK HDF5 transform file."""
    import h5py

    file = existing_file(path, "transform")
    with foreign_decoder(file, "an ITK HDF5 transform"), h5py.File(file, "r") as store:
        entries = _hdf5_entries(store, file)
    return combine(entries, HDF5_FORMAT, file.name)


def _hdf5_entries(store: Any, file: Path) -> list[Entry]:
    if _GROUP not in store:
        raise FileFormatError(f"{file.name!r} is an HDF5 file without {_GROUP!r}, so it is not an ITK transform.")
    group = own_member(store, _GROUP, file)
    count = len(group)
    check_parts(file.name, count - 1)
    return [_entry(group, str(i), file) for i in range(count)]


def _entry(group: Any, key: str, file: Path) -> Entry:
    if key not in group or "TransformType" not in own_member(group, key, file):
        raise FileFormatError(f"{file.name!r} has no type of its transform number {key}; the file is damaged.")
    stored = own_member(own_member(group, key, file), "TransformType", file)
    if stored.size != 1:
        raise FileFormatError(f"{file.name!r} has a type of its transform number {key} that is not one text.")
    value = np.asarray(stored[()]).reshape(-1)[0]
    kind = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    parameters, fixed = (_hdf5_numbers(own_member(group, key, file), names, file) for names in (_PARAMETERS, _FIXED))
    return Entry(kind, parameters, None if fixed is None else np.asarray(fixed, dtype=np.float64))


def own_member(group: Any, key: str, file: Path) -> Any:
    """Return a member that this very file holds; HDF5 can also point into other files, which are not read."""
    import h5py

    link = group.get(key, getlink=True)
    found = group[key] if isinstance(link, h5py.HardLink) else None
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        found = None
    if found is None:
        raise FileFormatError(
            f"{file.name!r} keeps {key!r} in another file (an HDF5 link, virtual data or external storage), which is "
            f"not read; save the transform as one file."
        )
    return found


def _hdf5_numbers(member: Any, names: tuple[str, str], file: Path) -> Vectors | None:
    name = next((name for name in names if name in member), None)
    if name is None:
        return None
    found = own_member(member, name, file)
    if found.dtype.kind != "f":
        raise FileFormatError(f"{file.name!r}: {names[0]} are of type {found.dtype}, but must be floating point.")
    # A dataset may promise any shape and store nothing: ask what is on the disk before allocating.
    needed, stored = int(found.size) * found.dtype.itemsize, found.id.get_storage_size()
    check_room(file.name, needed, stored * INFLATION, names[0])
    check_memory(file.name, needed, stored)
    values = np.asarray(found[()]).reshape(-1)
    return values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64, copy=False)


def read_itk(path: Path) -> Transform:
    """Read an ITK transform file, text or HDF5 by its content, or the MATLAB form of ANTs."""
    head = read_head(path, 64)
    if head.startswith(HDF5_SIGNATURE):
        return read_itk_hdf5(path)
    if ants.looks_like_mat4(head):
        return ants.read_mat(path)
    return read_itk_text(path)


def _recognise(head: bytes, suffix: str) -> int:
    known = head.startswith(HDF5_SIGNATURE) or head.removeprefix(b"\xef\xbb\xbf").startswith(TEXT_SIGNATURE)
    return BY_SIGNATURE if known else NO


FORMATS = (
    Format("itk", lambda path, options: read_itk(path), _recognise),
    Format(
        "ants",
        lambda path, options: read_itk(path),
        lambda head, suffix: BY_SIGNATURE if ants.looks_like_mat4(head) else NO,
    ),
)
