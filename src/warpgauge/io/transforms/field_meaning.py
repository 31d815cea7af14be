"""Which meanings the numbers of a field may have where its file does not say: displacements or positions, which unit.

Displacements are small beside the image and do not grow along its axes; positions grow along every axis as the axis
itself does. That is what is asked here of the values. A field whose values fit a second meaning is refused, with the
options that choose each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpgauge.errors import AmbiguousFileError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.field import Vectors

# Positions follow their own axis with a slope near 1, and the others rarely. Registrations that enlarge an image by
# less than a half, or turn it by less than 30 degrees, keep within this.
_SLOPE = 0.5
# At least this share of the positions lies in the moving image, which the field was made to sample.
_INSIDE = 0.5
_NODES = 4096
LPS_SIGNS = np.array([-1.0, -1.0, 1.0])


@dataclass(frozen=True)
class Meaning:
    """One way to read a field: in words, and the options of `read_transform` that choose it."""

    words: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.words} ({' '.join(say(key, value) for key, value in self.options.items())})"


class AmbiguousFieldError(AmbiguousFileError):
    """A field that can be read in several ways; ``meanings`` are those that its values fit.

    Parameters
    ----------
    message : str
        One sentence.
    meanings : sequence of Meaning
        The readings, each with its options.
    """

    LONGEST = 2000

    def __init__(self, message: str, meanings: Sequence[Meaning] = ()) -> None:
        super().__init__(message)
        self.meanings = tuple(meanings)


def refuse_second_meaning(
    name: str, vectors: Vectors, grid: Grid, moving: Grid | None, *, frame: str, world: str = "LPS"
) -> None:
    """Refuse a field of displacements whose values fit positions, or a share of the image, as well.

    Parameters
    ----------
    name : str
        Of the file.
    vectors : (d, ...) array
        As stored.
    grid, moving : Grid
        Of the field, and of the moving image; the first by default.
    frame : str
        The frame of the displacements that would be read.
    world : str
        What an option calls the world of the image.
    """
    nodes, values = _sampled(vectors, grid)
    if len(values) <= grid.d:
        return
    target = moving or grid
    found = list(_positions(nodes, values, grid, target, world))
    if _is_small_share(values, grid, target):
        relative = {"convention": "relative", "frame": "normalised"}
        found.append(Meaning("displacements in shares of the image, -1 to 1", relative))
    if found:
        given = world if frame == "LPS" else frame
        first = Meaning("displacements", {"convention": "relative", "frame": given})
        meanings = [first, *found]
        raise AmbiguousFieldError(
            f"{name!r} does not say what its vectors are, and they can be read as "
            f"{', or as '.join(map(str, meanings))}; give the options of the right one.",
            meanings,
        )


def _sampled(vectors: Vectors, grid: Grid) -> tuple[Floats, Floats]:
    """Return array indices (x, y[, z]) and values of nodes all over the grid, those without a value left out."""
    step = max(1, int(np.ceil((grid.count / _NODES) ** (1 / grid.d))))
    axes = [np.unique(np.append(np.arange(0, n, step), n - 1)) for n in grid.shape]
    chosen = np.ix_(*axes)
    part = np.stack([np.asarray(one[chosen], dtype=np.float64).ravel() for one in vectors], axis=1)
    index = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, grid.d)[:, ::-1].astype(np.float64)
    finite = np.isfinite(part).all(axis=1) & (np.abs(part) < 1e12).all(axis=1)
    return index[finite], part[finite]


def _positions(index: Floats, values: Floats, grid: Grid, moving: Grid, world: str) -> Iterator[Meaning]:
    """Yield the kinds of positions that the values fit."""
    d, size, other = grid.d, np.asarray(grid.size, dtype=np.float64), np.asarray(moving.size, dtype=np.float64)
    places = grid.index_to_world(index)
    spans = np.maximum(size - 1, 1.0)
    kinds: list[tuple[str, str, Floats, Callable[[Floats], Floats]]] = [
        ("positions in the world", world, places, moving.world_to_index)
    ]
    if d == 3:
        kinds.append(("positions in RAS", "RAS", places * LPS_SIGNS, lambda v: moving.world_to_index(v * LPS_SIGNS)))
    if not np.array_equal(grid.affine, np.eye(d + 1)):
        kinds.append(("positions in voxels", "index", index, lambda v: v))
    kinds.append(("positions from -1 to 1", "normalised", 2 * index / spans - 1, lambda v: (v + 1) / 2 * (other - 1)))
    kinds.append(("positions from 0 to 1", "unit", index / spans, lambda v: v * (other - 1)))
    for words, frame, axes, to_index in kinds:
        if _follows(axes, values) and _inside(to_index(values), moving) >= _INSIDE:
            yield Meaning(words, {"convention": "absolute", "frame": frame})


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
