"""Deformations of SPM (``y_*.nii``, ``iy_*.nii``): NIfTI of intent 1007 named ``Mapping``, positions in RAS mm.

A ``y_`` file stands on the template (fixed) and holds the position in the individual's image (moving) for every voxel.
Flow fields of DARTEL and velocities of Shoot have to be turned into deformations by SPM's own tool first.
"""

from __future__ import annotations

from pathlib import Path

from warpgauge.errors import FileFormatError
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Format, Options, Transform
from warpgauge.io.transforms.field_files import finish_field
from warpgauge.io.transforms.image_fields import data_files, load_nifti, nifti_intent

TITLE = "SPM"
NAME = "Mapping"
_FLOWS = ("Velocity", "Flow Field", "Momentum")


def read_spm(path: Path, options: Options) -> Transform:
    """Read a deformation of SPM."""
    intent = nifti_intent(path)
    if intent.name in _FLOWS:
        raise FileFormatError(
            f"{path.name!r} is a {intent.name.lower()} of SPM, which is not a deformation yet; write one with Batch > "
            f"SPM > Util > Deformations."
        )
    stored = load_nifti(path)
    stored.file_format = TITLE
    stored.notes.append("SPM's intent name 'Mapping': positions in RAS mm of the image that is sampled (moving).")
    return finish_field(stored, "RAS", absolute=True)


def _recognise(head: bytes, suffix: str) -> int:
    intent = nifti_intent(head)
    return BY_SIGNATURE if intent is not None and intent.name in (NAME, *_FLOWS) else NO


FORMAT = Format("spm", read_spm, _recognise, packed=True, companions=data_files)
