"""The pages themselves, from the fixed list of their files.

The address of the files carries their version, so that a browser keeps them for good and asks for none of them at the
next visit; modules name each other relatively and so stay within one version.
"""

from __future__ import annotations

import gzip
import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

from fastapi import APIRouter, Request
from starlette.responses import Response

from warpgauge.web.failures import NotFoundError


def static_router() -> APIRouter:
    """Return the routes of a page, whose files are read once, now; ``request.state.page`` is the page itself."""
    files, version = built()
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def index(request: Request) -> Response:
        return _sent(request.state.page, request)

    @router.get("/static/{name:path}")
    async def static(name: str, request: Request) -> Response:
        short = name.removeprefix(f"{version}/")
        return _sent(files.get(short), request, lasting=short != name)

    return router


def page_at(root_path: str = "", *, name: str = "index.html", above: str | None = None) -> PageFile:
    """Return a page as it stands at an address.

    Parameters
    ----------
    root_path : str
        Path below which its routes are served.
    name : str
        File of the page.
    above : str, optional
        Path of the page of all pairs that this one belongs to, which serves the files for all of them.
    """
    files, version = built()
    page = files.get(name)
    if page is None:
        raise NotFoundError("There is no such file of the page.")
    home = "" if above is None else f' data-home="{html.escape(above)}/"'
    text = page.content.decode()
    text = text.replace('"/static/', f'"{root_path if above is None else above}/static/{version}/')
    text = text.replace('"/api/', f'"{root_path}/api/')
    text = text.replace("<html ", f'<html data-root="{html.escape(root_path)}"{home} ', 1)
    return PageFile.of(text.encode(), page.media_type)


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
    """A file of a page."""

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


@cache
def built() -> tuple[Mapping[str, PageFile], str]:
    """Return all files by their names, and a version that changes with the content of any of them."""
    folder = resources.files("warpgauge.web") / "static"
    entries = {entry.name: entry for entry in folder.iterdir() if entry.is_file()}
    entries |= {f"vendor/{entry.name}": entry for entry in (folder / "vendor").iterdir()}
    kinds = {name: name.rpartition(".")[2] for name in entries}
    files = {
        name: PageFile.of(entry.read_bytes(), _TYPES[kinds[name]])
        for name, entry in entries.items()
        if kinds[name] in _TYPES
    }
    text = "\n".join(f"{name} {file.etag}" for name, file in sorted(files.items()))
    return files, hashlib.sha256(text.encode()).hexdigest()[:16]
