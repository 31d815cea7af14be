r"""What of a place a kernel's values depend on, so that one form serves all kernels that vary in space.

.. math:: k(x, x') = a(x)\,a(x') \left(\frac{2\,l\,l'}{l^2 + l'^2}\right)^{m/2} \sum_s \theta_s
    \left(1 - o_s + o_s \sum_r \sqrt{p_r(x)\,p_r(x')}\right)
    \mathcal K\!\left(\frac{\lVert z(x) - z(x')\rVert}{\rho_s \sqrt{(l^2 + l'^2) / 2}}\right)

with coordinates ``z`` in m dimensions, an amplitude ``a``, a length scale ``l`` and probabilities ``p`` of regions,
each of which may be left out. It is positive definite: :math:`\mathcal K` after a map of the points is, whatever the
map, where it is in m dimensions; the sum over r and the product of amplitudes are Gram matrices; and sums and products
of positive definite functions are positive definite again. The factor with the length scales belongs to mixtures of
Gaussians alone (Paciorek and Schervish 2006), so that Wendland functions have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, Ints, readonly
from warpgauge.errors import InvalidInputError

# Which region each of (n, d) points lies in: (n,) whole numbers, or (n, R) probabilities of R regions.
Regions = Callable[[Floats], Ints | Floats]
# A positive number for each of (n, d) points, (n,), or one for each region.
Varying = Callable[[Floats], Floats] | Mapping[int, float]

# Probabilities of a point add up to 1 but for the rounding of single precision.
_ROUNDING = 1e-5
_MOST_WENDLAND = 3


def labels_at(regions: Regions, points: Floats) -> Ints:
    """Return the label of each of (n, d) points: where they have probabilities, the number of the most probable."""
    found = np.asarray(regions(points))
    return np.asarray(found if found.ndim == 1 else found.argmax(axis=1), dtype=np.int64)


def _axis_numbers(given: ArrayLike | None, name: str, *, infinite: bool = False) -> Floats | None:
    """Check one positive number for each axis; with ``infinite``, infinity stands for no such axis."""
    if given is None:
        return None
    array = np.array(given, dtype=np.float64)
    good = (array > 0) & (infinite | np.isfinite(array))
    if array.ndim != 1 or array.size not in (2, 3) or not good.all():
        raise InvalidInputError(f"KernelBundle {name} must be a positive number for each of 2 or 3 axes: {given!r}.")
    return readonly(array)


@dataclass(frozen=True, eq=False)
class Places:
    """What of places matters; nothing by default. Parameters are those of :class:`KernelBundle`."""

    regions: Regions | None = None
    axes: Floats | None = None
    period: Floats | None = None
    amplitude: Varying | None = None
    length: Varying | None = None

    @classmethod
    def of(
        cls,
        regions: Regions | None = None,
        axes: ArrayLike | None = None,
        period: ArrayLike | None = None,
        amplitude: Varying | None = None,
        length: Varying | None = None,
    ) -> Places:
        """Check what is given."""
        for name, given in (("amplitude", amplitude), ("length", length)):
            if isinstance(given, Mapping) and regions is None:
                raise InvalidInputError(f"KernelBundle {name} has a number for each region, but there are no regions.")
            if given is not None and not isinstance(given, Mapping) and not callable(given):
                raise InvalidInputError(
                    f"KernelBundle {name} must be a function of (n, d) points, or numbers of regions, got {given!r}."
                )
        return cls(
            regions, _axis_numbers(axes, "axes"), _axis_numbers(period, "period", infinite=True), amplitude, length
        )

    @property
    def uniform(self) -> bool:
        """Whether amplitude and length scale are the same everywhere, and no axis is periodic."""
        return self.amplitude is None and self.length is None and self.period is None

    def coordinates(self, points: Floats) -> Floats:
        """Coordinates that distances are taken in, (n, m): stretched along axes, and on circles for periodic ones."""
        result = points if self.axes is None else points / self._for(points, self.axes, "axes")
        if self.period is None:
            return result
        period = self._for(points, self.period, "period")
        around = np.isfinite(period)
        # A circle whose circumference is the period: the distance of near points stays what it is.
        radii = (period if self.axes is None else period / self.axes)[around] / (2 * np.pi)
        angles = 2 * np.pi / period[around] * points[:, around]
        return np.concatenate([result[:, ~around], radii * np.cos(angles), radii * np.sin(angles)], axis=1)

    def check_wendland(self, points: Floats) -> None:
        """Refuse what makes Wendland functions lose definiteness."""
        m = self.coordinates(points[:0]).shape[1]
        if m > _MOST_WENDLAND:
            raise InvalidInputError(
                f"Wendland functions are positive definite in at most 3 dimensions, but with this period the points "
                f"have {m}; use another family, such as gaussian."
            )

    @staticmethod
    def _for(points: Floats, numbers: Floats, name: str) -> Floats:
        if numbers.size != points.shape[1]:
            raise InvalidInputError(
                f"KernelBundle {name} has {numbers.size} numbers, but the points have {points.shape[1]} axes."
            )
        return numbers

    def marks(self, points: Floats, divided: bool) -> Floats:
        """Return marks of (n, d) points as the compiled loops take them (compiled.py), (n, q).

        ``divided`` says whether regions make a difference.
        """
        varying = [one for one in (self.amplitude, self.length) if one is not None]
        if not divided and not varying:
            return np.empty((len(points), 0))
        asked = divided or any(isinstance(one, Mapping) for one in varying)
        known = self._regions(points) if asked else np.zeros(len(points))
        hard = not divided or known.ndim == 1
        if hard and not varying:
            return known[:, None].copy()
        labels = known if hard and divided else np.zeros(len(points))
        roots = np.empty((len(points), 0)) if hard else np.sqrt(known)
        if not varying:
            return np.concatenate([np.zeros((len(points), 3)), roots], axis=1)
        amplitude = self._values(self.amplitude, "amplitude", points, known)
        squares = np.square(self._values(self.length, "length", points, known))
        return np.ascontiguousarray(np.column_stack([labels, amplitude, squares, roots]))

    def _regions(self, points: Floats) -> Floats:
        """Labels (n,), or probabilities (n, R) that add up to 1."""
        assert self.regions is not None
        found, n = np.asarray(self.regions(points)), len(points)
        if found.shape == (n,) and np.issubdtype(found.dtype, np.integer):
            return found.astype(np.float64)
        if found.ndim == 2 and len(found) == n and np.issubdtype(found.dtype, np.floating):
            sums = found.sum(axis=1, keepdims=True)
            if (found >= 0).all() and (np.abs(sums - 1) < _ROUNDING).all():
                return np.asarray(found / sums)
            raise InvalidInputError("The regions must give probabilities from 0 on that add up to 1 at every point.")
        raise InvalidInputError(
            f"The regions must give a whole number for each of {n} points, or its probabilities, got {found.dtype} of "
            f"shape {found.shape}."
        )

    @staticmethod
    def _values(given: Varying | None, name: str, points: Floats, known: Floats) -> Floats:
        """Values of amplitude or length scale at the points; 1 where none is given, the mean over soft regions."""
        if given is None:
            return np.ones(len(points))
        if not isinstance(given, Mapping):
            values = np.asarray(given(points), dtype=np.float64)
        else:
            labels = [int(one) for one in (range(known.shape[1]) if known.ndim == 2 else np.unique(known))]
            missing = [label for label in labels if label not in given]
            if missing:
                raise InvalidInputError(f"KernelBundle {name} has no number for the region {missing[0]}.")
            if known.ndim == 2:
                values = np.asarray(known @ np.array([given[label] for label in labels], dtype=np.float64))
            else:
                values = np.array([given[int(label)] for label in known], dtype=np.float64)
        if values.shape != (len(points),) or not np.isfinite(values).all() or not (values > 0).all():
            raise InvalidInputError(
                f"KernelBundle {name} must be a positive finite number at each of {len(points)} points, got shape "
                f"{values.shape}" + (" with others." if values.shape == (len(points),) else ".")
            )
        return values

    def pairs(self, points: Floats, first: Ints, second: Ints) -> tuple[Floats, Floats, Floats]:
        """Distances, factors and what is in common of regions for pairs of points: the loops' form, written plainly."""
        at, marks = self.coordinates(points), self.marks(points, divided=self.regions is not None)
        distances = np.linalg.norm(at[first] - at[second], axis=1)
        times, common = np.ones(len(first)), np.ones(len(first))
        if self.regions is not None:
            roots, labels = marks[:, 3:], marks[:, 0]
            soft = roots.shape[1] > 0
            common = (
                np.einsum("pr,pr->p", roots[first], roots[second]) if soft else (labels[first] == labels[second]) * 1.0
            )
        if self.amplitude is not None or self.length is not None:
            amplitude, squares = marks[:, 1], marks[:, 2]
            mean = (squares[first] + squares[second]) / 2
            ratio = np.sqrt(squares[first] * squares[second]) / mean
            times = amplitude[first] * amplitude[second] * ratio ** (at.shape[1] / 2)
            distances = distances / np.sqrt(mean)
        return distances, times, common
