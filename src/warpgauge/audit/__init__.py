"""Statistics of random draws: numbers only, no model, no project.

A unit of a finite population is drawn with a known probability and answered; what is proven from such answers holds
whatever the shape of the errors, at every look.
"""

from warpgauge.audit.bounded_losses import (
    GateDraws,
    beyond_segment,
    length_difference,
    relative_gate_tickets,
    segment_bound,
    segment_difference,
)
from warpgauge.audit.designs import contest_sizes, draw_sizes, sequential_draw
from warpgauge.audit.estimators import Draws
from warpgauge.audit.tickets import answers_left, fewest_answers, log_wealth, pooled_tickets, proven, tickets

__all__ = [
    "Draws",
    "GateDraws",
    "answers_left",
    "beyond_segment",
    "contest_sizes",
    "draw_sizes",
    "fewest_answers",
    "length_difference",
    "log_wealth",
    "pooled_tickets",
    "proven",
    "relative_gate_tickets",
    "segment_bound",
    "segment_difference",
    "sequential_draw",
    "tickets",
]
