"""Maps of a report: all methods on one grid with one colour scale.

The maps come from the model used for the scores. Before and after the best method, fixed and moving image are shown as
a checkerboard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.core.arrays import Floats
from warpgauge.evaluation import Evaluation
from warpgauge.evaluation.comparison import mapped
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import (
    Picture,
    displayable,
    entropy_limits,
    entropy_map,
    map_picture,
    picture_grid,
    region_labels,
    standard_deviation_map,
    warped_image,
)
from warpgauge.maps.dense import masked
from warpgauge.report.page import photograph

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
        Entropies between which a place counts as partly known.
    tolerance : float or None
    fixed : array or None
        The fixed image on the grid, in [0, 1].
    checked : array or None
        Points of the checkerboards, mapped by the best method.
    labels : array or None
        Regions of the model on the grid.
    """

    grid: Grid
    expected: dict[str, Floats]
    exceedance: dict[str, Floats]
    entropy: Floats
    standard_deviation: Floats
    limits: tuple[float, float]
    tolerance: float | None = None
    fixed: NDArray[Any] | None = None
    checked: Floats | None = None
    labels: NDArray[np.int64] | None = None

    def picture(self, kind: str, points: Floats, high: float | None = None) -> Picture:
        """Return the panels of one kind: ``"expected error"``, ``"exceedance"`` or ``"standard deviation"``."""
        panels: Mapping[str, Floats] = {"all methods": self.standard_deviation}
        if kind != "standard deviation":
            panels = self.expected if kind == "expected error" else self.exceedance
        return Picture(
            panels, self.grid, kind, image=self.fixed, entropy=self.entropy, limits=self.limits, points=points,
            tolerance=self.tolerance, outline=True, high=high, labels=self.labels,
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
    evaluation: Evaluation,
    grid: Grid,
    *,
    fixed: Image | None = None,
    checked: bool = False,
    elements: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> MethodMaps:
    """Make the maps of a report.

    Parameters
    ----------
    evaluation : Evaluation
        Its tolerance, where it has one, adds exceedance maps.
    grid : Grid
        That of the fixed image; it is coarsened.
    fixed : Image, optional
        Shown below the maps.
    checked : bool
        Whether the best method is also mapped for the checkerboards, in the same call.
    elements : int, optional
        Along the longest axis: 256 in 2D and 64 in 3D by default.
    progress : callable, optional
        Called with a sentence before each step.
    """
    say, posterior = progress or (lambda _: None), evaluation.posterior
    nodes = picture_grid(grid, elements or _ELEMENTS[grid.d])
    say("uncertainty")
    entropy, deviation = entropy_map(posterior, nodes), standard_deviation_map(posterior, nodes)
    missing = evaluation.comparison.scene.missing
    deviation = masked(deviation, nodes, missing)
    say("expected errors")
    expected, exceedance, best = _errors(evaluation, grid, nodes, checked)
    expected, exceedance = (
        {name: masked(values, nodes, missing) for name, values in each.items()} for each in (expected, exceedance)
    )
    below = None if fixed is None else displayable(warped_image(fixed, lambda points: points, nodes))
    return MethodMaps(
        nodes, expected, exceedance, entropy, deviation, entropy_limits(posterior, pixel=grid.pixel),
        evaluation.tolerance, below, best, region_labels(posterior, nodes),
    )  # fmt: skip


def best_method(evaluation: Evaluation) -> str | None:
    """Return the best method beside the baseline whose values are known anywhere."""
    return next(
        (
            name
            for name in evaluation.ranking(evaluation.norm)
            if name != evaluation.baseline and evaluation.transforms[name].anywhere
        ),
        None,
    )


def _errors(
    evaluation: Evaluation, grid: Grid, nodes: Grid, checked: bool
) -> tuple[dict[str, Floats], dict[str, Floats], Floats | None]:
    """Return the median error and the probability of one above the tolerance, from samples at a coarser grid.

    The best method is first; tables of points have no maps. The last are the points of the checkerboards that the best
    method mapped, where they are asked for.
    """
    coarse, tolerance = picture_grid(grid, _ERROR_NODES[grid.d]), evaluation.tolerance
    points, best, known, shown = coarse.points(), best_method(evaluation), {}, None
    if checked and best is not None:
        together = np.concatenate([points, checked_grid(grid).points()])
        values = mapped([evaluation.transforms[best]], together)[0]
        known, shown = {best: values[: len(points)]}, values[len(points) :]
    compared = evaluation.comparison.over(points, known)
    drawn = dict(zip(compared.transforms, evaluation.judged_by.error_draws(compared, _SAMPLES), strict=True))
    at_nodes = dict(zip(compared.transforms, compared.values.targets, strict=True))
    labels = (region_labels(evaluation.posterior, coarse), region_labels(evaluation.posterior, nodes))
    spread = partial(spread_over, coarse, nodes, labels[0], labels[1])
    expected, exceedance = {}, {}
    for name in evaluation.ranking(evaluation.norm):
        if not compared.transforms[name].anywhere:
            continue
        outside = np.isnan(at_nodes[name]).any(axis=1)
        lengths = drawn[name]
        expected[name] = spread(np.where(outside, np.nan, np.median(lengths, axis=0)))
        if tolerance is not None:
            exceedance[name] = spread(np.where(outside, np.nan, np.mean(lengths > tolerance, axis=0)))
    return expected, exceedance, shown


def spread_over(
    coarse: Grid, nodes: Grid, coarse_labels: NDArray[np.int64] | None, labels: NDArray[np.int64] | None, values: Floats
) -> Floats:
    """Interpolate values at the points of a coarse grid to a finer one, within each region by its own values only."""
    at, given = coarse.array_coordinates(nodes.points()), values.reshape(coarse.shape)
    found = ndimage.map_coordinates(given, at, order=1, mode="nearest").reshape(nodes.shape)
    if coarse_labels is None or labels is None:
        return np.asarray(found)
    for label in np.intersect1d(labels, coarse_labels):
        here = labels == label
        nearest = ndimage.distance_transform_edt(coarse_labels != label, return_distances=False, return_indices=True)
        own = given[tuple(nearest)]
        found[here] = ndimage.map_coordinates(own, at[:, here.reshape(-1)], order=1, mode="nearest")
    return np.asarray(found)


def map_pictures(made: MethodMaps, evaluation: Evaluation, units: str) -> dict[str, Any]:
    """Return the maps of the methods side by side, in the order of their ranks, as pictures of a page."""
    baseline, posterior = evaluation.baseline, evaluation.posterior
    points = posterior.annotations.fixed_points
    shown = replace(made, expected=_first(made.expected, baseline), exceedance=_first(made.exceedance, baseline))
    expected = shown.picture("expected error", points, _top(shown.expected, baseline))
    deviation = made.picture("standard deviation", points)
    return {
        "names": list(shown.expected),
        "left": len(made.expected) - len(shown.expected),
        "expected": photograph(map_picture(expected)),
        "exceedance": photograph(map_picture(shown.picture("exceedance", points))) if shown.exceedance else None,
        "tolerance": f"{made.tolerance:g} {units}" if shown.exceedance else None,
        "deviation": photograph(map_picture(deviation, width=6.5 if posterior.d == 2 else 10.0)),
    }


def _first(maps: dict[str, Floats], baseline: str | None) -> dict[str, Floats]:
    """Return the maps of the best methods, and of the baseline where there is room for it."""
    names = list(maps)
    shown = names[:MOST_SHOWN]
    if baseline in names and baseline not in shown:
        shown = [*shown[:-1], str(baseline)]
    return {name: maps[name] for name in shown}


def _top(maps: dict[str, Floats], baseline: str | None) -> float | None:
    """Return the upper end of the colours: that of the methods, so that the baseline does not flatten them."""
    known = [values[np.isfinite(values)] for name, values in maps.items() if name != baseline or len(maps) == 1]
    return max((float(np.percentile(one, 98)) for one in known if one.size), default=None)


_CHECKED_ELEMENTS = {2: 640, 3: 128}
_TILES = 8  # along the longest axis


def checked_grid(grid: Grid) -> Grid:
    """Return the grid of the checkerboards, from that of the fixed image."""
    return picture_grid(grid, _CHECKED_ELEMENTS[grid.d])


def checkerboards(fixed: Image, moving: Image, best: tuple[str, Any]) -> Picture:
    """Return two panels: the moving image where it lies, and as the best method puts it, in turn with the fixed one.

    Parameters
    ----------
    fixed, moving : Image
    best : (str, transform)
        Name and transform of the best method, or the points of the `checked_grid` that it has mapped.
    """
    name, transform = best
    grid = checked_grid(fixed.grid)
    below = _grey(displayable(warped_image(fixed, lambda points: points, grid)), grid.d)
    panels = {}
    for title, one in (("before registration", lambda points: points), (f"after {name}", transform)):
        panels[title] = _mixed(below, _grey(displayable(warped_image(moving, one, grid)), grid.d))
    return Picture(panels, grid, "image")


def _grey(samples: NDArray[Any], d: int) -> NDArray[Any]:
    """Return one channel: colours of two stains differ in any case, and only edges matter here."""
    return samples.mean(axis=-1) if samples.ndim > d else samples


def _mixed(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return a checkerboard of two images; where the other has no sample, it stays grey."""
    tile = max(1, int(np.ceil(max(one.shape) / _TILES)))
    parity = sum(np.indices(one.shape) // tile) % 2
    return np.where(parity == 0, one, other)
