"""The page itself, from the fixed list of its files.

The address of the files carries their version, so that a browser keeps them for good and asks for none of them at the
next visit; modules name each other relatively and so stay within one version.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from fastapi import APIRouter, Request
from starlette.responses import Response

from warpgauge.web.failures import NotFoundError


def static_router(root_path: str = "") -> APIRouter:
    """Return the routes of the page, whose files are read once, now.

    The path below which a proxy serves the page is put before every address in them.
    """
    files = {name: _rooted(file, root_path) for name, file in page_files().items()}
    version = version_of(files)
    page = _versioned(files.get("index.html"), version, root_path)
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def index(request: Request) -> Response:
        return _sent(page, request)

    @router.get("/static/{name:path}")
    async def static(name: str, request: Request) -> Response:
        short = name.removeprefix(f"{version}/")
        return _sent(files.get(short), request, lasting=short != name)

    return router


def _rooted(file: PageFile, root_path: str) -> PageFile:
    if not root_path or not file.media_type.startswith("text/"):
        return file
    content = re.sub(rb"""(["'`(])/(api|static)/""", rb"\1" + root_path.encode() + rb"/\2/", file.content)
    return PageFile.of(content, file.media_type)


def _versioned(page: PageFile | None, version: str, root_path: str) -> PageFile | None:
    if page is None:
        return None
    content = page.content.replace(f'"{root_path}/static/'.encode(), f'"{root_path}/static/{version}/'.encode())
    return PageFile(content, page.media_type, f'"{version}"')


def _sent(file: PageFile | None, request: Request, *, lasting: bool = False) -> Response:
    if file is None:
        raise NotFoundError("There is no such file of the page.")
    keep = "max-age=31536000, immutable" if lasting else "no-cache"
    headers = {"ETag": file.etag, "Cache-Control": f"private, {keep}"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    headers["Vary"] = "Accept-Encoding"
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.media_type, headers=headers)
    return Response(file.packed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})


_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file of the page."""

    content: bytes
    media_type: str
    etag: str

    @cached_property
    def packed(self) -> bytes:
        """Its content compressed: less than a third, which a slow line feels."""
        return gzip.compress(self.content, mtime=0)

    @classmethod
    def of(cls, content: bytes, media_type: str) -> PageFile:
        """Return a file with the tag of its content."""
        return cls(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def page_files() -> dict[str, PageFile]:
    """Read all files of the page, by their names."""
    entries = [
        (entry, entry.name.rpartition(".")[2]) for entry in (resources.files("warpgauge.web") / "static").iterdir()
    ]
    return {entry.name: PageFile.of(entry.read_bytes(), _TYPES[kind]) for entry, kind in entries if kind in _TYPES}


def version_of(files: Mapping[str, PageFile]) -> str:
    """Return a version that changes with the content of any file."""
    text = "\n".join(f"{name} {file.etag}" for name, file in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
