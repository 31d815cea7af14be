"""Opening Zarr arrays of untrusted origin, for images and fields alike.

A Zarr description names the type of its numbers and the codecs of its chunks. Among the codecs that numcodecs offers is
``pickle``, which runs what the chunk says; its Blosc trusts the length in a chunk's header, so that a truncated chunk
is read beyond its end; and a description of a few bytes can promise any number of samples, a chunk of a few bytes
unfold to gigabytes. The description is therefore read and checked here, as plain JSON and against lists of what is
allowed, before the Zarr library sees the folder, and every packed chunk is checked before it is unpacked
(:mod:`warpgauge.io.zarr_chunks`).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from warpgauge.errors import FileFormatError, FileTooLargeError, WarpgaugeError
from warpgauge.io.files import read_text, require
from warpgauge.io.limits import check_memory
from warpgauge.io.zarr_chunks import check_before_decoding, checked_codecs

DESCRIPTIONS = ("zarr.json", ".zarray", ".zgroup")
_CODECS = frozenset({
    "blosc", "zstd", "lz4", "zlib", "gzip", "bz2", "lzma", "shuffle", "delta", "bitround", "quantize", "crc32",
    "adler32", "fixedscaleoffset", "bytes", "endian", "transpose", "crc32c", "sharding_indexed",
})  # fmt: skip
_TYPE_2 = re.compile(r"[<>|][biuf][1248]")
_TYPES_3 = frozenset({
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
})  # fmt: skip
_LARGEST_DESCRIPTION = 2**22
_MOST_CHUNKS = 2**26
_MOST_IN_SHARD = 2**20
_FEW_CHUNKS = 4096  # an array of more chunks than these needs chunks of at least so many samples
_LARGEST_AXIS = 2**40
_AT_ONCE = 4  # chunks that are unpacked at the same time
_LARGEST_PIECE = 2**31 - 1  # what Blosc can unpack at once


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


def open_array(folder: Path, check: Callable[[tuple[int, ...]], None] = lambda shape: None) -> Any:
    """Open an array for reading, after its description was found harmless.

    The numbers must be integers or floats, every codec must be on the list above, and neither a chunk nor the number
    of chunks may be absurd. ``check`` is given the shape, and raises where that is not what was expected.
    """
    zarr = require("zarr", "zarr")
    version = _check_description(folder, check)
    store = _regular_files()(folder, read_only=True)
    store.largest = _LARGEST_DESCRIPTION
    with zarr.config.set(checked_codecs()):
        array = zarr.open_array(store, mode="r", zarr_format=version)
    expected = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    store.largest = max(2 * expected + 2**20, _LARGEST_DESCRIPTION)
    if version == 2:
        for codec in (array.metadata.compressor, *(array.metadata.filters or ())):
            check_before_decoding(codec, expected)
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


def _check_description(folder: Path, check: Callable[[tuple[int, ...]], None]) -> int:
    """Check type, codecs and sizes, and return the version of the format."""
    name = folder.name
    kind: Any
    shape: Any
    chunks: Any
    if (folder / "zarr.json").is_file():
        found = _json(folder / "zarr.json")
        kind, shape = found.get("data_type"), found.get("shape")
        grid = found.get("chunk_grid")
        chunks = _at(_at(grid, "configuration"), "chunk_shape") if _at(grid, "name") == "regular" else None
        codecs, known, version = _names_3(name, found.get("codecs")), kind in _TYPES_3, 3
        inner = _within_shard(found.get("codecs"))
        itemsize = 1 if kind == "bool" or not known else int(re.sub(r"\D", "", str(kind))) // 8
        if _at(found.get("storage_transformers"), "name") is not None or found.get("storage_transformers"):
            raise FileFormatError(f"{name!r} stores its chunks in a way that is not read (storage_transformers).")
    else:
        found = _json(folder / ".zarray")
        kind, shape, chunks = found.get("dtype"), found.get("shape"), found.get("chunks")
        codecs = _names_2(name, [found.get("compressor"), *_list(name, found.get("filters") or [])])
        known, version, inner = isinstance(kind, str) and _TYPE_2.fullmatch(kind) is not None, 2, None
        itemsize = int(str(kind)[-1]) if known else 1
    if not known:
        raise FileFormatError(
            f"{name!r} has elements of type {str(kind)[:40]!r}, but integers and floats of up to 64 bits are read."
        )
    unknown = codecs - _CODECS
    if unknown:
        raise FileFormatError(
            f"{name!r} has chunks coded by {', '.join(sorted(unknown))[:80]}, which is not read; write it with blosc, "
            f"zstd or gzip."
        )
    _check_counts(name, shape, chunks)
    check(tuple(shape))
    if inner is not None:
        _check_shards(name, shape, chunks, inner)
    _check_sizes(name, shape, chunks, chunks if inner is None else inner, itemsize)
    return version


def _within_shard(codecs: Any) -> Any:
    """Return the shape of the chunks in a shard, which is what is unpacked at once; None without shards."""
    outer = codecs[0] if isinstance(codecs, list) and len(codecs) == 1 else None
    return _at(_at(outer, "configuration"), "chunk_shape") if _at(outer, "name") == "sharding_indexed" else None


def _check_shards(name: str, shape: Any, shards: Any, inner: Any) -> None:
    """Refuse shards whose index alone would be huge, and chunks that do not divide them."""
    _check_counts(name, shape, inner)
    if any(shard % chunk for shard, chunk in zip(shards, inner, strict=True)):
        raise FileFormatError(f"{name!r} has shards of {shards} that chunks of {inner} do not fill; it is damaged.")
    count = math.prod(shards) // math.prod(inner)
    if count > _MOST_IN_SHARD:
        raise FileTooLargeError(f"{name!r} has shards of {count} chunks; {_MOST_IN_SHARD} are read at most.")


def _check_counts(name: str, shape: Any, chunks: Any) -> None:
    for what, sizes in (("shape", shape), ("chunks", chunks)):
        whole = isinstance(sizes, list) and all(type(n) is int and 0 < n <= _LARGEST_AXIS for n in sizes)
        if not whole or not 0 < len(sizes) <= 8:
            raise FileFormatError(
                f"{name!r} has the {what} {str(sizes)[:60]}, but positive whole numbers are expected."
            )
    if len(shape) != len(chunks):
        raise FileFormatError(f"{name!r} has a shape of {len(shape)} axes but chunks of {len(chunks)}; it is damaged.")


def _check_sizes(name: str, shape: list[int], pieces: list[int], chunks: list[int], itemsize: int) -> None:
    """Check how many ``pieces`` (chunks, or shards of chunks) there are, and how large a chunk is when unpacked."""
    samples, count = math.prod(chunks), math.prod(-(-n // c) for n, c in zip(shape, pieces, strict=True))
    check_memory(name, _AT_ONCE * samples * itemsize, what=f"Unpacking {_AT_ONCE} of its chunks at once")
    if samples * itemsize > _LARGEST_PIECE:
        raise FileTooLargeError(
            f"{name!r} has chunks of {samples * itemsize} bytes, more than the {_LARGEST_PIECE} that can be unpacked "
            f"at once; write it with smaller chunks."
        )
    if count > _MOST_CHUNKS or (count > _FEW_CHUNKS and samples < _FEW_CHUNKS):
        advice = f"chunks of at least {_FEW_CHUNKS} samples" if samples < _FEW_CHUNKS else "larger chunks"
        raise FileTooLargeError(
            f"{name!r} is cut into {count} chunks of {samples} samples, which would take too long to read; write it "
            f"with {advice}."
        )


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(file, "Zarr description", _LARGEST_DESCRIPTION))
    except WarpgaugeError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{file.name!r} of {file.parent.name!r} is not JSON ({type(error).__name__}); copy the folder again."
        ) from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{file.name!r} of {file.parent.name!r} is not a JSON object; it is damaged.")
    return found


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > 20:
        raise FileFormatError(f"{name!r} describes its codecs by {str(value)[:40]!r}, but a short list is expected.")
    return value


def _names_2(name: str, codecs: list[Any]) -> set[str]:
    return {str(_at(codec, "id")) for codec in codecs if codec is not None}


def _names_3(name: str, codecs: Any, depth: int = 0) -> set[str]:
    """Return the names of codecs in a Zarr 3 description, those within shards included."""
    names: set[str] = set()
    for codec in _list(name, codecs):
        if isinstance(codec, str):
            names.add(codec)
            continue
        names.add(str(_at(codec, "name")))
        for key in ("codecs", "index_codecs"):
            inner = _at(_at(codec, "configuration"), key)
            if inner is not None and depth < 4:
                names |= _names_3(name, inner, depth + 1)
            elif inner is not None:
                names.add("shards within shards")
    return names
