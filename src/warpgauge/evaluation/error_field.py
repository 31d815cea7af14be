"""A Gaussian error field of unknown size, seen at the annotations: its evidence and what it predicts, for every size.

The field is ``sqrt(v) s(x) g(x)`` with a unit-variance process g of one scale, a given profile s, and an unknown
variance v. With the noise whitened, ``A = v B + I`` for a matrix B that does not depend on v: one eigendecomposition
``B = Q diag(lambda) Q^T`` gives the evidence of every v, and the weights of the conditional mean, at the cost of a
product each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.conditioning import is_isotropic
from warpgauge.core.kernels import KernelBundle


class Whitening:
    """Divides residuals at the annotations by their noise; isotropic noise keeps the d components as columns.

    Parameters
    ----------
    noise : (L, d, d) array
        Covariances of the annotations.
    """

    def __init__(self, noise: Floats) -> None:
        self.count, self.d = noise.shape[:2]
        self.isotropic = is_isotropic(noise)
        if self.isotropic:
            self.sd = np.sqrt(noise[:, 0, 0])
        else:
            self.inverse = np.linalg.inv(np.linalg.cholesky(noise))

    @property
    def columns(self) -> int:
        """How many independent columns a residual is made of."""
        return self.d if self.isotropic else 1

    def residuals(self, values: Floats) -> Floats:
        """Whiten (..., L, d) residuals to (..., m, columns)."""
        if self.isotropic:
            return np.asarray(values / self.sd[:, None])
        white = np.einsum("lij,...lj->...li", self.inverse, values)
        return np.asarray(white.reshape(*values.shape[:-2], self.count * self.d, 1))

    def transposed(self, values: Floats) -> Floats:
        """Apply the transposed whitening to (..., m, columns), giving (..., L, d)."""
        if self.isotropic:
            return np.asarray(values / self.sd[:, None])
        blocks = values.reshape(*values.shape[:-2], self.count, self.d)
        return np.asarray(np.einsum("lji,...lj->...li", self.inverse, blocks))

    def gram(self, matrix: Floats) -> Floats:
        """Whiten the (L, L) matrix of a scalar kernel times I_d."""
        if self.isotropic:
            return np.asarray(matrix / np.outer(self.sd, self.sd))
        blocks = np.einsum("lm,lij,mkj->limk", matrix, self.inverse, self.inverse)
        return np.asarray(blocks.reshape(self.count * self.d, self.count * self.d))


@dataclass(frozen=True, eq=False)
class ErrorField:
    """Fields of one scale and one profile, conditioned on annotations.

    Attributes
    ----------
    kernel : KernelBundle
        Of one scale with weight 1.
    profile : (L,) array
        s at the annotations.
    locations : (L, d) array
    whitening : Whitening
    Q, eigenvalues : arrays
        Of the whitened kernel matrix.
    """

    kernel: KernelBundle
    profile: Floats
    locations: Floats
    whitening: Whitening
    Q: Floats
    eigenvalues: Floats

    @classmethod
    def at(cls, kernel: KernelBundle, profile: Floats, locations: Floats, whitening: Whitening) -> ErrorField:
        """Decompose the field's covariance at the annotations."""
        gram = whitening.gram(kernel.matrix(locations, locations) * np.outer(profile, profile))
        eigenvalues, Q = np.linalg.eigh(gram)
        # A covariance has none below 0; what rounding leaves there is none.
        return cls(kernel, profile, locations, whitening, Q, np.maximum(eigenvalues, 0.0))

    def evidence(self, residuals: Floats, variances: Floats) -> Floats:
        """Log density of (C, L, d) residuals for every variance, (C, V), without the noise's own constant."""
        rotated = np.square(self.Q.T @ self.whitening.residuals(residuals)).sum(axis=2)
        spread = np.multiply.outer(variances, self.eigenvalues) + 1
        return np.asarray(-0.5 * (rotated @ (1 / spread).T + self.whitening.columns * np.log(spread).sum(axis=1)))

    def weights(self, residuals: Floats, variances: Floats) -> Floats:
        """``v s A^-1 r`` for (N, L, d) residuals with a variance each, (N, L, d): times a kernel row it is the mean."""
        rotated = self.Q.T @ self.whitening.residuals(residuals)
        shrunk = rotated / (np.multiply.outer(variances, self.eigenvalues) + 1)[:, :, None]
        back = self.whitening.transposed(self.Q @ shrunk)
        return np.asarray(back * (variances[:, None] * self.profile)[:, :, None])
