"""Target sets: the points at which the transformation matters, from the domain, a mask, labels or a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.candidates.structure import slabs
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid, array_order
from warpgauge.io.files import PathLike
from warpgauge.io.landmarks import read_landmarks

Method = Literal["regular", "random"]
Truth = NDArray[np.bool_]
_LARGEST_LATTICE = 20_000_000


def targets_from_domain(grid: Grid, count: int, *, method: Method = "regular", seed: int = 0) -> Floats:
    """Sample the whole domain of an image.

    At most ``count`` centres of equal cells that are as cubic as the image allows, or exactly as many uniform random
    points.
    """
    _check(count, method)
    size = np.asarray(grid.size)
    if method == "random":
        uniform = np.random.default_rng(seed).random((count, grid.d))
        return grid.index_to_world(uniform * size - 0.5)
    return grid.index_to_world(_lattice(size, _cells(size * grid.spacing, count)))


def targets_from_mask(
    mask: Any, grid: Grid, count: int | None = None, *, method: Method = "random", seed: int = 0
) -> Floats:
    """Sample the pixels of a mask, which is not zero where targets may lie.

    All pixel centres, or exactly ``count`` of them drawn without replacement, in the order of the array; with
    ``"regular"`` at most ``count`` points of a lattice that lie in the mask.
    """
    _check(1 if count is None else count, method)
    _check_shape(mask, grid, "mask")
    if count is not None and method == "regular":
        return _regular_in_mask(mask, grid, count)
    return _choose(lambda low, high: np.asarray(mask[low:high]) != 0, grid, count, seed, "mask")


def targets_from_labels(
    labels: Any, grid: Grid, label: int | Sequence[int], *, edge: bool = True, count: int | None = None, seed: int = 0
) -> Floats:
    """Sample the edge, or the whole, of labelled structures.

    A pixel is on the edge of its label when one of its neighbours along an axis has another label (listed or not); the
    border of the image does not count. All pixel centres, or ``count`` of them drawn without replacement.
    """
    _check(1 if count is None else count, "random")
    _check_shape(labels, grid, "label image")
    wanted = np.unique(np.atleast_1d(np.asarray(label)))
    if wanted.dtype.kind not in "ui" or wanted.size == 0:
        raise InvalidInputError(f"label must be a whole number or several, got {label!r}.")
    missing = set(wanted.tolist())
    for low, high in slabs(grid.shape):
        part = np.asarray(labels[low:high])
        missing -= {value for value in missing if np.any(part == value)}
    if missing:
        raise InvalidInputError(f"The label image has no label {min(missing)}; check the number.")

    def truth(low: int, high: int) -> Truth:
        begin = max(0, low - 1)
        end = min(grid.shape[0], high + 1)
        part = np.asarray(labels[begin:end])
        chosen = np.isin(part, wanted)
        if edge:
            chosen &= edge_pixels(part)
        return chosen[low - begin : high - begin]

    return _choose(truth, grid, count, seed, "edge of the labels" if edge else "labels")


def targets_from_file(
    path: PathLike,
    *,
    format: str | None = None,  # noqa: A002  # as read_landmarks calls it
    grid: Grid | None = None,
    **options: Any,
) -> Floats:
    """Read target points from a landmark file of any format; of a file of pairs, the fixed points.

    ``grid`` and the options are ``fixed_grid`` and the other arguments of `warpgauge.io.landmarks.read_landmarks`. A
    file of pairs of voxel indices takes ``moving_grid`` too.
    """
    landmarks = read_landmarks(path, format=format, fixed_grid=grid, **options)
    return landmarks.fixed_points[landmarks.active]


def edge_pixels(labels: NDArray[Any]) -> Truth:
    """Return which pixels have a neighbour along an axis with another label."""
    edges = np.zeros(labels.shape, dtype=bool)
    for axis in range(labels.ndim):
        here: list[slice] = [slice(None)] * labels.ndim
        there = list(here)
        here[axis] = slice(None, -1)
        there[axis] = slice(1, None)
        differs = labels[tuple(here)] != labels[tuple(there)]
        edges[tuple(here)] |= differs
        edges[tuple(there)] |= differs
    return edges


def _check(count: int, method: str) -> None:
    if count < 1:
        raise InvalidInputError(f"count must be at least 1, got {count!r}.")
    if method not in ("regular", "random"):
        raise InvalidInputError(f"method must be 'regular' or 'random', got {method!r}.")


def _check_shape(array: Any, grid: Grid, what: str) -> None:
    if tuple(array.shape) != grid.shape:
        raise InvalidInputError(f"A {what} of shape {tuple(array.shape)} does not lie on a grid of shape {grid.shape}.")


def _choose(truth: Callable[[int, int], Truth], grid: Grid, count: int | None, seed: int, what: str) -> Floats:
    """Return the centres of all true pixels, or of a random choice, reading the array slab by slab."""
    counts = [int(np.count_nonzero(truth(low, high))) for low, high in slabs(grid.shape)]
    total = sum(counts)
    if total == 0 or (count is not None and count > total):
        raise InvalidInputError(f"The {what} has {total} pixels, fewer than the {count or 1} targets asked for.")
    ranks = None if count is None else np.sort(np.random.default_rng(seed).choice(total, count, replace=False))
    plane = grid.count // grid.shape[0]
    before = 0
    flat = []
    for (low, high), here in zip(slabs(grid.shape), counts, strict=True):
        found = np.flatnonzero(truth(low, high)) if here else np.zeros(0, dtype=np.int64)
        if ranks is not None:
            found = found[ranks[(ranks >= before) & (ranks < before + here)] - before]
        flat.append(found + low * plane)
        before += here
    index = np.stack(np.unravel_index(np.concatenate(flat), grid.shape)[::-1], axis=-1)
    return grid.index_to_world(index)


def _cells(extent: Floats, count: int) -> NDArray[np.int64]:
    """Divide a box into cells as cubic as possible, at most ``count`` of them; return their number along each axis."""

    def cells(edge: float) -> NDArray[np.int64]:
        return np.asarray(np.maximum(1, np.floor(extent / edge * (1 + 1e-12))).astype(np.int64))

    low = float(np.prod(extent / count ** (1 / len(extent))) ** (1 / len(extent)))  # too many or just enough cells
    high = float(extent.max())  # one cell along every axis
    while np.prod(cells(low)) <= count and low > high * 1e-9:
        low /= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if np.prod(cells(middle)) <= count else (middle, high)
    return cells(high)


def _lattice(size: NDArray[np.int64], cells: NDArray[np.int64]) -> Floats:
    """Return the centres of the cells as indices (x, y[, z])."""
    axes = [(np.arange(n) + 0.5) * length / n - 0.5 for n, length in zip(cells, size, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(size))


def _regular_in_mask(mask: Any, grid: Grid, count: int) -> Floats:
    """Lay lattices over the box around the mask, from fine to coarse, until at most ``count`` points lie inside."""
    inside = np.asarray(mask) != 0
    total = int(np.count_nonzero(inside))
    if total == 0:
        raise InvalidInputError("The mask has 0 pixels, so no target can lie in it; check the mask.")
    (box,) = ndimage.find_objects(inside.astype(np.int8))
    low = array_order([part.start for part in box])  # x, y[, z]
    size = array_order([part.stop - part.start for part in box])
    cells = count * int(np.prod(size)) // total
    while 0 < cells <= _LARGEST_LATTICE:
        index = low + _lattice(size, _cells(size * grid.spacing, cells))
        chosen = index[inside[tuple(array_order(np.round(index).astype(np.int64)).T)]]
        if 0 < len(chosen) <= count:
            return grid.index_to_world(chosen)
        cells = min(cells - 1, int(cells * 0.97))
    raise InvalidInputError(
        f"No lattice has between 1 and {count} points in the mask, which has {total} pixels; use method='random'."
    )
