"""The maps that a report shows: all methods on one grid, with one colour scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import (
    Picture,
    adjusted_significance,
    displayable,
    entropy_limits,
    entropy_map,
    exceedance_map,
    known_share,
    p_value_map,
    picture_grid,
    standard_deviation_map,
    warped_image,
)

_ELEMENTS = {2: 256, 3: 64}  # along the longest axis: enough for a page, made within seconds
SIGNIFICANT = 0.05


@dataclass(frozen=True, eq=False)
class MethodMaps:
    """Maps of several methods on one grid; `method_maps` makes them.

    Attributes
    ----------
    grid : Grid
    error : dict of arrays
        e(x) by method.
    significance : dict of arrays
        Adjusted p-values by method.
    exceedance : dict of arrays
        Probability of an error above the tolerance by method; empty without a tolerance.
    entropy, standard_deviation : array
    limits : (float, float)
        Entropies between which the maps fade.
    tolerance : float or None
    fixed : array or None
        The fixed image on the grid, in [0, 1].
    warped : dict of arrays
        The moving image warped by each method, in [0, 1]; empty without a moving image.
    """

    grid: Grid
    error: dict[str, Floats]
    significance: dict[str, Floats]
    exceedance: dict[str, Floats]
    entropy: Floats
    standard_deviation: Floats
    limits: tuple[float, float]
    tolerance: float | None = None
    fixed: NDArray[Any] | None = None
    warped: dict[str, NDArray[Any]] = field(default_factory=dict)

    def picture(self, kind: str, points: Floats) -> Picture:
        """Give the panels of one kind, ready to be drawn: ``"error"``, ``"exceedance"`` or ``"standard deviation"``."""
        if kind == "standard deviation":
            panels: Mapping[str, Floats] = {"all methods": self.standard_deviation}
            return Picture(panels, self.grid, kind, image=None, points=points)
        panels = self.error if kind == "error" else self.exceedance
        return Picture(
            panels, self.grid, kind, image=self.fixed, entropy=self.entropy, limits=self.limits, points=points,
            tolerance=self.tolerance,
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """Give the shares that a report states: known, contradicted, and probably above the tolerance."""
        known = known_share(self.entropy, self.limits)
        result: dict[str, Any] = {
            "size": list(self.grid.size),
            "spacing": self.grid.spacing.tolist(),
            "units": self.grid.units,
            "entropy_limits": list(self.limits),
            "known": float(np.mean(known >= 0.5)),
            "methods": {},
        }
        for name, q in self.significance.items():
            defined = ~np.isnan(q)
            counted = int(defined.sum())
            exceeded = self.exceedance.get(name)
            result["methods"][name] = {
                "outside": float(1 - defined.mean()),
                "contradicted": float(np.mean(q[defined] <= SIGNIFICANT)) if counted else None,
                "expected_above_tolerance": None if exceeded is None or not counted else float(np.nanmean(exceeded)),
            }
        return result


def method_maps(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    grid: Grid,
    *,
    tolerance: float | None = None,
    fixed: Image | None = None,
    moving: Image | None = None,
    elements: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> MethodMaps:
    """Make the maps of a report.

    Parameters
    ----------
    posterior : Posterior
    transforms : mapping of name to transform or callable
    grid : Grid
        That of the fixed image; it is coarsened.
    tolerance : float, optional
        In world units; adds exceedance maps, and sets where the maps fade.
    fixed, moving : Image, optional
        Shown below the maps, and warped by each method.
    elements : int, optional
        Along the longest axis: 256 in 2D and 64 in 3D by default.
    progress : callable, optional
        Called with a sentence before each step.
    """
    say = progress or (lambda _: None)
    nodes = picture_grid(grid, elements or _ELEMENTS[grid.d])
    say("uncertainty")
    entropy, deviation = entropy_map(posterior, nodes), standard_deviation_map(posterior, nodes)
    error, significance, exceedance, warped = {}, {}, {}, {}
    for name, transform in transforms.items():
        say(f"maps of {name}")
        p = p_value_map(posterior, transform, nodes)
        error[name], significance[name] = 1 - p, adjusted_significance(p)
        if tolerance is not None:
            exceedance[name] = exceedance_map(posterior, transform, nodes, tolerance)
        if moving is not None:
            warped[name] = displayable(warped_image(moving, transform, nodes))
    below = None if fixed is None else displayable(warped_image(fixed, lambda points: points, nodes))
    return MethodMaps(
        nodes, error, significance, exceedance, entropy, deviation, entropy_limits(posterior, tolerance), tolerance,
        below, warped,
    )  # fmt: skip
