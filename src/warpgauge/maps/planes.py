"""Flat cuts through the grid of a map, and the grids that pictures are made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.display import shown_units
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid

_NAMES = {0: "sagittal", 1: "coronal", 2: "axial"}


@dataclass(frozen=True, eq=False)
class Plane:
    """A cut through a grid along two of its axes: the plane ``index`` along the normal ``axis``, 0 is x, 2 is z.

    Of a 2D grid it is plane 0 along axis 2.
    """

    grid: Grid
    axis: int = 2
    index: int = 0

    def __post_init__(self) -> None:
        depth = 1 if self.grid.d == 2 else self.grid.size[self.axis] if self.axis in (0, 1, 2) else 0
        if (self.grid.d == 2 and self.axis != 2) or not 0 <= self.index < depth:
            raise InvalidInputError(f"A {self.grid.d}D grid has no plane {self.index} along axis {self.axis}.")

    @property
    def axes(self) -> tuple[int, int]:
        """Grid axes (0 is x) that run to the right and along the rows of the cut."""
        right, down = [axis for axis in range(self.grid.d) if self.grid.d == 2 or axis != self.axis]
        return right, down

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top edge in world units from the corner of the first element."""
        right, down = (self.grid.size[axis] * float(self.grid.spacing[axis]) for axis in self.axes)
        return (0.0, right, 0.0, down) if self.upright else (0.0, right, down, 0.0)

    @property
    def upright(self) -> bool:
        """Whether rows are drawn upwards, so that a patient's head is on top."""
        if self.grid.d == 2:
            return False
        column = self.grid.direction[:, self.axes[1]]
        main = int(np.argmax(np.abs(column)))
        return bool(column[main] > 0) if main == 2 else bool(column[main] < 0)

    @property
    def caption(self) -> str:
        """Description of the cut; empty in 2D."""
        if self.grid.d == 2:
            return ""
        middle = (np.asarray(self.grid.size) - 1) / 2
        middle[self.axis] = self.index
        world = self.grid.index_to_world(middle)
        normal = int(np.argmax(np.abs(self.grid.direction[:, self.axis])))
        return f"{_NAMES[normal]}, {'xyz'[normal]} = {world[normal]:.4g} {shown_units(self.grid.units)}"

    def cut(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the plane of an array on the grid, colour channels kept."""
        return array if self.grid.d == 2 else np.take(array, self.index, axis=2 - self.axis)

    def positions(self, points_world: Floats, *, within: float = 0.5) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (n, 2) picture positions of world points, and which lie within so many elements of the plane."""
        index = self.grid.world_to_index(points_world)
        near = np.ones(len(index), dtype=np.bool_)
        if self.grid.d == 3:
            near = np.abs(index[:, self.axis] - self.index) <= within
        axes = list(self.axes)
        return (index[:, axes] + 0.5) * self.grid.spacing[axes], near


def orthogonal_planes(grid: Grid) -> list[Plane]:
    """Return the plane of a 2D grid, or the middle ones along z, y and x of a 3D one."""
    if grid.d == 2:
        return [Plane(grid)]
    return [Plane(grid, axis, grid.size[axis] // 2) for axis in (2, 1, 0)]


def scale_bar_length(extent: float) -> float:
    """Return a round length (1, 2 or 5 times a power of ten) of about a fifth of an extent."""
    power = 10.0 ** np.floor(np.log10(extent / 5))
    for factor in (5, 2, 1):
        if factor * power <= extent / 4:
            return float(factor * power)
    return float(power)


def region_labels(posterior: Posterior, grid: Grid) -> NDArray[np.int64] | None:
    """Return the regions of a posterior's model on a grid; None where it has none."""
    regions = posterior.prior.kernel.regions
    return None if regions is None else regions(grid.points()).reshape(grid.shape)


def picture_grid(grid: Grid, elements: int = 300) -> Grid:
    """Coarsen a grid so that its longest axis has at most ``elements`` elements."""
    return grid.coarsened(max(1.0, max(grid.size) / elements))
