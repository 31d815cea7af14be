"""How far from a question's point the rater may choose the place: as far as an answer there tells nearly as much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats
from warpgauge.project import Project
from warpgauge.session.prior import default_covariance

KEPT = 0.85  # share of the information of an answer at the point that one at the rim must bring
VISIBLE = 0.5  # share of the rim that shows tissue with a match: questions are at corners, so often at a border
_RINGS, _DIRECTIONS = 12, 48


def information(posterior: Posterior, points: Floats, noise: Floats) -> Floats:
    """Return the information (nats) that an answer with this covariance is expected to bring at each point, (n,)."""
    predicted = posterior.covariance(points) + noise
    return np.asarray(0.5 * (np.linalg.slogdet(predicted)[1] - np.linalg.slogdet(noise)[1]))


def circle_radius(project: Project, posterior: Posterior, point: Sequence[float]) -> float:
    """Return the radius of the circle (in 3D of the ball) around a point, in world units of the fixed image.

    As far as every direction within the image keeps at least 85 % of the information, and half of them lie in the fixed
    foreground and have their expected match in the moving image; at most the share ``circle`` of the shorter side. The
    posterior is that of the answers that the rater may receive, those at this question left out.
    """
    grid = project.fixed_grid
    centre = np.array(point)
    lengths = project.settings.circle * float(grid.extent.min()) * np.arange(1, _RINGS + 1) / _RINGS
    rings = centre + lengths[:, None, None] * _directions(grid.d)
    places = rings.reshape(-1, grid.d)
    noise = default_covariance(grid, project.settings)
    informative = information(posterior, places, noise) >= KEPT * information(posterior, centre[None], noise)
    visible = project.moving_grid.contains(posterior.mean(places))
    if project.fixed_foreground is not None:
        visible &= project.fixed_foreground.contains(places)
    inside = grid.contains(places)  # beyond the border there is nothing to choose
    rim = np.arange(len(places)).reshape(_RINGS, -1)
    reached = 0.0
    for length, rows in zip(lengths, rim, strict=True):
        ring = rows[inside[rows]]
        if len(ring) == 0 or not informative[ring].all() or visible[ring].mean() < VISIBLE:
            break
        reached = float(length)
    return reached


def _directions(d: int) -> Floats:
    """Return unit vectors spread evenly over all directions."""
    steps = np.arange(_DIRECTIONS)
    if d == 2:
        angles = 2 * np.pi * steps / _DIRECTIONS
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    angles = np.pi * (1 + np.sqrt(5)) * steps  # a spiral from pole to pole
    height = 1 - (2 * steps + 1) / _DIRECTIONS
    across = np.sqrt(1 - height**2)
    return np.stack([across * np.cos(angles), across * np.sin(angles), height], axis=1)
