"""Posterior means and covariances at many points, panel by panel.

Points are sorted into cells of about 32 near neighbours (a panel), and cells into groups of some thousand points. Then

- the distances of a panel's box from an annotation tell which quintics of the kernel can occur, mostly one;
- annotations beyond the kernel's largest scale of a group are left out, as columns of the inverse Cholesky factor: a
  point then costs the number of annotations times those within reach;
- the kernel of a panel stays in the cache while the factor passes by it, in blocks of rows whose products are squared
  and summed in registers, and whose zeros above the diagonal are not multiplied.

Threads work on groups side by side, in one compiled call for a group: between calls they would wait for the
interpreter's lock. Memory is bounded by the block of points that is sorted at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpgauge.core import compiled
from warpgauge.core import compiled_tiles as loops
from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.compiled import GAUSSIAN, WENDLAND, loop_array
from warpgauge.core.kernels import KernelBundle, PriorKernel
from warpgauge.core.parallel import one_blas_thread, only_one_thread, over_items, over_rows, thread_count
from warpgauge.core.register_products import PANEL

# Points of a tile at most, and aimed at: cells of a regular grid differ in size by a row of points.
TILE, _AIM = 1024, 800
_GROUP = 7200  # points of a group, about
_AT_ONCE = 8192  # points of a compiled call at most
_BLOCK = 1 << 18  # points sorted at a time
_PACKED_FOR = 256  # points whose products cost as much as it does to pack the factor for a choice of annotations
_BLOCK_DOUBLES = 400_000  # of a kernel block without tiles, which stays in the cache with its products

# What becomes of some points: called with their rows, sums over annotations, and covariances.
Sink = Callable[[Ints, Floats, Floats], None]


@dataclass(frozen=True, eq=False)
class Whitening:
    """The inverse Cholesky factor of the annotations, for products with kernels and features of a trend.

    Parameters
    ----------
    kernel : PriorKernel
    locations : (L, d) array
    W : (b L, b L) array
        Component by component; b is 1 with isotropic noise and d otherwise.
    """

    kernel: PriorKernel
    locations: Floats
    W: Floats

    @property
    def b(self) -> int:
        """Number of components that are whitened: 1 with isotropic noise, else d."""
        return len(self.W) // len(self.locations) if len(self.locations) else 1

    @cached_property
    def _trends(self) -> Floats:
        """Columns of the factor for the features of a trend, which all annotations contribute to."""
        features, L = self.kernel.features(self.locations), len(self.locations)
        return np.concatenate([self.W[:, a * L : (a + 1) * L] @ features for a in range(self.b)], axis=1)

    @cached_property
    def _whole(self) -> tuple[Ints, Floats]:
        return loops.packed_factor(loop_array(self.W), loop_array(self._trends), np.arange(len(self.locations)), self.b)

    def packed(self, chosen: Ints) -> tuple[Ints, Floats]:
        """Blocks of the factor for a choice of annotations; all others are zero in every kernel they are applied to."""
        if len(chosen) == len(self.locations):
            return self._whole
        return loops.packed_factor(loop_array(self.W), loop_array(self._trends), chosen, self.b)


def over_tiles(
    whitening: Whitening | None,
    kernel: PriorKernel,
    locations: Floats,
    points: Floats,
    weights: Floats | None,
    sink: Sink,
) -> None:
    """Work on all points panel by panel and hand them to ``sink``, in threads.

    Parameters
    ----------
    whitening : Whitening, optional
        Without it no covariances are made.
    kernel : PriorKernel
    locations : (L, d) array
    points : (n, d) array
    weights : (L, d) array, optional
        Without them no sums over annotations are made.
    sink : callable
        Called with ``(rows, sums, covariance)`` for some thousand points: their rows, sums (d, columns), and
        covariance (pairs, columns), the first columns of which belong to the rows.
    """
    bundle = kernel.bundle
    if not isinstance(bundle, KernelBundle) or not bundle.places.uniform or bundle.marks(locations).shape[1] > 1:
        # Few points may be asked for by a thread of the pool, which must not wait for another one of it.
        with only_one_thread() if len(points) <= TILE else nullcontext():
            _over_blocks(whitening, kernel, locations, points, weights, sink)
        return
    run = _Run(whitening, kernel, bundle, locations, weights)
    for start in range(0, len(points), _BLOCK):
        stop = min(start + _BLOCK, len(points))
        run.block(loop_array(points[start:stop]), start, sink)


def _over_blocks(
    whitening: Whitening | None,
    kernel: PriorKernel,
    locations: Floats,
    points: Floats,
    weights: Floats | None,
    sink: Sink,
) -> None:
    """Do the same for kernels that no tile knows, from their matrices with a block of points at a time."""
    b, L = 0 if whitening is None else whitening.b, len(locations)
    sums, step = np.empty((0, 0)), max(64, _BLOCK_DOUBLES // max(1, L * max(b, 1)))
    for start in range(0, len(points), step):
        rows = np.arange(start, min(start + step, len(points)), dtype=np.int64)
        at = points[rows]
        block = kernel.matrix(at, locations).T
        covariance = np.zeros((b * (b + 1) // 2, len(at)))
        with one_blas_thread():
            if weights is not None:
                sums = np.ascontiguousarray(weights.T @ block)
            if whitening is not None:
                # The factor is lower triangular by components: component a meets only the rows from a on.
                parts = [whitening.W[a * L :, a * L : (a + 1) * L] @ block for a in range(b)]
                for pair, (a, c) in enumerate(zip(*np.triu_indices(b), strict=True)):
                    covariance[pair] = kernel.diagonal(at) if a == c else 0.0
                    covariance[pair] -= np.einsum("rn,rn->n", parts[a][(c - a) * L :], parts[c])
        sink(rows, sums, covariance)


class _Run:
    """What all points of one call share, of a bundle whose values depend on distances, and on labels at most."""

    def __init__(
        self,
        whitening: Whitening | None,
        kernel: PriorKernel,
        bundle: KernelBundle,
        locations: Floats,
        weights: Floats | None,
    ) -> None:
        self.whitening = whitening
        at, d = bundle.places.coordinates(locations), locations.shape[1]
        stretch = np.ones(d) if bundle.places.axes is None else bundle.places.axes
        trend, weights = kernel.trend, np.empty((len(locations), 0)) if weights is None else loop_array(weights)
        family, breaks, tables = bundle.loop_parameters
        if family == GAUSSIAN:  # weights and their logarithms
            tables = np.concatenate([tables, np.log(np.maximum(tables, 1e-300))], axis=2)
        features = kernel.features(locations)
        self.model = loops.Model(
            family,
            breaks,
            tables,
            at_zero=bundle.at_zero,
            locations=loop_array(at),
            weights=weights,
            features=features.shape[1],
            center=np.zeros(d) if trend is None else loop_array(trend.center / stretch),
            translation_sd=0.0 if trend is None else float(trend.translation_sd),
            linear_sd=np.zeros(d) if trend is None else float(trend.linear_sd) * stretch,
            coefficients=np.ascontiguousarray(features.T @ weights),
            b=0 if whitening is None else whitening.b,
        )
        self.bundle = bundle
        self.labels = bundle.marks(locations).reshape(-1)
        self.everything = np.arange(len(locations), dtype=np.int64)
        self.reach_square = float(breaks[-1]) if family == WENDLAND else np.inf

    def block(self, points: Floats, offset: int, sink: Sink) -> None:
        """Work on a block of points: region by region, so that one table is between a panel and an annotation."""
        labels, numbers = self.bundle.marks(points), np.arange(offset, offset + len(points), dtype=np.int64)
        points = loop_array(self.bundle.places.coordinates(points))
        if labels.shape[1] == 0:
            self._part(points, numbers, np.zeros_like(self.everything), sink)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels[:, 0] == label)
            self._part(loop_array(points[rows]), numbers[rows], (self.labels != label).astype(np.int64), sink)

    def _part(self, points: Floats, numbers: Ints, table_of: Ints, sink: Sink) -> None:
        """Sort points of one region and work on their groups in threads; the sink gets their numbers."""
        order, groups = _sorted_groups(points)

        def worker() -> Callable[[int], None]:
            room = _room(self.model)

            def work(group: int) -> None:
                rows = order[groups[group] : groups[group + 1]]
                reached = self._reached(points, rows, table_of)
                for start in range(0, len(rows), _AT_ONCE):
                    some = rows[start : start + _AT_ONCE]
                    loops.fill_panels(self.model, reached, points, some, room)
                    sink(numbers[some], room.shift, room.covariance)

            return work

        over_items(worker, len(groups) - 1)

    def _reached(self, points: Floats, rows: Ints, table_of: Ints) -> loops.Reached:
        """Find the annotations within reach of some points, and what belongs to them."""
        active = self.everything
        if np.isfinite(self.reach_square):
            low, high = np.empty(points.shape[1]), np.empty(points.shape[1])
            compiled.bounding_box(points, rows, 0, len(rows), low, high)
            near = loops.within_reach(self.model.locations, low, high, self.reach_square)
            if (len(active) - len(near)) * len(rows) > _PACKED_FOR * len(near):
                active = near
        nothing = np.empty((0, 3), dtype=np.int64), np.empty(0)
        blocks, factor = nothing if self.whitening is None else self.whitening.packed(active)
        columns = np.ascontiguousarray(self.model.locations[active].T)
        return loops.Reached(columns, self.model.weights[active], table_of[active], blocks, factor)


def _room(model: loops.Model) -> loops.Room:
    """Make the arrays of one thread, used for one group after the other."""
    (L, d), b = model.locations.shape, model.b
    return loops.Room(
        place=np.empty((d, PANEL)),
        spare=np.empty(PANEL),
        near=np.empty(L),
        far=np.empty(L),
        first=np.empty(L, dtype=np.int64),
        last=np.empty(L, dtype=np.int64),
        kernel=np.empty(loops.TOGETHER * (model.features + L) * PANEL),
        shift=np.empty((d, _AT_ONCE + PANEL)),
        covariance=np.empty((b * (b + 1) // 2, _AT_ONCE + PANEL)),
    )


def _sorted_groups(points: Floats) -> tuple[Ints, Ints]:
    """Sort points so that those of a panel are near each other; return their rows and where each group starts."""
    n = len(points)
    if n <= 4 * PANEL:
        return np.arange(n, dtype=np.int64), np.array([0, n])
    # Few points are one group: they may be asked for by a thread of a pool.
    cells = max(1, (n if n <= TILE else min(_GROUP, n // (4 * thread_count()))) // PANEL)
    order, starts, size = _sorted_cells(points, PANEL, cells)
    return order, np.unique(starts[::size])


def sorted_tiles(points: Floats) -> tuple[Ints, list[int]]:
    """Sort points into tiles of near neighbours.

    Returns
    -------
    order : (n,) array
        Rows of the points, tile after tile.
    tiles : list of int
        Where each tile starts in ``order``, and n at the end.
    """
    n = len(points)
    if n <= TILE:
        return np.arange(n, dtype=np.int64), [0, n]
    order, starts, _ = _sorted_cells(points, _AIM, 9)
    tiles = [0]
    for stop in starts[1:].tolist():
        while tiles[-1] < stop:
            tiles.append(min(stop, tiles[-1] + TILE))
    return order, tiles


def _sorted_cells(points: Floats, aim: int, per_group: int) -> tuple[Ints, Ints, int]:
    """Sort points into cells of near neighbours, about ``aim`` each, and cells into groups of about ``per_group``.

    Returns
    -------
    order : (n,) array
        Rows of the points, cell after cell.
    starts : array
        Where each cell starts in ``order``, and n at the end.
    size : int
        Cells of a group, which follow each other.
    """
    n = len(points)
    everything = np.arange(n, dtype=np.int64)
    low, high = np.empty(points.shape[1]), np.empty(points.shape[1])
    compiled.bounding_box(points, everything, 0, n, low, high)
    extent = np.maximum(high - low, 1e-300)
    cells = _shared(extent, n / aim)
    groups = np.minimum(_shared(cells.astype(np.float64), per_group), cells)
    groups_along = -(-cells // groups)
    total, size = int(np.prod(groups_along) * np.prod(groups)), int(np.prod(groups))
    numbers, order = np.empty(n, dtype=np.int64), everything
    starts = np.empty(total + 1, dtype=np.int64)
    per_unit = cells / extent

    def number(start: int, stop: int) -> None:
        compiled.cell_numbers(points, low, per_unit, cells, groups, start, stop, numbers)

    over_rows(number, n, 4)
    compiled.counting_sort(numbers, starts, order)
    return order, starts, size


def _shared(lengths: Floats, parts: float) -> Ints:
    """Whole numbers of cells along each axis, about ``parts`` in all, as near to cubes as the lengths allow."""
    counts = np.ones(len(lengths), dtype=np.int64)
    axes = np.argsort(lengths)
    for done, axis in enumerate(axes):
        left = lengths[axes[done:]]
        side = float(np.exp((np.log(left).sum() - np.log(max(parts, 1.0))) / len(left)))
        counts[axis] = max(1, round(float(lengths[axis]) / side))
        parts /= counts[axis]
    return counts
