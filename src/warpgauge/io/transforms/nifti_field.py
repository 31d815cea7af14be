"""Vector-valued NIfTI files: the intents 1006 and 1007 of ITK, and files without an intent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file, foreign_decoder, read_head
from warpgauge.io.images.frame import resolve_grid
from warpgauge.io.images.nifti import data_offset, header_and_data, header_frame, nifti_header, sample_type
from warpgauge.io.images.samples import Block, gzip_head
from warpgauge.io.transforms.dense_files import StoredField, as_floats
from warpgauge.io.transforms.lattice import Vectors

FORMAT = "NIfTI"
DISPLACEMENT, VECTOR = 1006, 1007  # NIFTI_INTENT_DISPVECT, NIFTI_INTENT_VECTOR
_GZIP = b"\x1f\x8b"


def load_nifti(path: Path) -> StoredField:
    """Load vectors, grid and intent of a NIfTI file.

    The vectors are the fifth dimension, (X, Y, Z, 1, d), as ITK, ANTs and most programs write them, or the fourth,
    (X, Y, Z, 3). Intent 1006 in the first layout means RAS vectors, 1007 LPS; anything else leaves it open.
    """
    header_path, data_path = _files(path)
    with foreign_decoder(path, "a NIfTI field"):
        header, values = _load(header_path, data_path)
        dim = [int(n) for n in header["dim"]]
        components, size = _layout(path.name, dim)
        notes: list[str] = []
        suspicions: list[str] = []
        grid = _grid(header_path, header, size, notes, suspicions)
        vectors = values.reshape(components, *grid.shape)
        intent = int(header["intent_code"])
    frame = None
    if dim[0] == 5 and intent in (DISPLACEMENT, VECTOR):
        frame = "RAS" if intent == DISPLACEMENT else "LPS"
        notes.append(f"NIfTI intent {intent}: ITK-based programs take its vectors as {frame}.")
    placed = int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0
    return StoredField(path.name, FORMAT, vectors, grid, frame, notes, suspicions, placed)


def nifti_dimensions(path: Path) -> tuple[list[int], int]:
    """Return the dimensions and the intent of a NIfTI file, without its values."""
    header_path, _ = _files(path)
    with foreign_decoder(path, "NIfTI"):
        header = _header(header_path)
        dim = [int(n) for n in header["dim"]]
        return dim[1 : 1 + max(0, min(dim[0], 7))], int(header["intent_code"])


def load_nifti_array(path: Path) -> tuple[Vectors, list[int]]:
    """Load the values of a NIfTI file in the order of its dimensions reversed (C order), and these dimensions."""
    header_path, data_path = _files(path)
    with foreign_decoder(path, "NIfTI"):
        header, values = _load(header_path, data_path)
        dim = [int(n) for n in header["dim"]]
    size = dim[1 : dim[0] + 1]
    return values.reshape(size[::-1]), size


def _files(path: Path) -> tuple[Path, Path]:
    existing_file(path, "field")
    return header_and_data(path)


def _header(path: Path) -> Any:
    packed = read_head(path, 2) == _GZIP
    header = nifti_header(gzip_head(path, 540) if packed else read_head(path, 540))
    if header is None:
        raise FileFormatError(f"{path.name!r} does not start with a NIfTI header; it is damaged or mislabelled.")
    return header


def _load(path: Path, data_path: Path) -> tuple[Any, Vectors]:
    header = _header(path)
    dim = [int(n) for n in header["dim"]]
    if not 1 <= dim[0] <= 7 or any(n < 1 for n in dim[1 : dim[0] + 1]):
        raise FileFormatError(f"{path.name!r} has the dimensions {dim}, which no field has; its header is damaged.")
    dtype = sample_type(path, header)
    shape = tuple(dim[dim[0] : 0 : -1])
    offset = data_offset(path, header) if data_path == path else 0
    if read_head(data_path, 2) == _GZIP:
        values = Block(data_path, 0, dtype, shape, "gzip", skip=offset).unpack()
    else:
        values = Block(data_path, offset, dtype, shape).reader()(tuple(slice(None) for _ in shape))
    slope, intercept = float(header["scl_slope"]), float(header["scl_inter"])
    vectors = as_floats(values, path.name)
    if np.isfinite(slope) and slope != 0 and np.isfinite(intercept) and (slope, intercept) != (1.0, 0.0):
        with np.errstate(over="ignore"):
            vectors = vectors.astype(np.float64) * slope + intercept
    return header, vectors


def _layout(name: str, dim: list[int]) -> tuple[int, tuple[int, ...]]:
    """Return the number of components and the size of the grid."""
    size = dim[1 : dim[0] + 1]
    if dim[0] == 5 and size[3] == 1 and size[4] in (2, 3) and (size[4] == 3 or size[2] == 1):
        return size[4], tuple(size[: size[4]])
    if dim[0] == 4 and size[3] == 3:
        return 3, tuple(size[:3])
    raise FileFormatError(
        f"{name!r} has the dimensions {' x '.join(map(str, size))}, but a field has X x Y x Z x 1 x 3, "
        f"X x Y x 1 x 1 x 2 or X x Y x Z x 3."
    )


def _grid(path: Path, header: Any, size: tuple[int, ...], notes: list[str], suspicions: list[str]) -> Grid:
    if int(header["xyzt_units"]) & 7 == 1:
        raise FileFormatError(f"{path.name!r} has lengths in metres, which leaves the unit of its vectors open.")
    grid, more = resolve_grid(header_frame(path, header, size, notes, suspicions), path, None, None)
    notes.extend(more)
    return grid
