"""The compiled inner loops. Everything here is cached on disk, so that no session waits for the compiler twice.

A kernel reaches these loops as ``(family, breaks, tables)``:

=====================  ===========================================  ==================================
family                 breaks                                       each table
=====================  ===========================================  ==================================
0 (Wendland)           squared scales, ascending, shape (S,)        quintic coefficients, (S + 1, 6)
1 (Gaussian)           ``1 / (r_G rho_s)^2``, shape (S,)            weights, (S, 1)
2 (inverse quadratic)  ``1 / (r_IQ rho_s)^2``, shape (S,)           weights, (S, 1)
3, 4 (Matern)          ``6 / rho_s`` or ``8 / rho_s``, shape (S,)   weights, (S, 1)
=====================  ===========================================  ==================================

There is one table, or two where the image has regions: the first for two points of one region, the second for points
of two. What else of a place matters (see places.py) reaches them as marks of each point:

=====  ====================================================================================================
marks  what they are
=====  ====================================================================================================
0      none: the distance alone counts
1      the number of the point's region
3      that number, the amplitude (0 where neither varies), and the square of the length scale
3 + R  the same, and the root of the probability of each of R regions, which then count instead of the number
=====  ====================================================================================================
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from warpgauge.core.arrays import Bools, Floats, Ints

WENDLAND, GAUSSIAN, INVERSE_QUADRATIC, MATERN_32, MATERN_52 = 0, 1, 2, 3, 4

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Loop:
    """A function that numba compiles, or reads from the disk, when it is first called.

    numba itself is loaded then: the first question of a project needs none of it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._compiled: Any = None
        self._lock = threading.Lock()
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return (self._compiled or self.dispatcher)(*arguments)

    @property
    def dispatcher(self) -> Any:
        """The function as numba knows it."""
        import numba

        with self._lock:
            if self._compiled is None:
                # Fused multiply-add and another order of summation are allowed; NaN and infinity keep their meaning.
                options = {"nogil": True, "fastmath": {"contract", "reassoc"}, "error_model": "numpy"}
                try:
                    self._compiled = numba.njit(cache=True, **options)(self.function)
                except RuntimeError:  # no folder can be written: compile in every process rather than fail
                    self._compiled = numba.njit(**options)(self.function)
        return self._compiled

    @property
    def _numba_type_(self) -> Any:
        """What numba asks for where a loop is called by another one."""
        return self.dispatcher._numba_type_


def compile_loop(function: _Function) -> _Function:
    """Compile a loop that releases the interpreter's lock, cached on disk, when it is first called."""
    return cast(_Function, Loop(function))


def is_on_disk(loop: Any) -> bool:
    """Return whether a loop was compiled before, by any process."""
    folder, line = loop.dispatcher.stats.cache_path, loop.function.__code__.co_firstlineno
    return folder is not None and any(Path(folder).glob(f"*.{loop.__name__}-{line}.*.nbi"))


def loop_array(array: Floats) -> Floats:
    """Return the array in the one layout the loops are compiled for: a read-only array would compile them again."""
    return np.require(array, np.float64, ["C", "W"])


@compile_loop
def _squared_distances(x: Floats, others: Floats, row: Floats) -> None:
    """Squared distances from one point (d,) to the columns of ``others`` (d, m)."""
    if x.shape[0] == 2:
        for j in range(row.shape[0]):
            u = x[0] - others[0, j]
            v = x[1] - others[1, j]
            row[j] = u * u + v * v
    elif x.shape[0] == 3:
        for j in range(row.shape[0]):
            u = x[0] - others[0, j]
            v = x[1] - others[1, j]
            w = x[2] - others[2, j]
            row[j] = u * u + v * v + w * w
    else:
        row[:] = 0.0
        for a in range(x.shape[0]):
            for j in range(row.shape[0]):
                u = x[a] - others[a, j]
                row[j] += u * u


