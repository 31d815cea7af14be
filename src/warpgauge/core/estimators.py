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
        Standard error of the estimate.
    finite : float
        Factor on the standard error because the population is finite: ``sqrt(1 - n / N)``.
    """

    values: Floats
    estimate: float
    spread: float
    finite: float

    def __len__(self) -> int:
        return len(self.values)


def contributions(
    draws: Draws, values: Floats, answered: Bools | None = None, predictions: Floats | None = None
) -> Contributions:
    """Return the estimate of the population's mean, over the units that can be answered.

    Parameters
    ----------
    draws : Draws
    values : (n,) array
        At the drawn units; ignored where not answered.
    answered : (n,) array of bool, optional
        All by default. The estimate is then of the mean over the units that would be answered (a ratio of two
        Horvitz-Thompson estimates, Hajek's).
    predictions : (N,) array, optional
        At all units, made without the answers at the drawn ones: the difference estimator, mean prediction plus the
        estimated mean of ``value - prediction``.

    Notes
    -----
    The ratio form is used in all cases: it is exact for constant values, and its bias is of the order 1 / n.
    """
    weights = draws.weights
    known = np.ones(len(draws), dtype=bool) if answered is None else np.asarray(answered, dtype=bool)
    if not known.any():
        raise InvalidInputError("None of the drawn units is answered, so there is nothing to estimate from.")
    offset = 0.0 if predictions is None else float(np.mean(predictions))
    inner = np.asarray(values, dtype=np.float64)[known]
    if predictions is not None:
        inner = inner - predictions[draws.rows[known]]
    own = weights[known]
    own = own * (len(own) / own.sum())
    centre = float(np.mean(own * inner))
    n = len(own)
    linear = offset + centre + own * (inner - centre)
    finite = float(np.sqrt(max(0.0, 1 - draws.sampled_share)))
    spread = float(np.std(linear, ddof=1) / np.sqrt(n)) * finite if n > 1 else np.inf
    return Contributions(np.asarray(linear), offset + centre, spread, finite)


def single_draws(draws: Draws, values: Floats, predictions: Floats | None = None) -> Floats:
    """Return one unbiased estimate of the population's mean per draw, in the order of the draws; for sequences.

    Draw m of a round with s units drawn before gives ``(sum of those + value / q) / N``, with ``q`` the probability of
    a single draw. With predictions, values are differences from them and their mean is added.

    Parameters
    ----------
    draws : Draws
        All answered.
    values : (n,) array
    predictions : (N,) array, optional
        As in `contributions`.
    """
    N = draws.population
    inner = np.asarray(values, dtype=np.float64)
    offset = 0.0
    if predictions is not None:
        inner, offset = inner - predictions[draws.rows], float(np.mean(predictions))
    found = np.empty(len(draws))
    drawn = 0
    for number in np.unique(draws.rounds):
        own = draws.rounds == number
        b = int(own.sum())
        found[own] = (inner[:drawn].sum() + b * inner[own] / draws.probabilities[own]) / N
        drawn += b
    return offset + found


def missing_bounds(
    draws: Draws, values: Floats, answered: Bools, low: Floats, high: Floats, predictions: Floats | None = None
) -> tuple[Contributions, Contributions]:
    """Return the estimates over all units if every unanswered value were ``low``, and if it were ``high``.

    Parameters
    ----------
    draws, values, predictions
        As in `contributions`.
    answered : (n,) array of bool
    low, high : (n,) arrays
        Used where not answered.
    """
    filled = [np.where(answered, values, bound) for bound in (low, high)]
    return contributions(draws, filled[0], None, predictions), contributions(draws, filled[1], None, predictions)
