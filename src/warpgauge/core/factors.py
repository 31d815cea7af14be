"""Covariance matrices: safe Cholesky factors, block append, determinants and Mahalanobis lengths of small ones.

A factor is kept as ``W``, the inverse of the lower Cholesky factor, so that ``K^-1 = W^T W``: applying it is one matrix
product, sums of squares of ``W k`` can never come out negative, dropping the last rows undoes the last append.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import lapack

from warpgauge.core.arrays import Bools, Floats, Ints
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


def inverse_cholesky(matrix: Floats, what: str) -> Floats:
    """``W`` with ``W^T W = matrix^-1`` and ``W`` lower triangular."""
    if len(matrix) == 0:
        return np.zeros((0, 0))
    with blas_threads_for(len(matrix)):
        inverse, info = lapack.dtrtri(cholesky(matrix, what), lower=1)
    if info != 0:
        raise SingularModelError(f"The Cholesky factor of {what} has a zero on its diagonal; the model is singular.")
    return np.ascontiguousarray(inverse)


def append_rows(W: Floats, cross: Floats, corner: Floats, what: str) -> Floats:
    """Extend ``W`` of K to that of ``[[K, cross], [cross^T, corner]]``, in O(n^2) for each new row.

    With ``V = W cross`` and the Schur complement ``corner - V^T V = G G^T`` the new rows are
    ``[-G^-1 V^T W, G^-1]``.
    """
    old = len(W)
    new = len(corner)
    extended = np.zeros((old + new, old + new))
    extended[:old, :old] = W
    with blas_threads_for(old + new):
        V = W @ cross
        G_inverse = inverse_cholesky(corner - V.T @ V, what)
        extended[old:, :old] = -G_inverse @ (V.T @ W)
    extended[old:, old:] = G_inverse
    return extended


def _eliminated(matrices: Floats, vectors: Floats | None = None) -> tuple[Floats, Floats]:
    """Pivots of the LDL^T factorisation of (n, d, d) symmetric matrices, (n, d), and ``L^-1 v`` of (n, d) vectors.

    The product of the pivots is the determinant, and all are positive exactly when the matrix is positive definite.
    """
    a = matrices.copy()
    d = matrices.shape[-1]
    v = np.zeros(a.shape[:-1]) if vectors is None else vectors.copy()
    with np.errstate(divide="ignore", invalid="ignore"):  # a vanished pivot shows in the result
        for i in range(d):
            for j in range(i + 1, d):
                factor = a[:, j, i] / a[:, i, i]
                v[:, j] -= factor * v[:, i]
                for k in range(i + 1, j + 1):
                    a[:, j, k] -= factor * a[:, k, i]
    return np.diagonal(a, axis1=1, axis2=2), v


def refuse_lost(positive: Bools, rows: Ints | None = None) -> None:
    """Raise where a variance is not positive because rounding took that away; ``rows`` are the points' numbers."""
    if not positive.all():
        lost = int(np.argmin(positive))
        raise SingularModelError(lost_to_rounding(lost if rows is None else int(rows[lost])))


def log_determinants(matrices: Floats, rows: Ints | None = None) -> Floats:
    """Log determinants of (n, d, d) posterior covariances; raises where rounding has eaten a variance.

    ``rows`` are their numbers in the caller's array, for the message.
    """
    pivots, _ = _eliminated(matrices)
    refuse_lost(np.all(pivots > 0, axis=1), rows)
    return np.asarray(np.log(pivots).sum(axis=1))


def mahalanobis(residuals: Floats, covariances: Floats) -> Floats:
    """Squared Mahalanobis lengths of (n, d) residuals under covariances (n, d, d), or (n, 1, 1) times I_d."""
    if covariances.shape[-1] == 1:
        variances = covariances[:, 0, 0]
        refuse_lost(variances > 0)
        return np.asarray(np.square(residuals).sum(axis=1) / variances)
    pivots, whitened = _eliminated(covariances, residuals)
    refuse_lost(np.all(pivots > 0, axis=1))
    return np.asarray((np.square(whitened) / pivots).sum(axis=1))


def lost_to_rounding(row: int) -> str:
    """Sentence for a posterior covariance that double precision cannot hold."""
    return (
        f"The posterior covariance at point {row} is lost to rounding: the noise is too small beside the prior's; "
        "give the annotations more uncertainty or the kernel smaller weights."
    )


def is_isotropic(covariances: Floats) -> bool:
    """Return whether every matrix is exactly a number times the identity."""
    d = covariances.shape[-1]
    return bool(np.array_equal(covariances, covariances[:, :1, :1] * np.eye(d)))


def full(covariances: Floats, d: int) -> Floats:
    """Covariances (n, d, d) from (n, b, b): a single number stands for a multiple of I_d."""
    return covariances if covariances.shape[-1] == d else covariances * np.eye(d)


def noisy(gram: Floats, noise: Floats, b: int) -> Floats:
    """Return a scalar kernel matrix times I_b plus the (L, d, d) noise on its diagonal, by annotation."""
    L = len(gram)
    matrix = times_identity(gram, b).reshape(L, b, L, b)
    at = np.arange(L)
    matrix[at, :, at, :] += noise[:, :b, :b]
    return matrix.reshape(L * b, L * b)


def times_identity(scalar: Floats, b: int) -> Floats:
    """Return a matrix times I_b, block by block: the Kronecker product with the identity."""
    return np.asarray(np.kron(scalar, np.eye(b)), dtype=np.float64)
