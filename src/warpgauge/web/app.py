"""The application: routes, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from warpgauge._version import __version__
from warpgauge.project import Project
from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Gate
from warpgauge.web.failures import REFUSALS, add_handlers
from warpgauge.web.image_routes import image_router
from warpgauge.web.logins import LoginLog
from warpgauge.web.organiser_routes import organiser_router
from warpgauge.web.overlay_routes import overlay_router
from warpgauge.web.query_routes import query_router
from warpgauge.web.report_routes import report_router
from warpgauge.web.security import AllowedHosts, Guard
from warpgauge.web.server_probes import Metrics
from warpgauge.web.single_sign_on import TrustedProxy
from warpgauge.web.start_routes import start_router
from warpgauge.web.static_routes import static_router


def create_app(
    project: Project | str | Path,
    tokens: Mapping[str, str],
    *,
    host: str = "127.0.0.1",
    allowed_hosts: Iterable[str] = (),
    root_path: str = "",
    https: bool = False,
    proxy: TrustedProxy | None = None,
    metrics: Metrics | None = None,
) -> FastAPI:
    """Make the application that serves one project.

    Parameters
    ----------
    project : Project or path
        Images that are missing or changed are refused here, not at the first tile.
    tokens : mapping of token to name
        Secrets of this launch and whose they are; the hashes of the raters' own stand in the project.
    host : str
        What the server will be bound to.
    allowed_hosts : iterable of str
        Further names that may stand in a Host header.
    root_path : str
        Path below which a proxy serves the page, as in ``"/lesion"``.
    https : bool
        Whether a proxy in front speaks TLS with the browsers.
    proxy : TrustedProxy, optional
        The proxy in front, where it signs people on.
    metrics : Metrics, optional
        Figures of the requests.

    Returns
    -------
    FastAPI
        An ASGI application; ``app.state.desk`` is what it works on.
    """
    opened = project if isinstance(project, Project) else Project.open(project)
    names = list(allowed_hosts)
    gate = Gate(opened, tokens)
    desk = Desk(opened, gate)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # FastAPI makes its routes when they are first needed and changes the process's warning filters for that, so
        # it must not happen while other threads read images; and the first visitor need not wait for it.
        app.openapi()
        desk.start()
        yield
        desk.stop()
        opened.close()

    app = FastAPI(
        title="warpgauge",
        version=__version__,
        summary="The annotator of one project.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=REFUSALS,
    )
    app.state.desk = desk
    app.state.metrics, app.state.root_path, app.state.https = metrics, root_path, https
    app.state.launch_tokens = dict(tokens)
    add_handlers(app)
    for router in (
        image_router(desk),
        query_router(desk),
        report_router(desk),
        overlay_router(desk),
        organiser_router(desk),
        start_router(desk),
        static_router(root_path),
    ):
        app.include_router(router)
    app.add_middleware(
        Guard,
        gate=gate,
        hosts=AllowedHosts(host, names),
        log=LoginLog(None if opened.readonly else opened.folder),
        root_path=root_path,
        https=https,
        proxy=proxy,
        # Behind a proxy several servers with different ports share the cookie of the project.
        cookie=f"warpgauge-{opened.id[:8]}" if names else None,
    )
    return app
