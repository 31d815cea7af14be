"""State of a server: log, images and session of its project, one lock around the session, and who may see what."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

from fastapi import Depends, Request

from warpgauge.core.process import Posterior
from warpgauge.core.suggestion import compile_loops
from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import AuditWatch
from warpgauge.project import SKIP_REASONS, Doubt, NotAllowedError, Project, State
from warpgauge.session import Session
from warpgauge.session.prior import default_radius
from warpgauge.web.auth import Gate, Person
from warpgauge.web.beside import BESIDE
from warpgauge.web.context_images import ContextImage
from warpgauge.web.overlays import Overlays
from warpgauge.web.ranking import Ranking
from warpgauge.web.tiled_image import TiledImage

logger = logging.getLogger("warpgauge.web")
NO_START: dict[str, Any] = {"due": False, "volunteered": 0, "wanted": 0, "sentence": ""}
_END_SECONDS = 60.0  # for a refit or the reading of an image that is under way
PICTURE_SECONDS = 1.0  # left to the first visitor's picture before the first question is prepared
QUIET_SECONDS = 3.0  # between two lines about an overview, and before the first


@cache
def load_programs() -> None:
    """Load what questions need, or compile it: once in a process, so that nobody's question waits for it."""
    compile_loops()
    import_module("scipy.signal")  # by which places are compared; takes longer to load than all of the core


class OverviewNews:
    """Reports from time to time how much of the overview of a large image without coarse levels is made."""

    def __init__(self, name: str, tell: Callable[[str], object]) -> None:
        self._name, self._tell = name, tell
        self._due = time.monotonic() + QUIET_SECONDS
        self._told = False

    def report(self, done: int, rows: int) -> None:
        """Report that so many rows are done; an overview that is made quickly is not worth a line."""
        if done < rows and time.monotonic() < self._due:
            return
        if done < rows:
            advice = "" if self._told else "; a file with a pyramid opens at once"
            self._tell(f"Making an overview of {self._name}: {100 * done // rows} %{advice}.")
            self._due, self._told = time.monotonic() + QUIET_SECONDS, True
        elif self._told:
            self._tell(f"The overview of {self._name} is made.")


