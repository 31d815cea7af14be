"""Gates: whether a new registration is worse than a baseline by more than a margin, for continuous integration.

A gate passes only what it can prove, by the random draw of the audit alone and without capping any error: at most
1 - level of the audits pass a registration that is worse by the margin or more, however often they are looked at. It
fails what is proven to be worse, in mean error and in squared error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warpgauge.audit.bounded_losses import (
    GateDraws,
    absolute_gate_tickets,
    beyond_segment,
    length_difference,
    relative_gate_tickets,
    segment_bound,
    segment_difference,
)
from warpgauge.audit.tickets import answers_left, pooled_tickets, proven
from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import sentences
from warpgauge.evaluation.audit import AuditData, audit_data
from warpgauge.evaluation.exact_verdict import CLEAR, CONFIDENCE, ladder_of
from warpgauge.evaluation.project_evaluation import project_comparison
from warpgauge.project import Project
from warpgauge.session import Session

STATUS = {0: "not worse", 1: "worse", 2: "undecided"}
_MARGIN = re.compile(r"\s*([0-9.eE+-]+)\s*(mm|um|[µμ]m|px|%)?\s*")


@dataclass(frozen=True)
class Margin:
    """By how much a registration may be worse: a length in world units, or a share of the baseline's RMS error."""

    size: float
    relative: bool

    @classmethod
    def read(cls, text: str | float, units: str) -> Margin:
        """Read ``0.1``, ``"0.1mm"`` or ``"5%"``."""
        found = _MARGIN.fullmatch(str(text))
        try:
            value = float(found[1]) if found else -1.0
        except ValueError:
            value = -1.0
        if found is None or not 0 <= value < np.inf:
            raise InvalidInputError(f"A margin must read 0.1mm, 0.1 or 5%, got {text!r}.")
        if found[2] == "%":
            return cls(value / 100, True)
        unit = found[2] and found[2].replace("µ", "u").replace("μ", "u")
        if unit not in (None, units):
            raise InvalidInputError(f"The margin {text!r} is in {found[2]}, but the project is in {units}.")
        return cls(value, False)


