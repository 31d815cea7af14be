"""Posterior means and covariances at many points, tile by tile.

Points are sorted into cells of about 800 near neighbours (a tile), and tiles into groups of up to 9. Then

- the distances of a tile's box from an annotation tell which quintics of the kernel can occur, mostly one;
- annotations beyond the kernel's largest scale of a group are left out, as columns of the inverse Cholesky factor: a
  point then costs the number of annotations times those within reach. Where few are within reach of many points, a QR
  factorisation makes what remains square again, which keeps the sums of squares that a covariance is made of;
- the factor is applied in panels of rows, so that the zeros of its triangles are not multiplied, and each panel is
  reduced to its part of the covariance while it is in the cache.

Threads work on groups side by side, each with one thread of linear algebra, in one compiled call for a group: between
calls they would wait for the interpreter's lock. Memory is bounded by the block of points that is sorted at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpgauge.core import compiled
from warpgauge.core import compiled_tiles as loops
from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.compiled import WENDLAND, loop_array
from warpgauge.core.kernels import PriorKernel
from warpgauge.core.parallel import over_items, over_rows, thread_count

# Points of a tile at most, and aimed at: cells of a regular grid differ in size by a row of points.
TILE, _AIM = 1024, 800
_WIDTH = TILE + 8  # columns of a tile's arrays at most
_GROUP = 9  # tiles of a group at most
_BLOCK = 1 << 18  # points sorted at a time
# What a QR factorisation of L x m costs, in products of the factor with points per L m^2: 1 to 6 were measured.
_QR_COST = 2.0


def _panel_rows(rows: int) -> int:
    """Rows of a panel, about, of so many.

    OpenBLAS multiplies a dozen by a tile without copying them first; but the kernel of a tile with 1,000 annotations
    does not stay in the cache, and every panel reads it again.
    """
    return min(max(rows // 12, 12), 96)


# What becomes of some tiles: called with the rows of their points, sums over annotations, and covariances.
Sink = Callable[[Ints, Floats, Floats], None]


@dataclass(frozen=True, eq=False)
class Panels:
    """A factor cut into panels of rows that belong to one component of the whitened vectors each.

    Attributes
    ----------
    table : (P, 6) array
        Of each panel its component, its number of rows, the columns ``first:last`` beyond which its own rows are zero,
        and where in ``values`` its rows for the components before this one start (one below the other, over all
        columns) and where its own.
    values : array
        All rows, one after the other.
    """

    table: Ints
    values: Floats


def panels_of(blocks: list[list[Floats]], firsts: Ints, lasts: Ints) -> Panels:
    """Cut a factor into panels.

    Parameters
    ----------
    blocks : lists of (r, c) arrays
        ``blocks[i][a]`` whitens component a to the rows of component i, a <= i.
    firsts, lasts : (r,) arrays
        Row k of the last of each list is zero but for the columns ``firsts[k]:lasts[k]``; both ascend.
    """
    table: list[tuple[int, ...]] = []
    values: list[Floats] = []
    size = 0
    for component, parts in enumerate(blocks):
        own = parts[-1]
        rows, columns = own.shape
        step = max(1, -(-rows // max(1, round(rows / _panel_rows(rows)))))
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            first, last = int(firsts[start]), int(lasts[stop - 1])
            if component * columns + last - first == 0:
                continue
            below = size
            values += [part[start:stop].reshape(-1) for part in parts[:-1]]
            size += component * (stop - start) * columns
            values.append(own[start:stop, first:last].reshape(-1))
            table.append((component, stop - start, first, last, below, size))
            size += (stop - start) * (last - first)
    return Panels(np.array(table, dtype=np.int64).reshape(-1, 6), np.concatenate(values) if values else np.empty(0))


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

    @cached_property
    def _trends(self) -> list[Floats]:
        """Columns of each factor for the features of a trend, which all annotations contribute to."""
        features = self.kernel.features(self.locations)
        return [factor @ features for factor in self.factors]

    def _columns(self, component: int, chosen: Ints) -> Floats:
        """Columns for the features of a trend, then those of the chosen annotations, with zeros above: (b L, f + m)."""
        start, features = component * len(self.locations), self.features
        result = np.zeros((self.b * len(self.locations), features + len(chosen)))
        result[start:, :features] = self._trends[component]
        np.take(self.factors[component], chosen, axis=1, out=result[start:, features:])
        return result

    @property
    def features(self) -> int:
        """Number of features of the trend: 0 without one."""
        return _feature_count(self.kernel, self.locations)

    def panels(self, chosen: Ints, points: float = 0) -> Panels:
        """Panels for a choice of annotations, with the same sums of products of whitened rows as all of them.

        Parameters
        ----------
        chosen : (m,) array
            Numbers of annotations, ascending; all others are zero in every kernel that the panels are applied to.
        points : float
            How many points they are applied to, which says whether a QR factorisation pays.
        """
        L, b, columns = len(self.locations), self.b, [self._columns(a, chosen) for a in range(self.b)]
        size = columns[0].shape[1]
        # The factor is lower triangular: row k meets the chosen annotations up to k.
        lasts = self.features + np.searchsorted(chosen, np.arange(L), side="right")
        pairs = b * (b - 1) / 2
        saved = b * float(lasts.sum()) + pairs * L * size - (b / 2 + pairs) * size**2
        if saved * points <= _QR_COST * L * b * (b * size) ** 2:
            blocks = [[columns[a][i * L : (i + 1) * L] for a in range(i + 1)] for i in range(b)]
            return panels_of(blocks, np.zeros(L, dtype=np.int64), lasts)
        # The last component first: the rows of component i then meet the components up to i, as in the whole factor.
        R = np.asarray(np.linalg.qr(np.concatenate(columns[::-1], axis=1), mode="r"))
        place = [slice((b - 1 - a) * size, (b - a) * size) for a in range(b)]
        blocks = [[R[place[i], place[a]] for a in range(i + 1)] for i in range(b)]
        return panels_of(blocks, np.arange(size), np.full(size, size))


def over_tiles(
    whitening: Whitening | None,
    kernel: PriorKernel,
    locations: Floats,
    points: Floats,
    weights: Floats | None,
    sink: Sink,
) -> None:
    """Work on all points tile by tile and hand the tiles to ``sink``, in threads.

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
        Called with ``(rows, sums, covariance)`` for up to 9 tiles: the rows of their points, sums (d, columns), and
        covariance (pairs, columns), the first columns of which belong to the rows.
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
        self.whitening = whitening
        trend, weights = kernel.trend, np.empty((len(locations), 0)) if weights is None else loop_array(weights)
        self.model = loops.Model(
            *kernel.bundle.loop_parameters,
            at_zero=kernel.bundle.at_zero,
            locations=loop_array(locations),
            weights=weights,
            features=_feature_count(kernel, locations),
            center=np.zeros(locations.shape[1]) if trend is None else loop_array(trend.center),
            translation_sd=0.0 if trend is None else float(trend.translation_sd),
            linear_sd=0.0 if trend is None else float(trend.linear_sd),
            coefficients=np.ascontiguousarray(kernel.features(locations).T @ weights),
            b=0 if whitening is None else whitening.b,
        )
        self.bundle = kernel.bundle
        self.labels = kernel.bundle.labels(locations)
        self.everything = np.arange(len(locations), dtype=np.int64)
        nothing = np.empty(0, dtype=np.int64)
        self.panels = panels_of([], nothing, nothing) if whitening is None else whitening.panels(self.everything)
        self.reach_square = float(self.model.breaks[-1]) if self.model.family == WENDLAND else np.inf

    def block(self, points: Floats, offset: int, sink: Sink) -> None:
        """Work on a block of points: region by region, so that one table is between a tile and an annotation."""
        labels, numbers = self.bundle.labels(points), np.arange(offset, offset + len(points), dtype=np.int64)
        if len(labels) == 0:
            self._part(points, numbers, np.zeros_like(self.everything), sink)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            self._part(loop_array(points[rows]), numbers[rows], (self.labels != label).astype(np.int64), sink)

    def _part(self, points: Floats, numbers: Ints, table_of: Ints, sink: Sink) -> None:
        """Sort points of one region and work on their groups in threads; the sink gets their numbers."""
        order, tiles, groups = sorted_tiles(points)
        bounds = np.array(tiles, dtype=np.int64)

        def put(rows: Ints, sums: Floats, covariance: Floats) -> None:
            sink(numbers[rows], sums, covariance)

        def worker() -> Callable[[int], None]:
            room = _room(self.model)

            def work(group: int) -> None:
                self._group(points, order, bounds[groups[group] : groups[group + 1] + 1], table_of, room, put)

            return work

        over_items(worker, len(groups) - 1)

    def _group(self, points: Floats, order: Ints, bounds: Ints, table_of: Ints, room: loops.Room, sink: Sink) -> None:
        active, panels = self.everything, self.panels
        if np.isfinite(self.reach_square):
            low, high = np.empty(points.shape[1]), np.empty(points.shape[1])
            compiled.bounding_box(points, order, bounds[0], bounds[-1], low, high)
            active = loops.within_reach(self.model.locations, low, high, self.reach_square)
            if self.whitening is not None and len(active) < len(self.everything):
                panels = self.whitening.panels(active, float(bounds[-1] - bounds[0]))
        # Crowded points can make more tiles of a group than there is room for.
        for first in range(0, len(bounds) - 1, _GROUP):
            part = bounds[first : first + _GROUP + 1]
            loops.fill_tiles(self.model, points, order, part, active, table_of, panels.table, panels.values, room)
            sink(order[part[0] : part[-1]], room.shift, room.covariance)


def _room(model: loops.Model) -> loops.Room:
    """Make the arrays of one thread, used for one group after the other."""
    (L, d), b = model.locations.shape, model.b
    return loops.Room(
        place=np.empty((d + 1, _WIDTH)),
        # Zeros, as a few columns beyond a tile are multiplied too.
        kernel=np.zeros(max(1, model.features + (L if b else 0)) * _WIDTH),
        whitened=np.empty(b * 2 * _panel_rows(L) * _WIDTH),
        shift=np.empty((d, _GROUP * TILE + 24)),
        covariance=np.empty((b * (b + 1) // 2, _GROUP * TILE + 24)),
    )


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
    compiled.bounding_box(points, everything, 0, n, low, high)
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
        compiled.cell_numbers(points, low, per_unit, cells, groups, start, stop, numbers)

    over_rows(number, n, 4)
    compiled.counting_sort(numbers, starts, order)
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
