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
from warpgauge.io.files import foreign_decoder, quiet, read_head, readable, require
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


def is_dicom(path: Path) -> bool:
    """Return whether a file has DICOM's mark after its preamble."""
    return read_head(path, _PREAMBLE)[128:] == b"DICM"


@dataclass(frozen=True)
class _Scale:
    slope: float
    intercept: float


def open_dicom(folder: Path) -> StoredImage:
    """Describe a folder of DICOM slices."""
    pydicom = require("pydicom", "dicom")
    notes: list[str] = []
    with foreign_decoder(folder, "a DICOM series"):
        headers = _headers(folder, pydicom, notes)
        _one_series(folder, headers)
        slices = [_slice(path, header) for path, header in headers]
        order, frame = stacked(folder, slices, notes)
        ordered = [headers[i] for i in order]
        stored, scales = _kind(folder, ordered)
        dtype = _rescaled(stored, scales, notes)
        for path, header in ordered:
            _check_size(path, header)
        check_memory(
            folder.name,
            math.prod(frame.size) * dtype.itemsize,
            lambda: size_on_disk(*(path for path, _ in ordered)),
        )
        if any(str(header.get("PhotometricInterpretation", "")) == "MONOCHROME1" for _, header in ordered):
            notes.append("Larger samples are darker in this series (MONOCHROME1); they are not inverted.")
        read = _reader(pydicom, [path for path, _ in ordered], scales, dtype, frame.size)
    files = tuple(path for path, _ in headers)
    level = StoredLevel.full(frame.size, read)
    return StoredImage(folder, "DICOM", frame, dtype, 1, (level,), files, notes)


def _headers(folder: Path, pydicom: Any, notes: list[str]) -> list[tuple[Path, Any]]:
    headers, ignored = [], []
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        if not is_dicom(path):
            ignored.append(path.name)
            continue
        with foreign_decoder(path, "DICOM"):
            header = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=_TAGS)
            if str(header.file_meta.get("MediaStorageSOPClassUID", "")) == _DIRECTORY:
                ignored.append(path.name)
                continue
        headers.append((path, header))
    if not headers:
        raise FileFormatError(
            f"The folder {folder.name!r} has no DICOM file directly in it; give the folder of one series."
        )
    if ignored:
        notes.append(
            f"{counted(len(ignored), 'file')} left out (not a DICOM slice): {', '.join(map(repr, ignored[:5]))}."
        )
    return headers


def _one_series(folder: Path, headers: list[tuple[Path, Any]]) -> None:
    found: dict[str, list[Path]] = defaultdict(list)
    for path, header in headers:
        found[str(header.get("SeriesInstanceUID", ""))].append(path)
    if len(found) > 1:
        # By a file and not by its description, in which names of patients are found.
        listed = "; ".join(
            f"that of {members[0].name!r} with {counted(len(members), 'file')}"
            for members in sorted(found.values(), key=len, reverse=True)[:5]
        )
        raise FileFormatError(
            f"The folder {folder.name!r} mixes {len(found)} series ({listed}); put the files of one series into a "
            f"folder of their own."
        )


def _numbers(path: Path, header: Any, key: str, count: int) -> Floats:
    value = header.get(key)
    try:
        numbers = np.array([float(v) for v in (value if count > 1 else [value])])
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (count,) or not np.all(np.isfinite(numbers)):
        raise FileFormatError(
            f"{path.name!r} has {key} {str(value)[:60]!r}, but {count} finite numbers are expected, without which a "
            f"slice has no place in the world."
        )
    return numbers


def _slice(path: Path, header: Any) -> Slice:
    if int(header.get("NumberOfFrames") or 1) > 1:
        raise FileFormatError(
            f"{path.name!r} is a DICOM file of {int(header.NumberOfFrames)} frames, which is not read; convert it to "
            f"NIfTI, or to one file per slice."
        )
    if int(header.get("SamplesPerPixel") or 1) != 1:
        raise FileFormatError(f"{path.name!r} is a colour slice, but a volume of one channel is expected.")
    rows, columns = int(header.get("Rows") or 0), int(header.get("Columns") or 0)
    if rows < 1 or columns < 1:
        raise FileFormatError(
            f"{path.name!r} has no pixels ({rows} rows, {columns} columns); it is not a slice of an image."
        )
    orientation = _numbers(path, header, "ImageOrientationPatient", 6)
    spacing = _numbers(path, header, "PixelSpacing", 2)
    thickness = header.get("SpacingBetweenSlices") or header.get("SliceThickness")
    return Slice(
        path.name,
        (columns, rows),
        _numbers(path, header, "ImagePositionPatient", 3),
        orientation[:3],
        orientation[3:],
        spacing[::-1],  # the file has the distance between rows (along y) first
        None if thickness is None else float(thickness),
    )


