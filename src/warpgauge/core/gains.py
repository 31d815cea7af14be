"""Expected gains ``Delta H`` of all candidates, kept up to date while annotations come and go (section III-D).

The paper's gain is that of an exact match, Eqs. (delta_H_in_T) and (delta_H_not_in_T). With the covariance ``Sigma``
that is expected of an annotation, the information that it brings is

- inside T:   ``1/2 log det(k_|A(c, c) + Sigma) - 1/2 log det Sigma``,
- outside T:  ``1/2 log det(k_|A(c, c) + Sigma) - 1/2 log det(k_|A,T(c, c) + Sigma)``,

the mutual information ``I(Phi_T; noisy Phi_c | A)`` (Lindley 1956, "On a measure of the information provided by an
experiment"; MacKay 1992, "Information-based objective functions for active data selection"). It can be multiplied by
the chance of an answer, which a differential entropy, as it has no zero, cannot.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.factors import cholesky, full, log_determinants
from warpgauge.core.kernels import ScalarKernel
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.errors import InvalidInputError

# Gains that differ by less than this many nats are ties, whatever the rounding says.
TIE = 1e-9
# Candidates brought up to date at a time at first, those with the highest bounds; twice as many each time.
_AT_LEAST = 512
# A candidate whose variance given all targets is below this share of the prior's is determined by them to rounding.
_DETERMINED = 1e-11


def entropy_constant(d: int) -> float:
    """``d/2 log(2 pi e)`` of Eq. (entropy_gp)."""
    return 0.5 * d * float(np.log(2 * np.pi * np.e))


class KernelGivenTargets:
    """The scalar kernel given exact values at all targets, which must be distinct: again a scalar times I_d.

    Its whitened columns at ``points``, where it will be asked for again and again, are kept.
    """

    def __init__(self, kernel: ScalarKernel, targets: Floats, points: Floats) -> None:
        self.kernel = kernel
        self.targets = targets
        self.points = points
        self._factor = cholesky(kernel.matrix(targets, targets), "the targets")
        self._columns = self._solved(points)
        self._column_of = dict(zip(map(np.ndarray.tobytes, points), self._columns.T, strict=True))

    def _solved(self, points: Floats) -> Floats:
        # Filled as (n, N) and transposed: the solver wants columns contiguous, and then needs no copy.
        block = self.kernel.matrix(points, self.targets).T
        return np.asarray(solve_triangular(self._factor, block, lower=True, overwrite_b=True, check_finite=False))

    def _whitened(self, points: Floats) -> Floats:
        """``G^-1 kappa(T, points)``, shape (N, n)."""
        if points is self.points:
            return self._columns
        whitened = np.empty((len(self.targets), len(points)), order="F")
        for number, point in enumerate(points):
            key = point.tobytes()
            if key not in self._column_of:
                self._column_of[key] = self._solved(point[None])[:, 0]
            whitened[:, number] = self._column_of[key]
        return whitened

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Conditioned kernel between (n, d) points and (m, d) others."""
        result = self.kernel.matrix(points, others, out)
        result -= self._whitened(points).T @ self._whitened(others)
        return result

    def diagonal(self, points: Floats) -> Floats:
        """Conditioned variance of each point."""
        return np.asarray(self.kernel.diagonal(points) - np.square(self._whitened(points)).sum(axis=0))


class _GivenTargets:
    """Covariances at candidates outside T given the annotations and exact values at all targets."""

    def __init__(self, kernel: ScalarKernel, targets: Floats, rows: Ints, points: Floats, same_point: float) -> None:
        self.rows = rows
        self.targets = targets
        self.same_point = same_point
        self.kernel = KernelGivenTargets(kernel, targets, points)
        self.diagonal = self.kernel.diagonal(points)
        self.given = Conditioned.on_nothing(self.kernel, points.shape[1])
        self._block = np.empty((0, len(points)))  # the kernel between annotations and candidates
        self._informs: list[bool] = []

    def add(self, location: Floats, noise: Floats) -> None:
        # Given exact values at all targets, an annotation of a target says nothing new.
        informs = bool(np.linalg.norm(self.targets - location, axis=1).min() > self.same_point)
        self._informs.append(informs)
        if informs:
            row = self.kernel.matrix(location[None], self.kernel.points)
            self._block = np.concatenate([self._block, row])
            self.given = self.given.append(location[None], noise[None])

    def drop_last(self) -> None:
        if self._informs.pop():
            self._block = self._block[:-1]
            self.given = self.given.without_last()

    def covariances(self) -> Floats:
        """Covariance at each of the candidates, (n, b, b)."""

        def fill(rows: slice, block: Floats) -> Floats:
            block[...] = self._block[:, rows]
            return block

        return self.given.reduced(fill, self.diagonal)[1]


