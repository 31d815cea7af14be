"""`write_map`: the numbers of a map as NIfTI, NRRD, OME-Zarr or TIFF, in the right frame."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import require
from warpgauge.io.ome_zarr_levels import create_group, one_level, open_level
from warpgauge.io.stores import zarr_store
from warpgauge.io.transforms.ome_field import NOTE, VECTORS

_LEVEL = 4  # of gzip: higher levels rarely shrink numbers further
_NRRD_TYPES = {"f8": "double", "f4": "float", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16",
               "u4": "uint32", "i4": "int32"}  # fmt: skip


def write_map(array: ArrayLike, grid: Grid, path: str | os.PathLike[str], *, drop_frame: bool = False) -> Path:
    """Write the numbers of a map with the frame of its grid.

    Parameters
    ----------
    array : array of the grid's shape, or with one more axis
        One number an element, or components on the last axis (a displacement x, y[, z] in world units, LPS in 3D).
    grid : Grid
    path : path
        Ends in ``.nii``, ``.nii.gz``, ``.nrrd``, ``.zarr`` (a folder, OME-Zarr 0.5), ``.tif`` or ``.tiff`` (OME-TIFF).
    drop_frame : bool
        TIFF can hold the spacing only, and OME-Zarr no direction. A grid that needs more is refused, unless this
        says that the loss is meant.

    Returns
    -------
    Path
        The file or folder, which is replaced only when the new one is complete. NaN stays NaN.
    """
    values = np.asarray(array)
    file = Path(path)
    suffix = next((s for s in sorted(_WRITERS, key=len, reverse=True) if file.name.lower().endswith(s)), None)
    if suffix is None:
        raise InvalidInputError(f"{file.name!r} must end in {', '.join(_WRITERS)} to be written as a map.")
    _check(values, grid, file, suffix, drop_frame)
    if not file.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into; make it first.")
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    temporary = Path(tempfile.mkdtemp(dir=file.parent, prefix=f".{file.name}."))
    try:
        _WRITERS[suffix](values, grid, temporary / file.name)
        if file.is_dir():
            shutil.rmtree(file)
        (temporary / file.name).replace(file)
    except OSError as error:
        raise InvalidInputError(f"{file.name!r} cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return file


def _check(values: NDArray[Any], grid: Grid, file: Path, suffix: str, drop_frame: bool) -> None:
    if values.shape[: grid.d] != grid.shape or values.ndim > grid.d + 1:
        raise InvalidInputError(
            f"{file.name!r} is not written: an array of shape {values.shape} does not lie on a grid of shape "
            f"{grid.shape}."
        )
    if values.dtype != np.bool_ and values.dtype.str[1:] not in _NRRD_TYPES:
        raise InvalidInputError(
            f"{file.name!r} is not written: maps are float32, float64, bool or integers of up to 32 bits, not "
            f"{values.dtype.name}."
        )
    turned = not np.array_equal(grid.direction, np.eye(grid.d))
    moved = suffix in (".tif", ".tiff") and bool(np.any(grid.origin != 0))
    if (turned or moved) and suffix in (".zarr", ".tif", ".tiff") and not drop_frame:
        lost = "the direction of its axes" if turned else "its origin"
        raise InvalidInputError(
            f"{file.name!r} is not written: this format cannot hold {lost}; write .nrrd or .nii.gz"
            f"{'' if turned else ' or .zarr'}, or pass drop_frame=True."
        )


def _components(values: NDArray[Any], grid: Grid) -> int:
    return int(values.shape[-1]) if values.ndim > grid.d else 0


def _nifti(values: NDArray[Any], grid: Grid, file: Path) -> None:
    """World RAS; components as (X, Y, Z, 1, c) with intent vector, as ITK lays them out."""
    import nibabel

    affine = np.eye(4)
    affine[: grid.d, : grid.d] = grid.affine[: grid.d, : grid.d]
    affine[: grid.d, 3] = grid.origin
    if grid.d == 2 and np.linalg.det(grid.direction) < 0:
        affine[2, 2] = -1.0  # a quaternion holds any handedness by the sign of the third axis alone
    components = _components(values, grid)
    data = values.T
    if components:
        data = np.moveaxis(data, 0, -1).reshape(*grid.size, *((1,) * (4 - grid.d)), components)
    image = nibabel.Nifti1Image(data, np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine, dtype=values.dtype)
    if components:
        image.header.set_intent(1007)
    image.set_sform(image.affine, 1)
    image.set_qform(image.affine, 1)
    image.header.set_xyzt_units({"px": 0, "um": 3}.get(grid.units, 2))
    nibabel.save(image, file)


def _nrrd(values: NDArray[Any], grid: Grid, file: Path) -> None:
    components = _components(values, grid)
    columns = (grid.direction * grid.spacing).T
    directions = " ".join(f"({','.join(repr(float(x)) for x in column)})" for column in columns)
    sizes = " ".join(map(str, grid.size))
    lines = [
        "NRRD0004",
        f"type: {_NRRD_TYPES[values.dtype.str[1:]]}",
        f"dimension: {grid.d + bool(components)}",
        "space: left-posterior-superior" if grid.d == 3 else "space dimension: 2",
        f"sizes: {f'{components} ' if components else ''}{sizes}",
        f"space directions: {'none ' if components else ''}{directions}",
        f"kinds: {'vector ' if components else ''}{' '.join(['domain'] * grid.d)}",
        "endian: little",
        "encoding: gzip",
        f"space origin: ({','.join(repr(float(x)) for x in grid.origin)})",
    ]
    if grid.units in ("um", "mm"):
        lines.append("space units: " + " ".join([f'"{grid.units}"'] * grid.d))
    with file.open("wb") as stream:
        stream.write(("\n".join(lines) + "\n\n").encode("ascii"))
        with gzip.GzipFile(fileobj=stream, mode="wb", filename="", mtime=0, compresslevel=_LEVEL) as packed:
            for part in np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")):
                packed.write(part.tobytes())


def _zarr(values: NDArray[Any], grid: Grid, file: Path) -> None:
    components = _components(values, grid)
    (level,) = one_level(grid, components)
    store = zarr_store(file, read_only=False)
    create_group(
        store, file.name.partition(".")[0], [level], values.dtype, {NOTE: VECTORS} if components == grid.d else {}
    )
    open_level(store, level)[...] = np.moveaxis(values, -1, 0) if components else values


def _tiff(values: NDArray[Any], grid: Grid, file: Path) -> None:
    tifffile = require("tifffile", "images")
    components = _components(values, grid)
    metadata: dict[str, Any] = {"axes": ("C" if components else "") + "ZYX"[3 - grid.d :]}
    if grid.units != "px" or not np.all(grid.spacing == 1):
        for axis, size in zip("XYZ", grid.spacing, strict=False):
            metadata[f"PhysicalSize{axis}"] = float(size)
            metadata[f"PhysicalSize{axis}Unit"] = {"um": "µm", "mm": "mm"}.get(grid.units, "pixel")
    data = np.moveaxis(values, -1, 0) if components else values
    tifffile.imwrite(file, data, ome=True, photometric="minisblack", compression="zlib", metadata=metadata)


_WRITERS: dict[str, Callable[[NDArray[Any], Grid, Path], None]] = {
    ".nii": _nifti, ".nii.gz": _nifti, ".nrrd": _nrrd, ".zarr": _zarr, ".tif": _tiff, ".tiff": _tiff,
}  # fmt: skip
