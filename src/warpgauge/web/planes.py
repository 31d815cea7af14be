"""Planes of the fixed image as grids of their own: where overlays are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid


def in_plane(d: int, axis: int) -> tuple[int, int]:
    """Axes along which the columns and the rows of a plane run: x, y; x, z; or y, z."""
    if axis not in ((0, 1, 2) if d == 3 else (2,)):
        raise InvalidInputError(f"The axis of a plane of a {d}D image cannot be {axis}.")
    column, row = (k for k in range(d) if k != axis or d == 2)
    return column, row


def plane_grid(grid: Grid, axis: int, index: int, width: int, most: int | None = None) -> Grid:
    """Return a grid of about ``width`` columns over one plane of an image; a volume's plane is one element thick.

    Parameters
    ----------
    grid : Grid
    axis, index : int
        The plane, as tiles are asked for.
    width : int
        Columns at most; rows follow, so that elements keep the shape of the pixels.
    most : int, optional
        Elements at most, about; any number by default.
    """
    column, row = in_plane(grid.d, axis)
    planes = grid.size[axis] if grid.d == 3 else 1
    if not 0 <= index < planes:
        raise InvalidInputError(f"The image has planes 0 to {planes - 1} along {'xyz'[axis]}, not {index}.")
    factor = max(1.0, grid.size[column] / width)
    if most is not None:
        factor = max(factor, math.sqrt(grid.size[column] * grid.size[row] / most))
    old, new = np.asarray(grid.size, dtype=float), np.ones(grid.d)
    for k in (column, row):
        new[k] = max(1, round(grid.size[k] / factor))
    ratio = old / new
    start = (ratio - 1) / 2
    if grid.d == 3:
        start[axis], ratio[axis] = index, 1.0
    size = tuple(int(n) for n in new)
    return Grid(size, grid.spacing * ratio, grid.index_to_world(start), grid.direction, grid.units)


def plane_frame(grid: Grid, axis: int) -> dict[str, Any]:
    """Describe where the elements of a plane lie: world = origin + column number * column + row number * row."""
    column, row = in_plane(grid.d, axis)
    steps = grid.direction * grid.spacing
    return {"origin": grid.origin.tolist(), "column": steps[:, column].tolist(), "row": steps[:, row].tolist()}


def plane_array(grid: Grid, axis: int, values: NDArray[Any]) -> NDArray[Any]:
    """Return an array on a plane's grid as ``[row, column(, channel)]``."""
    return values if grid.d == 2 else values.squeeze(axis=2 - axis)


def plane_lines(grid: Grid, axis: int, index: int, lines: int, steps: int) -> list[Floats]:
    """Return the lines of a square lattice over one plane, as world points of the fixed image.

    Parameters
    ----------
    lines : int
        Along the longer side.
    steps : int
        Points on each line.
    """
    plane = plane_grid(grid, axis, index, max(grid.size))
    column, row = in_plane(grid.d, axis)
    lengths = {k: (plane.size[k] - 1) * float(plane.spacing[k]) for k in (column, row)}
    distance = max(*lengths.values(), float(plane.spacing.min())) / (lines - 1)
    found = []
    for along, across in ((column, row), (row, column)):
        count = max(2, round(lengths[across] / distance) + 1)
        for place in np.linspace(0, plane.size[across] - 1, count):
            points = np.zeros((steps, grid.d))
            points[:, along] = np.linspace(0, plane.size[along] - 1, steps)
            points[:, across] = place
            found.append(plane.index_to_world(points))
    return found


def part_of_plane(grid: Grid, axis: int, part: tuple[int, int, int, int]) -> Grid:
    """Return the grid of some columns and rows of a plane.

    Parameters
    ----------
    grid : Grid
        Of one plane, as `plane_grid` gives it.
    axis : int
    part : tuple
        First column, first row, columns, rows; must lie within the plane.
    """
    column, row = in_plane(grid.d, axis)
    x, y, columns, rows = part
    inside = x >= 0 and y >= 0 and columns > 0 and rows > 0
    if not inside or x + columns > grid.size[column] or y + rows > grid.size[row]:
        raise InvalidInputError(
            f"The plane has {grid.size[column]} columns and {grid.size[row]} rows; {columns} x {rows} from column {x}, "
            f"row {y} on is not a part of it."
        )
    start, size = np.zeros(grid.d), list(grid.size)
    start[column], start[row] = x, y
    size[column], size[row] = columns, rows
    return Grid(tuple(size), grid.spacing, grid.index_to_world(start), grid.direction, grid.units)
