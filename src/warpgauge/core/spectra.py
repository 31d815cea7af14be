"""Covariances ``f I + v B`` for many factors f and sizes v, from one eigendecomposition of the costly part of B.

B is a smooth part, the same in every coordinate, plus products ``U U^T`` of few columns. `Spectrum` decomposes the
smooth part once; U is added by Woodbury's identity, so that other columns, or the same ones times other numbers, cost
next to nothing. With isotropic noise the decomposition is L x L, as all coordinates share it, else L d x L d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.factors import is_isotropic


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigendecomposition of a covariance of L annotations, whitened by their noise.

    ``whitening`` (L, d, d) are inverse Cholesky factors of the noise. There are L values with isotropic noise, else
    L d.
    """

    whitening: Floats
    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, covariance: Floats, whitening: Floats) -> Spectrum:
        """Decompose an (L, L) covariance, which all coordinates have."""
        L, d = whitening.shape[:2]
        if is_isotropic(whitening):
            root = whitening[:, 0, 0]
            matrix = root[:, None] * covariance * root
        else:
            matrix = np.einsum("lac,mbc->lamb", whitening, whitening) * covariance[:, None, :, None]
        values, vectors = np.linalg.eigh(matrix.reshape(-1, L if matrix.ndim == 2 else L * d))
        # Eigenvalues of a covariance are at least 0; rounding may leave some just below.
        return cls(whitening, np.maximum(values, 0.0), vectors)

    @cached_property
    def variances(self) -> Floats:
        """Eigenvalue of each of the L d rotated annotations."""
        L, d = self.whitening.shape[:2]
        return np.repeat(self.values, L * d // len(self.values))

    def rotated(self, columns: Floats) -> Floats:
        """Whiten (L d, k) columns and turn them to the frame of the eigenvectors."""
        white = _by_annotation(self.whitening, columns)
        return np.asarray((self.vectors.T @ white.reshape(len(self.values), -1)).reshape(columns.shape))

    def weights(self, rotated: Floats) -> Floats:
        """Turn (L d, k) rotated columns into weights of the annotations: the transpose of `rotated`."""
        turned = (self.vectors @ rotated.reshape(len(self.values), -1)).reshape(rotated.shape)
        return _by_annotation(self.whitening.transpose(0, 2, 1), turned)


def _by_annotation(blocks: Floats, columns: Floats) -> Floats:
    """Multiply the rows of each annotation, (L d, k), by its block (d, d)."""
    L, d = blocks.shape[:2]
    return np.asarray((blocks @ columns.reshape(L, d, -1)).reshape(columns.shape))


@dataclass(frozen=True, eq=False)
class WidenedSpectrum:
    """``f I + v (diag(variances) + U U^T)`` in the frame of a spectrum; ``columns`` is the rotated U, (L d, r)."""

    spectrum: Spectrum
    columns: Floats

    def solve(self, factors: Floats, sizes: Floats, right: Floats) -> Floats:
        """Inverse of matrix s times rotated column s of ``right`` (L d, s), for (s,) factors f and sizes v."""
        inverse, inner = self._woodbury(factors, sizes)
        plain = inverse * right
        solved = np.linalg.solve(inner, (self.columns.T @ plain).T[..., None])[..., 0]
        return np.asarray(plain - inverse * (self.columns @ (sizes[:, None] * solved).T))

    def explained(self, shares: Floats, factors: Floats, sizes: Floats, left: Floats) -> Floats:
        """Sum over s of ``shares[s] X (matrix s)^-1 X^T`` at each point, (n, d, d); ``left`` is X, (n, d, L d)."""
        n, d, m = left.shape
        r = self.columns.shape[1]
        inverse, inner = self._woodbury(factors, sizes)
        plain = np.einsum("nim,m,njm->nij", left, inverse @ shares, left, optimize=True)
        met = left.reshape(n * d, m) @ (inverse[:, :, None] * self.columns[:, None, :]).reshape(m, -1)
        met = met.reshape(n * d, len(sizes), r).transpose(1, 2, 0)
        solved = np.linalg.solve(inner, met) * (shares * sizes)[:, None, None]
        both = (one.reshape(len(sizes) * r, n, d) for one in (met, solved))
        return np.asarray(plain - np.einsum("kni,knj->nij", *both))

    def _woodbury(self, factors: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        """Inverse diagonals (L d, s), and the inner matrices ``I + v U^T diag U``, (s, r, r)."""
        inverse = 1 / (factors + np.multiply.outer(self.spectrum.variances, sizes))
        grams = weighted_grams(inverse, self.columns)
        return inverse, grams * sizes[:, None, None] + np.eye(self.columns.shape[1])


class Likelihoods:
    """Log likelihoods of residuals for every factor (F,) and size (V,), and any multiples of the columns.

    Variances (m,) of a spectrum; columns (m, R) and residuals (m,), both rotated.
    """

    def __init__(self, variances: Floats, columns: Floats, residuals: Floats, factors: Floats, sizes: Floats) -> None:
        self._shape = len(factors), len(sizes)
        each, self._sizes = every_pair(factors, sizes)
        spread = each + np.multiply.outer(variances, self._sizes)
        self._logs = np.log(spread).sum(axis=0)
        self._grams = weighted_grams(1 / spread, np.column_stack([columns, residuals]))

    def of(self, multiples: Floats) -> Floats:
        """Log likelihoods (F, V) with (R,) multiples of the columns, but for a constant.

        The last pivot of ``[[I + v U^T D U, sqrt(v) U^T D w], [., w^T D w]]`` is the squared length of the residuals w,
        and the others give the determinant. One is added to the last entry, which may be zero.
        """
        used = np.append(np.flatnonzero(multiples), len(multiples))
        times = np.append(multiples, 1.0)[used] * np.sqrt(self._sizes)[:, None]
        times[:, -1] = 1.0
        matrices = self._grams[:, used[:, None], used] * times[:, :, None] * times[:, None, :] + np.eye(len(used))
        pivots = np.diagonal(np.linalg.cholesky(matrices), axis1=1, axis2=2)
        squares = np.square(pivots[:, -1]) - 1
        return np.asarray(-0.5 * (squares + self._logs) - np.log(pivots[:, :-1]).sum(axis=1)).reshape(self._shape)


def every_pair(factors: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Factors and sizes of all F V pairs, flat, factor by factor."""
    return np.repeat(factors, len(sizes)), np.tile(sizes, len(factors))


def weighted_grams(weights: Floats, columns: Floats) -> Floats:
    """``columns^T diag(w) columns`` for each column w of ``weights`` (m, s), shape (s, r, r), by one product."""
    r = columns.shape[1]
    a, b = np.triu_indices(r)
    products = weights.T @ (columns[:, a] * columns[:, b])
    result = np.empty((weights.shape[1], r, r))
    result[:, a, b] = products
    result[:, b, a] = products
    return result
