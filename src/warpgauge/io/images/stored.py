"""An image as its file describes it: levels that are read by region, where they lie, and its channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import FileFormatError
from warpgauge.io.images.frame import Frame

Array = NDArray[Any]
Region = tuple[slice, ...]
"""One slice with start and stop per spatial axis, in array order ``[z, ]y, x``."""
RegionReader = Callable[[Region], Array]
MOST_CHANNELS = 64


@dataclass(frozen=True)
class StoredLevel:
    """One level of a pyramid that the file itself holds.

    ``read`` gives the array of a region ``[z, ]y, x``, with a last axis of channels where there are several. ``step``
    and ``offset`` are the distance between elements and the position of element 0, along x, y[, z], in elements of
    level 0.
    """

    size: tuple[int, ...]
    read: RegionReader
    step: tuple[float, ...]
    offset: tuple[float, ...]

    @classmethod
    def full(cls, size: tuple[int, ...], read: RegionReader) -> StoredLevel:
        """Level 0."""
        return cls(size, read, (1.0,) * len(size), (0.0,) * len(size))


@dataclass(frozen=True)
class StoredImage:
    """An image as its file describes it, before the caller's spacing and units are taken into account."""

    path: Path  # the file or folder that was asked for
    format: str
    frame: Frame
    dtype: np.dtype[Any]  # of the samples that the levels give, in the byte order of this machine
    channels: int  # 1, 3 for red, green, blue, or how many an image apart has
    levels: tuple[StoredLevel, ...]  # level 0 and the coarser ones that the file holds
    files: tuple[Path, ...]  # that the content is in, or one folder that stands for all below it
    notes: list[str] = field(default_factory=list)  # what was read and assumed
    suspicions: list[str] = field(default_factory=list)  # to be given as warnings
    names: tuple[str, ...] = ()  # of channels that are no colours
    apart: StoredImage | None = None  # the same with its channels apart, where this one is their mean

    def joined(self) -> StoredImage:
        """Return an image of one channel, the mean of those of the file, which it has apart; colours stay."""
        if self.channels in (1, 3):
            return self
        dtype: np.dtype[Any] = np.dtype(np.float64 if self.dtype.itemsize > 2 else np.float32)

        def mean_of(read: RegionReader) -> RegionReader:
            return lambda region: np.asarray(read(region).mean(axis=-1, dtype=np.float64), dtype=dtype)

        note = (
            f"The file has {self.channels} channels ({', '.join(self.names)}); their mean is used wherever one "
            f"grey value is needed, and the annotator's page shows those that one chooses."
        )
        levels = tuple(replace(level, read=mean_of(level.read)) for level in self.levels)
        notes = [*self.notes, note]
        return replace(self, dtype=dtype, channels=1, levels=levels, notes=notes, names=(), apart=self)


def channel_names(path: Path, channels: int, names: list[str]) -> tuple[str, ...]:
    """Return a name for each channel that is no colour: that of the file, or its number; too many are refused."""
    if channels > MOST_CHANNELS:
        raise FileFormatError(
            f"{path.name!r} has {channels} channels, but at most {MOST_CHANNELS} are read; save those that you need."
        )
    if channels in (1, 3):
        return ()
    known = names if len(names) == channels else [""] * channels
    return tuple(name.strip()[:60] or f"channel {k + 1}" for k, name in enumerate(known))
