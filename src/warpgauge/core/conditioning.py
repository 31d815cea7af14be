"""The covariance of the posterior, which depends on the annotated locations and their noise, not on the matches.

As the paper notes below Eq. (definition_K_TT_given_A), the conditioned covariance does not depend on the annotated
positions ``y_l``. Suggestion therefore needs only this module; :mod:`warpgauge.core.process` adds the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpgauge.core import compiled_tiles as loops
from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.kernels import ScalarKernel
from warpgauge.core.linalg import (
    append_rows,
    inverse_cholesky,
    lost_to_rounding,
)
from warpgauge.core.parallel import blas_threads_for
from warpgauge.core.tiles import Sink, Whitening, over_tiles
from warpgauge.errors import SingularModelError

# Doubles of a kernel block that stays in the cache together with its products.
_BLOCK_DOUBLES = 400_000
_WHAT = "the annotations"


def row_blocks(rows: int, doubles_per_row: int, doubles: int = _BLOCK_DOUBLES) -> Iterator[slice]:
    """Slices over ``range(rows)`` of about a cache's worth of doubles each."""
    step = max(64, doubles // max(1, doubles_per_row))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def is_isotropic(covariances: Floats) -> bool:
    """Return whether every matrix is exactly a number times the identity."""
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
    def b(self) -> int:
        """Number of components with covariances of their own: 1 with isotropic noise, else d."""
        return 1 if self.isotropic else self.d

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
        columns = residuals if self.isotropic else residuals.reshape(-1)
        with blas_threads_for(len(self.W)):
            return np.asarray((self.W.T @ (self.W @ columns)).reshape(residuals.shape))

    def whitened(self, points: Floats) -> Floats:
        """``W K_X(points)``: (L, n) with isotropic noise, (Ld, nd) otherwise."""
        block = self.kernel.matrix(self.locations, points)
        with blas_threads_for(len(points) * self.d):
            return np.asarray(self.W @ (block if self.isotropic else _spread(block, self.d)))

    def joint(self, points: Floats) -> Floats:
        """Joint covariance at the points: (n, n), meant times I_d, with isotropic noise, (nd, nd) otherwise."""
        prior = self.kernel.matrix(points, points)
        V = self.whitened(points)
        return np.asarray((prior if self.isotropic else _spread(prior, self.d)) - V.T @ V)

    def variances(self, points: Floats) -> Floats:
        """Mean variance over the components at each point, ``tr k / d``, (n,)."""
        if self.count == 0:
            return self.kernel.diagonal(points)
        result = np.empty(len(points))

        def put(order: Ints, start: int, stop: int, _: Floats, covariance: Floats) -> None:
            loops.put_variances(order, start, stop, covariance, self.b, 1.0, result)

        self.over_tiles(points, None, put)
        return result

    def covariances(self, points: Floats) -> Floats:
        """Covariance at each point, (n, d, d), Eq. (gaussian_process_covariance_conditioned)."""
        if self.count == 0:
            return np.asarray(self.kernel.diagonal(points)[:, None, None] * np.eye(self.d))
        result = np.empty((len(points), self.d, self.d))

        def put(order: Ints, start: int, stop: int, _: Floats, covariance: Floats) -> None:
            loops.put_covariances(order, start, stop, covariance, self.b, 1.0, result)

        self.over_tiles(points, None, put)
        return result

    def over_tiles(self, points: Floats, weights: Floats | None, sink: Sink, *, covariances: bool = True) -> None:
        """Hand sums of the kernel times ``weights`` and covariances of all points to ``sink``, see `tiles`."""
        over_tiles(self._whitening if covariances else None, self.kernel, self.locations, points, weights, sink)

    @cached_property
    def _whitening(self) -> Whitening:
        return Whitening(self.kernel, self.locations, [self.W] if self.isotropic else self._component_factors)

    @cached_property
    def split_factor(self) -> Floats:
        """W by the component of its columns, shape (b, L b, L), as the compiled loop takes it; b is 1 or d."""
        b = 1 if self.isotropic else self.d
        return np.ascontiguousarray(self.W.reshape(len(self.W), self.count, b).transpose(2, 0, 1))

    def entropies(self, points: Floats) -> Floats:
        """Differential entropy at each point in nats, Eq. (entropy_gp) for a single target."""
        result = np.empty(len(points))

        def put(order: Ints, start: int, stop: int, _: Floats, covariance: Floats) -> None:
            loops.put_log_determinants(order, start, stop, covariance, self.d, self.b, result)

        self.over_tiles(points, None, put)
        refuse_lost(result)
        result *= 0.5
        result += 0.5 * self.d * np.log(2 * np.pi * np.e)
        return result

    @cached_property
    def _component_factors(self) -> list[Floats]:
        """Columns of W by component when ``K_AA`` is ordered component by component.

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
        return [np.ascontiguousarray(W[a * L :, a * L : (a + 1) * L]) for a in range(d)]


def refuse_lost(values: Floats) -> None:
    """Raise where a value that needs a positive definite covariance is NaN because rounding took that away."""
    lost = np.isnan(values)
    if lost.any():
        raise SingularModelError(lost_to_rounding(int(np.argmax(lost))))


def _spread(scalar: Floats, d: int) -> Floats:
    """``scalar`` times I_d, block by block: the Kronecker product with the identity."""
    rows, columns = scalar.shape
    spread = np.zeros((rows, d, columns, d))
    for a in range(d):
        spread[:, a, :, a] = scalar
    return spread.reshape(rows * d, columns * d)
