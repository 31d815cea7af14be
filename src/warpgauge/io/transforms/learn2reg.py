"""Displacement fields of the Learn2Reg challenges: voxels of the fixed image, in two layouts.

The current one is (X, Y, Z, 3) at full resolution. That of 2020 is (3, X, Y, Z), for some tasks at half resolution;
the evaluation of the challenge doubled it with a quadratic spline, and so does this reader.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file, read_head
from warpgauge.io.transforms.array_fields import load_numpy
from warpgauge.io.transforms.base import Format, Options
from warpgauge.io.transforms.field import DisplacementField, Vectors
from warpgauge.io.transforms.field_files import StoredField, finish_field, with_reference
from warpgauge.io.transforms.image_fields import load_nifti, load_nifti_array

_LAYOUTS = ("current", "2020")


def read_learn2reg(path: Path, options: Options) -> DisplacementField:
    """Read a field of Learn2Reg, ``.npz`` or NIfTI.

    The layout has to be given. The reference is not needed where a NIfTI file says where its nodes lie; the moving
    image has the same grid by default, as in the challenge.
    """
    layout, reference = options.layout, options.reference
    file = existing_file(path, "field")
    if layout is None:
        raise AmbiguousFileError(
            f"{file.name!r}: give {say('layout', 'current')} for (X, Y, Z, 3) or '2020' for (3, X, Y, Z)."
        )
    if layout not in _LAYOUTS:
        raise InvalidInputError(f"{say('layout')} of a Learn2Reg field is 'current' or '2020', got {layout!r}.")
    packed = read_head(file, 2) == b"PK"
    vectors = _components_first(file, layout, packed)
    notes = [f"Learn2Reg layout {layout!r}: displacements in voxels of the fixed image, added to its indices."]
    if reference is None:
        reference = _own_grid(file, packed, layout)
    vectors = _at_full_size(vectors, reference, layout, file.name, notes)
    notes.append("Interpolated linearly; the challenge's own evaluation takes a cubic spline at landmarks.")
    stored = StoredField(file.name, "Learn2Reg", vectors, reference, "index", notes)
    return finish_field(stored, "index", moving=options.moving)


def displacements_in_voxels(path: Path, layout: str, reference: Grid) -> Vectors:
    """Return displacements at full size, (3, Z, Y, X): components x, y, z in voxels of the fixed image."""
    file = existing_file(path, "field")
    vectors = _components_first(file, layout, read_head(file, 2) == b"PK")
    return _at_full_size(vectors, reference, layout, file.name, [])


def _components_first(file: Path, layout: str, packed: bool) -> Vectors:
    """Load (3, Z, Y, X), whichever the layout."""
    if packed:
        values = load_numpy(file)
    else:
        reversed_values, size = load_nifti_array(file)
        values = reversed_values.transpose(range(len(size) - 1, -1, -1))
    axis = 3 if layout == "current" else 0
    if values.ndim != 4 or values.shape[axis] != 3:
        wanted = "(X, Y, Z, 3)" if layout == "current" else "(3, X, Y, Z)"
        raise FileFormatError(
            f"{file.name!r} has shape {values.shape}, but the layout {layout!r} of Learn2Reg is {wanted}."
        )
    first = np.moveaxis(values, axis, 0)
    return np.ascontiguousarray(first.transpose(0, 3, 2, 1))


def _own_grid(file: Path, packed: bool, layout: str) -> Grid:
    if packed or layout == "2020":
        raise AmbiguousFileError(
            f"{file.name!r} does not say where its voxels lie; give {say('reference')}, the fixed grid."
        )
    stored = with_reference(load_nifti(file), None)
    if np.array_equal(np.abs(stored.grid.affine), np.eye(4)):
        raise AmbiguousFileError(
            f"{file.name!r} has the identity as its matrix, as fields saved without a header have; give "
            f"{say('reference')}, the fixed grid."
        )
    return stored.grid


def _at_full_size(vectors: Vectors, reference: Grid, layout: str, name: str, notes: list[str]) -> Vectors:
    from scipy.ndimage import zoom

    if reference.d != 3:
        raise InvalidInputError(f"Learn2Reg fields are 3D, but the reference grid is {reference.d}D.")
    if vectors.shape[1:] == reference.shape:
        return vectors
    if layout == "2020" and tuple(2 * n for n in vectors.shape[1:]) == reference.shape:
        notes.append("The field has half the resolution of the reference; doubled with a quadratic spline.")
        return np.stack([zoom(part, 2, order=2) for part in vectors])
    raise FileFormatError(
        f"{name!r} has {' x '.join(map(str, vectors.shape[:0:-1]))} voxels, but the reference grid has "
        f"{' x '.join(map(str, reference.size))}."
    )


FORMAT = Format("learn2reg", read_learn2reg, takes=frozenset({"layout"}), on_reference=True)
