"""A folder of DICOM slices of one series, sorted by position; refused with the reason if they form no volume."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats
from warpgauge.io.files import finite_numbers, foreign_decoder, quiet, read_head, readable, require
from warpgauge.io.images.frame import Frame
from warpgauge.io.images.samples import rescale, rescaled_dtype
from warpgauge.io.images.stored import Array, Region, RegionReader, StoredImage, StoredLevel
from warpgauge.io.limits import check_memory, size_on_disk

_TAGS = [
    "SeriesInstanceUID", "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "Rows",
    "Columns", "SamplesPerPixel", "BitsAllocated", "BitsStored", "PixelRepresentation", "NumberOfFrames",
    "RescaleSlope", "RescaleIntercept", "SliceThickness", "SpacingBetweenSlices",
    "PhotometricInterpretation", ]  # fmt: skip
_PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_DIRECTORY = "1.2.840.10008.1.3.10"
_PREAMBLE = 132
_ANGLE = 1e-3  # largest difference of direction cosines between slices
_UNEVEN = 0.01  # largest difference of a gap from the typical gap, as a part of it
_DRIFT = 0.1  # largest sideways shift over the whole stack, as a part of a pixel
_UNSCALED = (1.0, 0.0)


@dataclass(frozen=True)
class _Slice:
    """One slice: where it lies (LPS, mm), and what its samples are; ``spacing`` is along x, y."""

    path: Path
    size: tuple[int, int]
    position: Floats
    row_direction: Floats
    column_direction: Floats
    spacing: Floats
    thickness: float | None
    dtype: np.dtype[Any]
    scale: tuple[float, float]
    inverted: bool


def is_dicom(head: bytes) -> bool:
    """Return whether a file that begins like this has DICOM's mark after its preamble."""
    return head[128:_PREAMBLE] == b"DICM"


def open_dicom(folder: Path) -> StoredImage:
    """Describe a folder of DICOM slices."""
    pydicom = require("pydicom", "dicom")
    notes: list[str] = []
    headers = _headers(folder, pydicom, notes)
    _refuse_mixed(folder, headers)
    slices, frame = _stacked(folder, [_slice(path, header) for path, header in headers], notes)
    stored = slices[0].dtype
    kinds = {rescaled_dtype(stored, *entry.scale) for entry in slices if entry.scale != _UNSCALED} or {stored}
    dtype = np.result_type(*kinds)
    scales = {entry.scale for entry in slices}
    if len(scales) > 1:
        notes.append(f"The stored {stored.name} samples are rescaled slice by slice, with {len(scales)} scales.")
    elif scales != {_UNSCALED}:
        slope, intercept = slices[0].scale
        notes.append(
            f"The stored {stored.name} samples are rescaled as the header says: {slope:g} * sample + {intercept:g}."
        )
    paths = tuple(entry.path for entry in slices)
    check_memory(folder.name, math.prod(frame.size) * dtype.itemsize, lambda: size_on_disk(*paths))
    if any(entry.inverted for entry in slices):
        notes.append("Larger samples are darker in this series (MONOCHROME1); they are not inverted.")
    level = StoredLevel.full(frame.size, _reader(pydicom, slices, dtype))
    files = tuple(path for path, _ in headers)
    return StoredImage(folder, "DICOM", frame, dtype, 1, (level,), files, notes)


def _headers(folder: Path, pydicom: Any, notes: list[str]) -> list[tuple[Path, Any]]:
    headers = []
    others = []
    for path in sorted(entry for entry in folder.iterdir() if entry.is_file()):
        if not is_dicom(read_head(path, _PREAMBLE)):
            others.append(path.name)
            continue
        with foreign_decoder(path, "DICOM"):
            header = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=_TAGS)
            if str(header.file_meta.get("MediaStorageSOPClassUID", "")) == _DIRECTORY:
                others.append(path.name)
                continue
        headers.append((path, header))
    if not headers:
        raise FileFormatError(
            f"The folder {folder.name!r} has no DICOM file directly in it; give the folder of one series."
        )
    if others:
        notes.append(
            f"{counted(len(others), 'file')} left out (not a DICOM slice): {', '.join(map(repr, others[:5]))}."
        )
    return headers


def _refuse_mixed(folder: Path, headers: list[tuple[Path, Any]]) -> None:
    series: dict[str, list[Path]] = defaultdict(list)
    for path, header in headers:
        series[str(header.get("SeriesInstanceUID", ""))].append(path)
    if len(series) > 1:
        # By a file and not by its description, in which names of patients are found.
        listed = "; ".join(
            f"that of {members[0].name!r} with {counted(len(members), 'file')}"
            for members in sorted(series.values(), key=len, reverse=True)[:5]
        )
        raise FileFormatError(
            f"The folder {folder.name!r} mixes {len(series)} series ({listed}); put the files of one series into a "
            f"folder of their own."
        )


