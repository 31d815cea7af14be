"""Grids of displacements in MINC files (version 1 is netCDF, version 2 HDF5), as libminc evaluates them.

libminc interpolates by the cubic of Catmull and Rom where all of its 4 x 4 x 4 nodes exist, and linearly in the outer
cells; so does `MincGrid`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import foreign_decoder, read_head
from warpgauge.io.images.frame import frame_from_affine, resolve_grid
from warpgauge.io.limits import INFLATION, check_memory, size_on_disk
from warpgauge.io.transforms.base import Description, check_room
from warpgauge.io.transforms.field import LatticeTransform, Vectors
from warpgauge.io.transforms.field_files import as_floats
from warpgauge.io.transforms.itk import HDF5_SIGNATURE, own_member

_SPACE = ("xspace", "yspace", "zspace")
_VECTOR = "vector_dimension"
_CUBIC = np.array([[0, -0.5, 1, -0.5], [1, 0, -2.5, 1.5], [0, 0.5, 2, -1.5], [0, 0, -0.5, 0.5]])


class MincGrid(LatticeTransform):
    """Displacements of a MINC grid; see the module for the interpolation.

    Parameters
    ----------
    vectors : (3, z, y, x) array
        LPS millimetres.
    grid : Grid
        Where they stand.
    description : Description
        What is known of it.
    """

    def __init__(self, vectors: Vectors, grid: Grid, description: Description) -> None:
        super().__init__(vectors, grid, order=1, margin=0.0, absolute=False, description=description)

    def _interpolate(self, coordinates: Floats, out: Floats) -> None:
        super()._interpolate(coordinates, out)
        cell = np.floor(coordinates).astype(np.intp)
        last = np.array(self.grid.shape)[:, None] - 3
        inner = np.flatnonzero(((cell >= 1) & (cell <= last)).all(axis=0))
        start = cell[:, inner] - 1
        powers = (coordinates[:, inner] - cell[:, inner])[..., None] ** np.arange(4)
        weights = powers @ _CUBIC.T
        total = np.zeros((len(inner), 3))
        for offset in itertools.product(range(4), repeat=3):
            at = tuple(start[axis] + step for axis, step in enumerate(offset))
            weight = np.prod([weights[axis, :, step] for axis, step in enumerate(offset)], axis=0)
            total += weight[:, None] * self.vectors[(slice(None), *at)].T
        out[inner] = total


def read_minc_grid(path: Path, description: Description) -> MincGrid:
    """Read a volume of displacements: RAS millimetres at the nodes of a grid of the world."""
    with foreign_decoder(path, "a MINC file"):
        load = _load_hdf5 if read_head(path, 8).startswith(HDF5_SIGNATURE) else _load_netcdf
        names, values, axes = load(path)
        if sorted(names) != sorted((_VECTOR, *_SPACE)) or values.shape[names.index(_VECTOR)] != 3:
            raise FileFormatError(
                f"{path.name!r} has the axes {', '.join(names)} of sizes {values.shape}, but a grid of MINC has three "
                f"numbers along {_VECTOR} and the axes {', '.join(_SPACE)}."
            )
        order = [names.index(name) for name in (_VECTOR, *_SPACE[::-1])]
        vectors = as_floats(np.ascontiguousarray(values.transpose(order)), path.name)
        affine = np.eye(4)
        for axis, name in enumerate(_SPACE):
            step, start, cosines = axes[name]
            affine[:3, axis] = cosines * step
            affine[:3, 3] += cosines * start
        signs = np.array([-1.0, -1.0, 1.0])
        frame = frame_from_affine(path, np.diag([*signs, 1.0]) @ affine, vectors.shape[:0:-1], "mm")
        grid, _ = resolve_grid(frame, path, None, None)
    return MincGrid(vectors * signs.astype(vectors.dtype).reshape(3, 1, 1, 1), grid, description)


_Loaded = tuple[list[str], Any, dict[str, tuple[float, float, Floats]]]


def _load_netcdf(path: Path) -> _Loaded:
    from scipy.io import netcdf_file

    check_memory(path.name, 2 * path.stat().st_size, lambda: size_on_disk(path))
    with netcdf_file(path, "r", mmap=False) as store:
        image = store.variables["image"]
        limits = [store.variables[key].data for key in ("image-min", "image-max") if key in store.variables]
        values = _scaled(path, np.array(image.data), vars(image), limits)
        axes = {name: _axis(name, vars(store.variables[name])) for name in _SPACE if name in store.variables}
        return list(image.dimensions), values, axes


def _load_hdf5(path: Path) -> _Loaded:
    import h5py

    with h5py.File(path, "r") as store:
        root = own_member(store, "minc-2.0", path)
        dimensions = own_member(root, "dimensions", path)
        folder = own_member(own_member(root, "image", path), "0", path)
        image = own_member(folder, "image", path)
        needed, stored = int(image.size) * image.dtype.itemsize, image.id.get_storage_size()
        check_room(path.name, needed, stored * INFLATION, "the vectors")
        check_memory(path.name, 2 * needed, stored)
        limits = [own_member(folder, key, path)[()] for key in ("image-min", "image-max") if key in folder]
        values = _scaled(path, image[()], dict(image.attrs), limits)
        axes = {name: _axis(name, own_member(dimensions, name, path).attrs) for name in _SPACE if name in dimensions}
        return _text(image.attrs["dimorder"]).split(","), values, axes


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _axis(name: str, attributes: Any) -> tuple[float, float, Floats]:
    """Return step, start and direction of an axis."""
    if "irregular" in _text(attributes.get("spacing", "")):
        raise FileFormatError(f"The nodes of a grid of MINC are irregular along {name}, which is not read.")
    cosines = np.array(attributes.get("direction_cosines", np.eye(3)[_SPACE.index(name)]), dtype=np.float64)
    step, start = (float(attributes.get(key, missing)) for key, missing in (("step", 1.0), ("start", 0.0)))
    return step, start, cosines / np.linalg.norm(cosines)


def _scaled(path: Path, values: Any, attributes: Any, limits: list[Any]) -> Any:
    """Return real values: whole numbers of the valid range stand for those from image-min to image-max."""
    if values.dtype.kind == "f":
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    if len(limits) != 2 or "unsigned" in _text(attributes.get("signtype", "")):
        raise FileFormatError(
            f"{path.name!r} holds whole numbers without their range, or without a sign; write it with floating point, "
            f"for instance by mincreshape -float."
        )
    ends = np.iinfo(values.dtype)
    low, high = np.sort(np.asarray(attributes.get("valid_range", (ends.min, ends.max)), dtype=np.float64))
    least, most = (
        np.asarray(one, dtype=np.float64).reshape(*np.shape(one), *[1] * (values.ndim - np.ndim(one))) for one in limits
    )
    return (values - low) / (high - low) * (most - least) + least
