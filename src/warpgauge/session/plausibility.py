"""Checks of a placement before it is saved: what is refused, and what the rater is asked about.

Refused is what no person can have intended or what would make the model ill-conditioned. Asked about is a point
outside the moving image, or far from a prediction that is known well: the page asks "keep it?", the command line too,
a script is warned, and the log keeps the reason.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.factors import mahalanobis
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.landmarks.checks import distance_outside
from warpgauge.project import Doubt, Placement, Project

# In pixels; beside a prior of the image's size, a smaller one would be lost to rounding.
SMALLEST_SD_PX = 1e-3
# In diagonals of the moving image.
LARGEST = 10.0
# A placement beyond the region of this level is asked about where there are too few others to be screened for slips.
LEVEL = 0.999
# A prediction is known well when its standard deviation is below this share of the moving image's diagonal.
KNOWN_SHARE = 0.05


class UnconfirmedError(WarpgaugeError):
    """The placement looks like a slip, and the rater was not asked yet; nothing was written.

    ``doubt`` says why; where predictions are hidden, the rater must not be told its deviation.
    """

    def __init__(self, question: str, doubt: Doubt) -> None:
        super().__init__(question)
        self.doubt = doubt


def check_placement(project: Project, placement: Placement) -> bool:
    """Refuse a placement far outside the moving image, or with an implausibly small or large uncertainty.

    False where its numbers are not those of a point of this project, which is left to the check of the event.
    """
    grid = project.moving_grid
    point = np.array(placement.moving)
    covariance = np.array(placement.covariance)
    if point.shape != (project.d,) or covariance.shape != (project.d, project.d):
        return False
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
    return bool(smallest > 0)


def doubt_about(grid: Grid, posterior: Posterior, fixed: Floats, placement: Placement, beyond: float) -> Doubt | None:
    """Return why a placement should be asked about, or None.

    It is compared with the posterior given the other landmarks, at the place in the ``fixed`` image; a deviation
    ``beyond`` this squared Mahalanobis length is asked about. ``grid`` is the moving image's.
    """
    point = np.array(placement.moving)
    outside = None if grid.contains(point) else float(distance_outside(point[None], grid)[0])
    deviation = distance = None
    covariance = posterior.covariance(fixed[None])[0]
    noise = posterior.prior.total_noise(placement.covariance_world[None])
    sd = float(np.sqrt(np.trace(covariance) / grid.d))
    # An affine trend is settled by d + 1 landmarks; one more says how well.
    if len(posterior.annotations) >= grid.d + 2 and sd < KNOWN_SHARE * grid.diagonal:
        residual = point - posterior.mean(fixed[None])[0]
        square = float(mahalanobis(residual[None], covariance + noise)[0])
        if square > beyond:
            deviation = float(np.sqrt(square))
            distance = float(np.linalg.norm(residual))
    if outside is None and deviation is None:
        return None
    return Doubt(outside=outside, deviation=deviation, distance=distance)
