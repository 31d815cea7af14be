"""Surrogate metrics, which need no landmarks: regularity of a transform, and overlap of label images after it.

Regularity is measured by Jacobian determinants, by central differences in blocks of points. For the overlap (Dice, 95 %
Hausdorff distance, mean surface distance), labels of the moving image are pulled back through the transform onto the
grid of the fixed image, by nearest neighbour. These numbers stand beside the landmark verdict: overlap of large regions
says little about errors inside them, and there is no uncertainty here. Definitions and their checks are in
``docs/evaluation.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats, as_points
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.transforms import function_of, mapped_points
from warpgauge.geometry import Grid

_JACOBIAN_BLOCK = 1 << 16
# Without a grid, the step is this share of the diagonal of the points' bounding box.
_STEP_SHARE = 1e-3


@dataclass(frozen=True)
class Regularity:
    """How regular a transform is over some points.

    Attributes
    ----------
    folding : float
        Share of the points with a Jacobian determinant of at most 0, among those where it is defined.
    sd_log_jacobian : float or None
        Standard deviation of the natural logarithm of the determinant. **Folded points are left out of it**, since they
        have no logarithm; read it together with ``folding``. None where no point is left.
    mean_log_jacobian : float or None
        Its mean; 0 keeps volumes.
    smallest, largest : float or None
        Extreme determinants, folded ones included.
    points, undefined : int
        Points asked, and those among them at which some neighbour lies outside the transform's domain.
    step : float
        Half the distance between the two points of each difference, in world units.
    """

    folding: float
    sd_log_jacobian: float | None
    mean_log_jacobian: float | None
    smallest: float | None
    largest: float | None
    points: int
    undefined: int
    step: float


def jacobian_determinants(transform: Any, points: ArrayLike, step: float) -> Floats:
    """Return Jacobian determinants at (n, d) points by central differences of ``map`` at ``x ± step e_a``.

    NaN where one of the 2 d neighbours lies outside the transform's domain.
    """
    at = as_points(points, "points")
    if function_of(transform) is None:
        raise InvalidInputError("A Jacobian needs a transform with map or a callable, not an array of mapped points.")
    if not (np.isfinite(step) and step > 0):
        raise InvalidInputError(f"The step of the Jacobian must be a positive number of world units, got {step!r}.")
    n, d = at.shape
    columns = np.empty((n, d, d))
    for axis in range(d):
        offset = np.zeros(d)
        offset[axis] = step
        ahead = mapped_points("transform", transform, at + offset)
        behind = mapped_points("transform", transform, at - offset)
        columns[:, :, axis] = (ahead - behind) / (2 * step)
    defined = np.isfinite(columns).all(axis=(1, 2))
    determinants = np.full(n, np.nan)
    determinants[defined] = np.linalg.det(columns[defined])
    return determinants


def default_step(points: Floats | Grid) -> float:
    """Smallest spacing of a grid; else a thousandth of the diagonal of the points' bounding box, or 1 for one point."""
    if isinstance(points, Grid):
        return float(points.spacing.min())
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    return _STEP_SHARE * extent if extent > 0 else 1.0


def regularity(transform: Any, points: ArrayLike | Grid, *, mask: Any = None, step: float | None = None) -> Regularity:
    """Measure folding and the spread of the log Jacobian determinant over points.

    Parameters
    ----------
    transform : object with ``map``, or callable
    points : (n, d) array or Grid
        Where; all elements of a grid, or those of its mask.
    mask : array on the grid, optional
        Not zero where it counts.
    step : float, optional
        Half the distance of the central differences, in world units; see :func:`default_step`.
    """
    chosen = default_step(points if isinstance(points, Grid) else as_points(points, "points")) if step is None else step
    total = undefined = folded = count = 0
    mean = squares = 0.0
    smallest, largest = np.inf, -np.inf
    for block in _blocks(points, mask):
        determinants = jacobian_determinants(transform, block, chosen)
        known = determinants[np.isfinite(determinants)]
        total, undefined = total + len(block), undefined + len(block) - len(known)
        if len(known) == 0:
            continue
        smallest, largest = min(smallest, float(known.min())), max(largest, float(known.max()))
        folded += int(np.sum(known <= 0))
        logs = np.log(known[known > 0])
        if len(logs):
            # Blocks are merged by their means and sums of squares about them, so that nothing cancels.
            shift, grown = float(logs.mean()) - mean, count + len(logs)
            squares += float(np.sum(np.square(logs - logs.mean()))) + shift**2 * count * len(logs) / grown
            mean, count = mean + shift * len(logs) / grown, grown
    if total == 0:
        raise InvalidInputError("Regularity needs at least one point; the mask is empty.")
    known_count = total - undefined
    return Regularity(
        folding=folded / known_count if known_count else 0.0,
        sd_log_jacobian=float(np.sqrt(squares / count)) if count else None,
        mean_log_jacobian=mean if count else None,
        smallest=smallest if known_count else None,
        largest=largest if known_count else None,
        points=total,
        undefined=undefined,
        step=float(chosen),
    )


