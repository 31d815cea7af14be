"""How far from a question's point the rater may choose the place: as far as an answer there tells nearly as much."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats
from warpgauge.project import Project
from warpgauge.session.prior import default_covariance

KEPT = 0.85  # share of the information of an answer at the point that one at the rim must bring
_RINGS, _DIRECTIONS = 12, 16


def information(posterior: Posterior, points: Floats, noise: Floats) -> Floats:
    """Return the information (nats) that an answer with this covariance is expected to bring at each point, (n,)."""
    predicted = posterior.covariance(points) + noise
    return np.asarray(0.5 * (np.linalg.slogdet(predicted)[1] - np.linalg.slogdet(noise)[1]))


def circle_radius(project: Project, posterior: Posterior, point: Sequence[float]) -> float:
    """Return the radius of the circle (in 3D of the ball) around a point, in world units of the fixed image.

    As far as every direction keeps at least 85 % of the information, lies in the fixed foreground, and has its expected
    match in the moving image; at most the share ``circle`` of the shorter side.

    Parameters
    ----------
    project : Project
    posterior : Posterior
        Given the answers that the rater may receive, those at this question left out.
    point : (d,) sequence
        Where the question is asked.
    """
    grid = project.fixed_grid
    centre = np.array(point)
    lengths = project.settings.circle * float(grid.extent.min()) * np.arange(1, _RINGS + 1) / _RINGS
    rings = centre + lengths[:, None, None] * _directions(grid.d)
    rim = rings.reshape(-1, grid.d)
    inside = grid.contains(rim)
    noise = default_covariance(grid, project.settings)
    tells_enough = information(posterior, rim, noise) >= KEPT * information(posterior, centre[None], noise)
    tells_enough &= project.moving_grid.contains(posterior.mean(rim))
    foreground = project.fixed_foreground
    if foreground is not None:
        tells_enough &= foreground.contains(rim)
    # Beyond the image's border there is nothing to choose.
    may_reach = (tells_enough | ~inside).reshape(_RINGS, -1).all(axis=1) & inside.reshape(_RINGS, -1).any(axis=1)
    reached = int(np.cumprod(may_reach).sum())
    return float(lengths[reached - 1]) if reached else 0.0


def _directions(d: int) -> Floats:
    """Return unit vectors in all directions."""
    if d == 2:
        angles = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    steps = np.array([step for step in product((-1, 0, 1), repeat=3) if any(step)], dtype=np.float64)
    return np.asarray(steps / np.linalg.norm(steps, axis=1, keepdims=True))
