"""Warp fields and matrices of FSL, which live in FSL's own millimetres.

An FSL coordinate is voxel index times voxel size, with the x axis flipped where the image has a matrix of positive
determinant ("neurological"). Both images take part, so both grids have to be known.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import read_head
from warpgauge.io.images.nifti import open_nifti
from warpgauge.io.transforms.lattice import Vectors
from warpgauge.io.transforms.matrices import read_numbers
from warpgauge.io.transforms.meaning import POSITION, Options, field_of, on_reference
from warpgauge.io.transforms.transform import AffineTransform, Transform
from warpgauge.io.transforms.volumes import nifti_field

_BLOCK = 2**18


def read_fsl(path: Path, options: Options) -> Transform:
    """Read a warp field, or a matrix of flirt where the file is text.

    The moving image (FSL's "in") has to be given, and for a matrix the fixed image too (FSL's "ref"). A warp field has
    the latter in its header, but does not say whether it holds displacements ("relative") or positions ("absolute").
    """
    reference = options.reference
    moving = options.moving
    head = read_head(path, 4096)
    text = b"\0" not in head and not head.startswith(b"\x1f\x8b")
    if moving is None or (text and reference is None):
        both = f"{say('reference')} and {say('moving')}, the grids of the fixed and the moving image"
        raise AmbiguousFileError(
            f"{path.name!r} is in FSL's coordinates, which depend on the size and orientation of the images; give "
            f"{both if text else f'''{say('moving')}, its grid'''}."
        )
    for grid in (moving, reference):
        if grid is not None and grid.d != 3:
            raise InvalidInputError(f"FSL transforms are 3D, but a {grid.d}D grid was given.")
    if not text:
        return _warp(path, options.convention, reference, moving)
    if options.convention is not None:
        raise InvalidInputError(
            f"{say('convention')} is for FSL warp fields, but {path.name!r} is text, as flirt matrices are; leave it "
            "out."
        )
    assert reference is not None
    return _flirt(path, reference, moving)


def _warp(path: Path, convention: str | None, reference: Grid | None, moving: Grid) -> Transform:
    stored, row = nifti_field(open_nifti(path))
    if row is not None or stored.grid.d != 3:
        what = "a field in 2D" if row is None else f"a field of {row.program} by its intent"
        raise FileFormatError(
            f"{path.name!r} is {what}, but an FSL warp is X x Y x Z x 3 without one of these intents."
        )
    if convention is None:
        raise AmbiguousFileError(
            f"{path.name!r} does not say whether its vectors are displacements or positions; give "
            f"{say('convention', 'displacement')} (FSL's relative) or {say('convention', 'position')} (absolute)."
        )
    stored = on_reference(stored, reference)
    positions = _world_positions(stored.vectors, stored.grid, moving, convention == POSITION)
    notes = [*stored.notes, f"FSL warp read as {convention}, in FSL millimetres of the fixed and the moving image."]
    return field_of(replace(stored, vectors=positions, frame="LPS", absolute=True, notes=notes))


def _fsl_from_index(grid: Grid) -> tuple[Floats, Floats]:
    """Return matrix and offset from voxel index to FSL millimetres of one image."""
    matrix = np.diag(grid.spacing)
    offset = np.zeros(grid.d)
    if np.linalg.det(grid.direction) > 0:  # the sign is the same in LPS and in RAS
        matrix[0, 0] *= -1
        offset[0] = (grid.size[0] - 1) * grid.spacing[0]
    return matrix, offset


def _world_positions(vectors: Vectors, fixed: Grid, moving: Grid, absolute: bool) -> Floats:
    """Return the moving world position of every node."""
    to_fsl, start = _fsl_from_index(fixed)
    out_of_fsl, moving_start = _fsl_from_index(moving)
    back = np.linalg.inv(out_of_fsl)
    flat = vectors.reshape(3, -1)
    world = np.empty(flat.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite, and so masked
        for first in range(0, fixed.count, _BLOCK):
            part = flat[:, first : first + _BLOCK].T.astype(np.float64)
            if not absolute:
                index = fixed.world_to_index(fixed.points(first, first + _BLOCK))
                part += index @ to_fsl.T + start
            world[:, first : first + _BLOCK] = moving.index_to_world((part - moving_start) @ back.T).T
    return world.reshape(vectors.shape)


def _flirt(path: Path, fixed: Grid, moving: Grid) -> Transform:
    rows = read_numbers(path)
    if rows.shape != (4, 4) or not np.allclose(rows[3], [0, 0, 0, 1], atol=1e-9):
        raise FileFormatError(f"{path.name!r} is not a flirt matrix: it must be 4 x 4 with the last row 0 0 0 1.")
    try:
        matrix = np.linalg.solve(rows @ _world_to_fsl(moving), _world_to_fsl(fixed))
    except np.linalg.LinAlgError as error:
        raise FileFormatError(
            f"{path.name!r} is a singular matrix, so it maps no fixed points to moving ones."
        ) from error
    note = "flirt maps moving to fixed FSL millimetres; inverted exactly to map fixed to moving points."
    return AffineTransform(matrix[:3, :3], matrix[:3, 3], "flirt matrix (affine)", units=fixed.units, notes=[note])


def _world_to_fsl(grid: Grid) -> Floats:
    matrix, offset = _fsl_from_index(grid)
    whole = np.eye(4)
    whole[:3, :3] = matrix
    whole[:3, 3] = offset
    return np.asarray(whole @ np.linalg.inv(grid.affine))
