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


# Gauss and Kronrod's rules of 7 and 15 nodes on -1 to 1, which are symmetric: their left halves, and the middle.
_LEFT = [
    -0.991455371120812639206854697526329, -0.949107912342758524526189684047851, -0.864864423359769072789712788640926,
    -0.741531185599394439863864773280788, -0.586087235467691130294144691693013, -0.405845151377397166906606412076961,
    -0.207784955007898467600689403773245,
]  # fmt: skip
_LEFT_KRONROD = [
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204, 0.104790010322250183839876322541518,
    0.140653259715525918745189590510238, 0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649,
]  # fmt: skip
_LEFT_GAUSS = [
    0.0, 0.129484966168869693270611432679082, 0.0, 0.279705391489276667901467771423780,
    0.0, 0.381830050505118944950369775488975, 0.0,
]  # fmt: skip
_NODES = np.array([*_LEFT, 0.0, *(-node for node in reversed(_LEFT))])
_KRONROD = np.array([*_LEFT_KRONROD, 0.209482141084727828012999174891714, *reversed(_LEFT_KRONROD)])
_GAUSS = np.array([*_LEFT_GAUSS, 0.417959183673469387755102040816327, *reversed(_LEFT_GAUSS)])
_STACK = 64
_DENSITY = 0.3989422804014327  # 1 / sqrt(2 pi)
_REACH = 6.0  # deviations beyond which a normal variable is taken never to be: probability 2e-9


@compiled
def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@compiled
def _between(low: float, high: float) -> float:
    """Probability of a standard normal between two numbers, from the tail that does not cancel."""
    if low > 0:
        return _normal(-low) - _normal(-high)
    return _normal(high) - _normal(low)


@compiled
def _start(m: float, s: float, t: float, panels: int, stack: Floats) -> int:
    """Put panels of the angle psi with ``x = t sin(psi)`` on the stack, where x is within reach; how many there are."""
    low = max(-t, m - _REACH * s)
    high = min(t, m + _REACH * s)
    if not low < high:
        return 0
    start = math.asin(max(low / t, -1.0))
    end = math.asin(min(high / t, 1.0))
    for panel in range(panels):
        stack[panel, 0] = start + (end - start) * panel / panels
        stack[panel, 1] = start + (end - start) * (panel + 1) / panels
    return panels


@compiled
def _finish(kronrod: float, gauss: float, error: float, top: int, stack: Floats) -> bool:
    """Whether the panel above the stack is exact enough; it is halved on the stack where it is not."""
    a = stack[top, 0]
    b = stack[top, 1]
    if abs(kronrod - gauss) * 0.5 * (b - a) <= error or top + 2 > _STACK:
        return True
    middle = 0.5 * (a + b)
    stack[top, 1] = middle
    stack[top + 1, 0] = middle
    stack[top + 1, 1] = b
    return False


@compiled
def _in_disc(m: Floats, s: Floats, t: float, stack: Floats, panels: int, error: float) -> float:
    """``P(|(X_1, X_2)| <= t)`` of the last two components: the first by quadrature, the second in closed form."""
    k = m.shape[0] - 2
    top = _start(m[k], s[k], t, panels, stack)
    total = 0.0
    while top > 0:
        top -= 1
        middle = 0.5 * (stack[top, 0] + stack[top, 1])
        half = 0.5 * (stack[top, 1] - stack[top, 0])
        kronrod = 0.0
        gauss = 0.0
        for i in range(15):
            psi = middle + half * _NODES[i]
            z = (t * math.sin(psi) - m[k]) / s[k]
            h = t * math.cos(psi)
            inner = _between((-h - m[k + 1]) / s[k + 1], (h - m[k + 1]) / s[k + 1])
            value = math.exp(-0.5 * z * z) * h * inner
            kronrod += _KRONROD[i] * value
            gauss += _GAUSS[i] * value
        kronrod = kronrod * _DENSITY / s[k]
        gauss = gauss * _DENSITY / s[k]
        if _finish(kronrod, gauss, error, top, stack):
            total += kronrod * half
        else:
            top += 2
    return total


@compiled
def _in_ball(m: Floats, s: Floats, t: float, stacks: Floats, panels: int, error: float) -> float:
    """``P(|X| <= t)`` of three components: the same once more around `_in_disc`."""
    stack = stacks[1]
    top = _start(m[0], s[0], t, panels, stack)
    total = 0.0
    while top > 0:
        top -= 1
        middle = 0.5 * (stack[top, 0] + stack[top, 1])
        half = 0.5 * (stack[top, 1] - stack[top, 0])
        kronrod = 0.0
        gauss = 0.0
        for i in range(15):
            psi = middle + half * _NODES[i]
            z = (t * math.sin(psi) - m[0]) / s[0]
            h = t * math.cos(psi)
            if h > 0:
                value = math.exp(-0.5 * z * z) * h * _in_disc(m, s, h, stacks[0], panels, error)
                kronrod += _KRONROD[i] * value
                gauss += _GAUSS[i] * value
        kronrod = kronrod * _DENSITY / s[0]
        gauss = gauss * _DENSITY / s[0]
        if _finish(kronrod, gauss, error, top, stack):
            total += kronrod * half
        else:
            top += 2
    return total


@compiled
def add_within(
    means: Floats, deviations: Floats, t: float, panels: int, error: float, share: float, inside: Floats
) -> None:
    """Add ``share P(|X| <= t)`` of each row of (n, d) means and ascending standard deviations to ``inside``."""
    d = means.shape[1]
    stacks = np.empty((2, _STACK, 2))
    for row in range(means.shape[0]):
        m = means[row]
        s = deviations[row]
        length = 0.0
        along = 0.0
        for a in range(d):
            length += m[a] * m[a]
            along += m[a] * m[a] * s[a] * s[a]
        length = math.sqrt(length)
        # Certain cases by bounds of less than 1e-8: along the direction of the mean, and by the largest deviation.
        if length > t and (length - t) > _REACH * math.sqrt(along) / length:
            continue
        if t > length and (t - length) > (_REACH + 0.5) * s[d - 1]:
            inside[row] += share
        elif d == 2:
            inside[row] += share * _in_disc(m, s, t, stacks[0], panels, error)
        else:
            inside[row] += share * _in_ball(m, s, t, stacks, panels, error)
