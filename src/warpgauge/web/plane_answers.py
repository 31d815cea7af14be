"""Planes and tiles as raw values on the wire: what names one in a request, and the answer with its shape and frame."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query
from numpy.typing import NDArray
from starlette.responses import Response

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.web.planes import plane_frame

Side = Literal["fixed", "moving"]
Small = Annotated[int, Query(ge=0, le=10_000_000)]
Axis = Annotated[int, Query(ge=0, le=2, description="Normal of the plane: 0 is x, 1 is y, 2 is z.")]
LevelNumber = Annotated[int, Query(ge=0, le=64)]
Channels = Annotated[
    str,
    Query(max_length=40, pattern=r"^[0-9,]*$", description="Channels of an image that has them apart, such as 0,3,4."),
]

RAW: dict[str, object] = {
    "description": "Raw samples; the headers X-Height, X-Width and X-Channels tell their shape.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


def parsed_part(text: str) -> tuple[int, int, int, int]:
    """Read ``column,row,columns,rows``."""
    try:
        column, row, columns, rows = (int(value) for value in text.split(","))
    except ValueError:
        raise InvalidInputError("A part of a plane must be written as column,row,columns,rows.") from None
    return column, row, columns, rows


def plane_response(
    values: NDArray[Any],
    grid: Grid,
    axis: int,
    limits: tuple[float, float] | None = None,
    after: NDArray[np.uint8] | None = None,
) -> Response:
    """Return a plane as raw values, with its shape and frame in the headers."""
    headers = {
        "X-Height": str(values.shape[0]),
        "X-Width": str(values.shape[1]),
        "X-Channels": str(values.shape[2] if values.ndim == 3 else 1),
        "X-Frame": json.dumps(plane_frame(grid, axis)),
    }
    if limits is not None:
        headers["X-Known-From-To"] = json.dumps(limits)
    content = np.ascontiguousarray(values).tobytes() + (b"" if after is None else after.tobytes())
    return Response(content, media_type="application/octet-stream", headers=headers)
