"""Fields in NumPy and Zarr arrays, which hold numbers only: the caller says the grid and the layout."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file, foreign_decoder, read_head, require
from warpgauge.io.transforms.dense_files import (
    StoredField,
    as_floats,
    choose_convention,
    choose_frame,
    finish_field,
)
from warpgauge.io.transforms.field import DisplacementField
from warpgauge.io.transforms.headers import INFLATION, check_room
from warpgauge.io.transforms.lattice import Vectors

LAYOUTS = {2: ("cxy", "xyc", "cyx", "yxc"), 3: ("cxyz", "xyzc", "czyx", "zyxc")}
_ZIP = b"PK"
_NPY = b"\x93NUMPY"


def read_array_field(
    path: Path,
    *,
    reference: Grid | None,
    moving: Grid | None,
    layout: str | None,
    components: str | None,
    frame: str | None,
    convention: str | None,
) -> DisplacementField:
    """Read a field from ``.npy``, ``.npz`` or Zarr.

    Parameters
    ----------
    path : Path
        The file or folder.
    reference : Grid
        The grid of the fixed image, on which the vectors stand.
    moving : Grid, optional
        That of the moving image, for ``frame="index"``.
    layout : str
        The axes in the order of the array with ``c`` for the components, for instance ``"zyxc"``.
    components : {"xyz", "zyx", "xy", "yx"}
        The order of the components.
    frame : {"LPS", "RAS", "index"}
        What the components are.
    convention : {"relative", "absolute"}
        Displacements (by default) or positions.
    """
    name = path.name
    if reference is None:
        raise AmbiguousFileError(f"{name!r} holds numbers without a place in the world; give reference=, a Grid.")
    axes, reverse = _layout(name, reference.d, layout, components)
    sizes = dict(zip("xyz", reference.size, strict=False)) | {"c": reference.d}
    wanted = tuple(sizes[axis] for axis in axes)
    zarr = path.is_dir()
    values = load_zarr(path, wanted) if zarr else load_numpy(path, wanted)
    # To components first, then array order z, y, x.
    order = [axes.index(axis) for axis in "c" + "zyx"[3 - reference.d :]]
    vectors = values.transpose(order)
    vectors = np.ascontiguousarray(vectors[::-1] if reverse else vectors)
    notes = [f"The array is read with axes {axes!r} and components {components!r}, as the caller says."]
    stored = StoredField(name, "Zarr" if zarr else "NumPy", vectors, reference, None, notes)
    chosen = choose_frame(stored, frame, "give frame='LPS', 'RAS' or 'index' (voxels)")
    absolute = choose_convention(name, convention, "relative")
    if convention is None:
        notes.append("The vectors are taken as displacements; give convention='absolute' for positions.")
    return finish_field(stored, chosen, absolute=absolute, moving=moving)


def _layout(name: str, d: int, layout: str | None, components: str | None) -> tuple[str, bool]:
    known = ", ".join(map(repr, LAYOUTS[d]))
    if layout is None:
        raise AmbiguousFileError(f"{name!r} does not say the order of its axes; give layout=, one of {known}.")
    if layout not in LAYOUTS[d]:
        raise InvalidInputError(f"layout= of a {d}D array must be one of {known}, got {layout!r}.")
    forward = "xyz"[:d]
    if components is None:
        raise AmbiguousFileError(
            f"{name!r} does not say the order of its components; give components={forward!r} or {forward[::-1]!r}."
        )
    if components not in (forward, forward[::-1]):
        raise InvalidInputError(f"components= must be {forward!r} or {forward[::-1]!r}, got {components!r}.")
    return layout, components != forward


def load_numpy(path: Path, wanted: tuple[int, ...] | None = None) -> Vectors:
    """Load the one array of a ``.npy`` or ``.npz`` file, of the wanted shape if one is given."""
    file = existing_file(path, "field")
    with foreign_decoder(file, "a NumPy array"):
        head = read_head(file, 6)
        if head.startswith(_ZIP):
            values = _from_zip(file, wanted)
        elif head == _NPY:
            with file.open("rb") as stream:
                values = _from_stream(stream, file.name, file.stat().st_size, wanted)
        else:
            raise FileFormatError(f"{file.name!r} is no NumPy file: it starts neither as .npy nor as .npz.")
    return as_floats(values, file.name)


def _from_zip(file: Path, wanted: tuple[int, ...] | None) -> np.ndarray[Any, np.dtype[Any]]:
    with zipfile.ZipFile(file) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if len(members) != 1:
            names = ", ".join(info.filename.removesuffix(".npy") for info in members[:5]) or "none"
            raise FileFormatError(f"{file.name!r} must hold one array, but holds {len(members)} ({names}).")
        room = min(members[0].file_size, file.stat().st_size * INFLATION)
        with archive.open(members[0]) as stream:
            return _from_stream(stream, file.name, room, wanted)


def _from_stream(stream: Any, name: str, room: int, wanted: tuple[int, ...] | None) -> np.ndarray[Any, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = header(stream)  # type: ignore[no-untyped-call]
    if dtype.hasobject:
        raise FileFormatError(f"{name!r} holds Python objects, which are not read; save plain numbers.")
    _check_shape(name, shape, wanted)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    check_room(name, count * dtype.itemsize, room, f"{count} numbers")
    data = stream.read(count * dtype.itemsize)
    check_room(name, count * dtype.itemsize, len(data), f"{count} numbers")
    array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if by_columns else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)


def _check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    if wanted is not None and tuple(shape) != wanted:
        raise FileFormatError(
            f"{name!r} holds an array of shape {tuple(shape)[:8]}, but the reference grid and the layout ask for "
            f"{wanted}."
        )


def load_zarr(path: Path, wanted: tuple[int, ...]) -> Vectors:
    """Load the one array of a Zarr folder; its shape is checked first, since missing chunks cost no room on disk."""
    zarr = require("zarr", "zarr")
    with foreign_decoder(path, "a Zarr array"):
        node = zarr.open(path, mode="r")
        if not hasattr(node, "dtype"):
            arrays = list(node.arrays())
            if len(arrays) != 1:
                raise FileFormatError(f"{path.name!r} must hold one Zarr array, but holds {len(arrays)}.")
            node = arrays[0][1]
        _check_shape(path.name, tuple(node.shape), wanted)
        values = np.asarray(node[...])
    return as_floats(values, path.name)
