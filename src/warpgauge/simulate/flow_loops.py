"""The compiled loops of the deformations: multilinear vectors on a grid are composed, evaluated and inverted.

All coordinates are indices in the order x, y[, z]. A field is an (n, d) array with one row per node, x running fastest
(the flattened array of a `Grid`), and ``size`` are the d numbers of nodes. Beyond the outer nodes a field goes on with
the value of the nearest border point; callers mask what must not be seen.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.loops import compiled as compile_loop  # one set of compiler options for the whole package

_NEWTON_STEPS = 50
_HALVINGS = 12


@compile_loop
def _locate(size: Ints, point: Floats, low: Ints, part: Floats) -> None:
    """Lower node of the cell that holds ``point`` (moved onto the border if beyond), and the position in the cell."""
    for a in range(size.shape[0]):
        last = size[a] - 1
        t = min(max(point[a], 0.0), float(last))
        k = min(int(t), last - 1)
        low[a] = k
        part[a] = t - k


@compile_loop
def _blend(field: Floats, size: Ints, low: Ints, part: Floats, value: Floats) -> None:
    """Multilinear interpolation in one cell, written out, which is several times faster than a loop over corners."""
    nx = size[0]
    s, t = part[0], part[1]
    w00, w10, w01, w11 = (1 - s) * (1 - t), s * (1 - t), (1 - s) * t, s * t
    if size.shape[0] == 2:
        at = low[1] * nx + low[0]
        for c in range(2):
            value[c] = (w00 * field[at, c] + w10 * field[at + 1, c]) + (
                w01 * field[at + nx, c] + w11 * field[at + nx + 1, c]
            )
        return
    r = part[2]
    at = (low[2] * size[1] + low[1]) * nx + low[0]
    up = at + nx * size[1]
    for c in range(3):
        lower = (w00 * field[at, c] + w10 * field[at + 1, c]) + (w01 * field[at + nx, c] + w11 * field[at + nx + 1, c])
        upper = (w00 * field[up, c] + w10 * field[up + 1, c]) + (w01 * field[up + nx, c] + w11 * field[up + nx + 1, c])
        value[c] = (1 - r) * lower + r * upper


@compile_loop
def _blend_slopes(field: Floats, size: Ints, low: Ints, part: Floats, slopes: Floats) -> None:
    """Differentiate the interpolated field in one cell: ``slopes[c, b] = d field_c / d x_b``."""
    nx = size[0]
    s, t = part[0], part[1]
    if size.shape[0] == 2:
        at = low[1] * nx + low[0]
        for c in range(2):
            f00, f10, f01, f11 = field[at, c], field[at + 1, c], field[at + nx, c], field[at + nx + 1, c]
            slopes[c, 0] = (1 - t) * (f10 - f00) + t * (f11 - f01)
            slopes[c, 1] = (1 - s) * (f01 - f00) + s * (f11 - f10)
        return
    r = part[2]
    at = (low[2] * size[1] + low[1]) * nx + low[0]
    up = at + nx * size[1]
    for c in range(3):
        f00, f10, f01, f11 = field[at, c], field[at + 1, c], field[at + nx, c], field[at + nx + 1, c]
        g00, g10, g01, g11 = field[up, c], field[up + 1, c], field[up + nx, c], field[up + nx + 1, c]
        slopes[c, 0] = (1 - r) * ((1 - t) * (f10 - f00) + t * (f11 - f01)) + r * (
            (1 - t) * (g10 - g00) + t * (g11 - g01)
        )
        slopes[c, 1] = (1 - r) * ((1 - s) * (f01 - f00) + s * (f11 - f10)) + r * (
            (1 - s) * (g01 - g00) + s * (g11 - g10)
        )
        slopes[c, 2] = (1 - t) * ((1 - s) * (g00 - f00) + s * (g10 - f10)) + t * (
            (1 - s) * (g01 - f01) + s * (g11 - f11)
        )


@compile_loop
def _determinant(m: Floats) -> float:
    if m.shape[0] == 2:
        return float(m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0])
    return float(
        m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
        - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
        + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
    )


@compile_loop
def _solve(m: Floats, right: Floats, out: Floats) -> bool:
    """Cramer's rule, enough for 2 x 2 and 3 x 3 matrices near the identity; False where singular."""
    whole = _determinant(m)
    if abs(whole) < 1e-12:
        return False
    d = m.shape[0]
    for c in range(d):
        kept = m[:, c].copy()
        m[:, c] = right
        out[c] = _determinant(m) / whole
        m[:, c] = kept
    return True


