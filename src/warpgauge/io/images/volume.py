"""`Volume`: what the header of a NIfTI, NRRD or MetaImage file says, read once for images and for fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import readable
from warpgauge.io.images.frame import Frame
from warpgauge.io.images.samples import Block, gzip_promises, rescale, rescaled_dtype
from warpgauge.io.images.stored import Array, Region, StoredImage, StoredLevel


@dataclass(frozen=True)
class Volume:
    """Where the voxels of a file lie, how many numbers stand at each, and where they are stored.

    The block holds samples ``[z, ]y, x``; where there are several at a voxel, on a further axis: the first of the array
    if ``first``, else the last.
    """

    path: Path
    format: str
    frame: Frame  # of the spatial axes, x first; in 3D the world is LPS
    block: Block
    count: int = 1  # numbers at a voxel
    first: bool = False
    scale: tuple[float, float] = (1.0, 0.0)  # slope and intercept by which the header asks to rescale the samples
    sizes: tuple[int, ...] = ()  # of all axes, x first, as the file has them
    header: Any = None  # what it says by its keys: numbers of a NIfTI, text of NRRD and MetaImage
    vectors: bool = False  # the header says that the numbers are those of a vector or matrix
    notes: list[str] = field(default_factory=list)  # what was read and assumed
    suspicions: list[str] = field(default_factory=list)  # to be given as warnings

    @property
    def files(self) -> tuple[Path, ...]:
        """The header, and the file of the samples where it is another."""
        return (self.path,) if self.block.path == self.path else (self.path, self.block.path)

    def values(self) -> Array:
        """Return all numbers, rescaled; where there are several at a voxel, they are on the first axis."""
        block = self.block
        array = block.unpack() if block.compression else block.reader()(tuple(slice(0, n) for n in block.shape))
        if self.scale != (1.0, 0.0):
            with np.errstate(over="ignore"):
                array = array.astype(np.float64) * self.scale[0] + self.scale[1]
        return array if self.count == 1 or self.first else np.ascontiguousarray(np.moveaxis(array, -1, 0))

    def image(self) -> StoredImage:
        """Return the volume as an image, which has one number at a voxel."""
        if self.count != 1 or self.vectors:
            what = f"several volumes or vectors ({self.count} numbers" if self.count != 1 else "vectors (by its intent"
            raise FileFormatError(
                f"{self.path.name!r} holds {what} at a voxel), but an image has one; save one volume or channel (2D "
                f"colours as PNG or TIFF), or read a displacement field with read_transform."
            )
        read = self.block.reader()
        stored = self.block.dtype.newbyteorder("=")
        slope, intercept = self.scale
        dtype = stored if self.scale == (1.0, 0.0) else rescaled_dtype(stored, slope, intercept)

        def rescaled(region: Region) -> Array:
            return rescale(read(region), slope, intercept, dtype)

        if self.scale != (1.0, 0.0):
            self.notes.append(
                f"The stored {stored.name} samples are rescaled as the header says: {slope:g} * sample + {intercept:g}."
            )
        packed = self.block.compression == "gzip" and self.block.offset == 0
        if packed and not gzip_promises(self.block.path, self.block.skip + self.block.nbytes):
            with readable(self.path, self.format):
                read(tuple(slice(0, 1) for _ in self.frame.size))  # better a reason here than in the middle of the work
        level = StoredLevel.full(self.frame.size, read if self.scale == (1.0, 0.0) else rescaled)
        return StoredImage(
            self.path, self.format, self.frame, dtype, 1, (level,), self.files, self.notes, self.suspicions
        )
