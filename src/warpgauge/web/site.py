"""The place that a server serves: its pairs, its people, who may enter what, and the application around them.

Everybody signs in once. Raters enter the pairs that are assigned to them and learn nothing about others, not even
whether there are any; organisers enter all. Below ``/pair/KEY/`` stands the annotator of that pair.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, RedirectResponse, Response

from warpgauge._version import __version__
from warpgauge.errors import WarpgaugeError
from warpgauge.project import ORGANISER, Project
from warpgauge.project.document import read_document
from warpgauge.project.postgres import address_in_force
from warpgauge.web import answering, organising, pairs, reviewing, viewing
from warpgauge.web.beside import BESIDE
from warpgauge.web.catalogue import Catalogue, OpenProjects, Pair
from warpgauge.web.desk import Asking, Desk, Visit, Visiting, load_programs
from warpgauge.web.failures import NotFoundError, add_handlers
from warpgauge.web.guard import Guard
from warpgauge.web.pages import VERSION, VersionedFiles, page
from warpgauge.web.pairs import Summaries
from warpgauge.web.people import People, PeopleFile, PeopleTable, Person
from warpgauge.web.settings import ServerSettings


class ErrorAnswer(BaseModel):
    """Why a request was refused, in one sentence."""

    error: str


class Site:
    """The projects of a place at work.

    ``url`` is the address of the server, once it is bound; links are made of it, and never of what a request says.
    """

    def __init__(self, place: Path, settings: ServerSettings) -> None:
        self.place = place
        self.settings = settings
        self.catalogue = Catalogue(place)
        self.projects = OpenProjects(self._open)
        if self.catalogue.only is not None:
            # What cannot be served is said now, not at the first tile; and nothing is written beside it.
            self.projects.take(self.catalogue.only)
            self.projects.give_back(self.catalogue.only.key)
        self.people = People(self._store(), place)
        self.summaries = Summaries(self.projects)
        self.url = ""

    def _store(self) -> PeopleFile:
        """Return where people stand: in the database of a project that is served alone, else in a file."""
        file = self.catalogue.people_file
        only = self.catalogue.only
        document = None if only is None else read_document(only.folder)
        if document is None or document.database is None:
            return PeopleFile(file)
        return PeopleTable(address_in_force(document.database), document.id, file)

    def link(self, secret: str) -> str:
        """Return the link that signs somebody in."""
        return f"{self.url}/?token={secret}"

    def enter(self, key: str, person: Person) -> Visit:
        """Return a visit to a pair, which stays open until it is given back."""
        pair = self.catalogue.pairs().get(key)
        raters = self.people.raters_of(key, alone=self.catalogue.only is not None)
        if pair is None or not (person.organises or person.name in raters):
            raise NotFoundError("There is no such pair among yours; the page of all pairs lists them.")
        desk = self.projects.take(pair)
        try:
            return Visit(desk, in_project(desk.project, person, raters))
        except BaseException:
            self.projects.give_back(key)
            raise

    def _open(self, pair: Pair) -> Desk:
        project = Project.open(pair.folder, check_images=False)  # the desk refuses images that are missing or changed
        try:
            if self.settings.mirror is not None:
                alone = self.catalogue.only is not None
                project.use_mirror(Path(self.settings.mirror) / ("" if alone else pair.key))
            desk = Desk(project)
        except BaseException:
            project.close()
            raise
        desk.changed()  # answers that were saved elsewhere may have made a refit due
        return desk

    def check_ready(self) -> None:
        """Raise when people cannot be looked up, or the log of the project that was used last cannot be written."""
        self.people.content  # noqa: B018  # read now
        desk = self.projects.latest()
        if desk is not None:
            desk.project.check_ready()


def in_project(project: Project, person: Person, raters: list[str]) -> Person:
    """Return who a person is in a project, where all its raters are registered before anybody works.

    So it is known from the first question on how many will answer it. Whoever is less there than at the place stays
    so: a project's own log decides what may be written to it.
    """
    names = dict.fromkeys(raters, "rater")
    if raters or project.known.raters:
        names[person.name] = person.role
    if not project.readonly and not names.keys() <= project.known.raters.keys():
        with project.lock:
            for name, role in names.items():
                state = project.state
                organisers = (known for known in state.raters if state.role(known) == ORGANISER)
                by = next(organisers, person.name if person.organises else ORGANISER)
                if name not in state.raters:
                    project.add_rater(name, "organiser" if role == ORGANISER else "rater", by=by)
    organises = person.organises and project.known.role(person.name) == ORGANISER
    return Person(person.name, ORGANISER if organises else "rater")


pages = APIRouter(include_in_schema=False)


@pages.get("/healthz")
async def health() -> dict[str, str]:
    """Say that the process answers; needs no link, and says nothing about the projects."""
    return {"status": "alive"}


@pages.get("/readyz")
def readiness(request: Request) -> Response:
    """Say whether logs can be read and written; needs no link, and says nothing about the projects."""
    try:
        request.app.state.site.check_ready()
    except WarpgaugeError:
        problem = "The log cannot be read or written now."
        return JSONResponse({"status": "not ready", "error": problem}, 503)
    return JSONResponse({"status": "ready"})


@pages.get("/")
def front(request: Request, asking: Asking) -> Response:
    """Return the page of all pairs; where there is but one, lead to it."""
    only = request.app.state.site.catalogue.only
    return page("pairs.html", request) if only is None else RedirectResponse(only.address, 303)


@pages.get("/pair/{key}")
def without_slash(key: str) -> Response:
    """Lead to the pair: addresses in its page are relative."""
    return RedirectResponse(f"{key}/", 307)


@pages.get("/pair/{key}/")
def annotator(request: Request, visit: Visiting) -> Response:
    """Return the annotator of a pair."""
    visit.desk.prepare()
    several = request.app.state.site.catalogue.only is None
    return page("index.html", request, up="../../", home=several)


def create_app(site: Site) -> FastAPI:
    """Return the application that serves a place."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for route in app.routes:
            # FastAPI makes its routes when they are first needed and changes the process's warning filters for that,
            # which must not happen while requests are answered. A path that no route has makes it look at all.
            route.matches({"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []})
        BESIDE.soon(load_programs)
        yield
        await run_in_threadpool(site.projects.close)

    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer} for status in (400, 401, 403, 404, 411, 413, 415, 422, 503)
    }
    refusals[409] = {"model": answering.ConflictAnswer | answering.ConfirmAnswer}
    app = FastAPI(
        title="warpgauge",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redirect_slashes=False,
        redoc_url=None,
        responses=refusals,
        lifespan=lifespan,
    )
    app.state.site = site
    add_handlers(app)
    answering.add_conflict_handlers(app)
    app.include_router(pages)
    app.include_router(pairs.router)
    for router in (viewing.router, answering.router, reviewing.router, organising.router):
        app.include_router(router, prefix="/pair/{key}/api")
    app.mount(f"/static/{VERSION}", VersionedFiles())
    if site.settings.public is not None:  # others come over a line; on this machine compressing only costs time
        app.add_middleware(GZipMiddleware, compresslevel=1)
    app.add_middleware(Guard, people=site.people, settings=site.settings)
    return app
