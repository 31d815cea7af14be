"""Arrays on a grid as NIfTI and NRRD: one number per element, or components on the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.geometry import Grid

NRRD_TYPES = {"f8": "double", "f4": "float", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16",
               "u4": "uint32", "i4": "int32"}  # fmt: skip


def components_of(values: NDArray[Any], grid: Grid) -> int:
    """Return the length of the axis of components, 0 without one."""
    return int(values.shape[-1]) if values.ndim > grid.d else 0


def nifti_image(values: NDArray[Any], grid: Grid) -> Any:
    """Return nibabel's image: world RAS; components as (X, Y, Z, 1, c) with intent vector, as ITK lays them out."""
    import nibabel

    affine = np.eye(4)
    affine[: grid.d, : grid.d] = grid.affine[: grid.d, : grid.d]
    affine[: grid.d, 3] = grid.origin
    if grid.d == 2 and np.linalg.det(grid.direction) < 0:
        affine[2, 2] = -1.0  # a quaternion holds any handedness by the sign of the third axis alone
    components = components_of(values, grid)
    data = values.T
    if components:
        data = np.moveaxis(data, 0, -1).reshape(*grid.size, *((1,) * (4 - grid.d)), components)
    image = nibabel.Nifti1Image(data, np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine, dtype=values.dtype)
    if components:
        image.header.set_intent(1007)
    image.set_sform(image.affine, 1)
    image.set_qform(image.affine, 1)
    image.header.set_xyzt_units({"px": 0, "um": 3}.get(grid.units, 2))
    return image


def nrrd_header(values: NDArray[Any], grid: Grid) -> bytes:
    """Return the header, its empty line included; samples in little endian and packed by gzip have to follow."""
    components = components_of(values, grid)
    columns = (grid.direction * grid.spacing).T
    directions = " ".join(f"({','.join(repr(float(x)) for x in column)})" for column in columns)
    sizes = " ".join(map(str, grid.size))
    lines = [
        "NRRD0004",
        f"type: {NRRD_TYPES[values.dtype.str[1:]]}",
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
    return ("\n".join(lines) + "\n\n").encode("ascii")
