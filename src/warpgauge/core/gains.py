"""Expected gains ``Delta H`` of all candidates, kept up to date while annotations come and go (section III-D).

Two ways, chosen by where the candidates lie:

- :class:`LazyGains`, for candidates that are all targets: a gain never rises when an annotation is added, so gains from
  earlier steps are upper bounds and only the few at the top are brought up to date. Nothing but one number a candidate
  is stored.
- :class:`EagerGains`, where some candidates lie outside the targets: their gains can rise, so all are updated, by one
  pass over stored whitened rows for each new annotation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from warpgauge.core import compiled
from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.conditioning import Conditioned
from warpgauge.core.kernels import ScalarKernel
from warpgauge.core.linalg import cholesky, log_determinants, lost_to_rounding
from warpgauge.errors import SingularModelError

# Gains that differ by less than this many nats are ties, whatever the rounding says.
TIE = 1e-9
_ELITE = 512


def entropy_constant(d: int) -> float:
    """``d/2 log(2 pi e)`` of Eq. (entropy_gp)."""
    return 0.5 * d * float(np.log(2 * np.pi * np.e))


class LazyGains:
    """Gains of candidates inside T, Eq. (delta_H_in_T), by lazy evaluation.

    ``gain[i]`` is exact for the first ``exact_at[i]`` annotations and an upper bound afterwards.
    """

    def __init__(self, conditioned: Conditioned, candidates: Floats) -> None:
        self.conditioned = conditioned
        self.candidates = candidates
        self.gain = conditioned.entropies(candidates)
        self.exact_at: Ints = np.full(len(candidates), conditioned.count, dtype=np.int64)
        self._elite: Ints = np.empty(0, dtype=np.int64)
        # Compile now, not in the first interactive call.
        nobody = np.zeros(len(candidates), dtype=np.bool_)
        compiled.best_exact(self.gain, nobody, self.exact_at, conditioned.count)
        compiled.reaching(self.gain, nobody, self.exact_at, conditioned.count, 0.0, True)

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account; all gains become bounds."""
        self.conditioned = self.conditioned.append(location[None], noise[None])

    def drop_last(self) -> None:
        """Take the last annotation back; gains that knew of it are computed anew."""
        stale = np.flatnonzero(self.exact_at == self.conditioned.count)
        self.conditioned = self.conditioned.without_last()
        self._refresh(stale)

    def all(self) -> Floats:
        """Exact gains of all candidates."""
        self._refresh(np.flatnonzero(self.exact_at != self.conditioned.count))
        return self.gain.copy()

    def near_best(self, alive: Bools) -> tuple[Ints, Floats]:
        """Candidates among ``alive`` within a tie of the best gain, with their exact gains."""
        step, chunk = self.conditioned.count, max(4 * _ELITE, len(alive) // 64)
        # Those that were at the top before are likely to be there still: they set a high threshold at once.
        self._refresh(self._elite)
        while True:
            best = compiled.best_exact(self.gain, alive, self.exact_at, step)
            stale = compiled.reaching(self.gain, alive, self.exact_at, step, best - TIE, False)
            if len(stale) == 0:
                break
            if len(stale) > chunk:
                # The highest bounds first: they may raise the threshold above most of the others.
                stale = stale[np.argpartition(self.gain[stale], -chunk)[-chunk:]]
                chunk *= 4
            self._refresh(stale)
            self._promote(stale)
        near = compiled.reaching(self.gain, alive, self.exact_at, step, best - TIE, True)
        return near, self.gain[near]

    def _promote(self, rows: Ints) -> None:
        contenders = np.union1d(self._elite, rows)
        if len(contenders) > _ELITE:
            contenders = contenders[np.argpartition(self.gain[contenders], -_ELITE)[-_ELITE:]]
        self._elite = contenders

    def _refresh(self, rows: Ints) -> None:
        stale = rows[self.exact_at[rows] != self.conditioned.count]
        if len(stale):
            self.gain[stale] = self.conditioned.entropies(self.candidates[stale])
            self.exact_at[stale] = self.conditioned.count


@dataclass(frozen=True, eq=False)
class KernelGivenTargets:
    """The scalar kernel conditioned on exact values at all targets: again a scalar times I_d.

    ``factor`` is the lower Cholesky factor of the kernel matrix of the targets.
    """

    kernel: ScalarKernel
    targets: Floats
    factor: Floats

    @classmethod
    def on(cls, kernel: ScalarKernel, targets: Floats) -> KernelGivenTargets:
        """Condition on the targets; they must be distinct."""
        return cls(kernel, targets, cholesky(kernel.matrix(targets, targets), "the targets"))

    def whitened(self, points: Floats) -> Floats:
        """``G^-1 kappa(T, points)``, shape (N, n)."""
        # Filled as (n, N) and transposed: the solver wants columns contiguous, and then needs no copy.
        block = self.kernel.matrix(points, self.targets).T
        return np.asarray(solve_triangular(self.factor, block, lower=True, overwrite_b=True, check_finite=False))

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Conditioned kernel between (n, d) points and (m, d) others."""
        result = self.kernel.matrix(points, others, out)
        result -= self.whitened(points).T @ self.whitened(others)
        return result

    def diagonal(self, points: Floats) -> Floats:
        """Conditioned variance of each point."""
        return np.asarray(self.kernel.diagonal(points) - np.square(self.whitened(points)).sum(axis=0))


class WhitenedRows:
    """Whitened kernel rows between annotations and a fixed set of points, one block of rows for each annotation.

    With isotropic noise a row is (n,); otherwise d rows of (n d). Each new annotation costs one pass over the rows.
    """

    def __init__(self, diagonal: Floats, d: int) -> None:
        self.d, self.b, self.count = d, 1, 0
        self.prior_diagonal = diagonal
        self.covariance = diagonal.copy()  # (n,) while isotropic, (n, d, d) afterwards
        self._rows = np.empty((8, len(diagonal)))

    def make_anisotropic(self) -> None:
        """Go over from scalars to d x d blocks: the old rows times I_d."""
        if self.b == self.d:
            return
        n, d = len(self.prior_diagonal), self.d
        old = self.rows
        self.b = d
        self._rows = np.zeros((max(8, self.count) * d, n * d))
        for a in range(d):
            self._rows[a : self.count * d : d, a::d] = old
        self.covariance = self.covariance[:, None, None] * np.eye(d)

    @property
    def rows(self) -> Floats:
        """Rows in use."""
        return self._rows[: self.count * self.b]

    def add(self, prior_row: Floats, column: Floats, variance: float | Floats, noise: Floats) -> None:
        """Add an annotation.

        Parameters
        ----------
        prior_row : (n,) array
            Scalar kernel between the new location and the points.
        column : (rows, b) array
            Whitened rows at the new location itself.
        variance : (b, b) array
            Covariance at the new location before this annotation.
        noise : (b, b) array
            The annotation's own covariance.
        """
        b, n = self.b, len(prior_row)
        if (self.count + 1) * b > len(self._rows):
            grown = np.empty((2 * len(self._rows), n * b))
            grown[: self.count * b] = self.rows
            self._rows = grown
        new = self._rows[self.count * b : (self.count + 1) * b]
        np.matmul(-column.T, self.rows, out=new)
        for a in range(b):
            new[a, a::b] += prior_row
        if b == 1:
            new /= np.sqrt(variance + noise)
            self.covariance -= np.square(new[0])
        else:
            new[...] = solve_triangular(cholesky(variance + noise, "a new annotation"), new, lower=True)
            blocks = new.reshape(b, n, b)
            self.covariance -= np.einsum("rna,rnb->nab", blocks, blocks)
        self.count += 1

    def drop_last(self) -> None:
        """Take the last annotation back."""
        last = self.rows[-self.b :]
        if self.b == 1:
            self.covariance += np.square(last[0])
        else:
            blocks = last.reshape(self.b, -1, self.b)
            self.covariance += np.einsum("rna,rnb->nab", blocks, blocks)
        self.count -= 1

    def entropies(self) -> Floats:
        """Entropy at each point in nats."""
        if self.b == 1:
            if not (self.covariance > 0).all():
                raise SingularModelError(lost_to_rounding(int(np.argmin(self.covariance))))
            logs = self.d * np.log(self.covariance)
        else:
            logs = log_determinants(self.covariance)
        return np.asarray(0.5 * logs + entropy_constant(self.d))


class EagerGains:
    """Gains where some candidates lie outside T, Eqs. (delta_H_in_T) and (delta_H_not_in_T).

    For those, the gain is the entropy given the annotations less the entropy given the annotations and exact values at
    all targets. Both are kept by :class:`WhitenedRows`: one for the kernel, one for the kernel given the targets.
    """

    def __init__(
        self, conditioned: Conditioned, given: KernelGivenTargets, candidates: Floats, outside: Ints, same_point: float
    ) -> None:
        self.candidates, self.outside, self.given, self.same_point = candidates, outside, given, same_point
        self.kernel = conditioned.kernel
        self.plain = conditioned
        self.by_targets = Conditioned.on(given, conditioned.locations[:0], conditioned.noise[:0])
        self.first = WhitenedRows(self.kernel.diagonal(candidates), candidates.shape[1])
        self.U = given.whitened(candidates[outside])
        inner = self.kernel.diagonal(candidates[outside]) - np.einsum("tn,tn->n", self.U, self.U)
        self.second = WhitenedRows(inner, candidates.shape[1])
        self._informs_outside: list[bool] = []

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account."""
        isotropic = np.array_equal(noise, noise[0, 0] * np.eye(len(noise)))
        if not isotropic:
            self.first.make_anisotropic()
            self.second.make_anisotropic()
        row = self.kernel.matrix(location[None], self.candidates)[0]
        column, variance = _at(self.plain, location, self.first.b)
        self.first.add(row, column, variance, noise[: self.first.b, : self.first.b])
        self.plain = self.plain.append(location[None], noise[None])
        # Given exact values at all targets, an annotation of a target says nothing new.
        known = np.linalg.norm(self.given.targets - location, axis=1).min() <= self.same_point
        if not known:
            u = self.given.whitened(location[None])[:, 0]
            inner_row = row[self.outside] - u @ self.U
            column, variance = _at(self.by_targets, location, self.second.b)
            self.second.add(inner_row, column, variance, noise[: self.second.b, : self.second.b])
            self.by_targets = self.by_targets.append(location[None], noise[None])
        self._informs_outside.append(not known)

    def drop_last(self) -> None:
        """Take the last annotation back."""
        self.first.drop_last()
        self.plain = self.plain.without_last()
        if self._informs_outside.pop():
            self.second.drop_last()
            self.by_targets = self.by_targets.without_last()

    def all(self) -> Floats:
        """Gains of all candidates."""
        gains = self.first.entropies()
        gains[self.outside] -= self.second.entropies()
        return gains

    def near_best(self, alive: Bools) -> tuple[Ints, Floats]:
        """Candidates among ``alive`` within a tie of the best gain, with their gains."""
        gains = self.all()
        best = gains[alive].max(initial=-np.inf)
        near = np.flatnonzero(alive & (gains >= best - TIE))
        return near, gains[near]


def _at(conditioned: Conditioned, location: Floats, b: int) -> tuple[Floats, Floats]:
    """Whitened rows (rows, b) and covariance (b, b) at one location, as blocks of size b."""
    column = conditioned.whitened(location[None])
    if b > 1 and conditioned.isotropic:
        column = np.asarray(np.kron(column, np.eye(b)), dtype=np.float64)
    variance = conditioned.kernel.diagonal(location[None])[0] * np.eye(b)
    return column, variance - column.T @ column
