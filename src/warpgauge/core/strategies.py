"""The gains of each suggestion strategy, among them those that know how exact an annotation will be.

Annotations differ in how exact they will be, and in how likely there will be one (:class:`WeightedGains`).

The paper's gain is that of an exact match, Eqs. (delta_H_in_T) and (delta_H_not_in_T): it does not know that some
locations can be placed better than others. With the covariance ``Sigma_c`` that is expected there, the information is

- inside T:   ``1/2 log det(k_|A(c, c) + Sigma_c) - 1/2 log det Sigma_c``,
- outside T:  ``1/2 log det(k_|A(c, c) + Sigma_c) - 1/2 log det(k_|A,T(c, c) + Sigma_c)``,

the mutual information ``I(Phi_T; noisy Phi_c | A)`` (Lindley 1956, "On a measure of the information provided by an
experiment"; MacKay 1992, "Information-based objective functions for active data selection"). Inside T and with the same
``Sigma`` everywhere the order is the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.eager_gains import EagerGains, KernelGivenTargets
from warpgauge.core.factors import is_isotropic, log_determinants
from warpgauge.core.gains import TIE, VERY_MANY, LazyGains, highest_bounds
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.core.process import TransformationPrior
from warpgauge.errors import InvalidInputError


def _added(covariance: Floats, noise: Floats) -> Floats:
    """Sum of covariances (n,), (n, 1, 1) or (n, d, d), numbers meaning multiples of I_d, and (n, d, d) noise."""
    d = noise.shape[-1]
    blocks = covariance if covariance.ndim == 3 else covariance[:, None, None]
    return np.asarray((blocks * np.eye(d) if blocks.shape[-1] == 1 else blocks) + noise)


class NoiseAwareLazyGains(LazyGains):
    """Expected information for candidates inside T.

    It never rises when an annotation is added, as ``k_|A`` does not, so lazy evaluation stays exact; the cost is that
    of the paper's gain.
    """

    def __init__(self, conditioned: Conditioned, candidates: Floats, expected: Floats) -> None:
        self._take(expected)
        super().__init__(conditioned, candidates)

    def _take(self, expected: Floats) -> None:
        # Where all candidates share one covariance, (n, d, d) is a view of it, and one row stands for all.
        self.expected = expected[:1] if expected.strides[0] == 0 else expected
        self._own = 0.5 * log_determinants(self.expected)
        self._isotropic = is_isotropic(self.expected)

    def _entropies_of(self, covariance: Floats, rows: Ints) -> Floats:
        here = slice(None) if len(self.expected) == 1 else rows
        expected, own = self.expected[here], self._own[here]
        if covariance.shape[1] == 1 and self._isotropic:
            return np.asarray(0.5 * self.d * np.log(covariance[:, 0, 0] + expected[:, 0, 0]) - own)
        return np.asarray(0.5 * log_determinants(_added(covariance, expected), rows) - own)


class NoiseAwareEagerGains(EagerGains):
    """Expected information where some candidates lie outside T: two passes of log determinants over the candidates."""

    def __init__(
        self,
        conditioned: Conditioned,
        given: KernelGivenTargets,
        candidates: Floats,
        outside: Ints,
        same_point: float,
        expected: Floats,
    ) -> None:
        super().__init__(conditioned, given, candidates, outside, same_point)
        self.expected = expected

    def all(self) -> Floats:
        """Return the expected information of all candidates."""
        gains = 0.5 * log_determinants(_added(self.first.covariance, self.expected))
        remaining = self.expected.copy()  # a target's match is known given the targets: only its own noise is left
        remaining[self.outside] = _added(self.second.covariance, self.expected[self.outside])
        return np.asarray(gains - 0.5 * log_determinants(remaining))


# Candidates brought up to date at a time at least, the most promising first.
_CHUNK = 512
_GROWTH = 4


class WeightedGains:
    r"""Value of a question: expected information times the probability of an answer, found lazily and exactly.

    .. math:: v(x) = P(\text{answer} \mid x) \; \tfrac12 \log\det\!\left(I + \Sigma^{-1} k_{\mid A}(x, x)\right)

    and the analogous form for candidates outside T. A differential entropy has no zero, so it cannot be multiplied by a
    chance; the information that an answer brings can. Where the noise is far below the uncertainty, information orders
    the candidates in T as entropy does.

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
        bounds = self.gains.bounds() * self.chance
        bounds[~alive] = -np.inf
        known = self.gains.up_to_date()  # all at the first question, and many where annotations do not reach
        if len(known) == len(bounds):
            best = float(bounds.max())
            self._elite = _highest(known, bounds, best)[0][:_CHUNK]
            near = np.flatnonzero(bounds >= max(best - TIE, np.finfo(float).min))
            return near, bounds[near]
        best, chunk = float(bounds[known].max(initial=-np.inf)), max(_CHUNK, len(bounds) // 1024)
        rows = _highest(known, bounds[known], best)[0] if len(known) > len(self._elite) else self._elite
        rows = rows[alive[rows]]
        left: Ints | None = None
        kept: list[tuple[Ints, Floats]] = []
        while True:
            if len(rows):
                values = self.gains.exact(rows) * self.chance[rows]
                bounds[rows] = -np.inf
                best = max(best, float(values.max()))
                kept.append(_highest(rows, values, best))
            # Bounds only fall and the best only rises. Before the first are evaluated, all that may be asked are left.
            least = max(best - TIE, np.finfo(float).min)
            left = np.flatnonzero(bounds >= least) if left is None else left[bounds[left] >= least]
            if len(left) == 0:
                break
            if len(left) > VERY_MANY and np.isfinite(best) and self.gains.lower():
                done = np.isneginf(bounds)
                np.multiply(self.gains.bounds(), self.chance, out=bounds)
                bounds[done] = -np.inf
                known = self.gains.up_to_date()
                rows, left = known[bounds[known] >= least], None
                continue
            rows = highest_bounds(left, bounds[left], chunk)
            chunk *= _GROWTH
        if not kept:
            return np.empty(0, dtype=np.int64), np.empty(0)
        evaluated, values = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        self._elite = _highest(evaluated, values, best)[0][:_CHUNK]
        high = values >= best - TIE
        return evaluated[high], values[high]


def _highest(rows: Ints, values: Floats, best: float) -> tuple[Ints, Floats]:
    """Return the rows with the highest values, among them all within a tie of ``best``."""
    if len(rows) <= _CHUNK:
        return rows, values
    high = values >= best - TIE
    if np.count_nonzero(high) < _CHUNK:
        high = values >= np.partition(values, -_CHUNK)[-_CHUNK]
    return rows[high], values[high]


STRATEGIES = ("entropy", "information", "farthest", "random")
Gains = LazyGains | EagerGains | WeightedGains

# A candidate this close to a target, in smallest scales, is that target.
_SAME_POINT = 1e-9
# A candidate whose variance given all targets is below this share of the prior's is determined by them to rounding.
_DETERMINED = 1e-11


@dataclass(frozen=True, eq=False)
class Setting:
    """What a strategy starts from.

    Attributes
    ----------
    prior : TransformationPrior
    candidates : (n, d) array
    targets : (N, d) array or None
        Distinct; None where every candidate is a target.
    expected : (n, d, d) array
        Covariance expected of an annotation of each candidate, the model's extra noise included.
    """

    prior: TransformationPrior
    candidates: Floats
    targets: Floats | None
    expected: Floats

    @property
    def same_point(self) -> float:
        """Distance within which two points are the same."""
        return _SAME_POINT * float(self.prior.kernel.scales.min())

    def nothing_known(self) -> Conditioned:
        """Condition the prior on nothing."""
        d = self.candidates.shape[1]
        return Conditioned.on(self.prior.scalar_kernel(d), np.empty((0, d)), np.empty((0, d, d)))


def start(strategy: str, setting: Setting) -> Gains:
    """Return the gains of a strategy before any annotation."""
    return WeightedGains(_information(setting)) if strategy == "information" else _entropy(setting)


def _entropy(setting: Setting) -> Gains:
    """Return the paper's gains."""
    nothing, candidates, outside = setting.nothing_known(), setting.candidates, _outside(setting)
    if setting.targets is None or len(outside) == 0:
        return LazyGains(nothing, candidates)
    given = KernelGivenTargets.on(nothing.kernel, setting.targets)
    eager = EagerGains(nothing, given, candidates, outside, setting.same_point)
    share = eager.second.prior_diagonal / nothing.kernel.diagonal(candidates[outside])
    if share.min() < _DETERMINED:
        worst = int(outside[int(np.argmin(share))])
        raise InvalidInputError(
            f"Candidate {worst} lies so near to the targets that its match follows from theirs to rounding; "
            "make it one of the targets or leave it out."
        )
    return eager


def _information(setting: Setting) -> NoiseAwareLazyGains | NoiseAwareEagerGains:
    """Return the information of annotations with their noise."""
    nothing, candidates, outside = setting.nothing_known(), setting.candidates, _outside(setting)
    if setting.targets is None or len(outside) == 0:
        return NoiseAwareLazyGains(nothing, candidates, setting.expected)
    given = KernelGivenTargets.on(nothing.kernel, setting.targets)
    # A candidate beside the targets is harmless here: what remains of it given them is at least its own noise.
    return NoiseAwareEagerGains(nothing, given, candidates, outside, setting.same_point, setting.expected)


def _outside(setting: Setting) -> Ints:
    """Return the candidates that are not targets."""
    from scipy.spatial import cKDTree

    if setting.targets is None:
        return np.empty(0, dtype=np.int64)
    distances = cKDTree(setting.targets).query(setting.candidates)[0]
    return np.flatnonzero(distances > setting.same_point).astype(np.int64)