@dataclass(frozen=True)
class GateResult:
    """The outcome of a gate.

    Attributes
    ----------
    code : {0, 1, 2}
        Not worse, worse, undecided.
    difference : float
        Estimated RMS error of the new transform less that of the baseline; NaN without an answer.
    baseline, new : float
        Estimated RMS errors, less the stated noise of the answers; for a study, of all its pairs together.
    apart : float
        RMS distance of the two transforms from each other.
    margin : float
    relative : bool
        Whether the margin is a share of the baseline's RMS error.
    answers, pairs : int
        Random answers behind it, and pairs of images.
    open_answers : int
        How many of them are not sealed: a build could have been tuned by them.
    more : float
        About how many further answers would let it pass if they are like those so far; infinite where they would not.
    level : float
    units : str
    waiting : int
        Drawn questions that wait for an answer, where the gate was told to ask.
    """

    code: int
    difference: float
    baseline: float
    new: float
    apart: float
    margin: float
    relative: bool
    answers: int
    pairs: int
    open_answers: int
    more: float
    level: float
    units: str
    waiting: int = 0

    @property
    def status(self) -> str:
        """``"not worse"``, ``"worse"`` or ``"undecided"``."""
        return STATUS[self.code]

    @property
    def sentence(self) -> str:
        """The outcome in a sentence."""
        return sentences.gate(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        plain = {
            name: None if isinstance(one, float) and not np.isfinite(one) else one for name, one in vars(self).items()
        }
        return {"status": self.status, **plain, "sentence": self.sentence}


@dataclass(frozen=True, eq=False)
class GatePair:
    """A new transform and its baseline on one pair of images.

    Attributes
    ----------
    data : AuditData or None
        Of ``new`` and ``baseline``, in this order; None without an answer.
    squares : float
        Mean squared distance of the two transforms over the places of the audit.
    largest : float
        Diagonal of the moving image, which no RMS error of a baseline exceeds.
    """

    data: AuditData | None
    squares: float
    largest: float


def gate_audit(
    data: AuditData, margin: str | float = 0.0, *, level: float = CONFIDENCE, units: str = "px"
) -> GateResult:
    """Return whether the first transform of an audit is worse than the second, the baseline, by more than a margin.

    `gate_project` does so with the audit of a project, where margin and level are described.
    """
    if data.apart is None or data.asked is None:
        raise InvalidInputError("This audit was written by a former version, without what a gate needs.")
    squares = float(data.apart.largest[0, 1, -1]) / data.draws.population
    return decide([GatePair(data, squares, data.diagonal)], Margin.read(margin, units), level, units)


def gate_project(
    project: Project, new: Any, baseline: Any, *, margin: str | float = 0.0, level: float = CONFIDENCE, ask: int = 0
) -> GateResult:
    """Return whether a transform is worse than another by more than a margin, by the audit of a project.

    Parameters
    ----------
    project : Project
    new, baseline : transform
        As `warpgauge.read_transform` returns them.
    margin : str or float
        In world units, or ``"0.1mm"``, or ``"5%"`` of the baseline's RMS error.
    level : float
        One minus the error rate of either answer.
    ask : int
        Where it is undecided, so many questions are drawn by where the two differ, and wait in the list for an answer.
    """
    read = Margin.read(margin, project.units)
    if int(ask) != ask or ask < 0:
        raise InvalidInputError(f"A gate asks a whole number of questions of at least 0, got {ask!r}.")
    found = decide([gate_pair(project, new, baseline)], read, level, project.units, unanswered=ask > 0)
    if found.code != 2 or not ask:
        return found

    def pair(places: Floats) -> Floats:
        values = np.stack([one.map(places) for one in (new, baseline)])
        # Where a transform is not defined it counts as no registration, as in the gate.
        return np.where(np.isfinite(values).all(axis=2, keepdims=True), values, places)

    return replace(found, waiting=Session(project).ask_between(pair, int(ask)))


def gate_pair(project: Project, new: Any, baseline: Any) -> GatePair:
    """Return what the audit of a project says of a new transform and a baseline."""
    pair = {"new": new, "baseline": baseline}
    compared = project_comparison(project, pair).among(pair)
    largest = project.moving_grid.diagonal
    if compared.audited is None:
        values = compared.counted
        return GatePair(None, float(np.square(values[0] - values[1]).sum(axis=1).mean()), largest)
    data = audit_data(project, compared)
    assert data.apart is not None
    return GatePair(data, float(data.apart.largest[0, 1, -1]) / data.draws.population, largest)


def decide(
    pairs: Sequence[GatePair], margin: Margin, level: float, units: str, *, unanswered: bool = False
) -> GateResult:
    """Return the outcome over one pair of images or several, of which each counts the same.

    Without an answer it is refused unless ``unanswered`` says that undecided will do.
    """
    if not 0.5 < level < 1:
        raise InvalidInputError(f"The level of a gate must lie between 0.5 and 1, got {level!r}.")
    squares = float(np.mean([one.squares for one in pairs]))
    known = [one.data for one in pairs if one.data is not None]
    # By Minkowski's inequality RMS errors differ by at most the RMS distance of the transforms.
    at_once = squares == 0 or (not margin.relative and squares <= margin.size**2)
    if len(known) < len(pairs) and not at_once and not unanswered:
        raise InvalidInputError(
            "A gate needs answers to audit questions, and there are none; draw some with --ask 10, or answer some with "
            "warpgauge annotate PROJECT --audit 0.3."
        )
    code, more, sizes, answers, opened = 0 if at_once else 2, np.inf, (np.nan, np.nan), 0, 0
    if len(known) == len(pairs):
        taken = _Taken.of(known)
        sizes, answers, opened = taken.sizes, taken.answers, taken.open_answers
        if not at_once and len(taken.draws.bets):
            code, more = taken.outcome(margin, 1 - level, float(max(one.largest for one in pairs)))
    new, baseline = sizes
    return GateResult(
        code, new - baseline, baseline, new, float(np.sqrt(squares)), margin.size, margin.relative, answers,
        len(pairs), opened, 0.0 if code == 0 else more, level, units,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Taken:
    """The draws of all pairs in batches, one from each: as many as the pair with the fewest has."""

    data: Sequence[AuditData]
    draws: GateDraws
    answers: int
    open_answers: int

    @classmethod
    def of(cls, every: Sequence[AuditData]) -> _Taken:
        n = min(len(one.draws) for one in every)
        noise = [float(np.trace(one.covariances[one.answered], axis1=1, axis2=2).mean()) if one.answered.any() else 0.0
                 for one in every]  # fmt: skip
        squares = [one.apart.largest[0, 1, -1] / one.draws.population for one in every if one.apart is not None]
        draws = GateDraws(
            np.stack([(one.asked[0] - one.asked[1])[:n] for one in every if one.asked is not None]),
            # What the baseline misses at the marked point counts at the place that was asked.
            np.stack([np.where(one.answered[:, None], one.matches - one.mapped[1], np.inf)[:n] for one in every]),
            np.stack([one.draws.probabilities[:n] for one in every]),
            np.array([one.draws.population for one in every], dtype=np.float64),
            float(np.sum(squares)),
            float(np.sum(noise)),
            np.logical_and.reduce([one.bets_on(0, 1)[:n] for one in every]),
        )
        answers = sum(int(one.answered[:n].sum()) for one in every)
        opened = sum(int((one.answered & ~one.sealed)[:n].sum()) for one in every)
        return cls(every, draws, answers, opened)

    @property
    def sizes(self) -> tuple[float, float]:
        """Estimated RMS errors of the new transform and of the baseline, less the noise of the answers."""
        squares = np.zeros(2)
        for one in self.data:
            used = one.answered
            if not used.any():
                return np.nan, np.nan
            weights = one.draws.among(used).weights
            distances = np.square(one.mapped[:2, used] - one.matches[used]).sum(axis=2)
            squares += distances @ weights / weights.sum() - np.trace(one.covariances[used], axis1=1, axis2=2).mean()
        new, baseline = np.sqrt(np.maximum(squares / len(self.data), 0.0))
        return float(new), float(baseline)

    def outcome(self, margin: Margin, alpha: float, largest: float) -> tuple[int, float]:
        """Return the code, and about how many further answers would let it pass."""
        if margin.size > 0:
            if margin.relative:
                given = relative_gate_tickets(self.draws, margin.size)[None]
            else:
                given = absolute_gate_tickets(self.draws, margin.size, largest)
            if proven(given, alpha)[:, -1].all():
                return 0, 0.0
            more = max(answers_left(one[self.draws.bets], alpha) for one in given) * len(self.data)
        else:
            more = np.inf
        return (1, np.inf) if self._worse(alpha) else (2, more)

    def _worse(self, alpha: float) -> bool:
        """Return whether the new transform is proven to be worse, in mean error and in squared error.

        The latter up to an R0 that lies well beyond every answer, as in a certificate.
        """
        n, every = len(self.draws.bets), self.data
        ladder = ladder_of(max(one.pixel for one in every), max(one.diagonal for one in every))
        seen = max(float(_beyond(one, n).max(initial=0.0)) for one in every)
        steps = ladder[: int(np.searchsorted(ladder, seen)) + 1 + CLEAR]
        if not len(steps) or steps[-1] < seen:
            return False
        given = [self._against(None), *(self._against(float(one)) for one in steps)]
        return bool(proven(np.stack(given), alpha)[:, -1].all())

    def _against(self, beyond: float | None) -> Floats:
        """Tickets for "the new transform is worse": by the mean error for None, else by the squared error up to R0."""
        n, values, limit = len(self.draws.bets), [], 0.0
        for one in self.data:
            assert one.apart is not None
            apart, sums = one.apart.at_draws[0, :n], one.apart.largest[0, :, -1]
            y = np.where(one.answered[:, None], one.matches, one.mapped[1])[:n]
            new, baseline = one.mapped[0, :n], one.mapped[1, :n]
            if beyond is None:
                bound, d, total = apart, length_difference(baseline, new, y), float(sums[0])
            else:
                bound, d = segment_bound(apart, beyond), segment_difference(baseline, new, y, beyond)
                total = float(sums[1] + 2 * beyond * sums[0])
            value = np.where(one.answered[:n], bound + np.clip(d, -bound, bound), 0.0)
            values.append(value / one.draws.population)
            limit += total / one.draws.population
        return pooled_tickets(np.stack(values), self.draws.probabilities, limit, self.draws.bets)


def _beyond(one: AuditData, n: int) -> Floats:
    return beyond_segment(one.mapped[0], one.mapped[1], np.where(one.answered[:, None], one.matches, one.mapped[1]))[:n]
