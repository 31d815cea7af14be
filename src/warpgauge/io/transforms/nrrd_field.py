"""Vector-valued NRRD files, as ITK and Slicer write displacement fields."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import existing_file, foreign_decoder
from warpgauge.io.images.frame import resolve_grid
from warpgauge.io.images.nrrd_frame import nrrd_frame
from warpgauge.io.images.nrrd_image import Fields, header_fields, header_sizes, sample_type, stored_samples
from warpgauge.io.transforms.dense_files import StoredField, as_floats, components_first
from warpgauge.io.transforms.lattice import Vectors

FORMAT = "NRRD"
_SPATIAL = ("domain", "space")
_LPS = ("left-posterior-superior", "lps")


def load_nrrd(path: Path) -> StoredField:
    """Load vectors and grid of a NRRD file.

    The vectors are in the space that the file names. ITK takes their components as they are, so only LPS (and 2D)
    files are clear; another space leaves the frame of the vectors open.
    """
    existing_file(path, "field")
    with foreign_decoder(path, "a NRRD field"):
        fields, header_end = header_fields(path)
        sizes = header_sizes(path, fields)
        axis, spatial = _axes(path, fields, sizes)
        size = tuple(sizes[i] for i in spatial)
        notes: list[str] = []
        grid, more = resolve_grid(nrrd_frame(path, fields, spatial, size, notes), path, None, None)
        shape = tuple(sizes[::-1])
        read, _ = stored_samples(path, fields, header_end, sample_type(path, fields), shape)
        values = as_floats(read(tuple(slice(None) for _ in shape)), path.name)
        vectors = _ordered(values, axis)
    return StoredField(path.name, FORMAT, vectors, grid, _vector_frame(fields, len(size)), [*notes, *more])


def _axes(path: Path, fields: Fields, sizes: list[int]) -> tuple[int, list[int]]:
    """Find the axis of the components, first or last in the file, and the spatial axes."""
    kinds = fields.get("kinds", "").lower().split()
    d = len(sizes) - 1
    if d not in (2, 3) or "space directions" not in fields:
        raise FileFormatError(
            f"{path.name!r} has {len(sizes)} axes {'and no space directions ' * ('space directions' not in fields)}"
            f"but a NRRD field has 3 axes in 2D or 4 in 3D, and says where they lie."
        )
    directions = re.findall(r"\([^()]*\)|\S+", fields["space directions"])
    for axis in (0, d):
        loose = len(directions) == d + 1 and directions[axis].lower() == "none"
        named = len(kinds) == d + 1 and kinds[axis] not in _SPATIAL
        if sizes[axis] == d and (loose or named):
            return axis, [i for i in range(d + 1) if i != axis]
    raise FileFormatError(
        f"{path.name!r} has the sizes {sizes}, but a field has an axis of {d} components without a space direction, "
        f"first or last."
    )


def _ordered(values: Vectors, axis: int) -> Vectors:
    """Bring the components to the front; the file's first axis is the last one here."""
    return components_first(values) if axis == 0 else np.ascontiguousarray(values)


def _vector_frame(fields: Fields, d: int) -> str | None:
    if "measurement frame" in fields:
        numbers = re.findall(r"[-+0-9.eE]+", fields["measurement frame"])
        try:
            rotated = [float(n) for n in numbers] != np.eye(d).ravel().tolist()
        except ValueError:
            rotated = True
        if rotated:
            return None
    return "LPS" if d == 2 or fields.get("space", "").lower() in _LPS else None
