"""An image that can be sliced like an array, so that a large one is never loaded whole."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from warpgauge.io.images import Image


class SlicedImage:
    """Level 0 of an image; plain slices along the first axes read that part, and the others are read whole."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.shape: tuple[int, ...] = image.grid.shape + ((image.channels,) if image.channels > 1 else ())

    def __getitem__(self, region: slice | tuple[slice, ...]) -> NDArray[Any]:
        shape = self.image.grid.shape
        given = region if isinstance(region, tuple) else (region,)
        parts = (*given, *(slice(None) for _ in shape[len(given) :]))
        return self.image.block(tuple(slice(*part.indices(n)[:2]) for part, n in zip(parts, shape, strict=True)))
