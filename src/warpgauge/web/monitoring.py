"""Probes: ``/healthz`` answers as long as the process does; ``/readyz`` only while the log can be read and written.

Both need no token and say nothing about the project.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from warpgauge.errors import WarpgaugeError

_KEPT_SECONDS = 0.5  # strangers must not make the database work by asking whether it does


class Probes:
    """Middleware outside of everything else; ``ping`` raises while the log cannot be used."""

    def __init__(self, app: ASGIApp, ping: Callable[[], object], root_path: str = "") -> None:
        self.app, self.ping, self.root_path = app, ping, root_path
        self._looked: tuple[float, str | None] = (-1.0, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe, or hand on."""
        path = str(scope.get("path", "")).removeprefix(self.root_path)
        probes = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if probes and path == "/healthz":
            await JSONResponse({"status": "alive"})(scope, receive, send)
        elif probes and path == "/readyz":
            problem = await run_in_threadpool(self._problem)
            content = {"status": "ready"} if problem is None else {"status": "not ready", "error": problem}
            await JSONResponse(content, 200 if problem is None else 503)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _problem(self) -> str | None:
        now = time.monotonic()
        if now - self._looked[0] > _KEPT_SECONDS:
            try:
                self.ping()
                self._looked = now, None
            except WarpgaugeError:
                self._looked = now, "The log cannot be read or written now."
        return self._looked[1]
