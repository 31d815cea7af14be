"""Proofs from random answers, by betting on tickets.

A ticket G is a nonnegative function of one answer. If the claim that is to be proven is false, its mean given all
earlier answers is at most 1. Stakes ``0 <= s <= 1`` then give the wealth ``prod(1 - s + s G)``, a nonnegative
supermartingale, and the probability that it *ever* reaches ``1 / alpha`` is at most alpha (Ville's inequality),
whatever the shape of the errors and however often it is looked at.

All tickets here have one form. Every unit x of a finite population has a value ``v(x) >= 0``, known where x was drawn
and answered; if the claim is false, the values of all units add up to at most a known ``limit``. A unit drawn with the
probability q among those left then gives ``G = v / (q (limit - what was seen))``, see `tickets`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from warpgauge.core.arrays import Bools, Floats

# Stakes are mixed by a Beta(2, 1/2) density. With so many Gauss-Jacobi nodes the mixture is exact up to twice as many
# answers; beyond that it is a mixture over the nodes, which is as valid.
_NODES = 64
# What is left of a limit below this share of it is rounding.
_ROUNDING = 1e-12


def tickets(values: Floats, probabilities: Floats, limit: float, bets: Bools | None = None) -> Floats:
    """Return the ticket of every draw, (n,); infinite once what was seen exceeds the limit: the claim is then proven.

    ``values`` are v of the drawn units in the order of the draws, each with its probability among the units left;
    ``limit`` is the largest sum of v over the population if the claim is false. Draws that may not be bet on are only
    taken from what is left: whoever made the claim may have known their values.
    """
    seen = np.cumsum(values)
    room = limit - (seen - values)
    left = room > _ROUNDING * limit
    found = np.where(left, values / probabilities / np.where(left, room, 1.0), 1.0)
    if bets is not None:
        found = np.where(bets, found, 1.0)
    return np.asarray(np.where(seen > limit * (1 + _ROUNDING), np.inf, found))


@cache
def _stakes() -> tuple[Floats, Floats]:
    """Nodes and weights of the Beta(2, 1/2) density of stakes."""
    from scipy import special

    nodes, weights = special.roots_jacobi(_NODES, -0.5, 1.0)
    return (1 + nodes) / 2, weights / weights.sum()


def log_wealth(drawn: Floats) -> Floats:
    """Return the logarithm of the wealth after every ticket (n,), mixed over constant stakes.

    A mixture of supermartingales is one, so that no stake has to be chosen.
    """
    stakes, weights = _stakes()
    certain = np.isinf(drawn)
    logs = np.cumsum(np.log1p(stakes[:, None] * (np.where(certain, 1.0, drawn) - 1)), axis=1)
    top = logs.max(axis=0)
    mixed = np.log(weights @ np.exp(logs - top)) + top
    return np.asarray(np.where(np.logical_or.accumulate(certain), np.inf, mixed))


def proven(drawn: Floats, alpha: float) -> Bools:
    """Return after every ticket whether the claim has been proven by then, with an error of at most alpha."""
    return np.asarray(np.maximum.accumulate(log_wealth(drawn)) >= np.log(1 / alpha))


def answers_left(drawn: Floats, alpha: float) -> float:
    """Return about how many further tickets like those so far prove the claim; infinite where they would not.

    The wealth grows per ticket by the mean of ``log(1 - s + s G)``, at the stake that is best for those so far.
    """
    if not len(drawn):
        return np.inf
    if proven(drawn, alpha)[-1]:
        return 0.0
    stakes, _ = _stakes()
    growth = float(np.log1p(stakes[:, None] * (drawn - 1)).mean(axis=1).max())
    return float((np.log(1 / alpha) - log_wealth(drawn)[-1]) / growth) if growth > 0 else np.inf
