"""Transforms of NiftyReg: NIfTI files of intent 1007 named ``NREG_TRANS``, whose ``intent_p1`` says the kind.

Every kind maps points of the reference (fixed) image to the floating (moving) one, in the RAS millimetres of NIfTI.
Deformations, and grids of control points, hold positions. A velocity is integrated on the grid of the reference image,
as NiftyReg does, by ``intent_p2`` squarings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform, world_frame
from warpgauge.io.transforms.field import DisplacementField, field_description
from warpgauge.io.transforms.field_files import StoredField
from warpgauge.io.transforms.image_fields import data_files, load_nifti, nifti_extensions, nifti_intent
from warpgauge.io.transforms.splines import BSplineTransform, bspline_description

TITLE = "NiftyReg"
NAME = "NREG_TRANS"
_BLOCK = 2**18
_MOST_STEPS = 16


@dataclass(frozen=True)
class _Kind:
    """What a value of ``intent_p1`` stands for: positions or not, a grid of control points of an order, a velocity."""

    words: str
    absolute: bool = True
    order: int | None = None
    velocity: bool = False


_KINDS: dict[float, _Kind] = {
    0: _Kind("deformation field"),
    1: _Kind("displacement field", absolute=False),
    2: _Kind("grid of control points, cubic B-spline", order=3),
    3: _Kind("velocity field, as positions", velocity=True),
    4: _Kind("velocity field, as displacements", absolute=False, velocity=True),
    5: _Kind("velocity grid of control points, cubic B-spline", order=3, velocity=True),
    6: _Kind("grid of control points, linear", order=1),
}


def read_niftyreg(path: Path, options: Options) -> Transform:
    """Read a transform of NiftyReg; a velocity is integrated on the reference grid."""
    intent = nifti_intent(path)
    kind = _KINDS.get(intent.parameters[0])
    if kind is None:
        raise FileFormatError(
            f"{path.name!r} is a NiftyReg transform of kind {intent.parameters[0]:g}, but 0 to 6 are known; turn it "
            f"into a deformation field with reg_transform -def."
        )
    stored = load_nifti(path)
    signs = np.array([-1.0, -1.0, 1.0])[: stored.grid.d].reshape(-1, *([1] * stored.grid.d))
    displacements = stored.vectors.astype(np.float64) * signs
    if kind.absolute:
        displacements -= _nodes(stored.grid)
    about = _description(stored, kind)
    part = _part(displacements, stored.grid, kind, about)
    if not kind.velocity:
        return part
    steps = intent.parameters[1]
    if options.reference is None:
        raise AmbiguousFileError(
            f"{path.name!r} is a velocity of NiftyReg, which is integrated on the grid of the reference image; give "
            f"{say('reference')}, the fixed grid."
        )
    if steps != round(steps) or not 0 < abs(steps) <= _MOST_STEPS:
        raise FileFormatError(
            f"{path.name!r} asks for {steps:g} squarings of its velocity, but 1 to {_MOST_STEPS} are done."
        )
    if nifti_extensions(path):
        raise FileFormatError(
            f"{path.name!r} is a velocity with matrices in its header, as reg_f3d -vel -aff writes it, which are not "
            f"read; turn it into a deformation field with reg_transform -def."
        )
    return _integrated(part, options.reference, int(steps), about)


def _nodes(grid: Grid) -> Floats:
    return grid.points(0, grid.count).T.reshape(grid.d, *grid.shape)


def _description(stored: StoredField, kind: _Kind) -> Description:
    notes = (
        f"NiftyReg says that this is a {kind.words}; it maps reference (fixed) to floating (moving) points, in RAS mm, "
        f"turned into LPS.",
        *stored.notes,
    )
    more: dict[str, Any] = {"frame": world_frame(stored.grid.d), "units": stored.grid.units, "source": stored.name}
    if kind.order == 3 and not kind.velocity:
        return bspline_description(3, TITLE, assumptions=notes, **more)
    return field_description(TITLE, assumptions=notes, **more)


def _part(displacements: Floats, grid: Grid, kind: _Kind, about: Description) -> Transform:
    # A cubic B-spline reproduces a linear function from its samples, so coefficients of positions less the nodes are
    # coefficients of the displacements.
    if kind.order == 3:
        return BSplineTransform(displacements, grid, 3, about)
    return DisplacementField(displacements, grid, description=about)


def _integrated(velocity: Transform, grid: Grid, steps: int, about: Description) -> DisplacementField:
    """Return the deformation on a grid after 2^steps small steps along the velocity."""
    step = _over(grid, lambda points, _: velocity._extended(points) - points) / (np.sign(steps) * 2.0 ** abs(steps))
    for _ in range(abs(steps)):
        half = DisplacementField(step, grid)
        # Beyond the border the displacement of the nearest node goes on, as in NiftyReg.
        step = _over(grid, lambda points, own, half=half: half._extended(points + own) - points, step)  # type: ignore[misc]
    words = (
        f"The velocity is integrated on the grid of the reference image by {abs(steps)} squarings, as NiftyReg does."
    )
    return DisplacementField(step, grid, description=replace(about, units=grid.units).assuming(words))


def _over(grid: Grid, change: Callable[[Floats, Floats], Floats], vectors: Floats | None = None) -> Floats:
    """Return new vectors on a grid: ``change(points, own)`` of the nodes and their vectors, block by block."""
    old = np.zeros((grid.d, 1)) if vectors is None else vectors.reshape(grid.d, -1)
    new = np.empty((grid.d, grid.count))
    for start in range(0, grid.count, _BLOCK):
        part = slice(start, start + _BLOCK)
        new[:, part] = change(grid.points(start, start + _BLOCK), old[:, part].T if vectors is not None else old.T).T
    return new.reshape(grid.d, *grid.shape)


def _recognise(head: bytes, suffix: str) -> int:
    intent = nifti_intent(head)
    return BY_SIGNATURE if intent is not None and intent.name == NAME else NO


FORMAT = Format("niftyreg", read_niftyreg, _recognise, packed=True, companions=data_files)
