"""All sentences of a verdict, kept in one module so that they cannot contradict each other.

The table, the page, the report and the JSON show these sentences and write none of their own. A verdict has at most two
sentences. It names the two or three methods that matter, and the error before registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.core.calibration import Coverage

# At most this many tied methods are named, and only those with at least this probability of being the best.
_MOST_NAMED = 3
_WORTH_NAMING = 0.05


REGIONS = {
    "domain": "the whole fixed image",
    "foreground": "the foreground of the fixed image",
    "mask": "the mask of the fixed image",
    "labels": "the labelled regions of the fixed image",
    "file": "a file of points",
    "given": "a set of given points",
}


def region_words(region: str) -> str:
    """Return the words for the code of a region; what is not a code are words of the caller's own."""
    return REGIONS.get(region, region)


@dataclass(frozen=True)
class Standing:
    """One transform in a verdict: its RMS error with 90 % interval, and its probability of being the best."""

    name: str
    score: float
    low: float
    high: float
    best: float


def length(value: float, units: str | None) -> str:
    """Write a length with three significant digits and its unit."""
    text = f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.2e}"
    return f"{text} {'µm' if units == 'um' else units}" if units else text


def probability(value: float) -> str:
    """Write a probability with two digits, but never as 0 or 1: a finite number of samples cannot show that."""
    if value >= 0.995:
        return "over 0.99"
    return "below 0.01" if value < 0.005 else f"{value:.2f}"


