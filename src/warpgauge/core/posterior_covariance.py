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
from warpgauge.core.factors import (
    Factor,
    factor_of,
    inverse_cholesky,
    log_determinants,
    lost_to_rounding,
    times_identity,
)
from warpgauge.core.kernels import ScalarKernel
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


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A scalar kernel times I_d conditioned on noisy observations at ``locations``, Eq. (definition_K_TT_given_A).

    Parameters
    ----------
    kernel : ScalarKernel
        The prior's kernel, trend included.
    locations : (L, d) array
        Annotated fixed points.
    noise : (L, d, d) array
        Their covariances, any extra noise included.
    factor : Factor
        Of ``K_AA``.
    """

    kernel: ScalarKernel
    locations: Floats
    noise: Floats
    factor: Factor

    @classmethod
    def on(cls, kernel: ScalarKernel, locations: Floats, noise: Floats) -> Conditioned:
        """Condition the kernel on observations at ``locations`` from scratch."""
        return cls(kernel, locations, noise, factor_of(kernel.matrix(locations, locations), noise))

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
        return self.factor.b

    def append(self, locations: Floats, noise: Floats) -> Conditioned:
        """Condition on further observations by a block update of the factor."""
        all_locations = np.concatenate([self.locations, locations])
        all_noise = np.concatenate([self.noise, noise])
        if self.count == 0:
            return Conditioned.on(self.kernel, all_locations, all_noise)
        cross, corner = self.kernel.matrix(self.locations, locations), self.kernel.matrix(locations, locations)
        return Conditioned(self.kernel, all_locations, all_noise, self.factor.append(cross, corner, noise))

    def without_last(self, dropped: int = 1) -> Conditioned:
        """Take back the last observations."""
        kept = self.count - dropped
        return Conditioned(self.kernel, self.locations[:kept], self.noise[:kept], self.factor.leading(kept))

    def solve(self, residuals: Floats) -> Floats:
        """``K_AA^-1`` applied to (L, d) residuals, as (L, d)."""
        return self.factor.solve(residuals[:, None])[:, 0]

    def whitened(self, points: Floats) -> Floats:
        """``W K_X(points)``, (L b, n b)."""
        block = self.kernel.matrix(self.locations, points)
        with blas_threads_for(len(points) * self.d):
            return self.factor.whiten_kernel(block)

    def joint(self, points: Floats) -> Floats:
        """Joint covariance at the points, (n d, n d), point by point."""
        prior, V = self.kernel.matrix(points, points), self.whitened(points)
        return self.factor.spread(np.asarray(times_identity(prior, self.b) - V.T @ V))

    def history(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean variance and log determinant of the covariance at (n, d) points after 0, 1, ... L annotations.

        The whitened rows of the first annotations do not depend on later ones, so that cumulative sums over the rows
        of one product give them all. Both have the shape (L + 1, n).
        """
        L, n, b = self.count, len(points), self.b
        rows = self.whitened(points).reshape(L, b, n, b)
        covariance = self.kernel.diagonal(points)[:, None, None] * np.eye(b)
        variances, logs = np.empty((L + 1, n)), np.empty((L + 1, n))
        for count in range(L + 1):
            if count:
                covariance = covariance - np.einsum("rna,rnb->nab", rows[count - 1], rows[count - 1])
            variances[count] = np.trace(covariance, axis1=1, axis2=2) / b
            logs[count] = self.d // b * log_determinants(covariance)
        return variances, logs

    def variances(self, points: Floats) -> Floats:
        """Mean variance over the components at each point, ``tr k / d``, (n,)."""
        if self.count == 0:
            return self.kernel.diagonal(points)
        result = np.empty(len(points))

        def put(rows: Ints, _: Floats, covariance: Floats) -> None:
            loops.put_variances(rows, covariance, self.b, 1.0, result)

        self.over_tiles(points, None, put)
        return result

    def covariances(self, points: Floats) -> Floats:
        """Covariance at each point, (n, d, d), Eq. (gaussian_process_covariance_conditioned)."""
        if self.count == 0:
            return np.asarray(self.kernel.diagonal(points)[:, None, None] * np.eye(self.d))
        result = np.empty((len(points), self.d, self.d))

        def put(rows: Ints, _: Floats, covariance: Floats) -> None:
            loops.put_covariances(rows, covariance, self.b, 1.0, result)

        self.over_tiles(points, None, put)
        return result

    def over_tiles(self, points: Floats, weights: Floats | None, sink: Sink, *, covariances: bool = True) -> None:
        """Hand sums of the kernel times ``weights`` and covariances of all points to ``sink``, see `tiles`."""
        whitening = self._whitening if covariances else None
        over_tiles(whitening, self.kernel.of_prior, self.locations, points, weights, sink)

    @cached_property
    def _whitening(self) -> Whitening:
        W = self.factor.W if self.b == 1 else self._factor_by_component
        return Whitening(self.kernel.of_prior, self.locations, W)

    @cached_property
    def split_factor(self) -> Floats:
        """W by the component of its columns, shape (b, L b, L), as the compiled loop takes it; b is 1 or d."""
        W = self.factor.W
        return np.ascontiguousarray(W.reshape(len(W), self.count, self.b).transpose(2, 0, 1))

    def entropies(self, points: Floats) -> Floats:
        """Differential entropy at each point in nats, Eq. (entropy_gp) for a single target."""
        result = np.empty(len(points))

        def put(rows: Ints, _: Floats, covariance: Floats) -> None:
            loops.put_log_determinants(rows, covariance, self.d, self.b, result)

        self.over_tiles(points, None, put)
        refuse_lost(result)
        result *= 0.5
        result += 0.5 * self.d * np.log(2 * np.pi * np.e)
        return result

    @cached_property
    def _factor_by_component(self) -> Floats:
        """W when ``K_AA`` is ordered component by component.

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
        return inverse_cholesky(matrix, _WHAT)


def refuse_lost(values: Floats) -> None:
    """Raise where a value that needs a positive definite covariance is NaN because rounding took that away."""
    lost = np.isnan(values)
    if lost.any():
        raise SingularModelError(lost_to_rounding(int(np.argmax(lost))))
