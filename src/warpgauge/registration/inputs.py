"""Images as registration programs take them: one channel, float32, in the frame that warpgauge uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.candidates import to_gray
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import write_map
from warpgauge.maps.warping import fitting_level

# Elements along the longest side that are enough for registrations which work on reduced images.
REDUCED = {2: 1024, 3: 192}


def write_input(image: Image, path: Path) -> Path:
    """Write an image as NRRD, colour turned to luma, with the spacing that the user gave where the source has none."""
    gray, _ = to_gray(image.read(), image.grid.d)
    return write_map(gray.astype(np.float32), image.grid, path)


def reduced_gray(image: Image, longest: int | None = None) -> tuple[NDArray[np.float32], Grid]:
    """Return an image as grey values with at most so many elements along its longest side, and their grid."""
    d, grid = image.grid.d, image.grid
    coarse = grid.coarsened(max(1.0, max(grid.size) / (longest or REDUCED[d])))
    level = fitting_level(image, float(coarse.spacing.min()))
    gray, _ = to_gray(image.read(level), d)
    frame = image.level_grid(level)
    ratio = coarse.spacing / frame.spacing
    if np.allclose(ratio, 1):
        return gray.astype(np.float32), frame
    smooth = ndimage.gaussian_filter(gray.astype(np.float32), 0.5 * ratio[::-1])
    at = frame.array_coordinates(coarse.points())
    values = ndimage.map_coordinates(smooth, at, order=1, mode="nearest").reshape(coarse.shape)
    return values.astype(np.float32), coarse
