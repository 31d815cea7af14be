"""`write_map`: finished maps as NIfTI, NRRD, OME-Zarr or TIFF, in the right frame."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import check_folder, replaced, require
from warpgauge.io.images.array_files import NRRD_TYPES, components_of, nifti_image, nrrd_header
from warpgauge.io.zarr_files import write_ome_zarr

_LEVEL = 4  # of gzip: higher levels rarely shrink numbers further


def write_map(array: ArrayLike, grid: Grid, path: str | os.PathLike[str], *, drop_frame: bool = False) -> Path:
    """Write the numbers of a map with the frame of its grid; return the file or folder. NaN stays NaN.

    One number per element, or components on the last axis (a displacement x, y[, z] in world units, LPS in 3D). The
    path ends in ``.nii``, ``.nii.gz``, ``.nrrd``, ``.zarr`` (a folder, OME-Zarr 0.5), ``.tif`` or ``.tiff`` (OME-TIFF);
    what is there is replaced only when the new one is complete. TIFF can hold the spacing only, and OME-Zarr no
    direction: a grid that needs more is refused, unless ``drop_frame`` says that the loss is meant.
    """
    values = np.asarray(array)
    file = Path(path)
    suffix = next((s for s in sorted(_WRITERS, key=len, reverse=True) if file.name.lower().endswith(s)), None)
    if suffix is None:
        raise InvalidInputError(f"{file.name!r} must end in {', '.join(_WRITERS)} to be written as a map.")
    _check(values, grid, file, suffix, drop_frame)
    check_folder(file)
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    with replaced(file) as place:
        _WRITERS[suffix](values, grid, place)
    return file


def _check(values: NDArray[Any], grid: Grid, file: Path, suffix: str, drop_frame: bool) -> None:
    if values.shape[: grid.d] != grid.shape or values.ndim > grid.d + 1:
        raise InvalidInputError(
            f"{file.name!r} is not written: an array of shape {values.shape} does not lie on a grid of shape "
            f"{grid.shape}."
        )
    if values.dtype != np.bool_ and values.dtype.str[1:] not in NRRD_TYPES:
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


def _nifti(values: NDArray[Any], grid: Grid, file: Path) -> None:
    import nibabel

    nibabel.save(nifti_image(values, grid), file)


def _nrrd(values: NDArray[Any], grid: Grid, file: Path) -> None:
    with file.open("wb") as stream:
        stream.write(nrrd_header(values, grid))
        with gzip.GzipFile(fileobj=stream, mode="wb", filename="", mtime=0, compresslevel=_LEVEL) as packed:
            for part in np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")):
                packed.write(part.tobytes())


def _tiff(values: NDArray[Any], grid: Grid, file: Path) -> None:
    tifffile = require("tifffile", "images")
    components = components_of(values, grid)
    metadata: dict[str, Any] = {"axes": ("C" if components else "") + "ZYX"[3 - grid.d :]}
    if grid.units != "px" or not np.all(grid.spacing == 1):
        for axis, size in zip("XYZ", grid.spacing, strict=False):
            metadata[f"PhysicalSize{axis}"] = float(size)
            metadata[f"PhysicalSize{axis}Unit"] = {"um": "µm", "mm": "mm"}.get(grid.units, "pixel")
    data = np.moveaxis(values, -1, 0) if components else values
    tifffile.imwrite(file, data, ome=True, photometric="minisblack", compression="zlib", metadata=metadata)


_WRITERS: dict[str, Callable[[NDArray[Any], Grid, Path], None]] = {
    ".nii": _nifti, ".nii.gz": _nifti, ".nrrd": _nrrd, ".zarr": write_ome_zarr, ".tif": _tiff, ".tiff": _tiff,
}  # fmt: skip
