"""An image as its file describes it: levels that are read by region, and where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.io.images.frame import Frame

Array = NDArray[Any]
Region = tuple[slice, ...]
"""One slice with start and stop per spatial axis, in array order ``[z, ]y, x``."""
RegionReader = Callable[[Region], Array]


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
    """An image as its file describes it, before the caller's spacing and units are taken into account.

    Parameters
    ----------
    path : Path
        The file or folder that was asked for.
    format : str
        Name of the format.
    frame : Frame
        Where level 0 lies, as the file says it.
    dtype : numpy dtype
        Type of the samples that the levels give, in the byte order of this machine.
    channels : int
        1, 3 for red, green, blue, or how many an image apart has.
    levels : tuple of StoredLevel
        Level 0 and the coarser ones that the file holds.
    files : tuple of Path
        All files that the content is in, or one folder that stands for all below it.
    notes : list of str
        Sentences about what was read and assumed.
    suspicions : list of str
        Sentences to be given as warnings.
    channel_names : tuple of str
        Of the channels, where they are not colours.
    apart : StoredImage, optional
        The same image with its channels apart, where this one is their mean.
    """

    path: Path
    format: str
    frame: Frame
    dtype: np.dtype[Any]
    channels: int
    levels: tuple[StoredLevel, ...]
    files: tuple[Path, ...]
    notes: list[str] = field(default_factory=list)
    suspicions: list[str] = field(default_factory=list)
    channel_names: tuple[str, ...] = ()
    apart: StoredImage | None = None
