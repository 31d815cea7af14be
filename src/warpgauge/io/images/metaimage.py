"""MetaImage: ``.mha``, and ``.mhd`` with its data in a file next to it; 2D and 3D."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import finite_numbers, neighbour, read_head
from warpgauge.io.images.frame import Frame, frame_from_affine, length_unit
from warpgauge.io.images.samples import Block
from warpgauge.io.images.volume import Volume

_HEADER_LIMIT = 2**16
_TYPES = {
    "MET_CHAR": "i1", "MET_UCHAR": "u1", "MET_SHORT": "i2", "MET_USHORT": "u2", "MET_INT": "i4", "MET_UINT": "u4",
    "MET_LONG": "i4", "MET_ULONG": "u4", "MET_LONG_LONG": "i8", "MET_ULONG_LONG": "u8", "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}  # fmt: skip
Fields = dict[str, str]


def looks_like_metaimage(head: bytes) -> bool:
    """Return whether a file starts with ``Key = Value`` lines of which one is NDims."""
    first = head.lstrip()[:64].split(b"\n")[0]
    return b"=" in first and b"NDims" in head


def open_metaimage(path: Path) -> Volume:
    """Read the header of a MetaImage file."""
    fields, header_end = _fields(path)
    if fields.get("ObjectType", "Image") != "Image":
        raise FileFormatError(f"{path.name!r} holds a MetaIO {fields['ObjectType']!r}, not an Image.")
    d = _whole_number(path, "NDims", fields.get("NDims", ""))
    if d not in (2, 3):
        raise FileFormatError(f"{path.name!r} has {d} dimensions, but 2 or 3 are read; extract one image of it.")
    size = _size(path, fields, d)
    count = _whole_number(path, "ElementNumberOfChannels", fields.get("ElementNumberOfChannels", "1"))
    if count < 1:
        raise FileFormatError(f"{path.name!r} has ElementNumberOfChannels = {count}; its header is damaged.")
    notes: list[str] = []
    frame = _frame(path, fields, size, notes)
    shape = size[::-1] + ((count,) if count > 1 else ())
    block = _samples(path, fields, header_end, shape)
    return Volume(path, "MetaImage", frame, block, count, sizes=size, header=fields, notes=notes)


def _fields(path: Path) -> tuple[Fields, int]:
    """Read the header's fields; ElementDataFile is the last one, and LOCAL data start on the next line."""
    head = read_head(path, _HEADER_LIMIT)
    fields: Fields = {}
    position = 0
    while position < len(head):
        end = head.find(b"\n", position)
        end = len(head) if end < 0 else end
        line = head[position:end].decode("latin-1").strip()
        position = end + 1
        if not line:
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not line.isprintable():
            raise FileFormatError(
                f"{path.name!r} has the header line {line[:60]!r}, but MetaImage lines are 'Key = Value'."
            )
        fields[key] = value
        if key == "ElementDataFile":
            return fields, position
    raise FileFormatError(
        f"{path.name!r} has no ElementDataFile within its first {len(head)} bytes, so its header is truncated or "
        f"damaged."
    )


def _whole_number(path: Path, key: str, text: str) -> int:
    """Read a whole number of a header entry."""
    try:
        return int(text)
    except ValueError:
        raise FileFormatError(
            f"{path.name!r} has {key} = {text[:40]!r}, but a whole number is expected there."
        ) from None


def _size(path: Path, fields: Fields, d: int) -> tuple[int, ...]:
    numbers = finite_numbers(fields.get("DimSize", "").split(), path.name, "DimSize", d)
    if np.any(numbers < 1) or np.any(numbers != np.floor(numbers)) or np.any(numbers > 2**40):
        raise FileFormatError(
            f"{path.name!r} has DimSize = {fields['DimSize']!r}, but positive whole numbers are expected."
        )
    return tuple(int(n) for n in numbers)


def _first(fields: Fields, *keys: str) -> str | None:
    return next((fields[key] for key in keys if key in fields), None)


def _true(fields: Fields, *keys: str) -> bool:
    return (_first(fields, *keys) or "False").lower() in ("true", "1", "t", "yes")


def _frame(path: Path, fields: Fields, size: tuple[int, ...], notes: list[str]) -> Frame:
    d = len(size)
    spacing_text = _first(fields, "ElementSpacing", "ElementSize")
    origin_text = _first(fields, "Offset", "Position", "Origin")
    matrix_text = _first(fields, "TransformMatrix", "Rotation", "Orientation")
    if spacing_text is None:
        if origin_text is not None or matrix_text is not None:
            notes.append("Offset and TransformMatrix are not used, since the header has no ElementSpacing.")
        return Frame(size)
    spacing = finite_numbers(spacing_text.split(), path.name, "ElementSpacing", d)
    if np.any(spacing <= 0):
        raise FileFormatError(
            f"{path.name!r} has ElementSpacing = {spacing_text!r}, but positive numbers are expected."
        )
    origin = np.zeros(d) if origin_text is None else finite_numbers(origin_text.split(), path.name, "Offset", d)
    axes = np.eye(d)
    if matrix_text is not None:
        # Each row of the text is the direction of one axis of the array, so the transpose has them as columns.
        axes = finite_numbers(matrix_text.split(), path.name, "TransformMatrix", d * d).reshape(d, d).T
    if not np.allclose(np.linalg.norm(axes, axis=0), 1, atol=1e-4):
        raise FileFormatError(f"{path.name!r} has a TransformMatrix whose rows are not of length 1: {matrix_text!r}.")
    named = length_unit(fields.get("DistanceUnits", ""))
    if named is None:
        notes.append(
            "The header does not say the unit of length; it is taken to be mm, and the world LPS, as ITK does."
        )
    units, factor = named or ("mm", 1.0)
    affine = np.eye(d + 1)
    affine[:d, :d] = axes * spacing * factor
    affine[:d, d] = origin * factor
    return replace(frame_from_affine(path, affine, size, units), factor=factor)


def _samples(path: Path, fields: Fields, header_end: int, shape: tuple[int, ...]) -> Block:
    """Return the block of the samples, in this file or in the one that the header names."""
    kind = fields.get("ElementType", "")
    if kind not in _TYPES:
        raise FileFormatError(
            f"{path.name!r} has ElementType = {kind[:40]!r}, but one of {', '.join(_TYPES)} is expected."
        )
    big = _true(fields, "BinaryDataByteOrderMSB", "ElementByteOrderMSB")
    dtype: np.dtype[Any] = np.dtype((">" if big else "<") + _TYPES[kind])
    if not _true({"BinaryData": "True", **fields}, "BinaryData"):
        raise FileFormatError(f"{path.name!r} has samples written as text, which are not read; save it in binary form.")
    name = fields["ElementDataFile"]
    if name.split(" ")[0].upper() == "LIST" or "%" in name:
        raise FileFormatError(f"{path.name!r} spreads its slices over several files; save it as one .mha file.")
    local = name.upper() == "LOCAL"
    data_path = path if local else neighbour(path, name)
    start = header_end if local else 0
    if _true(fields, "CompressedData"):
        return Block(data_path, start, dtype, shape, "zlib")
    skip = _whole_number(path, "HeaderSize", fields.get("HeaderSize", "0"))
    block = Block(data_path, start + max(skip, 0), dtype, shape)
    return block.at_the_end() if skip == -1 else block
