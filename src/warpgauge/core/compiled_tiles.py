"""The compiled loops behind :mod:`warpgauge.core.tiles`: one panel of points at a time, annotation by annotation.

A panel is 32 points near each other, side by side: arrays of a panel have one column for each. Named tuples cost a
compiled loop nothing.

The compiler's cache knows the date of this file alone: touch it when a loop of :mod:`warpgauge.core.compiled` or of
:mod:`warpgauge.core.register_products` changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.compiled import _add_gaussian, _kernel_of_squares, compile_loop
from warpgauge.core.register_products import PANEL, ROWS, subtract_1, subtract_2, subtract_3, sums_of_2, sums_of_3

# A distance this share beyond a scale counts as on either side of it; neighbouring quintics agree there.
_MARGIN = 1e-12
# A Gaussian this far below the others' sum, as a logarithm, is below its last bit: 2^-55.
_LAST_BIT = 38.12
# Numbers of a factor that stay in the cache, and panels that are worked on together where it has more.
_CACHED, TOGETHER = 30_000, 16


class Model(NamedTuple):
    """What all points share: the kernel as in :mod:`warpgauge.core.compiled`, the annotations, and the trend.

    ``weights`` is (L, d), or (L, 0) for no sums. ``coefficients`` (features, d) are the features of the trend, summed
    over the annotations times their weights. Locations, points and ``center`` are in the coordinates of the kernel's
    places, and ``linear_sd`` (d,) in theirs. ``b`` is the number of components that are whitened, 0 where no
    covariances are wanted.
    """

    family: int
    breaks: Floats
    tables: Floats
    at_zero: float
    locations: Floats
    weights: Floats
    features: int
    center: Floats
    translation_sd: float
    linear_sd: Floats
    coefficients: Floats
    b: int


class Reached(NamedTuple):
    """The annotations that some points can reach, and what belongs to them.

    Attributes
    ----------
    locations : (d, m) array
    weights : (m, d) array
        Or (m, 0).
    tables : (m,) array
        Which table of the kernel is between the points and each annotation.
    blocks : (B, 3) array
        Of each block of rows of the factor its component, the number of columns that its own component has, and where
        in ``factor`` it starts.
    factor : array
        The blocks, one after the other, column by column: see :mod:`warpgauge.core.register_products`.
    """

    locations: Floats
    weights: Floats
    tables: Ints
    blocks: Ints
    factor: Floats


class Room(NamedTuple):
    """Arrays of one thread: scratch for one panel, and the sums and covariances of some thousand points."""

    place: Floats
    spare: Floats
    near: Floats
    far: Floats
    first: Ints
    last: Ints
    kernel: Floats
    shift: Floats
    covariance: Floats


@compile_loop
def _nearest_square(x: Floats, low: Floats, high: Floats) -> float:
    """Squared distance from a point to the nearest point of a box."""
    total = 0.0
    for a in range(x.shape[0]):
        gap = max(low[a] - x[a], x[a] - high[a], 0.0)
        total += gap * gap
    return total


@compile_loop
def within_reach(locations: Floats, low: Floats, high: Floats, reach_square: float) -> Ints:
    """Numbers of the locations nearer to a box than a reach, ascending."""
    found = np.empty(locations.shape[0], np.int64)
    count = 0
    for j in range(locations.shape[0]):
        if _nearest_square(locations[j], low, high) < reach_square:
            found[count] = j
            count += 1
    return found[:count].copy()


@compile_loop
def _distances_to_box(locations: Floats, low: Floats, high: Floats, near: Floats, far: Floats) -> None:
    """Squared distances from the columns of ``locations`` (d, m) to the nearest and the farthest point of a box."""
    for i in range(locations.shape[1]):
        near[i] = 0.0
        far[i] = 0.0
    for a in range(locations.shape[0]):
        lowest, highest = low[a], high[a]
        for i in range(locations.shape[1]):
            x = locations[a, i]
            gap, width = max(lowest - x, x - highest, 0.0), max(abs(x - lowest), abs(highest - x))
            near[i] += gap * gap
            far[i] += width * width


@compile_loop
def _count_passed(breaks: Floats, squares: Floats, share: float, passed: Ints) -> None:
    """Count the squared scales that each squared distance times ``share`` has passed: the segment it lies in."""
    for i in range(squares.shape[0]):
        passed[i] = 0
    for s in range(breaks.shape[0]):
        for i in range(squares.shape[0]):
            passed[i] += 1 if squares[i] * share >= breaks[s] else 0


@compile_loop
def _wendland_panel(model: Model, reached: Reached, room: Room, kernel: Floats) -> None:
    """Put the Wendland bundle between the annotations within reach and a panel into ``kernel``.

    All points of a panel are mostly between the same two scales of an annotation, where the bundle is one quintic.
    """
    breaks, tables, locations, table_of = model.breaks, model.tables, reached.locations, reached.tables
    place, spare, first, last = room.place, room.spare, room.first, room.last
    d, m, features = locations.shape[0], locations.shape[1], model.features
    _count_passed(breaks, room.near[:m], 1 - _MARGIN, first[:m])
    _count_passed(breaks, room.far[:m], 1 + _MARGIN, last[:m])
    for i in range(m):
        t, g, to = table_of[i], first[i], features + i
        c0, c1, c2 = tables[t, g, 0], tables[t, g, 1], tables[t, g, 2]
        c3, c4, c5 = tables[t, g, 3], tables[t, g, 4], tables[t, g, 5]
        x, y, z = locations[0, i], locations[1, i], locations[d - 1, i]
        if d == 2:
            for j in range(PANEL):
                u, v = x - place[0, j], y - place[1, j]
                r = math.sqrt(u * u + v * v)
                spare[j] = r
                kernel[to, j] = ((((c5 * r + c4) * r + c3) * r + c2) * r + c1) * r + c0
        else:
            for j in range(PANEL):
                u, v, w = x - place[0, j], y - place[1, j], z - place[2, j]
                r = math.sqrt(u * u + v * v + w * w)
                spare[j] = r
                kernel[to, j] = ((((c5 * r + c4) * r + c3) * r + c2) * r + c1) * r + c0
        for segment in range(g + 1, last[i] + 1):
            c0, c1, c2 = tables[t, segment, 0], tables[t, segment, 1], tables[t, segment, 2]
            c3, c4, c5 = tables[t, segment, 3], tables[t, segment, 4], tables[t, segment, 5]
            from_here = math.sqrt(breaks[segment - 1])
            for j in range(PANEL):
                r = spare[j]
                value = ((((c5 * r + c4) * r + c3) * r + c2) * r + c1) * r + c0
                kernel[to, j] = value if r >= from_here else kernel[to, j]


@compile_loop
def _gaussians_of_squares(breaks: Floats, table: Floats, near: float, far: float, squares: Floats, row: Floats) -> None:
    """Put the Gaussian bundle of squared distances between ``near`` and ``far`` into ``row``.

    A scale is left out where it is below the last bit of the others' sum at every point. ``table`` has the logarithms
    of the weights beside them.
    """
    largest = -np.inf
    for s in range(breaks.shape[0]):
        largest = max(largest, table[s, 1] - far * breaks[s])
    least = largest - _LAST_BIT - math.log(breaks.shape[0])
    for j in range(PANEL):
        row[j] = 0.0
    for s in range(breaks.shape[0]):
        if table[s, 1] - near * breaks[s] > least:
            _add_gaussian(breaks[s], table[s, 0], squares, row)


@compile_loop
def _take_places(points: Floats, rows: Ints, place: Floats, low: Floats, high: Floats) -> None:
    """Put the points of a panel side by side, the last one into all columns that are left, and find their box."""
    last = rows.shape[0] - 1
    for a in range(points.shape[1]):
        low[a] = points[rows[0], a]
        high[a] = low[a]
        for j in range(PANEL):
            value = points[rows[min(j, last)], a]
            place[a, j] = value
            low[a] = min(low[a], value)
            high[a] = max(high[a], value)


@compile_loop
def _smooth_panel(model: Model, reached: Reached, room: Room, kernel: Floats) -> None:
    """Put a bundle without compact support between all annotations and a panel into ``kernel``."""
    locations, place, spare, last = reached.locations, room.place, room.spare, reached.locations.shape[0] - 1
    for i in range(locations.shape[1]):
        x, y, z = locations[0, i], locations[1, i], locations[last, i]
        for j in range(PANEL):
            u, v, w = x - place[0, j], y - place[1, j], z - place[last, j]
            spare[j] = u * u + v * v + (w * w if last == 2 else 0.0)
        table, row = model.tables[reached.tables[i]], kernel[model.features + i]
        if model.family == 1:
            _gaussians_of_squares(model.breaks, table, room.near[i], room.far[i], spare, row)
        else:
            for j in range(PANEL):
                row[j] = spare[j]
            _kernel_of_squares(model.family, model.breaks, table, row)


@compile_loop
def _fill_trend(model: Model, place: Floats, kernel: Floats) -> None:
    """Put the features of a trend into the first d + 1 rows of ``kernel``."""
    for j in range(PANEL):
        kernel[0, j] = model.translation_sd
    for a in range(model.features - 1):
        for j in range(PANEL):
            kernel[a + 1, j] = model.linear_sd[a] * (place[a, j] - model.center[a])


@compile_loop
def _put_sums(model: Model, reached: Reached, kernel: Floats, column: int, shift: Floats) -> None:
    """Put ``sum_l kappa(x, x_l) weights[l]`` of a panel into ``shift``, the trend's part included."""
    m, flat = reached.locations.shape[1], kernel.reshape(-1)
    below = model.features * PANEL
    if reached.weights.shape[1] == 2:
        sums_of_2(reached.weights.reshape(-1), 0, flat, below, m, m, shift, column, 1)
    elif reached.weights.shape[1] == 3:
        sums_of_3(reached.weights.reshape(-1), 0, flat, below, m, m, shift, column, 1)
    for a in range(reached.weights.shape[1]):
        for f in range(model.features):
            factor = model.coefficients[f, a]
            for j in range(PANEL):
                shift[a, column + j] += factor * kernel[f, j]


