"""The application: all routes, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from warpgauge._version import __version__
from warpgauge.project import Project
from warpgauge.web import alignment_routes, download_routes, image_routes, overlay_routes
from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Gate
from warpgauge.web.context_images import read_contexts
from warpgauge.web.failures import REFUSALS, add_handlers
from warpgauge.web.monitoring import Metrics
from warpgauge.web.organiser_routes import organiser_router
from warpgauge.web.page_files import static_router
from warpgauge.web.rater_routes import query_router
from warpgauge.web.report_routes import report_router
from warpgauge.web.security import Guard
from warpgauge.web.settings import ServerSettings


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk = app.state.desk
    # FastAPI makes its routes when they are first needed and changes the process's warning filters for that, so it must
    # not happen while requests are answered. A path that no route has makes it look at all of them.
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []})
    desk.start()
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

    app = FastAPI(
        title="warpgauge",
        version=__version__,
        summary="The annotator of one project.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        responses=REFUSALS,
    )
    app.state.desk, app.state.launch_tokens = desk, dict(tokens)
    app.state.metrics = None if settings.metrics_port is None else Metrics()
    add_handlers(app)
    for router in (
        image_routes.router,
        query_router(desk),
        report_router(desk),
        overlay_routes.router,
        organiser_router(desk),
        alignment_routes.router,
        download_routes.router,
        static_router(settings.root_path),
    ):
        app.include_router(router)
    app.add_middleware(Guard, gate=gate, project=opened, settings=settings)
    return app
