"""An affine matrix as text: d rows of d + 1 numbers, or d + 1 rows with 0 ... 0 1 last."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.files import read_text
from warpgauge.io.transforms.base import Description
from warpgauge.io.transforms.headers import default_units
from warpgauge.io.transforms.linear import AffineTransform

FORMAT = "matrix"
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
            raise FileFormatError(f"{path.name!r}, line {number}: {line.strip()[:60]!r} are no numbers.") from error
    if not rows or len({len(row) for row in rows}) > 1:
        raise FileFormatError(f"{path.name!r} is no matrix: its rows have {[len(row) for row in rows][:8]} numbers.")
    matrix = np.array(rows)
    if not np.isfinite(matrix).all():
        raise FileFormatError(f"{path.name!r} has numbers that are not finite (NaN or infinity).")
    return matrix


def read_matrix(path: Path, frame: str | None = None) -> AffineTransform:
    """Read an affine matrix that maps fixed world points to moving world points.

    Parameters
    ----------
    path : Path
        The text file.
    frame : {"LPS", "RAS"}, optional
        The world of the matrix; LPS by default.
    """
    if frame not in (None, "LPS", "RAS"):
        raise InvalidInputError(f"frame= of a matrix is 'LPS' or 'RAS', got {frame!r}.")
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
    note = "The matrix maps fixed to moving world points (column vectors); a flirt matrix needs format='fsl'."
    if frame == "RAS":
        signs = np.array([-1.0, -1.0, 1.0])[:d]
        matrix, offset = matrix * np.outer(signs, signs), offset * signs
        note += " Its RAS world is turned into LPS."
    elif frame is None and d == 3:
        note += " Its world is taken to be LPS; give frame='RAS' where it is not."
    about = Description(
        format=FORMAT,
        kind="affine",
        frame="world, LPS" if d == 3 else "world",
        units=default_units(d),
        assumptions=(note,),
        source=path.name,
    )
    return AffineTransform(matrix, offset, about)
