"""Radial functions and the multi-scale bundle of them: the scalar kernel that multiplies I_d.

Paper, Eqs. (kernel_bundle), (gaussian_kernel), (inverse_quadratic_kernel), (wendland_kernel_1) and
(kernel_integral_normalisation). Regions that move on their own are beyond the paper, which names kernels that vary in
space as future work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from warpgauge.core.arrays import Bools, Floats, Ints, readonly
from warpgauge.errors import InvalidInputError

# Eq. (kernel_integral_normalisation): equal integrals over r, with r_W = 1.
R_GAUSSIAN = 2 / (3 * math.sqrt(math.pi))
R_INVERSE_QUADRATIC = 2 / (3 * math.pi)

# (4 u + 1) (1 - u)^4 expanded in powers of u.
_QUINTIC = np.array([1.0, 0.0, -10.0, 20.0, -15.0, 4.0])

# Which region each of (n, d) points lies in, (n,) whole numbers.
Regions = Callable[[Floats], Ints]


def wendland(u: Floats) -> Floats:
    """Eq. (wendland_kernel_1): ``(4 u + 1) (1 - u)_+^4``, zero from u = 1 on."""
    return np.asarray((4 * u + 1) * np.maximum(1 - u, 0) ** 4)


def gaussian(u: Floats) -> Floats:
    """Eq. (gaussian_kernel): ``exp(-u^2 / r_G^2)`` with r_G = 2 / (3 sqrt(pi))."""
    return np.asarray(np.exp(-((u / R_GAUSSIAN) ** 2)))


def inverse_quadratic(u: Floats) -> Floats:
    """Eq. (inverse_quadratic_kernel): ``1 / (1 + u^2 / r_IQ^2)`` with r_IQ = 2 / (3 pi)."""
    return np.asarray(1 / (1 + (u / R_INVERSE_QUADRATIC) ** 2))


RADIAL: dict[str, Callable[[Floats], Floats]] = {
    "wendland": wendland,
    "gaussian": gaussian,
    "inverse_quadratic": inverse_quadratic,
}
FAMILIES = tuple(RADIAL)


class ScalarKernel(Protocol):
    """What conditioning needs of a kernel: a scalar for every pair of points, meant times I_d."""

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel values between (n, d) points and (m, d) others, shape (n, m)."""
        ...

    def diagonal(self, points: Floats) -> Floats:
        """Kernel value of each point with itself, shape (n,)."""
        ...


# Rows of squared distances whose exponentials stay in the cache.
_ROWS = 16


def _positive(values: ArrayLike, name: str) -> Floats:
    array = np.atleast_1d(np.array(values, dtype=np.float64))
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all() or not (array > 0).all():
        raise InvalidInputError(f"KernelBundle {name} must be one or more positive finite numbers, got {values!r}.")
    return readonly(array)


def _columns(points: Floats) -> Floats:
    """Points (n, d) as the loops take them: (d, n), contiguous and writeable, so that no loop is compiled twice."""
    return np.require(points.T, np.float64, ["C", "W"])


