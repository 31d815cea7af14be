"""MetaImage: ``.mha``, and ``.mhd`` with its data in a file next to it; 2D and 3D."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats
from warpgauge.io.files import foreign_decoder, neighbour, read_head
from warpgauge.io.images.frame import Frame, frame_from_affine, length_unit
from warpgauge.io.images.samples import Block, image_of_block, text_reader
from warpgauge.io.images.stored import RegionReader, StoredImage

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


def open_metaimage(path: Path) -> StoredImage:
    """Describe a MetaImage file."""
    with foreign_decoder(path, "MetaImage"):
        fields, header_end = header_fields(path)
        size, channels = _size(path, fields)
        notes: list[str] = []
        frame = header_frame(path, fields, size, notes)
        shape = size[::-1] + ((channels,) if channels > 1 else ())
        dtype = sample_type(path, fields)
        read, data_path = stored_samples(path, fields, header_end, dtype, shape)
    return image_of_block(path, "MetaImage", frame, size, dtype, channels, read, data_path, notes)


def header_fields(path: Path) -> tuple[Fields, int]:
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
        key, equals, value = line.partition("=")
        if not equals or not line.isprintable():
            raise FileFormatError(
                f"{path.name!r} has the header line {line[:60]!r}, but MetaImage lines are 'Key = Value'."
            )
        fields[key.strip()] = value.strip()
        if key.strip() == "ElementDataFile":
            return fields, position
    raise FileFormatError(
        f"{path.name!r} has no ElementDataFile within its first {len(head)} bytes, so its header is truncated or "
        f"damaged."
    )


def _first(fields: Fields, *keys: str) -> str | None:
    return next((fields[key] for key in keys if key in fields), None)


def header_numbers(path: Path, key: str, text: str, count: int) -> Floats:
    """Read ``count`` numbers of a header entry."""
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.empty(0)
    if values.shape != (count,) or not np.all(np.isfinite(values)):
        raise FileFormatError(
            f"{path.name!r} has {key} = {text[:80]!r}, but {count} finite numbers are expected there."
        )
    return values


def whole_numbers(path: Path, key: str, text: str) -> int:
    """Read a whole number of a header entry."""
    try:
        return int(text)
    except ValueError:
        raise FileFormatError(
            f"{path.name!r} has {key} = {text[:40]!r}, but a whole number is expected there."
        ) from None


def _true(fields: Fields, *keys: str) -> bool:
    return (_first(fields, *keys) or "False").lower() in ("true", "1", "t", "yes")


def _size(path: Path, fields: Fields) -> tuple[tuple[int, ...], int]:
    if fields.get("ObjectType", "Image") != "Image":
        raise FileFormatError(f"{path.name!r} holds a MetaIO {fields['ObjectType']!r}, not an Image.")
    d = whole_numbers(path, "NDims", fields.get("NDims", ""))
    if d not in (2, 3):
        raise FileFormatError(f"{path.name!r} has {d} dimensions, but an image has 2 or 3; extract one image of it.")
    numbers = header_numbers(path, "DimSize", fields.get("DimSize", ""), d)
    if np.any(numbers < 1) or np.any(numbers != np.floor(numbers)) or np.any(numbers > 2**40):
        raise FileFormatError(
            f"{path.name!r} has DimSize = {fields['DimSize']!r}, but positive whole numbers are expected."
        )
    channels = whole_numbers(path, "ElementNumberOfChannels", fields.get("ElementNumberOfChannels", "1"))
    if channels not in ((1, 3, 4) if d == 2 else (1,)):
        raise FileFormatError(
            f"{path.name!r} is {d}D with {channels} channels, but 1 channel (or colours in 2D) is expected; save one "
            f"channel, or read a displacement field with read_transform."
        )
    return tuple(int(n) for n in numbers), channels


def sample_type(path: Path, fields: Fields) -> np.dtype[Any]:
    """Return the type of the stored samples, byte order included."""
    name = fields.get("ElementType", "")
    if name not in _TYPES:
        raise FileFormatError(
            f"{path.name!r} has ElementType = {name[:40]!r}, but one of {', '.join(_TYPES)} is expected."
        )
    big = _true(fields, "BinaryDataByteOrderMSB", "ElementByteOrderMSB")
    return np.dtype((">" if big else "<") + _TYPES[name])


def header_frame(path: Path, fields: Fields, size: tuple[int, ...], notes: list[str]) -> Frame:
    """Return the frame that the header describes."""
    d = len(size)
    spacing_text = _first(fields, "ElementSpacing", "ElementSize")
    origin_text = _first(fields, "Offset", "Position", "Origin")
    matrix_text = _first(fields, "TransformMatrix", "Rotation", "Orientation")
    if spacing_text is None:
        if origin_text is not None or matrix_text is not None:
            notes.append("Offset and TransformMatrix are not used, since the header has no ElementSpacing.")
        return Frame(size)
    spacing = header_numbers(path, "ElementSpacing", spacing_text, d)
    origin = np.zeros(d) if origin_text is None else header_numbers(path, "Offset", origin_text, d)
    # Each row of the text is the direction of one axis of the array, so the transpose has them as columns.
    axes = (
        np.eye(d)
        if matrix_text is None
        else header_numbers(path, "TransformMatrix", matrix_text, d * d).reshape(d, d).T
    )
    if np.any(spacing <= 0):
        raise FileFormatError(
            f"{path.name!r} has ElementSpacing = {spacing_text!r}, but positive numbers are expected."
        )
    named = length_unit(fields.get("DistanceUnits", ""))
    unit = named or ("mm", 1.0)
    if named is None:
        notes.append(
            "The header does not say the unit of length; it is taken to be mm, and the world LPS, as ITK does."
        )
    affine = np.eye(d + 1)
    affine[:d, :d] = axes * spacing * unit[1]
    affine[:d, d] = origin * unit[1]
    if not np.allclose(np.linalg.norm(axes, axis=0), 1, atol=1e-4):
        raise FileFormatError(f"{path.name!r} has a TransformMatrix whose rows are not of length 1: {matrix_text!r}.")
    return frame_from_affine(path, affine, size, unit[0])


def stored_samples(
    path: Path, fields: Fields, header_end: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> tuple[RegionReader, Path]:
    """Return a reader of regions of the samples, and the file that holds them."""
    name = fields["ElementDataFile"]
    if name.split(" ")[0].upper() == "LIST" or "%" in name:
        raise FileFormatError(f"{path.name!r} spreads its slices over several files; save it as one .mha file.")
    local = name.upper() == "LOCAL"
    data_path = path if local else neighbour(path, name)
    start = header_end if local else 0
    if not _true({"BinaryData": "True", **fields}, "BinaryData"):
        return text_reader(data_path, start, dtype, shape), data_path
    packed = _true(fields, "CompressedData")
    skip = whole_numbers(path, "HeaderSize", fields.get("HeaderSize", "0"))
    block = Block(data_path, start, dtype, shape, "zlib" if packed else "")
    if skip == -1 and not packed:
        start = data_path.stat().st_size - block.nbytes  # the samples are the last bytes of the file
    elif skip > 0:
        start += skip
    if start < 0:
        block.check()
    return Block(data_path, start, dtype, shape, block.compression).reader(), data_path
