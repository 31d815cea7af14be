"""Dense fields in files: the meaning of the stored vectors, and the resulting field."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import Options, world_frame
from warpgauge.io.transforms.field import (
    DisplacementField,
    Vectors,
    field_description,
    positions_from_index_displacements,
)
from warpgauge.io.transforms.field_meaning import refuse_second_meaning

# "world" is the world of the image (LPS in 3D); "normalised" counts from -1 to 1 and "unit" from 0 to 1 between the
# centres of the outer voxels, "edges" from -1 to 1 between their outer edges (align_corners=False of torch).
FRAMES = ("LPS", "RAS", "world", "index", "normalised", "unit", "edges")
# A field that covers less of the fixed image, or of which the fixed image is a smaller part, probably has another grid.
_COVERED, _USED = 0.5, 0.3
_NORMALISED = ("normalised", "unit", "edges")
CONVENTIONS = ("relative", "absolute")


@dataclass
class StoredField:
    """A field as a file has it.

    Parameters
    ----------
    name, file_format : str
        For the description and for errors.
    vectors : (d, y, x) or (d, z, y, x) array
        As stored, the component of the first axis first.
    grid : Grid
        Where they stand.
    frame : {"LPS", "RAS", "index", None}
        What their components are; None where the file leaves it open.
    notes, suspicions : list of str
        What reading the header had to assume, and what looks wrong.
    placed : bool
        Whether the file says where the grid lies in the world.
    named : bool
        Whether the file says what its vectors are, so that nothing needs to be asked of their values.
    direction : str
        Which points it maps to which, as far as the file says.
    """

    name: str
    file_format: str
    vectors: Vectors
    grid: Grid
    frame: str | None
    notes: list[str] = field(default_factory=list)
    suspicions: list[str] = field(default_factory=list)
    placed: bool = True
    named: bool = False
    direction: str = "fixed_to_moving"


def as_floats(values: np.ndarray[Any, np.dtype[Any]], name: str) -> Vectors:
    """Return stored numbers as float32 or float64, without a copy where they are that."""
    kind = values.dtype
    if kind.kind not in "iuf" or kind.itemsize > 8:
        raise FileFormatError(f"{name!r} has vectors of type {kind}, but integers or floats up to 64 bits are read.")
    wide = kind.itemsize > 4 or (kind.kind in "iu" and kind.itemsize > 2)
    return values.astype(np.float64 if wide else np.float32, copy=False)


def components_first(values: Vectors) -> Vectors:
    """Turn an array with the components last into one with them first, each of them contiguous."""
    return np.ascontiguousarray(np.moveaxis(values, -1, 0))


def choose_frame(stored: StoredField, asked: str | None, advice: str) -> str:
    """Settle what the components are: as the file says, else as the caller says, else an error."""
    if asked is not None and asked not in FRAMES:
        raise InvalidInputError(f"{say('frame')} of a field must be one of {', '.join(FRAMES)}, got {asked!r}.")
    if asked is None and stored.frame is None:
        raise AmbiguousFileError(f"{stored.name!r} does not say what its vectors are; {advice}.")
    if asked is None:
        return str(stored.frame)
    asked = "LPS" if asked == "world" else asked
    if stored.frame is not None and asked != stored.frame:
        stored.notes.append(f"The file says that its vectors are {stored.frame}; read as {asked} as the caller says.")
    return asked


def settled(stored: StoredField, options: Options, advice: str) -> tuple[str, bool]:
    """Return frame and whether the vectors are positions: as file and caller say, refused where the values fit more."""
    frame = choose_frame(stored, options.frame, advice)
    absolute = choose_convention(stored.name, options.convention, "relative")
    if options.convention is None and not stored.named:
        refuse_second_meaning(
            stored.name, stored.vectors, stored.grid, options.moving, frame=frame, world=world_word(stored.grid.d)
        )
    return frame, absolute


def warn_of_other_extent(stored: StoredField, reference: Grid | None) -> None:
    """Warn of a field that does not stand on the fixed image: it covers little of it, or far more than it."""
    if reference is None or reference.d != stored.grid.d:
        return
    corners = np.array(list(itertools.product(*((-0.5, n - 0.5) for n in reference.size))))
    index = stored.grid.world_to_index(reference.index_to_world(corners))
    low, high = index.min(axis=0), index.max(axis=0)
    size = np.asarray(stored.grid.size, dtype=np.float64)
    shared = np.clip(np.minimum(high, size - 0.5) - np.maximum(low, -0.5), 0, None)
    covered, used = float(np.prod(shared / (high - low))), float(np.prod(shared / size))
    if covered < _COVERED or used < _USED:
        stored.suspicions.append(
            f"{stored.name}: the field covers {covered:.0%} of the fixed image, which is {used:.0%} of the field; "
            f"check that it was made for this image, and at its size."
        )


def world_word(d: int) -> str:
    """Return the frame that stands for the world of an image: medical volumes have LPS, other images no name for it."""
    return "LPS" if d == 3 else "world"


def choose_convention(name: str, asked: str | None, default: str | None) -> bool:
    """Settle whether vectors are positions; True for absolute."""
    chosen = asked or default
    if chosen is None:
        raise AmbiguousFileError(
            f"{name!r} does not say whether its vectors are displacements or positions; give "
            f"{say('convention', 'relative')} or {say('convention', 'absolute')}."
        )
    if chosen not in CONVENTIONS:
        raise InvalidInputError(f"{say('convention')} must be 'relative' or 'absolute', got {asked!r}.")
    return chosen == "absolute"


def finish_field(
    stored: StoredField, frame: str, *, absolute: bool = False, moving: Grid | None = None, order: int = 1
) -> DisplacementField:
    """Turn stored vectors, which may be changed in place, into a field in the world.

    ``frame`` is one of `FRAMES`. For index and normalised vectors, ``moving`` is the grid of the moving image, that of
    the field by default. ``order`` is 0 for nearest and 1 for linear interpolation.
    """
    vectors, grid, notes = stored.vectors, stored.grid, list(stored.notes)
    if frame == "RAS":
        vectors = vectors if vectors.flags.writeable else vectors.copy()
        np.negative(vectors[:2], out=vectors[:2])
        notes.append("The vectors are RAS; x and y change sign to give LPS.")
    elif frame == "index" or frame in _NORMALISED:
        vectors, absolute = _from_index(stored, frame, absolute, moving, notes)
    else:
        notes.append("The vectors are in the world of the images (LPS in 3D), as ITK has them.")
    kind = "dense field of positions" if absolute else "dense displacement field"
    about = field_description(stored.file_format, order=order, kind=kind)
    forward = stored.direction == "fixed_to_moving"
    where = (
        "The field maps fixed points to moving points and stands on the fixed image."
        if forward
        else "The file says that its field maps moving points to fixed points (it stands on the moving image)."
    )
    about = replace(
        about,
        direction=stored.direction,
        frame=world_frame(grid.d),
        units=grid.units,
        source=stored.name,
        assumptions=(where, *notes),
    )
    for sentence in stored.suspicions:
        warn_suspicious(sentence)
    try:
        return DisplacementField(vectors, grid, absolute=absolute, order=order, description=about)
    except InvalidInputError as error:
        raise FileFormatError(f"{stored.name!r} holds no usable field: {str(error).rstrip('.')}.") from error


def _from_index(
    stored: StoredField, frame: str, absolute: bool, moving: Grid | None, notes: list[str]
) -> tuple[Vectors, bool]:
    grid = stored.grid
    other = moving or grid
    if moving is None:
        notes.append(
            f"The moving image is taken to have the grid of the field; give {say('moving')} where it has another."
        )
    if other.d != grid.d:
        raise InvalidInputError(f"The moving grid is {other.d}D, but the field in {stored.name!r} is {grid.d}D.")
    unit = "voxels" if frame == "index" else f"shares of the image ({frame})"
    notes.append(f"The vectors are in {unit} along the axes of the image, turned into world units.")
    vectors = stored.vectors if frame == "index" else index_from_normalised(stored.vectors, frame, other, absolute)
    if not absolute:
        return positions_from_index_displacements(vectors, grid, other)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite, and so masked
        positions = other.index_to_world(vectors.reshape(grid.d, -1).T)
    return np.ascontiguousarray(positions.T).reshape(stored.vectors.shape), True


def index_from_normalised(vectors: Vectors, frame: str, moving: Grid, absolute: bool = True) -> Floats:
    """Turn vectors (d, ...) in shares of the moving image into voxels: positions, or displacements."""
    size = np.asarray(moving.size, dtype=np.float64).reshape(-1, *([1] * (vectors.ndim - 1)))
    spans = {"unit": size - 1, "normalised": (size - 1) / 2, "edges": size / 2}[frame]
    start = 0 * size if frame == "unit" else (size - 1) / 2
    return np.asarray(vectors * spans + start if absolute else vectors * spans, dtype=np.float64)


def with_reference(stored: StoredField, reference: Grid | None) -> StoredField:
    """Put the caller's grid in the place of that of a file which does not say where its nodes lie."""
    if stored.placed:
        return stored
    if reference is None:
        raise AmbiguousFileError(
            f"{stored.name!r} does not say where its nodes lie in the world; give {say('reference')}, a Grid."
        )
    if reference.size != stored.grid.size:
        raise InvalidInputError(
            f"{stored.name!r} has {' x '.join(map(str, stored.grid.size))} nodes, but the reference grid has "
            f"{' x '.join(map(str, reference.size))}; give the grid that the field stands on."
        )
    notes = [*stored.notes, "Position, spacing and direction of the nodes come from the caller's reference grid."]
    return replace(stored, grid=reference, notes=notes)
