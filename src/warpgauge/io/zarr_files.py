"""Zarr: reading arrays of untrusted origin, and writing an array as OME-Zarr.

A Zarr description names the type of its numbers and the codecs of its chunks. Among the codecs that numcodecs offers is
``pickle``, which runs what the chunk says; its Blosc trusts the length in a chunk's header, so that a truncated chunk
is read beyond its end; and a description of a few bytes can promise any number of samples, a chunk of a few bytes
unfold to gigabytes. The description is therefore read and checked here, as plain JSON and against lists of what is
allowed, before the Zarr library sees the folder, and every packed chunk is checked before it is unpacked.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import FileFormatError, FileTooLargeError, WarpgaugeError
from warpgauge.geometry import Grid
from warpgauge.io.files import read_text, require
from warpgauge.io.limits import INFLATION, check_memory

_DESCRIPTIONS = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
_CODECS = frozenset({"blosc", "zstd", "zlib", "gzip", "bytes", "transpose", "crc32c", "sharding_indexed"})
_TYPE_2 = re.compile(r"[<>|][biuf][1248]")
_TYPE_3 = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")
_LARGEST_DESCRIPTION = 2**22
_MOST_CHUNKS = 2**26
_MOST_IN_SHARD = 2**20
_FEW_CHUNKS = 4096  # an array of more chunks than these needs chunks of at least so many samples
_LARGEST_AXIS = 2**40
_AT_ONCE = 4  # chunks that are unpacked at the same time
_LARGEST_PIECE = 2**31 - 1  # what Blosc can unpack at once


def is_zarr(folder: Path) -> bool:
    """Return whether a folder is the root of a Zarr hierarchy."""
    return any((folder / mark).is_file() for mark in _DESCRIPTIONS)


def zarr_attributes(folder: Path) -> dict[str, Any]:
    """Return the attributes of a group or an array."""
    if (folder / "zarr.json").is_file():
        attributes = _json(folder / "zarr.json").get("attributes", {})
    else:
        for name in (".zgroup", ".zarray"):
            if (folder / name).is_file() and _json(folder / name).get("zarr_format") != 2:
                raise FileFormatError(f"{folder.name!r} has a {name} that is not of Zarr version 2; it is damaged.")
        attributes = _json(folder / ".zattrs") if (folder / ".zattrs").is_file() else {}
    if not isinstance(attributes, dict):
        raise FileFormatError(f"{folder.name!r} has attributes that are not a JSON object; it is damaged.")
    return attributes


def open_array(folder: Path) -> Any:
    """Open an array for reading, after its description was found harmless.

    The numbers must be integers or floats, every codec must be on the list above, and neither a chunk nor the number
    of chunks may be absurd.
    """
    zarr = require("zarr", "zarr")
    described = _described(folder)
    _check(folder.name, described)
    store = _regular_files()(folder, read_only=True)
    store.largest = _LARGEST_DESCRIPTION
    with zarr.config.set(_checked_codecs()):
        array = zarr.open_array(store, mode="r", zarr_format=described.version)
    expected = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    store.largest = max(2 * expected + 2**20, _LARGEST_DESCRIPTION)
    if described.version == 2 and array.metadata.compressor is not None:
        _check_before_decoding(array.metadata.compressor, expected)
    return array


@cache
def _regular_files() -> Any:
    """Return a store that reads regular files of a bounded size only: a chunk can be a pipe, a device or a hole."""
    from zarr.storage import LocalStore

    class RegularFiles(LocalStore):  # type: ignore[misc]  # zarr is an extra, without types here
        largest: int

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            file = self.root / key
            if os.path.lexists(file):
                if not file.is_file():
                    raise FileFormatError(
                        f"{key!r} of {self.root.name!r} is not a regular file; copy the folder again."
                    )
                size = file.stat().st_size
                if size > self.largest:
                    raise FileTooLargeError(
                        f"{key!r} of {self.root.name!r} has {size} bytes, more than a chunk can have; it is damaged."
                    )
            return await super().get(key, prototype, byte_range)

    return RegularFiles


class _Description(NamedTuple):
    """What a description says, unchecked: a piece is a file, a chunk what is unpacked at once."""

    version: int
    kind: Any
    shape: Any
    pieces: Any
    chunks: Any
    codecs: set[str]


def _described(folder: Path) -> _Description:
    name = folder.name
    if not (folder / "zarr.json").is_file():
        content = _json(folder / ".zarray")
        codecs = [content.get("compressor"), *_list(name, content.get("filters") or [])]
        names = {str(_at(codec, "id")) for codec in codecs if codec is not None}
        chunks = content.get("chunks")
        return _Description(2, content.get("dtype"), content.get("shape"), chunks, chunks, names)
    content = _json(folder / "zarr.json")
    if content.get("storage_transformers"):
        raise FileFormatError(f"{name!r} stores its chunks in a way that is not read (storage_transformers).")
    grid = content.get("chunk_grid")
    pieces = _at(_at(grid, "configuration"), "chunk_shape") if _at(grid, "name") == "regular" else None
    codecs = _list(name, content.get("codecs"))
    chunks = pieces
    if len(codecs) == 1 and _at(codecs[0], "name") == "sharding_indexed":
        chunks = _at(_at(codecs[0], "configuration"), "chunk_shape")
    return _Description(3, content.get("data_type"), content.get("shape"), pieces, chunks, _names(name, codecs))


def _names(name: str, codecs: list[Any], within: bool = False) -> set[str]:
    """Return the names of codecs in a Zarr 3 description, those within shards included."""
    names: set[str] = set()
    for codec in codecs:
        names.add(codec if isinstance(codec, str) else str(_at(codec, "name")))
        for key in ("codecs", "index_codecs"):
            inner = _at(_at(codec, "configuration"), key)
            if inner is not None and within:
                names.add("shards within shards")
            elif inner is not None:
                names |= _names(name, _list(name, inner), within=True)
    return names


def _check(name: str, described: _Description) -> None:
    """Refuse types, codecs and sizes that are not harmless."""
    allowed = _TYPE_2 if described.version == 2 else _TYPE_3
    if not isinstance(described.kind, str) or not allowed.fullmatch(described.kind):
        raise FileFormatError(
            f"{name!r} has elements of type {str(described.kind)[:40]!r}, but integers and floats of up to 64 bits are "
            f"read."
        )
    unknown = described.codecs - _CODECS
    if unknown:
        raise FileFormatError(
            f"{name!r} has chunks coded by {', '.join(sorted(unknown))[:80]}, which is not read; write it with blosc, "
            f"zstd or gzip."
        )
    shape = described.shape
    pieces = described.pieces
    chunks = described.chunks
    for what, sizes in (("shape", shape), ("chunks", pieces), ("chunks", chunks)):
        whole = isinstance(sizes, list) and all(type(n) is int and 0 < n <= _LARGEST_AXIS for n in sizes)
        if not whole or not 0 < len(sizes) <= 8:
            raise FileFormatError(
                f"{name!r} has the {what} {str(sizes)[:60]}, but positive whole numbers are expected."
            )
        if len(shape) != len(sizes):
            raise FileFormatError(
                f"{name!r} has a shape of {len(shape)} axes but chunks of {len(sizes)}; it is damaged."
            )
    if any(piece % chunk for piece, chunk in zip(pieces, chunks, strict=True)):
        raise FileFormatError(f"{name!r} has shards of {pieces} that chunks of {chunks} do not fill; it is damaged.")
    in_shard = math.prod(pieces) // math.prod(chunks)
    if in_shard > _MOST_IN_SHARD:
        raise FileTooLargeError(f"{name!r} has shards of {in_shard} chunks; {_MOST_IN_SHARD} are read at most.")
    samples = math.prod(chunks)
    size = samples * np.dtype(described.kind).itemsize
    check_memory(name, _AT_ONCE * size, what=f"Unpacking {_AT_ONCE} of its chunks at once")
    if size > _LARGEST_PIECE:
        raise FileTooLargeError(
            f"{name!r} has chunks of {size} bytes, more than the {_LARGEST_PIECE} that can be unpacked at once; write "
            f"it with smaller chunks."
        )
    count = math.prod(-(-n // piece) for n, piece in zip(shape, pieces, strict=True))
    if count > _MOST_CHUNKS or (count > _FEW_CHUNKS and samples < _FEW_CHUNKS):
        advice = f"chunks of at least {_FEW_CHUNKS} samples" if samples < _FEW_CHUNKS else "larger chunks"
        raise FileTooLargeError(
            f"{name!r} is cut into {count} chunks of {samples} samples, which would take too long to read; write it "
            f"with {advice}."
        )


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(file, "Zarr description", _LARGEST_DESCRIPTION))
    except WarpgaugeError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{file.name!r} of {file.parent.name!r} is not JSON ({type(error).__name__}); copy the folder again."
        ) from error
    if not isinstance(content, dict):
        raise FileFormatError(f"{file.name!r} of {file.parent.name!r} is not a JSON object; it is damaged.")
    return content


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > 20:
        raise FileFormatError(f"{name!r} describes its codecs by {str(value)[:40]!r}, but a short list is expected.")
    return value


_BLOSC_HEADER = 16
_ZSTD_FRAME = 0xFD2FB528
_ZSTD_SKIPPED = 0x184D2A50
_ZSTD_BLOCK = 2**17
_PIECE = 2**20


def _check_packed(codec: str, chunk: Any, expected: int) -> None:
    """Refuse a packed chunk that would unfold to much more than the expected bytes, before it is unpacked."""
    view = memoryview(chunk).cast("B")
    limit = 2 * expected + 2**20
    size = 0
    if codec == "blosc":
        promised = int.from_bytes(view[12:_BLOSC_HEADER], "little") if len(view) >= _BLOSC_HEADER else -1
        if promised != len(view):
            raise ValueError(f"a Blosc chunk has {len(view)} bytes but its header says {promised}")
        size = int.from_bytes(view[4:8], "little")
    elif codec == "zstd":
        size = _zstd_bound(view)
    elif codec in ("gzip", "zlib") and len(view) * INFLATION > limit:
        stream = zlib.decompressobj(31 if codec == "gzip" else zlib.MAX_WBITS)
        rest = bytes(view)
        while rest and not stream.eof and size <= limit:
            size += len(stream.decompress(rest, _PIECE))
            rest = stream.unconsumed_tail
    if size > limit:
        raise ValueError(f"a chunk that holds {expected} bytes would unfold to {size} or more")


def _zstd_bound(packed: memoryview) -> int:
    """Return the most that a Zstandard stream can unfold to, without unpacking it.

    A frame that states its size is not unpacked beyond it; of another, the headers of its blocks are a bound.
    """
    at = 0
    total = 0
    while at + 4 < len(packed):
        magic = int.from_bytes(packed[at : at + 4], "little")
        at += 4
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPED:
            at += 4 + int.from_bytes(packed[at : at + 4], "little")
            continue
        if magic != _ZSTD_FRAME:
            break  # the decoder says what is wrong
        flags = packed[at]
        single = flags >> 5 & 1
        width = (single, 2, 4, 8)[flags >> 6]  # of the field with the size
        at += 1 + (1 - single) + (0, 1, 2, 4)[flags & 3]
        stated = int.from_bytes(packed[at : at + width], "little") + (256 if width == 2 else 0)
        at += width
        blocks = 0
        last = False
        while not last and at + 3 <= len(packed):
            header = int.from_bytes(packed[at : at + 3], "little")
            last = bool(header & 1)
            kind = header >> 1 & 3
            size = header >> 3
            at += 3 + (1 if kind == 1 else size)
            blocks += size if kind < 2 else _ZSTD_BLOCK
        total += stated if width else blocks
        at += 4 if flags >> 2 & 1 else 0
    return total


def _check_before_decoding(codec: Any, expected: int) -> None:
    """Put the check before the decoder of a Zarr 2 codec."""
    decode = codec.decode

    def checked(chunk: Any, out: Any = None) -> Any:
        _check_packed(str(codec.codec_id), chunk, expected)
        return decode(chunk, out)

    codec.decode = checked


@cache
def _checked_codecs() -> dict[str, str]:
    """Register codecs of Zarr 3 with the check, and return the settings by which zarr finds them."""
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
    from zarr.registry import register_codec

    settings = {}
    for name, base in (("blosc", BloscCodec), ("gzip", GzipCodec), ("zstd", ZstdCodec)):
        kind = _checked_codec(name, base)
        qualified = f"{kind.__module__}.{kind.__name__}"
        register_codec(name, kind, qualname=qualified)
        settings[f"codecs.{name}"] = qualified
    return settings


def _checked_codec(name: str, base: Any) -> Any:
    async def decode_single(self: Any, chunk_bytes: Any, chunk_spec: Any) -> Any:
        expected = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize
        _check_packed(name, chunk_bytes.to_bytes(), expected)
        return await base._decode_single(self, chunk_bytes, chunk_spec)

    return type(f"Checked{base.__name__}", (base,), {"_decode_single": decode_single, "__module__": __name__})


_UNITS = {"um": "micrometer", "mm": "millimeter"}
_CHUNK = {2: 512, 3: 64}  # elements along an axis of a chunk: 2^18 in all
_CHUNKS = {2: 8, 3: 4}  # chunks along an axis of a shard, which is one file: 2^24 elements, 64 MB of float32
_COMPRESSION = 3  # level of Zstandard


def write_ome_zarr(values: NDArray[Any], grid: Grid, folder: Path) -> None:
    """Write an array ``[z, ]y, x``, perhaps with components on a last axis, as OME-Zarr (NGFF 0.5 on Zarr 3)."""
    zarr = require("zarr", "zarr")
    has_components = values.ndim > grid.d
    axes: list[dict[str, str]] = [{"name": "c", "type": "channel"}] if has_components else []
    for axis in "zyx"[3 - grid.d :]:
        unit = {"unit": _UNITS[grid.units]} if grid.units in _UNITS else {}
        axes.append({"name": axis, "type": "space", **unit})
    placed = [
        {"type": "scale", "scale": [1.0] * has_components + grid.spacing[::-1].tolist()},
        {"type": "translation", "translation": [0.0] * has_components + grid.origin[::-1].tolist()},
    ]
    datasets = [{"path": "0", "coordinateTransformations": placed}]
    multiscale = {"name": folder.name.partition(".")[0], "axes": axes, "datasets": datasets}
    store = require("zarr.storage", "zarr").LocalStore(folder)
    attributes = {"ome": {"version": "0.5", "multiscales": [multiscale]}}
    group = zarr.create_group(store, zarr_format=3, attributes=attributes)
    data = np.moveaxis(values, -1, 0) if has_components else values
    chunks = [min(n, _CHUNK[grid.d]) for n in grid.shape]
    shards = [c * min(_CHUNKS[grid.d], -(-n // c)) for n, c in zip(grid.shape, chunks, strict=True)]
    array = group.create_array(
        "0",
        shape=data.shape,
        chunks=(*[1] * has_components, *chunks),
        shards=(*data.shape[: data.ndim - grid.d], *shards),
        dtype=data.dtype,
        fill_value=np.nan if data.dtype.kind == "f" else 0,
        compressors=zarr.codecs.ZstdCodec(level=_COMPRESSION),
        dimension_names=[axis["name"] for axis in axes],
    )
    array[...] = data
