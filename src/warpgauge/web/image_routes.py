"""Routes for the project's description, the tiles of its images, and their foregrounds."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from io import BytesIO
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request
from numpy.typing import NDArray
from starlette.responses import Response

from warpgauge.web.app_state import AtDesk
from warpgauge.web.auth import Asking
from warpgauge.web.failures import NotFoundError
from warpgauge.web.plane_answers import RAW, Axis, Channels, LevelNumber, Side, Small, plane_response
from warpgauge.web.planes import plane_array, plane_grid
from warpgauge.web.tiled_image import TiledImage
from warpgauge.web.wire import OverviewsAnswer, ProjectAnswer

UNCHANGED: dict[str, object] = {"description": "The copy that the browser has is still the same."}
_COLUMNS = 256
router = APIRouter()


@router.get("/api/project", response_model=ProjectAnswer)
def project(desk: AtDesk, asking: Asking) -> dict[str, object]:
    """Return the project, its images, and who the visitor is."""
    return desk.describe(asking)


@router.get("/api/overviews", response_model=OverviewsAnswer)
def overviews(desk: AtDesk, asking: Asking) -> dict[str, object]:
    """Return the progress of the overviews of images without coarse levels; tiles wait for them."""
    return {side: picture.overview() for side, picture in desk.pictures.items()}


@dataclass(frozen=True)
class TilePlace:
    """Which tile of an image is wanted; ``v`` is the image's version, where the browser knows it.

    ``packed`` is for slow lines: samples of 8 bits come as a JPEG picture, rough, others compressed and exact.
    """

    axis: Axis = 2
    index: Small = 0
    level: LevelNumber = 0
    row: Small = 0
    column: Small = 0
    v: Annotated[str, Query(max_length=64)] = ""
    packed: bool = False
    channels: Channels = ""


Wanted = Annotated[TilePlace, Depends()]


@router.get("/api/images/{side}/tile", response_class=Response, responses={200: RAW, 304: UNCHANGED})
def tile(side: Side, request: Request, desk: AtDesk, asking: Asking, wanted: Wanted) -> Response:
    """Return raw little-endian samples of a tile: rows, then columns, then channels."""
    return _tile(desk.pictures[side], request, wanted)


@router.get("/api/contexts/{n}/tile", response_class=Response, responses={200: RAW, 304: UNCHANGED})
def context_tile(
    n: Annotated[int, Path(ge=0, le=1000)], request: Request, desk: AtDesk, asking: Asking, wanted: Wanted
) -> Response:
    """Return a tile of a further image, as those of the two."""
    if n >= len(desk.contexts):
        raise NotFoundError(f"There are {len(desk.contexts)} further images, no number {n}.")
    return _tile(desk.contexts[n].picture, request, wanted)


def _tile(picture: TiledImage, request: Request, wanted: TilePlace) -> Response:
    where = (wanted.axis, wanted.index, wanted.level, wanted.row, wanted.column)
    how = [*([wanted.channels] if wanted.channels else []), *(["packed"] if wanted.packed else [])]
    tag = f'"{"-".join([picture.version, *map(str, where), *how])}"'
    lasting = wanted.v == picture.version
    headers = {"ETag": tag, "Cache-Control": f"private, {'max-age=86400, immutable' if lasting else 'no-cache'}"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    samples = picture.chosen(picture.tile(*where), wanted.channels)
    headers["X-Height"], headers["X-Width"] = str(samples.shape[0]), str(samples.shape[1])
    headers["X-Channels"] = str(samples.shape[2] if samples.ndim == 3 else 1)
    content, media_type = samples.tobytes(), "application/octet-stream"
    if wanted.packed and (rough := _jpeg(samples)) is not None:
        content, media_type = rough, "image/jpeg"
    elif wanted.packed and "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = gzip.compress(content, 1, mtime=0), "gzip"
    return Response(content, media_type=media_type, headers=headers)


def _jpeg(samples: NDArray[Any]) -> bytes | None:
    """Return samples of 8 bits as a JPEG picture; None for others, or where the library that makes it is missing."""
    if samples.dtype != np.uint8 or (samples.ndim == 3 and samples.shape[2] != 3):
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    written = BytesIO()
    Image.fromarray(samples).save(written, "JPEG", quality=80)
    return written.getvalue()


@router.get("/api/foreground/{side}", response_class=Response, responses={200: RAW})
def foreground(side: Side, desk: AtDesk, asking: Asking, axis: Axis = 2, index: Small = 0) -> Response:
    """Return where an image shows something, a byte for each element of a plane: 1 in the foreground."""
    project = desk.project
    found = project.fixed_foreground if side == "fixed" else project.moving_foreground
    if found is None:
        raise NotFoundError("This project was made without looking for a foreground.")
    image = project.fixed_grid if side == "fixed" else project.moving_grid
    grid = plane_grid(image, axis, index, _COLUMNS)
    inside = found.contains(grid.points(0, grid.count)).reshape(grid.shape)
    return plane_response(plane_array(grid, axis, inside).astype(np.uint8), grid, axis)
