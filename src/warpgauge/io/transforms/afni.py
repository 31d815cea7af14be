"""Matrices of AFNI (``.aff12.1D``): 12 numbers that take base (fixed) to input (moving) points, in LPS millimetres."""

from __future__ import annotations

from pathlib import Path

from warpgauge.errors import FileFormatError
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform
from warpgauge.io.transforms.linear import AffineTransform, read_numbers

TITLE = "AFNI"
_MARKS = (b"DICOM-to-DICOM", b"3dvolreg matrices", b"3dAllineate matrices")


def read_afni(path: Path, options: Options) -> Transform:
    """Read a matrix of AFNI, as one row of 12 numbers or as 3 x 4."""
    rows = read_numbers(path)
    if rows.size != 12:
        raise FileFormatError(
            f"{path.name!r} has {rows.shape[0]} x {rows.shape[1]} numbers, but one matrix of AFNI has 12; of a series, "
            f"give the row of one volume."
        )
    matrix = rows.reshape(3, 4)
    about = Description(
        format=TITLE,
        kind="affine",
        frame="world, LPS",
        units="mm",
        assumptions=("AFNI's matrix maps base (fixed) to input (moving) points in DICOM order, which is LPS.",),
        source=path.name,
    )
    return AffineTransform(matrix[:, :3], matrix[:, 3], about)


def _recognise(head: bytes, suffix: str) -> int:
    marked = head.startswith(b"#") and any(mark in head for mark in _MARKS)
    return BY_SIGNATURE if marked or suffix == ".1d" else NO


FORMAT = Format("afni", read_afni, _recognise)
