"""Confidence intervals and sequences for means of few skewed values, quantile intervals, and ranks from comparisons.

Which interval holds was measured, see ``docs/reproduction/certified.md``: plain t intervals of squared errors are too
short at the upper end, the studentised bootstrap is at times too short for few weighted values, and the hull of the two
held best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.estimators import Contributions
from warpgauge.errors import InvalidInputError

RESAMPLES = 1999
# Precision of the prior on the standardised mean in the mixture martingale; fixed on pairs that are not reported.
_MIXTURE = 1.0
# No decision rests on fewer answers than this.
FEWEST_LOOKS = 6


@dataclass(frozen=True)
class Bounds:
    """An interval; infinite where the values give no bound."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether a value lies in it."""
        return self.low <= value <= self.high


def mean_interval(found: Contributions, level: float = 0.95, seed: int = 0) -> Bounds:
    """Interval of a mean from its contributions: the hull of the t interval and that of the studentised bootstrap.

    Parameters
    ----------
    found : Contributions
    level : float
        Nominal coverage.
    seed : int
        Of the resampling.
    """
    _check_level(level)
    n, x = len(found), found.values
    if n < 3:
        return Bounds(-np.inf, np.inf)
    alpha = 1 - level
    scale = float(np.abs(x).max())
    if found.spread <= 1e-12 * scale:  # all alike: also what a census leaves
        return Bounds(found.estimate, found.estimate)
    reach = float(stats.t.ppf(1 - alpha / 2, n - 1))
    rows = np.random.default_rng([seed, n]).integers(n, size=(RESAMPLES, n))
    drawn = x[rows]
    means, spreads = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / np.sqrt(n)
    usable = spreads > 1e-9 * scale
    if usable.sum() < RESAMPLES / 2:
        return Bounds(-np.inf, np.inf)
    below, above = np.quantile((means[usable] - x.mean()) / spreads[usable], [alpha / 2, 1 - alpha / 2])
    s = found.spread
    return Bounds(found.estimate - max(reach, float(above)) * s, found.estimate + max(reach, -float(below)) * s)


def log_evidence(values: Floats) -> Floats:
    """Logarithm of a martingale against a mean of zero, after each of the values; above ``log(1 / alpha)`` rejects.

    The likelihood ratio of normal values with an unknown standard deviation, mixed over a normal prior on the
    standardised mean (Lai 1976; Wang and Ramdas 2025, "Anytime-valid t-tests"). It may be looked at after every value.
    """
    x = np.asarray(values, dtype=np.float64)
    n = np.arange(1, len(x) + 1)
    total, squares = np.cumsum(x), np.cumsum(np.square(x))
    explained = np.square(total) / (n + _MIXTURE) / np.where(squares > 0, squares, 1.0)
    return np.asarray(0.5 * np.log(_MIXTURE / (n + _MIXTURE)) - 0.5 * n * np.log1p(-explained))


def confidence_sequence(values: Floats, level: float = 0.95) -> Bounds:
    """Interval of a mean that holds at all times together, however often it is looked at: all means not rejected.

    Parameters
    ----------
    values : (n,) array
        Conditionally unbiased for the mean, in the order in which they came.
    level : float
        Probability with which it holds after every value.
    """
    _check_level(level)
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < FEWEST_LOOKS:
        return Bounds(-np.inf, np.inf)
    centre = float(x.mean())
    bound = np.exp(2 / n * (-np.log(1 - level) + 0.5 * np.log((n + _MIXTURE) / _MIXTURE)))
    left = 1 - bound * _MIXTURE / (n + _MIXTURE)
    if left <= 0:
        return Bounds(-np.inf, np.inf)
    reach = float(np.sqrt((bound - 1) * np.square(x - centre).sum() / (n * left)))
    return Bounds(centre - reach, centre + reach)


def quantile_interval(values: Floats, weights: Floats, p: float, level: float = 0.95) -> tuple[float, Bounds]:
    """Weighted quantile and its interval by order statistics; unequal weights count as fewer values.

    With n equal weights and a continuous population the interval is exact: it holds with at least ``level``. The upper
    bound is infinite where there are too few values for one.
    """
    _check_level(level)
    order = np.argsort(values)
    x, share = values[order], np.cumsum(weights[order]) / weights.sum()
    n = max(1, int(np.floor(weights.sum() ** 2 / np.square(weights).sum() + 1e-9)))
    alpha = 1 - level
    # Order statistics l and u, from 1: P(X_l > q) and P(X_u < q) are both at most alpha / 2.
    lower = int(stats.binom.ppf(alpha / 2, n, p))
    upper = int(stats.binom.ppf(1 - alpha / 2, n, p)) + 1

    def at(rank: float) -> float:
        return float(x[min(len(x) - 1, int(np.searchsorted(share, rank / n - 1e-12)))])

    low = at(lower) if lower >= 1 else -np.inf
    high = at(upper) if upper <= n else np.inf
    return float(x[min(len(x) - 1, int(np.searchsorted(share, p - 1e-12)))]), Bounds(low, high)


def rank_intervals(better: Bools) -> list[tuple[int, int]]:
    """Ranks that are possible given sure comparisons: from 1 + number surely better to K - number surely worse.

    Parameters
    ----------
    better : (K, K) array of bool
        Whether the row is surely better than the column. Where all of these hold together with some probability, so
        do all rank intervals.
    """
    K = len(better)
    return [(1 + int(better[:, k].sum()), K - int(better[k].sum())) for k in range(K)]


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidInputError(f"A level must lie between 0 and 1, got {level!r}.")
