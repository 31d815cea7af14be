"""Levels of a pyramid: those of the file, and coarser ones made on the fly by taking means of two along each axis."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.geometry import Grid
from warpgauge.io.files import locked, write_whole
from warpgauge.io.images.stored import Array, Region, StoredImage, StoredLevel

_COARSEST = 256  # no further level once the longest side is this short
_BLOCK_BYTES = 16 * 2**20  # what one step of a reduction may read
_KEEP_BYTES = 64 * 2**20  # a made level up to this size is kept, since making it may read the whole file
_BLOCK_ROWS = 256  # steps of a multiple of this many rows decode most tiles of a file once


def halved_grid(grid: Grid) -> Grid:
    """Return the grid of means of two: an axis of odd length keeps a last element that is a mean of fewer.

    Every element keeps the extent of its block; its centre is the block's centre, so a position in the world is the
    same at each level.
    """
    factor = np.where(np.asarray(grid.size) > 1, 2, 1)
    size = tuple(-(-n // f) for n, f in zip(grid.size, factor.tolist(), strict=True))
    return Grid(size, grid.spacing * factor, grid.index_to_world((factor - 1) / 2), grid.direction, grid.units)


def halve(array: Array, d: int) -> Array:
    """Return the means of two along the first ``d`` axes, in the same type.

    Integers are rounded to the nearest, ties to even. A block with a NaN gives NaN. Labels must not be read from a made
    level: a mean of labels is not a label.
    """
    axes = [axis for axis in range(d) if array.shape[axis] > 1]
    # An odd axis has its last element doubled: the mean of a pair of the same is the mean of the one that is there.
    odd = [(0, array.shape[axis] % 2 if axis in axes else 0) for axis in range(array.ndim)]
    padded = np.pad(array, odd, mode="edge") if any(after for _, after in odd) else array
    # Sums of eight 16-bit integers are exact in single precision.
    small = array.dtype.kind in "iu" and array.dtype.itemsize <= 2
    exact: np.dtype[Any] = np.dtype(np.float32 if small else np.float64)
    weight = exact.type(0.5 ** len(axes))
    means: Array = np.zeros([n // 2 if axis in axes else n for axis, n in enumerate(padded.shape)], exact)
    with np.errstate(all="ignore"):  # infinities of opposite sign give NaN, which is what their mean is
        for corner in np.ndindex(*(2,) * len(axes)):
            start = dict(zip(axes, corner, strict=True))
            part = padded[tuple(slice(start.get(a, 0), None, 2 if a in start else 1) for a in range(array.ndim))]
            means += part * weight
    return (np.rint(means) if array.dtype.kind in "iu" else means).astype(array.dtype)


def level_grid(level: StoredLevel, base: Grid) -> Grid:
    """Return the grid of a level of the file."""
    return Grid(
        level.size,
        base.spacing * np.asarray(level.step),
        base.index_to_world(level.offset),
        base.direction,
        base.units,
    )


def _write(file: Path, overview: Array) -> None:
    data = io.BytesIO()
    np.save(data, overview, allow_pickle=False)
    write_whole(file, data.getbuffer())


class Pyramid:
    """All levels of an image, by region.

    The overview is the finest level that is made once and kept, which reads the whole file; there is none where the
    file holds such a level. ``kept_at`` is a file that keeps it for other processes.
    """

    def __init__(self, stored: StoredImage, base: Grid) -> None:
        self._stored = stored
        self.grids: list[Grid] = [base, *(level_grid(level, base) for level in stored.levels[1:])]
        while max(self.grids[-1].size) > _COARSEST:
            self.grids.append(halved_grid(self.grids[-1]))
        self._kept: dict[int, Array] = {}
        self._lock = threading.RLock()
        stored_levels = len(stored.levels)
        made = [] if self._is_kept(stored_levels - 1) else range(stored_levels, len(self.grids))
        self._first = next((level for level in made if self._is_kept(level)), None)
        self.kept_at: Path | None = None

    def region(self, level: int, region: Region) -> Array:
        """Read a region of a level, making it from the next finer one where the file does not hold it."""
        if level < len(self._stored.levels):
            return self._stored.levels[level].read(region)
        if not self._is_kept(level):
            return self._made(level, region)
        with self._lock:  # made once, whoever asks at the same time
            if level not in self._kept:
                self._kept[level] = self._shared(level) if level == self._first else self._whole(level)
        return self._kept[level][region].copy()

    def _whole(self, level: int) -> Array:
        return self._made(level, tuple(slice(0, n) for n in self.grids[level].shape))

    def _shared(self, level: int) -> Array:
        """Read the overview from its file, or make it and write that; one process makes it while the others wait."""
        if self.kept_at is None:
            return self._whole(level)
        with ExitStack() as stack:
            with suppress(OSError):  # a folder that cannot be written costs time only
                self.kept_at.parent.mkdir(exist_ok=True)
                stack.enter_context(locked(self.kept_at.with_suffix(".lock")))
            found = self._read(level)
            if found is None:
                found = self._whole(level)
                with suppress(OSError):
                    _write(self.kept_at, found)
        return found

    def make(self, file: Path) -> None:
        """Make the overview now, where the file of the image has none, and keep it in a file."""
        self.kept_at = file
        if self._first is None:
            return
        if self._first in self._kept:
            file.parent.mkdir(exist_ok=True)
            _write(file, self._kept[self._first])
        else:
            self._kept[self._first] = self._shared(self._first)

    def _read(self, level: int) -> Array | None:
        """Return the overview as it was kept, or None where there is none of this shape and type."""
        assert self.kept_at is not None
        channels = (self._stored.channels,) if self._stored.channels > 1 else ()
        try:
            # Mapped first: a header that promises more than the file has is refused before memory is taken.
            found = np.load(self.kept_at, mmap_mode="r", allow_pickle=False)
            if found.shape == (*self.grids[level].shape, *channels) and found.dtype == self._stored.dtype:
                return np.array(found)
        except (OSError, ValueError, EOFError):
            pass
        return None

    def _is_kept(self, level: int) -> bool:
        return self._bytes(self.grids[level].shape) <= _KEEP_BYTES

    def _bytes(self, shape: Sequence[int]) -> int:
        return int(np.prod([*shape, self._stored.channels], dtype=np.int64)) * self._stored.dtype.itemsize

    def _made(self, level: int, region: Region) -> Array:
        """Reduce block after block of rows (or planes), so that memory is bounded whatever the file's size."""
        finer = self.grids[level - 1].shape
        shape = [s.stop - s.start for s in region]
        channels = [self._stored.channels] if self._stored.channels > 1 else []
        out = np.empty(shape + channels, self._stored.dtype)
        step = self._rows_per_block(shape[1:])
        for start in range(region[0].start, region[0].stop, step):
            rows = slice(start, min(start + step, region[0].stop))
            source = []
            for part, n in zip((rows, *region[1:]), finer, strict=True):
                factor = 2 if n > 1 else 1
                source.append(slice(part.start * factor, min(part.stop * factor, n)))
            block = halve(self.region(level - 1, tuple(source)), len(finer))
            out[rows.start - region[0].start : rows.stop - region[0].start] = block
        return out

    def _rows_per_block(self, rest: Sequence[int]) -> int:
        per_row = self._bytes([2, *(2 * n for n in rest)])
        rows = max(1, _BLOCK_BYTES // per_row)
        return rows - rows % _BLOCK_ROWS if rows >= _BLOCK_ROWS else rows
