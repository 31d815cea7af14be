"""Gains where some candidates lie outside the targets: kept for all candidates, one pass over them per annotation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve_triangular

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.factors import cholesky, is_isotropic, log_determinants, lost_to_rounding
from warpgauge.core.gains import TIE, entropy_constant
from warpgauge.core.kernels import PriorKernel, ScalarKernel
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.errors import SingularModelError


@dataclass(frozen=True, eq=False)
class KernelGivenTargets:
    """The scalar kernel conditioned on exact values at all targets: again a scalar times I_d.

    ``factor`` is the lower Cholesky factor of the kernel matrix of the targets.
    """

    kernel: ScalarKernel
    targets: Floats
    factor: Floats
    known: dict[bytes, Floats] = field(default_factory=dict)

    @classmethod
    def on(cls, kernel: ScalarKernel, targets: Floats) -> KernelGivenTargets:
        """Condition on the targets; they must be distinct."""
        return cls(kernel, targets, cholesky(kernel.matrix(targets, targets), "the targets"))

    def remember(self, point: Floats, whitened: Floats) -> None:
        """Keep the whitened column of a point that will be asked for again, as annotated ones are."""
        self.known[point.tobytes()] = whitened

    def whitened(self, points: Floats) -> Floats:
        """``G^-1 kappa(T, points)``, shape (N, n)."""
        keys = [point.tobytes() for point in points] if len(points) <= len(self.known) else []
        if keys and all(key in self.known for key in keys):
            return np.stack([self.known[key] for key in keys], axis=1)
        # Filled as (n, N) and transposed: the solver wants columns contiguous, and then needs no copy.
        block = self.kernel.matrix(points, self.targets).T
        return np.asarray(solve_triangular(self.factor, block, lower=True, overwrite_b=True, check_finite=False))

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Conditioned kernel between (n, d) points and (m, d) others."""
        result = self.kernel.matrix(points, others, out)
        result -= self.whitened(points).T @ self.whitened(others)
        return result

    @property
    def of_prior(self) -> PriorKernel:
        """Not a prior's kernel: there are no compiled loops for it."""
        raise TypeError("A kernel given the targets is not a prior's kernel; compiled loops work on the latter only.")

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

    def add(self, prior_row: Floats, column: Floats, variance: Floats, noise: Floats) -> None:
        """Add an annotation.

        Parameters
        ----------
        prior_row : (n,) array
            Scalar kernel between the new location and the points.
        column : (rows, b) array
            Whitened rows at the new location itself.
        variance : (b, b) array
            Covariance at the new location before this annotation.
        noise : (d, d) array
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
            new /= np.sqrt(variance[0, 0] + noise[0, 0])
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


def whitened_at(conditioned: Conditioned, location: Floats, b: int) -> tuple[Floats, Floats]:
    """Whitened rows (rows, b) and covariance (b, b) at one location, as blocks of the size in use."""
    column = conditioned.whitened(location[None])
    if b > conditioned.b:
        column = np.asarray(np.kron(column, np.eye(b)), dtype=np.float64)
    return column, conditioned.kernel.diagonal(location[None])[0] * np.eye(b) - column.T @ column


class EagerGains:
    """Gains where some candidates lie outside T, Eqs. (delta_H_in_T) and (delta_H_not_in_T).

    For those, the gain is the entropy given the annotations less the entropy given the annotations and exact values at
    all targets. Both are kept by :class:`WhitenedRows`: one for the kernel, one for the kernel given the targets.
    """

    def __init__(
        self, conditioned: Conditioned, given: KernelGivenTargets, candidates: Floats, outside: Ints, same_point: float
    ) -> None:
        self.candidates, self.outside, self.given, self.same_point = candidates, outside, given, same_point
        self.conditioned = conditioned
        d = candidates.shape[1]
        self.first = WhitenedRows(conditioned.kernel.diagonal(candidates), d)
        self.U = given.whitened(candidates[outside])
        inner = conditioned.kernel.diagonal(candidates[outside]) - np.einsum("tn,tn->n", self.U, self.U)
        self.second = WhitenedRows(inner, d)
        self._given_targets = Conditioned.on(given, np.empty((0, d)), np.empty((0, d, d)))
        self._informs_outside: list[bool] = []
        self._last = np.empty(0)

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account."""
        if not is_isotropic(noise[None]):
            self.first.make_anisotropic()
            self.second.make_anisotropic()
        row = self.conditioned.kernel.matrix(location[None], self.candidates)[0]
        self.first.add(row, *whitened_at(self.conditioned, location, self.first.b), noise)
        self.conditioned = self.conditioned.append(location[None], noise[None])
        # Given exact values at all targets, an annotation of a target says nothing new.
        informs = bool(np.linalg.norm(self.given.targets - location, axis=1).min() > self.same_point)
        self._informs_outside.append(informs)
        if informs:
            u = self._whitened_by_targets(location)
            self.given.remember(location, u)
            self.second.add(
                row[self.outside] - u @ self.U, *whitened_at(self._given_targets, location, self.first.b), noise
            )
            self._given_targets = self._given_targets.append(location[None], noise[None])

    def _whitened_by_targets(self, location: Floats) -> Floats:
        """``G^-1 kappa(T, x)``: a stored column where x is a candidate, a triangular solve elsewhere."""
        here = np.flatnonzero((self.candidates[self.outside] == location).all(axis=1))
        return self.U[:, here[0]] if len(here) else self.given.whitened(location[None])[:, 0]

    def drop_last(self) -> None:
        """Take the last annotation back."""
        self.first.drop_last()
        self.conditioned = self.conditioned.without_last()
        if self._informs_outside.pop():
            self.second.drop_last()
            self._given_targets = self._given_targets.without_last()

    def all(self) -> Floats:
        """Gains of all candidates."""
        gains = self.first.entropies()
        gains[self.outside] -= self.second.entropies()
        return gains

    def one(self, index: int) -> float:
        """Gain of one candidate."""
        return float(self.all()[index])

    def bounds(self) -> Floats:
        """Return the gains of all candidates: here all are up to date."""
        self._last = self.all()
        return self._last

    def up_to_date(self) -> Ints:
        """Return all candidates."""
        return np.arange(len(self.candidates))

    def lower(self) -> bool:
        """Nothing to lower: no gain is a bound here."""
        return False

    def exact(self, rows: Ints) -> Floats:
        """Return the gains of some candidates, as :meth:`bounds` found them."""
        return np.asarray(self._last[rows])

    def near_best(self, alive: Bools) -> tuple[Ints, Floats]:
        """Candidates among ``alive`` within a tie of the best gain, with their gains."""
        gains = self.all()
        best = gains[alive].max(initial=-np.inf)
        near = np.flatnonzero(alive & (gains >= best - TIE))
        return near, gains[near]