class Desk:
    """A project at work.

    Attributes
    ----------
    lock : StateLock
        The project's own: held by whoever uses the session or reads its state, so that two requests cannot cross.
    pictures : dict
        The fixed and the moving image.
    gate : Gate or None
        Who signs in to this project; None where people sign in to a folder of projects.
    contexts : sequence of ContextImage
        Further images of their frames.
    tell : callable
        Prints a line for whoever launched.
    """

    def __init__(self, project: Project, gate: Gate | None, contexts: Sequence[ContextImage] = ()) -> None:
        self.project, self.gate, self.contexts = project, gate, contexts
        self.lock = project.lock
        self.pictures = {
            side: TiledImage(project.image(side), project.document.images[side].content_hash)
            for side in ("fixed", "moving")
        }
        if not project.readonly:
            for picture in self.pictures.values():
                picture.image.keep_overview(project.folder / "cache" / f"overview-{picture.version}.npy")
        self.audit = AuditWatch(project)
        self.session = Session(
            project,
            auto_refit=False,
            question=self._question,
        )
        self.overlays = Overlays(project, self.pictures)
        self.ranking = Ranking(project, self.overlays)
        self.tell: Callable[[str], object] = logger.info
        self._over, self._busy = threading.Event(), threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Follow the log: refit the weights whenever that is due, beside the requests."""
        self.changed()

    def prepare(self) -> None:
        """Prepare the first picture and question in the background: somebody opens the page, or is about to."""
        if not self._threads:
            self._threads = [self._begin("image", partial(self._learn, picture)) for picture in self.pictures.values()]
            self._threads.append(self._begin("warm", partial(self._warm, tuple(self._threads))))

    def _begin(self, name: str, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"warpgauge-{name}", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """End what runs in the background."""
        self._over.set()

    def close(self) -> None:
        """End what runs in the background, wait for it, and close the project."""
        self.stop()
        for thread in self._threads:
            thread.join(_END_SECONDS)
        if self._busy.acquire(timeout=_END_SECONDS):
            self._busy.release()
        self.project.close()

    def changed(self) -> None:
        """Signal that answers have changed."""
        if not self.project.readonly:
            BESIDE.soon(self._catch_up)

    def _learn(self, picture: TiledImage) -> None:
        """Read what the first picture needs; why it cannot be read is told to whoever asks for it."""
        with suppress(WarpgaugeError):
            picture.describe()

    def _warm(self, learning: Sequence[threading.Thread]) -> None:
        for picture in self.pictures.values():
            picture.image.watch_overview(OverviewNews(picture.image.path.name, self.tell).report)
        # The page that opens at once gets its picture first, which imports and compilers would keep waiting: on a busy
        # machine reading a volume alone takes longer than that.
        for thread in learning:
            thread.join()
        if self._over.wait(PICTURE_SECONDS):
            return
        try:
            self.session.warm()
            load_programs()  # the first question is there; the second must not wait for the compiler
        except WarpgaugeError as error:
            logger.error("%s", error)
        for picture in self.pictures.values():
            try:
                picture.warm()
            except WarpgaugeError as error:
                if not self._over.is_set():  # a server that ends interrupts the reading, which is not an error
                    logger.error("%s", error)

    def _catch_up(self) -> None:
        """Do what answers have made due: nobody waits for it."""
        with self._busy:
            if self._over.is_set():
                return
            try:
                self.session.refit_if_due()
            except WarpgaugeError as error:  # the present weights stay in use
                logger.error("The weights were not refitted: %s", error)

    def compares(self, person: Person) -> bool:
        """Return whether a person may see others' answers and the transforms: not a rater who should be blind."""
        return person.role != "rater" or not self.project.settings.blind

    def predicts(self, person: Person) -> bool:
        """Return whether a person may see where the model expects matches."""
        return person.role != "rater" or not self.project.settings.hide_prediction

    def _question(self, doubt: Doubt, name: str) -> str | None:
        """Return what to ask a person about a placement that looks like a slip; see `Session`."""
        hidden = self.project.settings.hide_prediction and self.project.known.role(name) == "rater"
        return doubt.question(self.project.units, hide_prediction=hidden)

    def check_predicts(self, person: Person) -> None:
        """Refuse where a person must not see what the model expects."""
        if not self.predicts(person):
            raise NotAllowedError("In this project raters are not shown where the model expects matches.")

    def check_compares(self, person: Person) -> None:
        """Refuse where a person must not see the transforms that were added."""
        if not self.compares(person):
            raise NotAllowedError("In a blind project raters do not see the transforms that are to be judged.")

    def posterior(self, person: Person) -> Posterior:
        """Return the model that a person may see: a rater's stays the same while they have a query before them."""
        return self.session.view(person.name, everybody=person.role != "rater")

    def guided_start(self, person: Person) -> dict[str, Any]:
        """Return whether the guided start is due, and how many landmarks it still needs."""
        found = self.session.start(person.name)
        left = found.wanted - found.volunteered
        places = {1: "one place", 2: "two places", 3: "three places"}.get(left, f"{left} places")
        sentence = f"Mark {places} that you recognise in both images." if found.due else ""
        return {"due": found.due, "volunteered": found.volunteered, "wanted": found.wanted, "sentence": sentence}

    def _at_once(self) -> State:
        """Return the state, or what is known of it while others work on it: a picture does not wait for a question."""
        if not self.lock.acquire(blocking=False):
            return self.project.known
        try:
            return self.project.state
        finally:
            self.lock.release()

    def describe(self, person: Person) -> dict[str, Any]:
        """Return what ``/api/project`` answers."""
        project = self.project
        known, settings, compare = self._at_once(), project.settings, self.compares(person)
        return {
            "name": project.folder.resolve().name,
            "d": project.d,
            "units": project.units,
            "rater": person.name,
            "role": person.role,
            "generation": known.generation,
            "readonly": project.readonly,
            "compare": compare,
            "transforms": list(known.transforms) if compare else [],
            "settings": {
                "hide_prediction": settings.hide_prediction,
                "blind": settings.blind,
                "alpha": settings.alpha,
                "default_radius": default_radius(project.fixed_grid, settings),
                "order": "list",
                "budget": settings.budget,
                "skip_reasons": list(SKIP_REASONS),
                "snap": False,
                "move_within": settings.circle * float(project.fixed_grid.extent.min()),
            },
            "images": {side: picture.describe() for side, picture in self.pictures.items()},
            "contexts": [context.describe() for context in self.contexts],
        }


async def _desk(request: Request) -> Desk:
    desk = request.state.desk
    assert isinstance(desk, Desk)
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
"""The project at work that a request is about."""
