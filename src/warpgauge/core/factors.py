"""Factors of covariance matrices: safe Cholesky, block append, quadratic forms, and the factor of the annotations.

A factor is kept as ``W``, the inverse of the lower Cholesky factor, so that ``K^-1 = W^T W``: applying it is one matrix
product, sums of squares of ``W k`` can never come out negative, dropping the last rows undoes the last append.

The factor of the annotations' covariance is scalar where all noise is isotropic, and has d x d blocks otherwise. Which
of the two it is, only this module knows. Vectors at the annotations go in as (L, K, d) arrays, K of them, and come out
in one order whatever the factor.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.parallel import blas_threads_for
from warpgauge.errors import NumericalWarning, SingularModelError

_JITTERS = (1e-14, 1e-13, 1e-12, 1e-11, 1e-10)


def cholesky(matrix: Floats, what: str) -> Floats:
    """Lower Cholesky factor.

    A matrix that is positive definite but for rounding gets the smallest sufficient multiple of its mean diagonal
    added, with a :class:`~warpgauge.errors.NumericalWarning` that gives the number; anything worse raises.
    """
    if not np.isfinite(matrix).all():
        raise SingularModelError(f"The covariance of {what} has entries that are not finite; the prior is too large.")
    factor, info = lapack.dpotrf(matrix, lower=1, clean=1)
    if info == 0:
        return np.asarray(factor)
    diagonal = float(np.mean(np.diagonal(matrix)))
    for relative in _JITTERS:
        jitter = relative * diagonal
        factor, info = lapack.dpotrf(matrix + jitter * np.eye(len(matrix)), lower=1, clean=1)
        if info == 0:
            warnings.warn(
                f"The covariance of {what} is singular to rounding; a variance of {jitter:.3g} was added to factor it.",
                NumericalWarning,
                stacklevel=3,
            )
            return np.asarray(factor)
    raise SingularModelError(
        f"The covariance of {what} is singular: locations coincide, or noise and spacing are too small for the kernel; "
        "merge coinciding locations or give the annotations more uncertainty."
    )


def inverse_of_lower(factor: Floats) -> Floats:
    """Inverse of a lower triangular matrix."""
    if len(factor) == 0:
        return np.zeros((0, 0))
    inverse, info = lapack.dtrtri(factor, lower=1)
    if info != 0:
        raise SingularModelError("A Cholesky factor has a zero on its diagonal; the model is singular.")
    return np.ascontiguousarray(inverse)


def inverse_cholesky(matrix: Floats, what: str) -> Floats:
    """``W`` with ``W^T W = matrix^-1`` and ``W`` lower triangular."""
    if len(matrix) == 0:
        return np.zeros((0, 0))
    with blas_threads_for(len(matrix)):
        return inverse_of_lower(cholesky(matrix, what))


def append_rows(W: Floats, cross: Floats, corner: Floats, what: str) -> Floats:
    """Extend ``W`` of K to that of ``[[K, cross], [cross^T, corner]]``, in O(n^2) for each new row.

    With ``V = W cross`` and the Schur complement ``corner - V^T V = G G^T`` the new rows are
    ``[-G^-1 V^T W, G^-1]``.
    """
    old, new = len(W), len(corner)
    extended = np.zeros((old + new, old + new))
    extended[:old, :old] = W
    with blas_threads_for(old + new):
        V = W @ cross
        G_inverse = inverse_cholesky(corner - V.T @ V, what)
        extended[old:, :old] = -G_inverse @ (V.T @ W)
    extended[old:, old:] = G_inverse
    return extended


def lower_pivots(matrices: Floats) -> Floats:
    """Pivots of the LDL^T factorisation of (n, d, d) symmetric matrices, d <= 3, shape (n, d).

    Their product is the determinant, and all are positive exactly when the matrix is positive definite.
    """
    d = matrices.shape[-1]
    pivots = np.empty(matrices.shape[:-1])
    a = matrices
    with np.errstate(divide="ignore", invalid="ignore"):  # a vanished pivot shows in the result
        pivots[:, 0] = a[:, 0, 0]
        if d > 1:
            l10 = a[:, 1, 0] / pivots[:, 0]
            pivots[:, 1] = a[:, 1, 1] - l10 * a[:, 1, 0]
        if d > 2:
            l20 = a[:, 2, 0] / pivots[:, 0]
            c21 = a[:, 2, 1] - l10 * a[:, 2, 0]
            pivots[:, 2] = a[:, 2, 2] - l20 * a[:, 2, 0] - c21 * c21 / pivots[:, 1]
    return pivots


def log_determinants(matrices: Floats, rows: Ints | None = None) -> Floats:
    """Log determinants of (n, d, d) posterior covariances; raises where rounding has eaten a variance.

    ``rows`` are their numbers in the caller's array, for the message.
    """
    pivots = lower_pivots(matrices)
    positive = np.all(pivots > 0, axis=1)
    if not positive.all():
        lost = int(np.argmin(positive))
        raise SingularModelError(lost_to_rounding(lost if rows is None else int(rows[lost])))
    return np.asarray(np.log(pivots).sum(axis=1))


def lost_to_rounding(row: int) -> str:
    """Sentence for a posterior covariance that double precision cannot hold."""
    return (
        f"The posterior covariance at point {row} is lost to rounding: the noise is too small beside the prior's; "
        "give the annotations more uncertainty or the kernel smaller weights."
    )


def mahalanobis(residuals: Floats, covariances: Floats) -> Floats:
    """Squared Mahalanobis lengths ``r^T C^-1 r`` of (n, d) residuals under (n, d, d) covariances."""
    if len(residuals) == 0:
        return np.zeros(0)
    solved = np.linalg.solve(covariances, residuals[..., None])[..., 0]
    return np.asarray(np.einsum("na,na->n", residuals, solved))


_WHAT = "the annotations"


def is_isotropic(covariances: Floats) -> bool:
    """Return whether every matrix is exactly a number times the identity."""
    d = covariances.shape[-1]
    return bool(np.array_equal(covariances, covariances[:, :1, :1] * np.eye(d)))


def factor_of(gram: Floats, noise: Floats) -> Factor:
    """Factor a scalar kernel matrix times I_d plus the (L, d, d) noise."""
    d = noise.shape[-1]
    if is_isotropic(noise):
        return ScalarFactor(inverse_cholesky(gram + np.diag(noise[:, 0, 0]), _WHAT), d)
    return BlockFactor(inverse_cholesky(_noisy_blocks(gram, noise), _WHAT), d)


@dataclass(frozen=True, eq=False)
class Factor(ABC):
    """Inverse Cholesky factor of ``K_AA``, Eq. (definition_K_TT_given_A).

    Parameters
    ----------
    W : (L b, L b) array
        Annotation by annotation.
    d : int
        Dimension.
    """

    W: Floats
    d: int

    @property
    @abstractmethod
    def b(self) -> int:
        """Number of components with covariances of their own: 1 with isotropic noise, else d."""

    @property
    def count(self) -> int:
        """Number of annotations."""
        return len(self.W) // self.b

    @abstractmethod
    def append(self, cross: Floats, corner: Floats, noise: Floats) -> Factor:
        """Extend by further annotations: their kernel with the former (L, m), among themselves (m, m), their noise."""

    @abstractmethod
    def leading(self, count: int) -> Factor:
        """Return the factor of the first annotations alone: its rows do not depend on later ones."""

    @abstractmethod
    def whiten_kernel(self, block: Floats) -> Floats:
        """``W K_X`` of an (L, n) block of the kernel, (L b, n b)."""

    @abstractmethod
    def whiten(self, vectors: Floats, since: int = 0) -> Floats:
        """``W v`` of (L, K, d) vectors, (K, R); only the rows of the annotations from ``since`` on."""

    @abstractmethod
    def solve(self, vectors: Floats) -> Floats:
        """``K_AA^-1 v`` of (L, K, d) vectors, in the same shape."""

    @abstractmethod
    def solve_each(self, vectors: Floats) -> Floats:
        """``K_AA^-1 E_l v_l`` of (L, d) vectors, each alone at its annotation l: (L, d, L), the last axis is l."""

    @abstractmethod
    def explained(self, block: Floats, vectors: Floats) -> Floats:
        """``K_X^T K_AA^-1 v`` of an (L, n) block of the kernel and (L, K, d) vectors, (n, K, d)."""

    @abstractmethod
    def diagonal_blocks(self) -> Floats:
        """``D_ll``: the (L, d, d) diagonal blocks of ``K_AA^-1``."""

    @abstractmethod
    def inverse_block(self, rows: list[int]) -> Floats:
        """Block of ``K_AA^-1`` that belongs to some annotations, (m d, m d)."""

    @abstractmethod
    def spread(self, matrix: Floats) -> Floats:
        """Return a matrix of b x b blocks as one of d x d blocks."""


class ScalarFactor(Factor):
    """All noise is isotropic: an (L, L) matrix, meant times I_d."""

    @property
    def b(self) -> int:
        """One: all components share their covariance."""
        return 1

    def append(self, cross: Floats, corner: Floats, noise: Floats) -> Factor:
        """Extend; the first annotation with anisotropic noise makes it a factor of blocks."""
        if not is_isotropic(noise):
            return BlockFactor(times_identity(self.W, self.d), self.d).append(cross, corner, noise)
        return ScalarFactor(append_rows(self.W, cross, corner + np.diag(noise[:, 0, 0]), _WHAT), self.d)

    def leading(self, count: int) -> Factor:
        """Return the factor of the first annotations alone."""
        return ScalarFactor(np.ascontiguousarray(self.W[:count, :count]), self.d)

    def whiten_kernel(self, block: Floats) -> Floats:
        """``W K_X``, (L, n)."""
        return np.asarray(self.W @ block)

    def whiten(self, vectors: Floats, since: int = 0) -> Floats:
        """``W v``, (K, R)."""
        L, K, d = vectors.shape
        rows = (self.W[since:] @ vectors.reshape(L, K * d)).reshape(-1, K, d)
        return np.asarray(rows.transpose(1, 0, 2).reshape(K, -1))

    def solve(self, vectors: Floats) -> Floats:
        """``K_AA^-1 v``, (L, K, d)."""
        L, K, d = vectors.shape
        with blas_threads_for(len(self.W)):
            return np.asarray((self.W.T @ (self.W @ vectors.reshape(L, K * d))).reshape(L, K, d))

    def solve_each(self, vectors: Floats) -> Floats:
        """``K_AA^-1 E_l v_l``, (L, d, L)."""
        return np.asarray((self.W.T @ self.W)[:, None, :] * vectors.T[None])

    def explained(self, block: Floats, vectors: Floats) -> Floats:
        """``K_X^T K_AA^-1 v``, (n, K, d)."""
        L, K, d = vectors.shape
        return np.asarray(((self.W @ block).T @ (self.W @ vectors.reshape(L, K * d))).reshape(-1, K, d))

    def diagonal_blocks(self) -> Floats:
        """``D_ll``, (L, d, d)."""
        return np.asarray(np.square(self.W).sum(axis=0)[:, None, None] * np.eye(self.d))

    def inverse_block(self, rows: list[int]) -> Floats:
        """Block of ``K_AA^-1``, (m d, m d)."""
        columns = self.W[:, rows]
        return np.asarray(np.kron(columns.T @ columns, np.eye(self.d)))

    def spread(self, matrix: Floats) -> Floats:
        """``matrix`` times I_d."""
        return times_identity(matrix, self.d)


class BlockFactor(Factor):
    """Some noise is anisotropic: an (L d, L d) matrix in the paper's order, annotation by annotation."""

    @property
    def b(self) -> int:
        """The dimension."""
        return self.d

    def append(self, cross: Floats, corner: Floats, noise: Floats) -> Factor:
        """Extend by further annotations."""
        blocks = _noisy_blocks(corner, noise)
        return BlockFactor(append_rows(self.W, times_identity(cross, self.d), blocks, _WHAT), self.d)

    def leading(self, count: int) -> Factor:
        """Return the factor of the first annotations alone."""
        size = count * self.d
        return BlockFactor(np.ascontiguousarray(self.W[:size, :size]), self.d)

    def whiten_kernel(self, block: Floats) -> Floats:
        """``W K_X``, (L d, n d)."""
        return np.asarray(self.W @ times_identity(block, self.d))

    def whiten(self, vectors: Floats, since: int = 0) -> Floats:
        """``W v``, (K, R)."""
        return np.asarray((self.W[since * self.d :] @ _columns(vectors)).T)

    def solve(self, vectors: Floats) -> Floats:
        """``K_AA^-1 v``, (L, K, d)."""
        L, K, d = vectors.shape
        with blas_threads_for(len(self.W)):
            solved = self.W.T @ (self.W @ _columns(vectors))
        return np.ascontiguousarray(solved.reshape(L, d, K).transpose(0, 2, 1))

    def solve_each(self, vectors: Floats) -> Floats:
        """``K_AA^-1 E_l v_l``, (L, d, L)."""
        L, d = vectors.shape
        alone = np.zeros((L, d, L))
        alone[np.arange(L), :, np.arange(L)] = vectors
        return np.asarray((self.W.T @ (self.W @ alone.reshape(L * d, L))).reshape(L, d, L))

    def explained(self, block: Floats, vectors: Floats) -> Floats:
        """``K_X^T K_AA^-1 v``, (n, K, d)."""
        _, K, d = vectors.shape
        columns = self.whiten_kernel(block).T @ (self.W @ _columns(vectors))
        return np.asarray(columns.reshape(-1, d, K).transpose(0, 2, 1))

    def diagonal_blocks(self) -> Floats:
        """``D_ll``, (L, d, d)."""
        columns = self.W.reshape(len(self.W), self.count, self.d)
        return np.asarray(np.einsum("rla,rlb->lab", columns, columns))

    def inverse_block(self, rows: list[int]) -> Floats:
        """Block of ``K_AA^-1``, (m d, m d)."""
        columns = self.W.reshape(len(self.W), self.count, self.d)[:, rows].reshape(len(self.W), -1)
        return np.asarray(columns.T @ columns)

    def spread(self, matrix: Floats) -> Floats:
        """``matrix`` itself."""
        return matrix


def times_identity(scalar: Floats, d: int) -> Floats:
    """``scalar`` times I_d, block by block: the Kronecker product with the identity."""
    rows, columns = scalar.shape
    spread = np.zeros((rows, d, columns, d))
    for a in range(d):
        spread[:, a, :, a] = scalar
    return spread.reshape(rows * d, columns * d)


def _noisy_blocks(gram: Floats, noise: Floats) -> Floats:
    """``gram`` times I_d plus the noise on its diagonal blocks."""
    d = noise.shape[-1]
    matrix = times_identity(gram, d)
    for row, covariance in enumerate(noise):
        block = slice(row * d, (row + 1) * d)
        matrix[block, block] += covariance
    return matrix


def _columns(vectors: Floats) -> Floats:
    """(L, K, d) vectors as (L d, K) columns."""
    L, K, d = vectors.shape
    return vectors.transpose(0, 2, 1).reshape(L * d, K)
