"""Planes of an image: what names one in a request, their grids, and raw values with shape and frame as an answer."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import numpy as np
from fastapi import Query
from numpy.typing import NDArray
from starlette.responses import Response

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid

Small = Annotated[int, Query(ge=0, le=10_000_000)]
Axis = Annotated[int, Query(ge=0, le=2, description="Normal of the plane: 0 is x, 1 is y, 2 is z.")]
LevelNumber = Annotated[int, Query(ge=0, le=64)]
Channels = Annotated[str, Query(max_length=40, pattern=r"^[0-9,]*$", description="Of an image that has them apart.")]
RAW: dict[str, object] = {
    "description": "Raw samples; the headers X-Height, X-Width and X-Channels tell their shape.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


def plane_axes(grid: Grid, axis: int, index: int) -> tuple[int, int]:
    """Return the axes along which the columns and the rows of a plane run; refuse a plane that is not there."""
    column, row = in_plane(grid.d, axis)
    planes = grid.size[axis] if grid.d == 3 else 1
    if not 0 <= index < planes:
        raise InvalidInputError(f"The image has planes 0 to {planes - 1} along {'xyz'[axis]}, not {index}.")
    return column, row


def in_plane(d: int, axis: int) -> tuple[int, int]:
    """Axes along which the columns and the rows of a plane run: x, y; x, z; or y, z."""
    if axis not in ((0, 1, 2) if d == 3 else (2,)):
        raise InvalidInputError(f"The axis of a plane of a {d}D image cannot be {axis}.")
    column, row = (k for k in range(d) if k != axis or d == 2)
    return column, row


def plane_grid(grid: Grid, axis: int, index: int, width: int, most: int | None = None) -> Grid:
    """Return a grid of about ``width`` columns over one plane of an image; a volume's plane is one element thick.

    Rows follow, so that elements keep the shape of the pixels; ``most`` bounds the number of elements.
    """
    column, row = plane_axes(grid, axis, index)
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


def part_of_plane(grid: Grid, axis: int, part: tuple[int, int, int, int]) -> Grid:
    """Return the grid of a part of a plane: first column, first row, columns, rows."""
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


def parsed_part(text: str) -> tuple[int, int, int, int]:
    """Read ``column,row,columns,rows``."""
    try:
        column, row, columns, rows = (int(value) for value in text.split(","))
    except ValueError:
        raise InvalidInputError("A part of a plane must be written as column,row,columns,rows.") from None
    return column, row, columns, rows


def shape_headers(values: NDArray[Any]) -> dict[str, str]:
    """Return the headers that tell the shape of raw values."""
    channels = values.shape[2] if values.ndim == 3 else 1
    return {"X-Height": str(values.shape[0]), "X-Width": str(values.shape[1]), "X-Channels": str(channels)}


def plane_response(values: NDArray[Any], grid: Grid, axis: int, *, after: bytes = b"", known: str = "") -> Response:
    """Return a plane as raw values, and bytes after them, with its shape and frame in the headers."""
    headers = {**shape_headers(values), "X-Frame": json.dumps(plane_frame(grid, axis))}
    if known:
        headers["X-Known-From-To"] = known
    content = np.ascontiguousarray(values).tobytes() + after
    return Response(content, media_type="application/octet-stream", headers=headers)
