"""Random draws from a finite population and the weights that make an estimate of its mean unbiased, by design alone.

Weights are those of Horvitz and Thompson within a round of draws, and over rounds as in active testing (Kossen,
Farquhar, Gal and Rainforth 2021, "Active Testing: Sample-Efficient Model Evaluation"), so that every round may be drawn
with other probabilities, chosen from what earlier rounds have shown.
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
