"""NIfTI-1 and NIfTI-2, as one file or as a pair, plain or gzipped; 2D and 3D."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Units
from warpgauge.io.files import foreign_decoder, read_head
from warpgauge.io.images.frame import Frame, frame_from_affine
from warpgauge.io.images.samples import Block, gzip_head, gzip_promises, rescale, rescaled_dtype, without_alpha
from warpgauge.io.images.stored import Array, Region, RegionReader, StoredImage, StoredLevel

_RAS_TO_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
COLOURS = {128: 3, 2304: 4}  # channels by datatype code
_VECTOR_INTENTS = (1005, 1006, 1007)
_SIMILAR = 1e-5  # below this, ITK takes sform and qform as the same
_GZIP = b"\x1f\x8b"


def nifti_header(head: bytes) -> Any | None:
    """Return nibabel's header object of the first 540 bytes of a file, or None where they are not a NIfTI header."""
    import nibabel

    for kind, length, start, magics in (
        (nibabel.Nifti1Header, 348, 344, (b"n+1\0", b"ni1\0")),
        (nibabel.Nifti2Header, 540, 4, (b"n+2\0", b"ni2\0")),
    ):
        if len(head) < length or head[start : start + 4] not in magics:
            continue
        for endianness in ("<", ">"):
            if int.from_bytes(head[:4], "little" if endianness == "<" else "big") == length:
                return kind(head[:length], endianness=endianness, check=False)
    return None


def open_nifti(path: Path) -> StoredImage:
    """Describe a NIfTI file."""
    with foreign_decoder(path, "NIfTI"):
        path, data_path = header_and_data(path)
        packed = read_head(path, 2) == _GZIP
        header = nifti_header(gzip_head(path, 540) if packed else read_head(path, 540))
        if header is None:
            raise FileFormatError(
                f"{path.name!r} does not start with a NIfTI header; the file is damaged or mislabelled."
            )
        size, channels = _size(path, header)
        stored = sample_type(path, header)
        shape = size[::-1] + ((channels,) if channels > 1 else ())
        offset = 0 if data_path != path else max(data_offset(path, header), 0)
        if packed or read_head(data_path, 2) == _GZIP:
            block = Block(data_path, 0, stored, shape, "gzip", skip=offset)
        else:
            block = Block(data_path, offset, stored, shape)
        notes: list[str] = []
        suspicions: list[str] = []
        frame = header_frame(path, header, size, notes, suspicions)
        read, dtype, channels = _values(header, block, stored, channels, notes)
    if block.compression and not gzip_promises(data_path, block.skip + block.nbytes):
        with foreign_decoder(path, "NIfTI"):
            read(tuple(slice(0, 1) for _ in size))  # unpack now: better a reason here than in the middle of the work
    files = (path,) if data_path == path else (path, data_path)
    level = StoredLevel.full(size, read)
    return StoredImage(path, "NIfTI", frame, dtype, channels, (level,), files, notes, suspicions)


def header_and_data(path: Path) -> tuple[Path, Path]:
    """Return header and data file, which are the same unless the file is a .hdr/.img pair."""
    name = path.name
    for head, data in ((".hdr", ".img"), (".hdr.gz", ".img.gz")):
        if not name.lower().endswith((head, data)):
            continue
        stem = name[: -len(head)]
        paths = path.with_name(stem + head), path.with_name(stem + data)
        for other in paths:
            if not other.is_file():
                raise FileFormatError(f"{name!r} is half of a NIfTI pair, but {other.name!r} is not next to it.")
        return paths
    return path, path


