"""Maps of a report: expected errors of all methods on one grid with one colour scale, and checkerboards of the images.

The errors come from the draws that the scores count over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.core.arrays import Floats
from warpgauge.evaluation import Evaluation
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import (
    Picture,
    displayable,
    entropy_limits,
    entropy_map,
    map_picture,
    masked,
    picture_grid,
    region_labels,
    standard_deviation_map,
    warped_image,
)
from warpgauge.report.page import photograph

# Along the longest axis, in 2D and 3D. Errors vary smoothly and are drawn jointly, so they are found on a coarser grid
# and interpolated.
_ELEMENTS, _ERROR_NODES, _CHECKED_ELEMENTS = {2: 256, 3: 64}, {2: 36, 3: 12}, {2: 640, 3: 128}
_SAMPLES = 200
_TILES = 8
# So many methods are shown beside each other, best first; more do not fit on a page.
MOST_SHOWN = 8


@dataclass(frozen=True, eq=False)
class MethodMaps:
    """Maps of several methods on one grid; `method_maps` makes them."""

    grid: Grid
    expected: dict[str, Floats]
    """Median of what the error may be in world units, by method, best first; NaN outside its domain."""
    entropy: Floats
    standard_deviation: Floats
    """Of the posterior."""
    limits: tuple[float, float]
    """Entropies between which a place counts as partly known."""
    fixed: NDArray[Any] | None = None
    """The fixed image on the grid, in [0, 1]."""
    labels: NDArray[np.int64] | None = None
    """Regions of the model on the grid."""

    def picture(self, panels: Mapping[str, Floats], kind: str, points: Floats, high: float | None = None) -> Picture:
        """Return maps side by side, a line around what lies near the annotated points."""
        return Picture(
            panels, self.grid, kind, image=self.fixed, entropy=self.entropy, limits=self.limits, points=points,
            outline=True, high=high, labels=self.labels,
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """Return what the maps say in numbers: size of the grid, and median and largest expected error by method."""
        methods = {}
        for name, values in self.expected.items():
            known = values[np.isfinite(values)]
            methods[name] = {
                "outside": float(1 - known.size / values.size),
                "median": float(np.median(known)) if known.size else None,
                "largest": float(known.max()) if known.size else None,
            }
        return {
            "size": list(self.grid.size),
            "spacing": self.grid.spacing.tolist(),
            "units": self.grid.units,
            "entropy_limits": list(self.limits),
            "methods": methods,
        }


def method_maps(
    evaluation: Evaluation,
    grid: Grid,
    *,
    fixed: Image | None = None,
    elements: int | None = None,
) -> MethodMaps:
    """Make the maps of a report.

    Parameters
    ----------
    evaluation : Evaluation
    grid : Grid
        That of the fixed image; it is coarsened.
    fixed : Image, optional
        Shown below the maps.
    elements : int, optional
        Along the longest axis: 256 in 2D and 64 in 3D by default.
    """
    posterior = evaluation.posterior
    missing = evaluation.comparison.scene.missing
    nodes = picture_grid(grid, elements or _ELEMENTS[grid.d])
    coarse = picture_grid(grid, _ERROR_NODES[grid.d])
    entropy = entropy_map(posterior, nodes)
    deviation = masked(standard_deviation_map(posterior, nodes), nodes, missing)
    labels = region_labels(posterior, nodes)
    coarse_labels = region_labels(posterior, coarse)
    expected = {
        name: masked(spread_over(coarse, nodes, coarse_labels, labels, values), nodes, missing)
        for name, values in _expected_errors(evaluation, coarse).items()
    }
    below = None if fixed is None else displayable(warped_image(fixed, lambda points: points, nodes))
    limits = entropy_limits(posterior, pixel=grid.pixel)
    return MethodMaps(nodes, expected, entropy, deviation, limits, below, labels)


def _expected_errors(evaluation: Evaluation, grid: Grid) -> dict[str, Floats]:
    """Return the median error of each method at the elements of a grid, best first; tables of points have none."""
    compared = evaluation.comparison.over(grid.points())
    draws = evaluation.judged_by.error_draws(compared, _SAMPLES)
    errors = {}
    for (name, one), values, drawn in zip(compared.transforms.items(), compared.values.targets, draws, strict=True):
        if one.anywhere:
            errors[name] = np.where(np.isnan(values).any(axis=1), np.nan, np.median(drawn, axis=0))
    return {name: errors[name] for name in evaluation.ranking(evaluation.verdict.norm) if name in errors}


def best_method(evaluation: Evaluation) -> str | None:
    """Return the best method beside the baseline whose values are known anywhere."""
    for name in evaluation.ranking(evaluation.verdict.norm):
        if name != evaluation.verdict.baseline and evaluation.transforms[name].anywhere:
            return name
    return None


def spread_over(
    coarse: Grid, nodes: Grid, coarse_labels: NDArray[np.int64] | None, labels: NDArray[np.int64] | None, values: Floats
) -> Floats:
    """Interpolate values at the points of a coarse grid to a finer one, within each region by its own values only."""
    at = coarse.array_coordinates(nodes.points())
    grid_values = values.reshape(coarse.shape)
    spread = ndimage.map_coordinates(grid_values, at, order=1, mode="nearest").reshape(nodes.shape)
    if coarse_labels is None or labels is None:
        return np.asarray(spread)
    for label in np.intersect1d(labels, coarse_labels):
        region = labels == label
        nearest = ndimage.distance_transform_edt(coarse_labels != label, return_distances=False, return_indices=True)
        filled = grid_values[tuple(nearest)]
        spread[region] = ndimage.map_coordinates(filled, at[:, region.reshape(-1)], order=1, mode="nearest")
    return np.asarray(spread)


def first_shown(names: list[str], baseline: str | None) -> list[str]:
    """Return as many names as fit on a page, best first, the baseline among them."""
    shown = names[:MOST_SHOWN]
    if baseline is not None and baseline in names and baseline not in shown:
        return [*shown[:-1], baseline]
    return shown


def map_pictures(maps: MethodMaps, evaluation: Evaluation) -> dict[str, Any]:
    """Return the maps of the methods side by side, in the order of their ranks, as pictures of a page."""
    baseline = evaluation.verdict.baseline
    posterior = evaluation.posterior
    points = posterior.annotations.fixed_points
    names = first_shown(list(maps.expected), baseline)
    # The baseline does not flatten the colours of the methods.
    methods = [name for name in names if name != baseline] or names
    known = [values[np.isfinite(values)] for values in (maps.expected[name] for name in methods)]
    high = max((float(np.percentile(values, 98)) for values in known if values.size), default=None)
    expected = maps.picture({name: maps.expected[name] for name in names}, "expected error", points, high)
    deviation = maps.picture({"all methods": maps.standard_deviation}, "standard deviation", points)
    return {
        "names": names,
        "left": len(maps.expected) - len(names),
        "expected": photograph(map_picture(expected)),
        "deviation": photograph(map_picture(deviation, width=6.5 if posterior.d == 2 else 10.0)),
    }


def checkerboards(fixed: Image, moving: Image, name: str, transform: Any) -> Picture:
    """Return two panels: the moving image where it lies, and as a method puts it, in turn with the fixed one."""
    grid = picture_grid(fixed.grid, _CHECKED_ELEMENTS[fixed.grid.d])

    def grey(image: Image, points: Any) -> NDArray[Any]:
        samples = displayable(warped_image(image, points, grid))
        # Colours of two stains differ in any case; only edges matter here.
        return samples.mean(axis=-1) if samples.ndim > grid.d else samples

    below = grey(fixed, lambda points: points)
    tile = max(1, int(np.ceil(max(below.shape) / _TILES)))
    parity = sum(np.indices(below.shape) // tile) % 2
    panels = {}
    for title, one in (("before registration", lambda points: points), (f"after {name}", transform)):
        panels[title] = np.where(parity == 0, below, grey(moving, one))
    return Picture(panels, grid, "image")
