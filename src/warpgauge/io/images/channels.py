"""Images of two, or of more than three channels: one grey image to compute with, the channels apart to be seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.images.stored import Array, Region, RegionReader, StoredImage

MOST_CHANNELS = 64


def is_colour(channels: int) -> bool:
    """Return whether channels are grey, or red, green, blue."""
    return channels in (1, 3)


def check_channels(path: Path, channels: int) -> None:
    """Refuse more channels than anybody could choose among."""
    if channels > MOST_CHANNELS:
        raise FileFormatError(
            f"{path.name!r} has {channels} channels, but at most {MOST_CHANNELS} are read; save those that you need."
        )


def with_names(channels: int, names: list[str]) -> tuple[str, ...]:
    """Return a name for each channel: that of the file, or its number."""
    told = names if len(names) == channels else [""] * channels
    return tuple(name.strip()[:60] or f"channel {k + 1}" for k, name in enumerate(told))


def joined(apart: StoredImage) -> StoredImage:
    """Return an image of one channel, the mean of those of the file, which it has apart; colours stay as they are."""
    if is_colour(apart.channels):
        return apart
    dtype: np.dtype[Any] = np.dtype(np.float64 if apart.dtype.itemsize > 2 else np.float32)
    note = (
        f"The file has {apart.channels} channels ({', '.join(apart.channel_names)}); their mean is used wherever one "
        f"grey value is needed, and the annotator's page shows those that one chooses."
    )
    levels = tuple(replace(level, read=_mean_of(level.read, dtype)) for level in apart.levels)
    return replace(
        apart, dtype=dtype, channels=1, levels=levels, notes=[*apart.notes, note], channel_names=(), apart=apart
    )


def _mean_of(read: RegionReader, dtype: np.dtype[Any]) -> RegionReader:
    def read_mean(region: Region) -> Array:
        return np.asarray(read(region).mean(axis=-1, dtype=np.float64), dtype=dtype)

    return read_mean