@compile_loop
def step_nodes(
    field: Floats, size: Ints, own: float, shift: float, other: float, start: int, stop: int, out: Floats
) -> None:
    """``out(x) = own * f(x) + other * f(x + shift * f(x))`` at the nodes ``start:stop``.

    With 1, 1, 1 this squares ``x -> x + f(x)``; with 0, h/2, h it is a midpoint step of length h along the velocity f.
    """
    d = size.shape[0]
    point, part, value = np.empty(d), np.empty(d), np.empty(d)
    low = np.empty(d, dtype=np.int64)
    for at in range(start, stop):
        rest = at
        for a in range(d):
            point[a] = rest % size[a] + shift * field[at, a]
            rest //= size[a]
        _locate(size, point, low, part)
        _blend(field, size, low, part, value)
        for c in range(d):
            out[at, c] = own * field[at, c] + other * value[c]


@compile_loop
def evaluate_field(field: Floats, size: Ints, points: Floats, start: int, stop: int, out: Floats) -> None:
    """Interpolated vectors at the points ``start:stop``."""
    d = size.shape[0]
    part = np.empty(d)
    low = np.empty(d, dtype=np.int64)
    for i in range(start, stop):
        _locate(size, points[i], low, part)
        _blend(field, size, low, part, out[i])


@compile_loop
def _gap(field: Floats, size: Ints, target: Floats, x: Floats, low: Ints, part: Floats, gap: Floats) -> float:
    """Leave ``target - x - f(x)`` in ``gap`` and the cell of x in ``low`` and ``part``; give its squared length."""
    _locate(size, x, low, part)
    _blend(field, size, low, part, gap)
    square = 0.0
    for a in range(size.shape[0]):
        gap[a] = target[a] - x[a] - gap[a]
        square += gap[a] * gap[a]
    return square


@compile_loop
def _newton_step(
    field: Floats, size: Ints, x: Floats, low: Ints, part: Floats, gap: Floats, jacobian: Floats, step: Floats
) -> None:
    _blend_slopes(field, size, low, part, jacobian)
    for b in range(size.shape[0]):
        if x[b] < 0 or x[b] > size[b] - 1:  # beyond the border the field is constant
            jacobian[:, b] = 0.0
        jacobian[b, b] += 1.0
    if not _solve(jacobian, gap, step):
        step[:] = gap


@compile_loop
def invert_points(
    field: Floats, size: Ints, targets: Floats, tolerance: float, start: int, stop: int, x: Floats, solved: Bools
) -> None:
    """Damped Newton iteration for ``x + f(x) = target``, from the given ``x``, which is overwritten."""
    d = size.shape[0]
    part, gap, step, trial = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    low = np.empty(d, dtype=np.int64)
    jacobian = np.empty((d, d))
    enough = tolerance * tolerance
    for i in range(start, stop):
        error = _gap(field, size, targets[i], x[i], low, part, gap)
        for _ in range(_NEWTON_STEPS):
            if error <= enough:
                break
            _newton_step(field, size, x[i], low, part, gap, jacobian, step)
            scale = 1.0
            for _halving in range(_HALVINGS):
                for a in range(d):
                    trial[a] = x[i, a] + scale * step[a]
                square = _gap(field, size, targets[i], trial, low, part, gap)
                if square < error:
                    break
                scale *= 0.5
            if not square < error:
                break
            x[i] = trial
            error = square
        solved[i] = error <= enough


@compile_loop
def node_determinants(field: Floats, size: Ints, start: int, stop: int, out: Floats) -> None:
    """Smallest Jacobian determinant of ``x -> x + f(x)`` at each node, over the 2^d cells that meet there."""
    d = size.shape[0]
    # Along an edge of a cell the field is linear: at a node, the slopes of each cell are differences to neighbours.
    slopes = np.empty((2, d, d))
    exists = np.empty((2, d), dtype=np.bool_)
    jacobian = np.empty((d, d))
    for at in range(start, stop):
        rest = at
        stride = 1
        for b in range(d):
            k = rest % size[b]
            rest //= size[b]
            for side in range(2):
                exists[side, b] = k + side >= 1 and k + side < size[b]
                if exists[side, b]:
                    above = at + stride * side
                    for c in range(d):
                        slopes[side, b, c] = field[above, c] - field[above - stride, c]
            stride *= size[b]
        smallest = np.inf
        for cell in range(1 << d):
            real = True
            for b in range(d):
                side = (cell >> b) & 1
                real = real and exists[side, b]
                for c in range(d):
                    jacobian[c, b] = slopes[side, b, c]
                jacobian[b, b] += 1.0
            if real:
                smallest = min(smallest, _determinant(jacobian))
        out[at] = smallest
