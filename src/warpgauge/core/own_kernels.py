"""Kernels of one's own, and sums and products of kernels: what no compiled loop knows, checked when it is used.

A kernel of one's own is any object with one of

- ``value(r2)``: values at an array of squared distances;
- ``matrix(X, Y)``: values between (n, d) and (m, d) points, shape (n, m).

It may have ``scales``, the lengths over which it varies, which defaults of a prior and of suggestions are made of; and
``parameters``, positive numbers that are learned, with ``with_parameters(values)``, which returns the same kernel with
others, and ``derivative(r2)`` or ``derivative(X, Y)``, the derivatives of its values by them, one below the other. A
factor on all of its values is learned in any case.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.kernels import DECADES_DOWN, DECADES_UP, Kernel, KernelBundle, Training
from warpgauge.core.parallel import one_blas_thread
from warpgauge.errors import InvalidInputError, WarpgaugeWarning

# Points at which definiteness is looked at, and how far below zero rounding may take an eigenvalue.
_SAMPLE, _ROUNDING = 64, 1e-9
_LATTICE = {2: 16, 3: 6}  # along each axis
# Rows and columns of the block that tells how slow it is, against so many scales of the built-in functions.
_TIMED, _SCALES = 256, 9
# Parameters are looked for within this factor of what is given.
_RANGE = 1e3
_noted: set[str] = set()


def as_kernel(given: Any) -> Kernel:
    """Return a kernel as it is, or one's own wrapped; refuse what is neither."""
    if isinstance(given, Kernel):
        return given
    if callable(getattr(given, "matrix", None)) or callable(getattr(given, "value", None)):
        return OwnKernel(given)
    raise InvalidInputError(
        f"A kernel must be a KernelBundle, or an object with value(r2) or matrix(X, Y), got {type(given).__name__}."
    )


def combined(one: Any, other: Any, *, product: bool) -> Kernel:
    """Return the sum or the product of two kernels."""
    return Combined((as_kernel(one), as_kernel(other)), product)


