"""The two images as the page wants them: raw tiles of 8 or 16 bits, which the browser colours.

Samples of any other type are rescaled linearly to 16 bits; ``value = scale * sample + offset`` gives them back.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.geometry import Floats
from warpgauge.io.images import Image
from warpgauge.project.document import grid_to_dict
from warpgauge.web.planes import in_plane
from warpgauge.web.sharpness import sharpness

TILE = 256
MOST_SHOWN = 6  # channels at once; more colours than that cannot be distinguished
_CACHE_BYTES = 128 * 2**20
_TOP = 65535


@dataclass(frozen=True)
class Rescaling:
    """How samples become those that are sent: ``sample = round((value - offset) / scale)``, in this type."""

    dtype: str
    scale: float
    offset: float

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the samples to send, little-endian; non-finite values become 0, the others are cut to the range."""
        kind, top = ("u1", 255) if self.dtype == "uint8" else ("<u2", _TOP)
        if self.scale == 1.0 and values.dtype.kind in "biu":
            exact = values if self.offset == 0 else values.astype(np.int64) - int(self.offset)
            return np.ascontiguousarray(exact, dtype=kind)
        scaled = np.rint((np.nan_to_num(values.astype(np.float64), nan=self.offset) - self.offset) / self.scale)
        return np.ascontiguousarray(np.clip(scaled, 0, top), dtype=kind)


def rescaling(image: Image) -> Rescaling:
    """Choose how an image is sent: as it is where it has 8 or 16 bits, else over the range of its values.

    Where a few samples lie so far out that 16 bits would show little of the rest, the range ends nearer; samples
    beyond it are shown as its ends.
    """
    dtype = image.dtype
    if dtype.kind == "b" or dtype == np.uint8:
        return Rescaling("uint8", 1.0, 0.0)
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        return Rescaling("uint16", 1.0, float(np.iinfo(dtype).min))
    low, first, last, high = image.percentiles((0, 0.1, 99.9, 100)).tolist()
    bulk = last - first
    if bulk > 0 and high - low > 64 * bulk:
        low, high = max(low, first - 8 * bulk), min(high, last + 8 * bulk)
    span = (high - low) / _TOP
    if not np.isfinite(span) or span <= 0:
        span = 1.0
    return Rescaling("uint16", span, low)


