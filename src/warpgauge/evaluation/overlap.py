"""Overlap of label images after a transform, which needs no landmarks: Dice, Hausdorff and mean surface distance.

Labels of the moving image are pulled back through the transform onto the grid of the fixed image, by nearest neighbour.
These numbers stand beside the landmark verdict: overlap of large regions says little about errors inside them, and
there is no uncertainty here. Definitions and their checks are in ``docs/evaluation.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import as_transform

Labels = NDArray[np.integer[Any]]
_LABEL_BLOCK = 200_000


@dataclass(frozen=True)
class LabelOverlap:
    """Overlap of one label.

    Attributes
    ----------
    label : int
    dice : float
        Twice the shared volume over the sum of both volumes; 0 where one of them is empty.
    hd95 : float or None
        The larger of the 95th percentiles of the distances from each surface to the other, in world units; None where
        the label is missing from one image.
    surface_distance : float or None
        Mean of the distances of all surface elements to the other surface (both ways), in world units.
    fixed_volume, warped_volume : float
        In world units to the power of the dimension.
    area_hd95 : float or None
        As `area_hd95` returns it, where it was asked for.
    """

    label: int
    dice: float
    hd95: float | None
    surface_distance: float | None
    fixed_volume: float
    warped_volume: float
    area_hd95: float | None = None


@dataclass(frozen=True)
class Overlap:
    """Overlap of all labels that either image has, background (0) excepted.

    Attributes
    ----------
    labels : tuple of LabelOverlap
    mean_dice : float
    mean_hd95, mean_surface_distance : float or None
        Over the labels that have one.
    outside : float
        Share of the fixed image's labelled volume that the transform maps outside the moving image, or where it is
        undefined; it counts as background there.
    """

    labels: tuple[LabelOverlap, ...]
    mean_dice: float
    mean_hd95: float | None
    mean_surface_distance: float | None
    outside: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "labels": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per label."""
        return [{key: value for key, value in asdict(one).items() if key != "area_hd95"} for one in self.labels]


def label_overlap(
    transform: Any,
    fixed_labels: ArrayLike,
    fixed_grid: Grid,
    moving_labels: ArrayLike,
    moving_grid: Grid,
    *,
    labels: Sequence[int] | None = None,
    name: str = "transform",
    by_area: bool = False,
) -> Overlap:
    """Return how well the labels of two images overlap after a transform.

    Parameters
    ----------
    transform : Transform, callable or anything that `warpgauge.as_transform` takes
        Fixed to moving world points.
    fixed_labels, moving_labels : integer arrays
        On their grids; 0 is background.
    fixed_grid, moving_grid : Grid
    labels : sequence of int, optional
        All labels of the fixed image by default. A label that the fixed image does not have is an error.
    name : str
        Of the transform, for messages.
    by_area : bool
        Whether the HD95 weighted by area is computed as well, which needs images in 3D.
    """
    fixed = _checked(fixed_labels, fixed_grid, "fixed_labels")
    moving = _checked(moving_labels, moving_grid, "moving_labels")
    known = [int(one) for one in np.unique(fixed) if one != 0]
    wanted = known if labels is None else [int(one) for one in labels]
    unknown = [one for one in wanted if one not in known]
    if unknown or not wanted:
        what = f"has no label {unknown[0]}" if unknown else "has no label but background"
        raise InvalidInputError(f"The fixed label image {what}; it has {', '.join(map(str, known[:20])) or 'none'}.")
    warped, outside = warp_labels(transform, fixed_grid, moving, moving_grid, name)
    found = tuple(_one(one, fixed == one, warped == one, fixed_grid, by_area) for one in wanted)
    inside = fixed != 0
    return Overlap(
        found,
        float(np.mean([one.dice for one in found])),
        _mean([one.hd95 for one in found]),
        _mean([one.surface_distance for one in found]),
        float(np.mean(outside[inside])),
    )


def warp_labels(
    transform: Any, fixed_grid: Grid, moving_labels: Labels, moving_grid: Grid, name: str = "transform"
) -> tuple[Labels, NDArray[np.bool_]]:
    """Return the moving labels on the fixed grid (nearest neighbour), and a mask of where there is no moving image."""
    warped = np.zeros(fixed_grid.count, dtype=moving_labels.dtype)
    outside = np.ones(fixed_grid.count, dtype=bool)
    limit, own = np.asarray(moving_grid.size), as_transform(transform, d=fixed_grid.d, name=name)
    for rows, points in fixed_grid.blocks(_LABEL_BLOCK):
        index = moving_grid.world_to_index(np.nan_to_num(mapped := own.map(points)))
        nearest = np.rint(index)
        there = np.isfinite(mapped).all(axis=1) & ((nearest >= 0) & (nearest < limit)).all(axis=1)
        places = nearest[there].astype(np.intp)
        part = np.zeros(len(points), dtype=moving_labels.dtype)
        part[there] = moving_labels[tuple(places.T[::-1])]
        warped[rows], outside[rows] = part, ~there
    return warped.reshape(fixed_grid.shape), outside.reshape(fixed_grid.shape)


def _checked(labels: ArrayLike, grid: Grid, what: str) -> Labels:
    array = np.asarray(labels)
    if array.shape != grid.shape:
        raise InvalidInputError(f"{what} has the shape {array.shape}, but its grid has {grid.shape}.")
    if array.dtype.kind == "f" and np.isfinite(array).all() and np.array_equal(array, np.rint(array)):
        array = array.astype(np.int64)  # NIfTI files often store labels as floating-point numbers
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"{what} must hold whole numbers, one per region; it holds {array.dtype}.")
    return array


