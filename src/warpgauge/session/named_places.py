"""Named landmarks of a protocol: points of the fixed image that every rater is asked for by name first."""

from __future__ import annotations

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.landmarks import Landmarks


def check_named(landmarks: Landmarks, grid: Grid, file: str) -> None:
    """Refuse landmarks that cannot be asked for by name in the fixed image; ``file`` is their name for messages."""
    if landmarks.moving_points is not None:
        raise InvalidInputError(
            f"{file!r} holds pairs; named landmarks are points of the fixed image alone. Import pairs with warpgauge "
            f"import."
        )
    names = landmarks.names or ()
    if not all(name.strip() for name in names) or len(names) != len(landmarks) or len(set(names)) != len(names):
        raise InvalidInputError(f"Every point of {file!r} needs a name of its own to be asked for by it.")
    outside = np.flatnonzero(~grid.contains(landmarks.fixed_points))
    if len(outside):
        at = ", ".join(f"{value:.4g}" for value in landmarks.fixed_points[outside[0]])
        raise InvalidInputError(
            f"{names[outside[0]]!r} of {file!r} lies outside the fixed image, at {at}; is it of another image?"
        )
