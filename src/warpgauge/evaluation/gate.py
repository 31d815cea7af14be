"""Gates: whether a new registration is worse than a baseline by more than a margin, for continuous integration.

Both answers have a stated error rate, which follows from the random draw of the audit alone. At most 1 - level of the
audits call a registration worse that is not worse, and at most 1 - level call one "not worse" that is worse by the
margin or more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.estimators import Contributions, contributions, mean_interval
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import sentences
from warpgauge.evaluation.audit import AuditData, audit_data
from warpgauge.evaluation.design_verdict import CONFIDENCE, FEWEST
from warpgauge.evaluation.project_evaluation import project_comparison
from warpgauge.project import Project

STATUS = {0: "not worse", 1: "worse", 2: "undecided"}
_MARGIN = re.compile(r"\s*([0-9.eE+-]+)\s*(mm|um|px|%)?\s*")


@dataclass(frozen=True)
class Excess:
    """Error of a new transform beyond that of a baseline on one pair of images, in mean squared errors.

    Attributes
    ----------
    excess : Contributions
        Of new less baseline.
    beyond : Contributions
        Of new less the square of the baseline's RMS error plus margin.
    baseline, new : float
        RMS errors.
    margin : float
        In world units.
    answers : int
    """

    excess: Contributions
    beyond: Contributions
    baseline: float
    new: float
    margin: float
    answers: int

    @property
    def scale(self) -> float:
        """Factor from a difference of mean squares to one of RMS errors: one over the sum of the two."""
        total = self.baseline + max(self.new, self.baseline + self.margin)
        return 1 / total if total > 0 else 1.0


@dataclass(frozen=True)
class GateResult:
    """The outcome of a gate.

    Attributes
    ----------
    code : {0, 1, 2}
        Not worse, worse, undecided.
    difference, low, high : float
        RMS error of the new transform less that of the baseline, with one-sided bounds of the level each.
    margin : float
    baseline, new : float
        RMS errors; for a study, means over its pairs.
    answers, pairs : int
        Random answers behind it, and pairs of images.
    level : float
    units : str
    """

    code: int
    difference: float
    low: float
    high: float
    margin: float
    baseline: float
    new: float
    answers: int
    pairs: int
    level: float
    units: str

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


def read_margin(text: str | float, units: str, baseline: float | None = None) -> float:
    """Return a margin in world units, from ``0.1``, ``"0.1mm"`` or ``"5%"`` (of the baseline's RMS error)."""
    found = _MARGIN.fullmatch(str(text))
    try:
        value = float(found[1]) if found else -1.0
    except ValueError:
        value = -1.0
    if found is None or not 0 <= value < np.inf:
        raise InvalidInputError(f"A margin must read 0.1mm, 0.1 or 5%, got {text!r}.")
    if found[2] == "%":
        return value / 100 * (1.0 if baseline is None else baseline)
    if found[2] not in (None, units):
        raise InvalidInputError(f"The margin {text!r} is in {found[2]}, but the project is in {units}.")
    return value


def compared(data: AuditData, margin: str | float, units: str) -> Excess:
    """Compare the first transform of an audit with the second, the baseline."""
    usable = data.usable
    if usable.sum() < FEWEST:
        raise InvalidInputError(
            f"A gate needs at least {FEWEST} audit answers where both transforms are defined, there are {usable.sum()}."
        )
    draws, squares = data.draws.among(usable), data.squares()[:, usable]

    def of(coefficients: tuple[float, float], constant: float = 0.0) -> Contributions:
        factors = np.array(coefficients)
        told = data.predictions(factors)
        found = contributions(draws, factors @ squares, None if told is None else told.among(usable))
        return Contributions(found.values + constant, found.estimate + constant, found.spread)

    sizes = [float(np.sqrt(max(0.0, of(one).estimate))) for one in ((1.0, 0.0), (0.0, 1.0))]
    baseline = sizes[1]
    size = read_margin(margin, units, baseline)
    # new^2 < (baseline + margin)^2, linear in the mean squares: the square root is taken at the estimate.
    share = size / baseline if baseline > 0 else 0.0
    beyond = of((1.0, -1.0 - share), -size * baseline - size**2)
    return Excess(of((1.0, -1.0)), beyond, baseline, sizes[0], size, int(usable.sum()))


def decide(found: Excess, level: float, units: str, seed: int = 0) -> GateResult:
    """Return the outcome for one pair of images."""
    two_sided = 1 - 2 * (1 - level)
    excess, beyond = mean_interval(found.excess, two_sided, seed), mean_interval(found.beyond, two_sided, seed)
    code = 0 if beyond.high <= 0 else 1 if excess.low > 0 else 2
    size = found.baseline

    def apart(square: float) -> float:
        """RMS error above the baseline's, from a mean square."""
        return float(np.sqrt(max(0.0, square))) - size

    return GateResult(
        code,
        apart(size**2 + found.excess.estimate),
        apart(size**2 + excess.low),
        apart((size + found.margin) ** 2 + beyond.high),
        found.margin,
        found.baseline,
        found.new,
        found.answers,
        1,
        level,
        units,
    )


def gate_audit(
    data: AuditData, margin: str | float = 0.0, *, level: float = CONFIDENCE, units: str = "px", seed: int = 0
) -> GateResult:
    """Return whether the first transform of an audit is worse than the second, the baseline, by more than a margin.

    `gate_project` does so with the audit of a project, where margin and level are described.
    """
    check_level(level)
    return decide(compared(data, margin, units), level, units, seed)


def check_level(level: float) -> None:
    """Refuse a level outside 0.5 to 1."""
    if not 0.5 < level < 1:
        raise InvalidInputError(f"The level of a gate must lie between 0.5 and 1, got {level!r}.")


def gate_project(
    project: Project, new: Any, baseline: Any, *, margin: str | float = 0.0, level: float = CONFIDENCE, seed: int = 0
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
    """
    check_level(level)
    return gate_audit(gate_data(project, new, baseline), margin, level=level, units=project.units, seed=seed)


def gate_data(project: Project, new: Any, baseline: Any) -> AuditData:
    """Return the audit of a project for a new transform and a baseline."""
    pair = {"new": new, "baseline": baseline}
    return audit_data(project, project_comparison(project, pair).among(pair))
