"""Scores of registrations (p-norms, the expected error, the error score e(x)), and ranks with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.process import Posterior
from warpgauge.core.tails import normal_or_t
from warpgauge.errors import InvalidInputError


def displacement_norm(errors: ArrayLike, p: float) -> float:
    """p-norm of (n, d) errors or (n,) lengths, Eq. (p_norms): 1 is the mean, 2 the root mean square, inf the maximum.

    Examples
    --------
    >>> import warpgauge as wg
    >>> [wg.displacement_norm([[3.0, 4.0], [0.0, 1.0]], p) for p in (1, float("inf"))]
    [3.0, 5.0]
    """
    if not p >= 1:
        raise InvalidInputError(f"The norm's p must be at least 1 or infinite, got {p!r}.")
    array = np.asarray(errors, dtype=np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidInputError(f"errors must be (n, d) vectors or (n,) lengths with n > 0, got shape {array.shape}.")
    lengths = np.linalg.norm(array, axis=1) if array.ndim == 2 else array
    if np.isnan(lengths).any():
        raise InvalidInputError(
            f"{int(np.isnan(lengths).sum())} of {len(lengths)} errors are NaN (outside the transform's domain?); "
            "leave them out and report their share."
        )
    if (lengths < 0).any():
        raise InvalidInputError("Lengths of errors cannot be negative; pass (n, d) vectors or their norms.")
    largest = float(lengths.max())
    if np.isinf(p) or largest == 0:
        return largest
    # Scaled by the largest, so that a power neither overflows nor vanishes.
    return largest * float(np.mean((lengths / largest) ** p) ** (1 / p))


def mean_squared_errors(errors: Floats) -> Floats:
    """Mean squared length of (K, n, d) errors over the n points, (K,)."""
    return np.asarray(np.square(errors).sum(axis=2).mean(axis=1))


def landmark_score(annotations: Annotations, mapped_points: ArrayLike, p: float) -> float:
    """Classical score at the annotated points alone, Eq. (set_landmark_displacements), blind to their uncertainty."""
    mapped = as_points(mapped_points, "mapped_points", annotations.d)
    return displacement_norm(mapped - annotations.moving_points, p)


def posterior_score(posterior: Posterior, points: ArrayLike, mapped_points: ArrayLike, p: float) -> float:
    """Score against the posterior mean over the targets, Eq. (target_set_displacements_on_annotations)."""
    at = as_points(points, "points", posterior.d)
    return displacement_norm(as_points(mapped_points, "mapped_points", posterior.d) - posterior.mean(at), p)


def expected_squared_error(posterior: Posterior, points: ArrayLike, mapped_points: ArrayLike) -> float:
    """Posterior expectation of the mean squared error over the targets.

    The squared error of the posterior mean plus the mean trace of the posterior covariance. (The identity in the paper
    leaves out the ``1 / |T|`` in front of the sum of traces, which its definition of the 2-norm asks for.)
    """
    at = as_points(points, "points", posterior.d)
    mapped = as_points(mapped_points, "mapped_points", posterior.d)
    mean, deviations = posterior.mean_and_deviation(at)
    return displacement_norm(mapped - mean, 2) ** 2 + float(posterior.d * np.square(deviations).mean())


def error_score(posterior: Posterior, points: ArrayLike, mapped_points: ArrayLike) -> Floats:
    """``e(x)`` in [0, 1]: chi-square (or F) probability of a smaller Mahalanobis distance from the posterior mean.

    Near 1 where the mapped point contradicts the annotations; a low value means agreement **or** too little data.

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[20.0], weights=[4.0]))
    >>> posterior = prior.condition(wg.Annotations.isotropic([[5.0, 5.0]], [[6.0, 5.0]], sd=0.1))
    >>> wg.error_score(posterior, [[5.0, 5.0], [5.0, 5.0]], [[6.0, 5.0], [8.0, 5.0]]).round(2).tolist()
    [0.0, 1.0]
    """
    at = as_points(points, "points", posterior.d)
    mapped = as_points(mapped_points, "mapped_points", posterior.d)
    if at.shape != mapped.shape:
        raise InvalidInputError(f"error_score needs a mapped point for each point, got {len(at)} and {len(mapped)}.")
    return posterior.level_of(posterior.squared_lengths(at, mapped))


def win_probabilities(posterior: Posterior, points: ArrayLike, mapped: ArrayLike) -> Floats:
    """Exact probabilities (K, K) that the row's transform has a smaller mean squared error than the column's.

    ``mapped`` holds the (K, n, d) images of the points. The difference of two mean squared errors is linear in phi,
    hence Gaussian (or Student-t), with mean ``s_2(a)^2 - s_2(b)^2`` under the posterior mean and variance
    ``4 / |T|^2 Delta^T K_post Delta``, where ``Delta = a - b``.
    """
    at = as_points(points, "points", posterior.d)
    stacked = np.asarray(mapped, dtype=np.float64)
    if stacked.ndim != 3 or stacked.shape[1:] != at.shape:
        raise InvalidInputError(f"mapped must have shape (K, {len(at)}, {posterior.d}), got {stacked.shape}.")
    # Errors rather than positions: their differences are the same, and nothing large cancels in the forms.
    errors = stacked - posterior.mean(at)
    squares = mean_squared_errors(errors)
    spread = quadratic_forms(posterior, at, errors)
    sums = np.diag(spread)[:, None] + np.diag(spread)[None, :]
    differences = squares[:, None] - squares[None, :]
    variances = 4 / len(at) ** 2 * (sums - 2 * spread)
    # No variance is left between transforms that are equal wherever the posterior is not: the larger error loses.
    certain = variances <= 1e-13 * 4 / len(at) ** 2 * sums
    uncertain = normal_or_t(-differences / np.sqrt(np.where(certain, 1.0, variances)), posterior.prior.tails)
    return np.asarray(np.where(certain, 0.5 - 0.5 * np.sign(differences), uncertain))


def quadratic_forms(posterior: Posterior, points: Floats, vectors: Floats) -> Floats:
    """``v_i^T K_post v_j`` for (K, n, d) vectors, shape (K, K), in blocks of points: K_post is never stored."""
    K, n, d = vectors.shape
    conditioned = posterior.conditioned
    kernel = posterior.conditioned.kernel
    by_point = np.ascontiguousarray(vectors.transpose(1, 0, 2))  # (n, K, d)
    columns = by_point.reshape(n, K * d)
    result = np.zeros((K, K))
    step = max(1, 4_000_000 // max(n, 1))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        right = (kernel.matrix(points[rows], points) @ columns).reshape(-1, K, d)
        result += np.einsum("nka,nja->kj", by_point[rows], right)
    # Less what the annotations explain: |W K_X v|^2.
    projected = kernel.matrix(conditioned.locations, points) @ columns
    vectors_at = projected.reshape(-1, K, d).transpose(0, 2, 1)
    explained = conditioned.whiten(np.ascontiguousarray(vectors_at)).reshape(-1, K)
    return np.asarray(posterior.scale * (result - explained.T @ explained))


@dataclass(frozen=True, eq=False)
class RankDistribution:
    """Ranks of K transforms over posterior samples: probability of transform k (row) having rank r + 1 (column).

    Also the probability of being best (K,), and the expected rank (K,), from 1.
    """

    probabilities: Floats
    best: Floats
    mean: Floats


def rank_distribution(scores: Floats) -> RankDistribution:
    """Distribution of ranks from (samples, K) scores, smaller is better; equal scores share their ranks equally."""
    K = scores.shape[1]
    below = (scores[:, None, :] < scores[:, :, None]).sum(axis=2)
    equal = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
    probabilities = np.zeros((K, K))
    for rank in range(K):
        inside = (rank >= below) & (rank < below + equal)
        probabilities[:, rank] = (inside / equal).mean(axis=0)
    return RankDistribution(probabilities, probabilities[:, 0].copy(), probabilities @ np.arange(1, K + 1))


def norm_name(p: float) -> str:
    """Name of a norm in tables: ``1``, ``2``, ``inf``."""
    return "inf" if np.isinf(p) else f"{p:g}"


def ascending(values: Floats) -> list[int]:
    """Return the order of values, smallest first; equal ones stay in their order."""
    return [int(k) for k in np.argsort(values, kind="stable")]
