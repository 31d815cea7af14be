"""Fields in NumPy and Zarr arrays, which hold numbers only: the caller supplies the grid and the layout."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, Message, say
from warpgauge.io.files import existing_file, foreign_decoder
from warpgauge.io.limits import check_memory, size_on_disk
from warpgauge.io.numpy_files import read_array
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Format, Options
from warpgauge.io.transforms.field import DisplacementField, Vectors
from warpgauge.io.transforms.field_files import StoredField, as_floats, choose_convention, choose_frame, finish_field
from warpgauge.io.zarr_arrays import array_folders, open_array

LAYOUTS = {2: ("cxy", "xyc", "cyx", "yxc"), 3: ("cxyz", "xyzc", "czyx", "zyxc")}


def read_array_field(path: Path, options: Options) -> DisplacementField:
    """Read a field from ``.npy``, ``.npz`` or Zarr; its vectors stand on the reference grid.

    The layout and the order of the components have to be given: the axes as in ``"zyxc"``, with ``c`` for the
    components, and these as in ``"xyz"``.
    """
    name, reference, components = path.name, options.reference, options.components
    if reference is None:
        raise AmbiguousFileError(
            f"{name!r} holds numbers without a place in the world; give {say('reference')}, a Grid."
        )
    axes, reverse = _layout(name, reference.d, options.layout, components)
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
    chosen = choose_frame(stored, options.frame, f"give {say('frame', 'LPS')}, 'RAS' or 'index' (voxels)")
    absolute = choose_convention(name, options.convention, "relative")
    if options.convention is None:
        notes.append(
            Message(f"The vectors are taken as displacements; give {say('convention', 'absolute')} for positions.")
        )
    return finish_field(stored, chosen, absolute=absolute, moving=options.moving)


def _layout(name: str, d: int, layout: str | None, components: str | None) -> tuple[str, bool]:
    known = ", ".join(map(repr, LAYOUTS[d]))
    if layout is None:
        raise AmbiguousFileError(f"{name!r} does not say the order of its axes; give {say('layout')}, one of {known}.")
    if layout not in LAYOUTS[d]:
        raise InvalidInputError(f"{say('layout')} of a {d}D array must be one of {known}, got {layout!r}.")
    forward = "xyz"[:d]
    if components is None:
        raise AmbiguousFileError(
            f"{name!r} does not say the order of its components; give {say('components', forward)} or "
            f"{forward[::-1]!r}."
        )
    if components not in (forward, forward[::-1]):
        raise InvalidInputError(f"{say('components')} must be {forward!r} or {forward[::-1]!r}, got {components!r}.")
    return layout, components != forward


def load_numpy(path: Path, wanted: tuple[int, ...] | None = None) -> Vectors:
    """Load the one array of a ``.npy`` or ``.npz`` file, of the wanted shape if one is given."""
    file = existing_file(path, "field")
    with foreign_decoder(file, "a NumPy array"):
        values = read_array(file, lambda shape: _check_shape(file.name, shape, wanted))
    return as_floats(values, file.name)


def _check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    if wanted is not None and tuple(shape) != wanted:
        raise FileFormatError(
            f"{name!r} holds an array of shape {tuple(shape)[:8]}, but the reference grid and the layout ask for "
            f"{wanted}."
        )


def load_zarr(path: Path, wanted: tuple[int, ...]) -> Vectors:
    """Load the one array of a Zarr folder; its shape is checked first, since missing chunks cost no room on disk."""
    with foreign_decoder(path, "a Zarr array"):
        arrays = array_folders(path)
        if len(arrays) != 1:
            raise FileFormatError(f"{path.name!r} must hold one Zarr array, but holds {len(arrays)}.")
        node = open_array(arrays[0], lambda shape: _check_shape(path.name, shape, wanted))
        check_memory(path.name, math.prod(node.shape) * node.dtype.itemsize, lambda: size_on_disk(path))
        values = np.asarray(node[...])
    return as_floats(values, path.name)


TAKES = frozenset({"layout", "components", "convention", "frame"})
FORMAT = Format(
    "numpy",
    read_array_field,
    lambda head, suffix: BY_SIGNATURE if head.startswith((b"\x93NUMPY", b"PK\x03\x04")) else NO,
    TAKES,
    on_reference=True,
)
