"""Diagnostics of the posterior: leave-one-out coverage, residuals, outliers, and regions without information."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.core.calibration import LEVELS, Coverage, binomial_interval, left_out, scale_factor
from warpgauge.core.linalg import mahalanobis
from warpgauge.core.process import Posterior
from warpgauge.core.tails import adjusted_significance, beyond, squared_radius
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.sentences import calibration
from warpgauge.maps import known_points

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
    known : float or None
        Share of the targets about which the annotations say enough, as maps show it (`warpgauge.maps.known_points`).
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
    known: float | None
    verdict: str
    sentence: str

    @property
    def calibrated(self) -> bool:
        """Whether the test found nothing wrong (and could have)."""
        return self.verdict == "calibrated"


def diagnose(posterior: Posterior, targets: Floats | None = None, *, pixel: float | None = None) -> Diagnostics:
    """Compare every annotation with its prediction from all others, as sure as this posterior claims to be.

    A calibrated posterior is tested with its own factor: residual l has the covariance ``c k_l + N_l``. ``pixel`` is
    the world length of a pixel: what is known to a pixel is known.
    """
    count, d = len(posterior.annotations), posterior.d
    if count == 0:
        raise InvalidInputError("Diagnostics need at least one annotation, got none.")
    raw = left_out(posterior.conditioned, posterior.weights)
    noise = posterior.conditioned.noise
    covariances = posterior.scale * (raw.covariances - noise) + noise
    squares = mahalanobis(raw.residuals, covariances)
    factors = np.linalg.cholesky(covariances)
    standardised = np.linalg.solve(factors, raw.residuals[..., None])[..., 0]
    tails = posterior.prior.tails
    # Screened as if normal: under heavy tails few slips would stand out.
    p = beyond(squares, d)
    adjusted = adjusted_significance(p)
    coverage = tuple(_coverage(level, squares, d, tails) for level in LEVELS)
    outliers = tuple(
        Outlier(int(row), float(p[row]), float(adjusted[row]), float(np.sqrt(squares[row])))
        for row in np.argsort(p)
        if p[row] < OUTLYING / count
    )
    verdict = _verdict(coverage)
    return Diagnostics(
        coverage=coverage,
        standardised=standardised,
        mahalanobis=np.sqrt(squares),
        p=p,
        adjusted_p=adjusted,
        qq_normal=_quantiles(standardised.reshape(-1), lambda share: _component_quantiles(share, tails)),
        qq_chi=_quantiles(
            np.sqrt(squares), lambda shares: np.sqrt([squared_radius(float(share), d, tails) for share in shares])
        ),
        applied_factor=float(posterior.scale),
        asked_factor=scale_factor(posterior.conditioned, posterior.weights, tails),
        outliers=outliers,
        known=None if targets is None else float(np.mean(known_points(posterior, targets, pixel=pixel))),
        verdict=verdict,
        sentence=calibration(verdict, coverage, FEWEST, [one.row for one in outliers]),
    )


def _component_quantiles(shares: Floats, tails: float) -> Floats:
    """Quantiles of one component of a standardised residual: variance 1, normal or Student-t."""
    if np.isinf(tails):
        return np.asarray(special.ndtri(shares))
    return np.asarray(special.stdtrit(tails, shares) * np.sqrt((tails - 2) / tails))


def _coverage(level: float, squares: Floats, d: int, tails: float) -> Coverage:
    inside, count = int(np.sum(squares <= squared_radius(level, d, tails))), len(squares)
    return Coverage(level, inside, count, inside / count, *binomial_interval(inside, count))


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
