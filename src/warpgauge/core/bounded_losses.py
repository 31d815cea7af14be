"""Losses at an answer that are bounded by what is known before it: what exact certificates and gates bet on.

Two transforms are compared by a difference d of their losses with ``|d| <= c``, c known at every target from the two
transforms alone. A gate compares a new transform with its reference by a nonnegative value whose sum over the targets
is bounded unless the new one is good enough. `warpgauge.core.tickets` turns both into decisions.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.tickets import tickets

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
    apart = second - first
    size = np.linalg.norm(apart, axis=-1)
    along = np.einsum("...a,...a->...", apart, (first + second) / 2 - answers) / np.where(size > 0, size, 1.0)
    reach = size / 2 + beyond
    return np.asarray(2 * size * np.clip(along, -reach, reach))


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


def relative_gate_tickets(
    change: Floats, errors: Floats, probabilities: Floats, squares: float, share: float
) -> Floats:
    """Return tickets for "the RMS error of the new transform is below (1 + share) times the reference's".

    With delta the change from reference to new, e the answer less the reference and ``t = (1 + share)^2 - 1``,
    ``|e - delta|^2 - (1 + t) |e|^2 = (1 + t) / t |delta|^2 - |t e + delta|^2 / t``. If the claim is false, the mean of
    this is at least 0, so that ``|t e + delta|^2`` adds up to at most ``(1 + t)`` times the sum of ``|delta|^2``.
    No error is capped.

    Parameters
    ----------
    change, errors : (n, d) array
        delta and e at the drawn units.
    probabilities : (n,) array
    squares : float
        Sum of ``|delta|^2`` over the population.
    share : float
        Positive.
    """
    t = (1 + share) ** 2 - 1
    return tickets(np.square(t * errors + change).sum(axis=-1), probabilities, (1 + t) * squares)


def absolute_gate_tickets(
    change: Floats,
    errors: Floats,
    probabilities: Floats,
    squares: float,
    population: int,
    margin: float,
    largest: float,
) -> Floats:
    """Return tickets for "the RMS error of the new transform is below the reference's plus a margin m", (k, n).

    The claim is proven where all k are. ``(r + m)^2`` is the smallest ``(1 + t) r^2 + (1 + 1/t) m^2`` over t, at
    ``t = m / r``; which t that is, is not known. Positive t are covered by k intervals: for t within [u, w], the sum is
    at least ``(1 + u) r^2 + (1 + 1/w) m^2``. If the claim is false, the mean squared error of the new transform is at
    least that for the interval that holds ``m / r``, and ``|u e + delta|^2`` adds up to at most
    ``(1 + u) sum |delta|^2 - N m^2 (u + u / w)``; where this is negative, the interval is excluded without an answer.

    Parameters
    ----------
    change, errors, probabilities, squares
        As in `relative_gate_tickets`.
    population : int
        N.
    margin : float
        m > 0.
    largest : float
        The reference's RMS error cannot exceed it, such as the largest distance within the moving image.
    """
    low = margin / max(largest, margin)
    u = np.geomspace(low, _TOP_TRADE, _TRADES)
    w = np.append(u[1:], np.inf)
    limit = (1 + u) * squares - population * margin**2 * (u + u / w)
    values = np.square(u[:, None, None] * errors + change).sum(axis=-1)
    given = tickets(values, probabilities, np.where(limit > 0, limit, 1.0))
    return np.where((limit > 0)[:, None], given, np.inf)
