"""Numerical inverses of transforms without a closed form: solved point by point, with the residual."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.transforms.base import Description, Transform, flipped
from warpgauge.io.transforms.field import LatticeTransform

_SEEDS = 20_000  # places from which a search may start
_PROBES = 500  # points at which the residual of a new inverse is measured
_STEPS = 60
_STARTS = 4
_HALVINGS = 12


class NumericalInverse(Transform):
    """The inverse of a transform ``T``: for each point ``y`` the ``x`` with ``|T(x) - y| <= tolerance``.

    A damped Newton iteration starts from the sample of the domain whose image lies nearest to ``y``. A point without
    a solution within the tolerance, for instance because its origin lies outside the domain of ``T``, is masked.
    Where ``T`` folds there are several solutions, and one of them is given.

    Parameters
    ----------
    forward : Transform
        The transform ``T``.
    tolerance : float
        Largest residual in world units.
    """

    def __init__(self, forward: Transform, tolerance: float = 1e-6) -> None:
        from scipy.spatial import cKDTree

        if not tolerance > 0:
            raise InvalidInputError(f"The tolerance of an inverse must be positive, got {tolerance!r}.")
        super().__init__(forward.description, forward.d)
        self.forward = forward
        self.tolerance = float(tolerance)
        grid = forward.support
        self._h = 1e-4 if grid is None else 1e-4 * float(grid.spacing.min())
        self._tree: Any = None  # a cKDTree once it is needed
        seeds = _seeds(forward)
        if seeds is not None:
            images = forward._map(seeds)
            kept = np.isfinite(images).all(axis=1)
            if not kept.any():
                raise InvalidInputError("This transform cannot be inverted: it maps none of its own grid nodes.")
            self._origins = seeds[kept]
            self._tree = cKDTree(images[kept])
        self._description = self._describe()

    def inverse(self, *, tolerance: float = 1e-6) -> Transform:
        """Return the transform that this one inverts (``tolerance`` plays no part)."""
        return self.forward

    def residual(self, points_world: ArrayLike) -> Floats:
        """Return ``|T(inverse(y)) - y|`` of each point in world units; NaN where the inverse is not defined."""
        return residual(self.forward, self, self._checked(points_world))

    def _describe(self) -> Description:
        sentence = f"Inverted numerically to a residual of at most {self.tolerance:g} world units"
        if self._tree is not None:
            sentence += _measured(self.forward, self, self._origins)
        about = replace(
            flipped(self.forward.description),
            kind=f"numerical inverse of {self.forward.description.kind}",
            outside=f"masked (NaN) where no solution within {self.tolerance:g} world units was found",
        )
        return about.assuming(sentence + "; where the transform folds, one of several solutions is given.")

    def _map(self, points: Floats) -> Floats:
        solution = np.full(points.shape, np.nan)
        todo = np.flatnonzero(np.isfinite(points).all(axis=1))
        for attempt in range(_STARTS):
            start = self._start(points[todo], attempt)
            if start is None:
                break
            found, error = self._newton(points[todo], start)
            good = (error <= self.tolerance) & self.forward._domain(found)
            solution[todo[good]] = found[good]
            todo = todo[~good]
        return solution

    def _start(self, targets: Floats, attempt: int) -> Floats | None:
        """Return where to start the given attempt: at the sample with the next nearest image, or at the target."""
        if not len(targets):
            return None
        if self._tree is None:
            return targets.copy() if attempt == 0 else None
        if attempt >= len(self._origins):
            return None
        _, nearest = self._tree.query(targets, k=[attempt + 1])
        start: Floats = self._origins[nearest[:, 0]]
        return start

    def _newton(self, targets: Floats, x: Floats) -> tuple[Floats, Floats]:
        """Return solutions from one start, and their residuals (infinite where the start is not mapped)."""
        gap = self.forward._extended(x) - targets
        error = _lengths(gap)
        active = np.isfinite(error) & (error > 0)
        for _ in range(_STEPS):
            rows = np.flatnonzero(active)
            if not len(rows):
                break
            step = self._newton_step(x[rows], gap[rows], targets[rows])
            moved = self._descend(rows, step, targets, x, gap, error)
            # One step beyond the tolerance brings the residual to rounding; after that, or without progress, stop.
            active[rows] = moved & (error[rows] > 1e-3 * self.tolerance)
        return x, error

    def _newton_step(self, x: Floats, gap: Floats, targets: Floats) -> Floats:
        jacobian = np.empty((len(x), self.d, self.d))
        for axis in range(self.d):
            offset = np.zeros(self.d)
            offset[axis] = self._h
            change = self.forward._extended(x + offset) - targets - gap
            lost = ~np.isfinite(change).all(axis=1)
            if lost.any():
                change[lost] = gap[lost] - (self.forward._extended(x[lost] - offset) - targets[lost])
            jacobian[:, :, axis] = change / self._h
        # Where a neighbour on either side is undefined, the step of the identity is taken.
        jacobian[~np.isfinite(jacobian).all(axis=(1, 2))] = np.eye(self.d)
        try:
            steps = np.linalg.solve(jacobian, -gap[:, :, None])
        except np.linalg.LinAlgError:
            steps = np.linalg.pinv(jacobian) @ -gap[:, :, None]
        return np.asarray(steps[:, :, 0], dtype=np.float64)

    def _descend(
        self,
        rows: np.ndarray[tuple[int], np.dtype[np.intp]],
        step: Floats,
        targets: Floats,
        x: Floats,
        gap: Floats,
        error: Floats,
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Move ``x[rows]`` along the steps, halved until the residual falls; tell which moved."""
        moved = np.zeros(len(rows), dtype=np.bool_)
        scale = 1.0
        for _ in range(_HALVINGS):
            left = np.flatnonzero(~moved)
            if not len(left):
                break
            at = rows[left]
            trial = x[at] + scale * step[left]
            trial_gap = self.forward._extended(trial) - targets[at]
            trial_error = _lengths(trial_gap)
            better = trial_error < error[at]
            chosen = at[better]
            x[chosen], gap[chosen], error[chosen] = trial[better], trial_gap[better], trial_error[better]
            moved[left[better]] = True
            scale /= 2
        return moved


