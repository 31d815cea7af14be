"""The verdict of an evaluation as one value: codes and numbers, which terminal, report, page and JSON render.

No code reads a sentence back: programs read the fields, people the sentence that `evaluation.sentences` writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.evaluation import sentences
from warpgauge.evaluation.columns import Row

if TYPE_CHECKING:
    from warpgauge.evaluation.diagnostics import Trust
    from warpgauge.evaluation.flags import Flag

# Codes of assumptions: no registration has seen the annotations; sizes depend on which methods are compared.
UNSEEN, COMPANY = "unseen_annotations", "company"
# Probability with which one transform must beat another for the pair to count as decided.
DECISIVE = 0.95


class Outcome(StrEnum):
    """What a verdict says, as a code."""

    no_annotations = "no_annotations"  # nothing can be compared
    only_baseline = "only_baseline"  # there is no method beside the transform that does nothing
    alone = "alone"  # one method, better than doing nothing where that is known
    none_better = "none_better"  # doing nothing is better than every method
    not_shown_better = "not_shown_better"  # the annotations do not show that any method is better than doing nothing
    decided = "decided"  # one method is the best
    tied_by_margin = "tied_by_margin"  # the annotations separate the best ones, by less than the margin
    undecided = "undecided"  # the annotations do not separate the best ones


@dataclass(frozen=True)
class Region:
    """What the targets stand for: a code (``"given"`` for words of the caller's own), and words."""

    code: str
    words: str

    @classmethod
    def of(cls, region: str) -> Region:
        """Return the region of a code, or of the caller's own words."""
        return cls(region if region in sentences.REGIONS else "given", sentences.region_words(region))


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(str):
    """What an evaluation says.

    A verdict is also the string that tells it to people, so that it can be printed, searched and stored as text.

    Attributes
    ----------
    outcome : Outcome
    best : str or None
        The transform with the smallest error, where one is better than all others.
    groups : tuple of tuple of str
        The ranking in groups of tied transforms, best first.
    rows : tuple of Row
        The transforms, best first.
    counts : dict
        ``annotations``, ``targets`` and ``samples``.
    baseline : str or None
        Name of the transform that does nothing, where it is among them.
    flags : tuple of warpgauge.evaluation.Flag
        What a person should look at before any ranking.
    region : Region or None
        What the targets stand for, where that is known.
    known : float or None
        Share of the targets that the annotations inform, where it was computed.
    assumptions : tuple of str
        Codes of what the verdict takes for granted: ``"unseen_annotations"`` (no registration was fitted to the
        annotations, and sealed answers did not test it), ``"company"`` (without a panel of references, sizes depend on
        which methods are compared).
    missed : float or None
        Share of the targets up to which a local failure could have gone unseen, with probability 0.95.
    further : FurtherAnnotations or None
        How many more annotations would decide.
    calibration : str or None
        ``"calibrated"``, ``"overconfident"``, ``"underconfident"`` or ``"undetermined"``, where it was tested.
    units : str or None
        World unit.
    margin : float
        Smallest difference of two scores that matters, in world units.
    level : float
        Probability with which one transform must beat another for the pair to count as decided.
    """

    outcome: Outcome
    best: str | None
    groups: tuple[tuple[str, ...], ...]
    rows: tuple[Row, ...]
    counts: Mapping[str, int]
    baseline: str | None = None
    flags: tuple[Flag, ...] = ()
    region: Region | None = None
    known: float | None = None
    assumptions: tuple[str, ...] = ()
    missed: float | None = None
    further: FurtherAnnotations | None = None
    calibration: str | None = None
    units: str | None = None
    margin: float = 0.0
    level: float = DECISIVE

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Make the string from a bare copy that has the fields; the initialisation then sets those of the string."""
        bare = super().__new__(cls)
        bare.__init__(*values, **named)  # type: ignore[misc]
        return super().__new__(cls, sentences.verdict(bare))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, one.name) for one in fields(self))

    @classmethod
    def of(cls, rows: Sequence[Row], groups: Sequence[Sequence[str]], *, separated: bool, **about: Any) -> Verdict:
        """Return the verdict that rows and their groups give.

        Parameters
        ----------
        rows : sequence of Row
            Best first.
        groups : sequence of sequences of str
            Tied groups of names, best first.
        separated : bool
            Whether the first transform would be alone in its group without a margin.
        **about
            The other fields.
        """
        names = [row.name for row in rows]
        baseline = about.get("baseline") if about.get("baseline") in names else None
        outcome = _outcome(names, groups[0] if groups else (), baseline, separated, about["counts"]["annotations"])
        settled = outcome is not Outcome.no_annotations and len(groups) > 1 and len(groups[0]) == 1
        best = groups[0][0] if settled else None
        return cls(outcome, best, tuple(map(tuple, groups)), tuple(rows), **{**about, "baseline": baseline})

    @property
    def decided(self) -> bool:
        """Whether it is known which transform is the best: the one definition for terminal, report, page and JSON.

        One transform (it may be the one that does nothing) beats every other with a probability of at least `level`
        and by more than the margin.
        """
        return self.best is not None

    @property
    def caveats(self) -> list[str]:
        """Sentences that belong to the verdict: what its figures are over, what is wrong with the best, assumptions."""
        return sentences.caveats(self)

    @property
    def whole(self) -> str:
        """The verdict with its caveats."""
        return " ".join([str(self), *self.caveats])

    @property
    def methods(self) -> list[Row]:
        """The transforms without the one that does nothing, best first."""
        return [row for row in self.rows if row.name != self.baseline]

    def with_trust(self, trust: Trust) -> Verdict:
        """Return the verdict with what is known of the model."""
        return replace(
            self,
            calibration=trust.verdict,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the codes and numbers as plain values, without those that an evaluation gives under other keys."""
        return {
            "outcome": str(self.outcome),
            "decided": self.decided,
            "best": self.best,
            "region": None if self.region is None else self.region.code,
            "known": self.known,
            "caveats": self.caveats,
            "missed": self.missed,
            "assumptions": list(self.assumptions),
            "calibration": self.calibration,
            "level": self.level,
        }


def _outcome(
    names: Sequence[str], first: Sequence[str], baseline: str | None, separated: bool, annotations: int
) -> Outcome:
    methods = [name for name in names if name != baseline]
    if not annotations:
        return Outcome.no_annotations
    if not methods:
        return Outcome.only_baseline
    if len(first) > 1 and separated:
        return Outcome.tied_by_margin
    if baseline in first:
        return Outcome.none_better if len(first) == 1 else Outcome.not_shown_better
    if len(methods) == 1:
        return Outcome.alone
    return Outcome.decided if len(first) == 1 else Outcome.undecided
