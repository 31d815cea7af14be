"""`Trust`: whether a model predicts annotations that it was not fitted to as well as it says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.core.calibration import LEVELS, Coverage, binomial_interval, scaled_left_out
from warpgauge.core.process import Posterior
from warpgauge.display import counted, joined
from warpgauge.errors import InvalidInputError

# The three coverages are tested together at 5 % (Bonferroni).
_TEST_LEVEL = 1 - 0.05 / len(LEVELS)
# With fewer annotations the binomial intervals are too wide to find anything out.
FEWEST = 10
_OUTLYING = 0.01
_WORDS = {
    "calibrated": "as they should",
    "overconfident": "too few. Do not rely on what follows",
    "underconfident": "more than they should",
}


@dataclass(frozen=True, eq=False)
class Trust:
    """How well annotations are predicted that the model does not know.

    Attributes
    ----------
    verdict : {"calibrated", "overconfident", "underconfident", "undetermined"}
        Is each level within the binomial interval of its coverage, the three together at 5 %?
    coverage : tuple of Coverage
        Annotations within their own 50, 80 and 95 % regions, with 95 % binomial intervals.
    residuals, standardised : (L, d) array
        Distances from the predictions in world units, and whitened by their stated covariance.
    levels : (L,) array
        Probability of the region that just holds each annotation.
    """

    verdict: str
    coverage: tuple[Coverage, ...]
    residuals: Floats
    standardised: Floats
    levels: Floats

    @classmethod
    def of(cls, residuals: Floats, standardised: Floats, levels: Floats) -> Trust:
        """Test the levels of predicted annotations."""
        count = len(levels)
        if count == 0:
            raise InvalidInputError("A model is tested by annotations; there is none.")
        coverage = []
        for level in LEVELS:
            inside = int((levels <= level).sum())
            coverage.append(Coverage(level, inside, count, inside / count, *binomial_interval(inside, count)))
        return cls(_verdict(coverage), tuple(coverage), residuals, standardised, levels)

    @classmethod
    def of_posterior(cls, posterior: Posterior) -> Trust:
        """Test a posterior: each annotation is predicted from all others, at the scale that the posterior uses."""
        left_out = scaled_left_out(posterior)
        levels = posterior.level_of(np.square(left_out.mahalanobis))
        return cls.of(left_out.residuals, left_out.standardised, np.asarray(levels))

    def __repr__(self) -> str:
        return f"<Trust: {self.verdict}, {counted(len(self.levels), 'annotation')}>"

    @property
    def calibrated(self) -> bool:
        """Whether the test found nothing wrong (and could have)."""
        return self.verdict == "calibrated"

    @property
    def mahalanobis(self) -> Floats:
        """Lengths (L,) of the standardised residuals."""
        return np.asarray(np.linalg.norm(self.standardised, axis=1))

    @property
    def p(self) -> Floats:
        """Chi-square probability (L,) of a longer residual, whatever the model's tails: it is for finding slips."""
        return np.asarray(special.chdtrc(self.standardised.shape[1], np.square(self.mahalanobis)))

    @property
    def outliers(self) -> list[int]:
        """Rows of the annotations that contradict the others, p below 0.01 / L, the most surprising first."""
        p = self.p
        return [int(row) for row in np.argsort(p) if p[row] < _OUTLYING / len(p)]

    @property
    def short(self) -> str:
        """How many annotations lie in their regions, and whether that is as it should be."""
        if self.verdict == "undetermined":
            return f"too few to test the model ({FEWEST} are needed)"
        inside = ", ".join(str(one.inside) for one in self.coverage)
        levels = ", ".join(f"{100 * one.level:.0f}" for one in self.coverage)
        count = self.coverage[0].count
        return f"predicted unseen, {inside} of {count} lie within their {levels} % regions: {_WORDS[self.verdict]}"

    @property
    def sentence(self) -> str:
        """The same as a whole sentence, with the annotations that contradict the others."""
        count = counted(len(self.levels), "annotation")
        text = f"{count}: {self.short}"
        if self.outliers:
            numbers = joined([str(row + 1) for row in self.outliers])
            text += f"; in contradiction to the others: {numbers}"
        return f"{text}."

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain values."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "coverage": [asdict(one) | {"consistent": one.consistent} for one in self.coverage],
            "standardised": self.standardised.tolist(),
            "mahalanobis": self.mahalanobis.tolist(),
            "levels": self.levels.tolist(),
            "p": self.p.tolist(),
            "outliers": self.outliers,
        }


def _verdict(coverage: list[Coverage]) -> str:
    if coverage[0].count < FEWEST:
        return "undetermined"
    intervals = [(one.level, *binomial_interval(one.inside, one.count, _TEST_LEVEL)) for one in coverage]
    if any(high < level for level, _, high in intervals):
        return "overconfident"
    if any(low > level for level, low, _ in intervals):
        return "underconfident"
    return "calibrated"
