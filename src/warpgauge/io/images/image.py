"""`Image`: grid, levels, planes, tiles, percentiles, hash and assumptions of an image of any format.

A format's module describes its file as a `StoredImage`: the levels that the file holds, each with a function that reads
a region of it. Everything else is done here, once.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import FileFormatError, FileTooLargeError, InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import content_hash, files_hash, readable
from warpgauge.io.images.pyramid import Pyramid
from warpgauge.io.images.stored import Array, Region, StoredImage
from warpgauge.io.limits import chosen_limit, memory_limit, physical_memory, shown_bytes, size_on_disk

UNFOLDED = 100  # a large image whose files hold less than this part of its samples is nearly empty
_SAMPLE_BLOCK = {2: (256, 8), 3: (32, 5)}  # edge of a block and blocks along an axis: about four million samples


class Image:
    """An image file, read in parts; `warpgauge.read_image` makes one.

    Arrays are indexed ``[y, x]``, ``[y, x, channel]`` or ``[z, y, x]``; `grid` tells where their elements lie in the
    world, and `assumptions` what was read and assumed.
    """

    def __init__(self, stored: StoredImage, grid: Grid, assumptions: Sequence[str]) -> None:
        _check_overview(stored)
        self._stored = stored
        self._pyramid = Pyramid(stored, grid)
        self.grid = grid  # of level 0
        self.path = stored.path  # the file or folder that was read
        self.files = stored.files  # all that hold the image
        self.format = stored.format  # as in "OME-TIFF"
        self.channels = stored.channels  # 1, or 3 for red, green, blue; of an image `apart`, as many as the file has
        self.channel_names = stored.names  # of an image `apart`; none of others
        self.dtype = stored.dtype  # of what `read` gives: as stored, unless the header asks for a rescaling
        self.levels = len(self._pyramid.grids)  # those included that are made by halving
        self.assumptions: list[str] = list(assumptions)

    def __repr__(self) -> str:
        grid = self.grid
        return f"<Image {self.path.name!r}: {self.format}, size {grid.size}, spacing {grid.spacing} {grid.units}>"

    @property
    def print_note(self) -> str:
        """What a program of ITK takes for a spacing although it is that of a print, as a sentence; empty if nothing."""
        printed = self._stored.frame.printed
        if printed is None or self.grid.units != "px":
            return ""
        return (
            f"{self.path.name!r} is in pixels, but ITK and SimpleITK take its print resolution for "
            f"{printed[0]:.4g} x {printed[1]:.4g} mm; a transform that was made there is read with "
            f"--scale {1 / printed[0]:.5g}"
        )

    @cached_property
    def apart(self) -> Image | None:
        """The channels of the file, of which this image is the mean; None where it has one, or red, green, blue."""
        stored = self._stored.apart
        return None if stored is None else Image(stored, self.grid, self.assumptions)

    def level_grid(self, level: int) -> Grid:
        """Return the frame of a level; 0 is the full resolution."""
        return self._pyramid.grids[self._level(level)]

    def keep_overview(self, file: Path) -> None:
        """Keep the overview in a file, so that other processes need not make it again; it may be deleted any time."""
        self._pyramid.kept_at = file

    def make_overview(self, file: Path) -> None:
        """Make the overview now, where there is no coarse level, and keep it in a file."""
        self._pyramid.make(file)

    def read(self, level: int = 0) -> Array:
        """Return a whole level as an array ``[y, x(, c)]`` or ``[z, y, x]``."""
        shape = self.level_grid(level).shape
        self._check_memory(shape)
        return self._region(level, tuple(slice(0, n) for n in shape))

    def plane(self, axis: int, index: int, level: int = 0) -> Array:
        """Return the plane whose normal is an axis: 0 is x (the plane is ``[z, y]``), 1 is y, 2 is z (``[y, x]``).

        ``index`` counts planes of that level. A 2D image has only the plane ``axis=2, index=0``.
        """
        rows, columns = self._plane_shape(axis, index, level)
        return self.tile(axis, index, level, 0, 0, rows, columns)

    def tile(self, axis: int, index: int, level: int, y0: int, x0: int, height: int, width: int) -> Array:
        """Return a part of a plane: its rows ``y0:y0+height`` and columns ``x0:x0+width``, all within the plane."""
        rows, columns = self._plane_shape(axis, index, level)
        y0, x0, height, width = (_whole(value) for value in (y0, x0, height, width))
        if min(y0, x0) < 0 or min(height, width) < 1 or y0 + height > rows or x0 + width > columns:
            raise InvalidInputError(
                f"The tile of rows {y0}:{y0 + height} and columns {x0}:{x0 + width} does not lie within the plane of "
                f"{rows} x {columns} of {self.path.name!r} at level {level}."
            )
        part = (slice(y0, y0 + height), slice(x0, x0 + width))
        if self.grid.d == 2:
            return self._region(level, part)
        normal = 2 - axis  # arrays are [z, y, x], axes are x, y, z
        region = (*part[:normal], slice(_whole(index), _whole(index) + 1), *part[normal:])
        return self._region(level, region).squeeze(axis=normal)

    def block(self, region: Region, level: int = 0) -> Array:
        """Return a box of a level: a slice with start and stop, within the level, per axis ``[z, ]y, x``."""
        shape = self.level_grid(level).shape
        inside = len(region) == len(shape) and all(
            part.step is None and 0 <= _whole(part.start) < _whole(part.stop) <= n
            for part, n in zip(region, shape, strict=False)
        )
        if not inside:
            raise InvalidInputError(f"{region!r} is not a box within {shape}, level {level} of {self.path.name!r}.")
        self._check_memory(tuple(part.stop - part.start for part in region))
        return self._region(level, tuple(region))

    def percentiles(self, q: Sequence[float] = (1, 99)) -> Floats:
        """Return percentiles of the samples of all channels together; NaN is ignored.

        The sample is bounded and always the same: the whole of a small image, otherwise blocks of level 0, spread
        evenly, of about four million elements.
        """
        wanted = np.asarray(q, dtype=np.float64)
        if wanted.size == 0 or not np.all((wanted >= 0) & (wanted <= 100)):
            raise InvalidInputError(f"Percentiles must be numbers from 0 to 100, got {list(q)!r}.")
        values = _finite(self._sample)
        if values.size == 0:
            raise FileFormatError(
                f"{self.path.name!r} has no finite sample (all are NaN or infinite), so it shows nothing; check how it "
                f"was written."
            )
        return np.asarray(np.percentile(values, wanted), dtype=np.float64)

    def channel_percentiles(self, q: Sequence[float] = (1, 99)) -> Floats:
        """Return the percentiles of each channel, (channels, q), of the same samples; 0 where none is finite."""
        each = [_finite(column) for column in self._sample.reshape(-1, self.channels).T]
        return np.array([np.percentile(values, q) if values.size else np.zeros(len(q)) for values in each])

    @cached_property
    def content_hash(self) -> str:
        """``"sha256:..."`` of the file's bytes; of several files as `warpgauge.io.files.files_hash` orders them."""
        if len(self.files) == 1:
            return content_hash(self.files[0])
        return files_hash(self.files, self.path if self.path.is_dir() else self.path.parent)

    def summary(self) -> dict[str, Any]:
        """Return what ``warpgauge info`` shows, as plain values that JSON can hold."""
        grid = self.grid
        return {
            "name": self.path.name,
            "format": self.format,
            "dimension": grid.d,
            "size": list(grid.size),
            "spacing": grid.spacing.tolist(),
            "origin": grid.origin.tolist(),
            "direction": grid.direction.tolist(),
            "units": grid.units,
            "channels": self.channels,
            "dtype": self.dtype.name,
            "levels": [{"size": list(g.size), "spacing": g.spacing.tolist()} for g in self._pyramid.grids],
            "percentiles": dict(zip(("1", "50", "99"), self.percentiles((1, 50, 99)).tolist(), strict=True)),
            "content_hash": self.content_hash,
            "assumptions": list(self.assumptions),
        }

    @cached_property
    def _sample(self) -> NDArray[Any]:
        """The samples that percentiles are taken of, channel by channel of each element."""
        parts = itertools.product(*(_spread(n, *_SAMPLE_BLOCK[self.grid.d]) for n in self.grid.shape))
        thin = max(1, self.channels // 4)  # of many channels fewer elements
        blocks = (self._region(0, region).reshape(-1, self.channels)[::thin] for region in parts)
        return np.concatenate([block.reshape(-1) for block in blocks])

    def _level(self, level: int) -> int:
        if not 0 <= _whole(level) < self.levels:
            raise InvalidInputError(f"{self.path.name!r} has levels 0 to {self.levels - 1}, not {level!r}.")
        return _whole(level)

    def _plane_shape(self, axis: int, index: int, level: int) -> tuple[int, int]:
        grid = self.level_grid(level)
        if grid.d == 2:
            if (axis, index) != (2, 0):
                raise InvalidInputError(
                    f"{self.path.name!r} is 2D and has only the plane axis=2, index=0, not axis={axis!r}, "
                    f"index={index!r}."
                )
            return grid.shape[0], grid.shape[1]
        if axis not in (0, 1, 2):
            raise InvalidInputError(f"The axis of a plane is 0 (x), 1 (y) or 2 (z), not {axis!r}.")
        if not 0 <= index < grid.size[axis]:
            raise InvalidInputError(
                f"{self.path.name!r} has planes 0 to {grid.size[axis] - 1} along {'xyz'[axis]} at level {level}, "
                f"not {index!r}."
            )
        rows, columns = (n for i, n in enumerate(grid.shape) if i != 2 - axis)
        return rows, columns

    def _region(self, level: int, region: Region) -> Array:
        with readable(self.path, self.format):
            return self._pyramid.region(level, region)

    def _check_memory(self, shape: tuple[int, ...]) -> None:
        """Refuse what cannot fit, before a header's promise is turned into an allocation."""
        needed = math.prod(shape) * self.channels * self.dtype.itemsize
        memory = chosen_limit() or physical_memory()
        if needed > memory:
            raise InvalidInputError(
                f"{self.path.name!r} needs {needed / 2**30:.1f} GiB as one array, more than the {memory / 2**30:.1f} "
                f"GiB that may be used; read a plane, a tile or a coarser level."
            )


def _check_overview(stored: StoredImage) -> None:
    """Refuse a small file that promises a huge image without an overview: making one would read it for hours."""
    coarsest = stored.levels[-1].size
    needed = math.prod(coarsest) * stored.channels * stored.dtype.itemsize
    if needed <= memory_limit():
        return
    size = size_on_disk(*stored.files)
    if needed > UNFOLDED * size:
        raise FileTooLargeError(
            f"{stored.path.name!r} promises {' x '.join(map(str, coarsest))} samples ({shown_bytes(needed)}) at its "
            f"coarsest level, but has {shown_bytes(size)} stored; it is nearly empty or damaged: check how it was "
            f"written, or add coarser levels."
        )


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    return values[np.isfinite(values)] if values.dtype.kind == "f" else values


def _whole(value: Any) -> int:
    """Return a position as an integer; half a pixel is not cut off in silence."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidInputError(f"Levels, planes and tiles are counted by whole numbers, got {value!r}.") from None


def _spread(n: int, edge: int, count: int) -> list[slice]:
    """Return the whole of a short axis, else a block of ``edge`` in the middle of each of ``count`` parts.

    On a long axis the blocks begin at multiples of their edge, near the middle: most lie in one tile or chunk.
    """
    if n <= edge * count:
        return [slice(0, n)]
    starts = [(2 * i + 1) * n // (2 * count) - edge // 2 for i in range(count)]
    if n >= 2 * edge * count:
        starts = [(start + edge // 2) // edge * edge for start in starts]
    return [slice(start, start + edge) for start in starts]


class SlicedImage:
    """A level of an image as an array that is read where it is sliced: plain slices along the first axes."""

    def __init__(self, image: Image, level: int = 0) -> None:
        self.image, self.level = image, level
        shape = image.level_grid(level).shape
        self.shape: tuple[int, ...] = shape + ((image.channels,) if image.channels > 1 else ())

    def __getitem__(self, region: slice | tuple[slice, ...]) -> NDArray[Any]:
        shape = self.image.level_grid(self.level).shape
        given = region if isinstance(region, tuple) else (region,)
        parts = (*given, *(slice(None) for _ in shape[len(given) :]))
        region = tuple(slice(*part.indices(n)[:2]) for part, n in zip(parts, shape, strict=True))
        return self.image.block(region, self.level)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.image.read(self.level), dtype=dtype)