@compile_loop
def _start_covariance(model: Model, kernel: Floats, column: int, covariance: Floats) -> None:
    """Put the prior's covariance of a panel into ``covariance``: a row for each pair of components a <= b."""
    pair = 0
    for a in range(model.b):
        for c in range(a, model.b):
            out = covariance[pair, column : column + PANEL]
            for j in range(PANEL):
                out[j] = model.at_zero if a == c else 0.0
            if a == c:
                for f in range(model.features):
                    for j in range(PANEL):
                        out[j] += kernel[f, j] * kernel[f, j]
            pair += 1


@compile_loop
def _subtract_blocks(
    reached: Reached, first: int, last: int, kernel: Floats, b: int, column: int, covariance: Floats
) -> None:
    """Subtract what blocks ``first`` to ``last`` of the factor explain from the covariance of a panel."""
    columns, flat, factor = kernel.shape[0], kernel.reshape(-1), reached.factor
    for p in range(first, last):
        component, own, start = reached.blocks[p, 0], reached.blocks[p, 1], reached.blocks[p, 2]
        if component == 0:
            subtract_1(factor, start, flat, 0, own, columns, covariance, column, b)
        elif component == 1:
            subtract_2(factor, start, flat, 0, own, columns, covariance, column, b)
        else:
            subtract_3(factor, start, flat, 0, own, columns, covariance, column, b)


