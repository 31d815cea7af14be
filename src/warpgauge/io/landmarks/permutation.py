"""Search for rows that probably do not correspond: another pairing that fits an affine map far better.

The threshold was chosen on the 50 pairs of stains of five CIMA regions and on ten DIR-Lab cases: none of the 60 is
reported as published, all are with their rows shuffled or moved by one, and 55 with two random rows exchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpgauge.geometry import Floats

# An assignment takes the cube of the number of points; above this the check is left out.
_MOST = 600
_ROUNDS = 12
_REWEIGHTINGS = 10
# A pairing is reported when the mean residual of the pairs that it changes drops below this share.
_RATIO = 0.4


@dataclass(frozen=True, eq=False)
class Permutation:
    """A pairing that fits far better than the one given.

    ``order`` has the moving row that fits each fixed row, ``rows`` the fixed rows whose partner changes, counted from
    0; ``given`` and ``better`` are the mean residuals of these rows about an affine map in world units, as paired and
    anew.
    """

    order: NDArray[np.intp]
    rows: tuple[int, ...]
    given: float
    better: float

    def sentence(self, units: str) -> str:
        """Return the finding as one sentence."""
        shown = ", ".join(str(row + 1) for row in self.rows[:6]) + (", ..." if len(self.rows) > 6 else "")
        return (
            f"the rows probably do not correspond: {len(self.rows)} pairs (rows {shown}) lie {self.given:.3g} {units} "
            f"from an affine map as paired, and {self.better:.3g} {units} with the moving points in another order"
        )


def likely_permutation(fixed_points: Floats, moving_points: Floats) -> Permutation | None:
    """Return a pairing that fits an affine map far better than the one given; None where there is none.

    The affine map is fitted robustly, and points are assigned to each other so that the squared residuals are least,
    in turns, from several starts (the pairs as given; both sets laid over each other by centre and moments).
    """
    n, d = fixed_points.shape
    if not 2 * d + 4 <= n <= _MOST or not (_spread(fixed_points) and _spread(moving_points)):
        return None
    as_given = robust_affine(fixed_points, moving_points)
    residuals = _residuals(as_given, fixed_points, moving_points)
    found = [_settled(as_given, fixed_points, moving_points)]
    if np.array_equal(found[0][0], np.arange(n)):  # no point has a better partner: the usual case, found quickly
        return None
    found += [_settled(start, fixed_points, moving_points) for start in _starts(fixed_points, moving_points)]
    order, better = min(found, key=lambda one: float(np.median(one[1])))
    rows = np.flatnonzero(order != np.arange(n))
    if not len(rows) or not better[rows].mean() < _RATIO * residuals[rows].mean():
        return None
    return Permutation(
        order, tuple(int(row) for row in rows), float(residuals[rows].mean()), float(better[rows].mean())
    )


def _spread(points: Floats) -> bool:
    values = np.linalg.eigvalsh(np.cov(points.T))
    return bool(values[0] > 1e-6 * values[-1] > 0)


def _design(points: Floats) -> Floats:
    return np.column_stack([np.ones(len(points)), points])


def _residuals(coefficients: Floats, fixed: Floats, moving: Floats) -> Floats:
    return np.asarray(np.linalg.norm(moving - _design(fixed) @ coefficients, axis=1))


def robust_affine(fixed: Floats, moving: Floats) -> Floats:
    """Return the coefficients (d + 1, d) of an affine map, with pairs far from it given little weight."""
    design = _design(fixed)
    weights = np.ones(len(fixed))
    coefficients: Floats = np.zeros((fixed.shape[1] + 1, fixed.shape[1]))
    for _ in range(_REWEIGHTINGS):
        root = weights[:, None]
        coefficients = np.asarray(np.linalg.lstsq(design * root, moving * root, rcond=None)[0], dtype=np.float64)
        residuals = _residuals(coefficients, fixed, moving)
        scale = max(float(np.median(residuals)), 1e-12 * float(np.abs(moving).max() + 1))
        weights = 1 / (1 + (residuals / scale) ** 2)
    return coefficients


def _starts(fixed: Floats, moving: Floats) -> Iterator[Floats]:
    d = fixed.shape[1]
    centres = fixed.mean(axis=0), moving.mean(axis=0)
    yield np.vstack([centres[1] - centres[0], np.eye(d)])
    (sizes, axes), (other_sizes, other_axes) = (np.linalg.eigh(np.cov(points.T)) for points in (fixed, moving))
    for signs in itertools.product((1.0, -1.0), repeat=d):
        matrix = other_axes @ np.diag(np.array(signs) * np.sqrt(other_sizes / sizes)) @ axes.T
        if np.linalg.det(matrix) > 0:
            yield np.vstack([centres[1] - matrix @ centres[0], matrix.T])


def _settled(coefficients: Floats, fixed: Floats, moving: Floats) -> tuple[NDArray[np.intp], Floats]:
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    order: NDArray[np.intp] = np.arange(len(fixed))
    for turn in range(_ROUNDS):
        found = linear_sum_assignment(cdist(_design(fixed) @ coefficients, moving, "sqeuclidean"))[1]
        if turn and np.array_equal(found, order):
            break
        order = found
        coefficients = robust_affine(fixed, moving[order])
    return order, _residuals(coefficients, fixed, moving[order])
