"""The application: all routes, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from warpgauge._version import __version__
from warpgauge.project import Project
from warpgauge.web import (
    download_routes,
    image_routes,
    organiser_routes,
    overlay_routes,
    rater_routes,
    report_routes,
)
from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Gate
from warpgauge.web.context_images import read_contexts
from warpgauge.web.failures import REFUSALS, add_handlers
from warpgauge.web.page_files import page_at, static_router
from warpgauge.web.security import Guard
from warpgauge.web.settings import ServerSettings


def api_app(**options: Any) -> FastAPI:
    """Return an application without routes whose errors are answered in one sentence."""
    app = FastAPI(
        title="warpgauge",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=REFUSALS,
        **options,
    )
    add_handlers(app)
    return app


def make_routes(app: FastAPI) -> None:
    """Have FastAPI make its routes now.

    It does so when they are first needed and changes the process's warning filters for that, which must not happen
    while requests are answered. A path that no route has makes it look at all of them.
    """
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []})


def annotator_app(**options: Any) -> FastAPI:
    """Return the routes of the annotator, for any project: ``scope["state"]`` says which desk and page."""
    app = api_app(summary="The annotator of one project.", **options)
    for router in (
        image_routes.router,
        rater_routes.router,
        report_routes.router,
        overlay_routes.router,
        organiser_routes.router,
        download_routes.router,
        static_router(),
    ):
        app.include_router(router)
    return app


class About:
    """Middleware that says what every request is about: entries of ``scope["state"]``."""

    def __init__(self, app: ASGIApp, state: Mapping[str, Any]) -> None:
        self.app, self.state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on with the entries."""
        if scope["type"] == "http":
            scope.setdefault("state", {}).update(self.state)
        await self.app(scope, receive, send)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk = app.state.desk
    make_routes(app)
    desk.start()
    desk.prepare()
    yield
    desk.stop()
    desk.project.close()


def create_app(
    project: Project | str | Path, tokens: Mapping[str, str], settings: ServerSettings | None = None
) -> FastAPI:
    """Return the application that serves one project.

    Parameters
    ----------
    project : Project or path
        Images that are missing or changed are refused here, not at the first tile.
    tokens : mapping of token to name
        Secrets of this launch and whose they are; the hashes of the raters' own stand in the project.
    settings : ServerSettings, optional

    Returns
    -------
    FastAPI
        An ASGI application; ``app.state.desk`` is what it works on.
    """
    settings = settings or ServerSettings()
    opened = project if isinstance(project, Project) else Project.open(project)
    gate = Gate(opened, tokens)
    desk = Desk(opened, gate, read_contexts(opened, settings.contexts))

    app = annotator_app(lifespan=_lifespan)
    app.state.desk, app.state.gate, app.state.house, app.state.ping = desk, gate, opened, opened.check_ready
    app.add_middleware(About, state={"desk": desk, "page": page_at(settings.root_path)})
    app.add_middleware(Guard, gate=gate, house=opened, settings=settings)
    return app
