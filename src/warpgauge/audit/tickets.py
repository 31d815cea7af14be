"""Exact decisions from random answers, by betting on tickets.

A ticket G is a nonnegative function of one answer. If the claim that is to be proven is false, its mean given all
earlier answers is at most 1. Stakes ``0 <= s <= 1`` then give the wealth ``prod(1 - s + s G)``, a nonnegative
supermartingale, and the probability that it *ever* reaches ``1 / alpha`` is at most alpha (Ville's inequality),
whatever the shape of the errors and however often it is looked at.

All tickets here have one form. Every unit x of a finite population has a value ``v(x) >= 0``, known where x was drawn
and answered; if the claim is false, the values of all units add up to at most a known ``limit``. A unit drawn with the
probability q among those left then gives ``G = v / (q (limit - what was seen))``, see `tickets`. For a quantity d with
``|d| <= c`` and the claim "the mean of d is positive", ``v = c + d`` and the limit is the sum of c.

What is certified concerns distances to the experts' answers, their noise included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Bools, Floats
from warpgauge.errors import InvalidInputError

# Stakes are mixed by a Beta(2, 1/2) density. With so many Gauss-Jacobi nodes the mixture is exact up to twice as many
# answers; beyond that it is a mixture over the nodes, which is as valid.
_NODES = 64
# What is left of a limit below this share of it is rounding.
_ROUNDING = 1e-12


def tickets(values: Floats, probabilities: Floats, limit: ArrayLike, bets: Bools | None = None) -> Floats:
    """Return the ticket of every draw, along the last axis.

    Parameters
    ----------
    values : (..., n) array
        v >= 0 of the drawn units, in the order of the draws.
    probabilities : (n,) array
        Of each draw, among the units left.
    limit : (...) array or float
        Largest sum of v over the population if the claim is false.
    bets : (n,) array of bool, optional
        Draws that may be bet on; all by default. The others are only taken from what is left: whoever made the claim
        may have known their values, or their probabilities are not those of single draws.

    Returns
    -------
    (..., n) array
        Infinite where what was seen exceeds the limit: the claim is then proven.
    """
    return pooled_tickets(values[..., None, :], np.asarray(probabilities)[None], limit, bets)


def pooled_tickets(values: Floats, probabilities: Floats, limit: ArrayLike, bets: Bools | None = None) -> Floats:
    """Return the tickets of draws that come in batches, one from each of P populations, (..., n).

    The limit is that of the sum of v over all populations. Parameters are as in `tickets`, with an axis of length P
    before the last in ``values`` and ``probabilities``.
    """
    top = np.asarray(limit, dtype=np.float64)[..., None]
    own = values.sum(axis=-2)
    seen = np.cumsum(own, axis=-1)
    room = top - (seen - own)
    left = room > _ROUNDING * top
    given = np.where(left, (values / probabilities).sum(axis=-2) / np.where(left, room, 1.0), 1.0)
    if bets is not None:
        given = np.where(bets, given, 1.0)
    return np.asarray(np.where(seen > top * (1 + _ROUNDING), np.inf, given))


@cache
def _stakes() -> tuple[Floats, Floats]:
    """Nodes and weights of the Beta(2, 1/2) density of stakes."""
    from scipy import special

    nodes, weights = special.roots_jacobi(_NODES, -0.5, 1.0)
    return (1 + nodes) / 2, weights / weights.sum()


def log_wealth(given: Floats) -> Floats:
    """Return the logarithm of the wealth after every ticket, mixed over constant stakes.

    A mixture of supermartingales is one, so that no stake has to be chosen.

    Parameters
    ----------
    given : (..., n) array
        Tickets, as `tickets` returns them.
    """
    stakes, weights = _stakes()
    finite = np.where(np.isinf(given), 1.0, given)
    logs = np.cumsum(np.log1p(stakes[:, None] * (finite[..., None, :] - 1)), axis=-1)
    top = logs.max(axis=-2, keepdims=True)
    mixed = np.log(np.einsum("k,...kn->...n", weights, np.exp(logs - top))) + top[..., 0, :]
    return np.asarray(np.where(np.logical_or.accumulate(np.isinf(given), axis=-1), np.inf, mixed))


def proven(given: Floats, alpha: float) -> Bools:
    """Return after every ticket whether the claim has been proven by then, with an error of at most alpha."""
    return np.asarray(np.maximum.accumulate(log_wealth(given), axis=-1) >= np.log(1 / alpha))


def fewest_answers(mean: float, bound: float, alpha: float = 0.05) -> float:
    """Return the number of answers that no exact method can undercut on average, drawn with replacement.

    Parameters
    ----------
    mean, bound : float
        Means of d and of its bound c over the population.
    alpha : float
    """
    if not mean > 0:
        return np.inf
    return float(np.log(1 / alpha) / np.log1p(mean / bound))


def answers_left(given: Floats, alpha: float) -> float:
    """Return about how many further tickets like those so far prove the claim; infinite where they would not.

    The wealth grows per ticket by the mean of ``log(1 - s + s G)``, at the stake that is best for those so far.
    """
    if not len(given):
        return np.inf
    if proven(given, alpha)[-1]:
        return 0.0
    stakes, _ = _stakes()
    growth = float(np.log1p(stakes[:, None] * (given - 1)).mean(axis=1).max())
    return float((np.log(1 / alpha) - log_wealth(given)[-1]) / growth) if growth > 0 else np.inf


def upper_mean(
    values: ArrayLike,
    most: float,
    probabilities: ArrayLike,
    population: int,
    level: float = 0.95,
    bets: Bools | None = None,
) -> float:
    """Exact upper bound of the mean over a finite population of values within [0, most], at every look.

    Parameters
    ----------
    values : (n,) array
        Of the drawn units, in the order of the draws.
    most : float
        No value of the population exceeds it.
    probabilities : (n,) array
        Of each draw, among the units left.
    population : int
        Number of units.
    level : float
    bets : (n,) array of bool, optional
        As in `tickets`.
    """
    given, chances = np.asarray(values, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    _check_level(level)
    if len(given) and (given.min() < 0 or given.max() > most):
        raise InvalidInputError(f"Values must lie from 0 to {most:g}, got {given.min():g} to {given.max():g}.")
    if not len(given):
        return float(most)

    def excluded(gap: float) -> bool:  # the claim: the mean is below most - gap, so gains add up to more than N gap
        found = log_wealth(tickets(most - given, chances, population * gap, bets))
        return bool(found.max() >= np.log(1 / (1 - level)))

    return float(most - _last_true(excluded, float(most)))


def lower_mean(
    values: ArrayLike, probabilities: ArrayLike, population: int, level: float = 0.95, bets: Bools | None = None
) -> float:
    """Exact lower bound of the mean over a finite population of values of at least 0, at every look; nothing is capped.

    Parameters
    ----------
    values, probabilities, population, level, bets
        As in `upper_mean`.
    """
    given, chances = np.asarray(values, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    _check_level(level)
    if len(given) and given.min() < 0:
        raise InvalidInputError(f"Values must be at least 0, got {given.min():g}.")
    if not len(given) or not given.max() > 0:
        return 0.0

    def excluded(mean: float) -> bool:  # the claim: the mean is larger
        found = log_wealth(tickets(given, chances, population * mean, bets))
        return bool(found.max() >= np.log(1 / (1 - level)))

    return _last_true(excluded, float(given.max()))


def _last_true(holds: Callable[[float], bool], most: float) -> float:
    """Largest number from 0 to ``most`` below which a monotone statement holds, on its safe side."""
    low, high = 0.0, most
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidInputError(f"A level must lie between 0 and 1, got {level!r}.")