@compile_loop
def _add_gaussian(inverse_square: float, weight: float, squares: Floats, out: Floats) -> None:
    """Add ``weight exp(-squares inverse_square)``, Eq. (gaussian_kernel), in vector registers.

    ``exp(-y) = 2^n exp(r)`` with a whole number n and ``|r| <= log(2) / 2``, where the Taylor polynomial of degree 13
    is exact to 5e-18. One constant for log(2) leaves a relative error of at most y times 1.2e-16, no more than the
    rounding of y itself does. Beyond y = 708 the value is below every normal number, and 0.
    """
    log2 = 0.6931471805599453
    for j in range(out.shape[0]):
        y = squares[j] * inverse_square
        bounded = min(y, 708.0)
        n = math.floor(0.5 - bounded * 1.4426950408889634)
        r = -bounded - n * log2
        p = r * (1 / 6227020800) + 1 / 479001600
        p = ((((p * r + 1 / 39916800) * r + 1 / 3628800) * r + 1 / 362880) * r + 1 / 40320) * r + 1 / 5040
        p = ((((((p * r + 1 / 720) * r + 1 / 120) * r + 1 / 24) * r + 1 / 6) * r + 0.5) * r + 1.0) * r + 1.0
        power = np.int64((np.int64(n) + 1023) << 52).view(np.float64)  # 2^n by its bits
        out[j] += weight * p * power if y <= 708.0 else 0.0


@compile_loop
def _kernel_of_squares(family: int, breaks: Floats, table: Floats, row: Floats) -> None:
    """Replace squared distances by kernel values (Eq. kernel_bundle)."""
    scales = breaks.shape[0]
    if family == 0:
        # Between neighbouring scales the whole bundle is one quintic. Counting the scales passed has no branch,
        # so the loop stays in vector registers.
        for j in range(row.shape[0]):
            square = row[j]
            segment = 0
            for s in range(scales):
                segment += 1 if square >= breaks[s] else 0
            r = math.sqrt(square)
            c = table[segment]
            row[j] = ((((c[5] * r + c[4]) * r + c[3]) * r + c[2]) * r + c[1]) * r + c[0]
    elif family == 1:
        squares = row.copy()
        row[:] = 0.0
        for s in range(scales):
            _add_gaussian(breaks[s], table[s, 0], squares, row)
    elif family == 2:
        for j in range(row.shape[0]):
            value = 0.0
            for s in range(scales):
                value += table[s, 0] / (1.0 + row[j] * breaks[s])
            row[j] = value
    else:
        square = 0.0 if family == 3 else 1.0 / 3.0
        for j in range(row.shape[0]):
            r = math.sqrt(row[j])
            value = 0.0
            for s in range(scales):
                t = r * breaks[s]
                value += table[s, 0] * (1.0 + t + square * t * t) * math.exp(-t)
            row[j] = value


@compile_loop
def _wendland_by_region(breaks: Floats, tables: Floats, label: float, labels: Floats, row: Floats) -> None:
    """Replace squared distances by the Wendland bundle, by the second table where a label is another one."""
    for j in range(row.shape[0]):
        square = row[j]
        segment = 0
        for s in range(breaks.shape[0]):
            segment += 1 if square >= breaks[s] else 0
        r = math.sqrt(square)
        c = tables[0 if labels[j] == label else 1, segment]
        row[j] = ((((c[5] * r + c[4]) * r + c[3]) * r + c[2]) * r + c[1]) * r + c[0]


@compile_loop
def _common(mark: Floats, marks: Floats, out: Floats) -> None:
    """Put into ``out`` how much of its region a point has in common with each other one, 0 to 1."""
    if mark.shape[0] <= 3:
        for j in range(out.shape[0]):
            out[j] = 1.0 if marks[0, j] == mark[0] else 0.0
        return
    out[:] = 0.0
    for r in range(3, mark.shape[0]):
        root = mark[r]
        for j in range(out.shape[0]):
            out[j] += root * marks[r, j]


