"""The `Grid` of an image, from the file's and the caller's spacing and units, with notes on what was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import ANY, FileFormatError, InvalidInputError, say
from warpgauge.geometry import UNITS, Floats, Grid, Units

_PER_MM = {"m": 1e3, "cm": 10.0, "mm": 1.0, "inch": 25.4}
_PER_UM = {"um": 1.0, "nm": 1e-3}
_NAMES = {
    "meter": "m", "metre": "m", "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm",
    "micrometer": "um", "micrometre": "um", "micron": "um", "microns": "um", "µm": "um", "μm": "um", "\\u00b5m": "um",
    "nanometer": "nm", "nanometre": "nm", "in": "inch",
}  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """Where a file says that its elements lie, along x, y[, z].

    ``spacing`` is None where the file has none, and ``units`` is None where it has numbers without a unit; ``factor``
    has turned the file's lengths into them. ``printed`` is the size of a pixel in print, in mm, which ITK takes for a
    spacing and warpgauge does not.
    """

    size: tuple[int, ...]
    spacing: Floats | None = None
    origin: Floats | None = None
    direction: Floats | None = None
    units: Units | None = None
    factor: float = 1.0
    printed: tuple[float, float] | None = None


def length_unit(name: str) -> tuple[Units, float] | None:
    """Return ``("mm" or "um", factor)`` of a unit of length by any of its usual names, or None for an unknown name."""
    text = name.strip().lower()
    short = _NAMES.get(text, text)
    if short in _PER_MM:
        return "mm", _PER_MM[short]
    if short in _PER_UM:
        return "um", _PER_UM[short]
    return None


def frame_from_affine(path: Path, index_to_world: ArrayLike, size: Sequence[int], units: Units | None) -> Frame:
    """Return the frame of an index-to-world matrix, refusing what no grid of right angles can express."""
    matrix = np.asarray(index_to_world, dtype=np.float64)
    d = len(size)
    with np.errstate(all="ignore"):
        spacing = np.linalg.norm(matrix[:d, :d], axis=0)
    if not np.all(np.isfinite(matrix)) or not np.all(np.isfinite(spacing)) or np.any(spacing == 0):
        raise FileFormatError(
            f"{path.name!r} has a matrix from index to world with a zero or non-finite column "
            f"({np.round(matrix[:d], 4).tolist()}), so its header is broken; export the image again."
        )
    direction = matrix[:d, :d] / spacing
    shear = np.max(np.abs(direction.T @ direction - np.eye(d)))
    if shear > 1e-4:
        raise FileFormatError(
            f"{path.name!r} has sheared axes (two of them have a cosine of {shear:.3g} instead of 0), which a grid "
            f"of right angles cannot express; resample it onto an unsheared grid first."
        )
    return Frame(tuple(size), spacing, matrix[:d, d], direction, units)


def resolve_grid(
    frame: Frame, path: Path, spacing: float | Sequence[float] | None, units: str | None
) -> tuple[Grid, list[str]]:
    """Combine the file's frame with the caller's ``spacing`` and ``units`` into a grid, and say what was done."""
    if units is not None and units not in UNITS:
        raise InvalidInputError(f"units must be one of {', '.join(UNITS)}, got {units!r}.")
    if spacing is not None:
        return _with_given_spacing(frame, path, spacing, units)
    if units == "px":
        return Grid(frame.size), ["The caller asked for pixels: spacing 1, origin 0 and no direction."]
    if frame.spacing is None:
        if units is not None:
            raise InvalidInputError(
                f"{path.name!r} has no physical spacing, so {say('units', units)} needs {say('spacing', ANY)} as well."
            )
        return Grid(frame.size), ["The file has no physical spacing: spacing 1 and units px."]
    if units is None and frame.units is None:
        return _unitless(frame, path)
    notes = []
    if units is not None and units != frame.units:
        said = frame.units or "no unit"
        notes.append(f"The caller says that the file's lengths are in {units}; the file says {said}; not converted.")
    grid = _grid(frame, path, frame.spacing, units or frame.units)  # type: ignore[arg-type]  # one of UNITS, checked
    return grid, notes


def _with_given_spacing(
    frame: Frame, path: Path, spacing: float | Sequence[float], units: str | None
) -> tuple[Grid, list[str]]:
    d = len(frame.size)
    values = np.asarray(spacing, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(d, float(values))
    if values.shape != (d,) or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise InvalidInputError(f"spacing must be one or {d} positive numbers (x, y[, z]), got {spacing!r}.")
    unit = units or frame.units
    if unit is None:
        raise InvalidInputError(
            f"{path.name!r} has no units, so the spacing {spacing!r} needs {say('units', 'um')}, {say('units', 'mm')} "
            f"or {say('units', 'px')}."
        )
    grid = _grid(frame, path, values, unit)  # type: ignore[arg-type]  # one of UNITS, checked
    said = "none" if frame.spacing is None else f"{frame.spacing.tolist()} {frame.units or 'without unit'}"
    return grid, [f"The caller gave the spacing {values.tolist()} {unit}; the file's is {said}."]


def _unitless(frame: Frame, path: Path) -> tuple[Grid, list[str]]:
    """Spacing without a unit is not a physical spacing: count in pixels, and keep the origin where it is in pixels."""
    assert frame.spacing is not None
    physical = _grid(frame, path, frame.spacing, "px")
    direction = physical.direction
    origin = direction @ (np.linalg.solve(direction, physical.origin) / physical.spacing)
    note = (
        f"The file's spacing {frame.spacing.tolist()} has no unit, so spacing 1 and units px; give {say('units')} to "
        "use it."
    )
    return Grid(frame.size, None, origin, direction, "px"), [note]  # type: ignore[arg-type]  # None is the default


def _grid(frame: Frame, path: Path, spacing: Floats, units: Units) -> Grid:
    try:
        return Grid(frame.size, spacing, frame.origin, frame.direction, units)  # type: ignore[arg-type]  # None: default
    except InvalidInputError as error:
        raise FileFormatError(f"{path.name!r} has a header that describes no grid: {error}") from error
