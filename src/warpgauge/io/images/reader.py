"""`read_image`, and the table of image formats: a file is of the first format that fits its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import FileFormatError, InvalidInputError, warn_suspicious
from warpgauge.io import formats
from warpgauge.io.files import PathLike, existing_file, foreign_decoder, read_head
from warpgauge.io.formats import Files
from warpgauge.io.images.dicom import is_dicom, open_dicom
from warpgauge.io.images.frame import resolve_grid
from warpgauge.io.images.image import Image
from warpgauge.io.images.metaimage import looks_like_metaimage, open_metaimage
from warpgauge.io.images.nifti import is_nifti, open_nifti
from warpgauge.io.images.nrrd import open_nrrd
from warpgauge.io.images.ome_zarr import open_ome_zarr
from warpgauge.io.images.raster import open_jpeg, open_png
from warpgauge.io.images.stored import StoredImage
from warpgauge.io.images.tiff import open_tiff
from warpgauge.io.zarr_files import is_zarr


@dataclass(frozen=True, kw_only=True)
class Format(formats.Format):
    """One format of images: ``fits`` a path and the first bytes there (none of a folder), opened by ``open``."""

    fits: Callable[[Path, bytes], bool]
    open: Callable[[Path], StoredImage]
    endings: tuple[str, ...] = ()


def _begins(*magics: bytes) -> Callable[[Path, bytes], bool]:
    return lambda path, head: head.startswith(magics)


def _refuse_slice(path: Path) -> StoredImage:
    raise InvalidInputError(f"{path.name!r} is one DICOM file; give the folder that holds all slices of its series.")


_ITK = "ITK itself, sample by sample"
FORMATS: tuple[Format, ...] = (
    Format(
        name="png", title="PNG", endings=(".png",), fits=_begins(b"\x89PNG\r\n\x1a\n"), open=open_png,
        written=(Files("any", ".png", "Pillow 11", "", "pixels", "px", "Pillow's own writer"),),
    ),
    Format(
        name="jpeg", title="JPEG", endings=(".jpg", ".jpeg", ".jpe", ".jfif"), fits=_begins(b"\xff\xd8\xff"),
        open=open_jpeg,
        written=(Files("any", ".jpg, .jpeg", "Pillow 11", "", "pixels", "px", "Pillow's own writer"),),
    ),
    Format(
        name="tiff", title="TIFF", endings=(".tif", ".tiff"), open=open_tiff,
        fits=_begins(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
        written=(
            Files("any", ".tif, .svs", "tifffile 2024", "", "pixels", "px, or um where stated",
                  "tifffile's own writer"),
            Files("OME", ".ome.tif", "OME 2016", "", "pixels", "um or mm as stated", "tifffile's own writer"),
        ),
    ),
    Format(
        name="nifti", title="NIfTI", endings=(".nii", ".nii.gz", ".hdr", ".img", ".hdr.gz", ".img.gz"), fits=is_nifti,
        open=lambda path: open_nifti(path).image(),
        written=(Files("any", ".nii, .nii.gz, .hdr, .img", "1 and 2", "", "LPS, from RAS", "mm, or as stated", _ITK),),
    ),
    Format(
        name="nrrd", title="NRRD", endings=(".nrrd", ".nhdr"), fits=_begins(b"NRRD"),
        open=lambda path: open_nrrd(path).image(),
        written=(Files("Slicer, ITK", ".nrrd, .nhdr", "1 to 5", "", "LPS, turned from what is stated",
                       "mm, or as stated", f"{_ITK}; pynrrd"),),
    ),
    Format(
        name="dicom", title="DICOM", endings=(".dcm",), fits=lambda path, head: is_dicom(head), open=_refuse_slice,
        written=(Files("scanners", "folder of the slices of one series", "pydicom 3", "", "LPS", "mm", _ITK),),
    ),
    Format(
        name="metaimage", title="MetaImage", endings=(".mha", ".mhd"),
        fits=lambda path, head: looks_like_metaimage(head), open=lambda path: open_metaimage(path).image(),
        written=(Files("ITK, elastix", ".mha, .mhd", "ITK 5.4", "", "LPS", "mm, or as stated", _ITK),),
    ),
    Format(
        name="ome-zarr", title="OME-Zarr", fits=lambda path, head: is_zarr(path), open=open_ome_zarr,
        written=(Files("OME", "folder .zarr", "NGFF 0.4 and 0.5", "", "its axes", "um or mm as stated",
                       "zarr's own writer"),),
    ),
)  # fmt: skip


def read_image(path: PathLike, *, spacing: float | Sequence[float] | None = None, units: str | None = None) -> Image:
    """Open an image; samples are read when they are asked for.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> from PIL import Image
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "section.png"
    >>> Image.fromarray(np.zeros((60, 90), np.uint8)).save(file)
    >>> wg.read_image(file, spacing=0.5, units="um").grid.size
    (90, 60)

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
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{str(path)!r} is not a usable path: {error}.") from error
    if is_folder:
        with foreign_decoder(path, "OME-Zarr" if is_zarr(path) else "a DICOM series"):
            stored = open_ome_zarr(path) if is_zarr(path) else open_dicom(path)
        stored.notes.insert(0, f"Read as {stored.format}, by the files in the folder.")
        return stored
    file = existing_file(path, "image")
    head = read_head(file, 4096)
    with foreign_decoder(file, "a gzip file"):
        content = next((entry for entry in FORMATS if entry.fits(file, head)), None)
    named = next((entry for entry in FORMATS if file.name.lower().endswith(entry.endings or ("\0",))), None)
    if named is not None and named is not content:
        raise FileFormatError(
            f"{file.name!r} is named as {named.title}, but its content is {content.title if content else 'not'}; "
            f"{f'rename it to {content.endings[0]}' if content else 'copy or export it again'}."
        )
    if content is None:
        titles = ", ".join(entry.title for entry in FORMATS)
        raise FileFormatError(f"{file.name!r} is not of a kind of image that is read: {titles}.")
    with foreign_decoder(file, content.title):
        stored = content.open(file)
    stored.notes.insert(0, f"Read as {stored.format}, by its content.")
    return stored
