"""Opening Zarr arrays of untrusted origin: only codecs that cannot do harm, and Blosc with the check that it lacks.

A Zarr description names the codecs of its chunks. Among those that numcodecs offers is ``pickle``, which runs what the
chunk says; and its Blosc trusts the length in a chunk's header, so that a truncated chunk is read beyond its end.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from warpgauge.errors import FileFormatError

_HARMLESS = {
    "blosc", "zstd", "lz4", "zlib", "gzip", "bz2", "lzma", "shuffle", "delta", "bitround", "quantize", "crc32",
    "adler32", "fixedscaleoffset", "bytes", "transpose", "crc32c", "sharding_indexed",
}  # fmt: skip
_BLOSC_HEADER = 16


def open_checked_array(zarr: Any, path: Path) -> Any:
    """Open an array for reading, refusing codecs that are not known to be harmless."""
    with zarr.config.set({"codecs.blosc": _checked_blosc()}):
        array = zarr.open_array(path, mode="r")
    metadata = array.metadata
    if metadata.zarr_format == 2:
        codecs = [codec for codec in (metadata.compressor, *(metadata.filters or ())) if codec is not None]
        names = {str(codec.codec_id) for codec in codecs}
        for codec in codecs:
            _check_before_decoding(codec)
    else:
        names = _names([codec.to_dict() for codec in metadata.codecs])
    unknown = names - _HARMLESS
    if unknown:
        raise FileFormatError(
            f"{path.name!r} has chunks coded by {', '.join(sorted(unknown))}, which is not read; write it with "
            f"blosc, zstd or gzip."
        )
    return array


def _names(codecs: Any) -> set[str]:
    """Give the names of codecs in a Zarr 3 description, those within shards included."""
    names: set[str] = set()
    for codec in codecs:
        names.add(str(codec.get("name")))
        configuration = codec.get("configuration") or {}
        for key in ("codecs", "index_codecs"):
            names |= _names(configuration.get(key, ()))
    return names


def check_blosc(chunk: Any) -> None:
    """Hold the length in a Blosc chunk's header against the bytes that are there."""
    view = memoryview(chunk).cast("B")
    promised = int.from_bytes(view[12:_BLOSC_HEADER], "little") if len(view) >= _BLOSC_HEADER else -1
    if promised != len(view):
        raise ValueError(f"a Blosc chunk has {len(view)} bytes but its header says {promised}")


def _check_before_decoding(codec: Any) -> None:
    """Put the check before the decoder of a Zarr 2 codec, if it is Blosc."""
    if codec.codec_id != "blosc":
        return
    decode = codec.decode

    def checked(chunk: Any, out: Any = None) -> Any:
        check_blosc(chunk)
        return decode(chunk, out)

    codec.decode = checked


@cache
def _checked_blosc() -> str:
    """Register a Blosc codec of Zarr 3 with the check, and give the name by which zarr finds it."""
    from zarr.codecs import BloscCodec
    from zarr.registry import register_codec

    class CheckedBlosc(BloscCodec):  # type: ignore[misc]  # zarr has no types here
        """Blosc that refuses chunks of another length than their header says."""

        async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            check_blosc(chunk_bytes.to_bytes())
            return await super()._decode_single(chunk_bytes, chunk_spec)

    name = f"{CheckedBlosc.__module__}.CheckedBlosc"
    register_codec("blosc", CheckedBlosc, qualname=name)
    return name