def residual(forward: Transform, backward: Transform, points: Floats) -> Floats:
    """Return ``|T(inverse(y)) - y|`` of each point; NaN where the inverse is not defined."""
    return np.asarray(np.linalg.norm(forward._map(backward._map(points)) - points, axis=1))


def _measured(forward: Transform, backward: Transform, origins: Floats) -> str:
    # Half way between two samples, since at a sample itself the search would start at its end.
    between = (origins[1:] + origins[:-1]) / 2 if len(origins) > 1 else origins
    probes = forward._map(between[:: max(1, len(between) // _PROBES)])
    probes = probes[np.isfinite(probes).all(axis=1)]
    found = residual(forward, backward, probes)
    solved = np.isfinite(found)
    worst = f"{found[solved].max():.2g}" if solved.any() else "unknown"
    return f"; measured maximum {worst} at {np.count_nonzero(solved)} of {len(probes)} probes, the others masked"


def _lengths(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1)
    lengths[~np.isfinite(lengths)] = np.inf
    return np.asarray(lengths)


def _seeds(forward: Transform) -> Floats | None:
    """Spread samples over where the transform is defined, its corners included."""
    grid = forward.support
    if grid is None:
        return None
    margin = forward._margin if isinstance(forward, LatticeTransform) else 0.0
    count = int(_SEEDS ** (1 / grid.d))
    axes = [np.linspace(margin, n - 1 - margin, min(count, max(2 * n, 2))) for n in grid.size]
    index = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, grid.d)
    return grid.index_to_world(index)
