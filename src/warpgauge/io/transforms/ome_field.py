"""Dense fields as OME-Zarr: displacements with the components on the channel axis, at the places that it describes.

The attribute ``warpgauge`` says what the vectors are, since OME-Zarr 0.5 has no word for it: ``"vectors":
"displacements"`` (world units, components x, y[, z], LPS in 3D) and, where the axes are turned, their ``"direction"``.
A field that is too large for memory is read in blocks, where its points lie.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, SuspiciousDataWarning, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import foreign_decoder, replaced, require
from warpgauge.io.images.frame import resolve_grid
from warpgauge.io.images.ome_zarr import open_vectors
from warpgauge.io.ome_zarr_levels import create_group, one_level, open_level
from warpgauge.io.transforms.array_fields import TAKES, read_array_field
from warpgauge.io.transforms.base import Description, Format, Options, Transform, never
from warpgauge.io.transforms.field import DisplacementField, field_description
from warpgauge.io.transforms.field_files import (
    StoredField,
    as_floats,
    choose_convention,
    choose_frame,
    finish_field,
    world_word,
)
from warpgauge.io.zarr_arrays import zarr_attributes

NOTE = "warpgauge"
VECTORS = {"vectors": "displacements"}
_WHOLE = 2**28  # bytes of a field that is read at once
_BLOCK = 96  # nodes along an axis of a block that is read
_KEPT = 32  # blocks


def is_ome(place: Path) -> bool:
    """Return whether a Zarr hierarchy is described as an OME-Zarr image."""
    found = zarr_attributes(place)
    return "multiscales" in found or "ome" in found


def read_ome_field(place: Path, options: Options) -> Transform:
    """Read the field of an OME-Zarr group; what it does not say has to be given."""
    name, components = place.name, options.components
    note = zarr_attributes(place).get(NOTE)
    known = isinstance(note, dict) and note.get("vectors") == VECTORS["vectors"]
    with foreign_decoder(place, "an OME-Zarr field"):
        array, stored = open_vectors(place)
    # Without a unit, places are in that of the images, as in every other file of a field.
    grid, notes = resolve_grid(replace(stored, units=stored.units or "px"), place, None, None)
    if isinstance(note, dict) and "direction" in note:
        grid = _turned(name, grid, note["direction"])
    forward = "xyz"[: grid.d]
    if components is None and not known:
        raise AmbiguousFileError(
            f"{name!r} does not say the order of its components; give {say('components', forward)} or "
            f"{forward[::-1]!r}."
        )
    if components not in (None, forward, forward[::-1]):
        raise InvalidInputError(f"{say('components')} must be {forward!r} or {forward[::-1]!r}, got {components!r}.")
    about = StoredField(name, "OME-Zarr", np.empty(0), grid, "LPS" if known else None, notes)
    chosen = choose_frame(about, options.frame, f"give {say('frame', world_word(grid.d))} or 'index' (voxels)")
    absolute = choose_convention(name, options.convention, "relative")
    plain = chosen == "LPS" and not absolute and components in (None, forward)
    if plain and math.prod(array.shape) * array.dtype.itemsize > _WHOLE:
        return LargeField(place, grid, notes)
    with foreign_decoder(place, "an OME-Zarr field"):
        about.vectors = as_floats(np.asarray(array[...]), name)
    if components == forward[::-1]:
        about.vectors = np.ascontiguousarray(about.vectors[::-1])
    return finish_field(about, chosen, absolute=absolute, moving=options.moving)


def _turned(name: str, grid: Grid, direction: Any) -> Grid:
    try:
        return Grid(grid.size, grid.spacing, grid.origin, np.asarray(direction, dtype=np.float64), grid.units)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{name!r} has a direction that is not one; it is damaged.") from error


class LargeField(Transform):
    """A field of displacements that stays in its file: blocks of it are read where points lie.

    Sent to another process, it is opened there again.
    """

    def __init__(self, place: Path, grid: Grid, notes: list[str]) -> None:
        words = ("The field maps fixed points to moving points and is read in blocks.", *notes)
        about = field_description("OME-Zarr", units=grid.units, source=place.name, assumptions=words)
        super().__init__(about, grid.d, grid)
        self._place, self.grid, self._notes = place, grid, notes
        self._array, _ = open_vectors(place)
        self._block = lru_cache(maxsize=_KEPT)(self._read)

    def __reduce__(self) -> tuple[Any, ...]:
        return LargeField, (self._place.resolve(), self.grid, self._notes)

    def described(self, **changes: Any) -> Transform:
        """Return the same transform with other words in its description."""
        twin = LargeField(self._place, self.grid, self._notes)
        twin._description = Description(**{**self._description.__dict__, **changes})
        return twin

    def _read(self, cell: tuple[int, ...]) -> DisplacementField:
        """Return the part of the field from the first node of a cell to the first of the next."""
        region = tuple(
            slice(i * _BLOCK, min((i + 1) * _BLOCK + 1, n)) for i, n in zip(cell, self.grid.shape, strict=True)
        )
        with foreign_decoder(self._place.name, "an OME-Zarr field"):
            vectors = as_floats(np.asarray(self._array[(slice(None), *region)]), self._place.name)
        low = [part.start for part in region][::-1]
        origin = self.grid.index_to_world(low)
        part = Grid(vectors.shape[:0:-1], self.grid.spacing, origin, self.grid.direction, self.grid.units)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuspiciousDataWarning)  # gaps of a part say nothing about the whole
            return DisplacementField(np.ascontiguousarray(vectors), part)

    def _map(self, points: Floats) -> Floats:
        mapped = np.full(points.shape, np.nan)
        for cell, rows in self._cells(points):
            mapped[rows] = self._block(cell).map(points[rows])
        return mapped

    def _cells(self, points: Floats) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Group points by the block that holds them; those outside belong to none."""
        index = self.grid.array_coordinates(points).T
        last = np.asarray(self.grid.shape) - 1
        inside = np.flatnonzero(np.all((index > -0.5) & (index < last + 0.5), axis=1))
        if not len(inside):
            return
        # The last node alone is no block: it belongs to the one before.
        most = np.maximum(last - 1, 0) // _BLOCK
        cells = np.clip(np.floor(index[inside] / _BLOCK).astype(np.int64), 0, most)
        flat = np.ravel_multi_index(tuple(cells.T), tuple(most + 1))
        order = np.argsort(flat, kind="stable")
        bounds = np.flatnonzero(np.diff(flat[order], prepend=-1, append=-1))
        for start, stop in itertools.pairwise(bounds):
            rows = inside[order[start:stop]]
            yield tuple(int(i) for i in cells[order[start]]), rows