def count(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 annotation``, ``2 annotations``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def joined(words: Sequence[str]) -> str:
    """Join words by commas and "and"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def numbered(rows: Sequence[int]) -> str:
    """Name the annotations of some rows, counted from 1: ``annotation 3``, ``annotations 3 and 7``."""
    return f"annotation{'' if len(rows) == 1 else 's'} {joined([str(row + 1) for row in rows])}"


def verdict(
    order: Sequence[Standing],
    groups: Sequence[Sequence[str]],
    annotations: int,
    further: FurtherAnnotations | None = None,
    units: str | None = None,
    baseline: str | None = None,
) -> str:
    """Return at most two sentences: which transform is best, how large its error is, and how certain that is.

    Parameters
    ----------
    order : sequence of Standing
        Best first.
    groups : sequence of sequences of str
        Tied groups of names, best first: members of a group cannot be distinguished.
    annotations : int
    further : FurtherAnnotations, optional
        How many more would decide the ranking.
    units : str, optional
        World unit.
    baseline : str, optional
        Name of the identity transform, if it is among them.
    """
    if not annotations:
        return "There are no annotations yet, so the transforms cannot be compared."
    by_name = {one.name: one for one in order}
    before = by_name.get(baseline) if baseline is not None else None
    methods = [one for one in order if one is not before]
    if not methods:
        return f"Without registration the root mean square error is {_error(order[0], units)}."
    first = [by_name[name] for name in groups[0]]
    if before is not None and before in first:
        return _no_better(before, first, methods, annotations, units)
    if len(methods) == 1:
        return _alone(methods[0], before, units)
    if len(first) == 1:
        return _decided(methods, groups, before, annotations, units)
    return _undecided(first, methods, before, annotations, further, units)


def _error(one: Standing, units: str | None) -> str:
    low, high = length(one.low, None), length(one.high, units)
    return f"about {length(one.score, units)} (90 % interval {low} to {high})"


def _against(before: Standing | None, units: str | None) -> str:
    return "" if before is None else f", against {length(before.score, units)} before registration"


def _alone(one: Standing, before: Standing | None, units: str | None) -> str:
    text = f"{one.name} has a root mean square error of {_error(one, units)}{_against(before, units)}."
    if before is None:
        return f"{text} There is no other method to compare it with."
    return f"{text} It is better than doing nothing with probability {probability(one.best)}."


def _no_better(
    before: Standing, first: Sequence[Standing], methods: Sequence[Standing], annotations: int, units: str | None
) -> str:
    best = methods[0]
    if len(first) == 1:
        return (
            f"No method is better than doing nothing: without registration the root mean square error is "
            f"{_error(before, units)}. The best method, {best.name}, has {_error(best, units)}."
        )
    return (
        f"{_fail_to(annotations)} show whether any method is better than doing nothing: "
        f"without registration the root mean square error is {_error(before, units)}. The best method, {best.name}, "
        f"has {_error(best, units)}."
    )


def _decided(
    methods: Sequence[Standing],
    groups: Sequence[Sequence[str]],
    before: Standing | None,
    annotations: int,
    units: str | None,
) -> str:
    best, second = methods[0], methods[1]
    text = (
        f"{best.name} is the best of {len(methods)} methods with probability {probability(best.best)}: its root mean "
        f"square error is {_error(best, units)}{_against(before, units)}."
    )
    tied = [name for name in groups[1] if before is None or name != before.name]
    if len(tied) < 2:
        return f"{text} Next is {second.name} with {_error(second, units)}."
    return (
        f"{text} Next is {second.name} with {_error(second, units)}, tied with {count(len(tied) - 1, 'other method')}."
    )


def _undecided(
    first: Sequence[Standing],
    methods: Sequence[Standing],
    before: Standing | None,
    annotations: int,
    further: FurtherAnnotations | None,
    units: str | None,
) -> str:
    likeliest = sorted(first, key=lambda one: -one.best)
    leader = likeliest[0]
    named = [one for one in likeliest[1:_MOST_NAMED] if one.best >= _WORTH_NAMING] or likeliest[1:2]
    some = f"{len(first)} of the {len(methods)} methods could each be the best"
    if len(first) == len(methods):
        some = f"{'Either' if len(methods) == 2 else 'Any'} of the {len(methods)} methods could be the best"
    more = "" if further is None else f", and {_more(further)}"
    close = joined([
        f"{one.name} (about {length(one.score, units)}, probability {probability(one.best)})" for one in named
    ])  # fmt: skip
    return (
        f"{some}: {_fail_to(annotations)} separate them{more}. {leader.name} is the most likely (probability "
        f"{probability(leader.best)}), with a root mean square error of {_error(leader, units)}"
        f"{_against(before, units)}; next {'is' if len(named) == 1 else 'are'} {close}."
    )


def _fail_to(annotations: int) -> str:
    return f"{count(annotations, 'annotation')} {'does' if annotations == 1 else 'do'} not"


def _more(further: FurtherAnnotations) -> str:
    if further.best is not None and further.best > 0:
        return f"about {further.best} more would probably decide"
    return f"more than {further.cap} more would be needed to decide"


def calibration(verdict_: str, coverage: Sequence[Coverage], fewest: int, outliers: Sequence[int]) -> str:
    """Return a sentence on the model's calibration and on annotations that contradict the others.

    Parameters
    ----------
    verdict_ : {"calibrated", "overconfident", "underconfident", "undetermined"}
    coverage : sequence of Coverage
    fewest : int
        Annotations needed for the test.
    outliers : sequence of int
        Rows of the annotations that the others contradict.
    """
    total = coverage[0].count
    regions = joined([f"{one.inside} in the {100 * one.level:.0f} % region" for one in coverage])
    found = f"when each of the {count(total, 'annotation')} is predicted from the others, there are {regions}"
    few = f"{count(total, 'annotation')} {'is' if total == 1 else 'are'} too few to test the model"
    words = {
        "calibrated": f"The model is well calibrated: {found}",
        "overconfident": f"The model is overconfident, so do not rely on the ranking: {found}",
        "underconfident": f"The model is underconfident, so differences may be overlooked: {found}",
        "undetermined": f"{few} ({fewest} are needed)",
    }[verdict_]
    if outliers:
        words += f"; {numbered(outliers)} contradict{'' if len(outliers) > 1 else 's'} the others"
    return words + "."


def judged_share(share: float) -> str:
    """Return a sentence with the share of targets that the annotations cover."""
    return f"The annotations say enough about {100 * share:.0f} % of the targets."


def without(rows: Sequence[int], verdict_: str) -> str:
    """Return the verdict without the annotations of some rows, as a sentence."""
    return f"Without {numbered(rows)}: {verdict_}"
