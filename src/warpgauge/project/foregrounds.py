"""The foregrounds of a project's images: found or taken from a mask when it is made, stored, and read again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpgauge.candidates import Foreground, find_foreground, foreground_from_mask
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.io.inside import Inside
from warpgauge.io.limits import check_memory
from warpgauge.io.numpy_files import read_array
from warpgauge.project.document import ForegroundRecord
from warpgauge.project.errors import ProjectError, project_content
from warpgauge.project.points import read_on_grid

Wanted = Literal["auto", "none"]
SIDES: tuple[str, ...] = ("fixed", "moving")


def make_foregrounds(wanted: str, images: Mapping[str, Image]) -> dict[str, Foreground]:
    """Return the foregrounds of the two images by side: their masks, or, where ``auto`` is wanted, what is found."""
    if wanted not in ("auto", "none"):
        raise InvalidInputError(f"The foreground must be 'auto' or 'none', or give a mask; got {wanted!r}.")
    found: dict[str, Foreground] = {}
    for side in SIDES:
        mask = images.get(f"{side}_mask")
        if mask is not None:
            array = read_on_grid(mask.path, images[side].grid, "mask", side)
            found[side] = foreground_from_mask(array, images[side].grid, mask.path.name)
        elif wanted == "auto":
            found[side] = find_foreground(images[side])
    return found


def missing_area(mask: Any, grid: Grid) -> Foreground:
    """Return what of the fixed image has no match, by a mask on its grid that is not zero there."""
    return Foreground(np.asarray(mask[...]) != 0, grid, "What has no match in the moving image, by a mask.")


def store_foreground(folder: Path, side: str, made: Foreground, from_mask: bool) -> ForegroundRecord:
    """Write a foreground into the project and return its record."""
    file = f"{side}_foreground.npz"
    np.savez_compressed(folder / file, mask=np.packbits(made.mask))
    return ForegroundRecord(
        file=file,
        content_hash=_hash(made.mask),
        grid=made.grid,
        share=made.share,
        source="mask" if from_mask else "image",
        method=made.method,
    )


def load_foreground(folder: Path, record: ForegroundRecord) -> Foreground:
    """Read a foreground back; one that is not the stored one is refused."""
    file = Inside(folder, record.file, "foreground").path
    if not file.is_file():
        raise ProjectError(f"The foreground of the project, {record.file!r}, is missing; put the file back.")
    with project_content(repr(record.file)):
        check_memory(record.file, record.grid.count, file.stat().st_size)
        bits = np.unpackbits(read_array(file, member="mask"), count=record.grid.count)
        mask = bits.astype(bool).reshape(record.grid.shape)
    if _hash(mask) != record.content_hash:
        raise ProjectError(
            f"{record.file!r} is not the foreground that the project was made with; put back the former one."
        )
    mask.flags.writeable = False
    return Foreground(mask, record.grid, record.method)


def _hash(mask: NDArray[np.bool_]) -> str:
    text = repr(mask.shape).encode() + np.packbits(mask).tobytes()
    return "sha256:" + hashlib.sha256(text).hexdigest()
