"""Images of many formats behind one type: `read_image` returns an `Image`."""

from __future__ import annotations

from warpgauge.io.images.base import Image
from warpgauge.io.images.reader import read_image
from warpgauge.io.images.sliced import SlicedImage

__all__ = ["Image", "SlicedImage", "read_image"]