def _numbers(path: Path, header: Any, key: str, count: int) -> Floats:
    return finite_numbers(np.ravel(header.get(key) or ()), path.name, key, count)


def _slice(path: Path, header: Any) -> _Slice:
    if int(header.get("NumberOfFrames") or 1) > 1:
        raise FileFormatError(
            f"{path.name!r} is a DICOM file of {int(header.NumberOfFrames)} frames, which is not read; convert it to "
            f"NIfTI, or to one file per slice."
        )
    if int(header.get("SamplesPerPixel") or 1) != 1:
        raise FileFormatError(f"{path.name!r} is a colour slice, but a volume of one channel is expected.")
    rows = int(header.get("Rows") or 0)
    columns = int(header.get("Columns") or 0)
    if rows < 1 or columns < 1:
        raise FileFormatError(
            f"{path.name!r} has no pixels ({rows} rows, {columns} columns); it is not a slice of an image."
        )
    bits = int(header.get("BitsAllocated") or 0)
    if bits not in (8, 16, 32):
        raise FileFormatError(f"{path.name!r} has samples of {bits} bits, but 8, 16 or 32 are read.")
    # Packed samples are found out when they are unpacked; plain ones can be counted.
    plain = str(header.file_meta.get("TransferSyntaxUID", "")) in _PLAIN
    needed = rows * columns * bits // 8
    size = path.stat().st_size
    if needed > (size if plain else size * 2**16):
        raise FileFormatError(
            f"{path.name!r} is truncated: its header promises {needed} bytes of samples, but the file has {size} in "
            f"all."
        )
    slope = header.get("RescaleSlope")
    intercept = header.get("RescaleIntercept")
    scale = (1.0 if slope is None else float(slope), 0.0 if intercept is None else float(intercept))
    if not np.all(np.isfinite(scale)) or scale[0] == 0:
        raise FileFormatError(f"{path.name!r} has the rescale slope {slope} and intercept {intercept}; it is damaged.")
    orientation = _numbers(path, header, "ImageOrientationPatient", 6)
    thickness = header.get("SpacingBetweenSlices") or header.get("SliceThickness")
    return _Slice(
        path,
        (columns, rows),
        _numbers(path, header, "ImagePositionPatient", 3),
        orientation[:3],
        orientation[3:],
        _numbers(path, header, "PixelSpacing", 2)[::-1],  # the file has the distance between rows (along y) first
        None if thickness is None else float(thickness),
        np.dtype(f"{'i' if int(header.get('PixelRepresentation') or 0) else 'u'}{bits // 8}"),
        scale,
        str(header.get("PhotometricInterpretation", "")) == "MONOCHROME1",
    )


def _reader(pydicom: Any, slices: list[_Slice], dtype: np.dtype[Any]) -> RegionReader:
    """Read slice by slice; once a region needs most slices, keep them all, as the next plane will need them again."""
    volume: list[Array] = []

    def load(entry: _Slice) -> Array:
        with readable(entry.path, "DICOM"):
            with quiet():
                content = pydicom.dcmread(entry.path)
            array = np.asarray(content.pixel_array)
        if array.shape != entry.size[::-1]:
            raise FileFormatError(f"{entry.path.name!r} unpacks to the shape {array.shape}, not {entry.size[::-1]}.")
        return array.astype(dtype) if entry.scale == _UNSCALED else rescale(array, *entry.scale, dtype)

    def read(region: Region) -> Array:
        wanted = slices[region[0]]
        if not volume and 4 * len(wanted) <= len(slices):
            return np.stack([load(entry)[region[1:]] for entry in wanted])
        if not volume:
            volume.append(np.stack([load(entry) for entry in slices]))
        return volume[0][region].copy()

    return read