def _one(label: int, fixed: NDArray[np.bool_], warped: NDArray[np.bool_], grid: Grid, by_area: bool) -> LabelOverlap:
    element = float(np.prod(grid.spacing))
    sizes = int(fixed.sum()), int(warped.sum())
    shared = int((fixed & warped).sum())
    dice = 2 * shared / (sizes[0] + sizes[1]) if sum(sizes) else 0.0
    distances = surface_distances(fixed, warped, grid)
    hd95 = surface = None
    if distances is not None:
        hd95 = float(max(np.percentile(one, 95) for one in distances))
        surface = float(np.concatenate(distances).mean())
    weighted = area_hd95(fixed, warped) if by_area else None
    return LabelOverlap(label, dice, hd95, surface, sizes[0] * element, sizes[1] * element, weighted)


def surface_distances(a: NDArray[np.bool_], b: NDArray[np.bool_], grid: Grid) -> tuple[Floats, Floats] | None:
    """Return the distances of the surface elements of each region to the other's surface; None where one is empty.

    A surface element is one of the region with a face neighbour outside it; the border of the image is outside.
    Distances are between element centres, in world units.
    """
    from scipy.ndimage import binary_erosion, distance_transform_edt

    if not a.any() or not b.any():
        return None
    box = _common_box(a, b)
    a, b = np.pad(a[box], 1), np.pad(b[box], 1)
    edges = [region & ~binary_erosion(region) for region in (a, b)]
    spacing = grid.spacing[::-1]
    to_b = distance_transform_edt(~edges[1], sampling=spacing)[edges[0]]
    to_a = distance_transform_edt(~edges[0], sampling=spacing)[edges[1]]
    return np.asarray(to_b), np.asarray(to_a)


# Area, in squared voxels, of the surface through a cube of eight voxel centres as marching cubes draw it through the
# middles of the edges: by the number of centres inside (or outside, if fewer) and the squared distances between them.
_CORNER, _EDGE = np.sqrt(3) / 8, np.sqrt(2) / 2
_AREAS = {
    (0, ()): 0.0,
    (1, ()): _CORNER,
    (2, (1,)): _EDGE,
    (2, (2,)): 2 * _CORNER,
    (2, (3,)): 2 * _CORNER,
    (3, (1, 1, 2)): 0.5 + 3 * _CORNER,
    (3, (1, 2, 3)): _EDGE + _CORNER,
    (3, (2, 2, 2)): 3 * _CORNER,
    (4, (1, 1, 1, 1, 2, 2)): 1.0,
    (4, (1, 1, 1, 2, 2, 2)): 6 * _CORNER,
    (4, (1, 1, 1, 2, 2, 3)): _EDGE + 4 * _CORNER,
    (4, (1, 1, 2, 2, 2, 3)): 0.5 + 4 * _CORNER,
    (4, (1, 1, 2, 2, 3, 3)): 2 * _EDGE,
    (4, (2, 2, 2, 2, 2, 2)): 4 * _CORNER,
}
_CORNERS = list(product((0, 1), repeat=3))


@cache
def _area_table() -> Floats:
    """Areas by a number whose bits say which of `_CORNERS` are inside."""
    found = np.empty(256)
    for code in range(256):
        inside = [one for bit, one in enumerate(_CORNERS) if code >> bit & 1]
        few = inside if len(inside) <= 4 else [one for one in _CORNERS if one not in inside]
        apart = sorted(sum(abs(a - b) for a, b in zip(*two, strict=True)) for two in combinations(few, 2))
        found[code] = _AREAS[len(few), tuple(apart)]
    return found


def area_hd95(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Return the HD95 of two regions in 3D by the rule that Learn2Reg evaluates with, in voxels.

    Surface elements lie at the corners of voxels, each with the area of the surface there. Of the distances from each
    surface to the nearest element of the other, the smallest below which 95 % of the area lies is taken; the larger of
    the two counts. Infinite where one region is empty.
    """
    from scipy.ndimage import distance_transform_edt

    if not a.any() or not b.any():
        return float("inf")
    box, codes = _common_box(a, b), []
    for one in (a, b):
        padded = np.pad(one[box], 1).astype(np.uint8)
        parts = [padded[tuple(slice(at, at - 1 or None) for at in corner)] << bit
                 for bit, corner in enumerate(_CORNERS)]  # fmt: skip
        codes.append(np.bitwise_or.reduce(parts))
    edges = [(code != 0) & (code != 255) for code in codes]
    reached = []
    for own, other, code in ((edges[0], edges[1], codes[0]), (edges[1], edges[0], codes[1])):
        lengths, areas = distance_transform_edt(~other)[own], _area_table()[code[own]]
        order = np.argsort(lengths, kind="stable")
        share = np.cumsum(areas[order]) / areas.sum()
        reached.append(lengths[order][min(int(np.searchsorted(share, 0.95)), len(order) - 1)])
    return float(max(reached))


def _common_box(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> tuple[slice, ...]:
    """Return the smallest box that holds both regions: distances outside it are not needed."""
    both = a | b
    box = []
    for axis in range(both.ndim):
        along = np.flatnonzero(both.any(axis=tuple(n for n in range(both.ndim) if n != axis)))
        box.append(slice(int(along[0]), int(along[-1]) + 1))
    return tuple(box)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return float(np.mean(known)) if known else None
