"""Numerical inverses of transforms without a closed form, solved point by point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.transforms.lattice import LatticeTransform
from warpgauge.io.transforms.transform import Transform

_SEEDS = 20_000  # places from which a search may start
_STEPS = 60
_STARTS = 4
_HALVINGS = 12


class NumericalInverse(Transform):
    """The inverse of a transform ``T``: for each point ``y`` the ``x`` with ``|T(x) - y| <= tolerance``.

    A damped Newton iteration starts from the sample of the domain whose image lies nearest to ``y``. A point without
    a solution within the tolerance, in world units, is masked, for instance because its origin lies outside the domain
    of ``T``. Where ``T`` folds there are several solutions, and one of them is given.
    """

    def __init__(self, forward: Transform, tolerance: float = 1e-6) -> None:
        from scipy.spatial import cKDTree

        if not tolerance > 0:
            raise InvalidInputError(f"The tolerance of an inverse must be positive, got {tolerance!r}.")
        within = f"within {tolerance:g} world units"
        super().__init__(forward.d, f"numerical inverse of {forward.description.kind}")
        note = f"Inverted numerically {within}; where the transform folds, one of several solutions is given."
        self.description = self.described(**forward._turned(note)).description
        self.forward = forward
        self.tolerance = float(tolerance)
        self._h = 1e-4 if forward.support is None else 1e-4 * float(forward.support.spacing.min())
        self._tree: Any = None  # of the images of samples of the domain, where its extent is known
        seeds = _seeds(forward)
        if seeds is not None:
            images = forward._map(seeds)
            finite = np.isfinite(images).all(axis=1)
            if not finite.any():
                raise InvalidInputError("This transform cannot be inverted: it maps none of its own grid nodes.")
            self._origins = seeds[finite]
            self._tree = cKDTree(images[finite])

    def inverse(self) -> Transform:
        """Return the transform that this one inverts."""
        return self.forward

    def _map(self, points: Floats) -> Floats:
        solution = np.full(points.shape, np.nan)
        left = np.flatnonzero(np.isfinite(points).all(axis=1))
        for attempt in range(_STARTS):
            start = self._start(points[left], attempt)
            if start is None:
                break
            x, error = self._newton(points[left], start)
            good = (error <= self.tolerance) & np.isfinite(self.forward._map(x)).all(axis=1)
            solution[left[good]] = x[good]
            left = left[~good]
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
        self, rows: NDArray[np.intp], step: Floats, targets: Floats, x: Floats, gap: Floats, error: Floats
    ) -> NDArray[np.bool_]:
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
            x[chosen] = trial[better]
            gap[chosen] = trial_gap[better]
            error[chosen] = trial_error[better]
            moved[left[better]] = True
            scale /= 2
        return moved


def _lengths(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1)
    lengths[~np.isfinite(lengths)] = np.inf
    return np.asarray(lengths)


def _seeds(forward: Transform) -> Floats | None:
    """Spread samples over where the transform is defined, its corners included."""
    grid = forward.support
    if grid is None:
        return None
    margin = forward.margin if isinstance(forward, LatticeTransform) else 0.0
    count = int(_SEEDS ** (1 / grid.d))
    axes = [np.linspace(margin, n - 1 - margin, min(count, max(2 * n, 2))) for n in grid.size]
    index = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, grid.d)
    return grid.index_to_world(index)