def _blocks(points: ArrayLike | Grid, mask: Any) -> Iterator[Floats]:
    if not isinstance(points, Grid):
        if mask is not None:
            raise InvalidInputError("A mask needs the Grid that it lies on; pass the Grid as points.")
        at = as_points(points, "points")
        for start in range(0, len(at), _JACOBIAN_BLOCK):
            yield at[start : start + _JACOBIAN_BLOCK]
        return
    inside = None if mask is None else np.asarray(mask)
    if inside is not None and inside.shape != points.shape:
        raise InvalidInputError(f"The mask must have the grid's shape {points.shape}, got {inside.shape}.")
    flat = None if inside is None else inside.reshape(-1) != 0
    for rows, block in points.blocks(_JACOBIAN_BLOCK):
        yield block if flat is None else block[flat[rows]]


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
    """

    label: int
    dice: float
    hd95: float | None
    surface_distance: float | None
    fixed_volume: float
    warped_volume: float


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
        return asdict(self)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per label."""
        return [asdict(one) for one in self.labels]


def label_overlap(
    transform: Any,
    fixed_labels: ArrayLike,
    fixed_grid: Grid,
    moving_labels: ArrayLike,
    moving_grid: Grid,
    *,
    labels: Sequence[int] | None = None,
    name: str = "transform",
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
    found = tuple(_one(one, fixed == one, warped == one, fixed_grid) for one in wanted)
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
    """Return the moving labels on the fixed grid by nearest neighbour, and where there is no moving image: 0 there."""
    warped = np.zeros(fixed_grid.count, dtype=moving_labels.dtype)
    outside = np.ones(fixed_grid.count, dtype=bool)
    limit = np.asarray(moving_grid.size)
    for rows, points in fixed_grid.blocks(_LABEL_BLOCK):
        index = moving_grid.world_to_index(np.nan_to_num(mapped := mapped_points(name, transform, points)))
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


def _one(label: int, fixed: NDArray[np.bool_], warped: NDArray[np.bool_], grid: Grid) -> LabelOverlap:
    element = float(np.prod(grid.spacing))
    sizes = int(fixed.sum()), int(warped.sum())
    shared = int((fixed & warped).sum())
    dice = 2 * shared / (sizes[0] + sizes[1]) if sum(sizes) else 0.0
    distances = surface_distances(fixed, warped, grid)
    hd95 = surface = None
    if distances is not None:
        hd95 = float(max(np.percentile(one, 95) for one in distances))
        surface = float(np.concatenate(distances).mean())
    return LabelOverlap(label, dice, hd95, surface, sizes[0] * element, sizes[1] * element)


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


def overlap_table(overlaps: Mapping[str, Overlap]) -> list[dict[str, Any]]:
    """One flat row per transform and label, the mean over labels last with the label ``"mean"``."""
    rows: list[dict[str, Any]] = []
    for name, found in overlaps.items():
        rows += [{"transform": name, **row} for row in found.rows()]
        mean = {"dice": found.mean_dice, "hd95": found.mean_hd95, "surface_distance": found.mean_surface_distance}
        rows.append({"transform": name, "label": "mean", **mean, "fixed_volume": None, "warped_volume": None})
    return rows