class OwnKernel(Kernel):
    """A kernel of one's own, times a weight."""

    family = "wendland"

    def __init__(self, given: Any, weight: float = 1.0) -> None:
        self.given = given
        self.name = type(given).__name__
        if hasattr(given, "parameters") != all(
            callable(getattr(given, name, None)) for name in ("with_parameters", "derivative")
        ):
            raise InvalidInputError(
                f"The kernel {self.name} needs all of parameters, with_parameters(values) and derivative, or none."
            )
        self.parameters = np.atleast_1d(np.array(getattr(given, "parameters", ()), dtype=np.float64))
        self.weights = np.concatenate([[float(weight)], self.parameters])
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all() or not (self.weights > 0).all():
            raise InvalidInputError(f"Weight and parameters of the kernel {self.name} must be positive finite numbers.")
        self._typical: dict[int, float] = {}  # of each dimension that it was checked in

    def __repr__(self) -> str:
        return f"OwnKernel({self.name}, weights={self.weights.tolist()})"

    @property
    def scales(self) -> Floats:  # type: ignore[override]
        """Lengths over which it varies, if it says so."""
        if not hasattr(self.given, "scales"):
            raise InvalidInputError(
                f"The kernel {self.name} does not say over which lengths it varies; give it an attribute scales, or "
                f"say what is made of them (translation_sd of an affine trend, default_covariance of a Suggester)."
            )
        return np.atleast_1d(np.asarray(self.given.scales, dtype=np.float64))

    @property
    def at_zero(self) -> float:
        """Mean prior variance over the points at which it was checked."""
        if not self._typical:
            raise InvalidInputError(f"The kernel {self.name} was not used yet, so that its variance is not known.")
        return float(self.weights[0] * next(iter(self._typical.values())))

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel between (n, d) points and (m, d) others, shape (n, m)."""
        self._check(points, others)
        block = self.weights[0] * self._values(points, others)
        if out is None:
            return np.asarray(block)
        out[...] = block
        return out

    def diagonal(self, points: Floats) -> Floats:
        """Kernel of each point with itself, from small blocks."""
        if not hasattr(self.given, "matrix"):
            self._check(points, points)
            return np.asarray(self.weights[0] * self._radial(self.given.value, np.zeros(len(points))))
        parts = [points[start : start + 64] for start in range(0, len(points), 64)]
        return np.concatenate([np.diagonal(self.matrix(part, part)) for part in parts] or [np.empty(0)])

    def _values(self, points: Floats, others: Floats) -> Floats:
        """Values without the weight, of the right shape and finite."""
        if hasattr(self.given, "matrix"):
            values = np.asarray(self.given.matrix(points, others), dtype=np.float64)
        else:
            values = self._radial(self.given.value, _squares(points, others))
        if values.shape != (len(points), len(others)) or not np.isfinite(values).all():
            raise InvalidInputError(
                f"The kernel {self.name} must give finite values of shape {(len(points), len(others))}, got shape "
                f"{values.shape}" + ("." if values.shape != (len(points), len(others)) else " with others.")
            )
        return values

    @staticmethod
    def _radial(function: Callable[[Floats], ArrayLike], squares: Floats) -> Floats:
        return np.asarray(function(squares), dtype=np.float64)

    def _check(self, points: Floats, others: Floats) -> None:
        """Check symmetry and definiteness once in each dimension, about where the kernel is used first."""
        d = points.shape[1]
        if d in self._typical or len(points) == 0:
            return
        samples = _samples(np.concatenate([points, others]))
        with one_blas_thread():
            variances = [np.diagonal(self._checked(at)) for at in samples]
        self._typical[d] = float(np.mean(variances[0]))
        self._note(samples[0], sum(len(at) for at in samples))

    def _checked(self, at: Floats) -> Floats:
        """Return the matrix at some points; raise where it is not symmetric or not positive definite."""
        values = self._values(at, at)
        largest = float(np.abs(values).max())
        gap = float(np.abs(values - values.T).max())
        if gap > _ROUNDING * largest:
            raise InvalidInputError(
                f"The kernel {self.name} is not symmetric: k(x, y) and k(y, x) differ by {gap:.3g}, of values up to "
                f"{largest:.3g}."
            )
        eigenvalues = np.linalg.eigvalsh(values)
        if eigenvalues[0] < -_ROUNDING * eigenvalues[-1] or eigenvalues[-1] <= 0:
            raise InvalidInputError(
                f"The kernel {self.name} is not positive definite in {at.shape[1]}D: its matrix at {len(at)} points "
                f"about those in use has the eigenvalue {eigenvalues[0]:.3g}, of {eigenvalues[-1]:.3g} at most; use it "
                f"in fewer dimensions, or another one."
            )
        return values

    def _note(self, at: Floats, checked: int) -> None:
        """Warn once how slow it is, and at how many points it was checked."""
        name = f"{type(self.given).__module__}.{type(self.given).__qualname__}"
        if name in _noted:
            return
        _noted.add(name)
        many = np.resize(at, (_TIMED, at.shape[1]))
        reach = float(np.ptp(at, axis=0).max())
        built_in = KernelBundle.pyramid(smallest=reach / 2**_SCALES, levels=_SCALES)
        ratio = _seconds(lambda: self._values(many, many)) / _seconds(lambda: built_in.matrix(many, many))
        warnings.warn(
            f"The kernel {self.name} has no compiled loop: its values take about {ratio:.2g} times as long as those of "
            f"a KernelBundle of {_SCALES} scales, and maps are made without tiles. It was symmetric and positive "
            f"definite at {checked} points.",
            WarpgaugeWarning,
            stacklevel=2,
        )

    def with_weights(self, weights: ArrayLike) -> OwnKernel:
        """Return the same kernel with another weight and, where it has some, other parameters."""
        values = np.asarray(weights, dtype=np.float64)
        if len(self.parameters) == 0 or np.array_equal(values[1:], self.parameters):
            same = OwnKernel(self.given, float(values[0]))
            same._typical = self._typical
            return same
        return OwnKernel(self.given.with_parameters(values[1:].copy()), float(values[0]))

    def training(self, points: Floats, first: Ints, second: Ints) -> Training:
        """Return values and derivatives by weight and parameters for pairs of points."""
        if len(self.parameters) == 0:
            alone = self._values(points, points)[first, second][None]
            return lambda weights: (weights[0] * alone[0], alone)

        def values(weights: Floats) -> tuple[Floats, Floats]:
            now = self.with_weights(weights)
            one = now._values(points, points)
            slopes = now._slopes(points)
            return weights[0] * one[first, second], np.concatenate(
                [one[first, second][None], weights[0] * slopes[:, first, second]]
            )

        return values

    def _slopes(self, points: Floats) -> Floats:
        radial = not hasattr(self.given, "matrix")
        found = self.given.derivative(*([_squares(points, points)] if radial else [points, points]))
        slopes, expected = np.asarray(found, dtype=np.float64), (len(self.parameters), len(points), len(points))
        if slopes.shape != expected:
            raise InvalidInputError(
                f"derivative of the kernel {self.name} must have the shape {expected}, one matrix for each parameter, "
                f"got {slopes.shape}."
            )
        return slopes

    def search(self, spread: float) -> tuple[Floats, Floats, Floats]:
        """Start from what is given, and from a weight that gives the variance ``spread``."""
        sized = np.log(spread * self.weights[0] / self.at_zero) if self._typical else np.log(spread)
        starts = np.tile(np.log(self.weights), (3, 1))
        starts[1:, 0] = sized
        low, high = np.log(self.weights) - np.log(_RANGE), np.log(self.weights) + np.log(_RANGE)
        low[0] = min(starts[:, 0].min(), sized - DECADES_DOWN * np.log(10))
        high[0] = max(starts[:, 0].max(), sized + DECADES_UP * np.log(10))
        return starts, low, high


class Combined(Kernel):
    """The sum or the product of two kernels; a product is one of their values, pair by pair (Schur)."""

    family = "wendland"

    def __init__(self, parts: tuple[Kernel, Kernel], product: bool) -> None:
        self.parts, self.product = parts, product
        self.weights = np.concatenate([part.weights for part in parts])
        self._together = np.multiply if product else np.add

    def __repr__(self) -> str:
        return f"({(' * ' if self.product else ' + ').join(repr(part) for part in self.parts)})"

    @property
    def scales(self) -> Floats:  # type: ignore[override]
        """Lengths over which the parts vary that say so."""
        telling = [part for part in self.parts if not isinstance(part, OwnKernel) or hasattr(part.given, "scales")]
        return np.concatenate([part.scales for part in telling or self.parts[:1]])

    @property
    def at_zero(self) -> float:
        """Prior variance of each component."""
        return float(self._together.reduce([part.at_zero for part in self.parts]))

    def matrix(self, points: Floats, others: Floats, out: Floats | None = None) -> Floats:
        """Kernel between (n, d) points and (m, d) others, shape (n, m)."""
        one, other = self.parts
        block = one.matrix(points, others, out)
        return np.asarray(self._together(block, other.matrix(points, others), out=block))

    def diagonal(self, points: Floats) -> Floats:
        """Kernel of each point with itself."""
        return np.asarray(self._together.reduce([part.diagonal(points) for part in self.parts]))

    def _split(self, values: Floats) -> list[Floats]:
        return np.split(values, [len(self.parts[0].weights)])

    def with_weights(self, weights: ArrayLike) -> Combined:
        """Return the same kernel with other weights, those of one part after those of the other."""
        (one, other), (first, second) = self.parts, self._split(np.asarray(weights, dtype=np.float64))
        return Combined((one.with_weights(first), other.with_weights(second)), self.product)

    def training(self, points: Floats, first: Ints, second: Ints) -> Training:
        """Return values and derivatives by the weights: those of the parts, times the other parts in a product."""
        every = [part.training(points, first, second) for part in self.parts]

        def values(weights: Floats) -> tuple[Floats, Floats]:
            found = [one(own) for one, own in zip(every, self._split(weights), strict=True)]
            total = self._together.reduce([value for value, _ in found])
            if not self.product:
                return total, np.concatenate([slopes for _, slopes in found])
            (one, by_one), (other, by_other) = found
            return total, np.concatenate([by_one * other, by_other * one])

        return values

    def search(self, spread: float) -> tuple[Floats, Floats, Floats]:
        """Start from those of the parts; the other parts of a product begin at a variance of 1."""
        found = [part.search(1.0 if self.product and number else spread) for number, part in enumerate(self.parts)]
        starts, low, high = (np.concatenate(column, axis=-1) for column in zip(*found, strict=True))
        return starts, low, high


def _squares(points: Floats, others: Floats) -> Floats:
    """Squared distances, (n, m), as sums of squared differences: exactly zero between equal points."""
    squares = np.zeros((len(points), len(others)))
    for a in range(points.shape[1]):
        squares += np.square(points[:, a, None] - others[:, a])
    return squares


def _samples(points: Floats) -> list[Floats]:
    """Points that a kernel is checked at: some of those in use and near them; lattices over their box and half of it.

    What is positive definite on a line only shows on lattices rather than on random points.
    """
    rng, d = np.random.default_rng(0), points.shape[1]
    distinct = np.unique(points, axis=0)
    chosen = distinct[rng.permutation(len(distinct))[:_SAMPLE]]
    low, sides = points.min(axis=0), np.ptp(points, axis=0)
    sides = np.where(sides > 0, sides, sides.max() or 1.0)
    near = chosen[: _SAMPLE // 2] + 0.02 * sides * rng.standard_normal(chosen[: _SAMPLE // 2].shape)
    lattice = np.stack(np.meshgrid(*d * [np.linspace(0, 1, _LATTICE[d])]), axis=-1).reshape(-1, d)
    return [np.concatenate([chosen, near]), low + sides * lattice, low + 0.5 * sides * lattice]


def _seconds(work: Callable[[], Any]) -> float:
    """Shortest of three times, after one that may have to compile."""
    work()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
