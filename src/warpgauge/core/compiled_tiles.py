"""The compiled loops behind :mod:`warpgauge.core.tiles`: one tile of points at a time, annotation by annotation.

A tile is ``order[start:stop]``, the rows of some of the points. Arrays of a tile have one column for each of its points
and room for a whole tile. Named tuples cost a compiled loop nothing.

The compiler's cache knows the date of this file alone: touch it when a loop of :mod:`warpgauge.core.compiled` changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.compiled import _add_gaussian, _kernel_of_squares, _squared_distances, bounding_box, compile_loop

# A distance this share beyond a scale counts as on either side of it; neighbouring quintics agree there.
_MARGIN = 1e-12


class Model(NamedTuple):
    """What all tiles share: the kernel as in :mod:`warpgauge.core.compiled`, the annotations, and the trend.

    ``weights`` is (L, d), or (L, 0) for no sums. ``coefficients`` (features, d) are the features of the trend, summed
    over the annotations times their weights. ``b`` is the number of components that are whitened, 0 where no
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
    linear_sd: float
    coefficients: Floats
    b: int


class Room(NamedTuple):
    """Arrays of one thread: scratch for one tile, and the sums and covariances of up to a group of tiles."""

    place: Floats
    kernel: Floats
    whitened: Floats
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
def _farthest_square(x: Floats, low: Floats, high: Floats) -> float:
    """Squared distance from a point to the farthest corner of a box."""
    total = 0.0
    for a in range(x.shape[0]):
        gap = max(abs(x[a] - low[a]), abs(high[a] - x[a]))
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
def _passed(breaks: Floats, square: float) -> int:
    """Count the squared scales that a squared distance has passed: the segment it lies in."""
    count = 0
    for s in range(breaks.shape[0]):
        count += 1 if square >= breaks[s] else 0
    return count


@compile_loop
def _bundle_of_squares(
    breaks: Floats, table: Floats, first: int, last: int, n: int, row: Floats, spare: Floats
) -> None:
    """Replace squared distances by the Wendland bundle, given that they lie in the segments ``first`` to ``last``."""
    c = table[first]
    c0, c1, c2, c3, c4, c5 = c[0], c[1], c[2], c[3], c[4], c[5]
    if first == last:
        for j in range(n):
            r = math.sqrt(row[j])
            row[j] = ((((c5 * r + c4) * r + c3) * r + c2) * r + c1) * r + c0
        return
    # Two at a time: most tiles that meet more than one segment meet two.
    c = table[first + 1]
    e0, e1, e2, e3, e4, e5 = c[0], c[1], c[2], c[3], c[4], c[5]
    from_here = math.sqrt(breaks[first])
    for j in range(n):
        r = math.sqrt(row[j])
        near = ((((c5 * r + c4) * r + c3) * r + c2) * r + c1) * r + c0
        far = ((((e5 * r + e4) * r + e3) * r + e2) * r + e1) * r + e0
        row[j] = r
        spare[j] = far if r >= from_here else near
    for segment in range(first + 2, last + 1):
        c = table[segment]
        c0, c1, c2, c3, c4, c5 = c[0], c[1], c[2], c[3], c[4], c[5]
        from_here = math.sqrt(breaks[segment - 1])
        for j in range(n):
            r = row[j]
            value = ((((c5 * r + c4) * r + c3) * r + c2) * r + c1) * r + c0
            spare[j] = value if r >= from_here else spare[j]
    for j in range(n):
        row[j] = spare[j]


@compile_loop
def _gaussians_of_squares(breaks: Floats, table: Floats, near: float, far: float, squares: Floats, row: Floats) -> None:
    """Put the Gaussian bundle of squared distances between ``near`` and ``far`` into ``row``.

    A scale is left out where it is below the last bit of the others' sum at every point.
    """
    largest = 0.0
    for s in range(breaks.shape[0]):
        largest = max(largest, table[s, 0] * math.exp(-far * breaks[s]))
    row[:] = 0.0
    for s in range(breaks.shape[0]):
        if table[s, 0] * math.exp(-near * breaks[s]) * breaks.shape[0] > 2.0**-55 * largest:
            _add_gaussian(breaks[s], table[s, 0], squares, row)


@compile_loop
def _fill_tile(
    model: Model, points: Floats, rows: Ints, active: Ints, table_of: Ints, room: Room, kernel: Floats, column: int
) -> None:
    """Kernel between the active annotations and a tile, and its sums over the annotations times their weights.

    After the rows of the trend's features, row i of ``kernel`` becomes the kernel of annotation ``active[i]``, where
    covariances are wanted. The sums from ``column`` on become ``sum_l kappa(x, x_l) weights[l]``.
    """
    breaks, weights = model.breaks, model.weights
    place, shift = room.place, room.shift
    n, d = rows.shape[0], points.shape[1]
    low, high = np.empty(d), np.empty(d)
    bounding_box(points, rows, 0, n, low, high)
    for j in range(n):
        for a in range(d):
            place[a, j] = points[rows[j], a]
    for a in range(weights.shape[1]):
        shift[a, column : column + n] = 0.0
    spare = place[d]
    for i in range(active.shape[0]):
        x, table = model.locations[active[i]], model.tables[table_of[active[i]]]
        row = kernel[model.features + i] if model.b > 0 else kernel[0]
        if model.family == 0:
            first = _passed(breaks, _nearest_square(x, low, high) * (1 - _MARGIN))
            last = _passed(breaks, _farthest_square(x, low, high) * (1 + _MARGIN))
            if first == breaks.shape[0]:
                row[:n] = 0.0
                continue
            _squared_distances(x, place, row[:n])
            _bundle_of_squares(breaks, table, first, last, n, row, spare)
        elif model.family == 1:
            _squared_distances(x, place, spare[:n])
            near, far = _nearest_square(x, low, high), _farthest_square(x, low, high)
            _gaussians_of_squares(breaks, table, near, far, spare[:n], row[:n])
        else:
            _squared_distances(x, place, row[:n])
            _kernel_of_squares(model.family, breaks, table, row[:n])
        for a in range(weights.shape[1]):
            factor = weights[active[i], a]
            for j in range(n):
                shift[a, column + j] += factor * row[j]


