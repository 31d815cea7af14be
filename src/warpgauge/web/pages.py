"""The pages and their files, whose address carries their version, so that a browser keeps them for good.

All addresses are relative, so that a server need not know below which path it is reached.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(str(resources.files("warpgauge.web") / "static"))
SENT = (".css", ".js", ".svg")


def _version() -> str:
    digest = hashlib.sha256()
    for file in sorted(STATIC.rglob("*")):
        if file.suffix in (*SENT, ".html"):
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


VERSION = _version()
"""Changes with the content of any file of the pages."""


class VersionedFiles(StaticFiles):
    """The files of the pages."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, to be kept for good; only those that a page uses."""
        if not path.endswith(SENT):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        return response


@cache
def _page(name: str, up: str, home: bool) -> str:
    text = (STATIC / name).read_text(encoding="utf-8")
    text = text.replace('"/static/', f'"{up}static/{VERSION}/').replace('"/api/', '"api/')
    return text.replace("<html ", f'<html data-home="{up}" ', 1) if home else text


def page(name: str, request: Request, *, up: str = "", home: bool = False) -> Response:
    """Return a page: ``up`` leads from it to the page of all pairs, which it offers where there are several."""
    text = _page(name, up, home)
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(text, headers=headers)
