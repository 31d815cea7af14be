"""The demonstration: the whole workflow on a real image that is part of an installed package."""

from warpgauge.demo.image_pairs import DemoPair, make_pair, template_file

__all__ = ["DemoPair", "make_pair", "template_file"]
