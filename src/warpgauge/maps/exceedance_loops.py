"""The compiled quadrature behind exceedance: ``P(|X| <= t)`` for independent normal components.

The standard deviations are ascending. In 2D the second component is integrated in closed form and the first by
adaptive Gauss-Kronrod quadrature (7 and 15 nodes) after ``x = t sin(psi)``, which takes away the square root at both
ends. In 3D the same is done once more around it. The component with the smallest deviation is outermost: within its
few deviations the inner probability changes slowly. Imported when it is first needed, as it loads the compiler.
"""

from __future__ import annotations

import math

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.loops import compiled  # one set of compiler options for the whole package

_KRONROD_NODES = np.array([
    0.991455371120812639206854697526329, 0.949107912342758524526189684047851, 0.864864423359769072789712788640926,
    0.741531185599394439863864773280788, 0.586087235467691130294144691693013, 0.405845151377397166906606412076961,
    0.207784955007898467600689403773245, 0.0,
])  # fmt: skip
_KRONROD = np.array([
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204, 0.104790010322250183839876322541518,
    0.140653259715525918745189590510238, 0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
])  # fmt: skip
_GAUSS = np.array([
    0.0, 0.129484966168869693270611432679082, 0.0, 0.279705391489276667901467771423780,
    0.0, 0.381830050505118944950369775488975, 0.0, 0.417959183673469387755102040816327,
])  # fmt: skip
_STACK = 64
_REACH = 6.0  # deviations beyond which a normal variable is taken never to be: probability 2e-9


@compiled
def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@compiled
def _between(low: float, high: float) -> float:
    """Probability of a standard normal between two numbers, from the tail that does not cancel."""
    if low > 0:
        return _phi(-low) - _phi(-high)
    return _phi(high) - _phi(low)


@compiled
def _density(x: float, m: float, s: float) -> float:
    z = (x - m) / s
    return math.exp(-0.5 * z * z) * 0.3989422804014327 / s


@compiled
def _integrand_2d(psi: float, m: Floats, s: Floats, t: float) -> float:
    """Density of the last component but one times the closed form of the last, on the circle of radius t."""
    h = t * math.cos(psi)
    k = m.shape[0] - 2
    inner = _between((-h - m[k + 1]) / s[k + 1], (h - m[k + 1]) / s[k + 1])
    return _density(t * math.sin(psi), m[k], s[k]) * h * inner


@compiled
def _inside_2d(m: Floats, s: Floats, t: float, stack: Floats, panels: int, tolerance: float) -> float:
    """P(|(X_1, X_2)| <= t) of the last two components; ``stack`` is (64, 2) scratch."""
    k = m.shape[0] - 2
    low, high = max(-t, m[k] - _REACH * s[k]), min(t, m[k] + _REACH * s[k])
    if not low < high:
        return 0.0
    start, end = math.asin(max(low / t, -1.0)), math.asin(min(high / t, 1.0))
    for panel in range(panels):
        stack[panel, 0] = start + (end - start) * panel / panels
        stack[panel, 1] = start + (end - start) * (panel + 1) / panels
    top, total = panels, 0.0
    while top > 0:
        top -= 1
        a, b = stack[top, 0], stack[top, 1]
        middle, half = 0.5 * (a + b), 0.5 * (b - a)
        value = _integrand_2d(middle, m, s, t)
        kronrod, gauss = _KRONROD[7] * value, _GAUSS[7] * value
        for i in range(7):
            value = _integrand_2d(middle - half * _KRONROD_NODES[i], m, s, t)
            value += _integrand_2d(middle + half * _KRONROD_NODES[i], m, s, t)
            kronrod += _KRONROD[i] * value
            gauss += _GAUSS[i] * value
        if abs(kronrod - gauss) * half <= tolerance or top + 2 > _STACK:
            total += kronrod * half
        else:
            stack[top, 0], stack[top, 1] = a, middle
            stack[top + 1, 0], stack[top + 1, 1] = middle, b
            top += 2
    return total


@compiled
def _integrand_3d(psi: float, m: Floats, s: Floats, t: float, stack: Floats, panels: int, tolerance: float) -> float:
    h = t * math.cos(psi)
    if h <= 0:
        return 0.0
    return _density(t * math.sin(psi), m[0], s[0]) * h * _inside_2d(m, s, h, stack, panels, tolerance)


@compiled
def _inside_3d(m: Floats, s: Floats, t: float, stack: Floats, inner: Floats, panels: int, tolerance: float) -> float:
    """P(|X| <= t) of three components; the loop of `_inside_2d` once more (compiled code cannot take it as value)."""
    low, high = max(-t, m[0] - _REACH * s[0]), min(t, m[0] + _REACH * s[0])
    if not low < high:
        return 0.0
    start, end = math.asin(max(low / t, -1.0)), math.asin(min(high / t, 1.0))
    for panel in range(panels):
        stack[panel, 0] = start + (end - start) * panel / panels
        stack[panel, 1] = start + (end - start) * (panel + 1) / panels
    top, total = panels, 0.0
    while top > 0:
        top -= 1
        a, b = stack[top, 0], stack[top, 1]
        middle, half = 0.5 * (a + b), 0.5 * (b - a)
        value = _integrand_3d(middle, m, s, t, inner, panels, tolerance)
        kronrod, gauss = _KRONROD[7] * value, _GAUSS[7] * value
        for i in range(7):
            value = _integrand_3d(middle - half * _KRONROD_NODES[i], m, s, t, inner, panels, tolerance)
            value += _integrand_3d(middle + half * _KRONROD_NODES[i], m, s, t, inner, panels, tolerance)
            kronrod += _KRONROD[i] * value
            gauss += _GAUSS[i] * value
        if abs(kronrod - gauss) * half <= tolerance or top + 2 > _STACK:
            total += kronrod * half
        else:
            stack[top, 0], stack[top, 1] = a, middle
            stack[top + 1, 0], stack[top + 1, 1] = middle, b
            top += 2
    return total


@compiled
def exceedance_rows(
    means: Floats,
    deviations: Floats,
    t: float,
    start: int,
    stop: int,
    result: Floats,
    panels: int,
    tolerance: float,
    tolerance_of_plane: float,
) -> None:
    """``P(|X| > t)`` for rows ``start:stop`` of (n, d) means and ascending standard deviations in the eigenbasis."""
    d = means.shape[1]
    outer, inner = np.empty((_STACK, 2)), np.empty((_STACK, 2))
    for row in range(start, stop):
        m, s = means[row], deviations[row]
        length, along = 0.0, 0.0
        for a in range(d):
            length += m[a] * m[a]
            along += m[a] * m[a] * s[a] * s[a]
        length = math.sqrt(length)
        # Certain cases by bounds of less than 1e-8: along the direction of the mean, and by the largest deviation.
        if length > t and (length - t) > _REACH * math.sqrt(along) / length:
            result[row] = 1.0
        elif t > length and (t - length) > (_REACH + 0.5) * s[d - 1]:
            result[row] = 0.0
        else:
            if d == 2:
                inside = _inside_2d(m, s, t, inner, panels, tolerance)
            else:
                inside = _inside_3d(m, s, t, outer, inner, panels, tolerance_of_plane)
            result[row] = min(1.0, max(0.0, 1.0 - inside))
