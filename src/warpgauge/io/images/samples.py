"""Formats that are a header and a block of numbers: blocks are mapped or inflated, and rescaled.

A header is a promise: nothing is allocated before it is checked against the size of the file.
"""

from __future__ import annotations

import gzip
import math
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import allowed
from warpgauge.io.images.stored import Array, Region, RegionReader
from warpgauge.io.limits import INFLATION, check_memory

GZIP = b"\x1f\x8b"  # what a gzip file begins with
_CHUNK = 2**20
_TRAILING = 4096  # bytes after the samples that raise no suspicion


@dataclass(frozen=True)
class Block:
    """A block of samples in a file, in C order.

    ``offset`` is the byte at which the block, or its packed stream, starts. ``compression`` is ``"gzip"``, ``"zlib"``
    or ``""``; ``skip`` bytes are left out after unpacking.
    """

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    compression: str = ""
    skip: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the unpacked samples, as a Python integer that cannot overflow."""
        return math.prod(map(int, self.shape)) * self.dtype.itemsize

    def check(self) -> None:
        """Refuse a block that the file cannot hold, or whose file is a link out of the folders that may be read."""
        if not allowed(self.path):
            raise FileFormatError(f"{self.path.name!r} lies outside the project's folder and is not read.")
        size = self.path.stat().st_size
        room = size - self.offset
        needed = self.skip + self.nbytes
        if room <= 0 or self.offset < 0 or needed > (room * INFLATION if self.compression else room):
            raise FileFormatError(
                f"{self.path.name!r} is truncated or its header is wrong: the header promises {needed} bytes of "
                f"samples from byte {self.offset} on, but the file has {max(room, 0)} "
                f"{'packed ' if self.compression else ''}bytes there."
            )
        if self.compression:
            check_memory(self.path.name, self.nbytes, size)

    def at_the_end(self) -> Block:
        """Return the same block as the last bytes of its file."""
        offset = self.path.stat().st_size - self.nbytes
        if offset < 0:
            self.check()
        return Block(self.path, offset, self.dtype, self.shape)

    def reader(self) -> RegionReader:
        """Return the reader of regions: by memory map where the block is plain, otherwise unpacked once and kept."""
        self.check()
        return kept(self.unpack) if self.compression else _mapped(self)

    def unpack(self) -> Array:
        """Unpack the whole block."""
        self.check()
        out = np.empty(self.nbytes, np.uint8)
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            filled = _fill(out, _unpacked(stream, self.compression), self.skip)
        if filled < out.size:
            raise FileFormatError(
                f"{self.path.name!r} is truncated: its packed samples end after {filled} of {out.size} bytes."
            )
        return native(out.view(self.dtype).reshape(self.shape))


def native(array: Array) -> Array:
    """Return the array in the byte order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def kept(load: Callable[[], Array]) -> RegionReader:
    """Return a reader of regions of an array that is loaded when first needed and then kept."""
    loaded: list[Array] = []
    lock = threading.Lock()

    def read(region: Region) -> Array:
        with lock:  # unpacked once, whoever asks at the same time
            if not loaded:
                loaded.append(load())
        return loaded[0][region].copy()

    return read


def _mapped(block: Block) -> RegionReader:
    maps: list[Array] = []

    def read(region: Region) -> Array:
        if not maps:
            block.check()  # the file may have changed since it was opened
            maps.append(np.memmap(block.path, block.dtype, "r", block.offset, block.shape))
        return native(np.array(maps[0][region]))

    return read


def _fill(out: Array, chunks: Iterator[bytes], skip: int) -> int:
    """Copy chunks into ``out`` after the first ``skip`` bytes, and read on once so that checksums are checked."""
    filled = 0
    for raw in chunks:
        chunk = raw[skip:]
        skip = max(0, skip - len(raw))
        if filled == out.size and chunk:
            break
        part = chunk[: out.size - filled]
        out[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
        filled += len(part)
    return filled


def _unpacked(stream: IO[bytes], compression: str) -> Iterator[bytes]:
    if compression == "gzip":
        with gzip.GzipFile(fileobj=stream) as opened:
            yield from iter(lambda: opened.read(_CHUNK), b"")
        return
    inflater = zlib.decompressobj()
    while not inflater.eof:
        packed = inflater.unconsumed_tail or stream.read(_CHUNK)
        chunk = inflater.decompress(packed, _CHUNK)
        if chunk:
            yield chunk
        elif not packed:
            raise EOFError("its packed samples end early")


def gzip_head(path: Path, n: int) -> bytes:
    """Return the first ``n`` bytes that a gzip file unfolds to, or fewer."""
    with path.open("rb") as stream, gzip.GzipFile(fileobj=stream) as unpacked:
        return unpacked.read(n)


def gzip_promises(path: Path, nbytes: int) -> bool:
    """Return whether a gzip file's trailer promises ``nbytes`` or a little more; a cut file's rarely does."""
    with path.open("rb") as stream:
        stream.seek(-4, 2)
        promised = int.from_bytes(stream.read(4), "little")
    return 0 <= (promised - nbytes) % 2**32 <= _TRAILING


def rescaled_dtype(stored: np.dtype[Any], slope: float, intercept: float) -> np.dtype[Any]:
    """Return the type that holds ``slope * stored + intercept``: integers where both are whole, otherwise floats."""
    if stored.kind == "f":
        return stored
    if float(slope).is_integer() and float(intercept).is_integer():
        limits = np.iinfo(stored)
        ends = sorted(int(v) * int(slope) + int(intercept) for v in (limits.min, limits.max))
        for kind in (stored, np.dtype(np.int16), np.dtype(np.int32), np.dtype(np.int64)):
            if np.iinfo(kind).min <= ends[0] and ends[1] <= np.iinfo(kind).max:
                return kind
    return np.dtype(np.float32 if stored.itemsize <= 2 else np.float64)


def rescale(array: Array, slope: float, intercept: float, dtype: np.dtype[Any]) -> Array:
    """Return ``slope * array + intercept`` in a type that `rescaled_dtype` gave."""
    if dtype.kind in "iu":
        return (array.astype(np.int64) * int(slope) + int(intercept)).astype(dtype)
    with np.errstate(all="ignore"):  # an absurd slope may overflow; the samples then are infinite, as it asks for
        return (array.astype(np.float64) * slope + intercept).astype(dtype)
