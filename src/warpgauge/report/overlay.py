"""Before and after: the fixed and the moving image as a checkerboard, without registration and with the best method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.io.images import Image
from warpgauge.maps import Picture, displayable, picture_grid, warped_image

_ELEMENTS = {2: 640, 3: 128}
_TILES = 8  # along the longest axis


def checkerboards(fixed: Image, moving: Image, best: tuple[str, Any]) -> Picture:
    """Return two panels: the moving image where it lies, and as the best method puts it, in turn with the fixed one.

    Parameters
    ----------
    fixed, moving : Image
    best : (str, transform)
        Name and transform of the best method.
    """
    name, transform = best
    grid = picture_grid(fixed.grid, _ELEMENTS[fixed.grid.d])
    below = _grey(displayable(warped_image(fixed, lambda points: points, grid)), grid.d)
    panels = {}
    for title, one in (("before registration", lambda points: points), (f"after {name}", transform)):
        panels[title] = _mixed(below, _grey(displayable(warped_image(moving, one, grid)), grid.d))
    return Picture(panels, grid, "image")


def _grey(samples: NDArray[Any], d: int) -> NDArray[Any]:
    """Return one channel: colours of two stains differ anyway, and edges are what is to be seen."""
    return samples.mean(axis=-1) if samples.ndim > d else samples


def _mixed(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return a checkerboard of two images; where the other has no sample, it stays grey."""
    tile = max(1, int(np.ceil(max(one.shape) / _TILES)))
    parity = sum(np.indices(one.shape) // tile) % 2
    return np.where(parity == 0, one, other)
