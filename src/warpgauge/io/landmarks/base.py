"""The interface of a landmark format: the output of its parser, the input of its renderer, and its description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warpgauge.geometry import Floats
from warpgauge.io.landmarks.model import Frame
from warpgauge.io.landmarks.text import fail

# What the numbers of a file are. "index" counts from 0, "index1" from 1, "scaled" is spacing times index along the
# axes of the image without origin and direction, "unstated" is whatever the writing program had as its world.
# "unknown" has to be said by the caller.
FileFrame = Literal["LPS", "RAS", "image", "index", "index1", "scaled", "unstated", "unknown"]
FILE_FRAMES: tuple[str, ...] = ("LPS", "RAS", "image", "index", "index1", "scaled")

# The things that only some formats can hold, in the words of the message that names a loss.
COVARIANCES, RATERS, SKIPS = "covariances", "raters", "skips with their reasons"
INACTIVE, PENDING, NAMES, HASHES = "inactive marks", "pending rows", "names", "image hashes"
EVERYTHING = frozenset({COVARIANCES, RATERS, SKIPS, INACTIVE, PENDING, NAMES, HASHES})


@dataclass
class Side:
    """The points of one image as a file has them; a row that is not placed holds NaN.

    ``names`` are for people, ``indices`` are the numbers that a file gives its points, as text.
    """

    points: Floats
    frame: FileFrame
    frame_stated: bool = False
    units: str | None = None
    names: tuple[str, ...] | None = None
    indices: tuple[str, ...] | None = None

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Mask of the rows that have a point."""
        return np.asarray(~np.any(np.isnan(self.points), axis=1))


@dataclass
class Table:
    """The content of one landmark file, or of two that belong together, in the file's own coordinates."""

    fixed: Side
    moving: Side | None = None
    covariances: Floats | None = None
    raters: tuple[str | None, ...] | None = None
    active: NDArray[np.bool_] | None = None
    skips: list[tuple[list[float], str, str | None]] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    ellipse_alpha: float | None = None  # for writing: ellipses of this level instead of covariances

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return int(self.fixed.points.shape[1])

    def __len__(self) -> int:
        return int(self.fixed.points.shape[0])


@dataclass(frozen=True)
class Format:
    """One landmark format.

    Parameters
    ----------
    name, title : str
        What the ``format`` argument calls it, and what messages call it.
    parse : callable
        ``(text, file name, dimension or None) -> Table``.
    render : callable
        ``Table -> text``; a format without pairs is given one side at a time, as ``fixed``.
    write_frame : callable
        ``(frame of the landmarks, requested frame or None) -> frame`` of the file, None when it cannot be had.
    pairs : bool
        Whether one file holds both sides.
    holds : frozenset of str
        Which of the optional things survive in a file.
    dimensions : tuple of int
        Which dimensions the format has.
    pixels : bool
        Whether its indices may stand for world points in pixels when no grid is given.
    scalable : bool
        Whether ``scale`` makes sense.
    """

    name: str
    title: str
    parse: Callable[[str, str, int | None], Table]
    render: Callable[[Table], str]
    write_frame: Callable[[Frame, str | None], FileFrame | None]
    pairs: bool = False
    holds: frozenset[str] = frozenset()
    dimensions: tuple[int, ...] = (2, 3)
    pixels: bool = False
    scalable: bool = False

    @property
    def with_article(self) -> str:
        """The title as it stands in a sentence: "an ANHIR/CIMA CSV"."""
        return f"{'an' if self.title[0] in 'AEIOUaeiou' else 'a'} {self.title}"


def one_frame(*allowed: FileFrame) -> Callable[[Frame, str | None], FileFrame | None]:
    """Return a ``write_frame`` that takes the requested frame if allowed, and the first by default."""

    def choose(world: Frame, requested: str | None) -> FileFrame | None:
        if requested is None:
            return allowed[0]
        return next((frame for frame in allowed if frame == requested), None)

    return choose


def world_frame(*others: FileFrame) -> Callable[[Frame, str | None], FileFrame | None]:
    """Return a ``write_frame`` whose default is the frame of the landmarks themselves."""

    def choose(world: Frame, requested: str | None) -> FileFrame | None:
        return one_frame(world, *others)(world, requested)

    return choose


def stack(rows: Sequence[Sequence[float]], name: str) -> Floats:
    """Stack the points of a file; no rows is an error, since a file without points was not meant to be read."""
    if not rows:
        fail(name, None, "holds no landmarks", "check that this is the right file")
    return np.array(rows, dtype=np.float64)
