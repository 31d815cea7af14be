"""Expected information of an annotation about the targets, where annotations differ in how exact they will be.

The paper's gain is that of an exact match, Eqs. (delta_H_in_T) and (delta_H_not_in_T): it does not know that some
locations can be placed better than others. With the covariance ``Sigma_c`` that is expected there, the information is

- inside T:   ``1/2 log det(k_|A(c, c) + Sigma_c) - 1/2 log det Sigma_c``,
- outside T:  ``1/2 log det(k_|A(c, c) + Sigma_c) - 1/2 log det(k_|A,T(c, c) + Sigma_c)``,

the mutual information ``I(Phi_T; noisy Phi_c | A)`` (Lindley 1956, "On a measure of the information provided by an
experiment"; MacKay 1992, "Information-based objective functions for active data selection"). Inside T and with the same
``Sigma`` everywhere the order is the paper's.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.conditioning import Conditioned
from warpgauge.core.gains import EagerGains, KernelGivenTargets, LazyGains
from warpgauge.core.linalg import log_determinants


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
        self.expected = expected
        self._own = 0.5 * log_determinants(expected)
        super().__init__(conditioned, candidates)

    def expect(self, expected: Floats) -> None:
        """Expect other covariances of annotations to come; bounds stay bounds."""
        self.expected = expected
        self._own = 0.5 * log_determinants(expected)
        self.gain = self._entropies(np.arange(len(self.candidates)))
        self._bounded_at = 0

    def _entropies(self, rows: Ints) -> Floats:
        annotation = _added(self.covariance[rows], self.expected[rows])
        return np.asarray(0.5 * log_determinants(annotation) - self._own[rows])


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

    def expect(self, expected: Floats) -> None:
        """Expect other covariances of annotations to come."""
        self.expected = expected

    def all(self) -> Floats:
        """Return the expected information of all candidates."""
        gains = 0.5 * log_determinants(_added(self.first.covariance, self.expected))
        remaining = self.expected.copy()  # a target's match is known given the targets: only its own noise is left
        remaining[self.outside] = _added(self.second.covariance, self.expected[self.outside])
        return np.asarray(gains - 0.5 * log_determinants(remaining))