class Gains:
    """Gain of each candidate: the paper's, or with ``expected`` the information times the chance of an answer.

    Lazy where all candidates are targets: a gain never rises when an annotation is added, so that one of an earlier
    step is an upper bound, and only the few at the top are brought up to date. Gains of candidates outside T can
    rise; then all are brought up to date. ``targets`` are distinct, or None where every candidate is one; a candidate
    as close as ``same_point`` to a target is that target. ``expected`` (d, d) includes the model's extra noise.
    """

    def __init__(
        self,
        kernel: ScalarKernel,
        candidates: Floats,
        expected: Floats | None = None,
        targets: Floats | None = None,
        same_point: float = 0.0,
    ) -> None:
        n, self.d = candidates.shape
        self.candidates = candidates
        self.expected = expected
        self.chance: Floats | None = None
        self.given = Conditioned.on_nothing(kernel, self.d)
        self._outside = self._beside(kernel, targets, same_point)
        self._exact_for = np.zeros(n, dtype=np.int32)  # the number of annotations that a gain is exact for
        self._prior = self._computed(np.arange(n))
        self._gain = self._prior.copy()
        self._top = np.empty(0, dtype=np.int64)  # at the top before, so likely to be there again

    def _beside(self, kernel: ScalarKernel, targets: Floats | None, same_point: float) -> _GivenTargets | None:
        """Candidates outside the targets, if there are any."""
        from scipy.spatial import cKDTree

        if targets is None:
            return None
        rows = np.flatnonzero(cKDTree(targets).query(self.candidates)[0] > same_point).astype(np.int64)
        if len(rows) == 0:
            return None
        points = self.candidates[rows]
        outside = _GivenTargets(kernel, targets, rows, points, same_point)
        share = outside.diagonal / kernel.diagonal(points)
        # With noise a candidate beside the targets is harmless: what remains of it given them is its own noise.
        if self.expected is None and share.min() < _DETERMINED:
            raise InvalidInputError(
                f"Candidate {int(rows[int(np.argmin(share))])} lies so near to the targets that its match follows from "
                "theirs to rounding; make it one of the targets or leave it out."
            )
        return outside

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account; all gains become bounds."""
        self.given = self.given.append(location[None], noise[None])
        if self._outside is not None:
            self._outside.add(location, noise)

    def drop_last(self) -> None:
        """Take the last annotation back; candidates that know of it start again at their prior, which is a bound."""
        self.given = self.given.without_last()
        if self._outside is not None:
            self._outside.drop_last()
        knowing = self._exact_for > self.given.count
        self._gain[knowing] = self._prior[knowing]
        self._exact_for[knowing] = 0

    def all(self) -> Floats:
        """Exact gains of all candidates."""
        self._refresh(np.arange(len(self.candidates)))
        return self._weighed(slice(None)).copy()

    def one(self, index: int) -> float:
        """Exact gain of one candidate."""
        self._refresh(np.array([index]))
        return float(self._weighed(np.array([index]))[0])

    def best(self, alive: Bools, priority: Ints) -> int:
        """Candidate of the highest gain among those alive; of those within a tie, the one of highest priority."""
        if self._outside is not None:
            self._refresh(np.arange(len(self.candidates)))
        self._refresh(self._top)
        bounds = np.where(alive, self._weighed(slice(None)), -np.inf)
        exact = np.flatnonzero(self._exact_for == self.given.count)
        top = bounds[exact].max(initial=-np.inf)
        stale = np.flatnonzero((bounds >= top - TIE) & (self._exact_for != self.given.count) & alive)
        count = _AT_LEAST
        while len(stale):
            rows = stale
            if len(rows) > count:
                rows = rows[np.argpartition(bounds[rows], -count)[-count:]]
                count *= 2
            self._refresh(rows)
            bounds[rows] = self._weighed(rows)
            exact = np.concatenate([exact, rows])
            # Bounds only fall and the best only rises: what is left can only become fewer.
            top = bounds[exact].max()
            stale = stale[(bounds[stale] >= top - TIE) & (self._exact_for[stale] != self.given.count)]
        self._top = exact
        if len(exact) > _AT_LEAST:
            self._top = exact[np.argpartition(bounds[exact], -_AT_LEAST)[-_AT_LEAST:]]
        near = exact[bounds[exact] >= top - TIE]
        return int(near[np.argmax(priority[near])])

    def _weighed(self, rows: Ints | slice) -> Floats:
        """Gains of some candidates as they are, times their chance."""
        return self._gain[rows] if self.chance is None else self._gain[rows] * self.chance[rows]

    def _refresh(self, rows: Ints) -> None:
        """Bring these candidates up to date."""
        rows = rows[self._exact_for[rows] != self.given.count]
        if len(rows):
            self._gain[rows] = self._computed(rows)
            self._exact_for[rows] = self.given.count

    def _computed(self, rows: Ints) -> Floats:
        """Gains of some candidates, of all where some lie outside T."""
        gains = self._half_log_determinants(self.given.moments(self.candidates[rows])[1], rows)
        known = np.full(len(rows), -entropy_constant(self.d))
        if self.expected is not None:
            known[:] = 0.5 * log_determinants(self.expected[None])[0]
        if self._outside is not None:
            position = np.searchsorted(self._outside.rows, rows)
            position[position == len(self._outside.rows)] = 0
            found = self._outside.rows[position] == rows
            remaining = self._half_log_determinants(self._outside.covariances(), self._outside.rows)
            known[found] = remaining[position[found]]
        return np.asarray(gains - known)

    def _half_log_determinants(self, covariances: Floats, rows: Ints) -> Floats:
        if self.expected is not None:
            noise = self.expected
            if covariances.shape[-1] == 1 and np.array_equal(noise, noise[0, 0] * np.eye(self.d)):
                covariances = covariances + noise[0, 0]
            else:
                covariances = full(covariances, self.d) + noise
        return np.asarray(0.5 * (self.d // covariances.shape[-1]) * log_determinants(covariances, rows))
