"""What a server holds of the project that it serves: the log, the images, the session, and one lock around it."""

from __future__ import annotations

import threading
from typing import Any

from warpgauge.project import SKIP_REASONS, Project
from warpgauge.web.pictures import Picture
from warpgauge.web.tokens import Person


class Desk:
    """A project at work.

    Parameters
    ----------
    project : Project

    Attributes
    ----------
    lock : RLock
        Held by whoever uses the session, so that two requests cannot cross in it.
    pictures : dict
        The fixed and the moving image.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.lock = threading.RLock()
        self.pictures = {
            side: Picture(project.image(side), project.document.images[side].content_hash)
            for side in ("fixed", "moving")
        }

    def warm(self) -> None:
        """Prepare, in the background, what the first picture needs."""
        threading.Thread(target=self._warm, name="warpgauge-warm", daemon=True).start()

    def _warm(self) -> None:
        for picture in self.pictures.values():
            picture.warm()

    @property
    def default_radius(self) -> float:
        """Radius of a plain click in world units."""
        settings = self.project.settings
        if settings.default_radius is not None:
            return settings.default_radius
        return 0.1 * settings.smallest_scale_px * float(self.project.fixed_grid.spacing.min())

    def compares(self, person: Person) -> bool:
        """Whether a person may see the transforms that were added: not a rater who should be blind."""
        return person.role != "rater" or not self.project.settings.blind

    def describe(self, person: Person) -> dict[str, Any]:
        """Give what ``/api/project`` answers."""
        project, settings, state = self.project, self.project.settings, self.project.state
        compare = self.compares(person)
        return {
            "name": project.folder.resolve().name,
            "d": project.d,
            "units": project.units,
            "rater": person.name,
            "role": person.role,
            "generation": state.generation,
            "readonly": project.readonly,
            "compare": compare,
            "transforms": list(state.transforms) if compare else [],
            "settings": {
                "hide_prediction": settings.hide_prediction,
                "blind": settings.blind,
                "alpha": settings.alpha,
                "default_radius": self.default_radius,
                "order": settings.order,
                "budget": settings.budget,
                "skip_reasons": list(SKIP_REASONS),
            },
            "images": {side: picture.describe() for side, picture in self.pictures.items()},
        }
