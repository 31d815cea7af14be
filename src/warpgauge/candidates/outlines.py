"""Areas that a person draws on a 2D image as closed polygons: what they hold, and regions with drawn pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.candidates.regions import LabelRegions
from warpgauge.errors import InvalidInputError

# More corners than a hand can draw, and few enough to compare every side with every other.
MOST_CORNERS = 500

Corners = Sequence[Sequence[float]]


def check_corners(corners: Corners) -> None:
    """Refuse a polygon without an area, or whose sides cross: nobody could say what it holds."""
    at = np.asarray(corners, dtype=np.float64)
    if at.ndim != 2 or at.shape[1] != 2:
        raise InvalidInputError("Areas are drawn on 2D images; give a volume a mask or a label image instead.")
    if not 3 <= len(at) <= MOST_CORNERS:
        raise InvalidInputError(f"An area needs 3 to {MOST_CORNERS} corners, got {len(at)}.")
    if len(np.unique(at, axis=0)) < len(at):
        raise InvalidInputError("Two corners of the area are the same point; leave one out.")
    following = np.roll(at, -1, axis=0)
    if _crosses_itself(at, following):
        raise InvalidInputError("Two sides of the area cross each other; draw it again without crossing.")
    if abs(float(np.sum(_cross(at - at[0], following - at[0])))) <= 1e-9 * float(np.square(np.ptp(at, axis=0)).sum()):
        raise InvalidInputError("The corners of the area lie on one line, so that it holds nothing.")


def _cross(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0])


def _crosses_itself(start: NDArray[np.float64], end: NDArray[np.float64]) -> bool:
    """Return whether two sides that are not neighbours meet: the ends of each lie on both sides of the other."""
    side = (end - start)[:, None]
    first, last = (np.sign(_cross(side, points[None] - start[:, None])) for points in (start, end))
    apart = first * last <= 0  # (i, j): whether the line of side i separates the ends of side j
    low, high = np.minimum(start, end), np.maximum(start, end)
    near = np.all((low[:, None] <= high[None]) & (low[None] <= high[:, None]), axis=2)  # of sides on one line
    meet = apart & apart.T & near
    count = len(start)
    for step in (-1, 0, 1):  # neighbours share a corner
        meet[np.arange(count), (np.arange(count) + step) % count] = False
    return bool(meet.any())


def inside(corners: Corners, points_world: ArrayLike) -> NDArray[np.bool_]:
    """Return which of (n, 2) points lie in a polygon: a ray from each crosses its sides an odd number of times."""
    points = np.asarray(points_world, dtype=np.float64)
    at, found = np.asarray(corners, dtype=np.float64), np.zeros(len(points), dtype=np.bool_)
    x, y = points.T
    for (x0, y0), (x1, y1) in zip(at, np.roll(at, -1, axis=0), strict=True):
        if y0 != y1:
            spans = (y0 > y) != (y1 > y)
            found ^= spans & (x < x0 + (y - y0) * ((x1 - x0) / (y1 - y0)))
    return found


@dataclass(frozen=True, eq=False)
class DrawnRegions:
    """Regions of images, if there are some, and pieces that a person drew on it, each a region of its own.

    Parameters
    ----------
    base : LabelRegions or None
    pieces : sequence of polygons
        A point in several belongs to the last.
    """

    base: LabelRegions | None
    pieces: tuple[Corners, ...]

    @cached_property
    def values(self) -> tuple[int, ...]:
        """Labels, ascending; pieces come last."""
        known = (0,) if self.base is None else self.base.values
        return (*known, *(max(known) + 1 + at for at in range(len(self.pieces))))

    def __call__(self, points_world: NDArray[np.float64]) -> NDArray[np.int64]:
        """Label of each of (n, 2) points; 0 is what has none."""
        found = np.zeros(len(points_world), dtype=np.int64) if self.base is None else self.base(points_world)
        for label, piece in zip(self.values[-len(self.pieces) :], self.pieces, strict=True):
            found[inside(piece, points_world)] = label
        return found
