"""Deformations that are known exactly: the flow of a velocity field, its inverse and its folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.parallel import over_rows
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order
from warpgauge.io.transforms.base import Description, Transform, flipped
from warpgauge.simulate.flow_loops import evaluate_field, invert_points, node_determinants, step_nodes
from warpgauge.simulate.velocity import Velocity, random_velocity

# A world point on the border comes back from the index frame with rounding: this much of an index counts as on it.
BORDER = 1e-6
_TOLERANCE = 1e-8  # of the inverse, in pixels


class SimulatedDeformation(Transform):
    """The flow ``phi`` of a stationary velocity field after one unit of time; maps fixed to moving points.

    The velocity is sampled at the pixel centres and integrated by scaling and squaring: a midpoint step of length
    ``2^-squarings``, composed with itself ``squarings`` times on a grid that is enlarged by as much as points can
    leave the image. The displacements at the pixel centres, multilinear between them, *are* the true transformation
    from then on: `map` evaluates them, and `inverse_map` inverts exactly that.

    Both are defined where the fixed point lies between the outer pixel centres (within 1e-6 of an index); elsewhere
    they give NaN.

    Parameters
    ----------
    velocity : VelocityField
        As `random_velocity` gives it, or another velocity over a grid.
    squarings : int, optional
        By default so many that the first step is at most 0.1 pixels long, and at least 5.
    allow_folding : bool
        Whether to go on where the result folds; by default that is an error that states the fraction of folded pixels.

    Attributes
    ----------
    folding_fraction : float
        Share of the pixels with a Jacobian determinant of 0 or less, see `jacobian_determinants`.
    """

    def __init__(self, velocity: Velocity, *, squarings: int | None = None, allow_folding: bool = False) -> None:
        if squarings is not None and not 0 <= squarings <= 30:
            raise InvalidInputError(f"squarings must lie between 0 and 30, got {squarings!r}.")
        self.velocity = velocity
        self.grid = velocity.grid
        dense = velocity.index_velocity()
        self.squarings = squarings_needed(dense, self.grid) if squarings is None else int(squarings)
        self._size = np.asarray(self.grid.size, dtype=np.int64)
        self._pad = excursions(dense, self.grid)
        displaced = flow(padded(dense, self.grid, self._pad), self._size + 2 * self._pad, self.squarings)
        del dense
        inner = tuple(slice(p, p + n) for p, n in zip(array_order(self._pad), self.grid.shape, strict=True))
        whole = displaced.reshape(*array_order(self._size + 2 * self._pad), self.grid.d)
        self._displacements = np.ascontiguousarray(whole[inner]).reshape(-1, self.grid.d)
        self.folding_fraction = float(np.mean(self.jacobian_determinants() <= 0))
        if self.folding_fraction > 0 and not allow_folding:
            raise InvalidInputError(
                f"The deformation folds at {100 * self.folding_fraction:.3g} % of the pixels; take a smaller amplitude "
                "or a larger control spacing, or allow_folding=True."
            )
        super().__init__(_description(self), self.grid.d, self.grid)

    def displacements(self) -> Floats:
        """``phi(x) - x`` at the pixel centres in world units, components first: (d, y, x) or (d, z, y, x)."""
        world = (self._displacements * self.grid.spacing) @ self.grid.direction.T
        return np.ascontiguousarray(world.T).reshape(self.d, *self.grid.shape)

    def jacobian_determinants(self) -> Floats:
        """Jacobian determinant of `map` at each pixel centre, an array on the grid.

        The map is multilinear in each cell between centres, so at a centre it has one Jacobian for each of the (up to
        2^d) cells that meet there; the smallest determinant is given. In 2D the determinant is linear in a cell, so if
        all values are positive the map folds nowhere; in 3D it is positive at all corners of all cells.
        """
        out = np.empty(self.grid.count)
        over_rows(lambda a, b: node_determinants(self._displacements, self._size, a, b, out), len(out), COST)
        return out.reshape(self.grid.shape)

    def _inside(self, index: Floats) -> Bools:
        with np.errstate(invalid="ignore"):
            return np.asarray(((index >= -BORDER) & (index <= self._size - 1 + BORDER)).all(axis=1))

    def _domain(self, points: Floats) -> Bools:
        return self._inside(self.grid.world_to_index(points))

    def _map(self, points: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            index = self.grid.world_to_index(points)
        mapped = np.full(points.shape, np.nan)
        inside = self._inside(index)
        kept = np.ascontiguousarray(index[inside])
        mapped[inside] = self.grid.index_to_world(kept + evaluated(self._displacements, self._size, kept))
        return mapped

    @cached_property
    def _backward(self) -> Floats:
        """Displacements of the flow of the reversed velocity on the enlarged grid: where to start the inverse."""
        reverse = padded(-self.velocity.index_velocity(), self.grid, self._pad)
        return flow(reverse, self._size + 2 * self._pad, self.squarings)

    def _reversed_flow(self, points_index: Floats) -> Floats:
        """Follow the reversed velocity from (n, d) indices: the inverse, up to the errors of the integration."""
        size = self._size + 2 * self._pad
        return points_index + evaluated(self._backward, size, points_index + self._pad)

    def inverse_map(self, points_world: ArrayLike) -> Floats:
        """Map (n, d) moving points to the fixed points that `map` sends there; NaN where there is none.

        The flow of the reversed velocity, which scaling and squaring leaves a little off, is only the start of a
        Newton iteration that solves ``map(x) = y`` to 1e-8 pixels. A moving point may lie outside the grid, so long
        as its origin lies inside. Where the deformation folds there are several origins, and one of them is given.
        """
        points = self._checked(points_world)
        solution = np.full(points.shape, np.nan)
        rows = np.flatnonzero(np.isfinite(points).all(axis=1))
        targets = self.grid.world_to_index(points[rows])
        x = self._reversed_flow(targets)
        solved = np.zeros(len(rows), dtype=np.bool_)
        over_rows(
            lambda a, b: invert_points(self._displacements, self._size, targets, _TOLERANCE, a, b, x, solved),
            len(rows),
            COST,
        )
        solved &= self._inside(x)
        solution[rows[solved]] = self.grid.index_to_world(x[solved])
        return solution

    def inverse(self, *, tolerance: float = 1e-6) -> Transform:
        """Return `inverse_map` as a transform (``tolerance`` plays no part: it is always 1e-8 pixels)."""
        return InverseDeformation(self)


class InverseDeformation(Transform):
    """The inverse of a simulated deformation; maps moving to fixed points.

    Parameters
    ----------
    forward : SimulatedDeformation
        What to invert.
    """

    def __init__(self, forward: SimulatedDeformation) -> None:
        about = replace(
            flipped(forward.description),
            kind=f"inverse of {forward.description.kind}",
            outside="masked (NaN) where no fixed point between the outer pixel centres is mapped to",
        )
        super().__init__(about, forward.d)
        self.forward = forward

    def _map(self, points: Floats) -> Floats:
        return self.forward.inverse_map(points)

    def inverse(self, *, tolerance: float = 1e-6) -> Transform:
        """Return the deformation that this one inverts (``tolerance`` plays no part)."""
        return self.forward


def random_deformation(
    grid: Grid,
    amplitude: float,
    spacing: float | Sequence[float],
    seed: int,
    mask: ArrayLike | None = None,
    *,
    taper: float | None = None,
    taper_side: Literal["outside", "inside"] = "outside",
    allow_folding: bool = False,
) -> SimulatedDeformation:
    """Draw a velocity field as `random_velocity` does and integrate it to a `SimulatedDeformation`."""
    velocity = random_velocity(grid, amplitude, spacing, seed, mask, taper=taper, taper_side=taper_side)
    return SimulatedDeformation(velocity, allow_folding=allow_folding)


def _description(deformation: SimulatedDeformation) -> Description:
    return Description(
        kind="simulated deformation",
        units=deformation.grid.units,
        interpolation="linear",
        outside="masked (NaN) beyond the outer pixel centres of the fixed image",
        assumptions=(
            f"A stationary velocity field was integrated by scaling and squaring with {deformation.squarings} "
            f"squarings; {100 * deformation.folding_fraction:.3g} % of the pixels are folded.",
        ),
    )


COST = 200  # about the cost of one point beside that of one kernel value, for sharing it out over threads
_FIRST_STEP = 0.1  # longest first step, in pixels
_FIRST_CHANGE = 0.05  # largest change of the velocity over one pixel in the first step
_SPARE = 2  # nodes beyond the farthest that a point of the image can leave it


def squarings_needed(dense: Floats, grid: Grid) -> int:
    """Return how often to square so that the first step is short in pixels and changes little from pixel to pixel."""
    speed = math.sqrt(float(np.square(dense).sum(axis=1).max()))
    on_grid = dense.reshape(*grid.shape, grid.d)
    change = max(float(np.abs(np.diff(on_grid, axis=a)).max()) for a in range(grid.d))
    steps = max(speed / _FIRST_STEP, change / _FIRST_CHANGE, 1.0)
    return max(5, math.ceil(math.log2(steps)))


def excursions(dense: Floats, grid: Grid) -> Ints:
    """Nodes by which the grid must be enlarged along x, y[, z] for no point of the image to leave it.

    Beyond a face the velocity is that of the nearest point of the face, so nothing gets farther out in unit time than
    the largest velocity across that face.
    """
    on_grid = dense.reshape(*grid.shape, grid.d)
    farthest = np.empty(grid.d)
    for a in range(grid.d):
        faces = np.take(on_grid[..., a], [0, -1], axis=grid.d - 1 - a)
        farthest[a] = np.abs(faces).max()
    if (farthest > grid.size).any():
        raise InvalidInputError(
            f"The velocity carries points of the border up to {farthest.max():.4g} pixels out of an image of "
            f"{' x '.join(map(str, grid.size))}; take a smaller amplitude (it is in world units), or a mask."
        )
    return np.ceil(farthest).astype(np.int64) + _SPARE


def padded(dense: Floats, grid: Grid, pad: Ints) -> Floats:
    """Continue the velocity beyond the border with that of the nearest border point."""
    around = [(int(p), int(p)) for p in array_order(pad)]
    whole = np.pad(dense.reshape(*grid.shape, grid.d), [*around, (0, 0)], mode="edge")
    return whole.reshape(-1, grid.d)


def flow(velocity: Floats, size: Ints, squarings: int) -> Floats:
    """Displacements of the flow after unit time; overwrites ``velocity``, which serves as the second buffer."""
    h = 2.0**-squarings
    current = np.empty_like(velocity)
    _step(velocity, size, (0.0, h / 2, h), current)
    other = velocity
    for _ in range(squarings):
        _step(current, size, (1.0, 1.0, 1.0), other)
        current, other = other, current
    return current


def _step(field: Floats, size: Ints, factors: tuple[float, float, float], out: Floats) -> None:
    over_rows(lambda a, b: step_nodes(field, size, *factors, a, b, out), len(field), COST)


def evaluated(field: Floats, size: Ints, points_index: Floats) -> Floats:
    """Return the interpolated vectors at (n, d) indices."""
    out = np.empty(points_index.shape)
    points = np.ascontiguousarray(points_index)
    over_rows(lambda a, b: evaluate_field(field, size, points, a, b, out), len(points), COST)
    return out