def check_outside(outside: int, grid: Grid, name: str) -> None:
    """Warn of nodes at which the transform is not defined, or refuse a field that has no others."""
    if outside == grid.count:
        raise InvalidInputError(f"{name!r} is not written: the transform is defined at none of the {outside} nodes.")
    if outside:
        warnings.warn(
            f"{name}: {outside} of {grid.count} nodes lie outside the transform's domain and are written as NaN.",
            SuspiciousDataWarning,
            stacklevel=4,
        )


def write_ome_field(transform: Transform, file: Path, grid: Grid) -> None:
    """Sample a transform on a grid and write its displacements, a shard at a time."""
    (level,) = one_level(grid, grid.d)
    note: dict[str, Any] = dict(VECTORS)
    if not np.array_equal(grid.direction, np.eye(grid.d)):
        note["direction"] = grid.direction.tolist()
    outside = 0
    with replaced(file) as place:
        store = require("zarr.storage", "zarr").LocalStore(place)
        create_group(store, file.name.partition(".")[0], [level], np.float64, {NOTE: note})
        array = open_level(store, level)
        for shard in level.shards():
            region = level.region(shard)
            points = grid.region_points(region)
            vectors = transform.map(points) - points
            outside += int(np.count_nonzero(np.isnan(vectors[:, 0])))
            shape = tuple(part.stop - part.start for part in region)
            array[(slice(None), *region)] = vectors.T.reshape(grid.d, *shape)
        check_outside(outside, grid, file.name)


def _read_zarr(place: Path, options: Options) -> Transform:
    """Read an OME-Zarr field where it stands; a bare array, or one whose layout is given, on the reference grid."""
    if options.layout is None and is_ome(place):
        return read_ome_field(place, options)
    return read_array_field(place, options)


# A folder, which is recognised by its description files.
ZARR = Format("zarr", _read_zarr, never, TAKES, on_reference=True)