class TiledImage:
    """An image of the project, ready to be sent in tiles; its content's hash goes into the tags of the tiles.

    What must be learned from its samples (range, window, sharpness) is computed when it is first asked for: a volume
    is unpacked whole for that.
    """

    def __init__(self, image: Image, content_hash: str) -> None:
        self.image, self.grid = image.apart or image, image.grid
        self._gray = image
        self.version = hashlib.sha256(content_hash.encode()).hexdigest()[:16]
        self._learning = threading.RLock()
        self._tiles: OrderedDict[tuple[int, ...], NDArray[Any]] = OrderedDict()
        self._bytes, self._lock = 0, threading.Lock()
        self.given_up = False  # the overview cannot be made: whoever asks for a tile is told why

    @property
    def rescaling(self) -> Rescaling:
        """How its samples become those that are sent."""
        with self._learning:
            return self._rescaling

    @cached_property
    def _rescaling(self) -> Rescaling:
        return rescaling(self.image)

    @cached_property
    def _sharpness(self) -> float:
        return sharpness(self._gray)

    @cached_property
    def _window(self) -> tuple[float, float]:
        """Between which samples, as they are sent, the page should first show dark to bright."""
        if self.image.channels > 1 and self.rescaling.dtype == "uint8":
            return 0.0, 255.0
        return self._as_sent(self.image.percentiles((1, 99)))

    @cached_property
    def _channels(self) -> list[dict[str, Any]]:
        """Name and first window of each channel, where they are not colours."""
        names = self.image.channel_names
        if not names:
            return []
        windows = self.image.channel_percentiles((1, 99.8))
        return [{"name": name, "window": self._as_sent(ends)} for name, ends in zip(names, windows, strict=True)]

    def _as_sent(self, ends: Floats) -> tuple[float, float]:
        low, high = ((ends - self.rescaling.offset) / self.rescaling.scale).tolist()
        return (low, high) if high > low else (low, low + 1.0)

    def describe(self) -> dict[str, Any]:
        """Return what the page must know of the image."""
        grid, image = self.grid, self.image
        with self._learning:
            window, length, apart = self._window, self._sharpness, self._channels
        levels = [image.level_grid(level) for level in range(image.levels)]
        return {
            **grid_to_dict(grid),
            "channels": image.channels,
            "dtype": self.rescaling.dtype,
            "scale": self.rescaling.scale,
            "offset": self.rescaling.offset,
            "sharpness": length,
            "window": list(window),
            "apart": apart,
            "levels": [
                {"size": list(g.size), "spacing": g.spacing.tolist(), "origin": g.origin.tolist()} for g in levels
            ],
            "overview": self.overview(),
            "tile": TILE,
            "version": self.version,
            "name": image.path.name,
        }

    def overview(self) -> dict[str, int]:
        """Return how many rows of the image's overview are made, and of how many."""
        done, rows = self.image.overview
        return {"done": rows if self.given_up else done, "rows": rows}

    def plane_shape(self, axis: int, index: int, level: int) -> tuple[int, int]:
        """Rows and columns of a plane; raises where there is none."""
        if not 0 <= level < self.image.levels:
            raise InvalidInputError(f"The image has levels 0 to {self.image.levels - 1}, not {level}.")
        grid = self.image.level_grid(level)
        column, row = in_plane(grid.d, axis)
        planes = grid.size[axis] if grid.d == 3 else 1
        if not 0 <= index < planes:
            raise InvalidInputError(
                f"The image has planes 0 to {planes - 1} along {'xyz'[axis]} at level {level}, not {index}."
            )
        return grid.size[row], grid.size[column]

    def chosen(self, samples: NDArray[Any], text: str) -> NDArray[Any]:
        """Return the channels ``0,3,4`` of samples, in that order; all of them where none are named."""
        if not text:
            return samples
        count = len(self.image.channel_names)
        try:
            wanted = [int(part) for part in text.split(",")]
        except ValueError:
            wanted = [-1]
        if len(wanted) > MOST_SHOWN or not all(0 <= channel < count for channel in wanted):
            raise InvalidInputError(
                f"Channels must be written as 0,3,4: at most {MOST_SHOWN} numbers below {count}, the channels that "
                f"this image has apart."
            )
        return np.ascontiguousarray(samples[..., wanted])

    def tile(self, axis: int, index: int, level: int, row: int, column: int) -> NDArray[Any]:
        """Return a tile ``[row, column(, channel)]`` as it is sent; those at the end of a plane are smaller."""
        rows, columns = self.plane_shape(axis, index, level)
        if not (0 <= row * TILE < rows and 0 <= column * TILE < columns):
            raise InvalidInputError(
                f"The plane of {rows} x {columns} has tiles of rows 0 to {(rows - 1) // TILE} and columns 0 to "
                f"{(columns - 1) // TILE}, not row {row}, column {column}."
            )
        key = (axis, index, level, row, column)
        with self._lock:
            if key in self._tiles:
                self._tiles.move_to_end(key)
                return self._tiles[key]
        y0, x0 = row * TILE, column * TILE
        values = self.image.tile(axis, index, level, y0, x0, min(TILE, rows - y0), min(TILE, columns - x0))
        samples = self.rescaling.apply(values)
        self._keep(key, samples)
        return samples

    def _keep(self, key: tuple[int, ...], samples: NDArray[Any]) -> None:
        with self._lock:
            if key not in self._tiles:
                self._tiles[key] = samples
                self._bytes += samples.nbytes
            while self._bytes > _CACHE_BYTES and len(self._tiles) > 1:
                _, old = self._tiles.popitem(last=False)
                self._bytes -= old.nbytes

    def warm(self) -> None:
        """Make the levels that the file does not hold, so that the first picture does not wait for them."""
        try:
            for level in reversed(range(self.image.levels)):
                depth = self.image.level_grid(level).size[2] if self.grid.d == 3 else 1
                self.tile(2, depth // 2, level, 0, 0)
        except WarpgaugeError:
            self.given_up = True
            raise
