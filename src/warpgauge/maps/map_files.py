"""Maps on disk: `write_map` for finished ones, `Checkpoint` for one that is filled block by block.

Finished maps are written as NIfTI, NRRD, OME-Zarr or TIFF, in the right frame. A checkpoint survives an interruption:
it is an ``.npy`` file and a note of what is done (the same name with ``.json`` behind it). The note carries a key, a
hash of everything the values depend on. A note with another key belongs to another map and is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import replace_file, require
from warpgauge.io.ome_zarr_levels import create_group, one_level, open_level
from warpgauge.io.stores import zarr_store
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.ome_field import NOTE, VECTORS

_LEVEL = 4  # of gzip: higher levels rarely shrink numbers further
_NRRD_TYPES = {"f8": "double", "f4": "float", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16",
               "u4": "uint32", "i4": "int32"}  # fmt: skip


def write_map(array: ArrayLike, grid: Grid, path: str | os.PathLike[str], *, drop_frame: bool = False) -> Path:
    """Write the numbers of a map with the frame of its grid.

    Parameters
    ----------
    array : array of the grid's shape, or with one more axis
        One number per element, or components on the last axis (a displacement x, y[, z] in world units, LPS in 3D).
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


_SCHEMA = 1
_open_memmap: Any = np.lib.format.open_memmap  # numpy gives it no types
_PROBES = 64  # points at which a transform's values enter the key: two transforms may share a description


def map_key(kind: str, posterior: Posterior, grid: Grid, transform: Transform | None = None, **settings: Any) -> str:
    """Hash of what a map depends on: posterior, grid, the transform's description and values, and settings.

    Parameters
    ----------
    kind : str
        Name of the map.
    posterior : Posterior
    grid : Grid
    transform : Transform, optional
        Its description and its values at some points of the grid enter.
    settings
        Further plain values.
    """
    probes = grid.index_to_world(_spread_indices(grid))
    prior, given = posterior.prior, posterior.annotations
    plain = {
        "schema": _SCHEMA,
        "kind": kind,
        "settings": settings,
        "kernel": [prior.kernel.family, prior.kernel.scales.tolist(), prior.kernel.weights.tolist()],
        "prior": [prior.mean if isinstance(prior.mean, str) else "callable", prior.noise, prior.linear_sd],
        "center": None if prior.center is None else np.asarray(prior.center, dtype=np.float64).tolist(),
        "translation_sd": prior.translation_sd,
        "tails": prior.tails,
        "scale": posterior.scale,
        "size": list(grid.size),
        "affine": grid.affine.tolist(),
        "units": grid.units,
        "description": None if transform is None else asdict(transform.description),
    }
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode())
    for array in (given.fixed_points, given.moving_points, given.covariances, posterior.mean(probes)):
        digest.update(np.ascontiguousarray(array).tobytes())
    if transform is not None:
        digest.update(np.ascontiguousarray(transform.map(probes)).tobytes())
    return f"sha256:{digest.hexdigest()}"


def _spread_indices(grid: Grid) -> Floats:
    """Return some indices all over the grid, always the same ones."""
    rng = np.random.default_rng(0)
    return np.asarray(rng.uniform(0, 1, (_PROBES, grid.d)) * (np.asarray(grid.size) - 1))


class Checkpoint:
    """The array of a map on disk, and which of its blocks are finished.

    Parameters
    ----------
    path : path
        The ``.npy`` file; the note lies next to it.
    shape : tuple of int
        Shape of the array, float64.
    key : str
        From `map_key`.
    """

    def __init__(self, path: str | os.PathLike[str], shape: tuple[int, ...], key: str) -> None:
        self.path = Path(path)
        if self.path.suffix != ".npy":
            raise InvalidInputError(f"A resumable map is kept in a file that ends in .npy, not {self.path.name!r}.")
        if not self.path.parent.is_dir():
            raise InvalidInputError(f"There is no folder {str(self.path.parent)!r} to keep the map in; make it first.")
        self.note = self.path.with_name(self.path.name + ".json")
        self._key = key
        self.finished = self._finished_blocks() if self.note.is_file() else set()
        try:
            self.array = self._opened(shape)
        except OSError as error:
            raise InvalidInputError(f"{self.path.name!r} cannot be written: {error.strerror or error}.") from error

    def _finished_blocks(self) -> set[int]:
        try:
            note = json.loads(self.note.read_text("utf-8"))
            key, blocks = note["key"], {int(block) for block in note["finished"]}
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"{self.note.name!r} is not the note of a resumable map; delete it and {self.path.name!r} to start "
                f"anew."
            ) from error
        if key != self._key:
            raise InvalidInputError(
                f"{self.path.name!r} belongs to a map of another posterior, grid, transform or setting; delete it and "
                f"{self.note.name!r} to start again, or give another file."
            )
        return blocks

    def _opened(self, shape: tuple[int, ...]) -> Any:
        if self.finished and self.path.is_file():
            try:
                array = _open_memmap(self.path, mode="r+")
            except ValueError as error:
                raise FileFormatError(
                    f"{self.path.name!r} is damaged; delete it and {self.note.name!r} to start again."
                ) from error
            if array.shape != shape or array.dtype != np.float64:
                raise FileFormatError(
                    f"{self.path.name!r} has shape {array.shape} instead of {shape}; delete it to start again."
                )
            return array
        self.finished = set()
        return _open_memmap(self.path, mode="w+", dtype=np.float64, shape=shape)

    def finish(self, block: int) -> None:
        """Note that a block is on disk: first its numbers, then the note, so that the note never promises too much."""
        self.array.flush()
        self.finished.add(block)
        replace_file(self.note, json.dumps({"key": self._key, "finished": sorted(self.finished)}).encode())
