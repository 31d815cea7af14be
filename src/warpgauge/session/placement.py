"""A rater's placement: checks before it is saved, and a proposal of a better place from the images around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.factors import mahalanobis
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.images import Image
from warpgauge.project import Draft, Project, State
from warpgauge.registration.patch_match import PatchMatch, gray_sampler, local_map, match_patch, patch_corners
from warpgauge.session.fused_annotations import all_marks

# Checks of a placement before it is saved: what is refused, and what the rater is asked about.
#
# Refused is what no person can have intended or what would make the model ill-conditioned. Asked about is a point
# outside the moving image, or far from a prediction that is known well: the page asks "keep it?", the command line too,
# a script is warned, and the log keeps the reason.

# In pixels; beside a prior of the image's size, a smaller one would be lost to rounding.
SMALLEST_SD_PX = 1e-3
# In diagonals of the moving image.
LARGEST = 10.0


def check_placement(project: Project, point: Floats, covariance: Floats) -> None:
    """Refuse a placement far outside the moving image, or with an implausibly small or large uncertainty.

    What is not of the right shape or not finite is left to the check of the event.
    """
    d, grid = project.d, project.moving_grid
    if point.shape != (d,) or covariance.shape != (d, d) or not np.isfinite([*point, *covariance.ravel()]).all():
        return
    distance = float(np.linalg.norm(point - grid.centre))
    if distance > LARGEST * grid.diagonal:
        raise InvalidInputError(
            f"The point {point.tolist()} lies {distance:.3g} {project.units} from the middle of the moving image, "
            f"which is {grid.diagonal:.3g} {project.units} across; check the units and the frame."
        )
    smallest, largest = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance)[[0, -1]], 0))
    least = SMALLEST_SD_PX * grid.pixel
    if 0 < smallest < least:
        raise InvalidInputError(
            f"A standard deviation of {smallest:.3g} {project.units} is more certain than any placement; state at "
            f"least {least:.3g} {project.units}, a thousandth of a pixel."
        )
    if largest > LARGEST * grid.diagonal:
        raise InvalidInputError(
            f"A standard deviation of {largest:.3g} {project.units} is larger than {LARGEST:g} times the moving image; "
            f"skip the query instead."
        )


# A placement beyond the region of this level is asked about.
LEVEL = 0.999
# A prediction is known well when its standard deviation is below this share of the moving image's diagonal.
KNOWN_SHARE = 0.05


@dataclass(frozen=True)
class Doubt:
    """Why a placement should be looked at once more.

    Attributes
    ----------
    outside : float or None
        Distance from the moving image, in world units, where the point lies outside it.
    deviation : float or None
        Mahalanobis distance from the prediction, the stated uncertainty included, where that is too large.
    distance : float or None
        The same distance in world units.
    units : str
    """

    outside: float | None
    deviation: float | None
    distance: float | None
    units: str

    def question(self, *, hide_prediction: bool = False) -> str | None:
        """Return the question to ask the rater; None where all there is to say would reveal a hidden prediction."""
        parts = []
        if self.outside is not None:
            parts.append(f"{self.outside:.3g} {self.units} outside the moving image")
        if self.deviation is not None and not hide_prediction:
            away, often = f"{self.distance:.3g} {self.units}", f"{self.deviation:.2g} times the usual"
            parts.append(f"{away} from where the other landmarks say, {often}")
        return f"This is {' and '.join(parts)}: keep it?" if parts else None

    def flag(self, confirmed: bool) -> dict[str, Any]:
        """Return what the log keeps."""
        return {"outside": self.outside, "deviation": self.deviation, "confirmed": confirmed}


def doubt_about(grid: Grid, posterior: Posterior, fixed: Floats, point: Floats, noise: Floats) -> Doubt | None:
    """Return why a placement should be asked about, or None.

    Parameters
    ----------
    grid : Grid
        Of the moving image.
    posterior : Posterior
        Given the other landmarks.
    fixed, point : (d,) arrays
        The place in the fixed image, and where its match was placed.
    noise : (d, d) array
        Covariance of the placement, the model's extra noise included.
    """
    outside = None if grid.contains(point) else distance_outside(grid, point)
    deviation = distance = None
    covariance = posterior.covariance(fixed[None])[0]
    sd = float(np.sqrt(np.trace(covariance) / grid.d))
    # An affine trend is settled by d + 1 landmarks; one more says how well.
    if len(posterior.annotations) >= grid.d + 2 and sd < KNOWN_SHARE * grid.diagonal:
        residual = point - posterior.mean(fixed[None])[0]
        square = float(mahalanobis(residual[None], (covariance + noise)[None])[0])
        if square > posterior.squared_radius(LEVEL):
            deviation, distance = float(np.sqrt(square)), float(np.linalg.norm(residual))
    if outside is None and deviation is None:
        return None
    return Doubt(outside, deviation, distance, grid.units)


def distance_outside(grid: Grid, point: Floats) -> float:
    """Return the distance of a world point from the nearest pixel centre of a grid."""
    index = grid.world_to_index(point[None])[0]
    nearest = grid.index_to_world(np.clip(index, 0, np.asarray(grid.size) - 1)[None])[0]
    return float(np.linalg.norm(point - nearest))


# Propose a better place for a rater's mark from the images around it.
#
# Nothing but the two images and the rater's own marks is used: neither the model nor a registration that is to be
# judged, so that a proposal tells nothing that the rater should not know.

LARGEST_STRETCH = 3.0  # of the map between the images; beyond it the marks do not say how they are turned


def propose_match(
    project: Project, state: State, rater: str, query: int | None, at: Floats, mark: Floats
) -> PatchMatch:
    """Look around a mark for where the moving image looks as the fixed one does about a point, and log the result.

    It is logged before the rater sees it, so that proposals which are not taken can be counted too.

    Parameters
    ----------
    rater : str
        Whose other marks say how the images are turned and scaled.
    query : int, optional
        Marks at its location do not count; None for a place of the rater's own choice.
    at : (d,) array
        Point of the fixed image.
    mark : (d,) array
        The rater's mark, within the moving image.
    """
    linear = _turn(project, state, rater, query, at)
    fixed, moving = project.image("fixed"), project.image("moving")
    pixel = float(min(fixed.grid.spacing))
    here = gray_sampler(fixed, 0, patch_corners(at, np.eye(len(at)), pixel))
    step = pixel * float(np.linalg.svd(linear, compute_uv=False)[-1])
    there = gray_sampler(moving, _level(moving, step), patch_corners(mark, linear, pixel))
    found = match_patch(here, there, at, mark, linear, pixel)
    shown = found.point.tolist() if found.distinctive else None
    project.append(Draft("snap", rater, query, {"fixed": at.tolist(), "mark": mark.tolist(), "proposed": shown}))
    return found


def _turn(project: Project, state: State, rater: str, query: int | None, at: Floats) -> Floats:
    """Return how the moving image is turned and scaled: from other marks, the accepted alignment, or not at all."""
    location = None if query is None else state.queries[query].location
    marks = [mark for mark in all_marks(state, rater) if mark.active and mark.query.location != location]
    if len(marks) >= project.d + 2:
        points = np.array([mark.fixed_point for mark in marks])
        linear = local_map(points, np.array([mark.placement.point for mark in marks]), at)
        stretch = np.linalg.svd(linear, compute_uv=False)
        if stretch[-1] >= 1 / LARGEST_STRETCH and stretch[0] <= LARGEST_STRETCH:
            return linear
    alignment = project.alignment
    return np.eye(project.d) if alignment is None else np.asarray(alignment.matrix)


def _level(image: Image, step: float) -> int:
    """Return the coarsest level whose elements are no larger than the step between samples."""
    fine = [level for level in range(image.levels) if max(image.level_grid(level).spacing) <= step]
    return max(fine, default=0)
