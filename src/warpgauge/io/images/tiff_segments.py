"""The chain of a TIFF's directories, and strips and tiles of one page: decode only those that a region meets."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from warpgauge.errors import FileFormatError, FileTooLargeError
from warpgauge.io.images.stored import Array, Region, RegionReader
from warpgauge.io.limits import check_memory

# Zstandard unfolds a byte to at most about 2**15, the other codecs to far less.
_EXPANSION = 2**16
_ENTRIES = 4096  # more tags than any page has
_LARGEST_TAG = 2**28  # bytes of one tag, other than the tables of strips and tiles
_TABLES = frozenset({273, 279, 324, 325})
_ITEM_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}


@dataclass(frozen=True)
class _Layout:
    """How a page is cut: ``planes`` separate samples, each of ``rows x columns`` segments of ``height x width``."""

    planes: int
    rows: int
    columns: int
    height: int
    width: int
    contiguous_samples: int

    @classmethod
    def of(cls, path: Path, page: Any) -> _Layout:
        planes, depth, length, width, samples = (int(n) for n in page.shaped)
        tile_height, tile_width = (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, width)
        tile_height = int(tile_height)
        tile_width = int(tile_width)
        if depth != 1 or min(planes, length, width, samples, tile_height, tile_width) < 1:
            raise FileFormatError(f"{path.name!r} has a page cut in a way that is not supported or damaged.")
        return cls(planes, -(-length // tile_height), -(-width // tile_width), tile_height, tile_width, samples)

    @property
    def count(self) -> int:
        return self.planes * self.rows * self.columns


def check_directories(path: Path) -> None:
    """Refuse a chain of directories that runs in a circle, which a library would follow for ever, and huge tags."""
    length = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(16)
        order: Literal["little", "big"] = "little" if head[:2] == b"II" else "big"
        big = int.from_bytes(head[2:4], order) == 43  # BigTIFF: longer counts, entries and offsets
        count_size, entry_size, offset_size = (8, 20, 8) if big else (2, 12, 4)
        offset = int.from_bytes(head[8:16] if big else head[4:8], order)
        seen: set[int] = set()
        entry = struct.Struct(("<" if order == "little" else ">") + ("HHQQ" if big else "HHII"))
        while 0 < offset < length:
            if offset in seen:
                raise FileFormatError(f"{path.name!r} has pages that follow each other in a circle; it is damaged.")
            seen.add(offset)
            stream.seek(offset)
            entries = int.from_bytes(stream.read(count_size), order)
            if entries > _ENTRIES:
                return  # the library stops there too
            for tag, kind, count, _ in _entries(stream.read(entries * entry_size), entry):
                size = count * _ITEM_SIZES.get(kind, 1)
                if _LARGEST_TAG < size <= length and tag not in _TABLES:
                    raise FileTooLargeError(
                        f"{path.name!r} has a tag ({tag}) of {size} bytes, more than the {_LARGEST_TAG} that are read; "
                        f"save it again without it."
                    )
            offset = int.from_bytes(stream.read(offset_size), order)


def _entries(data: bytes, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    return entry.iter_unpack(data[: len(data) // entry.size * entry.size])


def page_reader(path: Path, keyframe: Any, page: Any) -> RegionReader:
    """Return a reader of regions ``[y, x, sample]`` of a page.

    The file is opened for each region and closed after it, so that nothing stays open and threads do not meet.
    """
    layout = _Layout.of(path, keyframe)
    offsets = tuple(page.dataoffsets)
    counts = tuple(page.databytecounts)
    _check(path, keyframe, layout, offsets, counts)
    decode = keyframe.decode
    tables = page.jpegtables
    dtype = np.dtype(keyframe.dtype)
    fill = keyframe.nodata

    def segment(stream: IO[bytes], index: int) -> Array | None:
        if counts[index] == 0:
            return None  # a sparse file leaves empty segments out
        stream.seek(offsets[index])
        data, _, shape = decode(stream.read(counts[index]), index, jpegtables=tables)
        return None if data is None else np.asarray(data).reshape(shape)[0]

    def read(region: Region) -> Array:
        rows, columns = region
        height = rows.stop - rows.start
        width = columns.stop - columns.start
        out = np.full((layout.planes, height, width, layout.contiguous_samples), fill, dtype)
        with path.open("rb") as stream:
            for plane in range(layout.planes):
                for r in range(rows.start // layout.height, -(-rows.stop // layout.height)):
                    for c in range(columns.start // layout.width, -(-columns.stop // layout.width)):
                        piece = segment(stream, (plane * layout.rows + r) * layout.columns + c)
                        if piece is not None:
                            _paste(out[plane], piece, r * layout.height - rows.start, c * layout.width - columns.start)
        return out[0] if layout.planes == 1 else np.concatenate(list(out), axis=-1)

    return read


def _paste(out: Array, piece: Array, top: int, left: int) -> None:
    """Copy the part of ``piece``, whose corner lies at (top, left) of ``out``, that falls within ``out``."""
    bottom = min(top + piece.shape[0], out.shape[0])
    right = min(left + piece.shape[1], out.shape[1])
    part = piece[max(-top, 0) : bottom - top, max(-left, 0) : right - left]
    out[max(top, 0) : bottom, max(left, 0) : right] = part


def _check(path: Path, page: Any, layout: _Layout, offsets: tuple[int, ...], counts: tuple[int, ...]) -> None:
    """Hold the directory against the file before anything is allocated."""
    size = path.stat().st_size
    if len(offsets) != layout.count or len(counts) != layout.count:
        raise FileFormatError(
            f"{path.name!r} lists {len(offsets)} strips or tiles, but its size needs {layout.count}; it is truncated "
            f"or damaged."
        )
    ends = np.add(np.asarray(offsets, dtype=object), np.asarray(counts, dtype=object))
    if int(max(ends)) > size or min(offsets) < 0 or min(counts) < 0:
        raise FileFormatError(
            f"{path.name!r} is truncated: its last strip or tile ends at byte {int(max(ends))}, but the file has "
            f"{size}."
        )
    itemsize = 1 if page.dtype is None else np.dtype(page.dtype).itemsize
    unpacked = layout.height * layout.width * layout.contiguous_samples * itemsize
    page_bytes = layout.rows * layout.height * layout.width * layout.contiguous_samples * itemsize
    if min(unpacked, page_bytes) > _EXPANSION * max(*counts, 1):
        raise FileFormatError(
            f"{path.name!r} promises {unpacked} bytes in one strip or tile of {max(counts)}, which cannot be; it is "
            f"damaged."
        )
    # The unpacked segment, and what the decoder makes of it.
    check_memory(path.name, 2 * min(unpacked, page_bytes), size, "One strip or tile of it")
