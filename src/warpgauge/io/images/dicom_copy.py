"""Copies of DICOM slices without personal data: what is not on a list is left out.

The list holds what is needed to read the samples and to place them. Everything else goes: names, dates, institutions,
devices, comments, private elements, overlays, the preamble, and the names of the files. Identifiers (UIDs) are replaced
by others, the same ones within one copy. This removes or replaces all that the basic profile of DICOM PS3.15, Annex E
names; like it, it does not look at the samples, in which text can be burned in or a face be recognised.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpgauge.io.files import foreign_decoder, require

KEPT = (
    "SOPClassUID", "Modality", "SliceThickness", "SpacingBetweenSlices", "InstanceNumber", "ImagePositionPatient",
    "ImageOrientationPatient", "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames",
    "Rows", "Columns", "PixelSpacing", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation",
    "SmallestImagePixelValue", "LargestImagePixelValue", "PixelPaddingValue", "WindowCenter", "WindowWidth",
    "RescaleIntercept", "RescaleSlope", "RescaleType", "LossyImageCompression", "PixelData",
)  # fmt: skip
REPLACED = ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID")
METHOD = "warpgauge: kept list; PS3.15 basic profile"


def copy_deidentified(files: Sequence[Path], aim: Path) -> list[Path]:
    """Write the slices of a series into a new folder, without personal data and under new names.

    Returns
    -------
    list of Path
        The files, in the order of ``files``.
    """
    pydicom = require("pydicom", "dicom")
    secret = secrets.token_bytes(16)
    aim.mkdir(parents=True)
    written = []
    for number, file in enumerate(files, 1):
        copy = aim / f"slice-{number:05d}.dcm"
        with foreign_decoder(file, "DICOM"):
            _without_personal_data(pydicom, pydicom.dcmread(file), secret).save_as(copy, enforce_file_format=True)
        written.append(copy)
    return written


def _without_personal_data(pydicom: Any, given: Any, secret: bytes) -> Any:
    kept = pydicom.Dataset()
    for name in KEPT:
        if name in given:
            kept.add(given[name])
    for name in REPLACED:
        if name in given:
            setattr(kept, name, _replaced(str(given[name].value), secret))
    kept.PatientName = kept.PatientID = ""
    kept.PatientIdentityRemoved, kept.DeidentificationMethod = "YES", METHOD
    meta = pydicom.dataset.FileMetaDataset()
    meta.TransferSyntaxUID = given.file_meta.TransferSyntaxUID
    meta.MediaStorageSOPClassUID = given.file_meta.get("MediaStorageSOPClassUID") or kept.get("SOPClassUID")
    meta.MediaStorageSOPInstanceUID = kept.get("SOPInstanceUID") or _replaced(given.filename, secret)
    kept.file_meta = meta
    kept.preamble = b"\0" * 128
    return kept


def _replaced(uid: str, secret: bytes) -> str:
    """Return another identifier, always the same for the same one and secret (ISO/IEC 9834-8: 2.25 and a number)."""
    digest = hashlib.sha256(secret + uid.encode("utf-8", "surrogateescape")).digest()
    return f"2.25.{int.from_bytes(digest[:16], 'big')}"