def _size(path: Path, header: Any) -> tuple[tuple[int, ...], int]:
    dim = [int(n) for n in header["dim"]]
    intent = int(header["intent_code"])
    if not 1 <= dim[0] <= 7 or any(n < 1 for n in dim[1 : dim[0] + 1]):
        raise FileFormatError(f"{path.name!r} has the dimensions {dim}, which no image has; its header is damaged.")
    if intent in _VECTOR_INTENTS or any(n > 1 for n in dim[4 : dim[0] + 1]):
        what = "vectors or matrices" if intent in _VECTOR_INTENTS else "several volumes"
        raise FileFormatError(
            f"{path.name!r} holds {what} (dimensions {dim[1 : dim[0] + 1]}), not one image; extract one volume, or "
            f"read a displacement field with read_transform."
        )
    if dim[0] == 1:
        raise FileFormatError(f"{path.name!r} has 1 dimension, but an image has 2 or 3.")
    size = tuple(dim[1 : min(dim[0], 3) + 1])
    channels = COLOURS.get(int(header["datatype"]), 1)
    if channels > 1 and len(size) == 3:
        raise FileFormatError(f"{path.name!r} is a colour volume, which is not supported; save one channel of it.")
    return size, channels


def sample_type(path: Path, header: Any) -> np.dtype[Any]:
    """Return the type of the stored samples."""
    if int(header["datatype"]) in COLOURS:
        return np.dtype(np.uint8)
    dtype: np.dtype[Any] = header.get_data_dtype()
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise FileFormatError(
            f"{path.name!r} has samples of type {dtype}, but integers and floats of up to 64 bits are read; convert it."
        )
    return dtype


def data_offset(path: Path, header: Any) -> int:
    """Return where the samples start in their file."""
    offset = float(header["vox_offset"])
    if not (np.isfinite(offset) and 0 <= offset < 2**53):
        raise FileFormatError(f"{path.name!r} says that its samples start at byte {offset}; its header is damaged.")
    return int(offset)


def _values(
    header: Any, block: Block, stored: np.dtype[Any], channels: int, notes: list[str]
) -> tuple[RegionReader, np.dtype[Any], int]:
    """Apply the scale of the header, and drop the alpha of colours."""
    read = block.reader()
    dtype = stored.newbyteorder("=")
    if channels == 4:
        notes.append("The alpha channel is dropped.")
        return without_alpha(read), dtype, 3
    slope, intercept = (float(header[key]) for key in ("scl_slope", "scl_inter"))
    if channels == 3 or slope == 0 or not np.isfinite(slope) or (slope, intercept) == (1.0, 0.0):
        return read, dtype, channels
    intercept = intercept if np.isfinite(intercept) else 0.0
    scaled = rescaled_dtype(dtype, slope, intercept)
    notes.append(
        f"The stored {dtype.name} samples are rescaled as the header says: {slope:g} * sample + {intercept:g}."
    )

    def read_scaled(region: Region) -> Array:
        return rescale(read(region), slope, intercept, scaled)

    return read_scaled, scaled, channels


def header_frame(path: Path, header: Any, size: tuple[int, ...], notes: list[str], suspicions: list[str]) -> Frame:
    """Return the frame by the rule of ITK where sform and qform are both set."""
    units, factor = _units(header, notes)
    sform = header.get_sform() if int(header["sform_code"]) > 0 else None
    qform = header.get_qform() if int(header["qform_code"]) > 0 else None
    affine = _chosen(path, header, (sform, qform), size, notes, suspicions)
    if affine is None:
        return _without_form(path, header, size, units, factor, notes)
    matrix = _RAS_TO_LPS @ affine
    matrix[:3] *= factor
    notes.append("The NIfTI world (RAS) is turned into LPS: x and y change sign.")
    if units is None:
        notes.append("The header does not say the unit of length; a NIfTI world is taken to be in mm.")
        units = "mm"
    if len(size) == 3:
        frame = frame_from_affine(path, matrix, size, units)
    else:
        frame = _plane_frame(path, matrix, size, units)
    return _with_pixdim(frame, header, factor)


def _with_pixdim(frame: Frame, header: Any, factor: float) -> Frame:
    """Take the spacing of pixdim where the matrix agrees: its columns carry the rounding of float32 numbers."""
    pixdim = np.abs(np.asarray(header["pixdim"][1 : len(frame.size) + 1], dtype=np.float64)) * factor
    same = frame.spacing is not None and np.allclose(frame.spacing, pixdim, rtol=1e-5, atol=0)
    return replace(frame, spacing=pixdim) if same else frame


