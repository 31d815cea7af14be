"""Affine transforms, the rotations that their parameters stand for, and plain matrices in text files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import FileFormatError, InvalidInputError, say
from warpgauge.geometry import Floats
from warpgauge.io.files import read_text
from warpgauge.io.transforms.base import (
    BY_CONTENT,
    NO,
    Description,
    Format,
    Transform,
    default_units,
    flipped,
    world_frame,
)


class AffineTransform(Transform):
    """``x -> matrix @ x + offset``, defined everywhere.

    Parameters
    ----------
    matrix : (d, d) array
        Linear part.
    offset : (d,) array
        Image of the origin.
    description : Description, optional
        What is known of it.
    """

    linear: ClassVar[bool] = True

    def __init__(self, matrix: ArrayLike, offset: ArrayLike, description: Description | None = None) -> None:
        self.matrix = np.array(matrix, dtype=np.float64)
        self.offset = np.array(offset, dtype=np.float64)
        d = self.offset.size
        super().__init__(description or Description(kind="affine"), d)
        if d not in (2, 3) or self.offset.shape != (d,) or self.matrix.shape != (d, d):
            raise InvalidInputError(
                f"An affine transform needs a d x d matrix and d offsets with d = 2 or 3, got shapes "
                f"{self.matrix.shape} and {self.offset.shape}."
            )
        if not (np.isfinite(self.matrix).all() and np.isfinite(self.offset).all()):
            raise InvalidInputError("An affine transform needs finite numbers, but its matrix or offset has others.")
        self.matrix.flags.writeable = self.offset.flags.writeable = False

    def _map(self, points: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = points @ self.matrix.T
            mapped += self.offset
            total = mapped.sum()
        # A row is NaN whole or not at all; the sum finds NaN without an array of flags.
        if not np.isfinite(total):
            mapped[~np.isfinite(mapped).all(axis=1)] = np.nan
        return mapped

    def inverse(self, *, tolerance: float = 1e-6) -> AffineTransform:
        """Return the exact inverse; a singular matrix is refused (``tolerance`` plays no part)."""
        if not np.linalg.cond(self.matrix) < 1e12:
            raise InvalidInputError(
                f"This affine transform cannot be inverted: its matrix is singular "
                f"(determinant {np.linalg.det(self.matrix):.3g})."
            )
        matrix = np.linalg.inv(self.matrix)
        about = flipped(self.description).assuming("Inverted exactly.")
        return AffineTransform(matrix, -matrix @ self.offset, about)


def centred(matrix: ArrayLike, centre: ArrayLike, translation: ArrayLike) -> tuple[Floats, Floats]:
    """Return matrix and offset of ``x -> matrix @ (x - centre) + centre + translation``."""
    linear = np.asarray(matrix, dtype=np.float64)
    middle = np.asarray(centre, dtype=np.float64)
    return linear, middle + np.asarray(translation, dtype=np.float64) - linear @ middle


def rotation_2d(angle: float) -> Floats:
    """Rotate by ``angle`` radians from x to y."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def rotation_3d(angles: ArrayLike, zyx: bool = False) -> Floats:
    """Rotate by Euler angles about x, y, z: ``Rz Rx Ry``, or ``Rz Ry Rx`` where ``zyx``, as ITK and elastix do."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x if zyx else about_z @ about_x @ about_y)


def rotation_of_versor(versor: ArrayLike) -> Floats:
    """Rotation of the right part ``(x, y, z)`` of a unit quaternion, whose scalar part is not negative."""
    right = np.asarray(versor, dtype=np.float64)
    length = float(right @ right)
    if length > 1 + 1e-9:
        raise InvalidInputError(f"the versor {right.tolist()} is longer than 1, so it stands for no rotation")
    return rotation_of_quaternion([*right, np.sqrt(max(0.0, 1 - length))])


def rotation_of_quaternion(quaternion: ArrayLike) -> Floats:
    """Rotation of a quaternion ``(x, y, z, w)``, scaled to length 1."""
    values = np.asarray(quaternion, dtype=np.float64)
    length = float(np.linalg.norm(values))
    if not length > 0:
        raise InvalidInputError("a quaternion of length 0 stands for no rotation")
    x, y, z, w = values / length
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + 2 * w * cross + 2 * cross @ cross)


TITLE = "matrix"
_LIMIT = 2**16


def read_numbers(path: Path) -> Floats:
    """Read rows of numbers between blanks or commas; lines that start with ``#`` are comments."""
    text = read_text(path, "matrix", _LIMIT)
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            rows.append([float(word) for word in words])
        except ValueError as error:
            raise FileFormatError(f"{path.name!r}, line {number}: {line.strip()[:60]!r} are not numbers.") from error
    if not rows or len({len(row) for row in rows}) > 1:
        raise FileFormatError(f"{path.name!r} is not a matrix: its rows have {[len(row) for row in rows][:8]} numbers.")
    matrix = np.array(rows)
    if not np.isfinite(matrix).all():
        raise FileFormatError(f"{path.name!r} has numbers that are not finite (NaN or infinity).")
    return matrix


