"""What the vectors of a file are: displacements or positions, in which frame. The reader asks where two readings fit.

Displacements are small beside the image and do not grow along its axes; positions grow along every axis as the axis
itself does. That is what is asked here of the values. A field whose values fit a second meaning is refused, with the
options that choose each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.lattice import DisplacementField, Vectors, positions_from_index_displacements

# "world" is the world of the image (LPS in 3D); "normalised" counts from -1 to 1 and "unit" from 0 to 1 between the
# centres of the outer voxels, "edges" from -1 to 1 between their outer edges (align_corners=False of torch).
FRAMES = ("LPS", "RAS", "world", "index", "normalised", "unit", "edges")
DISPLACEMENT, POSITION = "displacement", "position"
RAS_SIGNS = np.array([-1.0, -1.0, 1.0])  # between RAS and LPS, in either direction
# A field that covers less of the fixed image, or of which the fixed image is a smaller part, probably has another grid.
_COVERED, _USED = 0.5, 0.3
# Positions follow their own axis with a slope near 1, and the others rarely. Registrations that enlarge an image by
# less than a half, or turn it by less than 30 degrees, keep within this.
_SLOPE = 0.5
# At least this share of the positions lies in the moving image, which the field was made to sample.
_INSIDE = 0.5
_NODES = 4096


@dataclass(frozen=True)
class Options:
    """Options of `read_transform` for what files do not state."""

    reference: Grid | None = None
    moving: Grid | None = None
    convention: str | None = None
    axes: str | None = None
    frame: str | None = None


@dataclass(frozen=True)
class Meaning:
    """One way to read a field: in words, and the options of `read_transform` that choose it."""

    words: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.words} ({' '.join(say(key, value) for key, value in self.options.items())})"


class AmbiguousFieldError(AmbiguousFileError):
    """A field that can be read in several ways; ``meanings`` are those that it fits."""

    LONGEST = 2000

    def __init__(self, message: str, meanings: Sequence[Meaning] = ()) -> None:
        super().__init__(message)
        self.meanings = tuple(meanings)


@dataclass
class StoredField:
    """A field as a file has it."""

    name: str
    vectors: Vectors  # (d, y, x) or (d, z, y, x) as stored, the component of the first axis first
    grid: Grid
    frame: str | None = None  # of their components, as in `FRAMES`; None where the file leaves it open
    absolute: bool = False
    notes: list[str] = field(default_factory=list)
    placed: bool = True  # the file says where the grid lies in the world
    named: bool = False  # the file says what its vectors are, so that nothing needs to be asked of their values
    direction: str = "fixed_to_moving"  # as far as the file says


def as_floats(values: np.ndarray[Any, np.dtype[Any]], name: str) -> Vectors:
    """Return stored numbers as float32 or float64, without a copy where they are that."""
    kind = values.dtype
    if kind.kind not in "iuf" or kind.itemsize > 8:
        raise FileFormatError(f"{name!r} has vectors of type {kind}, but integers or floats up to 64 bits are read.")
    wide = kind.itemsize > 4 or (kind.kind in "iu" and kind.itemsize > 2)
    return values.astype(np.float64 if wide else np.float32, copy=False)


def read_as_asked(stored: StoredField, options: Options) -> DisplacementField:
    """Return the field as the file and the caller say, refused where its values fit a second meaning."""
    stored = on_reference(stored, options.reference)
    forward = stored.direction == "fixed_to_moving"
    _warn_of_other_extent(stored, options.reference if forward else options.moving)
    if stored.named and options.frame is None and options.convention is None:
        return field_of(stored, options.moving)
    frame = options.frame or stored.frame
    if frame is None:
        raise AmbiguousFileError(
            f"{stored.name!r} does not say what its vectors are; give {say('frame', 'LPS')}, 'RAS' or 'index', or "
            f"{say('convention')} or {say('format', 'fsl')} where it is of one of these."
        )
    frame = "LPS" if frame == "world" else frame
    if stored.frame not in (None, frame):
        stored.notes.append(f"The file says that its vectors are {stored.frame}; read as {frame} as the caller says.")
    if options.convention is None and not stored.named:
        _refuse_second_meaning(stored, frame, options.moving)
    absolute = stored.absolute if options.convention is None else options.convention == POSITION
    return field_of(replace(stored, frame=frame, absolute=absolute), options.moving)


def on_reference(stored: StoredField, reference: Grid | None) -> StoredField:
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


def _warn_of_other_extent(stored: StoredField, reference: Grid | None) -> None:
    """Warn of a field that does not stand on the fixed image: it covers little of it, or far more than it."""
    if reference is None or reference.d != stored.grid.d:
        return
    corners = np.array(list(itertools.product(*((-0.5, n - 0.5) for n in reference.size))))
    index = stored.grid.world_to_index(reference.index_to_world(corners))
    low = index.min(axis=0)
    high = index.max(axis=0)
    size = np.asarray(stored.grid.size, dtype=np.float64)
    shared = np.clip(np.minimum(high, size - 0.5) - np.maximum(low, -0.5), 0, None)
    covered = float(np.prod(shared / (high - low)))
    used = float(np.prod(shared / size))
    if covered < _COVERED or used < _USED:
        warn_suspicious(
            f"{stored.name}: the field covers {covered:.0%} of the fixed image, which is {used:.0%} of the field; "
            f"check that it was made for this image, and at its size."
        )


def field_of(stored: StoredField, moving: Grid | None = None) -> DisplacementField:
    """Turn stored vectors, which may be changed in place, into a field in the world.

    For vectors in voxels or shares of the image, ``moving`` is the grid of the moving image, that of the field by
    default.
    """
    vectors = stored.vectors
    absolute = stored.absolute
    forward = stored.direction == "fixed_to_moving"
    notes = [
        "The field maps fixed points to moving points and stands on the fixed image."
        if forward
        else "The file says that its field maps moving points to fixed points (it stands on the moving image).",
        *stored.notes,
    ]
    if stored.frame == "RAS":
        vectors = vectors if vectors.flags.writeable else vectors.copy()
        np.negative(vectors[:2], out=vectors[:2])
        notes.append("The vectors are RAS; x and y change sign to give LPS.")
    elif stored.frame in ("index", "normalised", "unit", "edges"):
        vectors, absolute = _world_vectors(stored, moving, notes)
    else:
        notes.append("The vectors are in the world of the images (LPS in 3D), as ITK has them.")
    transform = DisplacementField(vectors, stored.grid, absolute=absolute, name=stored.name, notes=notes)
    transform.description = replace(transform.description, direction=stored.direction)
    transform.read_with = {"frame": stored.frame} if stored.frame else {}
    return transform


def _world_vectors(stored: StoredField, moving: Grid | None, notes: list[str]) -> tuple[Vectors, bool]:
    """Return vectors in voxels, or in shares of the image, as world vectors, and whether these are positions."""
    grid = stored.grid
    other = moving or grid
    if moving is None:
        notes.append(
            f"The moving image is taken to have the grid of the field; give {say('moving')} where it has another."
        )
    if other.d != grid.d:
        raise InvalidInputError(f"The moving grid is {other.d}D, but the field in {stored.name!r} is {grid.d}D.")
    unit = "voxels" if stored.frame == "index" else f"shares of the image ({stored.frame})"
    notes.append(f"The vectors are in {unit} along the axes of the image, turned into world units.")
    vectors = stored.vectors
    if stored.frame != "index":
        size = np.asarray(other.size, dtype=np.float64).reshape(-1, *([1] * grid.d))
        spans = {"unit": size - 1, "normalised": (size - 1) / 2, "edges": size / 2}[str(stored.frame)]
        start = 0 * size if stored.frame == "unit" else (size - 1) / 2
        vectors = np.asarray(vectors * spans + start if stored.absolute else vectors * spans, dtype=np.float64)
    if not stored.absolute:
        return positions_from_index_displacements(vectors, grid, other)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite, and so masked
        positions = other.index_to_world(vectors.reshape(grid.d, -1).T)
    return np.ascontiguousarray(positions.T).reshape(stored.vectors.shape), True


def _refuse_second_meaning(stored: StoredField, frame: str, moving: Grid | None) -> None:
    """Refuse a field of displacements whose values fit positions, or a share of the image, as well."""
    grid = stored.grid
    nodes, values = _sampled(stored.vectors, grid)
    if len(values) <= grid.d:
        return
    target = moving or grid
    others = list(_positions(nodes, values, grid, target))
    if _is_small_share(values, grid, target):
        options = {"convention": DISPLACEMENT, "frame": "normalised"}
        others.append(Meaning("displacements in shares of the image, -1 to 1", options))
    if others:
        asked = _world_word(grid.d) if frame == "LPS" else frame
        meanings = [Meaning("displacements", {"convention": DISPLACEMENT, "frame": asked}), *others]
        raise AmbiguousFieldError(
            f"{stored.name!r} does not say what its vectors are, and they can be read as "
            f"{', or as '.join(map(str, meanings))}; give the options of the right one.",
            meanings,
        )


def _world_word(d: int) -> str:
    return "LPS" if d == 3 else "world"


def _sampled(vectors: Vectors, grid: Grid) -> tuple[Floats, Floats]:
    """Return array indices (x, y[, z]) and values of nodes all over the grid, those without a value left out."""
    step = max(1, int(np.ceil((grid.count / _NODES) ** (1 / grid.d))))
    axes = [np.unique(np.append(np.arange(0, n, step), n - 1)) for n in grid.shape]
    chosen = np.ix_(*axes)
    part = np.stack([np.asarray(one[chosen], dtype=np.float64).ravel() for one in vectors], axis=1)
    index = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, grid.d)[:, ::-1].astype(np.float64)
    finite = np.isfinite(part).all(axis=1) & (np.abs(part) < 1e12).all(axis=1)
    return index[finite], part[finite]


def _positions(index: Floats, values: Floats, grid: Grid, moving: Grid) -> Iterator[Meaning]:
    """Yield the kinds of positions that the values fit."""
    size = np.asarray(grid.size, dtype=np.float64)
    other = np.asarray(moving.size, dtype=np.float64)
    places = grid.index_to_world(index)
    spans = np.maximum(size - 1, 1.0)
    # Words, frame, what positions of this kind follow, and how they become voxels of the moving image.
    kinds: list[tuple[str, str, Floats, Callable[[Floats], Floats]]] = [
        ("positions in the world", _world_word(grid.d), places, moving.world_to_index)
    ]
    if grid.d == 3:
        kinds.append(("positions in RAS", "RAS", places * RAS_SIGNS, lambda v: moving.world_to_index(v * RAS_SIGNS)))
    if not np.array_equal(grid.affine, np.eye(grid.d + 1)):
        kinds.append(("positions in voxels", "index", index, lambda v: v))
    kinds.append(("positions from -1 to 1", "normalised", 2 * index / spans - 1, lambda v: (v + 1) / 2 * (other - 1)))
    kinds.append(("positions from 0 to 1", "unit", index / spans, lambda v: v * (other - 1)))
    for words, frame, axes, to_index in kinds:
        if _follows(axes, values) and _inside(to_index(values), moving) >= _INSIDE:
            yield Meaning(words, {"convention": POSITION, "frame": frame})


def _follows(axes: Floats, values: Floats) -> bool:
    """Return whether values grow along each axis as the axis itself does."""
    spread = np.ptp(axes, axis=0) > 0
    design = np.column_stack([axes[:, spread], np.ones(len(axes))])
    slopes = np.linalg.lstsq(design, values[:, spread], rcond=None)[0][:-1]
    return bool((np.abs(slopes - np.eye(len(slopes))) < _SLOPE).all())


def _inside(index: Floats, grid: Grid) -> float:
    within = (index > -0.5) & (index < np.asarray(grid.size) - 0.5)
    return float(within.all(axis=1).mean())


def _is_small_share(values: Floats, grid: Grid, moving: Grid) -> bool:
    """Return whether displacements are below a pixel everywhere, but sensible as shares of half the image."""
    largest = float(np.abs(values).max())
    longest = float(np.abs(values * np.asarray(moving.size) / 2).max())  # in voxels
    return 0 < largest < min(1.0, float(grid.spacing.min())) and longest > 1.0