def _units(header: Any, notes: list[str]) -> tuple[Units | None, float]:
    code = int(header["xyzt_units"]) & 7
    if code == 1:
        notes.append("Lengths in metres are turned into mm.")
        return "mm", 1000.0
    known: dict[int, Units] = {2: "mm", 3: "um"}
    return known.get(code), 1.0


def _chosen(
    path: Path,
    header: Any,
    forms: tuple[Floats | None, Floats | None],
    size: tuple[int, ...],
    notes: list[str],
    suspicions: list[str],
) -> Floats | None:
    """Choose as ITK, ANTs, elastix and Slicer do when both matrices are there and differ; say so, with the number."""
    sform, qform = forms
    if sform is None or qform is None:
        chosen, name = (qform, "qform") if sform is None else (sform, "sform")
        if chosen is not None:
            notes.append(f"Position and direction come from the {name}, the only one that is set.")
        return chosen
    corners = np.array(np.meshgrid(*((0, n - 1) for n in (*size, 1)[:3]))).reshape(3, -1)
    with np.errstate(all="ignore"):
        shift = (sform - qform)[:3] @ np.vstack([corners, np.ones(corners.shape[1])])
        distance = float(np.max(np.linalg.norm(shift, axis=0)))
    use_sform = bool(np.allclose(sform, qform, rtol=0, atol=_SIMILAR))
    use_sform |= int(header["sform_code"]) == 1 and _unsheared(sform)
    name, other = ("sform", "qform") if use_sform else ("qform", "sform")
    notes.append(f"Position and direction come from the {name}; the {other} differs by at most {distance:.3g}.")
    if not distance <= 0.01 * float(np.min(np.abs(header["pixdim"][1:4]))):
        suspicions.append(
            f"{path.name!r} has an sform and a qform that place a corner {distance:.3g} apart; the {name} is used, "
            f"as ITK, ANTs and elastix do, but other programs may use the {other}."
        )
    return sform if use_sform else qform


def _unsheared(matrix: Floats) -> bool:
    with np.errstate(all="ignore"):
        direction = matrix[:3, :3] / np.linalg.norm(matrix[:3, :3], axis=0)
    return bool(np.allclose(direction.T @ direction, np.eye(3), atol=1e-4))


def _without_form(
    path: Path, header: Any, size: tuple[int, ...], units: Units | None, factor: float, notes: list[str]
) -> Frame:
    spacing = np.abs(np.asarray(header["pixdim"][1 : len(size) + 1], dtype=np.float64)) * factor
    if units is None and np.all((spacing == 1) | (spacing == 0)):
        return Frame(size)
    notes.append(
        "Neither sform nor qform is set: the origin is taken to be 0 and the axes to run along x, y, z of the world; "
        "the spacing is the header's pixdim."
    )
    if units is None:
        notes.append("The header does not say the unit of length; it is taken to be mm.")
    return frame_from_affine(path, np.diag([*spacing, 1.0]), size, units or "mm")


def _plane_frame(path: Path, matrix: Floats, size: tuple[int, ...], units: Units) -> Frame:
    """Return the frame of a 2D file, whose plane must be the world's x-y plane for 2D points to mean anything."""
    planar = np.array([[*matrix[0, :2], matrix[0, 3]], [*matrix[1, :2], matrix[1, 3]], [0.0, 0.0, 1.0]])
    if np.any(np.abs(matrix[2, :2]) > 1e-4 * np.linalg.norm(matrix[:3, :2])):
        raise FileFormatError(
            f"{path.name!r} is a 2D image whose plane is tilted out of the x-y plane of the world, which 2D points "
            f"cannot express; store it as a volume of one slice, or set its direction to the x-y plane."
        )
    return frame_from_affine(path, planar, size, units)
