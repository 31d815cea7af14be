"""A proposal of a better place for a rater's mark, from the images around it.

Nothing but the two images and the rater's own marks is used: neither the model nor a registration that is to be
judged, so that a proposal tells nothing that the rater should not know.
"""

from __future__ import annotations

import numpy as np

from warpgauge.geometry import Floats
from warpgauge.io.images import Image
from warpgauge.project import Project, State
from warpgauge.project.events import Snap
from warpgauge.registration.patch_match import PatchMatch, gray_sampler, local_map, match_patch, patch_corners
from warpgauge.session.fused_annotations import own_annotations

LARGEST_STRETCH = 3.0  # of the map between the images; beyond it the marks do not say how they are turned


def propose_match(
    project: Project, state: State, rater: str, query: int | None, at: Floats, mark: Floats
) -> PatchMatch:
    """Search around a mark for the place in the moving image that looks most like a fixed point; log the result.

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
    shown = tuple(found.point.tolist()) if found.distinctive else None
    asked, placed = tuple(at.tolist()), tuple(mark.tolist())
    project.append(Snap(rater=rater, query=query, fixed=asked, mark=placed, proposed=shown))
    return found


def _turn(project: Project, state: State, rater: str, query: int | None, at: Floats) -> Floats:
    """Return how the moving image is turned and scaled: from other marks, the accepted alignment, or not at all."""
    here = set() if query is None else {state.queries[query].location}
    own = own_annotations(state, project.d, rater).without(here).annotations
    if len(own) >= project.d + 2:
        linear = local_map(own.fixed_points, own.moving_points, at)
        stretch = np.linalg.svd(linear, compute_uv=False)
        if stretch[-1] >= 1 / LARGEST_STRETCH and stretch[0] <= LARGEST_STRETCH:
            return linear
    alignment = project.alignment
    return np.eye(project.d) if alignment is None else np.asarray(alignment.matrix)


def _level(image: Image, step: float) -> int:
    """Return the coarsest level whose elements are no larger than the step between samples."""
    fine = [level for level in range(image.levels) if max(image.level_grid(level).spacing) <= step]
    return max(fine, default=0)
