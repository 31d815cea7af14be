"""Writing OME-Zarr (NGFF 0.5 on Zarr 3): the description, and the arrays of all levels, cut into shards.

A shard is one file or object that holds many chunks: chunks are what a viewer reads, shards what a job writes. Numbers
are written by whoever fills the levels; here is only where they go.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.geometry import Grid
from warpgauge.io.files import require
from warpgauge.io.images.pyramid import halved_grid

_UNITS = {"um": "micrometer", "mm": "millimeter"}
CHUNK = {2: 512, 3: 64}  # elements along an axis of a chunk: 2^18 in all
_CHUNKS = {2: 8, 3: 4}  # chunks along an axis of a shard: 2^24 elements, 64 MB of float32
_FEWER_CHUNKS = 2  # for vectors, and where there would be too few shards to share among workers
_FEW_SHARDS = 8
_COMPRESSION = 3  # level of Zstandard

ShardIndex = tuple[int, ...]
"""Number of a shard along each axis ``[z, ]y, x``."""


@dataclass(frozen=True)
class Level:
    """One array of a multiscale image.

    ``path`` is its name in the group, ``"0"`` for the full resolution; ``components`` is 0 for one number per element,
    else the length of a first axis ``c``.
    """

    path: str
    grid: Grid
    components: int = 0

    @property
    def chunk(self) -> tuple[int, ...]:
        """Shape of a chunk along ``[z, ]y, x``."""
        return tuple(min(n, CHUNK[self.grid.d]) for n in self.grid.shape)

    @property
    def shard(self) -> tuple[int, ...]:
        """Shape of a shard along ``[z, ]y, x``: a whole number of chunks."""
        chunks = [-(-n // c) for n, c in zip(self.grid.shape, self.chunk, strict=True)]
        most = _CHUNKS[self.grid.d]
        if self.components or math.prod(-(-count // most) for count in chunks) < _FEW_SHARDS:
            most = _FEWER_CHUNKS
        return tuple(c * min(most, count) for c, count in zip(self.chunk, chunks, strict=True))

    def shards(self) -> Iterator[ShardIndex]:
        """Yield all shards in array order."""
        counts = (-(-n // s) for n, s in zip(self.grid.shape, self.shard, strict=True))
        yield from itertools.product(*(range(count) for count in counts))

    def region(self, shard: ShardIndex) -> tuple[slice, ...]:
        """Return the elements of a shard, those within the grid."""
        return tuple(
            slice(i * s, min((i + 1) * s, n)) for i, s, n in zip(shard, self.shard, self.grid.shape, strict=True)
        )

    def key(self, shard: ShardIndex) -> str:
        """Return the key of a shard in the store."""
        lead = ("0",) if self.components else ()
        return "/".join((self.path, "c", *lead, *map(str, shard)))


def levels_of(grid: Grid, components: int = 0) -> list[Level]:
    """Return the levels of a map on a grid: halved until one chunk holds it."""
    grids = [grid]
    while max(grids[-1].size) > CHUNK[grid.d]:
        grids.append(halved_grid(grids[-1]))
    return [Level(str(number), one, components) for number, one in enumerate(grids)]


def description(name: str, levels: Sequence[Level]) -> dict[str, Any]:
    """Return the attribute ``ome`` of a group with these levels."""
    components, grid = levels[0].components, levels[0].grid
    axes: list[dict[str, str]] = [{"name": "c", "type": "channel"}] if components else []
    for axis in "zyx"[3 - grid.d :]:
        unit = {"unit": _UNITS[grid.units]} if grid.units in _UNITS else {}
        axes.append({"name": axis, "type": "space", **unit})
    lead = [1.0] if components else []
    datasets = [
        {
            "path": level.path,
            "coordinateTransformations": [
                {"type": "scale", "scale": lead + level.grid.spacing[::-1].tolist()},
                {"type": "translation", "translation": [0.0] * len(lead) + level.grid.origin[::-1].tolist()},
            ],
        }
        for level in levels
    ]
    multiscale: dict[str, Any] = {"name": name, "axes": axes, "datasets": datasets}
    if len(levels) > 1:
        multiscale["type"] = "mean"  # of two elements along each axis
    return {"version": "0.5", "multiscales": [multiscale]}


def create_group(store: Any, name: str, levels: Sequence[Level], dtype: Any) -> None:
    """Write the description of a group and of its arrays into an empty store."""
    zarr = require("zarr", "zarr")
    group = zarr.create_group(store, zarr_format=3, attributes={"ome": description(name, levels)})
    for level in levels:
        lead = (level.components,) if level.components else ()
        group.create_array(
            level.path,
            shape=(*lead, *level.grid.shape),
            chunks=(*(1 for _ in lead), *level.chunk),
            shards=(*lead, *level.shard),
            dtype=dtype,
            fill_value=np.nan if np.dtype(dtype).kind == "f" else 0,
            compressors=zarr.codecs.ZstdCodec(level=_COMPRESSION),
            dimension_names=[*("c" for _ in lead), *"zyx"[3 - level.grid.d :]],
        )


def open_level(store: Any, level: Level) -> Any:
    """Open the array of a level for writing whole shards; a shard of nothing but NaN is written as well."""
    zarr = require("zarr", "zarr")
    return zarr.open_array(store, path=level.path, mode="r+", zarr_format=3, config={"write_empty_chunks": True})


def one_level(grid: Grid, components: int = 0) -> list[Level]:
    """Return the full resolution alone."""
    return [Level("0", grid, components)]
