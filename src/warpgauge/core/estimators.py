"""Estimates of a population's mean from random draws, valid by the design alone.

A value is known only where a unit was drawn and answered. Weights are those of the design: Horvitz-Thompson within a
round of draws, and over rounds as in active testing (Kossen, Farquhar, Gal and Rainforth 2021, "Active Testing:
Sample-Efficient Model Evaluation"), so that every round may be drawn with other probabilities, chosen from what earlier
rounds have shown. No model enters; predictions, where given, make an estimate more precise and leave it unbiased.
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
        """Return the draws that were answered, each round taken for as much smaller as it lost.

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
