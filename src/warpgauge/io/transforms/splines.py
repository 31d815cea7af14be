"""Spline transforms of ITK and elastix: B-splines on a control grid, and kernel splines through landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import Description, Transform
from warpgauge.io.transforms.field import BORDER, LatticeTransform, Vectors

_NAMES = {1: "linear", 2: "quadratic", 3: "cubic"}


class BSplineTransform(LatticeTransform):
    """``x -> x + sum_i c_i B(u(x) - i)`` with ``u`` the control index and ``B`` the centred B-spline of ``order``.

    It is defined where the whole support lies on the control grid, ``(order - 1) / 2 <= u <= n - 1 - (order - 1) / 2``
    along each axis. ITK and elastix give the identity beyond that; here such points are masked.

    Parameters
    ----------
    coefficients : (d, y, x) or (d, z, y, x) array
        Displacement coefficients, world components x, y[, z] first.
    grid : Grid
        The control grid.
    order : int
        1, 2 or 3.
    description : Description, optional
        What is known of it.
    """

    def __init__(
        self, coefficients: Vectors, grid: Grid, order: int = 3, description: Description | None = None
    ) -> None:
        if order not in _NAMES:
            raise InvalidInputError(f"A B-spline transform has order 1, 2 or 3, got {order!r}.")
        margin = (order - 1) / 2
        super().__init__(
            coefficients,
            grid,
            order=order,
            margin=margin,
            absolute=False,
            description=description or bspline_description(order, "memory"),
        )
        if self._gaps:
            raise InvalidInputError("The coefficients of a B-spline transform must be finite, but some are not.")


def bspline_description(order: int, file_format: str, **more: Any) -> Description:
    """Describe a B-spline transform of a given order."""
    margin = (order - 1) / 2
    return Description(
        format=file_format,
        kind=f"{_NAMES.get(order, order)} B-spline",
        interpolation=f"B-spline of order {order} on its control grid",
        outside=(
            f"masked (NaN) outside control indices [{margin:g}, n - {1 + margin:g}] (within {BORDER:g} of the border "
            f"counts as on it), where ITK and elastix would jump to the identity"
        ),
        **more,
    )


# The largest array that a block of points may need: points x landmarks x d x d numbers.
_NUMBERS = 2**22
_LARGEST = 9000  # coordinates of all landmarks together; the square of this many numbers are 0.6 GB
ISOTROPIC = ("ThinPlateSpline", "ThinPlateR2LogRSpline", "VolumeSpline")
ELASTIC = ("ElasticBodySpline", "ElasticBodyReciprocalSpline")


class KernelSpline(Transform):
    """``x -> x + A x + b + sum_i G(x - p_i) w_i``, whose weights interpolate landmarks.

    With ``r`` the length of ``x`` and ``I`` the identity, ``G`` is ``r I`` (thin plate), ``r^2 log r I`` (thin plate in
    2D), ``r^3 I`` (volume), ``r (a r^2 I - 3 x x^T)`` with ``a = 12 (1 - nu) - 1`` (elastic body) or
    ``a r I - x x^T / r`` with ``a = 8 (1 - nu) - 1`` (elastic body, reciprocal).

    Parameters
    ----------
    source, target : (m, d) arrays
        Fixed landmarks ``p_i`` and where they go.
    kernel : str
        One of the names in `ISOTROPIC` and `ELASTIC`.
    stiffness : float
        0 interpolates; larger values smooth.
    poisson : float
        The ratio ``nu`` of the elastic kernels.
    description : Description, optional
        What is known of it.
    """

    def __init__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        kernel: str = "ThinPlateSpline",
        *,
        stiffness: float = 0.0,
        poisson: float = 0.3,
        description: Description | None = None,
    ) -> None:
        self._source = np.array(source, dtype=np.float64)
        moved = np.array(target, dtype=np.float64)
        if self._source.ndim != 2 or self._source.shape != moved.shape or self._source.shape[1] not in (2, 3):
            raise InvalidInputError(
                f"A spline through landmarks needs two equal (m, d) arrays, got {self._source.shape}, {moved.shape}."
            )
        if kernel not in ISOTROPIC + ELASTIC:
            raise InvalidInputError(
                f"There is no spline kernel {kernel!r}; known are {', '.join(ISOTROPIC + ELASTIC)}."
            )
        if not (
            np.isfinite(self._source).all() and np.isfinite(moved).all() and np.isfinite([stiffness, poisson]).all()
        ):
            raise InvalidInputError("A spline through landmarks needs finite numbers, but some are not.")
        if self._source.size > _LARGEST:
            raise InvalidInputError(
                f"A spline through {len(self._source)} landmarks needs a matrix too large to solve; at most "
                f"{_LARGEST // self._source.shape[1]} are taken."
            )
        words = f"{kernel} through landmarks"
        super().__init__(description or Description(kind=words, interpolation=words), self._source.shape[1])
        self._kernel, self._poisson = kernel, poisson
        self._weights, self._linear = self._fit(moved - self._source, stiffness)

    def _fit(self, displacements: Floats, stiffness: float) -> tuple[Floats, Floats]:
        """Solve for the weights (m, d) and the affine part (d + 1, d)."""
        m, d = self._source.shape
        polynomial = np.hstack([self._source, np.ones((m, 1))])
        reach = self._green(self._source)
        if self._kernel in ELASTIC:
            system = reach.transpose(0, 2, 1, 3).reshape(m * d, m * d)
            border = np.kron(polynomial, np.eye(d))
            right = displacements.reshape(-1, 1)
        else:
            system, border, right = reach, polynomial, displacements
        np.fill_diagonal(system, stiffness)
        if self._kernel in ELASTIC:  # the whole block of a landmark with itself is stiffness times the identity
            blocks = system.reshape(m, d, m, d)
            blocks[np.arange(m), :, np.arange(m), :] = stiffness * np.eye(d)
        zeros = np.zeros((border.shape[1], border.shape[1]))
        matrix = np.block([[system, border], [border.T, zeros]])
        right = np.vstack([right, np.zeros((border.shape[1], right.shape[1]))])
        try:
            solution = np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            solution = np.full_like(right, np.nan)
        if not np.isfinite(solution).all():
            raise InvalidInputError(f"No spline goes through these {m} landmarks: some coincide, or all lie on a line.")
        return solution[: len(border)].reshape(m, d), solution[len(border) :].reshape(d + 1, d)

    def _green(self, points: Floats) -> Floats:
        """Return G(point - landmark): (n, m) where it is a multiple of the identity, else (n, m, d, d)."""
        away = points[:, None, :] - self._source[None, :, :]
        squared: Floats = np.einsum("nmd,nmd->nm", away, away)
        r: Floats = np.sqrt(squared)
        if self._kernel == "ThinPlateSpline":
            return r
        if self._kernel == "ThinPlateR2LogRSpline":
            return np.asarray(squared * np.log(np.where(r > 0, r, 1.0)))
        if self._kernel == "VolumeSpline":
            return np.asarray(r * squared)
        outer = away[..., :, None] * away[..., None, :]
        r, squared, eye = r[..., None, None], squared[..., None, None], np.eye(self.d)
        if self._kernel == "ElasticBodySpline":
            return np.asarray(r * ((12 * (1 - self._poisson) - 1) * squared * eye - 3 * outer))
        return np.asarray((8 * (1 - self._poisson) - 1) * r * eye - outer / np.where(r > 0, r, 1.0))

    def _map(self, points: Floats) -> Floats:
        mapped = np.full(points.shape, np.nan)
        finite = np.flatnonzero(np.isfinite(points).all(axis=1))
        elastic = self._kernel in ELASTIC
        block = max(1, _NUMBERS // (len(self._source) * self.d * (self.d if elastic else 1)))
        for start in range(0, len(finite), block):
            rows = finite[start : start + block]
            x = points[rows]
            green = self._green(x)
            with np.errstate(over="ignore", invalid="ignore"):
                bent = np.einsum("nmab,mb->na", green, self._weights) if elastic else green @ self._weights
                mapped[rows] = x + x @ self._linear[:-1] + self._linear[-1] + bent
        mapped[~np.isfinite(mapped).all(axis=1)] = np.nan
        return mapped
