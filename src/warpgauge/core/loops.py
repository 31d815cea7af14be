"""The compiled loops of the core, and the only module that imports numba: it is imported when a loop is first needed.

A loop is inlined by loops of its own file alone, since numba's cache on the disk goes by the date of that file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from warpgauge.core.arrays import Floats, Ints

_Function = TypeVar("_Function", bound=Callable[..., Any])

_CHUNK = 64  # neighbouring points that share the quintics of a bundle


def compiled(function: _Function) -> _Function:
    """Compile a loop that releases the interpreter's lock, kept on the disk where a folder can be written."""
    # Fused multiply-add and another order of summation are allowed; NaN and infinity keep their meaning.
    options = {"nogil": True, "fastmath": {"contract", "reassoc"}, "error_model": "numpy"}
    try:
        return cast(_Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(_Function, numba.njit(**options)(function))


@compiled
def _quintics(breaks: Floats, table: Floats, first: int, last: int, r: Floats, row: Floats) -> None:
    """Put the bundle at distances ``r`` into ``row``; they lie between scale ``first - 1`` and scale ``last``."""
    c0 = table[first, 0]
    c1 = table[first, 1]
    c2 = table[first, 2]
    c3 = table[first, 3]
    c4 = table[first, 4]
    c5 = table[first, 5]
    for j in range(r.shape[0]):
        q = r[j]
        row[j] = ((((c5 * q + c4) * q + c3) * q + c2) * q + c1) * q + c0
    for segment in range(first + 1, last + 1):
        c0 = table[segment, 0]
        c1 = table[segment, 1]
        c2 = table[segment, 2]
        c3 = table[segment, 3]
        c4 = table[segment, 4]
        c5 = table[segment, 5]
        since = breaks[segment - 1]
        for j in range(r.shape[0]):
            q = r[j]
            value = ((((c5 * q + c4) * q + c3) * q + c2) * q + c1) * q + c0
            row[j] = value if q >= since else row[j]


@compiled
def _squares(x: float, y: float, z: float, u: Floats, v: Floats, w: Floats, d: int, out: Floats) -> None:
    """Squared distances from one point to others."""
    if d == 2:
        for j in range(out.shape[0]):
            out[j] = (u[j] - x) * (u[j] - x) + (v[j] - y) * (v[j] - y)
    else:
        for j in range(out.shape[0]):
            out[j] = (u[j] - x) * (u[j] - x) + (v[j] - y) * (v[j] - y) + (w[j] - z) * (w[j] - z)


@compiled
def squared_distances(points: Floats, others: Floats, out: Floats) -> None:
    """Put squared distances between the columns of ``points`` (d, n) and ``others`` (d, m) into ``out`` (n, m)."""
    d = points.shape[0]
    for i in range(points.shape[1]):
        _squares(points[0, i], points[1, i], points[d - 1, i], others[0], others[1], others[d - 1], d, out[i])


@compiled
def fill_wendland(
    breaks: Floats, tables: Floats, points: Floats, others: Floats, labels: Ints, other_labels: Ints, out: Floats
) -> None:
    """Put a bundle of Wendland functions between columns of ``points`` and ``others``, (d, n), (d, m), into ``out``.

    Between neighbouring scales, ``breaks``, the bundle is one quintic, a row of the first table; of the second one
    for points with different labels. A chunk of the others lies within some distance of its middle, which tells
    which quintics can occur: one, mostly, where points that follow each other are neighbours.
    """
    d, m = others.shape
    spare = np.empty(_CHUNK)
    across = np.empty(_CHUNK)
    middle = np.empty(d)
    # Slices from 0 on, not indices ``start + j``: only then does numba put these loops into vector registers.
    for start in range(0, m, _CHUNK):
        u = others[0, start : start + _CHUNK]
        v = others[1, start : start + _CHUNK]
        w = others[d - 1, start : start + _CHUNK]
        n = u.shape[0]
        r = spare[:n]
        far = across[:n]
        for a in range(d):
            middle[a] = 0.5 * (others[a, start] + others[a, start + n - 1])
        _squares(middle[0], middle[1], middle[d - 1], u, v, w, d, r)
        radius = 0.0
        for j in range(n):
            radius = max(radius, r[j])
        radius = math.sqrt(radius)
        for i in range(points.shape[1]):
            row = out[i, start : start + n]
            x = points[0, i]
            y = points[1, i]
            z = points[d - 1, i]
            square = (x - middle[0]) ** 2 + (y - middle[1]) ** 2
            if d == 3:
                square += (z - middle[2]) ** 2
            distance = math.sqrt(square)
            first = 0
            last = 0
            for s in range(breaks.shape[0]):
                first += 1 if distance - radius >= breaks[s] * (1 + 1e-12) else 0
                last += 1 if distance + radius >= breaks[s] * (1 - 1e-12) else 0
            _squares(x, y, z, u, v, w, d, r)
            for j in range(n):
                r[j] = math.sqrt(r[j])
            _quintics(breaks, tables[0], first, last, r, row)
            if tables.shape[0] == 2:
                _quintics(breaks, tables[1], first, last, r, far)
                for j in range(n):
                    row[j] = row[j] if labels[i] == other_labels[start + j] else far[j]


@compiled
def subtract_products(V: Floats, C: Floats) -> None:
    """Subtract ``sum_r V[a, r] V[c, r]`` from the row of ``C`` (pairs, m) of each pair of components a <= c."""
    b, rows, m = V.shape
    for r in range(rows):
        pair = 0
        for a in range(b):
            for c in range(a, b):
                for j in range(m):
                    C[pair, j] -= V[a, r, j] * V[c, r, j]
                pair += 1
