"""Objectives of suggestion beyond the paper: integrated variance, and Krause's mutual information.

Both have the interface of :class:`~warpgauge.core.gains.LazyGains` and need what is expected of an annotation that is
not there yet: its covariance at each candidate, the model's extra noise included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.eager_gains import WhitenedRows, whitened_at
from warpgauge.core.factors import cholesky, is_isotropic, log_determinants
from warpgauge.core.gains import TIE, entropy_constant
from warpgauge.core.posterior_covariance import Conditioned


class _Objective(ABC):
    """What the objectives share: exact gains of all candidates, kept until an annotation comes or goes."""

    def __init__(self, conditioned: Conditioned, candidates: Floats, expected: Floats) -> None:
        self.conditioned, self.candidates, self.expected = conditioned, candidates, expected
        self.d = int(candidates.shape[1])
        self.rows = WhitenedRows(conditioned.kernel.diagonal(candidates), self.d)
        self._kept: Floats | None = None

    def expect(self, expected: Floats) -> None:
        """Expect other covariances of annotations to come."""
        self.expected, self._kept = expected, None

    def all(self) -> Floats:
        """Gains of all candidates."""
        if self._kept is None:
            self._kept = self._compute()
        return self._kept.copy()

    def one(self, index: int) -> float:
        """Gain of one candidate."""
        return float(self.all()[index])

    def near_best(self, alive: Bools) -> tuple[Ints, Floats]:
        """Candidates among ``alive`` within a tie of the best gain, with their gains."""
        gains = self.all()
        best = gains[alive].max(initial=-np.inf)
        slack = TIE * max(1.0, abs(best)) if np.isfinite(best) else 0.0
        with np.errstate(invalid="ignore"):
            near = np.flatnonzero(alive & (gains >= best - slack))
        return near, gains[near]

    def _take(self, location: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Add the annotation to the candidates' rows; whitened column and covariance at its location before it."""
        if not is_isotropic(noise[None]):
            self.rows.make_anisotropic()
        column, variance = whitened_at(self.conditioned, location, self.rows.b)
        row = self.conditioned.kernel.matrix(location[None], self.candidates)[0]
        self.rows.add(row, column, variance, noise)
        self.conditioned = self.conditioned.append(location[None], noise[None])
        self._kept = None
        return column, variance

    def _release(self) -> None:
        self.rows.drop_last()
        self.conditioned = self.conditioned.without_last()
        self._kept = None

    def _annotation_covariances(self) -> Floats:
        """Covariance of an annotation of each candidate, ``k_|A(c, c) + Sigma_c``, (n, d, d)."""
        known = self.rows.covariance
        return np.asarray((known[:, None, None] * np.eye(self.d) if known.ndim == 1 else known) + self.expected)

    @abstractmethod
    def _compute(self) -> Floats:
        """Gains of all candidates, from scratch."""


