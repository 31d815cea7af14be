"""Posterior means and covariances at many points, tile by tile.

Points are sorted into cells of about 800 near neighbours (a tile), and tiles into groups of up to 9. Then

- the distances of a tile's box from an annotation tell which quintics of the kernel can occur, mostly one;
- annotations beyond the kernel's largest scale of a group are left out. What remains of the inverse Cholesky factor is
  made square again by a QR factorisation, which keeps the sums of squares that a covariance is made of;
- the factor is applied in panels of rows, so that the zeros of its triangles are not multiplied, and each panel is
  reduced to its part of the covariance while it is in the cache.

Threads work on groups side by side, each with one thread of linear algebra. Memory is bounded by the block of points
that is sorted at a time, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from warpgauge.core import compiled_tiles as loops
from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.compiled import WENDLAND, loop_array
from warpgauge.core.kernels import PriorKernel
from warpgauge.core.parallel import over_items, over_rows, thread_count

# Points of a tile at most, and aimed at: cells of a regular grid differ in size by a row of points.
TILE, _AIM = 1024, 800
_WIDTH = TILE + 24  # of a row of a tile's arrays: rows a power of two apart would share few places of the cache
_GROUP = 9  # tiles of a group at most
_BLOCK = 1 << 18  # points sorted at a time
# Annotations of a group are left out where at most this share is within reach: a QR factorisation has to pay.
_SMALL_SHARE = 0.95
_PANEL = 34  # rows of a panel, about

# What becomes of a tile: called with its order, start, stop, sums over annotations, and covariance.
Sink = Callable[[Ints, int, int, Floats, Floats], None]


@dataclass(frozen=True, eq=False)
class Panel:
    """Some rows of the factor that belong to one component of the whitened vectors.

    Attributes
    ----------
    below : array or None
        The rows for the components before this one, one below the other, over all columns.
    own : array
        The rows for this component over the columns ``first:last`` beyond which they are zero.
    """

    component: int
    rows: int
    below: Floats | None
    own: Floats
    first: int
    last: int


def panels_of(blocks: list[list[Floats]], upper: bool) -> list[Panel]:
    """Cut a factor into panels.

    Parameters
    ----------
    blocks : lists of (r, c) arrays
        ``blocks[i][a]`` whitens component a to the rows of component i, a <= i; the last of each list is triangular:
        its row k is zero beyond column ``c - r + k`` or, where ``upper``, before column k.
    """
    panels = []
    for component, parts in enumerate(blocks):
        own = parts[-1]
        rows, columns = own.shape
        step = max(1, -(-rows // max(1, round(rows / _PANEL))))
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            first, last = (start, columns) if upper else (0, columns - rows + stop)
            panels.append(
                Panel(
                    component,
                    stop - start,
                    np.concatenate([part[start:stop] for part in parts[:-1]]) if component else None,
                    np.ascontiguousarray(own[start:stop, first:last]),
                    first,
                    last,
                )
            )
    return panels


def _feature_count(kernel: PriorKernel, locations: Floats) -> int:
    """Return the number of features of a kernel's trend: 0 without one."""
    return int(kernel.features(locations[:0]).shape[1])


