"""What an image says of places for a kernel that varies in space.

Regions that may move on their own (organs, lungs, pieces of a torn section) are given by a label image or by maps of
probabilities, and numbers such as a length scale by an image of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order

# Probabilities of several maps may add up to more than 1 by this, which is how they are often stored.
_ROUNDING = 0.01
# More labels than this are the grey values of an image, not a list of structures.
_MOST = 1000


@dataclass(frozen=True, eq=False)
class LabelRegions:
    """Which region each point of an image lies in; made by :meth:`of`.

    Parameters
    ----------
    labels : int array
        On ``grid``, indexed as images are. Zero is a region as any other: what has no label moves together.
    grid : Grid
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


@dataclass(frozen=True, eq=False)
class ImageValues:
    """Values of an image at world points, linear between its elements: a length scale or an amplitude of a kernel.

    Beyond the middle of the outermost elements the image goes on with their values.

    Parameters
    ----------
    values : array
        On ``grid``, indexed as images are.
    grid : Grid
    """

    values: NDArray[np.floating[Any]]
    grid: Grid

    @classmethod
    def of(cls, values: ArrayLike, grid: Grid, name: str = "the image") -> ImageValues:
        """Check values on a grid."""
        given = np.asarray(values)
        # Single precision stays: volumes of maps would take twice their memory.
        array = given if given.dtype == np.float32 else given.astype(np.float64)
        if array.shape != grid.shape:
            raise InvalidInputError(f"{name} has the shape {array.shape}, but its grid {grid.shape}.")
        if not np.isfinite(array).all():
            raise InvalidInputError(f"{name} has values that are not finite.")
        return cls(array, grid)

    def __call__(self, points_world: NDArray[np.float64]) -> NDArray[np.float64]:
        """Value at each of (n, d) world points."""
        from scipy.ndimage import map_coordinates

        index = array_order(self.grid.world_to_index(points_world)).T
        return np.asarray(map_coordinates(self.values, index, output=np.float64, order=1, mode="nearest"))


@dataclass(frozen=True, eq=False)
class ProbabilityRegions:
    """Probabilities of regions at each point of an image, for regions with a soft boundary; made by :meth:`of`."""

    maps: tuple[ImageValues, ...]

    @classmethod
    def of(cls, maps: Iterable[ArrayLike], grid: Grid, name: str = "the probability maps") -> ProbabilityRegions:
        """Check maps on a grid, one after the other: from 0 to 1, and no more than 1 together.

        What they leave, and what is outside the image, is a region of its own, the first one.
        """
        arrays = [np.asarray(one) for one in maps]
        if not arrays or not all(one.shape == grid.shape and (one >= 0).all() for one in arrays):
            raise InvalidInputError(
                f"{name} must be one or more arrays of the shape {grid.shape} with numbers from 0 on, got shapes "
                f"{[one.shape for one in arrays]}."
            )
        made = tuple(ImageValues.of(one, grid, name) for one in arrays)
        most = float(reduce(np.add, (one.values for one in made)).max())
        if most > 1 + _ROUNDING:
            raise InvalidInputError(
                f"{name} add up to {most:.4g} at a point; probabilities add up to 1 at most. Divide percentages by 100 "
                f"and grey values by the largest one."
            )
        return cls(made)

    @property
    def values(self) -> range:
        """Numbers of the regions; 0 is what the maps leave."""
        return range(len(self.maps) + 1)

    def __call__(self, points_world: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of what is in no region, then of each region, at each of (n, d) world points, (n, R + 1)."""
        grid = self.maps[0].grid
        index = grid.world_to_index(points_world)
        inside = np.all((index > -0.5) & (index < np.asarray(grid.size) - 0.5), axis=-1)
        found = np.stack([one(points_world) * inside for one in self.maps], axis=1)
        rest = np.maximum(1 - found.sum(axis=1, keepdims=True), 0)
        together = np.concatenate([rest, found], axis=1)
        return np.asarray(together / together.sum(axis=1, keepdims=True))


def regions_from(arrays: Sequence[ArrayLike], names: Sequence[str], grid: Grid) -> LabelRegions | ProbabilityRegions:
    """Return regions by the values of their images: one image of labels, or a map of probabilities for each region."""
    given = [np.asarray(one) for one in arrays]
    if len(given) == 1 and np.array_equal(given[0], np.trunc(given[0])):
        return LabelRegions.of(given[0], grid, f"The label image {names[0]!r}")
    for one, name in zip(given, names, strict=True):
        if not ((one >= 0) & (one <= 1 + _ROUNDING)).all():
            raise InvalidInputError(
                f"{name!r} holds neither labels of regions (whole numbers, in one image alone) nor probabilities "
                f"of one (from 0 to 1); save labels without interpolation, and divide percentages by 100 or grey "
                f"values by the largest one."
            )
        if not one.any():
            raise InvalidInputError(f"The probability map {name!r} is 0 everywhere; leave it out.")
    return ProbabilityRegions.of(given, grid, f"The probability maps {', '.join(repr(name) for name in names)}")