@compile_loop
def _fill_trend(model: Model, points: Floats, rows: Ints, kernel: Floats, column: int, shift: Floats) -> None:
    """Put the features of a trend into the first d + 1 rows of ``kernel`` and add their products to ``shift``."""
    coefficients = model.coefficients
    n, d = rows.shape[0], points.shape[1]
    for j in range(n):
        kernel[0, j] = model.translation_sd
        for a in range(d):
            kernel[a + 1, j] = model.linear_sd * (points[rows[j], a] - model.center[a])
    for a in range(coefficients.shape[1]):
        for f in range(d + 1):
            for j in range(n):
                shift[a, column + j] += coefficients[f, a] * kernel[f, j]


@compile_loop
def _start_covariance(
    at_zero: float, features: int, kernel: Floats, b: int, n: int, column: int, covariance: Floats
) -> None:
    """Put the prior's covariance of a tile into ``covariance``: a row for each pair of components a <= b."""
    pair = 0
    for a in range(b):
        for c in range(a, b):
            out = covariance[pair, column : column + n]
            out[:] = at_zero if a == c else 0.0
            if a == c:
                for f in range(features):
                    for j in range(n):
                        out[j] += kernel[f, j] * kernel[f, j]
            pair += 1


@compile_loop
def _subtract_products(
    whitened: Floats, rows: int, components: int, b: int, n: int, column: int, covariance: Floats
) -> None:
    """Subtract the products of whitened rows from the covariance of a tile.

    ``whitened[a rows : (a + 1) rows]`` belong to component a; those of components from ``components`` on are zero.
    """
    pair = 0
    for a in range(b):
        for c in range(a, b):
            if c < components:
                out = covariance[pair, column : column + n]
                i = 0
                # Four rows at a time: the sums are loaded and stored a quarter as often.
                while i + 4 <= rows:
                    p0, p1, p2, p3 = (
                        whitened[a * rows + i], whitened[a * rows + i + 1],
                        whitened[a * rows + i + 2], whitened[a * rows + i + 3],
                    )  # fmt: skip
                    q0, q1, q2, q3 = (
                        whitened[c * rows + i], whitened[c * rows + i + 1],
                        whitened[c * rows + i + 2], whitened[c * rows + i + 3],
                    )  # fmt: skip
                    for j in range(n):
                        out[j] -= (p0[j] * q0[j] + p1[j] * q1[j]) + (p2[j] * q2[j] + p3[j] * q3[j])
                    i += 4
                while i < rows:
                    p0, q0 = whitened[a * rows + i], whitened[c * rows + i]
                    for j in range(n):
                        out[j] -= p0[j] * q0[j]
                    i += 1
            pair += 1


@compile_loop
def _subtract_explained(
    panels: Ints, factor: Floats, kernel: Floats, room: Floats, b: int, n: int, column: int, covariance: Floats
) -> None:
    """Subtract what the annotations explain from the covariance of a tile, panel by panel of the factor."""
    rows, width = kernel.shape
    for p in range(panels.shape[0]):
        component, height, first, last = panels[p, 0], panels[p, 1], panels[p, 2], panels[p, 3]
        below, own, above = panels[p, 4], panels[p, 5], component * height
        whitened = room[: (above + height) * width].reshape((above + height, width))
        if component > 0:
            np.dot(factor[below : below + above * rows].reshape((above, rows)), kernel, whitened[:above])
        mine = factor[own : own + height * (last - first)].reshape((height, last - first))
        np.dot(mine, kernel[first:last], whitened[above:])
        _subtract_products(whitened, height, component + 1, b, n, column, covariance)


@compile_loop
def _width(n: int) -> int:
    """Columns of a tile's arrays: rows that are a power of two apart would share few places of the cache."""
    width = (n + 7) // 8 * 8
    return width + 8 if width % 128 == 0 else width


@compile_loop
def fill_tiles(
    model: Model, points: Floats, order: Ints, bounds: Ints, active: Ints, table_of: Ints, panels: Ints,
    factor: Floats, room: Room,
) -> None:  # fmt: skip
    """Put sums and covariances of the points ``order[bounds[0] : bounds[-1]]`` into ``room``.

    Tile t is ``order[bounds[t] : bounds[t + 1]]``; ``table_of`` (L,) says which table is between its points and each
    annotation. ``panels`` and ``factor`` are those of
    :class:`warpgauge.core.tiles.Panels`. One call for many tiles: between two calls a thread has to wait for the
    interpreter's lock.
    """
    b, features = model.b, model.features
    height = max(1, features + (active.shape[0] if b > 0 else 0))
    for t in range(bounds.shape[0] - 1):
        rows, column = order[bounds[t] : bounds[t + 1]], bounds[t] - bounds[0]
        n = rows.shape[0]
        width = _width(n)
        kernel = room.kernel[: height * width].reshape((height, width))
        _fill_tile(model, points, rows, active, table_of, room, kernel, column)
        if features > 0:
            _fill_trend(model, points, rows, kernel, column, room.shift)
        if b > 0:
            _start_covariance(model.at_zero, features, kernel, b, n, column, room.covariance)
            _subtract_explained(panels, factor, kernel, room.whitened, b, n, column, room.covariance)


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
