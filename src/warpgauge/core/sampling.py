"""Exact joint draws from a zero-mean prior whose covariance is a scalar kernel times I_d."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from warpgauge.core.arrays import Floats
from warpgauge.core.kernels import ScalarKernel, TrendKernel
from warpgauge.errors import InvalidInputError

# A joint factor of this many points is 2 GB; beyond it a caller should thin the targets.
MOST_JOINT_POINTS = 16_000


def square_root(matrix: Floats) -> Floats:
    """``R`` (n, r) with ``R R^T = matrix`` for a positive semi-definite matrix, to rounding and without jitter.

    A pivoted Cholesky factorisation stops at the numerical rank, so coinciding points are handled.
    """
    upper, pivots, rank, info = lapack.dpstrf(matrix, lower=0)
    if info < 0:
        raise InvalidInputError("The joint covariance has entries that are not finite; the points are too far apart.")
    root = np.zeros((len(matrix), rank))
    root[pivots - 1] = np.triu(upper)[:rank].T
    return root


def prior_draws(kernel: ScalarKernel, points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draw ``count`` zero-mean displacement fields at (n, d) points, shape (count, n, d)."""
    n, d = points.shape
    if n > MOST_JOINT_POINTS:
        raise InvalidInputError(
            f"Exact joint samples at {n} points need a {n} x {n} factor; take at most {MOST_JOINT_POINTS} points "
            "(a regular or random subset of the targets)."
        )
    if n == 0:
        return np.empty((count, 0, d))
    bundle = kernel.bundle if isinstance(kernel, TrendKernel) else kernel
    root = square_root(bundle.matrix(points, points))
    draws = root @ rng.standard_normal((root.shape[1], count * d))
    if isinstance(kernel, TrendKernel):
        # The trend is drawn by its coefficients: exact, and its large variance stays out of the factor.
        features = kernel.features(points)
        draws += features @ rng.standard_normal((features.shape[1], count * d))
    return np.ascontiguousarray(draws.reshape(n, count, d).transpose(1, 0, 2))
