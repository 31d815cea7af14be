"""Figure of the suggestion study's contests: how often the true best is known, against the number of annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpgauge.experiments.datasets import Floats
from warpgauge.experiments.figures import plain_axes
from warpgauge.maps.colours import OKABE_ITO, matplotlib

_MARKS = ("o", "s", "^", "D", "v", "P")


def decision_figure(curves: Mapping[str, Mapping[str, Floats]], first: int, sure: float) -> Any:
    """Draw a panel for each set of contests: share of runs that have known the true best so far.

    Parameters
    ----------
    curves : mapping
        By dataset and strategy, the least win probability of the true best, a row a run, from ``first`` annotations on.
    first : int
        Annotations that all strategies share.
    sure : float
        The probability at which a best is held for known.
    """
    figure = matplotlib().figure.Figure(figsize=(4.4 * len(curves), 3.2), layout="constrained", facecolor="white")
    for axes, (dataset, by) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for at, (strategy, values) in enumerate(by.items()):
            known = np.logical_or.accumulate(values >= sure, axis=1).mean(axis=0)
            counts = first + np.arange(len(known))
            axes.plot(counts, known, color=OKABE_ITO[at], marker=_MARKS[at], markevery=(at, 6), markersize=4,
                      linewidth=1.4, label=strategy)  # fmt: skip
        plain_axes(axes)
        axes.set_title(dataset, fontsize=10)
        axes.set_xlabel("number of annotations", fontsize=9)
        axes.set_ylabel(f"share that knew the true best at {sure:g}", fontsize=9)
        axes.legend(fontsize=7, frameon=False)
    return figure
