"""The foreground of an image: the tissue or body, as distinct from glass, air or padding.

`find_foreground` looks at a reduced copy of an image, so that its cost does not grow with a whole slide, and returns a
`Foreground`: a coarse mask, its grid, and a sentence that says how it was found. Pictures (2D) and volumes (3D) have
rules of their own, in :mod:`warpgauge.candidates.background`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from warpgauge.candidates.background import picture_background, volume_background
from warpgauge.candidates.structure import slabs
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order
from warpgauge.io.images import Image

Mask = NDArray[np.bool_]
# The finest level with fewer elements than this is read: finer ones are slow, coarser ones show too little.
_MOST_ELEMENTS = {2: 400_000, 3: 10_000_000}
# A foreground that leaves less than this of the image, or less than this outside, says nothing about the image.
_LEAST_SHARE = 0.005
_LEAST_BACKGROUND = 0.005


@dataclass(frozen=True, eq=False)
class Foreground:
    """Where an image shows something: a mask, and how it was found in a sentence.

    The mask is on ``grid``, which covers the image, usually with larger elements.
    """

    mask: Mask
    grid: Grid
    method: str

    def __post_init__(self) -> None:
        if self.mask.shape != self.grid.shape or self.mask.dtype != np.bool_:
            raise InvalidInputError(
                f"A foreground needs a mask of truth values of shape {self.grid.shape}, got {self.mask.dtype} of shape "
                f"{self.mask.shape}."
            )

    @cached_property
    def share(self) -> float:
        """Share of the image that is foreground, 0 to 1."""
        return float(np.mean(self.mask))

    @property
    def whole(self) -> bool:
        """Whether it is the whole image."""
        return bool(self.mask.all())

    def contains(self, points_world: ArrayLike) -> Mask:
        """Return which of (..., d) world points lie in the foreground; points outside the image do not."""
        index = np.floor(self.grid.world_to_index(points_world) + 0.5).astype(np.int64)
        inside = np.all((index >= 0) & (index < np.asarray(self.grid.size)), axis=-1)
        safe = np.where(inside[..., None], index, 0)
        return np.asarray(inside & self.mask[tuple(np.moveaxis(array_order(safe), -1, 0))])

    def shrunk(self, margin: int = 1) -> Foreground:
        """Return the foreground without the elements within ``margin`` of its edge, except at the image border.

        Where nothing would be left, the foreground itself is returned.
        """
        if self.whole or margin < 1:
            return self
        mask = np.asarray(ndimage.binary_erosion(self.mask, np.ones((3,) * self.grid.d), margin, border_value=1))
        return Foreground(mask, self.grid, self.method) if mask.any() else self


def find_foreground(image: Image) -> Foreground:
    """Find the tissue or body in an image, read at a level of at most 0.4 million pixels or 10 million voxels.

    The whole image, with the reason in ``method``, where no background, or nothing else, is found.
    """
    limit = _MOST_ELEMENTS[image.grid.d]
    level = next((k for k in range(image.levels) if image.level_grid(k).count <= limit), image.levels - 1)
    return foreground_of(image.read(level), image.level_grid(level))


def foreground_of(array: NDArray[Any], grid: Grid) -> Foreground:
    """Find the foreground of an array ``[y, x(, channel)]`` or ``[z, y, x]`` on a grid; see `find_foreground`."""
    if array.shape[: grid.d] != grid.shape:
        raise InvalidInputError(f"An image of shape {array.shape} does not lie on a grid of shape {grid.shape}.")
    values = np.nan_to_num(array.astype(np.float32), copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    found = picture_background(values) if grid.d == 2 else volume_background(values, array_order(grid.spacing))
    if found.foreground is None:
        return whole_image(grid, found.method)
    share = float(np.mean(found.foreground))
    if share < _LEAST_SHARE:
        return whole_image(grid, f"only {100 * share:.2g} % of it differs from the background ({found.method})")
    if share > 1 - _LEAST_BACKGROUND:
        return whole_image(grid, f"no background of any size was found ({found.method})")
    return Foreground(found.foreground, grid, f"{100 * share:.0f} % of the image: {found.method}.")


def whole_image(grid: Grid, reason: str) -> Foreground:
    """Return the foreground that is the whole image, for a stated reason."""
    single = grid.coarsened(max(grid.size))
    return Foreground(np.ones(single.shape, dtype=bool), single, f"The whole image: {reason}.")


def foreground_from_mask(mask: Any, grid: Grid, name: str) -> Foreground:
    """Return the foreground that a mask on the image's grid states: each reduced element that holds any of it."""
    limit = _MOST_ELEMENTS[grid.d]
    factor = 1
    while np.prod([-(-n // factor) for n in grid.size]) > limit:
        factor += 1
    size = tuple(-(-n // factor) for n in grid.size)
    reduced = np.zeros(size[::-1], dtype=bool)
    count = 0
    for low, high in slabs(grid.shape, multiple=factor):
        inside = np.asarray(mask[low:high]) != 0
        count += int(np.count_nonzero(inside))
        reduced[low // factor : -(-high // factor)] = _any_of(inside, factor)
    if not count:
        raise InvalidInputError(f"The mask {name!r} is zero everywhere, so nothing could be asked; check it.")
    origin = grid.index_to_world(np.full(grid.d, (factor - 1) / 2))
    coarse = Grid(size, grid.spacing * factor, origin, grid.direction, grid.units)
    return Foreground(reduced, coarse, f"{100 * count / grid.count:.0f} % of the image: the mask {name!r}.")


def _any_of(inside: Mask, factor: int) -> Mask:
    """Return which cubes of ``factor`` elements along each axis hold anything; the last ones may be cut off."""
    counts = [-(-n // factor) for n in inside.shape]
    reduced = np.pad(inside, [(0, count * factor - n) for count, n in zip(counts, inside.shape, strict=True)])
    for axis, count in enumerate(counts):
        shape = (*reduced.shape[:axis], count, factor, *reduced.shape[axis + 1 :])
        reduced = np.any(reduced.reshape(shape), axis=axis + 1)
    return np.asarray(reduced)


class ForegroundMask:
    """A foreground as a mask on the image's own grid, worked out for the part that is sliced.

    Takes the place of a mask array of a large image: it has ``shape``, and plain slices give truth values.
    """

    def __init__(self, foreground: Foreground, grid: Grid) -> None:
        self.shape: tuple[int, ...] = grid.shape
        self._mask = np.pad(foreground.mask, 1)  # what the reduced mask does not reach is not foreground
        self._share = foreground.share
        # The axes of both grids agree, so that each axis is looked up on its own.
        diagonal = np.repeat(np.arange(max(grid.size))[:, None], grid.d, axis=1)
        index = np.floor(foreground.grid.world_to_index(grid.index_to_world(diagonal)) + 0.5).astype(np.int64)
        index = np.clip(index + 1, 0, np.asarray(foreground.grid.size) + 1)
        self._rows = [index[: grid.size[axis], axis] for axis in range(grid.d)][::-1]

    @property
    def elements(self) -> int:
        """About how many elements of the image are foreground."""
        return max(1, round(self._share * float(np.prod(self.shape))))

    def __getitem__(self, region: tuple[slice, ...]) -> Mask:
        rows = [axis[part] for axis, part in zip(self._rows, region, strict=True)]
        return np.asarray(self._mask[np.ix_(*rows)])
