"""The maps of a report: all methods on one grid with one colour scale, from the model used for the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.evaluation import Truth
from warpgauge.evaluation.transforms import mapped_points
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import (
    Picture,
    displayable,
    entropy_limits,
    entropy_map,
    picture_grid,
    standard_deviation_map,
    warped_image,
)

_ELEMENTS = {2: 256, 3: 64}  # along the longest axis: enough for a page, made within seconds
# Errors vary smoothly and are drawn jointly, so they are found on a coarser grid and interpolated.
_ERROR_NODES = {2: 36, 3: 12}
_SAMPLES = 200
# So many methods are drawn, best first; more do not fit on a page.
MOST_SHOWN = 8


@dataclass(frozen=True, eq=False)
class MethodMaps:
    """Maps of several methods on one grid; `method_maps` makes them.

    Attributes
    ----------
    grid : Grid
    expected : dict of arrays
        Expected error (median of what it may be) in world units, by method; NaN outside its domain.
    exceedance : dict of arrays
        Probability of an error above the tolerance by method; empty without a tolerance.
    entropy, standard_deviation : array
        Of the posterior.
    limits : (float, float)
        Entropies between which knowledge ends.
    tolerance : float or None
    fixed : array or None
        The fixed image on the grid, in [0, 1].
    """

    grid: Grid
    expected: dict[str, Floats]
    exceedance: dict[str, Floats]
    entropy: Floats
    standard_deviation: Floats
    limits: tuple[float, float]
    tolerance: float | None = None
    fixed: NDArray[Any] | None = None

    def picture(self, kind: str, points: Floats, high: float | None = None) -> Picture:
        """Return the panels of one kind: ``"expected error"``, ``"exceedance"`` or ``"standard deviation"``."""
        panels: Mapping[str, Floats] = {"all methods": self.standard_deviation}
        if kind != "standard deviation":
            panels = self.expected if kind == "expected error" else self.exceedance
        return Picture(
            panels, self.grid, kind, image=self.fixed, entropy=self.entropy, limits=self.limits, points=points,
            tolerance=self.tolerance, outline=True, high=high,
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """Return what the maps say in numbers: size of the grid, and median and largest expected error by method."""
        result: dict[str, Any] = {
            "size": list(self.grid.size),
            "spacing": self.grid.spacing.tolist(),
            "units": self.grid.units,
            "entropy_limits": list(self.limits),
            "methods": {},
        }
        for name, values in self.expected.items():
            known = values[np.isfinite(values)]
            result["methods"][name] = {
                "outside": float(1 - known.size / values.size),
                "median": float(np.median(known)) if known.size else None,
                "largest": float(known.max()) if known.size else None,
            }
        return result


def method_maps(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    grid: Grid,
    *,
    judged_by: Truth | None = None,
    tolerance: float | None = None,
    fixed: Image | None = None,
    elements: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> MethodMaps:
    """Make the maps of a report.

    Parameters
    ----------
    posterior : Posterior
        What the annotations alone say: for the standard deviation, and for where they say enough.
    transforms : mapping of name to transform or callable
        Best first.
    grid : Grid
        That of the fixed image; it is coarsened.
    judged_by : Truth, optional
        What the scores were made with; the posterior by default.
    tolerance : float, optional
        In world units; adds exceedance maps.
    fixed : Image, optional
        Shown below the maps.
    elements : int, optional
        Along the longest axis: 256 in 2D and 64 in 3D by default.
    progress : callable, optional
        Called with a sentence before each step.
    """
    say = progress or (lambda _: None)
    nodes = picture_grid(grid, elements or _ELEMENTS[grid.d])
    say("uncertainty")
    entropy, deviation = entropy_map(posterior, nodes), standard_deviation_map(posterior, nodes)
    say("expected errors")
    expected, exceedance = _errors(judged_by or posterior, transforms, grid, nodes, tolerance)
    below = None if fixed is None else displayable(warped_image(fixed, lambda points: points, nodes))
    return MethodMaps(
        nodes, expected, exceedance, entropy, deviation, entropy_limits(posterior, pixel=grid.pixel), tolerance, below,
    )  # fmt: skip


def _errors(
    truth: Truth, transforms: Mapping[str, Any], grid: Grid, nodes: Grid, tolerance: float | None
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the median error and the probability of one above the tolerance, from samples at a coarser grid."""
    coarse = picture_grid(grid, _ERROR_NODES[grid.d])
    points = coarse.points()
    samples = truth.sample(points, _SAMPLES)
    at = coarse.array_coordinates(nodes.points())
    expected, exceedance = {}, {}

    def spread(values: Floats) -> Floats:
        found = ndimage.map_coordinates(values.reshape(coarse.shape), at, order=1, mode="nearest")
        return np.asarray(found.reshape(nodes.shape))

    for name, transform in transforms.items():
        mapped = mapped_points(name, transform, points)
        lengths = np.linalg.norm(samples - mapped, axis=2)
        expected[name] = spread(np.median(lengths, axis=0))
        if tolerance is not None:
            outside = np.isnan(mapped).any(axis=1)
            exceedance[name] = spread(np.where(outside, np.nan, np.mean(lengths > tolerance, axis=0)))
    return expected, exceedance
