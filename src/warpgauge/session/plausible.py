"""Limits on placements: values that no person can have intended or that would make the model ill-conditioned."""

from __future__ import annotations

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.project import Project
from warpgauge.session.prior import middle, pixel

# In pixels; beside a prior of the image's size, a smaller one would be lost to rounding.
SMALLEST_SD_PX = 1e-3
# In diagonals of the moving image.
LARGEST = 10.0


def check_placement(project: Project, point: Floats, covariance: Floats) -> None:
    """Refuse a placement far outside the moving image, or more sure or unsure than a placement can be.

    What is not of the right shape or not finite is left to the check of the event.
    """
    d, grid = project.d, project.moving_grid
    if point.shape != (d,) or covariance.shape != (d, d) or not np.isfinite([*point, *covariance.ravel()]).all():
        return
    distance = float(np.linalg.norm(point - middle(grid)))
    if distance > LARGEST * grid.diagonal:
        raise InvalidInputError(
            f"The point {point.tolist()} lies {distance:.3g} {project.units} from the middle of the moving image, "
            f"which is {grid.diagonal:.3g} {project.units} across; check the units and the frame."
        )
    smallest, largest = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance)[[0, -1]], 0))
    least = SMALLEST_SD_PX * pixel(grid)
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