@compile_loop
def _subtract_explained(reached: Reached, kernels: Floats, b: int, column: int, covariance: Floats) -> None:
    """Subtract what the annotations explain from the covariance of some panels.

    Each part of the factor that stays in the cache is applied to all of them before the next is read.
    """
    blocks = reached.blocks
    first = 0
    while first < blocks.shape[0]:
        last = first + 1
        while last < blocks.shape[0] and blocks[last, 2] - blocks[first, 2] < _CACHED:
            last += 1
        for q in range(kernels.shape[0]):
            _subtract_blocks(reached, first, last, kernels[q], b, column + q * PANEL, covariance)
        first = last


@compile_loop
def fill_panels(model: Model, reached: Reached, points: Floats, rows: Ints, room: Room) -> None:
    """Put sums and covariances of the points ``rows`` into ``room``.

    One call for many points: between two calls a thread has to wait for the interpreter's lock.
    """
    d, m = reached.locations.shape
    low, high = np.empty(d), np.empty(d)
    height = model.features + m
    together = TOGETHER if reached.factor.shape[0] > _CACHED else 1
    kernels = room.kernel[: together * height * PANEL].reshape((together, height, PANEL))
    for start in range(0, rows.shape[0], together * PANEL):
        stop = min(start + together * PANEL, rows.shape[0])
        for column in range(start, stop, PANEL):
            kernel = kernels[(column - start) // PANEL]
            _take_places(points, rows[column : min(column + PANEL, stop)], room.place, low, high)
            _distances_to_box(reached.locations, low, high, room.near[:m], room.far[:m])
            if model.family == 0:
                _wendland_panel(model, reached, room, kernel)
            else:
                _smooth_panel(model, reached, room, kernel)
            if model.features > 0:
                _fill_trend(model, room.place, kernel)
            _put_sums(model, reached, kernel, column, room.shift)
            _start_covariance(model, kernel, column, room.covariance)
        filled = (stop - start + PANEL - 1) // PANEL
        _subtract_explained(reached, kernels[:filled], model.b, start, room.covariance)


@compile_loop
def packed_factor(W: Floats, trends: Floats, chosen: Ints, b: int) -> tuple[Ints, Floats]:
    """Blocks of an inverse Cholesky factor for the loops above: all rows, with the columns of the chosen annotations.

    Parameters
    ----------
    W : (b L, b L) array
        Lower triangular, component by component.
    trends : (b L, b f) array
        W times the features of a trend, component by component.
    chosen : (m,) array
        Numbers of annotations, ascending.

    Returns
    -------
    blocks : (B, 3) array
    factor : array
        See :class:`Reached`.
    """
    L, f, m = W.shape[0] // b, trends.shape[1] // b, chosen.shape[0]
    blocks, starts = np.empty((b * (L + 1), 3), np.int64), np.empty(b * (L + 1), np.int64)
    count, size = 0, 0
    for component in range(b):
        height = ROWS // (component + 1)
        own = f
        for start in range(0, L, height):
            # The factor is lower triangular: row k of a component meets its chosen annotations up to k.
            while own - f < m and chosen[own - f] < start + height:
                own += 1
            columns = component * (f + m) + own
            if columns > 0:
                blocks[count, 0], blocks[count, 1], blocks[count, 2], starts[count] = component, own, size, start
                count += 1
                size += height * columns
    factor = np.empty(size)
    for p in range(count):
        component, own, at = blocks[p, 0], blocks[p, 1], blocks[p, 2]
        height = ROWS // (component + 1)
        present = min(height, L - starts[p])
        first = component * L + starts[p]
        for column in range(f + m):
            for a in range(component + 1 if column < own else component):
                for k in range(present):
                    if column < f:
                        factor[at + k] = trends[first + k, a * f + column]
                    else:
                        factor[at + k] = W[first + k, a * L + chosen[column - f]]
                factor[at + present : at + height] = 0.0
                at += height
    return blocks[:count].copy(), factor


@compile_loop
def put_means(rows: Ints, shift: Floats, out: Floats) -> None:
    """Add the sums of tiles to these rows of ``out`` (n, d)."""
    for j in range(rows.shape[0]):
        for a in range(out.shape[1]):
            out[rows[j], a] += shift[a, j]


@compile_loop
def put_variances(rows: Ints, covariance: Floats, b: int, scale: float, out: Floats) -> None:
    """Put ``scale`` times the mean variance over the components of tiles into ``out`` (n,)."""
    for j in range(rows.shape[0]):
        total = covariance[0, j]
        if b == 2:
            total = (covariance[0, j] + covariance[2, j]) / 2
        elif b == 3:
            total = (covariance[0, j] + covariance[3, j] + covariance[5, j]) / 3
        out[rows[j]] = scale * total


@compile_loop
def put_covariances(rows: Ints, covariance: Floats, b: int, scale: float, out: Floats) -> None:
    """Put ``scale`` times the covariances of tiles into ``out`` (n, d, d); a single row stands for all components."""
    d = out.shape[1]
    for j in range(rows.shape[0]):
        i, pair = rows[j], 0
        for a in range(d):
            for c in range(a, d):
                if b == 1:
                    out[i, a, c] = scale * covariance[0, j] if a == c else 0.0
                else:
                    out[i, a, c] = scale * covariance[pair, j]
                out[i, c, a] = out[i, a, c]
                pair += 1


@compile_loop
def put_log_determinants(rows: Ints, covariance: Floats, d: int, b: int, out: Floats) -> None:
    """Put log determinants of the d x d covariances of tiles into ``out`` (n,), NaN where one is not positive."""
    for j in range(rows.shape[0]):
        p0, p1, p2 = covariance[0, j], 1.0, 1.0
        if b == 2:
            p1 = covariance[2, j] - covariance[1, j] * covariance[1, j] / p0
        elif b == 3:
            l1, l2 = covariance[1, j] / p0, covariance[2, j] / p0
            p1 = covariance[3, j] - l1 * covariance[1, j]
            c21 = covariance[4, j] - l1 * covariance[2, j]
            p2 = covariance[5, j] - l2 * covariance[2, j] - c21 * c21 / p1
        value = np.nan
        if p0 > 0 and p1 > 0 and p2 > 0:
            value = d * math.log(p0) if b == 1 else math.log(p0) + math.log(p1) + math.log(p2)
        out[rows[j]] = value


@compile_loop
def put_squares(
    rows: Ints,
    covariance: Floats,
    b: int,
    scale: float,
    shift: Floats,
    prior_mean: Floats,
    mapped: Floats,
    out: Floats,
) -> None:
    """Put squared Mahalanobis lengths of ``mapped`` (n, d) from the posterior mean of tiles into ``out`` (n,).

    By ``L D L^T`` of the covariance times ``scale``; NaN where it is not positive definite.
    """
    d = mapped.shape[1]
    for j in range(rows.shape[0]):
        i = rows[j]
        g0 = mapped[i, 0] - (prior_mean[i, 0] + shift[0, j])
        g1 = mapped[i, 1] - (prior_mean[i, 1] + shift[1, j])
        g2 = mapped[i, 2] - (prior_mean[i, 2] + shift[2, j]) if d == 3 else 0.0
        p0, p1, p2 = covariance[0, j], 1.0, 1.0
        if b == 1:
            value = (g0 * g0 + g1 * g1 + g2 * g2) / p0
        else:
            l1 = covariance[1, j] / p0
            z1 = g1 - l1 * g0
            if b == 2:
                p1 = covariance[2, j] - l1 * covariance[1, j]
                value = g0 * g0 / p0 + z1 * z1 / p1
            else:
                l2 = covariance[2, j] / p0
                p1 = covariance[3, j] - l1 * covariance[1, j]
                c21 = covariance[4, j] - l1 * covariance[2, j]
                z2 = g2 - l2 * g0 - c21 / p1 * z1
                p2 = covariance[5, j] - l2 * covariance[2, j] - c21 * c21 / p1
                value = g0 * g0 / p0 + z1 * z1 / p1 + z2 * z2 / p2
        out[i] = value / scale if p0 > 0 and p1 > 0 and p2 > 0 else np.nan
