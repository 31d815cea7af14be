"""NRRD with its data inside, or in a file next to a ``.nhdr``: samples and frame; 2D and 3D."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Units
from warpgauge.io.files import neighbour, read_head
from warpgauge.io.images.frame import Frame, frame_from_affine, length_unit
from warpgauge.io.images.samples import Block
from warpgauge.io.images.volume import Volume

_HEADER_LIMIT = 2**20
_TYPES = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "i8": ("longlong", "long long", "long long int", "signed long long", "signed long long int", "int64", "int64_t"),
    "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "f4": ("float",),
    "f8": ("double",),
}
_ALIASES = {"datafile": "data file", "byteskip": "byte skip", "lineskip": "line skip", "axismins": "axis mins",
            "axismaxs": "axis maxs", "centerings": "centers"}  # fmt: skip
Fields = dict[str, str]


def open_nrrd(path: Path) -> Volume:
    """Read the header of a NRRD file."""
    fields, header_end = _fields(path)
    sizes = _sizes(path, fields)
    axis = _axis_of_numbers(path, fields, sizes)
    spatial = [place for place in range(len(sizes)) if place != axis]
    if len(spatial) not in (2, 3):
        raise FileFormatError(
            f"{path.name!r} has {len(spatial)} spatial axes (sizes {sizes}), but 2 or 3 are read; extract one image."
        )
    size = tuple(sizes[place] for place in spatial)
    notes: list[str] = []
    frame = _frame(path, fields, spatial, size, notes)
    count = 1 if axis is None else sizes[axis]
    shape = size[::-1] if count == 1 else tuple(sizes[::-1])
    block = _samples(path, fields, header_end, shape)
    # The first axis of the file is the last one of the array.
    return Volume(path, "NRRD", frame, block, count, bool(axis), sizes=tuple(sizes), header=fields, notes=notes)


def _fields(path: Path) -> tuple[Fields, int]:
    """Read the header up to its empty line; a detached header may end with the file."""
    head = read_head(path, _HEADER_LIMIT)
    end = re.search(rb"\r?\n\r?\n", head)
    if end is None and path.stat().st_size > _HEADER_LIMIT:
        raise FileFormatError(
            f"{path.name!r} has no end of its NRRD header within {_HEADER_LIMIT} bytes; it is damaged."
        )
    lines = head[: end.start() if end else len(head)].decode("latin-1").splitlines()
    if not lines or not re.fullmatch(r"NRRD000\d", lines[0].strip()):
        raise FileFormatError(
            f"{path.name!r} does not start with a NRRD0001 to NRRD0005 line; it is damaged or mislabelled."
        )
    fields: Fields = {}
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("#") or not line.strip():
            continue
        if ":=" in line:  # a free key with its value, which says nothing about the samples
            key, _, value = line.partition(":=")
            fields[f"{key.strip().lower()}:="] = value.strip()
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise FileFormatError(
                f"{path.name!r} has the header line {number} {line[:60]!r}, but 'field: value' is expected."
            )
        key = key.strip().lower()
        fields[_ALIASES.get(key, key)] = value.strip()
    return fields, end.end() if end else len(head)


def _need(path: Path, fields: Fields, key: str) -> str:
    if key not in fields:
        raise FileFormatError(f"{path.name!r} has no field {key!r}, which every NRRD needs; its header is damaged.")
    return fields[key]


def _sizes(path: Path, fields: Fields) -> list[int]:
    """Return the sizes of the axes, fastest first."""
    text = _need(path, fields, "sizes")
    words = text.split()
    if (
        not words
        or len(words) > 16
        or not all(w.isascii() and w.isdigit() and len(w) < 16 and int(w) > 0 for w in words)
    ):
        raise FileFormatError(f"{path.name!r} has sizes: {text[:80]!r}, but positive whole numbers are expected.")
    if fields.get("dimension", "").strip() != str(len(words)):
        raise FileFormatError(
            f"{path.name!r} has dimension {fields.get('dimension', 'none')[:20]!r} but {len(words)} sizes; its "
            f"header is damaged."
        )
    return [int(word) for word in words]


def _axis_of_numbers(path: Path, fields: Fields, sizes: list[int]) -> int | None:
    """Return the axis along which the numbers of a voxel stand, first or last in the file; None without one."""
    kinds = fields.get("kinds", "").lower().split() or ["???"] * len(sizes)
    directions = re.findall(r"\([^()]*\)|\S+", fields.get("space directions", "").lower())
    if len(kinds) != len(sizes):
        raise FileFormatError(f"{path.name!r} has {len(kinds)} kinds for {len(sizes)} axes; its header is damaged.")
    others = [
        axis
        for axis, kind in enumerate(kinds)
        if kind not in ("domain", "space", "???", "none")
        or (len(directions) == len(sizes) and directions[axis] == "none")
    ]
    if not others:
        return None
    if others not in ([0], [len(sizes) - 1]):
        raise FileFormatError(
            f"{path.name!r} has the sizes {sizes}, but the numbers of a voxel are expected along one axis, first or "
            f"last; extract one image."
        )
    return others[0]


def _samples(path: Path, fields: Fields, header_end: int, shape: tuple[int, ...]) -> Block:
    """Return the block of the samples, in this file or in the one that the header names."""
    name = _need(path, fields, "type").lower()
    code = next((code for code, names in _TYPES.items() if name in names), None)
    if code is None:
        raise FileFormatError(
            f"{path.name!r} has samples of type {name[:40]!r}, but an integer or float type is expected."
        )
    endian = fields.get("endian", "").lower()
    if endian not in ("little", "big") and code[1] != "1":
        raise FileFormatError(f"{path.name!r} does not say endian: little or big, which its {name} samples need.")
    dtype: np.dtype[Any] = np.dtype((">" if endian == "big" else "<") + code)
    data = fields.get("data file")
    if data is not None and (data.split(" ")[0].upper() == "LIST" or "%" in data):
        raise FileFormatError(f"{path.name!r} spreads its slices over several files; save it as one .nrrd file.")
    data_path = path if data is None else neighbour(path, data)
    start = header_end if data is None else 0
    encoding = _need(path, fields, "encoding").lower()
    if encoding not in ("raw", "gzip", "gz"):
        raise FileFormatError(f"{path.name!r} has encoding {encoding[:40]!r}, but raw and gzip are read; save it so.")
    if fields.get("line skip", "0") != "0":
        raise FileFormatError(f"{path.name!r} has lines before its samples (line skip), which is not read; save again.")
    skip = fields.get("byte skip", "0")
    if not re.fullmatch(r"-1|[0-9]{1,15}", skip):
        raise FileFormatError(f"{path.name!r} has byte skip: {skip[:40]!r}, but a whole number is expected.")
    if encoding != "raw":
        return Block(data_path, start, dtype, shape, "gzip", skip=max(int(skip), 0))
    block = Block(data_path, start + max(int(skip), 0), dtype, shape)
    return block.at_the_end() if skip == "-1" else block


_TO_LPS = {
    "left-posterior-superior": (1, 1, 1), "lps": (1, 1, 1),
    "right-anterior-superior": (-1, -1, 1), "ras": (-1, -1, 1),
    "left-anterior-superior": (1, -1, 1), "las": (1, -1, 1),
}  # fmt: skip


def _frame(path: Path, fields: Fields, spatial: list[int], size: tuple[int, ...], notes: list[str]) -> Frame:
    """Return the frame from ``space directions``, otherwise from ``spacings``, otherwise none."""
    if "space directions" in fields:
        return _oriented(path, fields, spatial, size, notes)
    if "axis mins" in fields:
        raise FileFormatError(f"{path.name!r} says by 'axis mins' where it lies, which is not read; save it with ITK.")
    if "spacings" not in fields:
        return Frame(size)
    spacings = _floats(path, "spacings", fields["spacings"], int(fields["dimension"]))[spatial]
    if not np.all(np.isfinite(spacings)):
        notes.append("The spacings are not known along every axis, so none is used.")
        return Frame(size)
    if np.any(spacings <= 0):
        raise FileFormatError(
            f"{path.name!r} has spacings: {fields['spacings'][:80]!r}, but positive numbers are expected."
        )
    units, factor = _unit(fields.get("units", ""), spatial, notes)
    return frame_from_affine(path, np.diag([*spacings * factor, 1.0]), size, units)


def _oriented(path: Path, fields: Fields, spatial: list[int], size: tuple[int, ...], notes: list[str]) -> Frame:
    d = len(size)
    vectors = _vectors(path, "space directions", fields["space directions"])
    axes = int(fields["dimension"])
    if len(vectors) != axes or any(vectors[i] is None or len(vectors[i]) != d for i in spatial):  # type: ignore[arg-type]
        raise FileFormatError(
            f"{path.name!r} has space directions {fields['space directions'][:80]!r}, but one vector of {d} numbers "
            f"for each of its {d} spatial axes is expected."
        )
    affine = np.eye(d + 1)
    affine[:d, :d] = np.array([vectors[i] for i in spatial]).T
    origin = _vectors(path, "space origin", fields["space origin"]) if "space origin" in fields else [[0.0] * d]
    if "space origin" not in fields:
        notes.append("The header has no space origin; it is taken to be 0.")
    if len(origin) != 1 or origin[0] is None or len(origin[0]) != d:
        raise FileFormatError(
            f"{path.name!r} has space origin {fields['space origin'][:80]!r}, but {d} numbers are expected."
        )
    affine[:d, d] = origin[0]
    affine[:d] *= np.asarray(_signs(fields, d, notes))[:, None]
    units, factor = _unit(fields.get("space units", ""), list(range(d)), notes)
    affine[:d] *= factor
    return frame_from_affine(path, affine, size, units)


def _signs(fields: Fields, d: int, notes: list[str]) -> tuple[int, ...]:
    space = fields.get("space", "").lower()
    signs = _TO_LPS.get(space)
    if signs is not None and d == 3:
        if signs != (1, 1, 1):
            notes.append(f"The world {fields['space']!r} is turned into LPS.")
        return signs
    if d == 3:
        notes.append(f"The world of the file is {fields.get('space', 'not named')!r}; it is read as LPS, as ITK does.")
    return (1,) * d


def _unit(text: str, axes: list[int], notes: list[str]) -> tuple[Units, float]:
    names = re.findall(r'"([^"]*)"', text)
    found = {length_unit(names[i]) if i < len(names) else None for i in axes}
    if len(found) == 1 and None not in found:
        units, factor = found.pop()  # type: ignore[misc]  # None was excluded
        return units, factor
    notes.append("The header does not say one unit of length for all axes; it is taken to be mm.")
    return "mm", 1.0


def _floats(path: Path, key: str, text: str, count: int) -> Floats:
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.empty(0)
    if values.shape != (count,):
        raise FileFormatError(f"{path.name!r} has {key}: {text[:80]!r}, but {count} numbers are expected.")
    return values


def _vectors(path: Path, key: str, text: str) -> list[list[float] | None]:
    vectors: list[list[float] | None] = []
    for word in re.findall(r"\([^()]*\)|\S+", text):
        if word.lower() == "none":
            vectors.append(None)
            continue
        try:
            vectors.append([float(number) for number in word.strip("()").split(",")])
        except ValueError:
            raise FileFormatError(
                f"{path.name!r} has {key}: {text[:80]!r}, but vectors (a,b,c) are expected."
            ) from None
    return vectors
