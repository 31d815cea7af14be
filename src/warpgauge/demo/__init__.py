"""The demonstration: the whole workflow on a real image that is part of an installed package."""

from warpgauge.demo.image_pairs import DemoPair, make_pair, template_file
from warpgauge.demo.simulated_expert import answer_queries

__all__ = ["DemoPair", "answer_queries", "make_pair", "template_file"]
