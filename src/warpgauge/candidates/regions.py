"""Regions of an image that may move on their own (organs, lungs, pieces of a torn section), by a label image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order

# More labels than this are the grey values of an image, not a list of structures.
_MOST = 1000


@dataclass(frozen=True, eq=False)
class LabelRegions:
    """Which region each point of an image lies in; made by :meth:`of`.

    The labels are on ``grid``, indexed as images are. Zero is a region as any other: what has no label moves together.
    """

    labels: NDArray[np.integer[Any]]
    grid: Grid

    @classmethod
    def of(cls, labels: ArrayLike, grid: Grid, name: str = "the label image") -> LabelRegions:
        """Check labels on a grid: whole numbers, at least two of them and at most 1,000."""
        array = np.asarray(labels)
        if array.shape != grid.shape:
            raise InvalidInputError(f"{name} has the shape {array.shape}, but its grid {grid.shape}.")
        # Whole numbers stay as they are stored: a volume of bytes would take eight times its memory.
        whole = array
        if not np.issubdtype(array.dtype, np.integer):
            whole = np.where(np.abs(array) < 2**31, array, 0.5).astype(np.int32)  # 0.5: what is not even a number
        if not np.array_equal(whole, array):
            raise InvalidInputError(
                f"{name} has values that are not whole numbers, so that they are no labels of regions; save it with "
                f"one whole number for each region, without interpolation."
            )
        regions = cls(whole, grid)
        count = len(regions.values)
        if count < 2:
            raise InvalidInputError(
                f"{name} has the label {regions.values[0]} everywhere; regions need at least two labels, of which 0 is "
                f"one as any other."
            )
        if count > _MOST:
            raise InvalidInputError(
                f"{name} has {count} different values; that looks like an image rather than labels of regions (at most "
                f"{_MOST})."
            )
        return regions

    @cached_property
    def values(self) -> tuple[int, ...]:
        """Labels that occur, ascending."""
        flat = self.labels.reshape(-1)
        if flat.dtype == np.uint8:  # counting is much faster than sorting
            return tuple(np.flatnonzero(np.bincount(flat)).tolist())
        return tuple(np.unique(flat).tolist())

    def __call__(self, points_world: NDArray[np.float64]) -> NDArray[np.int64]:
        """Label of the element that each of (n, d) world points lies in; 0 outside the image."""
        index = np.floor(self.grid.world_to_index(points_world) + 0.5).astype(np.int64)
        inside = np.all((index >= 0) & (index < np.asarray(self.grid.size)), axis=-1)
        index[~inside] = 0
        return np.where(inside, self.labels[tuple(array_order(index).T)], 0).astype(np.int64)
