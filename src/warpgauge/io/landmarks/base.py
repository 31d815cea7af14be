"""What a landmark format is: the output of its parser, the input of its renderer, and its row of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warpgauge.geometry import Floats
from warpgauge.io import formats
from warpgauge.io.landmarks.text import fail, first_csv_row, lines

# What the numbers of a file are. "index" counts from 0, "index1" from 1, "scaled" is spacing times index along the
# axes of the image without origin and direction, "unstated" is whatever the writing program had as its world.
# "unknown" has to be said by the caller.
FileFrame = Literal["LPS", "RAS", "image", "index", "index1", "scaled", "unstated", "unknown"]
FILE_FRAMES: tuple[str, ...] = ("LPS", "RAS", "image", "index", "index1", "scaled")

# The things that only some formats can hold, in the words of the message that names a loss.
COVARIANCES, RATERS, SKIPS = "covariances", "raters", "skips with their reasons"
INACTIVE, NAMES = "inactive marks", "names"
SPECIFICATION = "public description"  # how the reading was verified, where no file of the program was at hand


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


@dataclass
class Table:
    """The content of one landmark file, or of two that belong together, in the file's own coordinates.

    ``presumed`` is what is taken for granted about the frame, unless the caller says it.
    """

    fixed: Side
    moving: Side | None = None
    covariances: Floats | None = None
    raters: tuple[str | None, ...] | None = None
    active: NDArray[np.bool_] | None = None
    skips: list[tuple[list[float], str, str | None]] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    presumed: list[str] = field(default_factory=list)

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return int(self.fixed.points.shape[1])

    @property
    def sides(self) -> list[Side]:
        """The fixed side, and the moving one where there is one."""
        return [self.fixed] if self.moving is None else [self.fixed, self.moving]

    def __len__(self) -> int:
        return int(self.fixed.points.shape[0])


@dataclass(frozen=True)
class Start:
    """What a file is recognised by: its name, its text, its first line and, as comma-separated text, its first row.

    ``frame`` is what the caller said of its numbers.
    """

    name: str
    text: str
    frame: str | None = None

    @cached_property
    def line(self) -> str:
        """The first line that is not blank."""
        content = lines(self.text[:65536])
        return content[0][1] if content else ""

    @cached_property
    def fields(self) -> list[str]:
        """The fields of the first row, without the blanks around them."""
        return [field.strip() for field in first_csv_row(self.text)]


@dataclass(frozen=True, kw_only=True)
class Format(formats.Format):
    """One landmark format: how it is recognised, read and written."""

    fits: Callable[[Start], bool]
    parse: Callable[[str, str, int | None], Table]  # of the text, the file's name, and the dimension that is asked for
    render: Callable[[Table], str] | None = None  # of one side at a time, unless it has pairs; None: it is only read
    frames: tuple[str, ...] = ()  # that it may be written in, the default first; "world" is that of the landmarks
    endings: tuple[str, ...] = ()  # of files for which it is written by default
    pairs: bool = False  # one file holds both sides
    holds: frozenset[str] = frozenset()  # the optional things that survive in a file
    dimensions: tuple[int, ...] = (2, 3)
    pixels: bool = False  # its indices may stand for world points in pixels when no grid is given
    scalable: bool = False  # `scale` makes sense


def stack(rows: Sequence[Sequence[float]], name: str) -> Floats:
    """Stack the points of a file; no rows is an error, since a file without points was not meant to be read."""
    if not rows:
        fail(name, None, "holds no landmarks", "check that this is the right file")
    return np.array(rows, dtype=np.float64)
