r"""Value of a question: expected information times the probability of an answer.

.. math:: v(x) = P(\text{answer} \mid x) \; \tfrac12 \log\det\!\left(I + \Sigma^{-1} k_{\mid A}(x, x)\right)

A differential entropy has no zero, so it cannot be multiplied by a chance; the information that an answer brings can
(:mod:`warpgauge.core.noise_aware`, which also has the form for candidates outside T). Where the noise is far below the
uncertainty, information orders the candidates in T as entropy does.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.conditioning import Conditioned
from warpgauge.core.gains import TIE
from warpgauge.core.noise_aware import NoiseAwareEagerGains, NoiseAwareLazyGains
from warpgauge.errors import InvalidInputError

# Candidates brought up to date at a time, the most promising first.
_CHUNK = 512
_GROWTH = 4


class WeightedGains:
    """Information times chance, found lazily and exactly.

    An information from an earlier step is an upper bound of what it is now, so that times the present chance it bounds
    the value, also when the chances change. Candidates are brought up to date in the order of these bounds until none
    of the others can be the best.

    Parameters
    ----------
    gains : NoiseAwareLazyGains or NoiseAwareEagerGains
        The information, which is at least 0.
    """

    def __init__(self, gains: NoiseAwareLazyGains | NoiseAwareEagerGains) -> None:
        self.gains = gains
        self.chance = np.ones(len(gains.candidates))
        # The best of the last search: likely to be near the top again, so that most others are ruled out at once.
        self._elite: Ints = np.empty(0, dtype=np.int64)

    @property
    def conditioned(self) -> Conditioned:
        """The prior's kernel given the annotations so far."""
        return self.gains.conditioned

    def set_chance(self, chance: Floats) -> None:
        """Take other chances, (n,), from now on."""
        n = len(self.gains.candidates)
        if chance.shape != (n,) or not ((chance >= 0) & (chance <= 1)).all():
            raise InvalidInputError(f"The chance must be {n} numbers from 0 to 1, one for each candidate.")
        self.chance = chance.copy()

    def expect(self, expected: Floats) -> None:
        """Expect other covariances of annotations to come."""
        self.gains.expect(expected)

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account; chances stay as they are until others are set."""
        self.gains.add(location, noise)

    def drop_last(self) -> None:
        """Take the last annotation back."""
        self.gains.drop_last()

    def all(self) -> Floats:
        """Return the values of all candidates."""
        return np.asarray(self.gains.all() * self.chance)

    def one(self, index: int) -> float:
        """Return the value of one candidate."""
        return self.gains.one(index) * float(self.chance[index])

    def near_best(self, alive: Bools) -> tuple[Ints, Floats]:
        """Candidates among ``alive`` within a tie of the best value, with their exact values."""
        bounds = np.where(alive, self.gains.bounds() * self.chance, -np.inf)
        values = np.full(len(bounds), -np.inf)
        best, rows, chunk = -np.inf, self._elite[alive[self._elite]], _CHUNK
        while True:
            if len(rows):
                values[rows] = self.gains.exact(rows) * self.chance[rows]
                bounds[rows] = -np.inf
                best = max(best, float(values[rows].max()))
            # Before the first are evaluated, all that may be asked are left.
            left = np.flatnonzero(bounds >= max(best - TIE, np.finfo(float).min))
            if len(left) == 0:
                break
            rows = left if len(left) <= chunk else left[np.argpartition(bounds[left], -chunk)[-chunk:]]
            chunk *= _GROWTH
        evaluated = np.flatnonzero(values > -np.inf)
        if len(evaluated) > _CHUNK:
            self._elite = evaluated[np.argpartition(values[evaluated], -_CHUNK)[-_CHUNK:]]
        else:
            self._elite = evaluated
        near = evaluated[values[evaluated] >= best - TIE]
        return near, values[near]
