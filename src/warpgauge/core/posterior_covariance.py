"""The covariance of the posterior, which depends on the annotated locations and their noise, not on the matches.

As the paper notes below Eq. (definition_K_TT_given_A), the conditioned covariance does not depend on the annotated
positions ``y_l``. Suggestion therefore needs only this module; :mod:`warpgauge.core.process` adds the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.factors import (
    append_rows,
    full,
    inverse_cholesky,
    is_isotropic,
    log_determinants,
    noisy,
    times_identity,
)
from warpgauge.core.kernels import ScalarKernel
from warpgauge.core.parallel import blas_threads_for, over_items

# Doubles of a kernel block that stays in the cache together with its products, and the fewest points of one.
_BLOCK_DOUBLES = 100_000
_FEWEST_POINTS = 256
# The factor is applied in so many blocks of rows, without most of the zeros above its diagonal.
_PARTS = 8
_PART_ROWS = 16
_WHAT = "the annotations"

# Fills a block (L, m) with the kernel between the annotations and the points of a slice.
_Fill = Callable[[slice, Floats], Floats]


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A scalar kernel times I_d given noisy observations at ``locations``, Eq. (definition_K_TT_given_A).

    ``noise`` (L, d, d) includes any extra noise. ``W`` (L b, L b) is the inverse Cholesky factor, ``K_AA^-1 = W^T W``,
    annotation by annotation; b is 1 where all noise is isotropic, so that every covariance is a number times I_d, and d
    otherwise.
    """

    kernel: ScalarKernel
    locations: Floats
    noise: Floats
    W: Floats
    b: int

    @classmethod
    def on(cls, kernel: ScalarKernel, locations: Floats, noise: Floats) -> Conditioned:
        """Condition the kernel on observations at ``locations`` from scratch."""
        b = 1 if is_isotropic(noise) else locations.shape[1]
        W = inverse_cholesky(noisy(kernel.matrix(locations, locations), noise, b), _WHAT)
        return cls(kernel, locations, noise, W, b)

    @classmethod
    def on_nothing(cls, kernel: ScalarKernel, d: int) -> Conditioned:
        """Condition the kernel on no observation."""
        return cls.on(kernel, np.empty((0, d)), np.empty((0, d, d)))

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.locations.shape[1])

    @property
    def count(self) -> int:
        """Number of annotations."""
        return len(self.locations)

    def append(self, locations: Floats, noise: Floats) -> Conditioned:
        """Condition on further observations by a block update of the factor; its rows stay as they are."""
        b = self.b if is_isotropic(noise) else self.d
        W = self.W if b == self.b else times_identity(self.W, b)
        cross = times_identity(self.kernel.matrix(self.locations, locations), b)
        corner = noisy(self.kernel.matrix(locations, locations), noise, b)
        together = np.concatenate([self.locations, locations])
        noises = np.concatenate([self.noise, noise])
        return Conditioned(self.kernel, together, noises, append_rows(W, cross, corner, _WHAT), b)

    def without_last(self, dropped: int = 1) -> Conditioned:
        """Take back the last observations."""
        kept = self.count - dropped
        W = self.W[: kept * self.b, : kept * self.b]
        return Conditioned(self.kernel, self.locations[:kept], self.noise[:kept], W, self.b)

    def whiten(self, vectors: Floats, since: int = 0) -> Floats:
        """``W v`` of (L, d, K) vectors, (rows, columns); only the rows of the annotations from ``since`` on."""
        columns = vectors.shape[1] * vectors.shape[2] // self.b
        return np.asarray(self.W[since * self.b :] @ vectors.reshape(len(self.W), columns))

    def solve(self, vectors: Floats) -> Floats:
        """``K_AA^-1 v`` of (L, d, K) vectors, in the same shape."""
        with blas_threads_for(len(self.W)):
            return np.asarray(self.W.T @ self.whiten(vectors)).reshape(vectors.shape)

    def whitened(self, points: Floats) -> Floats:
        """``W K_X(points)``, (L b, n b)."""
        block = self.kernel.matrix(self.locations, points)
        with blas_threads_for(len(points) * self.d):
            return np.asarray(self.W @ times_identity(block, self.b))

    def joint(self, points: Floats) -> Floats:
        """Joint covariance at the points, (n d, n d), point by point."""
        prior = self.kernel.matrix(points, points)
        V = self.whitened(points)
        covariance = times_identity(prior, self.b) - V.T @ V
        return times_identity(covariance, self.d // self.b)

    def history(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean variance and log determinant of the covariance at (n, d) points after 0, 1, ... L annotations.

        The whitened rows of the first annotations do not depend on later ones, so that cumulative sums over the rows
        of one product give them all. Both have the shape (L + 1, n).
        """
        L = self.count
        n = len(points)
        b = self.b
        rows = self.whitened(points).reshape(L, b, n, b)
        covariance = self.kernel.diagonal(points)[:, None, None] * np.eye(b)
        variances = np.empty((L + 1, n))
        logs = np.empty((L + 1, n))
        for count in range(L + 1):
            if count:
                covariance = covariance - np.einsum("rna,rnb->nab", rows[count - 1], rows[count - 1])
            variances[count] = np.trace(covariance, axis1=1, axis2=2) / b
            logs[count] = self.d // b * log_determinants(covariance)
        return variances, logs

    def diagonal_blocks(self) -> Floats:
        """``D_ll``: the (L, d, d) diagonal blocks of ``K_AA^-1``."""
        columns = self.W.reshape(len(self.W), self.count, self.b)
        return full(np.einsum("rla,rlb->lab", columns, columns), self.d)

    def covariances(self, points: Floats) -> Floats:
        """Covariance at each point, (n, d, d), Eq. (gaussian_process_covariance_conditioned)."""
        return full(self.moments(points)[1], self.d)

    def moments(
        self, points: Floats, weights: Floats | None = None, *, covariances: bool = True
    ) -> tuple[Floats, Floats]:
        """Return sums of the kernel times (L, d) ``weights``, (n, d), and covariances, (n, b, b), where asked for."""

        def fill(rows: slice, block: Floats) -> Floats:
            return self.kernel.matrix(self.locations, points[rows], block)

        return self.reduced(fill, self.kernel.diagonal(points), weights, covariances=covariances)

    def reduced(
        self, fill: _Fill, diagonal: Floats, weights: Floats | None = None, *, covariances: bool = True
    ) -> tuple[Floats, Floats]:
        """Do the same for n points of which only the kernel is known: blocks and diagonal, (n,).

        Blocks of points that stay in the cache are worked on side by side, in arrays that each thread makes once: from
        the system they would come anew for each block, which takes as long as filling them.
        """
        n = len(diagonal)
        L = self.count
        b = self.b
        sums = np.empty((0, 0)) if weights is None else np.empty((n, weights.shape[1]))
        found = np.empty((n, b, b)) if covariances else np.empty((0, b, b))
        pairs = list(zip(*np.triu_indices(b), strict=True))
        step = max(_FEWEST_POINTS, _BLOCK_DOUBLES // max(1, L))
        blocks = -(-n // step)
        parts = self._parts if covariances else []
        if parts:
            from warpgauge.core import loops  # loads the compiler

        def worker() -> Callable[[int], None]:
            kernel = np.empty(L * step)
            products = np.empty(max((part[..., 0].size for part in parts), default=0) * step)

            def work(number: int) -> None:
                rows = slice(n * number // blocks, n * (number + 1) // blocks)
                m = rows.stop - rows.start
                block = fill(rows, kernel[: L * m].reshape(L, m))
                if weights is not None:
                    sums[rows] = (weights.T @ block).T
                if not covariances:
                    return
                reduced = np.zeros((len(pairs), m))
                for pair, (a, c) in enumerate(pairs):
                    if a == c:
                        reduced[pair] = diagonal[rows]
                for part in parts:
                    product = products[: part[..., 0].size * m].reshape(*part.shape[:2], m)
                    loops.subtract_products(np.matmul(part, block[: part.shape[2]], out=product), reduced)
                for pair, (a, c) in enumerate(pairs):
                    found[rows, a, c] = reduced[pair]
                    found[rows, c, a] = reduced[pair]

            return work

        over_items(worker, blocks)
        return sums, found

    @cached_property
    def _parts(self) -> list[Floats]:
        """Blocks of rows of W by the component of their columns, (b, rows, columns): W is lower triangular."""
        L = self.count
        b = self.b
        by_component = self.W.reshape(L * b, L, b).transpose(2, 0, 1)
        ends = np.linspace(0, L, 1 + min(_PARTS, -(-L // _PART_ROWS))).astype(np.int64)
        return [
            np.ascontiguousarray(by_component[:, start * b : stop * b, :stop])
            for start, stop in pairwise(ends.tolist())
        ]
