"""Radial functions and the multi-scale bundle of them: the scalar kernel that multiplies I_d.

Paper, Eqs. (kernel_bundle), (gaussian_kernel), (inverse_quadratic_kernel), (wendland_kernel_1) and
(kernel_integral_normalisation). Kernels that vary in space (places.py) and kernels of one's own (own_kernels.py) are
beyond the paper, which names the former as future work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from warpgauge.core import compiled
from warpgauge.core.arrays import Floats, Ints, readonly, thinned_rows
from warpgauge.core.parallel import over_rows
from warpgauge.core.places import Places, Regions, Varying
from warpgauge.errors import InvalidInputError

# Eq. (kernel_integral_normalisation): equal integrals over r, with r_W = 1.
R_GAUSSIAN = 2 / (3 * math.sqrt(math.pi))
R_INVERSE_QUADRATIC = 2 / (3 * math.pi)

FAMILIES: dict[str, int] = {
    "wendland": compiled.WENDLAND,
    "gaussian": compiled.GAUSSIAN,
    "inverse_quadratic": compiled.INVERSE_QUADRATIC,
    "matern32": compiled.MATERN_32,
    "matern52": compiled.MATERN_52,
}
# The paper's three.
PAPER_FAMILIES = ("wendland", "gaussian", "inverse_quadratic")

# (4 u + 1) (1 - u)^4 expanded in powers of u.
_QUINTIC = np.array([1.0, 0.0, -10.0, 20.0, -15.0, 4.0])


def wendland(u: Floats) -> Floats:
    """Eq. (wendland_kernel_1): ``(4 u + 1) (1 - u)_+^4``, zero from u = 1 on."""
    return np.asarray((4 * u + 1) * np.maximum(1 - u, 0) ** 4)


def gaussian(u: Floats) -> Floats:
    """Eq. (gaussian_kernel): ``exp(-u^2 / r_G^2)`` with r_G = 2 / (3 sqrt(pi))."""
    return np.asarray(np.exp(-((u / R_GAUSSIAN) ** 2)))


def inverse_quadratic(u: Floats) -> Floats:
    """Eq. (inverse_quadratic_kernel): ``1 / (1 + u^2 / r_IQ^2)`` with r_IQ = 2 / (3 pi)."""
    return np.asarray(1 / (1 + (u / R_INVERSE_QUADRATIC) ** 2))


def matern32(u: Floats) -> Floats:
    """Matern function with nu = 3/2, ``(1 + t) exp(-t)`` with t = 6 u (not in the paper)."""
    t = 6 * u
    return np.asarray((1 + t) * np.exp(-t))


def matern52(u: Floats) -> Floats:
    """Matern function with nu = 5/2, ``(1 + t + t^2 / 3) exp(-t)`` with t = 8 u (not in the paper)."""
    t = 8 * u
    return np.asarray((1 + t + t**2 / 3) * np.exp(-t))


RADIAL: dict[str, Callable[[Floats], Floats]] = {
    "wendland": wendland,
    "gaussian": gaussian,
    "inverse_quadratic": inverse_quadratic,
    "matern32": matern32,
    "matern52": matern52,
}


class ScalarKernel(Protocol):
    """What conditioning needs of a kernel: a scalar for every pair of points, meant times I_d."""

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel values between (n, d) points and (m, d) others, shape (n, m)."""
        ...

    def diagonal(self, points: Floats) -> Floats:
        """Kernel value of each point with itself, shape (n,)."""
        ...

    @property
    def of_prior(self) -> PriorKernel:
        """The kernel itself where it is a prior's, as the compiled loops need it; a TypeError where it is not."""
        ...


class PriorKernel(ScalarKernel, Protocol):
    """The kernel of a prior: a bundle, plus products of features where there is a trend."""

    @property
    def bundle(self) -> Kernel:
        """The part without a trend."""
        ...

    def features(self, points: Floats) -> Floats:
        """Multipliers of the trend's coefficients at (n, d) points, shape (n, f); f is 0 without a trend."""
        ...

    @property
    def trend(self) -> TrendKernel | None:
        """The affine trend behind the features; None without one."""
        ...


# Values of a kernel for pairs of points as a function of its weights, (P,), and their derivatives by these, (P, pairs).
Training = Callable[[Floats], tuple[Floats, Floats]]
# Weights may range over this many powers of ten about the mean squared displacement of the training data.
DECADES_DOWN, DECADES_UP = 8.0, 4.0
# Rows of a block that is made at a time; points at which a kernel is told from others.
_ROWS, _TOLD = 4096, 128


