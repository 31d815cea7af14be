"""The demonstration: the main job from end to end on a real image that comes inside a package."""

from warpgauge.demo.pairs import DemoPair, make_pair

__all__ = ["DemoPair", "make_pair"]
