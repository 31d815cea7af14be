"""The demonstration: the whole workflow on a real image that is part of an installed package."""

from warpgauge.demo.image_pairs import DemoPair, make_pair, template_file
from warpgauge.demo.run import DemoResult, run_demo, start_clean
from warpgauge.demo.simulated_expert import answer_queries

__all__ = ["DemoPair", "DemoResult", "answer_queries", "make_pair", "run_demo", "start_clean", "template_file"]
