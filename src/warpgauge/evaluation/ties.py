"""Which transforms the annotations cannot tell apart, and a sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpgauge.core.arrays import Floats
from warpgauge.evaluation.further import FurtherAnnotations

LEVEL = 0.95


def tied_groups(order: Sequence[int], win: Floats, level: float = LEVEL) -> list[list[int]]:
    """Cut a ranking where a transform beats the next one with at least this probability.

    Consecutive transforms whose win probability is below the level belong to one group. Within a group neighbours are
    not told apart; its first and last may well be.
    """
    groups: list[list[int]] = []
    for place, one in enumerate(order):
        if place and win[order[place - 1], one] < level:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def verdict(
    names: Sequence[str],
    groups: Sequence[Sequence[int]],
    best: Mapping[str, float],
    annotations: int,
    further: FurtherAnnotations | None,
) -> str:
    """One plain sentence: who is best and how surely, what is undecided, and how many annotations would decide it."""
    if not annotations:
        return "There are no annotations yet, so nothing can be said about the transforms."
    leader = names[groups[0][0]]
    if len(names) == 1:
        return f"{leader} is the only transform."
    if len(groups[0]) == 1:
        parts = [f"{leader} is best with probability {_share(best[leader])}"]
    else:
        chances = ", ".join(f"{names[k]} {_share(best[names[k]])}" for k in groups[0])
        parts = [f"the annotations do not decide which is best (probabilities: {chances})"]
    undecided, place = [], 1
    for group in groups:
        if len(group) > 1:
            undecided.append(f"{place} to {place + len(group) - 1}")
        place += len(group)
    count = f"{annotations} annotation{'s' if annotations != 1 else ''}"
    if not undecided:
        parts.append(f"all ranks are decided by {count}")
    else:
        listed = " and ".join([", ".join(undecided[:-1]), undecided[-1]][len(undecided) < 2 :])
        parts.append(f"ranks {listed} are not decided by {count}")
        if further is not None:
            parts.append(_more(further))
    sentence = "; ".join(parts) + "."
    return sentence if len(groups[0]) == 1 else sentence[0].upper() + sentence[1:]


def _share(probability: float) -> str:
    """Two digits, never rounded up to certainty: samples cannot show that much."""
    return "over 0.99" if probability >= 0.995 else f"{probability:.2f}"


def _more(further: FurtherAnnotations) -> str:
    if further.all_ranks is not None:
        return f"about {further.all_ranks} more would be needed"
    if further.best is not None and further.best > 0:
        return f"about {further.best} more would decide which is best, and more than {further.cap} all ranks"
    return f"more than {further.cap} more would be needed"
