"""Figure of the raters study: coverage, log score and distance against the number of raters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warpgauge.maps.colours import OKABE_ITO, matplotlib

_SHOWN = ("sample", "pooled", "one for all")
_LINES = ("-", "--", ":")
_MARKS = ("o", "s", "^")


def raters_figure(
    shares: Mapping[str, Mapping[str, Mapping[str, Any]]],
    distances: Mapping[str, Mapping[str, float]],
    levels: Sequence[float],
) -> Any:
    """Draw the dataset with most raters: coverage and log score by method; and distances of all datasets.

    Parameters
    ----------
    shares : mapping
        By dataset and ``method|raters``.
    distances : mapping
        By dataset and number of raters.
    levels : sequence of float
        Levels of the regions.
    """
    dataset = max(shares, key=lambda name: len(distances[name]))
    figure = matplotlib().figure.Figure(figsize=(10.4, 3.2), layout="constrained", facecolor="white")
    coverage, score, apart = figure.subplots(1, 3)
    for at, method in enumerate(_SHOWN):
        found = _by_size(shares[dataset], method)
        for line, level in zip(_LINES, levels, strict=True):
            values = [one["coverage"][str(level)] for one in found.values()]
            label = method if level == levels[0] else None
            coverage.plot(list(found), values, line, marker=_MARKS[at], markersize=4, color=OKABE_ITO[at], label=label)
        score.plot(list(found), [one["log score"] for one in found.values()], marker=_MARKS[at], markersize=4,
                   color=OKABE_ITO[at], label=method)  # fmt: skip
    score.set_yscale("symlog", linthresh=10)
    for level in levels:
        coverage.axhline(level, color="#8A8A8A", linewidth=0.8)
    for at, (name, by) in enumerate((name, by) for name, by in distances.items() if name in shares):
        apart.plot([int(size) for size in by], list(by.values()), marker=_MARKS[at % 3], markersize=4,
                   color=OKABE_ITO[at + 3], label=name)  # fmt: skip
    _dress(coverage, f"{dataset}: left-out rater", "share inside the 50, 80, 95 % region", "raters fused")
    _dress(score, f"{dataset}: left-out rater", "mean log score (nats)", "raters fused")
    _dress(apart, "mean of m raters", "distance to the mean of half of them (mm)", "m")
    return figure


def _by_size(found: Mapping[str, Mapping[str, Any]], method: str) -> dict[int, Mapping[str, Any]]:
    sizes = {int(key.split("|")[1]): one for key, one in found.items() if key.split("|")[0] == method}
    return {size: sizes[size] for size in sorted(sizes) if sizes[size]["placements"]}


def _dress(axes: Any, title: str, ylabel: str, xlabel: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=10)
    axes.set_ylabel(ylabel, fontsize=9)
    axes.set_xlabel(xlabel, fontsize=9)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.08)
    axes.legend(fontsize=8, frameon=False)