@dataclass(frozen=True, eq=False)
class Whitening:
    """The inverse Cholesky factor of the annotations, by component, for products with kernels and features of a trend.

    Parameters
    ----------
    kernel : PriorKernel
    locations : (L, d) array
    factors : b arrays
        Array a is ((b - a) L, L): what component a contributes to the whitened rows of components a to b, the first L
        of them lower triangular; b is 1 with isotropic noise and d otherwise.
    """

    kernel: PriorKernel
    locations: Floats
    factors: list[Floats]

    @property
    def b(self) -> int:
        """Number of components that are whitened: 1 with isotropic noise, else d."""
        return len(self.factors)

    def _columns(self, component: int, chosen: Ints | None) -> Floats:
        """Columns for the features of a trend, then those of the annotations, with zeros above: (b L, f + L)."""
        L = len(self.locations)
        factor = self.factors[component]
        chosen_columns = factor if chosen is None else factor[:, chosen]
        result = np.zeros((self.b * L, self.features + chosen_columns.shape[1]))
        rows = result[component * L :]
        rows[:, self.features :] = chosen_columns
        rows[:, : self.features] = factor @ self.kernel.features(self.locations)
        return result

    @property
    def features(self) -> int:
        """Number of features of the trend: 0 without one."""
        return _feature_count(self.kernel, self.locations)

    def panels(self, chosen: Ints | None = None) -> list[Panel]:
        """Panels for all annotations, or for a choice of them with the same sums of products of whitened rows."""
        L, b, columns = len(self.locations), self.b, [self._columns(a, chosen) for a in range(self.b)]
        if chosen is None:
            blocks = [[columns[a][i * L : (i + 1) * L] for a in range(i + 1)] for i in range(b)]
            return panels_of(blocks, upper=False)
        # The last component first: the rows of component i then meet the components up to i, as in the whole factor.
        size = columns[0].shape[1]
        R = np.asarray(np.linalg.qr(np.concatenate(columns[::-1], axis=1), mode="r"))
        place = [slice((b - 1 - a) * size, (b - a) * size) for a in range(b)]
        return panels_of([[R[place[i], place[a]] for a in range(i + 1)] for i in range(b)], upper=True)


def over_tiles(
    whitening: Whitening | None,
    kernel: PriorKernel,
    locations: Floats,
    points: Floats,
    weights: Floats | None,
    sink: Sink,
) -> None:
    """Work on all points tile by tile and hand each tile to ``sink``, in threads.

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
        Called with ``(order, start, stop, sums, covariance)``: rows ``order[start:stop]`` of the block of points that
        ``order`` sorts, hence of the caller's arrays, their sums (d, tile), and covariance (pairs, tile).
    """
    run = _Run(whitening, kernel, locations, weights)
    for start in range(0, len(points), _BLOCK):
        stop = min(start + _BLOCK, len(points))
        run.block(loop_array(points[start:stop]), start, sink)


class _Run:
    """What all tiles of one call share."""

    def __init__(
        self, whitening: Whitening | None, kernel: PriorKernel, locations: Floats, weights: Floats | None
    ) -> None:
        self.whitening, self.kernel = whitening, kernel
        self.locations = loop_array(locations)
        L = len(locations)
        self.weights = np.empty((L, 0)) if weights is None else loop_array(weights)
        self.parameters = kernel.bundle.loop_parameters
        self.trend = kernel.trend
        self.features = _feature_count(kernel, locations)
        self.coefficients = np.ascontiguousarray(kernel.features(locations).T @ self.weights)
        self.everything = np.arange(L, dtype=np.int64)
        self.panels = [] if whitening is None else whitening.panels()
        self.reach_square = float(self.parameters[1][-1]) if self.parameters[0] == WENDLAND else np.inf

    def block(self, points: Floats, offset: int, sink: Sink) -> None:
        """Sort a block of points and work on its groups in threads."""
        order, tiles, groups = sorted_tiles(points)

        def worker() -> Callable[[int], None]:
            buffers = _Buffers(self, points.shape[1])

            def work(group: int) -> None:
                self._group(points, order, tiles[groups[group] : groups[group + 1] + 1], buffers, offset, sink)

            return work

        over_items(worker, len(groups) - 1)

    def _group(
        self, points: Floats, order: Ints, bounds: list[int], buffers: _Buffers, offset: int, sink: Sink
    ) -> None:
        active, panels = self.everything, self.panels
        if np.isfinite(self.reach_square):
            low, high = np.empty(points.shape[1]), np.empty(points.shape[1])
            loops.bounding_box(points, order, bounds[0], bounds[-1], low, high)
            active = loops.within_reach(self.locations, low, high, self.reach_square)
            if self.whitening is not None:
                if len(active) + self.features <= _SMALL_SHARE * len(self.locations):
                    panels = self.whitening.panels(active)
                else:
                    active = self.everything
        for start, stop in pairwise(bounds):
            self._tile(points, order, start, stop, active, panels, buffers)
            sink(buffers.shifted(order, start, stop, offset), 0, stop - start, buffers.shift, buffers.covariance)

    def _tile(
        self, points: Floats, order: Ints, start: int, stop: int, active: Ints, panels: list[Panel], buffers: _Buffers
    ) -> None:
        kernel, n = buffers.kernel, stop - start
        loops.fill_tile(
            *self.parameters,
            points,
            order,
            start,
            stop,
            self.locations,
            active,
            self.weights,
            self.whitening is not None,
            buffers.place,
            kernel,
            self.features,
            buffers.shift,
        )
        if self.trend is not None:
            loops.fill_trend(
                points,
                order,
                start,
                stop,
                buffers.center,
                float(self.trend.translation_sd),
                float(self.trend.linear_sd),
                self.coefficients,
                kernel,
                buffers.shift,
            )
        if self.whitening is None:
            return
        b = self.whitening.b
        loops.start_covariance(self.kernel.bundle.at_zero, self.features, kernel, b, n, buffers.covariance)
        rows = self.features + len(active)
        for panel in panels:
            own = panel.component * panel.rows
            if panel.below is not None:
                np.matmul(panel.below, kernel[:rows, :n], out=buffers.whitened[:own, :n])
            np.matmul(panel.own, kernel[panel.first : panel.last, :n], out=buffers.whitened[own : own + panel.rows, :n])
            loops.subtract_products(buffers.whitened, panel.rows, panel.component + 1, b, n, buffers.covariance)


