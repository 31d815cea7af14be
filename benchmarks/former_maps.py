"""The former way of posterior means and covariances at many points, kept as the slow reference of the present one.

Kernel blocks of consecutive points are filled for all annotations, multiplied by the whole inverse Cholesky factor with
the threads of the linear algebra library, and reduced by numpy. Nothing in the package uses this.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit

from warpgauge.core import compiled
from warpgauge.core.factors import inverse_cholesky
from warpgauge.core.kernels import TrendKernel
from warpgauge.core.parallel import over_rows
from warpgauge.core.process import Posterior

BLOCK_DOUBLES, FILL_DOUBLES = 400_000, 3_000_000


def row_blocks(rows: int, doubles_per_row: int, doubles: int = BLOCK_DOUBLES) -> Iterator[slice]:
    step = max(64, doubles // max(1, doubles_per_row))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


@njit(nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy", cache=True)
def _weighted_sums(family, breaks, table, points, others, weights, out):
    row = np.empty(others.shape[1])
    for i in range(points.shape[0]):
        compiled._squared_distances(points[i], others, row)
        compiled._kernel_of_squares(family, breaks, table, row)
        for a in range(weights.shape[0]):
            total = 0.0
            for j in range(row.shape[0]):
                total += row[j] * weights[a, j]
            out[i, a] += total


def mean(posterior: Posterior, points: np.ndarray) -> np.ndarray:
    result = posterior.prior.prior_mean(points).copy()
    kernel, fixed = posterior.conditioned.kernel, posterior.annotations.fixed_points
    columns, rows = np.ascontiguousarray(fixed.T), np.ascontiguousarray(posterior.weights.T)

    family, breaks, tables = posterior.prior.kernel.loop_parameters

    def work(start: int, stop: int) -> None:
        _weighted_sums(family, breaks, tables[0], points[start:stop], columns, rows, result[start:stop])

    over_rows(work, len(points), len(fixed))
    if isinstance(kernel, TrendKernel):
        result += kernel.features(points) @ (kernel.features(fixed).T @ posterior.weights)
    return result


def _kernel_blocks(posterior: Posterior, points: np.ndarray, per_row: int) -> Iterator[tuple[slice, np.ndarray]]:
    conditioned = posterior.conditioned
    for outer in row_blocks(len(points), max(1, conditioned.count), FILL_DOUBLES):
        filled = conditioned.kernel.matrix(points[outer], conditioned.locations)
        for inner in row_blocks(len(filled), per_row):
            yield slice(outer.start + inner.start, outer.start + inner.stop), filled[inner]


def variances(posterior: Posterior, points: np.ndarray) -> np.ndarray:
    """Variances of each component with isotropic noise, the factor of calibration left out."""
    conditioned = posterior.conditioned
    result = conditioned.kernel.diagonal(points)
    for rows, k in _kernel_blocks(posterior, points, 2 * conditioned.count):
        V = k @ conditioned.factor.W.T
        result[rows] -= np.einsum("nl,nl->n", V, V)
    return result


def covariances(posterior: Posterior, points: np.ndarray) -> np.ndarray:
    """Covariances with anisotropic noise, the factor of calibration left out."""
    conditioned = posterior.conditioned
    L, d = conditioned.count, conditioned.d
    factors = _component_factors(posterior)
    result = np.empty((len(points), d, d))
    for rows, k in _kernel_blocks(posterior, points, L * (1 + d * (d + 1) // 2)):
        prior = conditioned.kernel.diagonal(points[rows])
        V = [k @ factor for factor in factors]
        block = result[rows]
        for a in range(d):
            block[:, a, a] = prior - np.einsum("nl,nl->n", V[a], V[a])
            for b in range(a + 1, d):
                block[:, a, b] = -np.einsum("nl,nl->n", V[a][:, (b - a) * L :], V[b])
                block[:, b, a] = block[:, a, b]
    return result


def _component_factors(posterior: Posterior) -> list[np.ndarray]:
    conditioned = posterior.conditioned
    L, d = conditioned.count, conditioned.d
    gram = conditioned.kernel.matrix(conditioned.locations, conditioned.locations)
    matrix = np.zeros((d * L, d * L))
    for a in range(d):
        for b in range(d):
            block = matrix[a * L : (a + 1) * L, b * L : (b + 1) * L]
            block[...] = np.diag(conditioned.noise[:, a, b])
            if a == b:
                block += gram
    W = inverse_cholesky(matrix, "the annotations")
    return [np.ascontiguousarray(W[a * L :, a * L : (a + 1) * L].T) for a in range(d)]
