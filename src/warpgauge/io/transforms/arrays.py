"""Arrays of vectors, in ``.npy`` and ``.npz`` files, in NIfTI of networks, and in memory: one table of conventions.

What an array means (normalised or not, displacements or positions, which axis is which) cannot be seen from its
numbers, so the caller names the convention; nothing is guessed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import existing_file, read_head, readable
from warpgauge.io.images.nifti import open_nifti
from warpgauge.io.numpy_files import read_array
from warpgauge.io.transforms.lattice import DisplacementField, Vectors
from warpgauge.io.transforms.meaning import (
    DISPLACEMENT,
    POSITION,
    AmbiguousFieldError,
    Meaning,
    Options,
    StoredField,
    as_floats,
    field_of,
)


class Array(NamedTuple):
    """What a convention says.

    ``first``: components on the first axis, else on the last. ``order``: components x, y[, z], or by the ``"axes"`` of
    the array. ``frame``: as in `meaning.FRAMES`. ``axes``: of files, where the programs always have the same.
    """

    first: bool
    order: str
    frame: str
    absolute: bool
    words: str
    axes: str = ""


_NETWORK = Array(True, "axes", "index", False, "displacements in voxels, component i along axis i, first axis")
_VOXELS = Array(False, "axes", "index", False, "displacements in voxels, component i along axis i, last axis")
ARRAYS: dict[str, Array] = {
    DISPLACEMENT: Array(False, "xyz", "world", False, "world displacements x, y[, z] on the last axis"),
    POSITION: Array(False, "xyz", "world", True, "moving world positions x, y[, z] on the last axis"),
    "voxels": _VOXELS,
    "learn2reg": _VOXELS._replace(axes="xyz"),
    "learn2reg-2020": _NETWORK._replace(axes="xyz"),  # may have half the resolution
    "voxelmorph": _NETWORK,
    "transmorph": _NETWORK,
    "monai": _NETWORK,
    "skimage": _NETWORK,
    "grid_sample": Array(False, "xyz", "edges", True, "positions from -1 to 1, x, y[, z] on the last axis"),
    "unigradicon": Array(True, "axes", "unit", True, "positions from 0 to 1, component i along axis i, first axis"),
}
CONVENTIONS: tuple[str, ...] = tuple(ARRAYS)
_WORLD, _OTHERS = (DISPLACEMENT, POSITION), ("voxels", "voxelmorph", "grid_sample", "unigradicon")  # tried at landmarks


def read_numpy(path: Path, options: Options) -> DisplacementField:
    """Read a field from ``.npy`` or ``.npz``; its vectors stand on the reference grid."""
    values = load_numpy(path, options.reference)
    return field_of_file(values, path.name, options)


def field_of_file(values: NDArray[Any], name: str, options: Options, axes: str | None = None) -> DisplacementField:
    """Return the field of an array in a file, whose ``axes`` the format may say."""
    grid = options.reference
    if grid is None:
        raise AmbiguousFileError(
            f"{name!r} holds numbers without a place in the world; give {say('reference')}, a Grid."
        )
    convention, order = _chosen(without_batch(values.shape, grid.d), name, grid, options, axes)
    if options.frame is not None and (ARRAYS[convention].frame != "world" or (options.frame == "RAS" and grid.d == 2)):
        raise InvalidInputError(
            f"{say('frame', options.frame)} is for world vectors (RAS in 3D), but {name!r} is read as {convention!r}; "
            "leave it out."
        )
    return field_of_array(values, convention, grid, options.moving, axes=order, ras=options.frame == "RAS", name=name)


def _chosen(shape: tuple[int, ...], name: str, grid: Grid, options: Options, axes: str | None) -> tuple[str, str]:
    """Return convention and axes of an array in a file; what is still open is asked for, with all that fits."""
    forward = "xyz"[: grid.d]
    asked = options.axes or axes
    if asked not in (None, forward, forward[::-1]):
        raise InvalidInputError(
            f"{say('axes')} of a {grid.d}D array is {forward!r} or {forward[::-1]!r}, got {asked!r}."
        )
    orders = [forward[::-1], forward] if asked is None else [asked]
    words = [options.convention] if options.convention else [*_WORLD, *(() if options.frame else _OTHERS)]
    fitting = [
        (word, order)
        for word in words
        for order in ([ARRAYS[word].axes] if ARRAYS[word].axes else orders)
        if _fits(shape, ARRAYS[word], word, grid, order)
    ]
    if not fitting:
        wanted = sorted({str(_shape(ARRAYS[word], grid, order)) for word in words for order in orders})
        raise FileFormatError(
            f"{name!r} holds an array of shape {shape[:8]}, but a field on the reference grid has the shape "
            f"{' or '.join(wanted)}."
        )
    if len(fitting) > 1:
        meanings = [
            Meaning(ARRAYS[word].words, {"convention": word} | ({} if axes or ARRAYS[word].axes else {"axes": order}))
            for word, order in fitting
        ]
        open_choices = [("convention", dict.fromkeys(word for word, _ in fitting))]
        open_choices.append(("axes", dict.fromkeys(order for _, order in fitting)))
        needed = [f"{say(option)} {' or '.join(values)}" for option, values in open_choices if len(values) > 1]
        raise AmbiguousFieldError(
            f"{name!r} holds numbers only, which do not say what they are; give {', and '.join(needed)}, for instance "
            f"for {meanings[0]}.",
            meanings,
        )
    return fitting[0]


def _shape(about: Array, grid: Grid, axes: str) -> tuple[int, ...]:
    sizes = dict(zip("xyz", grid.size, strict=False))
    spatial = tuple(sizes[axis] for axis in axes)
    return (grid.d, *spatial) if about.first else (*spatial, grid.d)


def _fits(shape: tuple[int, ...], about: Array, word: str, grid: Grid, axes: str) -> bool:
    if len(axes) != grid.d:
        return False
    whole = _shape(about, grid, axes)
    halves = (whole[0], *(n // 2 for n in whole[1:]))
    even = all(n % 2 == 0 for n in whole[1:])
    return shape == whole or (word == "learn2reg-2020" and even and shape == halves)


def field_of_array(
    values: NDArray[Any],
    convention: str,
    fixed: Grid,
    moving: Grid | None = None,
    *,
    axes: str | None = None,
    align_corners: bool = False,
    ras: bool = False,
    name: str = "",
) -> DisplacementField:
    """Return the field of an array on the fixed grid; a batch axis of 1 may come first.

    ``axes`` is the order of its spatial axes, ``"zyx"`` by default. ``ras`` says that world vectors are RAS.
    """
    about = ARRAYS[convention]
    order = axes or about.axes or "zyx"[3 - fixed.d :]
    if order not in ("zyx"[3 - fixed.d :], "xyz"[: fixed.d]):
        known = "zyx"[3 - fixed.d :]
        raise InvalidInputError(
            f"{say('axes')} of a {fixed.d}D array must be {known!r} or {known[::-1]!r}, got {order!r}."
        )
    array = values.reshape(without_batch(values.shape, fixed.d))
    if not _fits(array.shape, about, convention, fixed, order):
        raise InvalidInputError(
            f"An array of convention {convention!r} on a grid of size {' x '.join(map(str, fixed.size))} with axes "
            f"{order!r} has the shape {_shape(about, fixed, order)}, with or without a batch axis of 1 before it, not "
            f"{values.shape}."
        )
    frame = about.frame
    if frame == "edges" and align_corners:
        frame = "normalised"
    corners = f", align_corners={align_corners}" if convention == "grid_sample" else ""
    notes = [f"The array is read as {convention!r}{corners}, axes {order!r}: {about.words}, as the caller says."]
    if max(array.shape) < max(fixed.size):
        notes.append("The field has half the resolution of the fixed image; doubled with a quadratic spline.")
    vectors = _components_first(array, about, order, fixed)
    stored = StoredField(name, vectors, fixed, "RAS" if ras else frame, about.absolute, notes)
    return field_of(stored, moving)


def displacements_in_voxels(path: Path, convention: str, fixed: Grid) -> Vectors:
    """Return displacements of a file of Learn2Reg, (3, Z, Y, X): components x, y, z in voxels of the fixed image."""
    from warpgauge.io.transforms.volumes import nifti_array

    file = existing_file(path, "field")
    is_numpy = read_head(file, 6).startswith((b"PK", b"\x93NUMPY"))
    values = load_numpy(file) if is_numpy else nifti_array(open_nifti(file))
    about = ARRAYS[convention]
    if fixed.d != 3 or not _fits(values.shape, about, convention, fixed, "xyz"):
        raise FileFormatError(
            f"{path.name!r} holds an array of shape {values.shape}, but a field of convention {convention!r} on the "
            f"fixed image has the shape {_shape(about, fixed, 'xyz')}."
        )
    return _components_first(values, about, "xyz", fixed)


def _components_first(array: NDArray[Any], about: Array, axes: str, grid: Grid) -> Vectors:
    """Return vectors (d, *grid.shape) with components x, y[, z]."""
    from scipy.ndimage import zoom

    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"A field holds real numbers, but this array is of type {array.dtype.name}.")
    values = array if about.first else np.moveaxis(array, -1, 0)
    order = axes if about.order == "axes" else "xyz"[: grid.d]
    values = values[[order.index(axis) for axis in "xyz"[: grid.d]]]
    if axes[0] == "x":
        values = values.transpose(0, *range(grid.d, 0, -1))
    if values.shape[1:] != grid.shape:  # half the resolution, as the evaluation of Learn2Reg 2020 doubled it
        values = np.stack([zoom(part, 2, order=2) for part in values])
    return np.array(values, dtype=np.float32 if values.dtype == np.float32 else np.float64, order="C")


def load_numpy(path: Path, grid: Grid | None = None) -> Vectors:
    """Load the one array of a ``.npy`` or ``.npz`` file; one that cannot be a field on the grid is not unpacked."""

    def check(shape: tuple[int, ...]) -> None:
        numbers = None if grid is None else sorted((*grid.size, grid.d))
        halves = None if grid is None else sorted((*(n // 2 for n in grid.size), grid.d))
        if grid is not None and sorted(without_batch(shape, grid.d)) not in (numbers, halves):
            raise FileFormatError(
                f"{path.name!r} holds an array of shape {tuple(shape)[:8]}, but a field on the reference grid has "
                f"{' x '.join(map(str, grid.size))} nodes of {grid.d} numbers."
            )

    file = existing_file(path, "field")
    with readable(file, "a NumPy array"):
        values: Floats = read_array(file, check)
    return as_floats(values, file.name)


def without_batch(shape: tuple[int, ...], d: int) -> tuple[int, ...]:
    """Return the shape of an array of vectors in ``d`` dimensions without the batch axis of 1 that may come first."""
    return shape[1:] if len(shape) == d + 2 and shape[0] == 1 else shape
