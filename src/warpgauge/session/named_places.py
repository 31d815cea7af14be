"""Named landmarks of a protocol: points of the fixed image that every rater is asked for by name first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.landmarks import Landmarks
from warpgauge.project import Event, Project
from warpgauge.session.questions import asked_by_organiser


@dataclass(frozen=True)
class NamedPlaces:
    """Points of the fixed image and what a protocol calls them, in its order; ``points`` are world coordinates."""

    names: tuple[str, ...]
    points: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, landmarks: Landmarks, grid: Grid, file: str) -> NamedPlaces:
        """Check the points of a landmark file against the fixed image; ``file`` is its name for messages."""
        if landmarks.moving_points is not None:
            raise InvalidInputError(
                f"{file!r} holds pairs; named landmarks are points of the fixed image alone. Import pairs with "
                f"warpgauge import."
            )
        names = tuple(name.strip() for name in landmarks.names or ())
        if not all(names) or len(names) != len(landmarks) or len(set(names)) != len(names):
            raise InvalidInputError(f"Every point of {file!r} needs a name of its own to be asked for by it.")
        outside = np.flatnonzero(~grid.contains(landmarks.fixed_points))
        if len(outside):
            at = ", ".join(f"{value:.4g}" for value in landmarks.fixed_points[outside[0]])
            raise InvalidInputError(
                f"{names[outside[0]]!r} of {file!r} lies outside the fixed image, at {at}; is it of another image?"
            )
        return cls(names, tuple(tuple(point) for point in landmarks.fixed_points.tolist()))

    def ask(self, project: Project, rater: str) -> tuple[Event, ...]:
        """Put them into the list of questions, for all raters and in their order."""
        with project.lock:
            points = np.array(self.points)
            return project.append(*asked_by_organiser(project, rater, points, self.names, origin="given"))