def affine_of_ras(matrix: Floats, description: Description) -> AffineTransform:
    """Return the affine transform of the LPS world that a 4 x 4 matrix of RAS points stands for."""
    signs = np.diag([-1.0, -1.0, 1.0, 1.0])
    world = signs @ matrix @ signs
    return AffineTransform(world[:3, :3], world[:3, 3], description)


def read_matrix(path: Path, frame: str | None = None) -> AffineTransform:
    """Read an affine matrix that maps fixed to moving points, of the world LPS (by default) or RAS."""
    if frame not in (None, "LPS", "RAS"):
        raise InvalidInputError(f"{say('frame')} of a matrix is 'LPS' or 'RAS', got {frame!r}.")
    rows = read_numbers(path)
    d = rows.shape[1] - 1
    if d not in (2, 3) or rows.shape[0] not in (d, d + 1):
        raise FileFormatError(
            f"{path.name!r} is a matrix of {rows.shape[0]} x {rows.shape[1]}, but an affine one is 2 x 3, 3 x 3, "
            f"3 x 4 or 4 x 4."
        )
    if rows.shape[0] == d + 1 and not np.allclose(rows[d], [0] * d + [1], atol=1e-9):
        raise FileFormatError(f"{path.name!r}: the last row of an affine matrix is 0 ... 0 1, not {rows[d].tolist()}.")
    matrix, offset = rows[:d, :d], rows[:d, d]
    note = (
        f"The matrix maps fixed to moving world points (column vectors); a flirt matrix needs {say('format', 'fsl')}."
    )
    if frame == "RAS":
        signs = np.array([-1.0, -1.0, 1.0])[:d]
        matrix, offset = matrix * np.outer(signs, signs), offset * signs
        note += " Its RAS world is turned into LPS."
    elif frame is None and d == 3:
        note += f" Its world is taken to be LPS; give {say('frame', 'RAS')} where it is not."
    about = Description(
        format=TITLE,
        kind="affine",
        frame=world_frame(d),
        units=default_units(d),
        assumptions=(note,),
        source=path.name,
    )
    return AffineTransform(matrix, offset, about)


# Each alternative starts with other bytes, so that no input can make the search go back and forth.
_NUMBERS = re.compile(rb"(?:#[^\n]*\n|[-+0-9.eE,\s]|nan|inf)*\Z", re.IGNORECASE)


def _recognise(head: bytes, suffix: str) -> int:
    return BY_CONTENT if _NUMBERS.match(head.removeprefix(b"\xef\xbb\xbf")) is not None else NO


FORMAT = Format(
    "matrix", lambda path, options: read_matrix(path, options.frame), _recognise, takes=frozenset({"frame"})
)
