"""warpgauge: how good a deformable registration is, and how sure we are of it."""

from warpgauge._version import __version__
from warpgauge.geometry import Grid

__all__ = ["Grid", "__version__"]
