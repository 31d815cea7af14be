"""Images of many formats behind one type: `read_image` returns an `Image`."""

from __future__ import annotations

from warpgauge.io.images.base import Image
from warpgauge.io.images.reader import SlicedImage, read_image

__all__ = ["Image", "SlicedImage", "read_image"]
