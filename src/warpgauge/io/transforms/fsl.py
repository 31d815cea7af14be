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
from warpgauge.io.files import existing_file, is_text
from warpgauge.io.transforms.base import Description, Format, Options, Transform
from warpgauge.io.transforms.field import Vectors
from warpgauge.io.transforms.field_files import choose_convention, finish_field, with_reference
from warpgauge.io.transforms.image_fields import load_nifti, nifti_dimensions
from warpgauge.io.transforms.linear import AffineTransform, read_numbers

TITLE = "FSL"
# Intents of coefficient files of FNIRT and TOPUP; their fields have 2006 and 2016.
_COEFFICIENTS = (2007, 2008, 2009, 2017, 2018, 2019)
_BLOCK = 2**18


def fsl_from_index(grid: Grid) -> tuple[Floats, Floats]:
    """Return matrix and offset from voxel index to FSL millimetres of one image."""
    matrix, offset = np.diag(grid.spacing), np.zeros(grid.d)
    if np.linalg.det(grid.direction) > 0:  # the sign is the same in LPS and in RAS
        matrix[0, 0] *= -1
        offset[0] = (grid.size[0] - 1) * grid.spacing[0]
    return matrix, offset


def read_fsl(path: Path, options: Options) -> Transform:
    """Read a warp field, or a matrix of flirt where the file is text.

    The moving image (FSL's "in") has to be given, and for a matrix the fixed image too (FSL's "ref"). A warp field has
    the latter in its header, but does not say whether it holds displacements or positions.
    """
    file = existing_file(path, "FSL transform")
    reference, moving, text = options.reference, options.moving, is_text(file)
    if text and options.convention is not None:
        raise InvalidInputError(
            f"{say('convention')} is for FSL warp fields, but {path.name!r} is text, as flirt matrices are; leave it "
            "out."
        )
    if moving is None or (text and reference is None):
        needed = f"{say('moving')}, its grid"
        if text:
            needed = f"{say('reference')} and {say('moving')}, the grids of the fixed and the moving image"
        raise AmbiguousFileError(
            f"{file.name!r} is in FSL's coordinates, which depend on the size and orientation of the images; give "
            f"{needed}."
        )
    for grid in (moving, reference):
        if grid is not None and grid.d != 3:
            raise InvalidInputError(f"FSL transforms are 3D, but a {grid.d}D grid was given.")
    if text:
        assert reference is not None
        return _flirt(file, reference, moving)
    return _warp(file, options.convention, reference, moving)


def _warp(file: Path, convention: str | None, reference: Grid | None, moving: Grid) -> Transform:
    absolute = choose_convention(file.name, convention, None)
    size, intent = nifti_dimensions(file)
    if intent in _COEFFICIENTS:
        raise FileFormatError(
            f"{file.name!r} holds spline coefficients of FNIRT; turn them into a field with fnirtfileutils first."
        )
    if len(size) != 4 or size[3] != 3:
        raise FileFormatError(f"{file.name!r} has the dimensions {size}, but an FSL warp is X x Y x Z x 3.")
    stored = with_reference(load_nifti(file), reference)
    word = "absolute" if absolute else "relative"
    stored.notes.append(f"FSL warp read as {word}, in FSL millimetres of the fixed and the moving image.")
    positions = _world_positions(stored.vectors, stored.grid, moving, absolute)
    return finish_field(replace(stored, file_format=TITLE, vectors=positions), "LPS", absolute=True)


def _world_positions(vectors: Vectors, fixed: Grid, moving: Grid, absolute: bool) -> Floats:
    """Return the moving world position of every node."""
    to_fsl, start = fsl_from_index(fixed)
    out_of_fsl, moving_start = fsl_from_index(moving)
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


def _flirt(file: Path, fixed: Grid, moving: Grid) -> Transform:
    rows = read_numbers(file)
    if rows.shape != (4, 4) or not np.allclose(rows[3], [0, 0, 0, 1], atol=1e-9):
        raise FileFormatError(f"{file.name!r} is not a flirt matrix: it must be 4 x 4 with the last row 0 0 0 1.")
    moving_to_fixed = rows @ _world_to_fsl(moving)
    try:
        matrix = np.linalg.solve(moving_to_fixed, _world_to_fsl(fixed))
    except np.linalg.LinAlgError as error:
        raise FileFormatError(
            f"{file.name!r} is a singular matrix, so it maps no fixed points to moving ones."
        ) from error
    about = Description(
        format=TITLE,
        kind="flirt matrix (affine)",
        frame="world, LPS",
        units=fixed.units,
        assumptions=("flirt maps moving to fixed FSL millimetres; inverted exactly to map fixed to moving points.",),
        source=file.name,
    )
    return AffineTransform(matrix[:3, :3], matrix[:3, 3], about)


def _world_to_fsl(grid: Grid) -> Floats:
    matrix, offset = fsl_from_index(grid)
    homogeneous = np.eye(4)
    homogeneous[:3, :3], homogeneous[:3, 3] = matrix, offset
    return np.asarray(homogeneous @ np.linalg.inv(grid.affine))


FORMAT = Format("fsl", read_fsl, takes=frozenset({"convention"}), on_reference=True)
