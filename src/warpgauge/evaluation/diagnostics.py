"""Trust in a ranking: leave-one-out diagnostics of the posterior."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.core.calibration import LEVELS, Coverage, binomial_interval, coverage, scaled_left_out
from warpgauge.core.process import Posterior
from warpgauge.core.tails import adjusted_significance, squared_radius
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.sentences import calibration


@dataclass(frozen=True, eq=False)
class Trust:
    """Diagnostics of the posterior; ``sentence`` is to be read before any ranking."""

    diagnostics: Diagnostics

    def __repr__(self) -> str:
        return f"<Trust: {self.verdict}>"

    @property
    def verdict(self) -> str:
        """``"calibrated"``, ``"overconfident"``, ``"underconfident"`` or ``"undetermined"``."""
        return self.diagnostics.verdict

    @property
    def calibrated(self) -> bool:
        """Whether the test of calibration found nothing wrong (and could have)."""
        return self.diagnostics.calibrated

    @property
    def sentence(self) -> str:
        """The diagnostics' sentence."""
        return self.diagnostics.sentence

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values."""
        found = self.diagnostics
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "coverage": [asdict(one) | {"consistent": one.consistent} for one in found.coverage],
            "standardised": found.standardised.tolist(),
            "mahalanobis": found.mahalanobis.tolist(),
            "p": found.p.tolist(),
            "adjusted_p": found.adjusted_p.tolist(),
            "qq_normal": found.qq_normal.tolist(),
            "qq_chi": found.qq_chi.tolist(),
            "applied_factor": found.applied_factor,
            "asked_factor": found.asked_factor,
            "outliers": [asdict(one) for one in found.outliers],
        }

    def to_json(self) -> str:
        """All numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def trust(posterior: Posterior) -> Trust:
    """Return whether a posterior is calibrated, at its own scale."""
    return Trust(diagnose(posterior))


# The three coverages are tested together at 5 % (Bonferroni).
TEST_LEVEL = 1 - 0.05 / len(LEVELS)
# With fewer annotations the binomial intervals are too wide to find anything out.
FEWEST = 10
OUTLYING = 0.01


@dataclass(frozen=True)
class Outlier:
    """An annotation that the others contradict: its row, p-value, and p-value adjusted by Benjamini-Hochberg."""

    row: int
    p: float
    adjusted_p: float
    mahalanobis: float


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Leave-one-out diagnostics of a posterior, at the scale that the posterior itself uses.

    Attributes
    ----------
    coverage : tuple of Coverage
        Share of the annotations inside their own 50, 80 and 95 % regions, with 95 % binomial intervals.
    standardised : (L, d) array
        Residuals whitened by their stated covariance: of variance 1, normal or with the prior's Student-t tails, if the
        model is right.
    mahalanobis, p, adjusted_p : (L,) array
        Length of each residual, its chi-square p-value (whatever the tails: it is for finding slips), and that adjusted
        by Benjamini-Hochberg.
    qq_normal : (L d, 2) array
        Expected and observed quantiles of the standardised components.
    qq_chi : (L, 2) array
        Expected and observed quantiles of the Mahalanobis lengths.
    applied_factor, asked_factor : float
        Factor on the covariance that the posterior uses, and the one that its residuals ask for.
    outliers : tuple of Outlier
        Annotations with p below 0.01 / L, the most surprising first.
    verdict : {"calibrated", "overconfident", "underconfident", "undetermined"}
        By the stated test: is each level within the binomial interval of its coverage, the three together at 5 %?
    sentence : str
    """

    coverage: tuple[Coverage, ...]
    standardised: Floats
    mahalanobis: Floats
    p: Floats
    adjusted_p: Floats
    qq_normal: Floats
    qq_chi: Floats
    applied_factor: float
    asked_factor: float
    outliers: tuple[Outlier, ...]
    verdict: str
    sentence: str

    def __repr__(self) -> str:
        return f"<Diagnostics: {self.verdict}, {counted(len(self.p), 'annotation')}>"

    @property
    def calibrated(self) -> bool:
        """Whether the test found nothing wrong (and could have)."""
        return self.verdict == "calibrated"


def diagnose(posterior: Posterior) -> Diagnostics:
    """Compare every annotation with its prediction from all others, at the confidence that this posterior claims.

    A calibrated posterior is tested with its own factor: residual l has the covariance ``c k_l + N_l``.
    """
    count, d = len(posterior.annotations), posterior.d
    if count == 0:
        raise InvalidInputError("Diagnostics need at least one annotation, got none.")
    found, tails = scaled_left_out(posterior), posterior.prior.tails
    standardised, p, adjusted = found.standardised, found.p, adjusted_significance(found.p)
    squares = np.square(found.mahalanobis)
    covered = coverage(squares, d, tails)
    outliers = tuple(
        Outlier(int(row), float(p[row]), float(adjusted[row]), float(found.mahalanobis[row]))
        for row in np.argsort(p)
        if p[row] < OUTLYING / count
    )
    verdict = _verdict(covered)
    return Diagnostics(
        coverage=covered,
        standardised=standardised,
        mahalanobis=found.mahalanobis,
        p=p,
        adjusted_p=adjusted,
        qq_normal=_quantiles(standardised.reshape(-1), lambda share: _component_quantiles(share, tails)),
        qq_chi=_quantiles(
            found.mahalanobis, lambda shares: np.sqrt([squared_radius(float(share), d, tails) for share in shares])
        ),
        applied_factor=float(posterior.scale),
        asked_factor=posterior.asked_factor(),
        outliers=outliers,
        verdict=verdict,
        sentence=calibration(verdict, covered, FEWEST, [one.row for one in outliers]),
    )


def _component_quantiles(shares: Floats, tails: float) -> Floats:
    """Quantiles of one component of a standardised residual: variance 1, normal or Student-t."""
    if np.isinf(tails):
        return np.asarray(special.ndtri(shares))
    return np.asarray(special.stdtrit(tails, shares) * np.sqrt((tails - 2) / tails))


def _quantiles(values: Floats, quantile: object) -> Floats:
    shares = (np.arange(len(values)) + 0.5) / len(values)
    return np.stack([np.asarray(quantile(shares)), np.sort(values)], axis=1)  # type: ignore[operator]


def _verdict(coverage: tuple[Coverage, ...]) -> str:
    if coverage[0].count < FEWEST:
        return "undetermined"
    intervals = [(one.level, *binomial_interval(one.inside, one.count, TEST_LEVEL)) for one in coverage]
    if any(high < level for level, _, high in intervals):
        return "overconfident"
    if any(low > level for level, low, _ in intervals):
        return "underconfident"
    return "calibrated"
