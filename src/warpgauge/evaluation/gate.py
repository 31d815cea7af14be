"""Gates: whether a new registration is worse than a baseline by more than a margin, for continuous integration.

A gate passes only what it can prove, by the random draw of the audit alone: at most 1 - level of the audits pass a
registration whose mean error is larger by the margin or more, however often they are looked at. It fails what is proven
to be worse. Errors are distances from the experts' answers, with their scatter.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from warpgauge.display import counted, length, percent, shown_units
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.audit import CONFIDENCE, FAR, AuditData, audit_data
from warpgauge.evaluation.project_evaluation import project_comparison
from warpgauge.io.files import plain
from warpgauge.project import Project

STATUS = {0: "not worse", 1: "worse", 2: "undecided"}
_MARGIN = re.compile(r"\s*([0-9.eE+-]+)\s*(mm|um|[µμ]m|px|%)?\s*")
# Mean distances that equal a margin to rounding count as equal.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Margin:
    """By how much a registration may be worse: a length in world units, or a share of the baseline's mean error."""

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
            raise InvalidInputError(
                f"The margin {text!r} is in {found[2]}, but the project is in {shown_units(units)}."
            )
        return cls(value, False)

    def covers(self, apart: float) -> bool:
        """Return whether mean errors of transforms so far apart cannot differ by more, by the triangle inequality."""
        return apart == 0 or (not self.relative and apart <= self.size * (1 + _ROUNDING))

    def words(self, units: str) -> str:
        """Return the margin as it is shown."""
        return percent(self.size) if self.relative else length(self.size, units)


@dataclass(frozen=True)
class GateResult:
    """The outcome of a gate."""

    code: int
    """0 not worse, 1 worse, 2 undecided."""
    baseline: float
    new: float
    """Estimated mean errors; NaN without an answer."""
    apart: float
    """Mean distance of the two transforms from each other."""
    margin: Margin
    answers: int
    open_answers: int
    """How many of them are not sealed: a registration could have been tuned by them."""
    more: float
    """About how many further answers would let it pass if they are like those so far; infinite where they would not."""
    level: float
    units: str

    @property
    def status(self) -> str:
        """``"not worse"``, ``"worse"`` or ``"undecided"``."""
        return STATUS[self.code]

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        error = percent(1 - self.level)
        apart = length(self.apart, self.units)
        margin = self.margin.words(self.units)
        size = (
            f"its mean error is about {length(self.new, self.units)} and the baseline's "
            f"{length(self.baseline, self.units)}, from {counted(self.answers, 'random answer')}"
        )
        known = ""
        if self.open_answers:
            known = f" {counted(self.open_answers, 'answer')} of these are not sealed: tuning by them is not excluded."
        if self.margin.covers(self.apart):
            return f"Not worse: the two differ by {apart} on average, and so do their errors at most."
        if self.code == 0:
            sure = f"One that is worse by {margin} or more passes in at most {error} of audits."
            return f"Not worse: {size}. {sure}{known}"
        if self.code == 1:
            return f"Worse: {size}. One that is not worse fails in at most {error} of audits.{known}"
        need = "answers like these would not let it pass"
        if self.more <= FAR:
            need = f"about {counted(round(max(1, self.more)), 'more answer')} like these would let it pass"
        return f"Undecided at a margin of {margin}: {size}; {need}. The two differ by {apart} on average.{known}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, None for what is not finite."""
        content: dict[str, Any] = plain({"status": self.status, **asdict(self), "sentence": self.sentence})
        return content


def gate_audit(
    data: AuditData, margin: str | float = 0.0, *, level: float = CONFIDENCE, units: str = "px"
) -> GateResult:
    """Return whether the first transform of an audit is worse than the second, the baseline, by more than a margin."""
    limit = Margin.read(margin, units)
    _check_level(level)
    claim = {"share": limit.size} if limit.relative else {"length": limit.size}
    apart = float(data.distances[0, 1]) / data.population
    more = 0.0
    if limit.covers(apart) or data.proves(0, 1, 1 - level, **claim):
        code = 0
    elif data.proves(1, 0, 1 - level):
        code = 1
        more = np.inf
    else:
        code = 2
        more = data.forecast(0, 1, 1 - level, **claim)
    new, baseline = data.mean_errors.tolist()
    answers = int(data.answered.sum())
    open_answers = int((data.answered & ~data.sealed).sum())
    return GateResult(code, baseline, new, apart, limit, answers, open_answers, more, level, units)


def gate_project(
    project: Project, new: Any, baseline: Any, *, margin: str | float = 0.0, level: float = CONFIDENCE
) -> GateResult:
    """Return whether a transform is worse than another by more than a margin, by the audit of a project.

    ``new`` and ``baseline`` are transforms as `warpgauge.read_transform` returns them; the margin is in world units, or
    reads ``"0.1mm"``, or ``"5%"`` of the baseline's mean error. ``level`` is one minus the error rate of an outcome.
    """
    units = project.units
    limit = Margin.read(margin, units)
    _check_level(level)
    pair = {"new": new, "baseline": baseline}
    compared = project_comparison(project, pair).among(pair)
    if compared.audited is not None:
        return gate_audit(audit_data(project, compared), margin, level=level, units=units)
    apart = float(np.linalg.norm(compared.counted[0] - compared.counted[1], axis=1).mean())
    if not limit.covers(apart):
        raise InvalidInputError(
            "A gate needs answers to audit questions, and there are none: make the project with new --audit 0.25."
        )
    return GateResult(0, np.nan, np.nan, apart, limit, 0, 0, 0.0, level, units)


def _check_level(level: float) -> None:
    if not 0.5 < level < 1:
        raise InvalidInputError(f"The level of a gate must lie between 0.5 and 1, got {level!r}.")
