"""An image as the page wants it: raw tiles of 8 or 16 bits, which the browser colours.

Samples of any other type are rescaled linearly to 16 bits; ``value = scale * sample + offset`` gives them back.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.images import Image
from warpgauge.web.cache import CACHE
from warpgauge.web.planes import plane_axes
from warpgauge.web.wire import Given, Numbers, Rows

TILE = 256
MOST_SHOWN = 6  # channels at once; more colours than that cannot be distinguished
_MOST_HELD = 2**30  # bytes of an image that a reader keeps; a larger one is read in parts
_TOP = 65535


class Level(Given):
    """A level of an image's pyramid."""

    size: list[int]
    spacing: Numbers
    origin: Numbers


class ChannelAnswer(Given):
    """A channel that is shown in a colour of one's choice; ``window`` is shown dark to bright at first."""

    name: str
    window: list[float]


class ImageAnswer(Given):
    """An image: where it lies, and how its tiles are read (``value = scale * sample + offset``).

    ``window`` are samples, as they are sent, to be shown dark and bright at first; ``apart`` are the channels where
    they are not grey or red, green, blue. Tiles that are asked for with v=version may be kept for good.
    """

    size: list[int]
    spacing: Numbers
    origin: Numbers
    direction: Rows
    units: str
    channels: int
    dtype: Literal["uint8", "uint16"]
    scale: float
    offset: float
    window: list[float]
    apart: list[ChannelAnswer]
    levels: list[Level]
    tile: int
    version: str
    name: str


@dataclass(frozen=True)
class Rescaling:
    """How samples become those that are sent: ``sample = round((value - offset) / scale)``, in this type."""

    dtype: Literal["uint8", "uint16"]
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
        low = max(low, first - 8 * bulk)
        high = min(high, last + 8 * bulk)
    span = (high - low) / _TOP
    return Rescaling("uint16", span if np.isfinite(span) and span > 0 else 1.0, low)


class TiledImage:
    """An image of the project, ready to be sent in tiles; its content's hash goes into the tags of the tiles.

    What must be learned from its samples (range, window) is computed when it is first asked for: a volume is unpacked
    whole for that.
    """

    def __init__(self, image: Image, content_hash: str) -> None:
        self.image = image.apart or image
        self.grid = image.grid
        self.version = hashlib.sha256(content_hash.encode()).hexdigest()[:16]
        self._learning = threading.RLock()

    @property
    def nbytes(self) -> int:
        """Memory that its reader may keep, about: the image where it is read whole, and its coarser levels."""
        levels = (self.image.level_grid(level).count for level in range(self.image.levels))
        return min(_MOST_HELD, sum(levels) * self.image.channels * self.image.dtype.itemsize)

    @property
    def rescaling(self) -> Rescaling:
        """How its samples become those that are sent."""
        with self._learning:
            return self._rescaling

    @cached_property
    def _rescaling(self) -> Rescaling:
        return rescaling(self.image)

    @cached_property
    def _window(self) -> list[float]:
        if self.image.channels > 1 and self.rescaling.dtype == "uint8":
            return [0.0, 255.0]
        return self._as_sent(_window_of(self.image.percentiles(np.linspace(0, 100, 1001).tolist())))

    @cached_property
    def _channels(self) -> list[ChannelAnswer]:
        names = self.image.channel_names
        if not names:
            return []
        windows = self.image.channel_percentiles((1, 99.8))
        pairs = zip(names, windows, strict=True)
        return [ChannelAnswer(name=name, window=self._as_sent(ends)) for name, ends in pairs]

    def _as_sent(self, ends: Floats) -> list[float]:
        low, high = ((ends - self.rescaling.offset) / self.rescaling.scale).tolist()
        return [low, high] if high > low else [low, low + 1.0]

    def describe(self) -> ImageAnswer:
        """Return what the page must know of the image."""
        with self._learning:
            window, channels = self._window, self._channels
        levels = [self.image.level_grid(level) for level in range(self.image.levels)]
        return ImageAnswer(
            size=list(self.grid.size),
            spacing=self.grid.spacing.tolist(),
            origin=self.grid.origin.tolist(),
            direction=self.grid.direction.tolist(),
            units=self.grid.units,
            channels=self.image.channels,
            dtype=self.rescaling.dtype,
            scale=self.rescaling.scale,
            offset=self.rescaling.offset,
            window=window,
            apart=channels,
            levels=[Level.model_validate(grid) for grid in levels],
            tile=TILE,
            version=self.version,
            name=self.image.path.name,
        )

    def plane_shape(self, axis: int, index: int, level: int) -> tuple[int, int]:
        """Rows and columns of a plane; raises where there is none."""
        if not 0 <= level < self.image.levels:
            raise InvalidInputError(f"The image has levels 0 to {self.image.levels - 1}, not {level}.")
        grid = self.image.level_grid(level)
        column, row = plane_axes(grid, axis, index)
        return grid.size[row], grid.size[column]

    def chosen(self, samples: NDArray[Any], text: str) -> NDArray[Any]:
        """Return the channels ``0,3,4`` of samples, in that order; all of them where none are named."""
        if not text:
            return samples
        count = len(self.image.channel_names)
        try:
            channels = [int(part) for part in text.split(",")]
        except ValueError:
            channels = [-1]
        if len(channels) > MOST_SHOWN or not all(0 <= channel < count for channel in channels):
            raise InvalidInputError(
                f"Channels must be written as 0,3,4: at most {MOST_SHOWN} numbers below {count}, the channels that "
                f"this image has apart."
            )
        return np.ascontiguousarray(samples[..., channels])

    def tile(self, axis: int, index: int, level: int, row: int, column: int) -> NDArray[Any]:
        """Return a tile ``[row, column(, channel)]`` as it is sent; those at the end of a plane are smaller."""
        rows, columns = self.plane_shape(axis, index, level)
        if not (0 <= row * TILE < rows and 0 <= column * TILE < columns):
            raise InvalidInputError(
                f"The plane of {rows} x {columns} has tiles of rows 0 to {(rows - 1) // TILE} and columns 0 to "
                f"{(columns - 1) // TILE}, not row {row}, column {column}."
            )
        y0, x0 = row * TILE, column * TILE

        def read() -> NDArray[Any]:
            values = self.image.tile(axis, index, level, y0, x0, min(TILE, rows - y0), min(TILE, columns - x0))
            return self.rescaling.apply(values)

        samples: NDArray[Any] = CACHE.get((self.version, axis, index, level, row, column), read)
        return samples


def _window_of(quantiles: Floats) -> Floats:
    """Return what is shown dark and bright at first, from equally spaced quantiles of the samples.

    Where much of the box is empty (air around a head), what lies within it decides; not in Hounsfield units, where
    lungs are nearly as dark as air.
    """
    low, high = np.percentile(quantiles, (1, 99))
    within = quantiles[quantiles > low + 0.1 * (high - low)]
    if low < -200 or within.size > 0.8 * quantiles.size:
        return np.array([low, high])
    return np.asarray(np.percentile(within, (1, 99.5)))