class _Buffers:
    """Arrays of one thread, used for one tile after the other."""

    def __init__(self, run: _Run, d: int) -> None:
        L, stored = len(run.locations), run.whitening is not None
        b = run.whitening.b if run.whitening is not None else 1
        self.place = np.empty((d + 1, _WIDTH))
        self.kernel = np.empty((max(1, run.features + (L if stored else 0)), _WIDTH))
        self.shift = np.empty((d, _WIDTH))
        self.covariance = np.empty((b * (b + 1) // 2, _WIDTH))
        self.whitened = np.empty((b * 2 * _PANEL, _WIDTH))
        self.center = np.zeros(d) if run.trend is None else loop_array(run.trend.center)
        self._order = np.empty(TILE, dtype=np.int64)

    def shifted(self, order: Ints, start: int, stop: int, offset: int) -> Ints:
        """Rows of the caller's arrays: those of the block, moved by where the block starts."""
        np.add(order[start:stop], offset, out=self._order[: stop - start])
        return self._order


def sorted_tiles(points: Floats) -> tuple[Ints, list[int], list[int]]:
    """Sort points into tiles of near neighbours.

    Returns
    -------
    order : (n,) array
        Rows of the points, tile after tile.
    tiles : list of int
        Where each tile starts in ``order``, and n at the end.
    groups : list of int
        The number of the first tile of each group, and the number of tiles at the end.
    """
    n = len(points)
    if n <= TILE:
        return np.arange(n, dtype=np.int64), [0, n], [0, 1]
    everything = np.arange(n, dtype=np.int64)
    low, high = np.empty(points.shape[1]), np.empty(points.shape[1])
    loops.bounding_box(points, everything, 0, n, low, high)
    extent = np.maximum(high - low, 1e-300)
    cells = _shared(extent, n / _AIM)
    per_group = min(_GROUP, max(1, int(np.prod(cells)) // (4 * thread_count())))
    groups = np.minimum(_shared(cells.astype(np.float64), per_group), cells)
    groups_along = -(-cells // groups)
    total, size = int(np.prod(groups_along) * np.prod(groups)), int(np.prod(groups))
    numbers, order = np.empty(n, dtype=np.int64), everything
    starts = np.empty(total + 1, dtype=np.int64)
    per_unit = cells / extent

    def number(start: int, stop: int) -> None:
        loops.cell_numbers(points, low, per_unit, cells, groups, start, stop, numbers)

    over_rows(number, n, 4)
    loops.counting_sort(numbers, starts, order)
    tiles, firsts = [0], [0]
    for group in range(total // size):
        for cell in range(group * size, (group + 1) * size):
            stop = int(starts[cell + 1])
            while tiles[-1] < stop:
                tiles.append(min(stop, tiles[-1] + TILE))
        if len(tiles) - 1 > firsts[-1]:
            firsts.append(len(tiles) - 1)
    return order, tiles, firsts


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
