"""The covariance side of the posterior: what annotated locations and their noise say, wherever the matches were found.

As the paper notes below Eq. (definition_K_TT_given_A), the conditioned covariance does not depend on the annotated
positions ``y_l``. Suggestion therefore needs only this module; :mod:`warpgauge.core.process` adds the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.kernels import ScalarKernel
from warpgauge.core.linalg import (
    append_rows,
    inverse_cholesky,
    log_determinants,
    lost_to_rounding,
)
from warpgauge.errors import SingularModelError

# Doubles of a kernel block that stays in the cache together with its products.
_BLOCK_DOUBLES = 400_000
# Doubles of the larger block that the threads fill at a time: handing work to a thread costs as much as 20,000 of them.
_FILL_DOUBLES = 3_000_000
_WHAT = "the annotations"


def row_blocks(rows: int, doubles_per_row: int, doubles: int = _BLOCK_DOUBLES) -> Iterator[slice]:
    """Slices over ``range(rows)`` of about a cache's worth of doubles each."""
    step = max(64, doubles // max(1, doubles_per_row))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def is_isotropic(covariances: Floats) -> bool:
    """Tell whether every matrix is exactly a number times the identity."""
    d = covariances.shape[-1]
    return bool(np.array_equal(covariances, covariances[:, :1, :1] * np.eye(d)))


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A scalar kernel times I_d conditioned on noisy observations at ``locations``, Eq. (definition_K_TT_given_A).

    Isotropic noise keeps everything a scalar times I_d, so an L x L factor serves; otherwise the factor is Ld x Ld in
    the paper's order (annotation by annotation).

    Parameters
    ----------
    kernel : ScalarKernel
        The prior's kernel, trend included.
    locations : (L, d) array
        Annotated fixed points.
    noise : (L, d, d) array
        Their covariances, any extra noise included.
    W : (L, L) or (Ld, Ld) array
        Inverse Cholesky factor of ``K_AA``.
    """

    kernel: ScalarKernel
    locations: Floats
    noise: Floats
    W: Floats

    @classmethod
    def on(cls, kernel: ScalarKernel, locations: Floats, noise: Floats) -> Conditioned:
        """Condition the kernel on observations at ``locations`` from scratch."""
        gram = kernel.matrix(locations, locations)
        if is_isotropic(noise):
            matrix = gram + np.diag(noise[:, 0, 0])
        else:
            matrix = _spread(gram, locations.shape[1])
            for row, covariance in enumerate(noise):
                block = slice(row * len(covariance), (row + 1) * len(covariance))
                matrix[block, block] += covariance
        return cls(kernel, locations, noise, inverse_cholesky(matrix, _WHAT))

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.locations.shape[1])

    @property
    def count(self) -> int:
        """Number of annotations."""
        return len(self.locations)

    @property
    def isotropic(self) -> bool:
        """Whether the L x L path is in use."""
        return len(self.W) == self.count

    def append(self, locations: Floats, noise: Floats) -> Conditioned:
        """Condition on further observations by a block update of the factor."""
        all_locations = np.concatenate([self.locations, locations])
        all_noise = np.concatenate([self.noise, noise])
        if self.count == 0:
            return Conditioned.on(self.kernel, all_locations, all_noise)
        cross, corner = self.kernel.matrix(self.locations, locations), self.kernel.matrix(locations, locations)
        if self.isotropic and is_isotropic(noise):
            corner += np.diag(noise[:, 0, 0])
            return Conditioned(self.kernel, all_locations, all_noise, append_rows(self.W, cross, corner, _WHAT))
        W = _spread(self.W, self.d) if self.isotropic else self.W
        corner = _spread(corner, self.d)
        for row, covariance in enumerate(noise):
            block = slice(row * self.d, (row + 1) * self.d)
            corner[block, block] += covariance
        return Conditioned(self.kernel, all_locations, all_noise, append_rows(W, _spread(cross, self.d), corner, _WHAT))

    def without_last(self, dropped: int = 1) -> Conditioned:
        """Take back the last observations: the leading rows of W do not depend on them."""
        kept = self.count - dropped
        size = kept if self.isotropic else kept * self.d
        return Conditioned(
            self.kernel, self.locations[:kept], self.noise[:kept], np.ascontiguousarray(self.W[:size, :size])
        )

    def solve(self, residuals: Floats) -> Floats:
        """``K_AA^-1`` applied to (L, d) residuals, as (L, d)."""
        if self.isotropic:
            return np.asarray(self.W.T @ (self.W @ residuals))
        return np.asarray((self.W.T @ (self.W @ residuals.reshape(-1))).reshape(residuals.shape))

    def whitened(self, points: Floats) -> Floats:
        """``W K_X(points)``: (L, n) with isotropic noise, (Ld, nd) otherwise."""
        block = self.kernel.matrix(self.locations, points)
        return np.asarray(self.W @ (block if self.isotropic else _spread(block, self.d)))

    def joint(self, points: Floats) -> Floats:
        """Joint covariance at the points: (n, n), meant times I_d, with isotropic noise, (nd, nd) otherwise."""
        prior = self.kernel.matrix(points, points)
        V = self.whitened(points)
        return np.asarray((prior if self.isotropic else _spread(prior, self.d)) - V.T @ V)

    def variances(self, points: Floats) -> Floats:
        """Variance of each component at each point, (n,): the isotropic form of Eq. (…covariance_conditioned)."""
        result = self.kernel.diagonal(points)
        for rows, k in self._kernel_blocks(points, 2 * self.count):
            V = k @ self.W.T
            result[rows] -= _row_dots(V, V)
        return result

    def _kernel_blocks(self, points: Floats, doubles_per_row: int) -> Iterator[tuple[slice, Floats]]:
        """Kernel between points and annotations, (rows, L), in blocks for products that need so many doubles a row."""
        for outer in row_blocks(len(points), max(1, self.count), _FILL_DOUBLES):
            filled = self.kernel.matrix(points[outer], self.locations)
            for inner in row_blocks(len(filled), doubles_per_row):
                yield slice(outer.start + inner.start, outer.start + inner.stop), filled[inner]

    def covariances(self, points: Floats) -> Floats:
        """Covariance at each point, (n, d, d), Eq. (gaussian_process_covariance_conditioned)."""
        result = np.zeros((len(points), self.d, self.d))
        for rows, block in self._covariance_blocks(points):
            result[rows] = block
        return result

    @cached_property
    def split_factor(self) -> Floats:
        """W by the component of its columns, shape (b, L b, L), as the compiled loop takes it; b is 1 or d."""
        b = 1 if self.isotropic else self.d
        return np.ascontiguousarray(self.W.reshape(len(self.W), self.count, b).transpose(2, 0, 1))

    def entropies(self, points: Floats) -> Floats:
        """Differential entropy at each point in nats, Eq. (entropy_gp) for a single target."""
        result = np.empty(len(points))
        if self.isotropic:
            variances = self.variances(points)
            if not (variances > 0).all():
                raise SingularModelError(lost_to_rounding(int(np.argmin(variances))))
            np.log(variances, out=result)
            result *= self.d
        else:
            for rows, block in self._covariance_blocks(points):
                result[rows] = log_determinants(block, rows.start)
        result *= 0.5
        result += 0.5 * self.d * np.log(2 * np.pi * np.e)
        return result

    def _covariance_blocks(self, points: Floats) -> Iterator[tuple[slice, Floats]]:
        if self.isotropic:
            eye = np.eye(self.d)
            for rows in row_blocks(len(points), max(1, self.count), _FILL_DOUBLES):
                yield rows, self.variances(points[rows])[:, None, None] * eye
            return
        factors = self._component_factors
        for rows, k in self._kernel_blocks(points, self.count * (1 + self.d * (self.d + 1) // 2)):
            yield rows, self._anisotropic_block(self.kernel.diagonal(points[rows]), k, factors)

    def _anisotropic_block(self, prior: Floats, k: Floats, factors: list[Floats]) -> Floats:
        L, d = self.count, self.d
        V = [k @ factor for factor in factors]
        block = np.empty((len(k), d, d))
        for a in range(d):
            block[:, a, a] = prior - _row_dots(V[a], V[a])
            for b in range(a + 1, d):
                # The rows of component b start (b - a) L further on in V[a]: those before them are zero for b.
                block[:, a, b] = -_row_dots(V[a][:, (b - a) * L :], V[b])
                block[:, b, a] = block[:, a, b]
        return block

    @cached_property
    def _component_factors(self) -> list[Floats]:
        """Columns of W by component, transposed, when ``K_AA`` is ordered component by component.

        ``K_AA`` is then a d x d grid of L x L blocks that are diagonal off the block diagonal, and its inverse Cholesky
        factor is lower triangular by blocks: component a meets only the rows of components a to d. That makes
        d (d + 1) / 2 products of L x L for a covariance, as many as it has entries, and each entry a sum of products
        of whitened rows, which cannot lose definiteness as differences of quadratic forms in ``K_AA^-1`` can.
        """
        L, d = self.count, self.d
        gram = self.kernel.matrix(self.locations, self.locations)
        matrix = np.zeros((d * L, d * L))
        for a in range(d):
            for b in range(d):
                block = matrix[a * L : (a + 1) * L, b * L : (b + 1) * L]
                block[...] = np.diag(self.noise[:, a, b])
                if a == b:
                    block += gram
        W = inverse_cholesky(matrix, _WHAT)
        return [np.ascontiguousarray(W[a * L :, a * L : (a + 1) * L].T) for a in range(d)]


def _row_dots(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.einsum("nl,nl->n", left, right))


def _spread(scalar: Floats, d: int) -> Floats:
    """``scalar`` times I_d, block by block: the Kronecker product with the identity."""
    rows, columns = scalar.shape
    spread = np.zeros((rows, d, columns, d))
    for a in range(d):
        spread[:, a, :, a] = scalar
    return spread.reshape(rows * d, columns * d)