class Kernel:
    """A scalar kernel that a prior may have; what is written here serves every kernel, at the pace of its matrix.

    Attributes
    ----------
    scales : array
        Lengths over which it varies, in world units.
    weights : (P,) array
        Positive numbers that :func:`warpgauge.fit_kernel` learns.
    at_zero : float
        Prior variance of each component, where it is the same everywhere; else a typical one.
    family, regions
        Radial functions and regions for a model of registrations' errors, which is a bundle always.
    """

    scales: Floats
    weights: Floats
    family: str

    @property
    def regions(self) -> Regions | None:
        """Which region each point lies in, where there are regions."""
        return None

    @property
    def at_zero(self) -> float:
        """Prior variance of each component."""
        raise NotImplementedError

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel between (n, d) points and (m, d) others, shape (n, m)."""
        raise NotImplementedError

    def diagonal(self, points: Floats) -> Floats:
        """Kernel of each point with itself."""
        raise NotImplementedError

    def with_weights(self, weights: ArrayLike) -> Kernel:
        """Return the same kernel with other weights."""
        raise NotImplementedError

    def training(self, points: Floats, first: Ints, second: Ints) -> Training:
        """Return values and derivatives by the weights for the pairs ``points[first]`` and ``points[second]``."""
        raise NotImplementedError

    def search(self, spread: float) -> tuple[Floats, Floats, Floats]:
        """Logarithms of weights to start from, (3, P), and between which to look, for a variance ``spread``."""
        raise NotImplementedError

    def identity(self, points: Floats) -> dict[str, Any]:
        """Return numbers by which the kernel is told from others, for keys of what was computed with it."""
        some = points[thinned_rows(len(points), _TOLD)]
        return {"weights": self.weights.tolist(), "values": self.matrix(some, some).tolist()}

    @property
    def other_families(self) -> tuple[str, ...]:
        """Families of the paper that it could have instead of its own."""
        return ()

    @property
    def bundle(self) -> Kernel:
        """The kernel itself: there is no trend."""
        return self

    @property
    def of_prior(self) -> Kernel:
        """The kernel itself."""
        return self

    @property
    def trend(self) -> None:
        """None: it has no trend."""
        return

    def features(self, points: Floats) -> Floats:
        """No trend, no features: shape (n, 0)."""
        return np.empty((len(points), 0))

    def filled(
        self, points: Floats, others: Floats, features: Floats, other_features: Floats, out: Floats | None = None
    ) -> Floats:
        """Kernel block plus the products of features."""
        block = self.matrix(points, others, out)
        if features.shape[1]:
            block += features @ other_features.T
        return block

    def explained(
        self, points: Floats, others: Floats, features: Floats, other_features: Floats, W: Floats, since: Ints
    ) -> Floats:
        """Covariance that annotations at ``others`` from ``since`` on explain at each point (see compiled.py)."""
        out = np.empty((len(points), len(W), len(W)))
        for start in range(0, len(points), _ROWS):
            part = slice(start, start + _ROWS)
            rows = compiled.loop_array(self.filled(points[part], others, features[part], other_features))
            compiled.explained_by_rows(rows, W, since[part], out[part])
        return out

    def __add__(self, other: Any) -> Kernel:
        """Sum of two kernels, of which one may be of one's own."""
        from warpgauge.core.own_kernels import combined

        return combined(self, other, product=False)

    def __radd__(self, other: Any) -> Kernel:
        """Sum of two kernels."""
        from warpgauge.core.own_kernels import combined

        return combined(other, self, product=False)

    def __mul__(self, other: Any) -> Kernel:
        """Product of two kernels, of which one may be of one's own."""
        from warpgauge.core.own_kernels import combined

        return combined(self, other, product=True)

    def __rmul__(self, other: Any) -> Kernel:
        """Product of two kernels."""
        from warpgauge.core.own_kernels import combined

        return combined(other, self, product=True)


def _positive(values: ArrayLike, name: str) -> Floats:
    array = np.atleast_1d(np.array(values, dtype=np.float64))
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all() or not (array > 0).all():
        raise InvalidInputError(f"KernelBundle {name} must be one or more positive finite numbers, got {values!r}.")
    return readonly(array)


