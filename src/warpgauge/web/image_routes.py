"""The project's description and the tiles of its images."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Asking
from warpgauge.web.wire import OverviewsAnswer, ProjectAnswer

Side = Literal["fixed", "moving"]
Small = Annotated[int, Query(ge=0, le=10_000_000)]
Axis = Annotated[int, Query(ge=0, le=2, description="Normal of the plane: 0 is x, 1 is y, 2 is z.")]
LevelNumber = Annotated[int, Query(ge=0, le=64)]


def image_router(desk: Desk) -> APIRouter:
    """Return the routes of the project and its images."""
    router = APIRouter()

    @router.get("/api/project", response_model=ProjectAnswer)
    def project(asking: Asking) -> dict[str, object]:
        """Return the project, its images, and who the visitor is."""
        return desk.describe(asking)

    @router.get("/api/overviews", response_model=OverviewsAnswer)
    def overviews(asking: Asking) -> dict[str, object]:
        """Return how far the overviews are that are made of images without coarse levels; tiles wait for them."""
        return {side: picture.overview() for side, picture in desk.pictures.items()}

    @router.get("/api/images/{side}/tile", response_class=Response, responses={200: RAW, 304: UNCHANGED})
    def tile(
        side: Side,
        request: Request,
        asking: Asking,
        axis: Axis = 2,
        index: Small = 0,
        level: LevelNumber = 0,
        row: Small = 0,
        column: Small = 0,
        v: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        """Return raw little-endian samples of a tile: rows, then columns, then channels."""
        picture = desk.pictures[side]
        tag = f'"{picture.version}-{axis}-{index}-{level}-{row}-{column}"'
        lasting = v == picture.version
        headers = {"ETag": tag, "Cache-Control": f"private, {'max-age=86400, immutable' if lasting else 'no-cache'}"}
        samples = picture.tile(axis, index, level, row, column)
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        headers["X-Height"], headers["X-Width"] = str(samples.shape[0]), str(samples.shape[1])
        headers["X-Channels"] = str(samples.shape[2] if samples.ndim == 3 else 1)
        return Response(samples.tobytes(), media_type="application/octet-stream", headers=headers)

    return router


RAW: dict[str, object] = {
    "description": "Raw samples; the headers X-Height, X-Width and X-Channels tell their shape.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
UNCHANGED: dict[str, object] = {"description": "The copy that the browser has is still the same."}
