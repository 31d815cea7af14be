"""Images as registration programs take them: one channel, float32, in the frame that warpgauge uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpgauge.candidates import to_gray
from warpgauge.io.images import Image
from warpgauge.maps import write_map


def write_input(image: Image, path: Path) -> Path:
    """Write an image as NRRD, colour turned to luma, with the spacing that the user gave where the source has none."""
    gray, _ = to_gray(image.read(), image.grid.d)
    return write_map(gray.astype(np.float32), image.grid, path)
