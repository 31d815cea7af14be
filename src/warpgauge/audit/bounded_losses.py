"""Losses at an answer that are bounded by what is known before it: what exact certificates and gates bet on.

Two transforms are compared by a difference d of their losses with ``|d| <= c``, c known at every target from the two
transforms alone. A gate compares a new transform with its reference by a nonnegative value whose sum over the targets
is bounded unless the new one is good enough. `warpgauge.audit.tickets` turns both into decisions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.audit.tickets import pooled_tickets
from warpgauge.core.arrays import Bools, Floats

# Trade-offs t of `absolute_gate_tickets`: so many intervals up to so large a one, which leaves 4 % between neighbours
# where the reference's error is up to a thousand times the margin.
_TRADES = 240
_TOP_TRADE = 100.0


def length_difference(first: Floats, second: Floats, answers: Floats) -> Floats:
    """Return ``|second - y| - |first - y|``: positive where the first transform is nearer to the answer y.

    By the triangle inequality it is at most ``|second - first|`` in size; nothing is capped.
    """
    return np.asarray(np.linalg.norm(second - answers, axis=-1) - np.linalg.norm(first - answers, axis=-1))


def segment_difference(first: Floats, second: Floats, answers: Floats, beyond: float) -> Floats:
    """Return ``|second - y|^2 - |first - y|^2``, with the answer y at most ``beyond`` outside the segment between them.

    Measured along the line through the two transforms. The difference is exact unless the answer lies farther than
    ``beyond`` outside *both* transforms; a failure of only one of them, however large, counts in full.
    """
    size, along = _along(first, second, answers)
    reach = size / 2 + beyond
    return np.asarray(2 * size * np.clip(along, -reach, reach))


def _along(first: Floats, second: Floats, answers: Floats) -> tuple[Floats, Floats]:
    """Return distances of two transforms, and how far from their middle answers lie towards the first."""
    apart = second - first
    size = np.linalg.norm(apart, axis=-1)
    along = np.einsum("...a,...a->...", apart, (first + second) / 2 - answers) / np.where(size > 0, size, 1.0)
    return size, along


def beyond_segment(first: Floats, second: Floats, answers: Floats) -> Floats:
    """Return how far answers lie outside the segment between two transforms, along it; 0 within, or of equal ones."""
    size, along = _along(first, second, answers)
    return np.asarray(np.where(size > 0, np.maximum(np.abs(along) - size / 2, 0.0), 0.0))


def segment_bound(distances: Floats, beyond: float) -> Floats:
    """Return the largest size of `segment_difference` for transforms so far apart: ``D^2 + 2 D beyond``."""
    return np.asarray(distances * (distances + 2 * beyond))


def expected_segment_difference(
    first: Floats, second: Floats, means: Floats, covariances: Floats, beyond: float
) -> Floats:
    """Return the expectation of `segment_difference` for normal answers, (N,).

    Parameters
    ----------
    first, second : (N, d) array
    means, covariances : (N, d) and (N, d, d) array
        Of the answers, the noise of a placement included.
    beyond : float

    Notes
    -----
    For the draw only: a wrong expectation costs answers and never validity. The expectation of a normal variable
    clipped at ``-r`` and ``r`` is taken in closed form.
    """
    from scipy import special

    apart = second - first
    size = np.linalg.norm(apart, axis=-1)
    unit = apart / np.where(size > 0, size, 1.0)[:, None]
    centre = np.einsum("na,na->n", unit, (first + second) / 2 - means)
    sd = np.sqrt(np.maximum(np.einsum("na,nab,nb->n", unit, covariances, unit), 0.0))
    safe = np.where(sd > 0, sd, 1.0)
    reach = size / 2 + beyond

    def above(limit: Floats) -> Floats:  # E max(X - limit, 0)
        z = (centre - limit) / safe
        density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
        return np.where(sd > 0, safe * (z * special.ndtr(z) + density), np.maximum(centre - limit, 0.0))

    return np.asarray(2 * size * (-reach + above(-reach) - above(reach)))


@dataclass(frozen=True, eq=False)
class GateDraws:
    """Draws at which a new transform is compared with its reference, in P populations of which each counts the same.

    Attributes
    ----------
    change, errors : (P, n, d) arrays
        delta, from reference to new, and e, the answer less the reference, at the drawn units. An infinite e stands for
        a value of 0, the worst for the claim.
    probabilities : (P, n) array
    populations : (P,) array
        Numbers of units.
    squares : float
        Sum over populations of the mean of ``|delta|^2``.
    noise : float
        Sum over populations of the mean squared error of placement.
    bets : (n,) array of bool
        As in `warpgauge.audit.tickets.tickets`.
    """

    change: Floats
    errors: Floats
    probabilities: Floats
    populations: Floats
    squares: float
    noise: float
    bets: Bools

    def tickets(self, t: ArrayLike, limit: ArrayLike) -> Floats:
        """Return tickets for "``|t e + delta|^2`` has a mean above the limit", summed over populations, (..., n)."""
        known = np.asarray(np.isfinite(self.errors).all(axis=-1))
        sums = np.asarray(t)[..., None, None, None] * np.where(known[..., None], self.errors, 0.0) + self.change
        values = np.where(known, np.square(sums).sum(axis=-1), 0.0) / self.populations[:, None]
        return pooled_tickets(values, self.probabilities, limit, self.bets)


def relative_gate_tickets(draws: GateDraws, share: float) -> Floats:
    """Return tickets for "the RMS error of the new transform is below (1 + share) times the reference's".

    With delta the change from reference to new, e the answer less the reference and ``t = (1 + share)^2 - 1``,
    ``|e - delta|^2 - (1 + t) |e|^2 = (1 + t) / t |delta|^2 - |t e + delta|^2 / t``. If the claim is false, the mean of
    this is at least 0, so that the mean of ``|t e + delta|^2`` is at most ``(1 + t)`` times that of ``|delta|^2``.
    No error is capped. Errors of placement add ``t^2`` times their mean square to that limit, so that the claim is
    about the true errors.

    Parameters
    ----------
    draws : GateDraws
    share : float
        Positive.
    """
    t = (1 + share) ** 2 - 1
    return draws.tickets(t, (1 + t) * draws.squares + t**2 * draws.noise)


def absolute_gate_tickets(draws: GateDraws, margin: float, largest: float) -> Floats:
    """Return tickets for "the RMS error of the new transform is below the reference's plus a margin m", (k, n).

    The claim is proven where all k are. ``(r + m)^2`` is the smallest ``(1 + t) r^2 + (1 + 1/t) m^2`` over t, at
    ``t = m / r``; which t that is, is not known. Positive t are covered by k intervals: for t within [u, w], the sum is
    at least ``(1 + u) r^2 + (1 + 1/w) m^2``. If the claim is false, the mean squared error of the new transform is at
    least that for the interval that holds ``m / r``, and the mean of ``|u e + delta|^2`` is at most
    ``(1 + u)`` times that of ``|delta|^2`` less ``m^2 (u + u / w)``; where this is negative, the interval is excluded
    without an answer.

    Parameters
    ----------
    draws : GateDraws
    margin : float
        m > 0.
    largest : float
        The reference's RMS error cannot exceed it, such as the largest distance within the moving image.
    """
    low = margin / max(largest, margin)
    u = np.geomspace(low, _TOP_TRADE, _TRADES)
    w = np.append(u[1:], np.inf)
    limit = (1 + u) * draws.squares - len(draws.populations) * margin**2 * (u + u / w) + u**2 * draws.noise
    given = draws.tickets(u, np.where(limit > 0, limit, 1.0))
    return np.where((limit > 0)[:, None], given, np.inf)
