"""Places near a queried one that are easier to recognise, and what an answer there is worth.

Which places are offered depends on the fixed image alone: nobody's answers decide it. What they are worth is computed
with the model that the rater may see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.candidates import distinctiveness, to_gray
from warpgauge.candidates.peaks import local_maxima
from warpgauge.candidates.structure import harris_strength
from warpgauge.core.arrays import Ints
from warpgauge.core.process import Posterior
from warpgauge.errors import MissingExtraError
from warpgauge.geometry import Floats, Grid, array_order
from warpgauge.io.images import Image
from warpgauge.project import Project

MOST = 3  # places that are offered
HALF = {2: 8, 3: 4}  # pixels from the middle of a patch to its side
ACROSS = {2: 48, 3: 16}  # pixels that the distance within which a point may be moved should have
SIGHT = 0.05  # of the diagonal: what lies within it may be taken for a point
MOST_TRIED = 40  # corners that are compared, the strongest
CLEARER = 1.25  # a place that is offered is this many times as distinctive as the point asked for


@dataclass(frozen=True, eq=False)
class NearbyPlace:
    """A place that stands out more than the queried one.

    Attributes
    ----------
    point : (d,) array
        In the fixed image's world.
    keeps : float
        Expected information of an answer there, as a share of that at the queried place; may exceed 1.
    """

    point: Floats
    keeps: float


@dataclass(frozen=True, eq=False)
class Sight:
    """The fixed image, as coarse as one looks at it to tell whether a place is distinctive.

    Attributes
    ----------
    gray : array
    grid : Grid
        Of it.
    reach : float
        What lies within it may be taken for a place, world units.
    """

    gray: NDArray[np.float32]
    grid: Grid
    reach: float

    @classmethod
    def of(cls, project: Project) -> Sight | None:
        """Read it; None where the file has no coarse level to look at, as making one would read all of it."""
        image, reach = project.image("fixed"), SIGHT * project.fixed_grid.diagonal
        if image.overview[1] > 0:
            return None
        level = _level(image, reach)
        gray = np.asarray(to_gray(image.read(level), image.grid.d)[0], dtype=np.float32)
        return cls(np.nan_to_num(gray), image.level_grid(level), reach)

    def distinctiveness(self, at: Floats) -> float:
        """Return how distinctive a point is; 0 where the image is too small for a patch."""
        half = HALF[self.grid.d]
        low, high = _around(self.grid, at, self.reach)
        part = np.asarray(self.gray[tuple(map(slice, low, high))], dtype=np.float64)
        if min(part.shape) <= 2 * half:
            return 0.0
        row = np.rint(self.grid.array_coordinates(at[None])).astype(int).T - low
        return float(distinctiveness(part, np.clip(row, half, np.array(part.shape) - half - 1), half)[0])


def nearby_places(project: Project, posterior: Posterior, covariance: Floats, at: ArrayLike) -> list[NearbyPlace]:
    """Return up to three corners near a queried point that stand out more than it does, the clearest first.

    Parameters
    ----------
    posterior : Posterior
        The model that the rater may see.
    covariance : (d, d) array
        Of an answer, as it is expected.
    at : (d,) array
        The queried point.
    """
    at = np.asarray(at, dtype=np.float64)
    chosen = _distinctive(project, at)
    if not len(chosen):
        return []
    sums = posterior.covariance(np.vstack([at, chosen])) + covariance
    # Inside T: 1/2 log det(k_|A(c, c) + Sigma) - 1/2 log det Sigma, as in core.strategies.
    gains = 0.5 * (np.linalg.slogdet(sums)[1] - np.linalg.slogdet(covariance)[1])
    return [NearbyPlace(point, float(gain / gains[0])) for point, gain in zip(chosen, gains[1:], strict=True)]


def _distinctive(project: Project, at: Floats) -> Floats:
    """Return the points that are offered, (n, d)."""
    d, reach = project.d, project.settings.move_within * project.fixed_grid.diagonal
    gray, low, grid = _neighbourhood(project, at, reach)
    half = HALF[d]
    if min(gray.shape) <= 2 * half:
        return np.empty((0, d))
    rows = np.vstack([np.rint(grid.array_coordinates(at[None])).astype(int).T - low, _corners(gray, grid, half)])
    points = grid.index_to_world((rows + low)[:, ::-1])
    asked = np.clip(rows[:1], half, np.array(gray.shape) - half - 1)  # at the image's border: the patch beside it
    scores = distinctiveness(gray, np.vstack([asked, rows[1:]]), half)
    allowed = np.linalg.norm(points - at, axis=1) < reach
    chosen: list[int] = []
    for k in np.argsort(-scores, kind="stable"):
        apart = all(np.linalg.norm(points[k] - points[other]) > reach / 3 for other in chosen)
        if k > 0 and allowed[k] and apart and len(chosen) < MOST and scores[k] > CLEARER * scores[0]:
            chosen.append(int(k))
    return np.asarray(points[chosen])


def _neighbourhood(project: Project, at: Floats, reach: float) -> tuple[Floats, Ints, Grid]:
    """Return grey values around a point of the fixed image, where they begin in their level, and its grid."""
    image, d = project.image("fixed"), project.d
    level = _level(image, reach)
    grid = image.level_grid(level)
    low, high = _around(grid, at, reach)
    gray = to_gray(image.block(tuple(map(slice, low, high)), level), d)[0]
    return np.asarray(gray, dtype=np.float64), low, grid


def _level(image: Image, reach: float) -> int:
    """Return the coarsest level at which a reach has enough pixels."""
    fine = [n for n in range(image.levels) if max(image.level_grid(n).spacing) <= reach / ACROSS[image.grid.d]]
    return max(fine, default=0)


def _around(grid: Grid, at: Floats, reach: float) -> tuple[Ints, Ints]:
    """Return the elements, first and behind the last of each axis, within a reach of a point and a patch more."""
    middle = grid.array_coordinates(at[None])[:, 0]
    wide = reach / array_order(grid.spacing) + 2 * HALF[grid.d]
    low = np.clip(np.floor(middle - wide), 0, None).astype(int)
    return low, np.minimum(np.ceil(middle + wide).astype(int) + 1, grid.shape)


def _corners(gray: Floats, grid: Grid, half: int) -> Ints:
    """Return the strongest corners of which a whole patch is in sight, (n, d) elements in the order of the axes."""
    try:
        strength = harris_strength(gray, array_order(grid.spacing), 2 * grid.pixel)
    except MissingExtraError:
        return np.empty((0, gray.ndim), dtype=int)
    inner = np.zeros(gray.shape, dtype=np.bool_)
    inner[(slice(half, -half),) * gray.ndim] = True
    rows = np.argwhere(local_maxima(strength) & inner)
    return rows[np.argsort(-strength[tuple(rows.T)], kind="stable")[:MOST_TRIED]]
