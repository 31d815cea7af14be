"""NRRD with its data inside, or in a file next to a ``.nhdr``: samples and frame; 2D and 3D."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Units
from warpgauge.io.files import foreign_decoder, neighbour, read_head
from warpgauge.io.images.frame import Frame, frame_from_affine, length_unit
from warpgauge.io.images.samples import Block, image_of_block, text_reader
from warpgauge.io.images.stored import RegionReader, StoredImage

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
_ENCODINGS = {"raw": "", "gzip": "gzip", "gz": "gzip", "bzip2": "bzip2", "bz2": "bzip2"}
_TEXT = ("text", "txt", "ascii")
_ALIASES = {"datafile": "data file", "byteskip": "byte skip", "lineskip": "line skip", "axismins": "axis mins",
            "axismaxs": "axis maxs", "centerings": "centers"}  # fmt: skip
_COLOURS = ("rgb-color", "3-color", "rgba-color", "4-color", "vector", "3-vector", "4-vector", "list")
Fields = dict[str, str]


def open_nrrd(path: Path) -> StoredImage:
    """Describe a NRRD file."""
    with foreign_decoder(path, "NRRD"):
        fields, header_end = header_fields(path)
        sizes = header_sizes(path, fields)
        notes: list[str] = []
        spatial, channels = _layout(path, fields, sizes, notes)
        size = tuple(sizes[i] for i in spatial)
        frame = nrrd_frame(path, fields, spatial, size, notes)
        shape = size[::-1] + ((channels,) if channels > 1 else ())
        dtype = sample_type(path, fields)
        read, data_path = stored_samples(path, fields, header_end, dtype, shape)
    return image_of_block(path, "NRRD", frame, size, dtype, channels, read, data_path, notes)


def header_fields(path: Path) -> tuple[Fields, int]:
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


def header_sizes(path: Path, fields: Fields) -> list[int]:
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


def _layout(path: Path, fields: Fields, sizes: list[int], notes: list[str]) -> tuple[list[int], int]:
    """Return the spatial axes (x first) and the number of channels; colours come first in the file."""
    kinds = fields.get("kinds", "").lower().split() or ["???"] * len(sizes)
    directions = fields.get("space directions", "").split()
    if len(kinds) != len(sizes):
        raise FileFormatError(f"{path.name!r} has {len(kinds)} kinds for {len(sizes)} axes; its header is damaged.")
    spatial = [
        i
        for i, kind in enumerate(kinds)
        if kind in ("domain", "space", "???", "none")
        and not (len(directions) == len(sizes) and directions[i].lower() == "none")
    ]
    others = [i for i in range(len(sizes)) if i not in spatial]
    if (
        len(spatial) == 2
        and others == [0]
        and sizes[0] in (1, 3, 4)
        and kinds[0] in (*_COLOURS, "???", "domain", "none")
    ):
        if sizes[0] > 1:
            notes.append(f"The first axis of {sizes[0]} ({kinds[0]}) is read as red, green, blue.")
        return spatial, sizes[0]
    if len(spatial) not in (2, 3) or any(sizes[i] > 1 for i in others):
        raise FileFormatError(
            f"{path.name!r} has {len(spatial)} spatial axes and {len(others)} others (sizes {sizes}), but 2 or 3 "
            f"spatial axes and one channel (or colours in 2D) are expected; extract one image, or read a "
            f"displacement field with read_transform."
        )
    return spatial, 1


def sample_type(path: Path, fields: Fields) -> np.dtype[Any]:
    """Return the type of the stored samples, byte order included."""
    name = _need(path, fields, "type").lower()
    code = next((code for code, names in _TYPES.items() if name in names), None)
    if code is None:
        raise FileFormatError(
            f"{path.name!r} has samples of type {name[:40]!r}, but an integer or float type is expected."
        )
    endian = fields.get("endian", "").lower()
    if endian not in ("little", "big"):
        if code[1] != "1" and fields.get("encoding", "").lower() not in _TEXT:
            raise FileFormatError(f"{path.name!r} does not say endian: little or big, which its {name} samples need.")
        endian = "little"
    return np.dtype(("<" if endian == "little" else ">") + code)


def stored_samples(
    path: Path, fields: Fields, header_end: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> tuple[RegionReader, Path]:
    """Return a reader of regions of the samples, and the file that holds them."""
    name = fields.get("data file")
    if name is not None and (name.split(" ")[0].upper() == "LIST" or "%" in name):
        raise FileFormatError(f"{path.name!r} spreads its slices over several files; save it as one .nrrd file.")
    data_path = path if name is None else neighbour(path, name)
    start = header_end if name is None else 0
    encoding = _need(path, fields, "encoding").lower()
    skip = {key: _skip(path, fields, key) for key in ("line skip", "byte skip")}
    start = _after_lines(data_path, start, skip["line skip"])
    if encoding in _TEXT:
        return text_reader(data_path, start, dtype, shape), data_path
    if encoding not in _ENCODINGS:
        raise FileFormatError(f"{path.name!r} has encoding {encoding[:40]!r}; raw, gzip, bzip2 and text are read.")
    packed = _ENCODINGS[encoding]
    if skip["byte skip"] == -1 and not packed:
        start = data_path.stat().st_size - Block(data_path, 0, dtype, shape).nbytes
        if start < 0:
            Block(data_path, 0, dtype, shape).check()
        return Block(data_path, start, dtype, shape).reader(), data_path
    after = max(skip["byte skip"], 0)
    if packed:
        return Block(data_path, start, dtype, shape, packed, skip=after).reader(), data_path
    return Block(data_path, start + after, dtype, shape).reader(), data_path


def _skip(path: Path, fields: Fields, key: str) -> int:
    text = fields.get(key, "0")
    if not re.fullmatch(r"-?[0-9]{1,15}", text) or int(text) < -1:
        raise FileFormatError(f"{path.name!r} has {key}: {text[:40]!r}, but a whole number is expected.")
    return int(text)


def _after_lines(path: Path, start: int, lines: int) -> int:
    with path.open("rb") as stream:
        stream.seek(start)
        for _ in range(max(lines, 0)):
            if not stream.readline(_HEADER_LIMIT):
                raise FileFormatError(f"{path.name!r} ends before the {lines} lines that its header says to skip.")
        return stream.tell()


_TO_LPS = {
    "left-posterior-superior": (1, 1, 1), "lps": (1, 1, 1),
    "right-anterior-superior": (-1, -1, 1), "ras": (-1, -1, 1),
    "left-anterior-superior": (1, -1, 1), "las": (1, -1, 1),
}  # fmt: skip


def nrrd_frame(path: Path, fields: Fields, spatial: list[int], size: tuple[int, ...], notes: list[str]) -> Frame:
    """Return the frame from ``space directions``, otherwise from ``spacings``, otherwise none."""
    axes = int(fields["dimension"])
    if "space directions" in fields:
        return _oriented(path, fields, spatial, size, notes)
    if "spacings" not in fields:
        return Frame(size)
    spacings = _floats(path, "spacings", fields["spacings"], axes)[spatial]
    if not np.all(np.isfinite(spacings)):
        notes.append("The spacings are not known along every axis, so none is used.")
        return Frame(size)
    if np.any(spacings <= 0):
        raise FileFormatError(
            f"{path.name!r} has spacings: {fields['spacings'][:80]!r}, but positive numbers are expected."
        )
    units, factor = _unit(fields.get("units", ""), spatial, notes)
    affine = np.diag([*spacings, 1.0])
    affine[:-1, -1] = _axis_origin(path, fields, spatial, spacings, notes)
    affine[:-1] *= factor
    return frame_from_affine(path, affine, size, units)


def _axis_origin(path: Path, fields: Fields, spatial: list[int], spacings: Floats, notes: list[str]) -> Floats:
    if "axis mins" not in fields:
        return np.zeros(len(spatial))
    mins = _floats(path, "axis mins", fields["axis mins"], int(fields["dimension"]))[spatial]
    centers = fields.get("centers", "").lower().split()
    node = [len(centers) > i and centers[i] == "node" for i in spatial]
    notes.append("The origin comes from 'axis mins': the first centre for node-centred axes, otherwise its outer edge.")
    return np.where(node, mins, mins + spacings / 2)


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
