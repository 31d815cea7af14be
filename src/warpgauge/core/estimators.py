"""Estimates of a population's mean from random draws, valid by the design alone, and their confidence intervals.

A value is known only where a unit was drawn and answered. Weights are those of the design: Horvitz-Thompson within a
round of draws, and over rounds as in active testing (Kossen, Farquhar, Gal and Rainforth 2021, "Active Testing:
Sample-Efficient Model Evaluation"), so that every round may be drawn with other probabilities, chosen from what earlier
rounds have shown. No model enters; predictions, where given, make an estimate more precise and leave it unbiased.

Intervals and sequences are for means of few skewed values, for quantiles, and for ranks from comparisons. Which
interval holds was measured, see ``docs/paper/evaluation.md``: plain t intervals of squared errors are too short
at the upper end, the studentised bootstrap is at times too short for few weighted values, and the hull of the two held
best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Draws:
    """Drawn units and how likely each was to be drawn.

    Attributes
    ----------
    rows : (n,) array of int
        Of the population.
    probabilities : (n,) array
        Inclusion probability in the unit's own round, among the units not drawn before. Of a round that was not used
        up, that of its beginning.
    rounds : (n,) array of int
        Ascending.
    population : int
        Number of units.
    """

    rows: Ints
    probabilities: Floats
    rounds: Ints
    population: int

    def __post_init__(self) -> None:
        n = len(self.rows)
        if self.probabilities.shape != (n,) or self.rounds.shape != (n,) or (np.diff(self.rounds) < 0).any():
            raise InvalidInputError("Draws need one probability per row, and rounds in ascending order.")
        if n and not ((self.probabilities > 0) & (self.probabilities <= 1 + 1e-9)).all():
            raise InvalidInputError("Inclusion probabilities of drawn units must lie above 0 and not above 1.")
        if len(set(self.rows.tolist())) < n or (n and not 0 <= self.rows.min() <= self.rows.max() < self.population):
            raise InvalidInputError("Draws name each unit of the population at most once.")

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def uniform(cls, rows: ArrayLike, population: int) -> Draws:
        """Return a single round in which every unit was equally likely."""
        given = np.asarray(rows, dtype=np.int64)
        share = np.full(len(given), len(given) / population)
        return cls(given, share, np.zeros(len(given), dtype=np.int64), population)

    @property
    def weights(self) -> Floats:
        """Weights (n,) with which ``sum(weights * values)`` is unbiased for the population's mean.

        A round k that found s units drawn before estimates the mean by ``(sum of those + Horvitz-Thompson total of the
        others) / N``. Rounds are averaged with shares ``b N (N - n) / (n (N - s) (N - s - b))``, which make the
        estimate the plain mean of the answers where all probabilities are equal.
        """
        n, N = len(self), self.population
        if n == N:
            return np.full(n, 1 / N)
        weights = np.zeros(n)
        drawn = 0
        for number in np.unique(self.rounds):
            own = self.rounds == number
            b = int(own.sum())
            share = b * N * (N - n) / (n * (N - drawn) * (N - drawn - b))
            weights[:drawn] += share / N
            weights[own] = share / (N * self.probabilities[own])
            drawn += b
        return weights

    def among(self, answered: Bools) -> Draws:
        """Return the answered draws, with the probabilities of each round lowered by the share that was answered.

        Estimates are then of the mean over the units that would be answered.
        """
        known = np.asarray(answered, dtype=bool)
        shares = np.array([known[self.rounds == number].mean() for number in self.rounds])
        return Draws(self.rows[known], (self.probabilities * shares)[known], self.rounds[known], self.population)

    @property
    def sampled_share(self) -> float:
        """Share of the population that was drawn."""
        return len(self) / self.population


@dataclass(frozen=True, eq=False)
class Contributions:
    """An estimate as a mean of contributions, one per draw, which intervals take as independent.

    Attributes
    ----------
    values : (n,) array
        ``estimate`` is their mean.
    estimate : float
    spread : float
        Standard error of the estimate, smaller by ``sqrt(1 - n / N)`` because the population is finite.
    """

    values: Floats
    estimate: float
    spread: float

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted values, each made without the answer at its own draw.

    Attributes
    ----------
    at_draws : (n,) array
        At the drawn units.
    means : (n,) array
        Mean over the population of the predictions by the same model; the same for all draws unless cross-fitted.
    """

    at_draws: Floats
    means: Floats

    @classmethod
    def everywhere(cls, values: Floats, draws: Draws) -> Predictions:
        """Return predictions by one model that knows none of the answers, given at all N units."""
        return cls(values[draws.rows], np.full(len(draws), float(np.mean(values))))

    def among(self, kept: Bools) -> Predictions:
        """Return those of some of the draws."""
        return Predictions(self.at_draws[kept], self.means[kept])


def contributions(draws: Draws, values: Floats, predictions: Predictions | None = None) -> Contributions:
    """Return the estimate of the population's mean.

    Parameters
    ----------
    draws : Draws
    values : (n,) array
        At the drawn units.
    predictions : Predictions, optional
        The difference estimator: mean prediction plus the estimated mean of ``value - prediction``.

    Notes
    -----
    A ratio of two Horvitz-Thompson estimates (Hajek's) in all cases: it is exact for constant values, and its bias is
    of the order 1 / n.
    """
    if not len(draws):
        raise InvalidInputError("None of the drawn units is answered, so there is nothing to estimate from.")
    inner = np.asarray(values, dtype=np.float64)
    if predictions is not None:
        inner = inner - predictions.at_draws + predictions.means
    n, weights = len(draws), draws.weights
    own = weights * (n / weights.sum())
    centre = float(np.mean(own * inner))
    linear = centre + own * (inner - centre)
    finite = float(np.sqrt(max(0.0, 1 - draws.sampled_share)))
    spread = float(np.std(linear, ddof=1) / np.sqrt(n)) * finite if n > 1 else np.inf
    return Contributions(np.asarray(linear), centre, spread)


def single_draws(draws: Draws, values: Floats, predictions: Predictions | None = None) -> Floats:
    """Return one unbiased estimate of the population's mean per draw, in the order of the draws; for sequences.

    Draw m of a round with s units drawn before gives ``(sum of those + value / q) / N``, with ``q`` the probability of
    a single draw. With predictions, values are differences from them and their mean is added.

    Parameters
    ----------
    draws, values, predictions
        As in `contributions`.
    """
    N = draws.population
    inner = np.asarray(values, dtype=np.float64)
    if predictions is not None:
        inner = inner - predictions.at_draws
    found = np.empty(len(draws))
    drawn = 0
    for number in np.unique(draws.rounds):
        own = draws.rounds == number
        b = int(own.sum())
        found[own] = (inner[:drawn].sum() + b * inner[own] / draws.probabilities[own]) / N
        drawn += b
    return found if predictions is None else found + predictions.means


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
    from scipy import stats  # takes longer to load than all of the core

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
    from scipy import stats

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
    """Possible ranks given decided comparisons: from 1 + number of better ones to K - number of worse ones.

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
