"""Checks of packed Zarr chunks before they are unpacked: what they would unfold to, whatever their headers claim."""

from __future__ import annotations

import bz2
import lzma
import math
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

from warpgauge.io.limits import INFLATION

_BLOSC_HEADER = 16
_ZSTD_FRAME, _ZSTD_SKIPPED, _ZSTD_BLOCK = 0xFD2FB528, 0x184D2A50, 2**17
_PIECE = 2**20


def check_packed(codec: str, chunk: Any, expected: int) -> None:
    """Refuse a packed chunk that would unfold to much more than the expected bytes, before it is unpacked."""
    view = memoryview(chunk).cast("B")
    limit = 2 * expected + 2**20
    if codec == "blosc":
        promised = int.from_bytes(view[12:_BLOSC_HEADER], "little") if len(view) >= _BLOSC_HEADER else -1
        if promised != len(view):
            raise ValueError(f"a Blosc chunk has {len(view)} bytes but its header says {promised}")
        size = int.from_bytes(view[4:8], "little")
    elif codec == "lz4":
        size = int.from_bytes(view[:4], "little")
    elif codec == "zstd":
        size = zstd_bound(view)
    elif codec in _STREAMS:
        size = _counted(_STREAMS[codec](), view, limit)
    else:
        return
    if size > limit:
        raise ValueError(f"a chunk that holds {expected} bytes would unfold to {size} or more")


_STREAMS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "zlib": zlib.decompressobj,
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}


def _counted(stream: Any, packed: memoryview, limit: int) -> int:
    """Count what a stream unfolds to, up to a little more than the limit."""
    if isinstance(stream, bz2.BZ2Decompressor | lzma.LZMADecompressor):
        count, data = 0, bytes(packed)
        while not stream.eof and count <= limit:
            part = stream.decompress(data, _PIECE)
            if not part and not data:
                break
            count, data = count + len(part), b""
        return count
    if len(packed) * INFLATION <= limit:
        return 0
    count, rest = 0, bytes(packed)
    while rest and not stream.eof and count <= limit:
        count += len(stream.decompress(rest, _PIECE))
        rest = stream.unconsumed_tail
    return count


def zstd_bound(packed: memoryview) -> int:
    """Return the most that a Zstandard stream can unfold to, by the headers of its blocks, without unpacking it."""
    at, total = 0, 0
    while at + 4 < len(packed):
        magic = int.from_bytes(packed[at : at + 4], "little")
        at += 4
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPED:
            at += 4 + int.from_bytes(packed[at : at + 4], "little")
            continue
        if magic != _ZSTD_FRAME:
            break  # the decoder says what is wrong
        flags = packed[at]
        single, field = flags >> 5 & 1, (0, 2, 4, 8)[flags >> 6]
        at += 1 + (1 - single) + (0, 1, 2, 4)[flags & 3] + (field or single)
        last = False
        while not last and at + 3 <= len(packed):
            header = int.from_bytes(packed[at : at + 3], "little")
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            at += 3 + (1 if kind == 1 else size)
            total += size if kind < 2 else _ZSTD_BLOCK
        at += 4 if flags >> 2 & 1 else 0
    return total


def check_before_decoding(codec: Any, expected: int) -> None:
    """Put the check before the decoder of a Zarr 2 codec."""
    if codec is None:
        return
    name, decode = str(codec.codec_id), codec.decode

    def checked(chunk: Any, out: Any = None) -> Any:
        check_packed(name, chunk, expected)
        return decode(chunk, out)

    codec.decode = checked


@cache
def checked_codecs() -> dict[str, str]:
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
        check_packed(name, chunk_bytes.to_bytes(), expected)
        return await base._decode_single(self, chunk_bytes, chunk_spec)

    return type(f"Checked{base.__name__}", (base,), {"_decode_single": decode_single, "__module__": __name__})
