"""An image that can be sliced like an array, so that a large one is never loaded whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.io.images import Image


class SlicedImage:
    """Level 0 of an image; ``[rows, columns]`` or ``[planes, rows, columns]`` with plain slices reads that part."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.shape: tuple[int, ...] = image.grid.shape + ((image.channels,) if image.channels > 1 else ())

    def __getitem__(self, region: tuple[slice, ...]) -> NDArray[Any]:
        bounds = [part.indices(n)[:2] for part, n in zip(region, self.image.grid.shape, strict=True)]
        (y0, y1), (x0, x1) = bounds[-2:]
        planes = range(*bounds[0]) if len(bounds) == 3 else (0,)
        tiles = [self.image.tile(2, z, 0, y0, x0, y1 - y0, x1 - x0) for z in planes]
        return tiles[0] if len(bounds) == 2 else np.stack(tiles)
