"""Images of many formats behind one type: `read_image` returns an `Image`."""

from __future__ import annotations

from warpgauge.io.images.image import Image, SlicedImage
from warpgauge.io.images.reader import read_image

__all__ = ["Image", "SlicedImage", "read_image"]
