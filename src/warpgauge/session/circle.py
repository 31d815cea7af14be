"""How far from a question's point the rater may choose the place: as far as an answer there tells nearly as much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats
from warpgauge.project import State
from warpgauge.session.model import Model

KEPT = 0.85  # share of the information of an answer at the point that one at the rim must bring
_STEPS, _DIRECTIONS = 12, 16


def radius(model: Model, state: State, posterior: Posterior, point: Sequence[float]) -> float:
    """Return the radius of the circle (in 3D of the ball) around a point, in world units of the fixed image.

    Parameters
    ----------
    model : Model
        Of the project.
    state : State
    posterior : Posterior
        Given the answers that the rater may receive, those at this question left out.
    point : (d,) sequence
        Where the question is asked.
    """
    project = model.project
    grid, centre = project.fixed_grid, np.array(point)
    largest = project.settings.circle * float(grid.extent.min())
    noise = model.default_covariance

    def information(points: Floats) -> Floats:
        known = posterior.covariance(points)
        return np.asarray(0.5 * (np.linalg.slogdet(known + noise)[1] - np.linalg.slogdet(noise)[1]))

    least = KEPT * float(information(centre[None])[0])
    foreground = project.fixed_foreground
    reached = 0.0
    for length in largest * np.arange(1, _STEPS + 1) / _STEPS:
        rim = centre + length * _directions(grid.d)
        rim = rim[grid.contains(rim)]
        if len(rim) == 0 or (information(rim) < least).any():
            break
        if foreground is not None and not foreground.contains(rim).all():
            break
        reached = float(length)
    return reached


def _directions(d: int) -> Floats:
    """Return unit vectors in all directions."""
    if d == 2:
        angles = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    axes = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) != (0, 0, 0)])
    return np.asarray(axes / np.linalg.norm(axes, axis=1, keepdims=True))
