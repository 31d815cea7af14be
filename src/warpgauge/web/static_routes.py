"""The page itself, from the fixed list of its files."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from warpgauge.web.failures import NotFoundError
from warpgauge.web.pages import PageFile, page_files


def static_router() -> APIRouter:
    """Give the routes of the page; its files are read now and never again."""
    files = page_files()
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def index(request: Request) -> Response:
        return _sent(files.get("index.html"), request)

    @router.get("/static/{name:path}")
    async def static(name: str, request: Request) -> Response:
        return _sent(files.get(name), request)

    return router


def _sent(file: PageFile | None, request: Request) -> Response:
    if file is None:
        raise NotFoundError("There is no such file of the page.")
    headers = {"ETag": file.etag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
