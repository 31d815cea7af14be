"""`read_image`: detect the format from the first bytes, compare it with the file name, and open the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from warpgauge.errors import FileFormatError, InvalidInputError, warn_suspicious
from warpgauge.io.files import PathLike, existing_file, foreign_decoder, read_head
from warpgauge.io.images.dicom import is_dicom, open_dicom
from warpgauge.io.images.frame import resolve_grid
from warpgauge.io.images.image import Image
from warpgauge.io.images.metaimage import looks_like_metaimage, open_metaimage
from warpgauge.io.images.nifti import nifti_header, open_nifti
from warpgauge.io.images.nrrd_files import open_nrrd
from warpgauge.io.images.ome_zarr import open_ome_zarr
from warpgauge.io.images.raster import open_jpeg, open_png
from warpgauge.io.images.samples import gzip_head
from warpgauge.io.images.stored import StoredImage
from warpgauge.io.images.tiff import open_tiff
from warpgauge.io.zarr_files import is_zarr

_OPENERS: dict[str, Callable[[Path], StoredImage]] = {
    "PNG": open_png, "JPEG": open_jpeg, "TIFF": open_tiff, "NIfTI": open_nifti, "NRRD": open_nrrd,
    "MetaImage": open_metaimage,
}  # fmt: skip
_MAGICS = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"II*\0": "TIFF", b"MM\0*": "TIFF", b"II+\0": "TIFF",
    b"MM\0+": "TIFF", b"NRRD": "NRRD",
}  # fmt: skip
_NAMES = {
    "PNG": (".png",), "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"), "TIFF": (".tif", ".tiff"),
    "NIfTI": (".nii", ".nii.gz", ".hdr", ".img", ".hdr.gz", ".img.gz"), "NRRD": (".nrrd", ".nhdr"),
    "MetaImage": (".mha", ".mhd"), "DICOM": (".dcm",),
}  # fmt: skip
_READ = "PNG, JPEG, TIFF, OME-TIFF, NIfTI, NRRD, MetaImage, a folder of DICOM slices, or an OME-Zarr folder"


def read_image(path: PathLike, *, spacing: float | Sequence[float] | None = None, units: str | None = None) -> Image:
    """Open an image; samples are read when they are asked for.

    Parameters
    ----------
    path : str or path
        A PNG, JPEG, TIFF, OME-TIFF, NIfTI, NRRD or MetaImage file, a folder of DICOM slices, or an OME-Zarr folder.
    spacing : float or sequence of float, optional
        Distance between neighbours along x, y[, z]; supplies what the file lacks, or overrides what it says. Origin and
        direction stay those of the file.
    units : {"px", "um", "mm"}, optional
        Unit of ``spacing``, or of the lengths in the file (which are then not converted). ``"px"`` without ``spacing``
        asks for plain pixel indices.

    Returns
    -------
    Image
        `Image.grid` is the frame (LPS for 3D medical formats; units "px" and spacing 1 where the file has no physical
        spacing), and `Image.assumptions` says what was read and assumed.
    """
    stored = _open(Path(path)).joined()
    grid, notes = resolve_grid(stored.frame, stored.path, spacing, units)
    for sentence in stored.suspicions:
        warn_suspicious(sentence)
    return Image(stored, grid, [*stored.notes, *notes])


def _open(path: Path) -> StoredImage:
    if _is_folder(path):
        stored = open_ome_zarr(path) if is_zarr(path) else open_dicom(path)
        stored.notes.insert(0, f"Read as {stored.format}, by the files in the folder.")
        return stored
    file = existing_file(path, "image")
    named, found = _named(file), _detected(file)
    if named is not None and named != found:
        raise FileFormatError(
            f"{file.name!r} is named as {named}, but its content is {found or 'not'}; "
            f"{'rename it to ' + _NAMES[found][0] if found else 'copy or export it again'}."
        )
    if found == "DICOM":
        raise InvalidInputError(
            f"{file.name!r} is one DICOM file; give the folder that holds all slices of its series."
        )
    if found is None:
        raise FileFormatError(f"{file.name!r} is not of a kind that is read: {_READ}.")
    stored = _OPENERS[found](file)
    stored.notes.insert(0, f"Read as {stored.format}, by its content.")
    return stored


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{str(path)!r} is not a usable path: {error}.") from error


def _named(path: Path) -> str | None:
    name = path.name.lower()
    return next((kind for kind, endings in _NAMES.items() if name.endswith(endings)), None)


def _detected(path: Path) -> str | None:
    head = read_head(path, 4096)
    for magic, kind in _MAGICS.items():
        if head.startswith(magic):
            return kind
    if _is_nifti(path, head):
        return "NIfTI"
    if len(head) > 132 and is_dicom(path):
        return "DICOM"
    return "MetaImage" if looks_like_metaimage(head) else None


def _is_nifti(path: Path, head: bytes) -> bool:
    if path.name.lower().endswith((".img", ".img.gz")):
        return True  # bare samples: the header beside it is checked by the reader
    if not head.startswith(b"\x1f\x8b"):
        return nifti_header(head) is not None
    with foreign_decoder(path, "a gzip file"):
        return nifti_header(gzip_head(path, 540)) is not None
