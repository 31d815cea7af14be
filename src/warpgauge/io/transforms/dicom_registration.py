"""DICOM spatial registration objects, rigid or affine, and deformable ones; both are in LPS mm (needs pydicom).

A matrix takes points of the image that is registered (moving) to the coordinate system of the object (fixed) and is
inverted. A deformable object goes the other way: from the registered system to the source, by a matrix, a grid of
displacements, and a second matrix.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import foreign_decoder, require
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field import DisplacementField, field_description
from warpgauge.io.transforms.linear import AffineTransform

TITLE = "DICOM registration"
RIGID, DEFORMABLE = "1.2.840.10008.5.1.4.1.1.66.1", "1.2.840.10008.5.1.4.1.1.66.3"


def read_registration(path: Path, options: Options) -> Transform:
    """Read the one registration of an object that is not the identity."""
    pydicom = require("pydicom", "dicom")
    with foreign_decoder(path, "DICOM"):
        data = pydicom.dcmread(path)
        kind = str(data.get("SOPClassUID", ""))
        if kind not in (RIGID, DEFORMABLE):
            raise FileFormatError(
                f"{path.name!r} is a DICOM object of class {kind or 'unknown'}, not a spatial registration."
            )
        items = data.get("RegistrationSequence" if kind == RIGID else "DeformableRegistrationSequence", [])
        found = [_rigid(one, path.name) if kind == RIGID else _deformable(one, path.name) for one in items]
    changing = [one for one in found if one is not None]
    if len(changing) != 1:
        raise FileFormatError(
            f"{path.name!r} registers {len(changing)} images to its coordinate system, but a pair has one; export the "
            f"registration of this pair."
        )
    return changing[0]


def _about(name: str, words: str) -> Description:
    return Description(
        format=TITLE, kind="affine", frame="world, LPS", units="mm", assumptions=(words,), source=name
    )  # fmt: skip


def _matrix(sequence: Any, name: str) -> Floats:
    """Return the product of the matrices of a matrix registration; they are applied in their order."""
    total = np.eye(4)
    for registration in sequence or []:
        for one in registration.get("MatrixSequence", [registration]):
            values = np.array(one.FrameOfReferenceTransformationMatrix, dtype=np.float64)
            if values.size != 16 or not np.isfinite(values).all():
                raise FileFormatError(f"{name!r} has a matrix that is not 4 x 4 finite numbers.")
            total = values.reshape(4, 4) @ total
    return total


def _rigid(item: Any, name: str) -> Transform | None:
    matrix = _matrix(item.get("MatrixRegistrationSequence"), name)
    if np.allclose(matrix, np.eye(4), atol=1e-12):
        return None  # the image that the others are registered to
    words = (
        "DICOM's matrix maps the registered (moving) image to the coordinate system of the object; inverted exactly."
    )
    forward = AffineTransform(matrix[:3, :3], matrix[:3, 3], _about(name, words))
    return forward.inverse().described(direction="fixed_to_moving")


def _deformable(item: Any, name: str) -> Transform | None:
    grids = item.get("DeformableRegistrationGridSequence")
    before = _matrix(item.get("PreDeformationMatrixRegistrationSequence"), name)
    after = _matrix(item.get("PostDeformationMatrixRegistrationSequence"), name)
    words = "DICOM's deformation maps the coordinate system of the object (fixed) to the source (moving)."
    if not grids and np.array_equal(before, np.eye(4)) and np.array_equal(after, np.eye(4)):
        return None
    parts: list[Transform] = [AffineTransform(before[:3, :3], before[:3, 3], _about(name, words))]
    parts += [_field(one, name, words) for one in grids or []]
    parts.append(AffineTransform(after[:3, :3], after[:3, 3], _about(name, words)))
    chain = Chain(parts)
    return chain.described(source=name)


def _field(item: Any, name: str, words: str) -> DisplacementField:
    size = tuple(int(n) for n in item.GridDimensions)
    rows = np.array(item.ImageOrientationPatient, dtype=np.float64).reshape(2, 3)
    direction = np.column_stack([*rows, np.cross(*rows)])
    spacing = np.array(item.GridResolution, dtype=np.float64)
    grid = Grid(size, spacing, np.array(item.ImagePositionPatient, dtype=np.float64), direction, "mm")
    values = np.frombuffer(item.VectorGridData, dtype="<f4")
    if values.size != 3 * grid.count:
        raise FileFormatError(f"{name!r} has {values.size} numbers for a grid of {' x '.join(map(str, size))} vectors.")
    vectors = np.moveaxis(values.reshape(*grid.shape, 3), -1, 0)
    about = field_description(TITLE, frame="world, LPS", units="mm", assumptions=(words,), source=name)
    return DisplacementField(np.ascontiguousarray(vectors, dtype=np.float32), grid, description=about)


def _recognise(head: bytes, suffix: str) -> int:
    return BY_SIGNATURE if head[128:132] == b"DICM" else NO


FORMAT = Format("dicom", read_registration, _recognise)
