"""Which transforms the annotations cannot distinguish."""

from __future__ import annotations

from collections.abc import Sequence

from warpgauge.core.arrays import Floats

LEVEL = 0.95


def tied_groups(
    order: Sequence[int], win: Floats, level: float = LEVEL, *, scores: Floats | None = None, margin: float = 0.0
) -> list[list[int]]:
    """Cut a ranking into groups of which no two members can be distinguished.

    A transform starts a new group where any member of the group before beats it with at least this probability, and,
    where scores are given, by more than the margin.

    Parameters
    ----------
    order : sequence of int
        The ranking, best first.
    win : (K, K) array
        Win probabilities.
    level : float
        Probability that decides a pair.
    scores : (K,) array, optional
    margin : float
        Smallest difference of two scores that matters.
    """
    groups: list[list[int]] = []
    for one in order:
        if groups and not any(
            win[member, one] >= level and (margin <= 0 or scores is None or scores[one] - scores[member] > margin)
            for member in groups[-1]
        ):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