class VarianceGains(_Objective):
    r"""Expected drop of the mean posterior variance over the targets.

    .. math:: g(c) = \frac1{|T|} \sum_{t \in T} \mathrm{tr}\,
              k_{|A}(t, c) \, (k_{|A}(c, c) + \Sigma_c)^{-1} \, k_{|A}(c, t)

    in squared world units: the greedy step of A-optimal (integrated variance) design, Cohn, Ghahramani, Jordan 1996,
    "Active learning with statistical models", Eq. (6) for a Gaussian process. The posterior covariances between
    candidates and targets are kept: n N doubles (n N d^2 from the first anisotropic annotation on), and one pass over
    them for an annotation and for the gains.
    """

    def __init__(self, conditioned: Conditioned, candidates: Floats, targets: Floats, expected: Floats) -> None:
        super().__init__(conditioned, candidates, expected)
        self.targets = targets
        self.target_rows = WhitenedRows(conditioned.kernel.diagonal(targets), self.d)
        self.cross = conditioned.kernel.matrix(candidates, targets)

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account."""
        row = self.conditioned.kernel.matrix(location[None], self.targets)[0]
        column, variance = self._take(location, noise)
        if self.rows.b > self.target_rows.b:
            self.target_rows.make_anisotropic()
            self.cross = np.asarray(np.kron(self.cross, np.eye(self.d)), dtype=np.float64)
        self.target_rows.add(row, column, variance, noise)
        self._move(-1.0)

    def drop_last(self) -> None:
        """Take the last annotation back."""
        self._move(1.0)
        self.target_rows.drop_last()
        self._release()

    def _move(self, sign: float) -> None:
        """Add ``sign`` times what the last annotation explains between candidates and targets, in place."""
        b = self.rows.b
        left, right = self.target_rows.rows[-b:], self.rows.rows[-b:]
        # The transpose of a C array is what the Fortran routine wants, so that nothing is copied.
        moved = blas.dgemm(sign, left, right, beta=1.0, c=self.cross.T, trans_a=True, overwrite_c=True)
        self.cross = moved.T

    def _compute(self) -> Floats:
        n, b = len(self.candidates), self.rows.b
        inverse = np.linalg.inv(self._annotation_covariances())
        if b == 1:
            squares = np.einsum("nt,nt->n", self.cross, self.cross)
            gains = squares * np.trace(inverse, axis1=1, axis2=2)
        else:
            blocks = self.cross.reshape(n, b, -1)
            gains = np.einsum("nab,nab->n", blocks @ blocks.transpose(0, 2, 1), inverse)
        return np.asarray(gains / len(self.targets))


class KrauseGains(_Objective):
    r"""Greedy gain of the mutual information between what is annotated and all the rest.

    .. math:: g(c) = I(A + c; R - c) - I(A; R)
              = \mathcal H({\tilde\Phi}_c \mid A) - \mathcal H({\tilde\Phi}_c \mid R - c)

    in nats, Krause, Singh, Guestrin 2008, "Near-optimal sensor placements in Gaussian processes", JMLR 9, Eq. (8).
    ``R``, the rest, is the noisy annotations of all candidates and targets that are not in ``A``. The second entropy is
    a diagonal block of its inverse covariance, which loses a row and a column with each annotation: O(n^2) for an
    annotation, one factorisation of the n x n matrix (given the targets) at the start; nd x nd only where an expected
    covariance is anisotropic.
    """

    def __init__(
        self,
        conditioned: Conditioned,
        candidates: Floats,
        others: Floats,
        expected: Floats,
        expected_of_others: Floats,
    ) -> None:
        super().__init__(conditioned, candidates, expected)
        self.others, self.expected_of_others = others, expected_of_others
        self._removed: list[tuple[int, Floats] | None] = []
        self._start()

    def _start(self) -> None:
        """Inverse covariance of the noisy annotations of all candidates given those of the other targets."""
        kernel = self.conditioned.kernel
        self.b = 1 if is_isotropic(self.expected) and is_isotropic(self.expected_of_others) else self.d
        matrix = _noisy(kernel.matrix(self.candidates, self.candidates), self.expected, self.b)
        if len(self.others):
            given = _noisy(kernel.matrix(self.others, self.others), self.expected_of_others, self.b)
            cross = np.kron(kernel.matrix(self.others, self.candidates), np.eye(self.b))
            whitened = solve_triangular(cholesky(given, "the targets"), cross, lower=True, check_finite=False)
            matrix -= whitened.T @ whitened
        factor = cholesky(matrix, "the candidates")
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        lower = np.tril(inverse)
        self.covariance = matrix
        self.precision = lower + np.tril(lower, -1).T

    def expect(self, expected: Floats) -> None:
        """Change the expected covariances of future annotations; the rest is refactored, in O(n^3)."""
        super().expect(expected)
        gone = [entry[0] if entry is not None else None for entry in self._removed]
        self._removed = []
        self._start()
        for index in gone:
            self._remove(index)

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account."""
        self._take(location, noise)
        here = np.flatnonzero((self.candidates == location).all(axis=1))
        gone = {entry[0] for entry in self._removed if entry is not None}
        index = int(here[0]) if len(here) and int(here[0]) not in gone else None
        self._remove(index)

    def _block(self, index: int) -> slice:
        return slice(index * self.b, (index + 1) * self.b)

    def _remove(self, index: int | None) -> None:
        """Take a candidate out of the rest: ``P - P_a P_aa^-1 P_a^T`` without its rows and columns."""
        if index is None:
            self._removed.append(None)
            return
        block = self._block(index)
        columns = self.precision[:, block].copy()
        self._removed.append((index, columns))
        self.precision -= columns @ np.linalg.solve(columns[block], columns.T)
        self.precision[block] = 0.0
        self.precision[:, block] = 0.0

    def drop_last(self) -> None:
        """Take the last annotation back."""
        self._release()
        entry = self._removed.pop()
        if entry is not None:
            index, columns = entry
            block = self._block(index)
            self.precision += columns @ np.linalg.solve(columns[block], columns.T)
            self.precision[:, block] = columns
            self.precision[block] = columns.T

    def _compute(self) -> Floats:
        n = len(self.candidates)
        known = 0.5 * log_determinants(self._annotation_covariances()) + entropy_constant(self.d)
        blocks = self.precision.reshape(n, self.b, n, self.b)[np.arange(n), :, np.arange(n), :].copy()
        gone = [entry[0] for entry in self._removed if entry is not None]
        for index in gone:
            blocks[index] = np.linalg.inv(self._given_rest(index))
        repeats = self.d // self.b
        rest = -0.5 * repeats * log_determinants(blocks) + entropy_constant(self.d)
        return np.asarray(known - rest)

    def _given_rest(self, index: int) -> Floats:
        """Covariance of an annotation of a candidate that left the rest, given the rest."""
        block = self._block(index)
        cross = self.covariance[:, block].copy()
        gone = [entry[0] for entry in self._removed if entry is not None]
        for other in gone:
            cross[self._block(other)] = 0.0
        return np.asarray(self.covariance[block, block] - cross.T @ self.precision @ cross)


def _noisy(gram: Floats, noise: Floats, b: int) -> Floats:
    """Kernel matrix plus the annotations' own covariances, (n b, n b)."""
    matrix = np.kron(gram, np.eye(b)) if b > 1 else gram.copy()
    for row, covariance in enumerate(noise):
        block = slice(row * b, (row + 1) * b)
        matrix[block, block] += covariance[:b, :b]
    return np.asarray(matrix)
