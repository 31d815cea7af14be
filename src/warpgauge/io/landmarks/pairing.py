"""Two files, one of each image, become one table of pairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError
from warpgauge.io.landmarks.base import Side, Table


def pair(fixed: Table, moving: Table, fixed_name: str, moving_name: str, match: str | None) -> Table:
    """Join the points of two files by row or by name.

    Parameters
    ----------
    fixed, moving : Table
        Two sets of points.
    fixed_name, moving_name : str
        Names of the files, for messages.
    match : {"row", "name", None}
        How points correspond. None is by row, and refused where names that both files have stand in different rows.
    """
    if match not in ("row", "name", None):
        raise InvalidInputError(f"match must be 'row' or 'name', got {match!r}.")
    if fixed.d != moving.d:
        raise FileFormatError(
            f"{fixed_name!r} holds {fixed.d}D points and {moving_name!r} {moving.d}D points; they are no pair."
        )
    if len(fixed) != len(moving):
        raise FileFormatError(
            f"{fixed_name!r} (fixed) holds {len(fixed)} points and {moving_name!r} (moving) holds {len(moving)}, so "
            f"the rows do not correspond; remove the points that have no partner."
        )
    side = moving.fixed
    if match == "name":
        side = _by_name(fixed.fixed, side, fixed_name, moving_name)
    elif match is None:
        _refuse_displaced_names(fixed.fixed, side, fixed_name, moving_name)
    assumptions = list(dict.fromkeys([*fixed.assumptions, *moving.assumptions]))
    if match != "name" and side.names is not None and fixed.fixed.names is not None and side.names != fixed.fixed.names:
        assumptions.append("The two files name their points differently; rows correspond and the fixed names are kept.")
    fixed_side = fixed.fixed if fixed.fixed.names is not None else replace(fixed.fixed, names=side.names)
    return replace(fixed, fixed=fixed_side, moving=side, assumptions=assumptions)


def _by_name(fixed: Side, moving: Side, fixed_name: str, moving_name: str) -> Side:
    for side, name in ((fixed, fixed_name), (moving, moving_name)):
        if side.names is None or len(set(side.names)) != len(side.names) or "" in side.names:
            raise FileFormatError(f"{name!r} does not give every point a name of its own; use match='row'.")
    names, others = fixed.names or (), moving.names or ()
    missing = sorted(set(names) - set(others))
    if missing:
        raise FileFormatError(
            f"{moving_name!r} has no point {missing[0]!r}, which {fixed_name!r} has; add or remove it."
        )
    places = {name: row for row, name in enumerate(others)}
    order = [places[name] for name in names]
    return replace(moving, points=moving.points[order], names=tuple(names))


def _refuse_displaced_names(fixed: Side, moving: Side, fixed_name: str, moving_name: str) -> None:
    if fixed.names is None or moving.names is None:
        return
    once, counts = Counter(moving.names), Counter(fixed.names)
    places = {name: row for row, name in enumerate(moving.names) if name and once[name] == 1}
    for row, name in enumerate(fixed.names):
        if counts[name] == 1 and places.get(name, row) != row:
            raise AmbiguousFileError(
                f"The point {name!r} is number {row + 1} in {fixed_name!r} and number {places[name] + 1} in "
                f"{moving_name!r}; pass match='name' to pair points by name, or match='row' to pair them as they stand."
            )
