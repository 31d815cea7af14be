"""Maxima of an array: found, refined below the pixel, and thinned by distance."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from warpgauge.geometry import Floats

_CHUNK = 4096
# A vertex farther from its pixel than this belongs to another pixel; the fit has failed there.
_FARTHEST_VERTEX = 1.0


@dataclass(frozen=True, eq=False)
class Peaks:
    """Maxima of an array: flat index, position in array order (with sub-pixel part) and strength."""

    flat: NDArray[np.int64]
    position: Floats
    strength: Floats

    def __len__(self) -> int:
        return len(self.flat)

    def strongest(self, count: int) -> Peaks:
        """Return at most so many peaks by falling strength; equal strengths by their place in the array."""
        rows = np.lexsort((self.flat, -self.strength))[:count]
        return Peaks(self.flat[rows], self.position[rows], self.strength[rows])

    @classmethod
    def joined(cls, parts: list[Peaks]) -> Peaks:
        """Return the peaks of all parts, one after the other."""
        return cls(
            np.concatenate([part.flat for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.strength for part in parts]),
        )


def local_maxima(strength: Floats) -> NDArray[np.bool_]:
    """Return where a positive strength is not exceeded by any of its 3^d - 1 neighbours."""
    return np.asarray((strength == ndimage.maximum_filter(strength, size=3, mode="nearest")) & (strength > 0))


def vertex_offsets(strength: Floats, rows: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Fit a quadratic to the 3^d neighbourhood of each row; return the offsets of the vertices, and which are sound.

    ``rows`` are (n, d) array indices that are not on the edge of ``strength``. With differences g and H of the
    neighbourhood the vertex is at ``-H^-1 g``; it is sound when H is negative definite and the vertex near. The fit is
    to the d-th root of the strength: it is a gradient squared like an eigenvalue of the structure tensor, and nearer to
    a quadratic than its d-th power.
    """
    d = rows.shape[1]
    unit = np.eye(d, dtype=np.int64)

    def at(step: NDArray[np.int64]) -> Floats:
        values = np.asarray(strength[tuple((rows + step).T)], dtype=np.float64)
        return np.asarray(np.sign(values) * np.abs(values) ** (1 / d))

    centre = at(0 * unit[0])
    gradient = np.zeros((len(rows), d))
    hessian = np.zeros((len(rows), d, d))
    for a in range(d):
        up = at(unit[a])
        down = at(-unit[a])
        gradient[:, a] = (up - down) / 2
        hessian[:, a, a] = up + down - 2 * centre
    for a, b in itertools.combinations(range(d), 2):
        both = unit[a] + unit[b]
        across = unit[a] - unit[b]
        mixed = (at(both) - at(across) - at(-across) + at(-both)) / 4
        hessian[:, a, b] = mixed
        hessian[:, b, a] = mixed
    sound = np.linalg.eigvalsh(hessian)[:, -1] < -1e-9 * centre
    offsets = np.zeros((len(rows), d))
    offsets[sound] = -np.linalg.solve(hessian[sound], gradient[sound][..., np.newaxis])[..., 0]
    sound &= np.all(np.abs(offsets) <= _FARTHEST_VERTEX, axis=1)
    offsets[~sound] = 0.0
    return offsets, sound


def thin(points_world: Floats, min_distance: float, count: int | None) -> NDArray[np.int64]:
    """Choose rows greedily from the first on, each farther than ``min_distance`` from all chosen before."""
    limit = len(points_world) if count is None else count
    if min_distance <= 0:
        return np.arange(min(limit, len(points_world)))
    chosen: list[int] = []
    for start in range(0, len(points_world), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(points_world)))
        if chosen:
            tree = cKDTree(points_world[chosen])
            nearest, _ = tree.query(points_world[rows], distance_upper_bound=min_distance * 1.01)
            rows = rows[nearest > min_distance]
        if not len(rows):
            continue
        neighbours = cKDTree(points_world[rows]).query_ball_point(points_world[rows], min_distance)
        alive = np.ones(len(rows), dtype=bool)
        for i, row in enumerate(rows):
            if alive[i]:
                alive[neighbours[i]] = False
                chosen.append(int(row))
                if len(chosen) == limit:
                    return np.array(chosen)
    return np.array(chosen, dtype=np.int64)
