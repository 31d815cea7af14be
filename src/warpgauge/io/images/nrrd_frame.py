"""The frame of the samples of a NRRD file, from its header."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Units
from warpgauge.io.images.frame import Frame, frame_from_affine, length_unit

_TO_LPS = {
    "left-posterior-superior": (1, 1, 1), "lps": (1, 1, 1),
    "right-anterior-superior": (-1, -1, 1), "ras": (-1, -1, 1),
    "left-anterior-superior": (1, -1, 1), "las": (1, -1, 1),
}  # fmt: skip
Fields = dict[str, str]


def nrrd_frame(path: Path, fields: Fields, spatial: list[int], size: tuple[int, ...], notes: list[str]) -> Frame:
    """Return the frame from ``space directions``, otherwise from ``spacings``, otherwise none."""
    axes = int(fields["dimension"])
    if "space directions" in fields:
        return _oriented(path, fields, spatial, size, notes)
    if "spacings" not in fields:
        return Frame(size)
    spacings = _floats(path, "spacings", fields["spacings"], axes)[spatial]
    if not np.all(np.isfinite(spacings)):
        notes.append("The spacings are not known along every axis, so none is used.")
        return Frame(size)
    if np.any(spacings <= 0):
        raise FileFormatError(
            f"{path.name!r} has spacings: {fields['spacings'][:80]!r}, but positive numbers are expected."
        )
    units, factor = _unit(fields.get("units", ""), spatial, notes)
    affine = np.diag([*spacings, 1.0])
    affine[:-1, -1] = _axis_origin(path, fields, spatial, spacings, notes)
    affine[:-1] *= factor
    return frame_from_affine(path, affine, size, units)


def _axis_origin(path: Path, fields: Fields, spatial: list[int], spacings: Floats, notes: list[str]) -> Floats:
    if "axis mins" not in fields:
        return np.zeros(len(spatial))
    mins = _floats(path, "axis mins", fields["axis mins"], int(fields["dimension"]))[spatial]
    centers = fields.get("centers", "").lower().split()
    node = [len(centers) > i and centers[i] == "node" for i in spatial]
    notes.append("The origin comes from 'axis mins': the first centre for node-centred axes, otherwise its outer edge.")
    return np.where(node, mins, mins + spacings / 2)


def _oriented(path: Path, fields: Fields, spatial: list[int], size: tuple[int, ...], notes: list[str]) -> Frame:
    d = len(size)
    vectors = _vectors(path, "space directions", fields["space directions"])
    axes = int(fields["dimension"])
    if len(vectors) != axes or any(vectors[i] is None or len(vectors[i]) != d for i in spatial):  # type: ignore[arg-type]
        raise FileFormatError(
            f"{path.name!r} has space directions {fields['space directions'][:80]!r}, but one vector of {d} numbers "
            f"for each of its {d} spatial axes is expected."
        )
    affine = np.eye(d + 1)
    affine[:d, :d] = np.array([vectors[i] for i in spatial]).T
    origin = _vectors(path, "space origin", fields["space origin"]) if "space origin" in fields else [[0.0] * d]
    if "space origin" not in fields:
        notes.append("The header has no space origin; it is taken to be 0.")
    if len(origin) != 1 or origin[0] is None or len(origin[0]) != d:
        raise FileFormatError(
            f"{path.name!r} has space origin {fields['space origin'][:80]!r}, but {d} numbers are expected."
        )
    affine[:d, d] = origin[0]
    affine[:d] *= np.asarray(_signs(fields, d, notes))[:, None]
    units, factor = _unit(fields.get("space units", ""), list(range(d)), notes)
    affine[:d] *= factor
    return frame_from_affine(path, affine, size, units)


def _signs(fields: Fields, d: int, notes: list[str]) -> tuple[int, ...]:
    space = fields.get("space", "").lower()
    signs = _TO_LPS.get(space)
    if signs is not None and d == 3:
        if signs != (1, 1, 1):
            notes.append(f"The world {fields['space']!r} is turned into LPS.")
        return signs
    if d == 3:
        notes.append(f"The world of the file is {fields.get('space', 'not named')!r}; it is read as LPS, as ITK does.")
    return (1,) * d


def _unit(text: str, axes: list[int], notes: list[str]) -> tuple[Units, float]:
    names = re.findall(r'"([^"]*)"', text)
    found = {length_unit(names[i]) if i < len(names) else None for i in axes}
    if len(found) == 1 and None not in found:
        units, factor = found.pop()  # type: ignore[misc]  # None was excluded
        return units, factor
    notes.append("The header does not say one unit of length for all axes; it is taken to be mm.")
    return "mm", 1.0


def _floats(path: Path, key: str, text: str, count: int) -> Floats:
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.empty(0)
    if values.shape != (count,):
        raise FileFormatError(f"{path.name!r} has {key}: {text[:80]!r}, but {count} numbers are expected.")
    return values


def _vectors(path: Path, key: str, text: str) -> list[list[float] | None]:
    vectors: list[list[float] | None] = []
    for word in re.findall(r"\([^()]*\)|\S+", text):
        if word.lower() == "none":
            vectors.append(None)
            continue
        try:
            vectors.append([float(number) for number in word.strip("()").split(",")])
        except ValueError:
            raise FileFormatError(
                f"{path.name!r} has {key}: {text[:80]!r}, but vectors (a,b,c) are expected."
            ) from None
    return vectors