@compile_loop
def _kernel_by_region(family: int, breaks: Floats, tables: Floats, mark: Floats, marks: Floats, row: Floats) -> None:
    """Replace squared distances by kernel values: the second table, and what is in common of its way to the first."""
    if family == 0 and mark.shape[0] <= 3:
        _wendland_by_region(breaks, tables, mark[0], marks[0], row)
        return
    common = np.empty_like(row)
    _common(mark, marks, common)
    within, across = tables[0], tables[1]
    if family == 0:
        for j in range(row.shape[0]):
            square = row[j]
            segment = 0
            for s in range(breaks.shape[0]):
                segment += 1 if square >= breaks[s] else 0
            r = math.sqrt(square)
            c, e = within[segment], across[segment]
            near = ((((c[5] * r + c[4]) * r + c[3]) * r + c[2]) * r + c[1]) * r + c[0]
            far = ((((e[5] * r + e[4]) * r + e[3]) * r + e[2]) * r + e[1]) * r + e[0]
            row[j] = far + common[j] * (near - far)
        return
    squares = row.copy()
    one, value = np.ones((1, 1)), np.empty_like(row)
    row[:] = 0.0
    for s in range(breaks.shape[0]):
        if family == 1:
            value[:] = 0.0
            _add_gaussian(breaks[s], 1.0, squares, value)
        else:
            value[:] = squares
            _kernel_of_squares(family, breaks[s : s + 1], one, value)
        for j in range(row.shape[0]):
            row[j] += (across[s, 0] + common[j] * (within[s, 0] - across[s, 0])) * value[j]


@compile_loop
def _kernel_of_places(
    family: int, breaks: Floats, tables: Floats, axes: int, mark: Floats, marks: Floats, row: Floats
) -> None:
    """Replace squared distances by kernel values where each point has an amplitude and a length scale of its own.

    The form of Gibbs, and of Paciorek and Schervish: distances in units of the root mean square of two length scales
    l and l', times ``(2 l l' / (l^2 + l'^2))^(axes / 2)``.
    """
    times = np.empty_like(row)
    for j in range(row.shape[0]):
        times[j] = mark[1] * marks[1, j]
    if family != 0:  # a Wendland bundle has one length scale everywhere
        for j in range(row.shape[0]):
            mean = 0.5 * (mark[2] + marks[2, j])
            ratio = math.sqrt(mark[2] * marks[2, j]) / mean
            row[j] /= mean
            times[j] *= ratio if axes == 2 else ratio ** (0.5 * axes)
    if tables.shape[0] == 1:
        _kernel_of_squares(family, breaks, tables[0], row)
    else:
        _kernel_by_region(family, breaks, tables, mark, marks, row)
    for j in range(row.shape[0]):
        row[j] *= times[j]


@compile_loop
def kernel_values(family: int, breaks: Floats, table: Floats, squares: Floats) -> None:
    """Replace a flat array of squared distances by kernel values."""
    _kernel_of_squares(family, breaks, table, squares)


@compile_loop
def _kernel_row(
    family: int, breaks: Floats, tables: Floats, x: Floats, others: Floats, left: Floats, right: Floats,
    mark: Floats, marks: Floats, row: Floats,
) -> None:  # fmt: skip
    """Kernel between one point (d,) and the columns of ``others`` (d, m), plus a trend's ``left @ right``."""
    _squared_distances(x, others, row)
    if marks.shape[0] >= 3 and mark[1] > 0:
        _kernel_of_places(family, breaks, tables, others.shape[0], mark, marks, row)
    elif tables.shape[0] == 1:
        _kernel_of_squares(family, breaks, tables[0], row)
    else:
        _kernel_by_region(family, breaks, tables, mark, marks, row)
    for f in range(right.shape[0]):
        factor = left[f]
        for j in range(row.shape[0]):
            row[j] += factor * right[f, j]


