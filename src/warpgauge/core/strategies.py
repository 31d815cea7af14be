"""The gains used by each suggestion strategy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Floats, Ints, thinned_rows
from warpgauge.core.conditioning import Conditioned
from warpgauge.core.eager_gains import EagerGains, KernelGivenTargets
from warpgauge.core.gains import LazyGains
from warpgauge.core.information_gains import NoiseAwareEagerGains, NoiseAwareLazyGains, WeightedGains
from warpgauge.core.objectives import KrauseGains, VarianceGains
from warpgauge.core.process import TransformationPrior
from warpgauge.errors import InvalidInputError

STRATEGIES = ("entropy", "information", "variance", "mutual_information", "noise_aware", "farthest", "random")
# Gains that depend on how exact the annotations to come will be.
EXPECTING = (NoiseAwareLazyGains, NoiseAwareEagerGains, WeightedGains, VarianceGains, KrauseGains)
Gains = LazyGains | EagerGains | WeightedGains | VarianceGains | KrauseGains

# A candidate this close to a target, in smallest scales, is that target.
_SAME_POINT = 1e-9
# A candidate whose variance given all targets is below this share of the prior's is determined by them to rounding.
_DETERMINED = 1e-11
# Doubles that may be stored for candidates x targets with isotropic noise; anisotropic noise needs d^2 as many.
_LARGEST_BLOCK = 10_000_000
_FEWEST_TARGETS, _MOST_TARGETS = 200, 2000
# A matrix of so many candidates squared is kept for the mutual information: 128 MB.
_MOST_IN_A_MATRIX = 4000


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
    default : (d, d) array
        Covariance of an annotation elsewhere, the extra noise included.
    seed : int
    """

    prior: TransformationPrior
    candidates: Floats
    targets: Floats | None
    expected: Floats
    default: Floats
    seed: int

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
    if strategy == "variance":
        return VarianceGains(setting.nothing_known(), setting.candidates, _integrated_over(setting), setting.expected)
    if strategy == "mutual_information":
        return _krause(setting)
    if strategy in ("information", "noise_aware"):
        information = _information(setting)
        return WeightedGains(information) if strategy == "information" else information
    return _entropy(setting)


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


def _integrated_over(setting: Setting) -> Floats:
    """Targets of the integrated variance: those given, else the candidates or a sample of them."""
    if setting.targets is not None:
        return setting.targets
    n = len(setting.candidates)
    if n * n <= _LARGEST_BLOCK:
        return setting.candidates
    most = int(np.clip(_LARGEST_BLOCK // n, _FEWEST_TARGETS, _MOST_TARGETS))
    return np.asarray(setting.candidates[thinned_rows(n, most, setting.seed)])


def _krause(setting: Setting) -> KrauseGains:
    from scipy.spatial import cKDTree

    n, d = setting.candidates.shape
    others = np.empty((0, d))
    if setting.targets is not None:
        others = setting.targets[cKDTree(setting.candidates).query(setting.targets)[0] > setting.same_point]
    if max(n, len(others)) > _MOST_IN_A_MATRIX:
        raise InvalidInputError(
            f'The strategy "mutual_information" keeps a matrix of all candidates, at most {_MOST_IN_A_MATRIX:,} of '
            f"them and of other targets; got {n:,} and {len(others):,}: give fewer, or choose another strategy."
        )
    noise = np.broadcast_to(setting.default, (len(others), d, d))
    return KrauseGains(setting.nothing_known(), setting.candidates, others, setting.expected, noise)