def _kind(folder: Path, headers: list[tuple[Path, Any]]) -> tuple[np.dtype[Any], list[_Scale]]:
    kinds, scales = set(), []
    for path, header in headers:
        bits = int(header.get("BitsAllocated") or 0)
        if bits not in (8, 16, 32):
            raise FileFormatError(f"{path.name!r} has samples of {bits} bits, but 8, 16 or 32 are read.")
        kinds.add(f"{'i' if int(header.get('PixelRepresentation') or 0) else 'u'}{bits // 8}")
        slope, intercept = header.get("RescaleSlope"), header.get("RescaleIntercept")
        scale = _Scale(1.0 if slope is None else float(slope), 0.0 if intercept is None else float(intercept))
        if not (np.isfinite(scale.slope) and np.isfinite(scale.intercept)) or scale.slope == 0:
            raise FileFormatError(
                f"{path.name!r} has the rescale slope {slope} and intercept {intercept}; it is damaged."
            )
        scales.append(scale)
    if len(kinds) > 1:
        raise FileFormatError(
            f"The slices of {folder.name!r} have samples of several types ({', '.join(sorted(kinds))})."
        )
    return np.dtype(kinds.pop()), scales


def _rescaled(stored: np.dtype[Any], scales: list[_Scale], notes: list[str]) -> np.dtype[Any]:
    different = set(scales)
    if different == {_Scale(1.0, 0.0)}:
        return stored
    if len(different) == 1:
        scale = scales[0]
        notes.append(
            f"The stored {stored.name} samples are rescaled as the header says: {scale.slope:g} * sample + "
            f"{scale.intercept:g}."
        )
    else:
        notes.append(
            f"The stored {stored.name} samples are rescaled slice by slice, with {len(different)} different scales."
        )
    kinds = {rescaled_dtype(stored, scale.slope, scale.intercept) for scale in different}
    return kinds.pop() if len(kinds) == 1 else np.result_type(*kinds)


def _check_size(path: Path, header: Any) -> None:
    """Refuse plain slices that are shorter than their samples; packed ones are found out when they are unpacked."""
    syntax = str(header.file_meta.get("TransferSyntaxUID", ""))
    needed = int(header.Rows) * int(header.Columns) * int(header.BitsAllocated) // 8
    size = path.stat().st_size
    if needed > (size if syntax in _PLAIN else size * 2**16):
        raise FileFormatError(
            f"{path.name!r} is truncated: its header promises {needed} bytes of samples, but the file has {size} in "
            f"all."
        )


def _reader(
    pydicom: Any, paths: list[Path], scales: list[_Scale], dtype: np.dtype[Any], size: tuple[int, ...]
) -> RegionReader:
    """Read slice by slice; once a region needs most slices, keep them all, as the next plane will need them again."""
    volume: list[Array] = []

    def load(k: int) -> Array:
        with readable(paths[k], "DICOM"):
            with quiet():
                slice_ = pydicom.dcmread(paths[k])
            array = np.asarray(slice_.pixel_array)
        if array.shape != (size[1], size[0]):
            raise FileFormatError(f"{paths[k].name!r} unpacks to the shape {array.shape}, not {(size[1], size[0])}.")
        scale = scales[k]
        if scale == _Scale(1.0, 0.0):
            return array.astype(dtype)
        return rescale(array, scale.slope, scale.intercept, dtype)

    def read(region: Region) -> Array:
        slices = range(region[0].start, region[0].stop)
        if not volume and 4 * len(slices) <= len(paths):
            return np.stack([load(k)[region[1:]] for k in slices])
        if not volume:
            volume.append(np.stack([load(k) for k in range(len(paths))]))
        return volume[0][region].copy()

    return read


_ANGLE = 1e-3  # largest difference of direction cosines between slices
_UNEVEN = 0.01  # largest difference of a gap from the typical gap, as a part of it
_DRIFT = 0.1  # largest sideways shift over the whole stack, as a part of a pixel


