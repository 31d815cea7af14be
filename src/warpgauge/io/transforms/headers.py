"""Checks that all headers of grids share."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import UNITS, Grid, Units


def default_units(d: int) -> str:
    """Return the unit of files that name none: millimetres by the convention of medical volumes, else not stated."""
    return "mm" if d == 3 else "unstated"


def grid_of_header(
    path_name: str, size: ArrayLike, spacing: ArrayLike, origin: ArrayLike, direction: ArrayLike, units: str
) -> Grid:
    """Return the grid of a header, or say which file describes none."""
    extent = np.asarray(size, dtype=np.float64)
    if not (np.isfinite(extent).all() and (extent == np.round(extent)).all() and (np.abs(extent) < 2**31).all()):
        raise FileFormatError(f"{path_name!r} has a grid size of {extent.tolist()}, which are not node counts.")
    known = cast(Units, units if units in UNITS else "px")
    try:
        return Grid(
            tuple(int(n) for n in extent), np.asarray(spacing), np.asarray(origin), np.asarray(direction), known
        )
    except InvalidInputError as error:
        raise FileFormatError(f"{path_name!r} describes no valid grid: {str(error).rstrip('.')}.") from error


def check_room(path_name: str, needed: int, at_hand: int, what: str) -> None:
    """Refuse a header that promises more bytes than the file can hold, before anything of that size is allocated."""
    if needed > at_hand:
        raise FileFormatError(
            f"{path_name!r} is truncated, or its header is wrong: {what} need {needed} bytes, but at most {at_hand} "
            f"can be there."
        )
