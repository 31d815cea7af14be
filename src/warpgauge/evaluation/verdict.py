"""The verdict of an evaluation as one value: codes and numbers, and five lines that terminal, report and page show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.display import counted, joined, length, lines_text, percent, probability, rounded
from warpgauge.evaluation.calibration import FEWEST as FEWEST_TO_TEST
from warpgauge.evaluation.calibration import Trust
from warpgauge.evaluation.flags import (
    COMMON_OFFSET,
    DOUBTS,
    EXCLUDED,
    GROSS,
    LATE,
    LEAK,
    MASKED,
    RATER_FAR,
    RATER_OFFSET,
    TOO_GOOD,
    UNDEFINED,
    UNTESTED,
    Flag,
)

if TYPE_CHECKING:
    from warpgauge.evaluation.result import TransformScores

# Probability with which one transform must beat another for the pair to count as decided.
DECISIVE = 0.95
MOST_WORDS = 80
# Where the annotations inform a smaller share of the targets, the verdict warns.
HALF = 0.5
# At most so many methods are named as possibly the best, and so many notes are shown.
_MOST_NAMED = 3
_MOST_NOTES = 3
# Methods that are less probable than this to be the best are not named.
_WORTH_NAMING = 0.05
# Which notes come first.
_PRIORITY = (
    LEAK, TOO_GOOD, RATER_FAR, GROSS, *DOUBTS, UNTESTED, EXCLUDED, RATER_OFFSET, COMMON_OFFSET, LATE, UNDEFINED, MASKED,
)  # fmt: skip

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


class Outcome(StrEnum):
    """What a verdict says, as a code."""

    no_annotations = "no_annotations"  # nothing can be compared
    too_few = "too_few"  # the annotations are too few to compare transforms at them
    only_baseline = "only_baseline"  # there is no method beside the transform that does nothing
    alone = "alone"  # one method, better than doing nothing where that is known
    none_better = "none_better"  # doing nothing is better than every method
    not_shown_better = "not_shown_better"  # the annotations do not show that any method is better than doing nothing
    decided = "decided"  # one method is the best
    tied_by_margin = "tied_by_margin"  # the annotations separate the best ones, by less than the margin
    undecided = "undecided"  # the annotations do not separate the best ones


@dataclass(frozen=True, eq=False)
class Verdict:
    """What an evaluation says; ``print(verdict)`` shows its lines.

    Attributes
    ----------
    rows : tuple of TransformScores
        Best first; transforms that are not ranked come last.
    groups : tuple of tuple of str
        The ranking, best first, in groups: a transform is in the group of a better one that does not beat it with a
        probability of at least 0.95, or by more than the margin.
    is_separated : bool
        Whether the first transform would be alone in its group without a margin.
    region : str
        What the targets stand for: a code, or words of the caller's own.
    known : float
        Share of the targets that the annotations inform.
    suspected, disqualified : frozenset of str
        Transforms that have probably seen annotations, and those that have by the leak test, which are not ranked.
    by_transforms : bool
        Whether transforms testify; in the paper the annotations alone do.
    margin : float
        Smallest difference of two scores that matters, in world units.
    """

    rows: tuple[TransformScores, ...]
    groups: tuple[tuple[str, ...], ...]
    is_separated: bool
    too_few: bool
    norm: str
    baseline: str | None
    annotations: int
    targets: int
    samples: int
    region: str
    known: float
    trust: Trust | None
    flags: tuple[Flag, ...]
    suspected: frozenset[str]
    disqualified: frozenset[str]
    references: tuple[str, ...]
    by_transforms: bool
    further: FurtherAnnotations | None
    units: str | None
    margin: float

    @property
    def outcome(self) -> Outcome:
        """What it says, as a code."""
        first = self._first
        if not self.annotations:
            outcome = Outcome.no_annotations
        elif self.too_few:
            outcome = Outcome.too_few
        elif not self.methods:
            outcome = Outcome.only_baseline
        elif len(first) > 1 and self.is_separated:
            outcome = Outcome.tied_by_margin
        elif self.baseline in first:
            outcome = Outcome.none_better if self._is_first_alone else Outcome.not_shown_better
        elif len(self.methods) == 1:
            outcome = Outcome.alone
        else:
            outcome = Outcome.decided if self._is_first_alone else Outcome.undecided
        return outcome

    @property
    def best(self) -> str | None:
        """The transform with the smallest error, where it is the best with a probability of at least 0.95."""
        is_told = self.outcome not in (Outcome.no_annotations, Outcome.too_few)
        return self._first[0] if is_told and len(self.ranked) > 1 and self._is_first_alone else None

    @property
    def _first(self) -> list[str]:
        """Names of the first group, copies of an earlier transform left out."""
        distinct = {row.name for row in self.rows if row.copy_of is None}
        return [name for name in self.groups[0] if name in distinct] if self.groups else []

    @property
    def _is_first_alone(self) -> bool:
        return len(self._first) == 1 and self.ranked[0].probability_best[self.norm] >= DECISIVE

    @property
    def decided(self) -> bool:
        """Whether it is known which transform is the best: the one definition for terminal, report, page and JSON."""
        return self.best is not None

    @property
    def is_overconfident(self) -> bool:
        """Whether annotations lie outside their regions too often, so that nothing can be relied on."""
        return self.trust is not None and self.trust.verdict == "overconfident"

    @property
    def target_words(self) -> str:
        """What errors are averaged over."""
        return counted(self.targets, "target") + (f" in {region_words(self.region)}" if self.region else "")

    @property
    def ranked(self) -> list[TransformScores]:
        """The rows that are ranked, copies of an earlier one left out."""
        return [row for row in self.rows if row.name not in self.disqualified and row.copy_of is None]

    @property
    def methods(self) -> list[TransformScores]:
        """The ranked rows without the transform that does nothing."""
        return [row for row in self.ranked if row.name != self.baseline]

    def shown_probability(self, row: TransformScores) -> str:
        """Return the cell of a table with the probability of being best: that of copies is shown once."""
        if self.too_few or row.name in self.disqualified:
            return "-"
        return f"= {row.copy_of}" if row.copy_of is not None else probability(row.probability_best[self.norm])

    def lines(self) -> dict[str, str]:
        """Return the five lines, at most 80 words: which is best, how large errors are, on what it rests, and notes."""
        lines = {"BEST": self._best(), "ERROR": self._error(), "NEXT": self._next(), "BASIS": self._basis()}
        if self.is_overconfident:
            lines = {"BASIS": lines.pop("BASIS"), **lines}
        words = sum(count_words(f"{name} {text}") for name, text in lines.items() if text) + 1
        notes: list[str] = []
        for note in self._notes():
            words += count_words(note)
            if words > MOST_WORDS or len(notes) == _MOST_NOTES:
                break
            notes.append(note)
        return {**lines, "MIND": "; ".join(notes)}

    def __str__(self) -> str:
        return lines_text({name: text for name, text in self.lines().items() if text})

    def _named(self, row: TransformScores) -> str:
        """Return the name of a method, with its copies."""
        copies = [other.name for other in self.rows if other.copy_of == row.name]
        return f"{row.name} (copies: {', '.join(copies)})" if copies else row.name

    def _sized(self, row: TransformScores, what: str = "") -> str:
        low, high = (rounded(end) for end in row.interval[self.norm])
        return f"{length(row.score[self.norm], self.units)} ({what}{low} to {high})"

    def _best(self) -> str:
        match self.outcome:
            case Outcome.no_annotations:
                text = "not known: there is no annotation"
            case Outcome.too_few:
                few = counted(self.annotations, "annotation")
                text = f"no ranking: {few} are too few ({FEWEST_TO_TEST} are a start)"
            case Outcome.only_baseline:
                text = "no method, only doing nothing"
            case Outcome.not_shown_better:
                text = f"not shown that any method is better than doing nothing{self._rest() or self._more()}"
            case Outcome.tied_by_margin:
                tied = [self._doubted(row) for row in self.ranked if row.name in self.groups[0]]
                more = [f"{len(tied) - _MOST_NAMED} more"] if len(tied) > _MOST_NAMED else []
                equal = f"equal within {length(self.margin, self.units)}"
                text = f"{joined([*tied[:_MOST_NAMED], *more])}, {equal}{self._rest()}"
            case Outcome.undecided:
                text = self._candidates()
            case _:
                text = self._leader()
        return text

    def _leader(self) -> str:
        """Return the transform that is best, how probable that is, and whether it has probably seen the landmarks."""
        best = self.ranked[0]
        chance = probability(best.probability_best[self.norm])
        if self.outcome is Outcome.none_better:
            return f"doing nothing (probability {chance}): no method is better"
        if self.outcome is Outcome.decided:
            text = f"{self._named(best)}, of {counted(len(self.methods), 'method')} (probability {chance})"
        else:
            text = f"{self._named(best)} is the only method"
            if self.baseline is not None:
                text += f", better than doing nothing with probability {chance}"
        if best.name not in self.suspected:
            return text
        text += "; it has probably seen the landmarks"
        others = [row for row in self.methods if row.name not in self.suspected]
        return f"{text}; of the others {self._named(others[0])} has the smallest error" if others else text

    def _doubted(self, row: TransformScores) -> str:
        """Return the name of a method, with the suspicion where it has probably seen the landmarks."""
        name = self._named(row)
        return f"{name} (has probably seen the landmarks)" if row.name in self.suspected else name

    def _candidates(self) -> str:
        """Return which methods may be the best, what the rest of the probability is, and how many answers decide."""
        likeliest = sorted(self.ranked, key=lambda row: -row.probability_best[self.norm])
        likely = [row for row in likeliest[:_MOST_NAMED] if row.probability_best[self.norm] >= _WORTH_NAMING]
        rest = self._rest()
        if len(likely) < (1 if rest else 2):
            likely = likeliest[:2]
        named = [
            f"{self._doubted(row)} ({probability(row.probability_best[self.norm])})"
            for row in self.ranked
            if row in likely
        ]
        return f"not decided: {joined(named, 'or')}{rest or self._more()}"

    def _rest(self) -> str:
        """Return what the rest of the probability depends on, where there is any: beside references."""
        rest = 1 - sum(row.probability_best[self.norm] for row in self.ranked)
        if not self.references or rest < _WORTH_NAMING:
            return ""
        return f"; the other {rest:.2f} depends on whether methods have seen the landmarks"

    def _more(self) -> str:
        if self.further is None:
            return ""
        if self.further.best is None:
            return f"; over {self.further.cap} more annotations needed"
        return f"; about {counted(self.further.best, 'more annotation')} would probably do"

    def _error(self) -> str:
        if self.too_few or not self.ranked:
            return ""
        best = self.ranked[0]
        before = next((row for row in self.rows if row.name == self.baseline), None)
        name = "" if self.outcome in (Outcome.decided, Outcome.alone) else f"{self._shown_name(best)} "
        text = f"{name}about {self._sized(best, '90 % interval ')}"
        if before is None or before is best:
            return text
        return f"{text}, before registration {length(before.score[self.norm], self.units)}"

    def _shown_name(self, row: TransformScores) -> str:
        return "no registration" if row.name == self.baseline else row.name

    def _next(self) -> str:
        if self.too_few:
            return ""
        rest = [row for row in self.ranked[1:] if row.name != self.baseline]
        if not rest:
            return ""
        second = rest[0]
        tied = [row for row in rest[1:] if row.group == second.group]
        others = f", and {len(tied)} tied with it" if tied else ""
        return f"{self._doubted(second)}, {self._sized(second)}{others}"

    def _basis(self) -> str:
        if not self.annotations:
            return ""
        parts = [counted(self.annotations, "annotation")]
        if not self.too_few:
            warning = " (most is extrapolated)" if self.known < HALF else ""
            parts = [f"{parts[0]}, informing {percent(self.known)} of the targets{warning}"]
        if self.references:
            parts.append(counted(len(self.references), "reference"))
        if self.trust is not None:
            parts.append(self.trust.short)
        return "; ".join(parts)

    def _notes(self) -> Iterator[str]:
        """Yield what to bear in mind, the most important first; of several flags of a kind the first."""
        likely = set(self.groups[0] if self.groups else ())
        likely |= {row.name for row in self.rows if row.probability_best.get(self.norm, 0.0) >= _WORTH_NAMING}
        first = self.ranked[0].name if self.ranked else None
        later = []
        for code in _PRIORITY:
            flags = [flag for flag in self.flags if flag.code == code]
            if code == TOO_GOOD:
                flags = [flag for flag in flags if flag.transform != first]  # which the first line tells
            if not flags:
                continue
            flags.sort(key=lambda flag: flag.transform is not None and flag.transform not in likely)
            more = f" (and {len(flags) - 1} more)" if len(flags) > 1 else ""
            if code == UNDEFINED and flags[0].transform not in likely:
                later.append(f"{flags[0].short}{more}")
            else:
                yield f"{flags[0].short}{more}"
        if self.by_transforms:
            if not all(row.vetted or row.name in self.suspected for row in self.methods):
                yield "nothing shows whether a method has seen the landmarks"
            yield f"a failure of up to {percent(missed_share(self.annotations))} of the targets could be missed"
        yield from later

    def to_dict(self) -> dict[str, Any]:
        """Return codes, numbers and lines as plain values."""
        return {
            "outcome": str(self.outcome),
            "decided": self.decided,
            "best": self.best,
            "verdict": str(self),
            "lines": self.lines(),
            "tied": [list(group) for group in self.groups],
            "annotations": self.annotations,
            "targets": self.targets,
            "samples": self.samples,
            "region": self.region,
            "known": self.known,
            "calibration": None if self.trust is None else self.trust.verdict,
            "flags": [flag.to_dict() for flag in self.flags],
            "suspected": sorted(self.suspected),
            "references": list(self.references),
            "missed": missed_share(self.annotations) if self.by_transforms else None,
            "further_annotations": None if self.further is None else self.further.best,
            "units": self.units or "px",
            "baseline": self.baseline,
            "margin": self.margin,
            "level": DECISIVE,
        }


def count_words(text: str) -> int:
    """Return the number of words, numbers among them."""
    return sum(any(character.isalnum() for character in word) for word in text.split())


def missed_share(annotations: int, level: float = 0.95) -> float:
    """Return the share of the targets up to which a failure could have gone unseen, with this probability."""
    return float(1 - (1 - level) ** (1 / (annotations + 1)))
