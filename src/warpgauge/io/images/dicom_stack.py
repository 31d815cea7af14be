"""Slices with positions, and whether they form one regular volume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats
from warpgauge.io.images.frame import Frame

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
