"""AFNI: matrices (``.aff12.1D``) and warps (``.HEAD`` with ``.BRIK``), base (fixed) to input (moving), in LPS mm."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import foreign_decoder
from warpgauge.io.images.frame import frame_from_affine, resolve_grid
from warpgauge.io.limits import check_memory, size_on_disk
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform
from warpgauge.io.transforms.field_files import StoredField, as_floats, finish_field
from warpgauge.io.transforms.linear import AffineTransform, read_numbers

TITLE = "AFNI"
_DATASET = (".head", ".brik")
_HEAD = b"-attribute\nname "
_MARKS = (b"DICOM-to-DICOM", b"3dvolreg matrices", b"3dAllineate matrices")


def read_afni(path: Path, options: Options) -> Transform:
    """Read a matrix of AFNI, as one row of 12 numbers or as 3 x 4, or a warp."""
    if path.suffix.lower() in _DATASET:
        return _read_warp(path)
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


def dataset_files(path: Path) -> list[Path]:
    """Return the files of the dataset that a header or a brick of AFNI belongs to; none for a matrix."""
    stem = path.with_suffix("")
    beside = (".HEAD", ".BRIK", ".BRIK.gz") if path.suffix.lower() in _DATASET else ()
    return [file for file in (stem.with_name(f"{stem.name}{ending}") for ending in beside) if file.is_file()]


def _read_warp(path: Path) -> Transform:
    """Read three bricks of displacements at the nodes of the base image, as 3dQwarp and 3dNwarpCat write them."""
    from nibabel.brikhead import AFNIImage  # slow to import

    with foreign_decoder(path, "a dataset of AFNI"):
        image = AFNIImage.from_filename(path)
        size = image.shape[:3]
        if len(image.shape) != 4 or image.shape[3] != 3 or min(image.shape) < 1:
            raise FileFormatError(
                f"{path.name!r} has the dimensions {' x '.join(map(str, image.shape))}, but a warp of AFNI has three "
                f"bricks: X x Y x Z x 3."
            )
        bricks = Path(image.file_map["image"].filename)
        check_memory(path.name, 8 * int(np.prod(image.shape, dtype=object)), lambda: size_on_disk(bricks))
        vectors = as_floats(np.asarray(image.dataobj), path.name).T
        frame = frame_from_affine(path, np.diag([-1.0, -1.0, 1.0, 1.0]) @ image.affine, size, "mm")
        grid, notes = resolve_grid(frame, path, None, None)
    told = "AFNI's warp holds displacements from base (fixed) to source (moving) in DICOM order, which is LPS."
    return finish_field(
        StoredField(path.name, TITLE, np.ascontiguousarray(vectors), grid, "LPS", [told, *notes]), "LPS"
    )


def _recognise(head: bytes, suffix: str) -> int:
    if suffix == ".brik" or (head.lstrip().startswith(b"type ") and _HEAD in head):
        return BY_SIGNATURE
    marked = head.startswith(b"#") and any(mark in head for mark in _MARKS)
    return BY_SIGNATURE if marked or suffix == ".1d" else NO


FORMAT = Format("afni", read_afni, _recognise, companions=dataset_files)
