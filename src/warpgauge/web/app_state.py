"""State of a server: the log, the images and the session of its project, and one lock around the session."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from warpgauge.core.process import Posterior
from warpgauge.core.suggestion import compile_loops
from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import AuditWatch
from warpgauge.project import SKIP_REASONS, Project
from warpgauge.session import Session
from warpgauge.session.model import default_radius
from warpgauge.web.answers import Answering
from warpgauge.web.auth import Gate, Person
from warpgauge.web.comparison import Comparison
from warpgauge.web.overlays import Overlays
from warpgauge.web.pictures import Picture

_GATHERED = 0.2  # seconds from an answer to the look whether a refit is due

logger = logging.getLogger("warpgauge.web")
QUIET_SECONDS = 3.0  # between two lines about an overview, and before the first


class OverviewNews:
    """Tells how far the overview of a large image without coarse levels is, from time to time.

    Parameters
    ----------
    name : str
        Of the image.
    tell : callable
        Prints a line.
    """

    def __init__(self, name: str, tell: Callable[[str], object]) -> None:
        self._name, self._tell = name, tell
        self._due = time.monotonic() + QUIET_SECONDS
        self._told = False

    def report(self, done: int, rows: int) -> None:
        """Take that so many rows are done; what is done quickly is not worth a line."""
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

    Parameters
    ----------
    project : Project
    gate : Gate

    Attributes
    ----------
    lock : StateLock
        The project's own: held by whoever uses the session or reads its state, so that two requests cannot cross.
    pictures : dict
        The fixed and the moving image.
    tell : callable
        Prints a line for whoever launched.
    """

    def __init__(self, project: Project, gate: Gate) -> None:
        self.project, self.gate = project, gate
        self.lock = project.lock
        self.pictures = {
            side: Picture(project.image(side), project.document.images[side].content_hash)
            for side in ("fixed", "moving")
        }
        self.audit = AuditWatch(project)
        self.session = Session(project, auto_refit=False, decided=self.audit.decided)
        self.overlays = Overlays(project, self.pictures)
        self.comparison = Comparison(project, self.overlays)
        self.answering = Answering(self)
        self.tell: Callable[[str], object] = logger.info
        self._wake, self._over = threading.Event(), threading.Event()

    # --- in the background -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Prepare what the first picture needs, and refit the weights whenever that is due, in the background."""
        threading.Thread(target=self._warm, name="warpgauge-warm", daemon=True).start()
        threading.Thread(target=self._refit, name="warpgauge-refit", daemon=True).start()
        self.project.log.watch(self.changed)  # answers that another server of this project has saved count as well
        self.changed()

    def stop(self) -> None:
        """End what runs in the background."""
        self._over.set()
        self._wake.set()

    def changed(self) -> None:
        """Signal that answers have changed."""
        self._wake.set()

    def _warm(self) -> None:
        for picture in self.pictures.values():
            picture.image.watch_overview(OverviewNews(picture.image.path.name, self.tell).report)
        try:
            self.session.warm()
            compile_loops()  # the first question is there; the second must not wait for the compiler
        except WarpgaugeError as error:
            logger.error("%s", error)
        for picture in self.pictures.values():
            try:
                picture.warm()
            except WarpgaugeError as error:
                logger.error("%s", error)

    def _refit(self) -> None:
        if sys.platform == "linux":  # there a priority is that of one thread, and answers go before a refit
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not self._over.is_set():
            self._wake.wait()
            self._over.wait(_GATHERED)  # answers of many raters are looked at together
            self._wake.clear()
            if self._over.is_set() or self.project.readonly:
                return
            try:
                self.session.refit_if_due()
            except WarpgaugeError as error:  # nobody waits for it, and the weights in force go on being used
                logger.error("The weights were not refitted: %s", error)

    # --- who may see what --------------------------------------------------------------------------------------------

    def compares(self, person: Person) -> bool:
        """Whether a person may see the transforms that were added: not a rater who should be blind."""
        return person.role != "rater" or not self.project.settings.blind

    def sees_all(self, person: Person) -> bool:
        """Whether a person may see the answers of others."""
        return person.role != "rater" or not self.project.settings.blind

    def predicts(self, person: Person) -> bool:
        """Whether a person may see where the model expects matches."""
        return person.role != "rater" or not self.project.settings.hide_prediction

    def posterior(self, person: Person) -> Posterior:
        """Return the model that a person may see: a rater's stays the same while they have a query before them."""
        if person.role == "rater":
            return self.session.view(person.name)
        return self.session.posterior()

    def describe(self, person: Person) -> dict[str, Any]:
        """Return what ``/api/project`` answers."""
        project = self.project
        with self.lock:
            generation, names = project.state.generation, project.transform_names()
            settings = project.settings
        compare = self.compares(person)
        return {
            "name": project.folder.resolve().name,
            "d": project.d,
            "units": project.units,
            "rater": person.name,
            "role": person.role,
            "generation": generation,
            "readonly": project.readonly,
            "compare": compare,
            "transforms": names if compare else [],
            "settings": {
                "hide_prediction": settings.hide_prediction,
                "blind": settings.blind,
                "alpha": settings.alpha,
                "default_radius": default_radius(project.fixed_grid, settings),
                "order": settings.order,
                "budget": settings.budget,
                "skip_reasons": list(SKIP_REASONS),
                "snap": settings.snap,
                "move_within": settings.move_within * project.fixed_grid.diagonal,
            },
            "start": self.answering.start(person),
            "images": {side: picture.describe() for side, picture in self.pictures.items()},
        }
