"""A project at work: log, images and session, one lock around the session; and a visit, which is a person at it."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Annotated

from fastapi import Depends, Path, Request
from starlette.concurrency import run_in_threadpool

from warpgauge.core.process import Posterior
from warpgauge.core.suggestion import compile_loops
from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import AuditWatch
from warpgauge.project import Doubt, NotAllowedError, Project
from warpgauge.project.images import overview_file
from warpgauge.session import Session
from warpgauge.web.beside import BESIDE
from warpgauge.web.overlays import Overlays
from warpgauge.web.people import Person
from warpgauge.web.ranking import Ranking
from warpgauge.web.tiled_image import TiledImage
from warpgauge.web.wire import Side

logger = logging.getLogger("warpgauge.web")
_END_SECONDS = 60.0  # for a refit that is under way
_BESIDE_IMAGES = 64 * 2**20  # bytes that the model of a project takes, about


@cache
def load_programs() -> None:
    """Load what questions need, or compile it: once in a process, so that nobody's question waits for it."""
    compile_loops()
    import_module("scipy.signal")  # by which places are compared; takes longer to load than all of the core


class Desk:
    """A project at work.

    ``lock`` is held by whoever uses the session or reads its state, so that two requests cannot cross; ``nbytes`` is
    the memory that all may take, about.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.lock = project.lock
        images = project.document.images
        self.pictures: dict[Side, TiledImage] = {
            "fixed": TiledImage(project.image("fixed"), images["fixed"].content_hash),
            "moving": TiledImage(project.image("moving"), images["moving"].content_hash),
        }
        if not project.readonly:
            for side, picture in self.pictures.items():
                picture.image.keep_overview(overview_file(project.folder, images[side].content_hash))
        self.nbytes = _BESIDE_IMAGES + sum(picture.nbytes for picture in self.pictures.values())
        self.session = Session(project, auto_refit=False, question=self._question)
        self.overlays = Overlays(project, self.pictures)
        self.ranking = Ranking(project, self.overlays)
        self.audit = AuditWatch(project)
        self._over = threading.Event()
        self._busy = threading.Lock()
        self._is_warm = False

    def prepare(self) -> None:
        """Prepare the first picture and question in the background: somebody opens the page."""
        if not self._is_warm:
            self._is_warm = True
            for picture in self.pictures.values():
                threading.Thread(target=self._look_at, args=(picture,), name="warpgauge-image", daemon=True).start()
            BESIDE.soon(self._warm)

    def _look_at(self, picture: TiledImage) -> None:
        with suppress(WarpgaugeError):  # whoever asks for it is told why it cannot be read
            picture.describe()

    def _warm(self) -> None:
        with self._busy:
            if not self._over.is_set():
                try:
                    self.session.warm()
                except WarpgaugeError as error:
                    logger.error("%s", error)

    def changed(self) -> None:
        """Signal that answers have changed."""
        if not self.project.readonly:
            BESIDE.soon(self._catch_up)

    def _catch_up(self) -> None:
        """Do what answers have made due: nobody waits for it."""
        with self._busy:
            if not self._over.is_set():
                try:
                    self.session.refit_if_due()
                except WarpgaugeError as error:  # the present weights stay in use
                    logger.error("The weights were not refitted: %s", error)

    def stop(self) -> None:
        """Begin nothing more in the background."""
        self._over.set()

    def close(self) -> None:
        """End what runs in the background, wait for it, and close the project."""
        self.stop()
        if self._busy.acquire(timeout=_END_SECONDS):
            self._busy.release()
        self.project.close()

    def _question(self, doubt: Doubt, name: str) -> str | None:
        """Return what to ask a person about a placement that looks like a slip; see `Session`."""
        hidden = self.project.settings.hide_prediction and self.project.known.role(name) == "rater"
        return doubt.question(self.project.units, hide_prediction=hidden)


@dataclass(frozen=True)
class Visit:
    """A person at a project, in their role there."""

    desk: Desk
    person: Person

    @property
    def name(self) -> str:
        """Name of the person."""
        return self.person.name

    @property
    def project(self) -> Project:
        """The project."""
        return self.desk.project

    @property
    def session(self) -> Session:
        """Its session."""
        return self.desk.session

    @property
    def compares(self) -> bool:
        """Whether they may see others' answers and the transforms: not a rater who should be blind."""
        return self.person.organises or not self.project.settings.blind

    @property
    def predicts(self) -> bool:
        """Whether they may see where the model expects matches."""
        return self.person.organises or not self.project.settings.hide_prediction

    def check_predicts(self) -> None:
        """Refuse where they must not see what the model expects."""
        if not self.predicts:
            raise NotAllowedError("In this project raters are not shown where the model expects matches.")

    def check_compares(self) -> None:
        """Refuse where they must not see the transforms that were added."""
        if not self.compares:
            raise NotAllowedError("In a blind project raters do not see the transforms that are to be judged.")

    def posterior(self) -> Posterior:
        """Return the model that they may see: a rater's stays the same while they have a query before them."""
        return self.session.view(self.name, everybody=self.person.organises)


async def _asking(request: Request) -> Person:
    person = request.state.person
    assert isinstance(person, Person)
    return person


async def _managing(person: Annotated[Person, Depends(_asking)]) -> Person:
    if not person.organises:
        raise NotAllowedError(f"{person.name} is not an organiser; ask the organiser.")
    return person


async def _visiting(
    key: Annotated[str, Path(max_length=80)], request: Request, person: Annotated[Person, Depends(_asking)]
) -> AsyncIterator[Visit]:
    site = request.app.state.site
    visit = await run_in_threadpool(site.enter, key, person)
    request.state.visit = visit
    try:
        yield visit
    finally:
        site.projects.give_back(key)


async def _organising(visit: Annotated[Visit, Depends(_visiting)]) -> Visit:
    if not visit.person.organises:
        raise NotAllowedError(f"{visit.name} is not an organiser of this project; ask the organiser.")
    return visit


Asking = Annotated[Person, Depends(_asking)]
"""Anybody with a link."""
Managing = Annotated[Person, Depends(_managing)]
"""An organiser of the place."""
Visiting = Annotated[Visit, Depends(_visiting)]
"""Anybody who may enter the pair."""
Organising = Annotated[Visit, Depends(_organising)]
"""An organiser of the pair."""