@compile_loop
def fill_block(
    family: int, breaks: Floats, tables: Floats, points: Floats, others: Floats, left: Floats, right: Floats,
    marks: Floats, other_marks: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill ``out`` (n, m) with the kernel between points (n, d) and the columns of ``others``, trend included.

    The marks of the points are (n, q), those of the others (q, m).
    """
    for i in range(points.shape[0]):
        _kernel_row(family, breaks, tables, points[i], others, left[i], right, marks[i], other_marks, out[i])


@compile_loop
def _explained_at(row: Floats, W: Floats, since: int, block: Floats, out: Floats) -> None:
    """Put what annotations from ``since`` on explain at one point into ``out`` (b, b), from its kernel with all."""
    b = W.shape[0]
    out[:] = 0.0
    for j in range(since, row.shape[0]):
        for r in range(b):
            for c in range(b):
                weights = W[c, j * b + r]
                total = 0.0
                for k in range(j + 1):
                    total += weights[k] * row[k]
                block[r, c] = total
        for r in range(b):
            for a in range(b):
                for c in range(b):
                    out[a, c] += block[r, a] * block[r, c]


@compile_loop
def explained(
    family: int, breaks: Floats, tables: Floats, points: Floats, others: Floats, left: Floats, right: Floats,
    marks: Floats, other_marks: Floats, W: Floats, since: Ints, out: Floats,
) -> None:  # fmt: skip
    """Put what annotations from ``since[i]`` on explain of the covariance at point i into ``out`` (n, b, b).

    ``W`` is the inverse Cholesky factor split by component: (b, L b, L). Row block j of ``W K_X(x)`` is the whitened
    kernel of annotation j given those before it, so that the sum of its outer squares from ``since`` on is what has to
    be subtracted from a covariance that was exact then. No earlier product is needed for it.
    """
    row = np.empty(others.shape[1])
    block = np.empty((W.shape[0], W.shape[0]))
    for i in range(points.shape[0]):
        _kernel_row(family, breaks, tables, points[i], others, left[i], right, marks[i], other_marks, row)
        _explained_at(row, W, since[i], block, out[i])


@compile_loop
def explained_by_rows(rows: Floats, W: Floats, since: Ints, out: Floats) -> None:
    """Do the same for kernels that have no loop here, from their values ``rows`` (n, L)."""
    block = np.empty((W.shape[0], W.shape[0]))
    for i in range(rows.shape[0]):
        _explained_at(rows[i], W, since[i], block, out[i])


@compile_loop
def stale_at_least(gains: Floats, alive: Bools, exact_at: Ints, step: int, threshold: float) -> Ints:
    """Living candidates whose gain reaches ``threshold`` and that are not up to date with ``step``."""
    count = 0
    for i in range(gains.shape[0]):
        if gains[i] >= threshold and alive[i] and exact_at[i] != step:
            count += 1
    found = np.empty(count, np.int64)
    k = 0
    for i in range(gains.shape[0]):
        if gains[i] >= threshold and alive[i] and exact_at[i] != step:
            found[k] = i
            k += 1
    return found


@compile_loop
def lower_distances(points: Floats, centre: Floats, distances: Floats) -> None:
    """Lower each squared distance to the one from ``centre`` where that is nearer."""
    for i in range(points.shape[0]):
        square = 0.0
        for a in range(points.shape[1]):
            u = points[i, a] - centre[a]
            square += u * u
        distances[i] = min(distances[i], square)


@compile_loop
def cell_numbers(
    points: Floats, low: Floats, per_unit: Floats, cells: Ints, groups: Ints, start: int, stop: int, numbers: Ints
) -> None:
    """Put the number of the cell of each point ``start:stop`` into ``numbers``, cells of one group side by side."""
    for i in range(start, stop):
        group, inside = 0, 0
        for a in range(points.shape[1]):
            cell = min(max(int((points[i, a] - low[a]) * per_unit[a]), 0), cells[a] - 1)
            groups_along = (cells[a] + groups[a] - 1) // groups[a]
            group = group * groups_along + cell // groups[a]
            inside = inside * groups[a] + cell % groups[a]
        size = 1
        for a in range(points.shape[1]):
            size *= groups[a]
        numbers[i] = group * size + inside


@compile_loop
def counting_sort(numbers: Ints, starts: Ints, order: Ints) -> None:
    """Sort rows by their numbers: ``order[starts[c]:starts[c + 1]]`` are the rows with number c, ascending."""
    starts[:] = 0
    for i in range(numbers.shape[0]):
        starts[numbers[i] + 1] += 1
    for c in range(1, starts.shape[0]):
        starts[c] += starts[c - 1]
    for i in range(numbers.shape[0]):
        c = numbers[i]
        order[starts[c]] = i
        starts[c] += 1
    for c in range(starts.shape[0] - 1, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0


@compile_loop
def bounding_box(points: Floats, order: Ints, start: int, stop: int, low: Floats, high: Floats) -> None:
    """Put the corners of the box about the points ``order[start:stop]`` into ``low`` and ``high``, both (d,)."""
    for a in range(points.shape[1]):
        low[a] = points[order[start], a]
        high[a] = low[a]
    for i in range(start + 1, stop):
        for a in range(points.shape[1]):
            value = points[order[i], a]
            low[a] = min(low[a], value)
            high[a] = max(high[a], value)