def _stacked(folder: Path, slices: list[_Slice], notes: list[str]) -> tuple[list[_Slice], Frame]:
    """Return the slices in the order along their normal, and the frame of the volume."""
    first = slices[0]
    for other in slices[1:]:
        _refuse_different(first, other)
    kinds = sorted({entry.dtype.str[1:] for entry in slices})
    if len(kinds) > 1:
        raise FileFormatError(f"The slices of {folder.name!r} have samples of several types ({', '.join(kinds)}).")
    axes = np.column_stack([first.row_direction, first.column_direction])
    if not np.allclose(axes.T @ axes, np.eye(2), atol=_ANGLE):
        raise FileFormatError(
            f"{first.path.name!r} has an ImageOrientationPatient that is not two directions at a right angle."
        )
    if np.any(first.spacing <= 0):
        raise FileFormatError(
            f"{first.path.name!r} has the PixelSpacing {first.spacing[::-1].tolist()}, which is not positive."
        )
    normal = np.cross(axes[:, 0], axes[:, 1])
    along = np.array([entry.position @ normal for entry in slices])
    order = np.argsort(along, kind="stable")
    ordered = [slices[place] for place in order]
    gap = _gap(folder, ordered, along[order], notes)
    _refuse_leaning(folder, ordered, axes)
    notes.append(f"{len(slices)} slices were sorted by position along their normal, which is the third axis.")
    spacing = np.array([*first.spacing, gap])
    direction = np.column_stack([axes, normal])
    return ordered, Frame((*first.size, len(slices)), spacing, ordered[0].position, direction, "mm")


def _refuse_different(first: _Slice, other: _Slice) -> None:
    for what, a, b, tolerance in (
        ("size", first.size, other.size, 0.0),
        ("pixel spacing", first.spacing, other.spacing, 1e-4 * float(np.max(np.abs(first.spacing)))),
        ("orientation", first.row_direction, other.row_direction, _ANGLE),
        ("orientation", first.column_direction, other.column_direction, _ANGLE),
    ):
        if not np.allclose(a, b, rtol=0, atol=tolerance):
            raise FileFormatError(
                f"{other.path.name!r} has the {what} {np.asarray(b).tolist()}, but {first.path.name!r} has "
                f"{np.asarray(a).tolist()}; the slices of one volume must agree."
            )


def _gap(folder: Path, ordered: list[_Slice], along: Floats, notes: list[str]) -> float:
    """Return the distance between slices, or the reason why there is none."""
    if len(ordered) == 1:
        thickness = ordered[0].thickness
        if thickness is None or not thickness > 0:
            raise FileFormatError(
                f"The folder {folder.name!r} has one slice and no SliceThickness, so it is not a volume."
            )
        notes.append("There is one slice only; the third spacing is its thickness.")
        return thickness
    gaps = np.diff(along)
    typical = float(np.sort(gaps)[(len(gaps) - 1) // 2])  # the lower median: a gap too wide must not count as typical
    twins = np.flatnonzero(gaps <= 1e-3 * max(typical, 1e-3))
    if twins.size:
        i = int(twins[0])
        raise FileFormatError(
            f"The folder {folder.name!r} has {twins.size} slices at the place of another, first "
            f"{ordered[i].path.name!r} and {ordered[i + 1].path.name!r} at {along[i]:.3f} mm; keep one time point or "
            f"echo."
        )
    uneven = np.flatnonzero(np.abs(gaps - typical) > _UNEVEN * typical)
    if uneven.size == 0:
        return float(along[-1] - along[0]) / (len(ordered) - 1)
    i = int(uneven[np.argmax(np.abs(gaps - typical)[uneven])])
    between = f"{ordered[i].path.name!r} at {along[i]:.3f} and {ordered[i + 1].path.name!r} at {along[i + 1]:.3f} mm"
    missing = gaps[uneven] / typical
    if np.all(np.abs(missing - np.round(missing)) < 0.05) and np.all(missing > 1.5):
        raise FileFormatError(
            f"The folder {folder.name!r} lacks {int(np.sum(np.round(missing) - 1))} slices: between {between} the "
            f"gap is {gaps[i]:.3f} mm instead of {typical:.3f}; add the missing files."
        )
    raise FileFormatError(
        f"The slices of {folder.name!r} are unequally spaced, from {gaps.min():.3f} to {gaps.max():.3f} mm (the "
        f"typical gap is {typical:.3f}, the worst between {between}); resample the volume onto a regular grid first."
    )


def _refuse_leaning(folder: Path, ordered: list[_Slice], axes: Floats) -> None:
    """Refuse a stack that leans, as of a tilted gantry: its axes are not at right angles."""
    positions = np.array([entry.position for entry in ordered])
    drift = float(np.max(np.abs((positions - positions[0]) @ axes)))
    if drift > _DRIFT * float(np.min(ordered[0].spacing)):
        raise FileFormatError(
            f"The slices of {folder.name!r} drift sideways by {drift:.3f} mm over the stack (as of a tilted gantry), "
            f"which a grid of right angles cannot express; resample the volume first."
        )