@dataclass(frozen=True, eq=False)
class KernelBundle(Kernel):
    r"""A bundle of radial functions, Eq. (kernel_bundle).

    .. math:: \kappa(r) = \sum_s \theta_s \mathcal K(r / \rho_s)

    Parameters
    ----------
    family : {"wendland", "gaussian", "inverse_quadratic", "matern32", "matern52"}
        The radial function :math:`\mathcal K`, scaled as in the paper so that all have the same integral; the Matern
        functions, with one and two derivatives, are beyond it.
    scales : sequence of float
        The :math:`\rho_s` in world units, in any order.
    weights : sequence of float
        The :math:`\theta_s` in squared world units, one for each scale.
    regions : callable, optional
        Which region each of (n, d) points lies in, as (n,) whole numbers, for tissue that slides or is torn; or
        (n, R) probabilities of R regions, where the boundary is soft.
    own : float or sequence of float, optional
        With regions: the share of each scale's weight, 0 to 1, that every region has to itself. Two points of different
        regions have only the rest in common, :math:`\sum_s \theta_s (1 - o_s) \mathcal K(r / \rho_s)`; this is the sum
        of a kernel that all share and one that is zero across boundaries. With 0 the regions make no difference. Two
        points with probabilities have :math:`\sum_r \sqrt{p_r p'_r}` of it in common.
    axes : sequence of float, optional
        Factor on the scales along each axis: 2 where displacements vary half as fast.
    period : sequence of float, optional
        Period of each axis in world units, ``inf`` for an axis that is not periodic.
    amplitude : callable or mapping, optional
        Positive factor on the deviations at each of (n, d) points, (n,), or for each region.
    length : callable or mapping, optional
        Positive factor on the scales at each of (n, d) points, (n,), or for each region: the form of Gibbs, and of
        Paciorek and Schervish. Not with Wendland functions, which it may leave without definiteness.
    """

    family: str
    scales: Floats
    weights: Floats
    own: Floats
    places: Places

    def __init__(
        self,
        family: str,
        scales: ArrayLike,
        weights: ArrayLike,
        regions: Regions | None = None,
        own: ArrayLike = 0.0,
        *,
        axes: ArrayLike | None = None,
        period: ArrayLike | None = None,
        amplitude: Varying | None = None,
        length: Varying | None = None,
    ) -> None:
        if family not in FAMILIES:
            raise InvalidInputError(f"Kernel family must be one of {', '.join(FAMILIES)}, got {family!r}.")
        if family == "wendland" and length is not None:
            raise InvalidInputError(
                "A length scale that varies needs a family that is a mixture of Gaussians (gaussian, "
                "inverse_quadratic, matern32, matern52); with wendland the kernel may not be positive definite."
            )
        object.__setattr__(self, "family", family)
        object.__setattr__(self, "scales", _positive(scales, "scales"))
        object.__setattr__(self, "weights", _positive(weights, "weights"))
        if self.scales.shape != self.weights.shape:
            raise InvalidInputError(
                f"KernelBundle needs one weight per scale, got {self.scales.size} scales and {self.weights.size} "
                f"weights."
            )
        object.__setattr__(self, "places", Places.of(regions, axes, period, amplitude, length))
        object.__setattr__(self, "own", self._checked_own(own))

    def _checked_own(self, own: ArrayLike) -> Floats:
        shares = np.asarray(own, dtype=np.float64)
        if shares.shape not in ((), self.scales.shape) or not ((shares >= 0) & (shares <= 1)).all():
            raise InvalidInputError(f"KernelBundle own must be shares from 0 to 1, one for each scale, got {own!r}.")
        if self.regions is None and shares.any():
            raise InvalidInputError("KernelBundle own needs regions: what each of them has to itself.")
        return readonly(np.broadcast_to(shares, self.scales.shape).copy())

    @property
    def regions(self) -> Regions | None:
        """Which region each point lies in, where there are regions."""
        return self.places.regions

    @classmethod
    def pyramid(
        cls, family: str = "wendland", *, smallest: float = 10.0, levels: int = 9, weight: float = 1.0
    ) -> KernelBundle:
        """Bundle whose scales double from ``smallest`` on, ``rho_s = 2^(s-1) rho_1``, all with the same weight."""
        if int(levels) != levels or levels < 1:
            raise InvalidInputError(f"KernelBundle.pyramid needs at least one level, got {levels!r}.")
        return cls(family, smallest * 2.0 ** np.arange(int(levels)), np.full(int(levels), float(weight)))

    def _with(self, **changes: Any) -> KernelBundle:
        """Return the same bundle with some arguments changed."""
        same = {"family": self.family, "scales": self.scales, "weights": self.weights, "own": self.own}
        return KernelBundle(**{**same, **vars(self.places), **changes})

    def with_weights(self, weights: ArrayLike) -> KernelBundle:
        """Return the same bundle with other weights; each scale keeps the share that regions have to themselves."""
        return self._with(weights=weights)

    def with_family(self, family: str) -> KernelBundle:
        """Return the same bundle of other radial functions."""
        return self._with(family=family)

    def with_own(self, regions: Regions | None, own: ArrayLike) -> KernelBundle:
        """Return the same bundle with regions that have these shares of the weights to themselves."""
        return self._with(regions=regions, own=own)

    def with_axes(self, axes: ArrayLike | None) -> KernelBundle:
        """Return the same bundle with other factors on the scales along each axis."""
        return self._with(axes=axes)

    @property
    def other_families(self) -> tuple[str, ...]:
        """Families of the paper that it could have instead of its own."""
        varies = self.places.length is not None or self.places.period is not None
        return tuple(one for one in PAPER_FAMILIES if one != self.family and not (varies and one == "wendland"))

    @property
    def divided(self) -> bool:
        """Whether points of different regions have less in common than others."""
        return self.regions is not None and bool(self.own.any())

    @property
    def own_share(self) -> float:
        """Share of the prior variance that each region has to itself, over all scales."""
        return float(self.own @ self.weights) / self.at_zero

    def marks(self, points: Floats) -> Floats:
        """Return what of the places of points the loops need, (n, q); q is 0 where only distances count."""
        return self.places.marks(points, self.divided)

    def common(self, points: Floats, first: Ints, second: Ints) -> Floats:
        """How much of their regions pairs of points have in common, 0 to 1; 1 without regions."""
        return self.places.pairs(points, first, second)[2]

    def identity(self, points: Floats) -> dict[str, Any]:
        """Return numbers by which the bundle is told from others."""
        told = {"kernel": [self.family, self.scales.tolist(), self.weights.tolist()]}
        if self.divided:
            told["own"] = self.own.tolist()
        if self.divided or not self.places.uniform or self.places.axes is not None:
            told["places"] = [self.places.coordinates(points).tolist(), self.marks(points).tolist()]
        return told

    @property
    def at_zero(self) -> float:
        """Prior variance of each component, the sum of the weights."""
        return float(self.weights.sum())

    def __repr__(self) -> str:
        own = f", own={self.own.tolist()}" if self.divided else ""
        return f"KernelBundle({self.family!r}, scales={self.scales.tolist()}, weights={self.weights.tolist()}{own})"

    @cached_property
    def loop_parameters(self) -> tuple[int, Floats, Floats]:
        """The bundle as the compiled loops take it (see compiled.py)."""
        family = FAMILIES[self.family]
        every = [self.weights, self.weights * (1 - self.own)] if self.divided else [self.weights]
        if family in (compiled.MATERN_32, compiled.MATERN_52):
            return family, (6 if family == compiled.MATERN_32 else 8) / self.scales, np.stack(every)[:, :, None]
        if family != compiled.WENDLAND:
            radius = R_GAUSSIAN if family == compiled.GAUSSIAN else R_INVERSE_QUADRATIC
            return family, 1 / (radius * self.scales) ** 2, np.stack(every)[:, :, None]
        order = np.argsort(self.scales)
        scales = self.scales[order]
        tables = np.zeros((len(every), len(scales) + 1, 6))
        for table, weights in zip(tables, every, strict=True):
            quintics = weights[order][:, None] * _QUINTIC / scales[:, None] ** np.arange(6)
            # Row g serves distances beyond g scales, where only the scales from g on still count.
            table[:-1] = np.cumsum(quintics[::-1], axis=0)[::-1]
        return family, scales**2, tables

    def __call__(self, distances: ArrayLike) -> Floats:
        """Kernel value at each distance within a region."""
        squares = np.asarray(distances, dtype=np.float64) ** 2
        flat = compiled.loop_array(squares.reshape(-1))
        family, breaks, tables = self.loop_parameters
        compiled.kernel_values(family, breaks, tables[0], flat)
        return flat.reshape(squares.shape)

    def basis(self, points: Floats, first: Ints, second: Ints) -> Floats:
        """Values of each scale alone at weight 1 for pairs of points, (S, pairs): the derivatives by the weights.

        The pairs are ``points[first]`` and ``points[second]``.
        """
        distances, times, common = self.places.pairs(points, first, second)
        radial = RADIAL[self.family]
        values = np.stack([radial(distances / scale) for scale in self.scales])
        if self.divided:
            values *= 1 - self.own[:, None] * (1 - common)
        if not self.places.uniform:
            values *= times
        return values

    def training(self, points: Floats, first: Ints, second: Ints) -> Training:
        """Return values and derivatives by the weights for pairs of points: those of a sum over the scales."""
        basis = np.ascontiguousarray(self.basis(points, first, second))
        return lambda weights: (weights @ basis, basis)

    def search(self, spread: float) -> tuple[Floats, Floats, Floats]:
        """Start as given, flat, and growing with the scale as smooth deformations do."""
        flat = np.full(self.weights.size, spread / self.weights.size)
        growing = self.scales**2 / np.sum(self.scales**2) * spread
        starts = np.log([self.weights, flat, growing])
        low = np.minimum(starts.min(axis=0), np.log(spread) - DECADES_DOWN * np.log(10))
        high = np.maximum(starts.max(axis=0), np.log(spread) + DECADES_UP * np.log(10))
        return starts, low, high

    def diagonal(self, points: Floats) -> Floats:
        """Kernel of each point with itself."""
        if self.places.amplitude is None:
            return np.full(len(points), self.at_zero)
        return np.asarray(self.at_zero * np.square(self.marks(points)[:, 1]))

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel between (n, d) points and (m, d) others, shape (n, m)."""
        return self.filled(points, others, self.features(points), self.features(others), out)

    def loop_places(self, points: Floats, others: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Coordinates (n, m) and (m, k), and marks (n, q) and (q, k), as the loops take them."""
        if self.family == "wendland":
            self.places.check_wendland(points)
        at, there = self.places.coordinates(points), self.places.coordinates(others)
        marks = self.marks(points), compiled.loop_array(self.marks(others).T)
        return compiled.loop_array(at), compiled.loop_array(there.T), *marks

    def explained(
        self, points: Floats, others: Floats, features: Floats, other_features: Floats, W: Floats, since: Ints
    ) -> Floats:
        """Covariance that annotations at ``others`` from ``since`` on explain at each point (see compiled.py)."""
        at, columns, marks, other_marks = self.loop_places(points, others)
        right = compiled.loop_array(other_features.T)
        out = np.empty((len(points), len(W), len(W)))

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            compiled.explained(
                *self.loop_parameters, at[part], columns, features[part], right, marks[part], other_marks, W,
                since[part], out[part],
            )  # fmt: skip

        over_rows(work, len(points), len(others))
        return out

    def filled(
        self, points: Floats, others: Floats, features: Floats, other_features: Floats, out: Floats | None = None
    ) -> Floats:
        """Kernel block plus the products of features, in one compiled pass over the block."""
        at, columns, marks, other_marks = self.loop_places(points, others)
        right = compiled.loop_array(other_features.T)
        block = np.empty((len(points), len(others))) if out is None else out
        if block.size == 0:
            return block

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            compiled.fill_block(
                *self.loop_parameters, at[part], columns, features[part], right, marks[part], other_marks, block[part]
            )

        over_rows(work, len(points), len(others))
        return block


@dataclass(frozen=True, eq=False)
class TrendKernel:
    """A bundle plus the kernel of an affine trend with independent Gaussian coefficients.

    The displacement gets a random translation (standard deviation ``translation_sd``) and a random linear part about
    ``center`` (standard deviation ``linear_sd`` of each entry), which adds
    ``translation_sd^2 + linear_sd^2 (x - center) . (x' - center)``: again a scalar times I_d.
    """

    bundle: Kernel
    translation_sd: float
    linear_sd: float
    center: Floats

    @property
    def of_prior(self) -> TrendKernel:
        """The kernel itself."""
        return self

    @property
    def trend(self) -> TrendKernel:
        """The kernel itself, which holds the trend's parameters."""
        return self

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
        return self.bundle.filled(points, others, self.features(points), self.features(others), out)


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
    root = square_root(kernel.bundle.matrix(points, points))
    draws = root @ rng.standard_normal((root.shape[1], count * d))
    # A trend is drawn by its coefficients: exact, and its large variance stays out of the factor.
    features = kernel.features(points)
    draws += features @ rng.standard_normal((features.shape[1], count * d))
    return np.ascontiguousarray(draws.reshape(n, count, d).transpose(1, 0, 2))
