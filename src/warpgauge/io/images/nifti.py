"""NIfTI-1 and NIfTI-2, as one file or as a pair, plain or gzipped; 2D and 3D."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Units
from warpgauge.io.files import read_head
from warpgauge.io.images.frame import Frame, frame_from_affine
from warpgauge.io.images.samples import GZIP, Block, gzip_head
from warpgauge.io.images.volume import Volume

RAS_TO_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
_COLOURS = (128, 2304)  # codes of RGB and RGBA
_VECTORS = (1005, 1006, 1007)  # intents of matrices, displacements and vectors
_SIMILAR = 1e-5  # below this, ITK takes sform and qform as the same
_LONGEST = 540  # bytes of a header


def nifti_header(head: bytes) -> Any | None:
    """Return nibabel's header object of the first bytes of a file, or None where they are not a NIfTI header."""
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


def is_nifti(path: Path, head: bytes) -> bool:
    """Return whether a file with these first bytes is a NIfTI, perhaps packed, or the samples beside a header."""
    if path.name.lower().endswith((".img", ".img.gz")):
        return True  # bare samples: the header beside it is checked when it is opened
    return nifti_header(gzip_head(path, _LONGEST) if head.startswith(GZIP) else head) is not None


def open_nifti(path: Path) -> Volume:
    """Read the header of a NIfTI file: (X, Y[, Z]), or with numbers along one further axis.

    A plane is (X, Y), or (X, Y, 1, 1, 2) where it has two numbers at a voxel.
    """
    path, data_path = header_and_data(path)
    header = _read_header(path)
    dim = _dimensions(path, header)
    if len(dim) == 1:
        raise FileFormatError(f"{path.name!r} has 1 dimension, but an image has 2 or 3.")
    count = math.prod(dim[3:])
    if count not in dim[3:] and count != 1:
        raise FileFormatError(f"{path.name!r} has the dimensions {dim}, but one image or field is read; extract one.")
    planar = len(dim) == 5 and dim[2:] == [1, 1, 2]
    size = tuple(dim[: 2 if planar else 3])
    block = _samples(path, data_path, header, ((count,) if count > 1 else ()) + size[::-1])
    notes: list[str] = []
    suspicions: list[str] = []
    frame = _frame(path, header, size, notes, suspicions)
    slope = float(header["scl_slope"])
    intercept = float(header["scl_inter"])
    scale = (1.0, 0.0)
    if slope != 0 and np.isfinite(slope):
        scale = (slope, intercept if np.isfinite(intercept) else 0.0)
    vectors = int(header["intent_code"]) in _VECTORS
    return Volume(path, "NIfTI", frame, block, count, True, scale, tuple(dim), header, vectors, notes, suspicions)


def _read_header(path: Path) -> Any:
    """Return nibabel's header object of a file."""
    packed = read_head(path, 2) == GZIP
    header = nifti_header(gzip_head(path, _LONGEST) if packed else read_head(path, _LONGEST))
    if header is None:
        raise FileFormatError(f"{path.name!r} does not start with a NIfTI header; the file is damaged or mislabelled.")
    return header


def _dimensions(path: Path, header: Any) -> list[int]:
    """Return the sizes of the axes, x first."""
    dim = [int(n) for n in header["dim"]]
    if not 1 <= dim[0] <= 7 or any(n < 1 for n in dim[1 : dim[0] + 1]):
        raise FileFormatError(f"{path.name!r} has the dimensions {dim}, which no image has; its header is damaged.")
    return dim[1 : dim[0] + 1]


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


def _samples(path: Path, data_path: Path, header: Any, shape: tuple[int, ...]) -> Block:
    """Return the block of the samples, in the order of the axes reversed."""
    if int(header["datatype"]) in _COLOURS:
        raise FileFormatError(
            f"{path.name!r} holds colours, which are not read from NIfTI; save it as PNG or TIFF, or one channel of it."
        )
    dtype: np.dtype[Any] = header.get_data_dtype()
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise FileFormatError(
            f"{path.name!r} has samples of type {dtype}, but integers and floats of up to 64 bits are read; convert it."
        )
    offset = float(header["vox_offset"])
    if not (np.isfinite(offset) and 0 <= offset < 2**53):
        raise FileFormatError(f"{path.name!r} says that its samples start at byte {offset}; its header is damaged.")
    start = 0 if data_path != path else int(offset)
    if read_head(data_path, 2) == GZIP:
        return Block(data_path, 0, dtype, shape, "gzip", skip=start)
    return Block(data_path, start, dtype, shape)


def _frame(path: Path, header: Any, size: tuple[int, ...], notes: list[str], suspicions: list[str]) -> Frame:
    """Return the frame by the rule of ITK where sform and qform are both set."""
    units, factor = _units(header, notes)
    sform = header.get_sform() if int(header["sform_code"]) > 0 else None
    qform = header.get_qform() if int(header["qform_code"]) > 0 else None
    affine = _chosen(path, header, (sform, qform), size, notes, suspicions)
    if affine is None:
        return _without_form(path, header, size, units, factor, notes)
    matrix = RAS_TO_LPS @ affine
    matrix[:3] *= factor
    notes.append("The NIfTI world (RAS) is turned into LPS: x and y change sign.")
    if units is None:
        notes.append("The header does not say the unit of length; a NIfTI world is taken to be in mm.")
        units = "mm"
    if len(size) == 3:
        frame = frame_from_affine(path, matrix, size, units)
    else:
        frame = _plane_frame(path, matrix, size, units)
    return _with_pixdim(replace(frame, factor=factor), header)


def _with_pixdim(frame: Frame, header: Any) -> Frame:
    """Take the spacing of pixdim where the matrix agrees: its columns carry the rounding of float32 numbers."""
    pixdim = np.abs(np.asarray(header["pixdim"][1 : len(frame.size) + 1], dtype=np.float64)) * frame.factor
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
    frame = frame_from_affine(path, np.diag([*spacing, 1.0]), size, units or "mm")
    return replace(frame, factor=factor)


def _plane_frame(path: Path, matrix: Floats, size: tuple[int, ...], units: Units) -> Frame:
    """Return the frame of a 2D file, whose plane must be the world's x-y plane for 2D points to mean anything."""
    planar = np.array([[*matrix[0, :2], matrix[0, 3]], [*matrix[1, :2], matrix[1, 3]], [0.0, 0.0, 1.0]])
    if np.any(np.abs(matrix[2, :2]) > 1e-4 * np.linalg.norm(matrix[:3, :2])):
        raise FileFormatError(
            f"{path.name!r} is a 2D image whose plane is tilted out of the x-y plane of the world, which 2D points "
            f"cannot express; store it as a volume of one slice, or set its direction to the x-y plane."
        )
    return frame_from_affine(path, planar, size, units)
