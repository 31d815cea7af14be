"""A level of an image as an array that is read where it is sliced."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import SuspiciousDataWarning
from warpgauge.io.images.base import Image
from warpgauge.io.images.reader import read_image


class SlicedImage:
    """A level of an image; plain slices along the first axes read that part, and the others are read whole.

    Sent to another process it is its path: the file is opened there.
    """

    def __init__(self, image: Image, level: int = 0) -> None:
        self.image, self.level = image, level
        shape = image.level_grid(level).shape
        self.shape: tuple[int, ...] = shape + ((image.channels,) if image.channels > 1 else ())

    def __getitem__(self, region: slice | tuple[slice, ...]) -> NDArray[Any]:
        shape = self.image.level_grid(self.level).shape
        given = region if isinstance(region, tuple) else (region,)
        parts = (*given, *(slice(None) for _ in shape[len(given) :]))
        region = tuple(slice(*part.indices(n)[:2]) for part, n in zip(parts, shape, strict=True))
        return self.image.block(region, self.level)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.image.read(self.level), dtype=dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.image.path.resolve(), self.level)


def _opened(path: Path, level: int) -> SlicedImage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousDataWarning)  # said where it was opened first
        return SlicedImage(read_image(path), level)
