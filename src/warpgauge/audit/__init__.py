"""Statistics of random draws: numbers only, no model, no project.

A unit of a finite population is drawn with a known probability and answered; what is proven from such answers holds
whatever the shape of the errors, at every look.
"""

from warpgauge.audit.draws import contest_sizes, mean_weights, sequential_draw
from warpgauge.audit.tickets import answers_left, log_wealth, proven, tickets

__all__ = ["answers_left", "contest_sizes", "log_wealth", "mean_weights", "proven", "sequential_draw", "tickets"]