@dataclass(frozen=True)
class Slice:
    """One slice: its file, its size and where it lies (LPS, mm); ``spacing`` is along x, y."""

    name: str
    size: tuple[int, int]
    position: Floats
    row_direction: Floats
    column_direction: Floats
    spacing: Floats
    thickness: float | None


def stacked(folder: Path, slices: list[Slice], notes: list[str]) -> tuple[list[int], Frame]:
    """Return the order of the slices along their normal, and the frame of the volume."""
    first = slices[0]
    for other in slices[1:]:
        _check_same(first, other)
    axes = np.column_stack([first.row_direction, first.column_direction])
    if not np.allclose(axes.T @ axes, np.eye(2), atol=_ANGLE):
        raise FileFormatError(
            f"{first.name!r} has an ImageOrientationPatient that is not two directions at a right angle."
        )
    if np.any(first.spacing <= 0):
        raise FileFormatError(
            f"{first.name!r} has the PixelSpacing {first.spacing[::-1].tolist()}, which is not positive."
        )
    normal = np.cross(axes[:, 0], axes[:, 1])
    along = np.array([s.position @ normal for s in slices])
    order = [int(i) for i in np.argsort(along, kind="stable")]
    gap = _gap(folder, [slices[i] for i in order], along[order], notes)
    _check_drift(folder, [slices[i] for i in order], axes, first.spacing)
    notes.append(f"{len(slices)} slices were sorted by position along their normal, which is the third axis.")
    frame = Frame(
        (*first.size, len(slices)),
        np.array([*first.spacing, gap]),
        slices[order[0]].position,
        np.column_stack([axes, normal]),
        "mm",
    )
    return order, frame


def _check_same(first: Slice, other: Slice) -> None:
    for what, a, b, tolerance in (
        ("size", first.size, other.size, 0.0),
        ("pixel spacing", first.spacing, other.spacing, 1e-4 * float(np.max(np.abs(first.spacing)))),
        ("orientation", first.row_direction, other.row_direction, _ANGLE),
        ("orientation", first.column_direction, other.column_direction, _ANGLE),
    ):
        if not np.allclose(a, b, rtol=0, atol=tolerance):
            raise FileFormatError(
                f"{other.name!r} has the {what} {np.asarray(b).tolist()}, but {first.name!r} has "
                f"{np.asarray(a).tolist()}; the slices of one volume must agree."
            )


def _gap(folder: Path, ordered: list[Slice], along: Floats, notes: list[str]) -> float:
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
            f"The folder {folder.name!r} has {twins.size} slices at the place of another, first {ordered[i].name!r} "
            f"and {ordered[i + 1].name!r} at {along[i]:.3f} mm; keep one time point or echo."
        )
    uneven = np.flatnonzero(np.abs(gaps - typical) > _UNEVEN * typical)
    if uneven.size == 0:
        return float(along[-1] - along[0]) / (len(ordered) - 1)
    i = int(uneven[np.argmax(np.abs(gaps - typical)[uneven])])
    missing = gaps[uneven] / typical
    between = f"{ordered[i].name!r} at {along[i]:.3f} and {ordered[i + 1].name!r} at {along[i + 1]:.3f} mm"
    if np.all(np.abs(missing - np.round(missing)) < 0.05) and np.all(missing > 1.5):
        raise FileFormatError(
            f"The folder {folder.name!r} lacks {int(np.sum(np.round(missing) - 1))} slices: between {between} the "
            f"gap is {gaps[i]:.3f} mm instead of {typical:.3f}; add the missing files."
        )
    raise FileFormatError(
        f"The slices of {folder.name!r} are unequally spaced, from {gaps.min():.3f} to {gaps.max():.3f} mm (the "
        f"typical gap is {typical:.3f}, the worst between {between}); resample the volume onto a regular grid first."
    )


def _check_drift(folder: Path, ordered: list[Slice], axes: Floats, spacing: Floats) -> None:
    """Refuse a stack that leans, as of a tilted gantry: its axes are not at right angles."""
    positions = np.array([s.position for s in ordered])
    sideways = (positions - positions[0]) @ axes
    drift = float(np.max(np.abs(sideways)))
    if drift > _DRIFT * float(np.min(spacing)):
        raise FileFormatError(
            f"The slices of {folder.name!r} drift sideways by {drift:.3f} mm over the stack (as of a tilted gantry), "
            f"which a grid of right angles cannot express; resample the volume first."
        )
