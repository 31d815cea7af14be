"""One server for many projects: who may enter which pair, and the application around all of them.

Everybody signs in once, at the folder. Raters enter the pairs that are assigned to them and learn nothing
about others, not even whether there are any; organisers enter all. Below ``/pair/KEY/`` stands the annotator of
that pair, the same application as that of a single project.
"""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from warpgauge.errors import WarpgaugeError
from warpgauge.project import ORGANISER, REVOKED, NotAllowedError, Project
from warpgauge.web import pair_routes
from warpgauge.web.app import About, annotator_app, api_app, make_routes
from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Gate, Person
from warpgauge.web.catalogue import Catalogue, Pair
from warpgauge.web.failures import NotFoundError, status_of
from warpgauge.web.links import an_organiser
from warpgauge.web.page_files import page_at, static_router
from warpgauge.web.roster import Roster
from warpgauge.web.security import Guard, failure, plain_page
from warpgauge.web.settings import ServerSettings
from warpgauge.web.shelf import Shelf
from warpgauge.web.summaries import Summaries

_BELOW = "/pair/"


class Site:
    """The projects of a folder or study at work.

    Parameters
    ----------
    place : Path
        Folder, or study file.
    settings : ServerSettings

    Attributes
    ----------
    catalogue, roster, shelf, summaries
        Which pairs there are, whose they are, which are open, and what was done in each.
    """

    def __init__(self, place: Path, settings: ServerSettings) -> None:
        self.settings = settings
        self.catalogue = Catalogue(place)
        self.roster = Roster(self.catalogue.roster_file)
        self.shelf = Shelf(self._open, settings.most_open)
        self.summaries = Summaries(self.shelf)
        self.gate: Gate | None = None

    def address(self, pair: Pair) -> str:
        """Path of a pair's annotator."""
        return f"{self.settings.root_path}{_BELOW}{pair.key}/"

    def enter(self, key: str, person: Person) -> tuple[Pair, Desk, Person]:
        """Return a pair, opened until it is given back to the shelf, and who a person is in it."""
        pair = self.catalogue.pairs().get(key)
        if pair is None or (not person.organises and not self.roster.is_assigned(person.name, key)):
            raise NotFoundError("There is no such pair among yours; the page of all pairs lists them.")
        desk = self.shelf.take(pair)
        try:
            return pair, desk, _in_project(desk.project, person)
        except BaseException:
            self.shelf.give_back(pair)
            raise

    def _open(self, pair: Pair) -> Desk:
        project = Project.open(pair.folder, check_images=False)  # the desk refuses images that are missing or changed
        try:
            if self.settings.mirror is not None:
                project.use_mirror(Path(self.settings.mirror) / pair.key)
            desk = Desk(project, None)
        except BaseException:
            project.close()
            raise
        desk.start()
        return desk

    def ping(self) -> None:
        """Raise when people cannot be looked up, or the log of a project that is in use cannot be written."""
        self.roster.ping()
        for key in self.shelf.open_keys[-1:]:  # the one used last; where all are in one database it stands for all
            pair = self.catalogue.pairs().get(key)
            desk = None if pair is None else self.shelf.taken_if_open(pair)
            if pair is not None and desk is not None:
                try:
                    desk.project.check_ready()
                finally:
                    self.shelf.give_back(pair)

    def close(self) -> None:
        """Close all projects."""
        self.shelf.close()


def _in_project(project: Project, person: Person) -> Person:
    """Return who a person is in a project, where they are registered when they first come.

    Whoever is less there than at the folder stays so: a project's own log decides what may be written to it.
    """
    known = project.known.raters
    if person.name not in known and not project.readonly:
        with project.lock:
            state = project.state
            if person.name not in state.raters:
                by = an_organiser(state) or (person.name if person.organises else ORGANISER)
                project.add_rater(person.name, "organiser" if person.organises else "rater", by=by)
    there = project.known.role(person.name)
    if there == REVOKED:
        raise NotAllowedError("The organiser of this pair has revoked your access to it; ask the organiser.")
    return Person(person.name, "organiser" if person.organises and there == ORGANISER else "rater")


class PairDoor:
    """Middleware that hands what is below ``/pair/KEY/`` to the annotator of that pair."""

    def __init__(self, app: ASGIApp, site: Site, annotator: ASGIApp) -> None:
        self.app, self.site, self.annotator = app, site, annotator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on one request."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(_BELOW):
            await self.app(scope, receive, send)
            return
        key, slash, rest = path.removeprefix(_BELOW).partition("/")
        if not slash:
            await RedirectResponse(f"{self.site.settings.root_path}{_BELOW}{key}/", 307)(scope, receive, send)
            return
        try:
            pair, desk, person = await run_in_threadpool(self.site.enter, key, scope["state"]["person"])
        except WarpgaugeError as error:
            await self._refused(error, rest)(scope, receive, send)
            return
        try:
            scope["path"] = f"/{rest}"
            scope["raw_path"] = scope["path"].encode("utf-8", "surrogateescape")
            root = self.site.settings.root_path
            page = None if rest else page_at(f"{root}{_BELOW}{key}", above=root)
            if page is not None:
                desk.prepare()
            scope["state"].update(desk=desk, person=person, page=page)
            await self.annotator(scope, receive, send)
        finally:
            self.site.shelf.give_back(pair)

    def _refused(self, error: WarpgaugeError, rest: str) -> Response:
        if rest:
            return failure(status_of(error), str(error))
        back = f'</p><p><a href="{self.site.settings.root_path}/">All pairs</a>'
        return plain_page(status_of(error), f"{html.escape(str(error))}{back}")


def create_site(site: Site, tokens: Mapping[str, str], settings: ServerSettings) -> FastAPI:
    """Return the application that serves many projects; see `create_app`."""
    annotator = annotator_app()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        make_routes(app)
        make_routes(annotator)
        yield
        await run_in_threadpool(site.close)

    gate = site.gate = Gate(site.roster, tokens)
    app = api_app(summary="The annotators of many projects.", lifespan=lifespan)
    app.include_router(pair_routes.router)
    app.include_router(static_router())
    app.state.gate, app.state.house, app.state.site, app.state.ping = gate, site.roster, site, site.ping
    app.add_middleware(About, state={"site": site, "page": page_at(settings.root_path, name="pairs.html")})
    app.add_middleware(PairDoor, site=site, annotator=annotator)
    app.add_middleware(Guard, gate=gate, house=site.roster, settings=settings)
    return app