@dataclass(frozen=True, eq=False)
class KernelBundle:
    r"""A bundle of radial functions, Eq. (kernel_bundle).

    .. math:: \kappa(r) = \sum_s \theta_s \mathcal K(r / \rho_s)

    Parameters
    ----------
    family : {"wendland", "gaussian", "inverse_quadratic"}
        The radial function :math:`\mathcal K`, scaled as in the paper so that all have the same integral.
    scales : sequence of float
        The :math:`\rho_s` in world units, in any order.
    weights : sequence of float
        The :math:`\theta_s` in squared world units, one for each scale.
    regions : callable, optional
        Which region each of (n, d) points lies in, as (n,) whole numbers, for tissue that slides or is torn.
    own : float or sequence of float, optional
        With regions: the share of each scale's weight, 0 to 1, that every region has to itself. Two points of different
        regions have only the rest in common, :math:`\sum_s \theta_s (1 - o_s) \mathcal K(r / \rho_s)`; this is the sum
        of a kernel that all share and one that is zero across boundaries. With 0 the regions make no difference.

    Examples
    --------
    >>> import warpgauge as wg
    >>> kernel = wg.KernelBundle("wendland", scales=[10, 20], weights=[1.0, 2.0])
    >>> kernel([0.0, 30.0]).tolist()
    [3.0, 0.0]
    """

    family: str
    scales: Floats
    weights: Floats
    regions: Regions | None
    own: Floats

    def __init__(
        self, family: str, scales: ArrayLike, weights: ArrayLike, regions: Regions | None = None, own: ArrayLike = 0.0
    ) -> None:
        if family not in FAMILIES:
            raise InvalidInputError(f"Kernel family must be one of {', '.join(FAMILIES)}, got {family!r}.")
        object.__setattr__(self, "family", family)
        object.__setattr__(self, "scales", _positive(scales, "scales"))
        object.__setattr__(self, "weights", _positive(weights, "weights"))
        if self.scales.shape != self.weights.shape:
            raise InvalidInputError(
                f"KernelBundle needs one weight per scale, got {self.scales.size} scales and {self.weights.size} "
                f"weights."
            )
        object.__setattr__(self, "regions", regions)
        object.__setattr__(self, "own", self._checked_own(own))

    def _checked_own(self, own: ArrayLike) -> Floats:
        shares = np.asarray(own, dtype=np.float64)
        if shares.shape not in ((), self.scales.shape) or not ((shares >= 0) & (shares <= 1)).all():
            raise InvalidInputError(f"KernelBundle own must be shares from 0 to 1, one for each scale, got {own!r}.")
        if self.regions is None and shares.any():
            raise InvalidInputError("KernelBundle own needs regions: what each of them has to itself.")
        return readonly(np.broadcast_to(shares, self.scales.shape).copy())

    @classmethod
    def pyramid(
        cls, family: str = "wendland", *, smallest: float = 10.0, levels: int = 9, weight: float = 1.0
    ) -> KernelBundle:
        """Bundle whose scales double from ``smallest`` on, ``rho_s = 2^(s-1) rho_1``, all with the same weight."""
        if int(levels) != levels or levels < 1:
            raise InvalidInputError(f"KernelBundle.pyramid needs at least one level, got {levels!r}.")
        return cls(family, smallest * 2.0 ** np.arange(int(levels)), np.full(int(levels), float(weight)))

    def with_weights(self, weights: ArrayLike) -> KernelBundle:
        """Return the same bundle with other weights; each scale keeps the share that regions have to themselves."""
        return KernelBundle(self.family, self.scales, weights, self.regions, self.own)

    def with_own(self, regions: Regions | None, own: ArrayLike) -> KernelBundle:
        """Return the same bundle with regions that have these shares of the weights to themselves."""
        return KernelBundle(self.family, self.scales, self.weights, regions, own)

    @property
    def divided(self) -> bool:
        """Whether points of different regions have less in common than others."""
        return self.regions is not None and bool(self.own.any())

    @property
    def own_share(self) -> float:
        """Share of the prior variance that each region has to itself, over all scales."""
        return float(self.own @ self.weights) / self.at_zero

    @property
    def at_zero(self) -> float:
        """Prior variance of each component, the sum of the weights."""
        return float(self.weights.sum())

    def __repr__(self) -> str:
        own = f", own={self.own.tolist()}" if self.divided else ""
        return f"KernelBundle({self.family!r}, scales={self.scales.tolist()}, weights={self.weights.tolist()}{own})"

    def _labels(self, points: Floats) -> Ints:
        """Region of each point, (n,)."""
        assert self.regions is not None
        labels = np.asarray(self.regions(points))
        if labels.shape != (len(points),) or not np.issubdtype(labels.dtype, np.integer):
            raise InvalidInputError(
                f"The regions must give a whole number for each of {len(points)} points, got {labels.dtype} of shape "
                f"{labels.shape}."
            )
        return labels.astype(np.int64)

    def common(self, points: Floats, first: Ints, second: Ints) -> Bools:
        """Whether pairs of points lie in one region; all do without regions."""
        if self.regions is None:
            return np.ones(len(first), dtype=np.bool_)
        labels = self._labels(points)
        return np.asarray(labels[first] == labels[second])

    @cached_property
    def _tables(self) -> Floats:
        """Coefficients of the quintic beyond g scales, (tables, S + 1, 6): in a region, and across boundaries."""
        order = np.argsort(self.scales)
        scales = self.scales[order]
        every = [self.weights, self.weights * (1 - self.own)] if self.divided else [self.weights]
        tables = np.zeros((len(every), len(scales) + 1, 6))
        for table, weights in zip(tables, every, strict=True):
            quintics = weights[order][:, None] * _QUINTIC / scales[:, None] ** np.arange(6)
            # Row g serves distances beyond g scales, where only the scales from g on still count.
            table[:-1] = np.cumsum(quintics[::-1], axis=0)[::-1]
        return tables

    def __call__(self, distances: ArrayLike) -> Floats:
        """Kernel value at each distance within a region."""
        r = np.asarray(distances, dtype=np.float64)
        on_a_line = np.column_stack([r.reshape(-1), np.zeros(r.size)])
        alone = KernelBundle(self.family, self.scales, self.weights)
        return alone.matrix(np.zeros((1, 2)), on_a_line).reshape(r.shape)

    def basis(self, points: Floats, first: Ints, second: Ints) -> Floats:
        """Values of each scale alone at weight 1 for pairs of points, (S, pairs): the derivatives by the weights.

        The pairs are ``points[first]`` and ``points[second]``.
        """
        distances = np.linalg.norm(points[first] - points[second], axis=1)
        radial = RADIAL[self.family]
        values = np.stack([radial(distances / scale) for scale in self.scales])
        if self.divided:
            values *= 1 - self.own[:, None] * ~self.common(points, first, second)
        return values

    def diagonal(self, points: Floats) -> Floats:
        """Kernel of each point with itself."""
        return np.full(len(points), self.at_zero)

    def features(self, points: Floats) -> Floats:
        """No trend, no features: shape (n, 0)."""
        return np.empty((len(points), 0))

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel between (n, d) points and (m, d) others, shape (n, m)."""
        out = np.empty((len(points), len(others))) if out is None else out
        if out.size == 0:
            return out
        from warpgauge.core import loops  # loads the compiler

        labels = other_labels = np.empty(0, dtype=np.int64)
        if self.divided:
            labels = self._labels(points)
            other_labels = self._labels(others)
        if self.family == "wendland":
            breaks = np.sort(self.scales)
            loops.fill_wendland(breaks, self._tables, _columns(points), _columns(others), labels, other_labels, out)
            return out
        loops.squared_distances(_columns(points), _columns(others), out)
        shared = self.weights * (1 - self.own)
        for start in range(0, len(points), _ROWS):
            rows = slice(start, start + _ROWS)
            squares = out[rows].copy()
            if self.divided:
                together = labels[rows, None] == other_labels
                out[rows] = self._sum_over_scales(shared, squares)
                out[rows] += together * self._sum_over_scales(self.weights - shared, squares)
            else:
                out[rows] = self._sum_over_scales(self.weights, squares)
        return out

    def _sum_over_scales(self, weights: Floats, squares: Floats) -> Floats:
        """Sum of the weighted Gaussian or inverse quadratic functions of squared distances."""
        total = np.zeros(squares.shape)
        values = np.empty(squares.shape)
        for weight, scale in zip(weights, self.scales, strict=True):
            if self.family == "gaussian":
                np.multiply(squares, -1 / (R_GAUSSIAN * scale) ** 2, out=values)
                # 1e-304 for what is smaller: numpy takes ten times as long for an exponential that underflows.
                np.maximum(values, -700.0, out=values)
                np.exp(values, out=values)
                values *= weight
            else:
                np.multiply(squares, 1 / (R_INVERSE_QUADRATIC * scale) ** 2, out=values)
                values += 1.0
                np.divide(weight, values, out=values)
            total += values
        return total


@dataclass(frozen=True, eq=False)
class TrendKernel:
    """A bundle plus the kernel of an affine trend with independent Gaussian coefficients.

    The displacement gets a random translation (standard deviation ``translation_sd``) and a random linear part about
    ``center`` (standard deviation ``linear_sd`` of each entry), which adds
    ``translation_sd^2 + linear_sd^2 (x - center) . (x' - center)``: again a scalar times I_d.
    """

    bundle: KernelBundle
    translation_sd: float
    linear_sd: float
    center: Floats

    def features(self, points: Floats) -> Floats:
        """Coefficients' multipliers ``[translation_sd, linear_sd (x - center)]``, shape (n, d + 1)."""
        columns = np.empty((len(points), points.shape[1] + 1))
        columns[:, 0] = self.translation_sd
        columns[:, 1:] = self.linear_sd * (points - self.center)
        return columns

    def diagonal(self, points: Floats) -> Floats:
        """Kernel of each point with itself."""
        return np.asarray(self.bundle.diagonal(points) + np.square(self.features(points)).sum(axis=1))

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel between (n, d) points and (m, d) others, shape (n, m)."""
        block = self.bundle.matrix(points, others, out)
        block += self.features(points) @ self.features(others).T
        return block


PriorKernel = KernelBundle | TrendKernel

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


def prior_draws(kernel: PriorKernel, points: Floats, count: int, rng: np.random.Generator) -> Floats:
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
    # A trend is drawn by its coefficients: exact, and its large variance stays out of the factor.
    features = kernel.features(points)
    draws += features @ rng.standard_normal((features.shape[1], count * d))
    return np.ascontiguousarray(draws.reshape(n, count, d).transpose(1, 0, 2))
