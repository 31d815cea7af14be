"""Pairing of two landmark files, one per image, into one table: by name, by index or by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from warpgauge.display import counted
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.io.landmarks.base import Side, Table
from warpgauge.io.landmarks.text import count_up

MATCHES: tuple[str, ...] = ("row", "name", "index")
_KINDS = {"name": "a name", "index": "an index"}


def pair(fixed: Table, moving: Table, fixed_name: str, moving_name: str, match: str | None) -> Table:
    """Join the points of two files: by name where both name the same points, else by their numbers, else by row.

    ``match`` says which. A name that stands in different rows of files that cannot be paired by name is refused.
    """
    if match not in (*MATCHES, None):
        raise InvalidInputError(f"match must be 'row', 'name' or 'index', got {match!r}.")
    if fixed.d != moving.d:
        raise FileFormatError(
            f"{fixed_name!r} holds {fixed.d}D points and {moving_name!r} {moving.d}D points; they cannot be paired."
        )
    if len(fixed) != len(moving):
        raise FileFormatError(
            f"{fixed_name!r} (fixed) holds {counted(len(fixed), 'point')} and {moving_name!r} (moving) holds "
            f"{len(moving)}, so the rows do not correspond; remove the points that have no partner."
        )
    side = moving.fixed
    kind = match or _best(fixed.fixed, side)
    notes = [*fixed.assumptions, *moving.assumptions]
    if kind == "row":
        if match is None:
            _refuse_displaced(fixed.fixed, side, fixed_name, moving_name)
        notes.append("Row order was used to pair the points of the two files.")
        if None not in (side.names, fixed.fixed.names) and side.names != fixed.fixed.names:
            notes.append("The two files name their points differently; rows correspond and the fixed names are kept.")
    else:
        order = _order(fixed.fixed, side, fixed_name, moving_name, kind)
        moved = sum(place != row for row, place in enumerate(order))
        rows = f"; {moved} of {len(order)} stand in another row" if moved else ""
        notes.append(f"Points of the two files were paired by {'name' if kind == 'name' else 'their index'}{rows}.")
        names = None if side.names is None else tuple(side.names[place] for place in order)
        side = replace(side, points=side.points[order], names=names)
    fixed_side = fixed.fixed if fixed.fixed.names is not None else replace(fixed.fixed, names=side.names)
    return replace(fixed, fixed=fixed_side, moving=side, assumptions=list(dict.fromkeys(notes)))


def _labels(side: Side, kind: str) -> tuple[str, ...]:
    """Return the names or indices of the points of a file; nothing where it has none."""
    return (side.names if kind == "name" else side.indices) or ()


def _identifies(labels: tuple[str, ...]) -> bool:
    """Return whether every point has a label of its own."""
    return bool(labels) and len(set(labels)) == len(labels) and "" not in labels


def _best(fixed: Side, moving: Side) -> str:
    """Return by what two files can be paired: the first kind of label that identifies all points of both."""
    for kind in _KINDS:
        labels = _labels(fixed, kind)
        if _identifies(labels) and set(labels) == set(_labels(moving, kind)):
            return kind
    return "row"


def _order(fixed: Side, moving: Side, fixed_name: str, moving_name: str, kind: str) -> list[int]:
    """Return the rows of the moving points in the order of the fixed ones."""
    for side, name in ((fixed, fixed_name), (moving, moving_name)):
        if not _identifies(_labels(side, kind)):
            raise FileFormatError(
                f"{name!r} does not give every point {_KINDS[kind]} of its own; use {say('match', 'row')}."
            )
    places = {label: row for row, label in enumerate(_labels(moving, kind))}
    for label in sorted(_labels(fixed, kind)):
        if label not in places:
            raise FileFormatError(
                f"{moving_name!r} has no point {label!r}, which {fixed_name!r} has; add or remove it."
            )
    return [places[label] for label in _labels(fixed, kind)]


def _refuse_displaced(fixed: Side, moving: Side, fixed_name: str, moving_name: str) -> None:
    """Refuse to pair by row where a name or index that both files have stands in different rows."""
    for kind in _KINDS:
        labels = _labels(fixed, kind)
        others = _labels(moving, kind)
        if not labels or not others or (kind == "index" and count_up(labels) and count_up(others)):
            continue
        counts = Counter(labels)
        other_counts = Counter(others)
        places = {label: row for row, label in enumerate(others) if label and other_counts[label] == 1}
        for row, label in enumerate(labels):
            if counts[label] == 1 and places.get(label, row) != row:
                raise AmbiguousFileError(
                    f"The point {label!r} is number {row + 1} in {fixed_name!r} and number {places[label] + 1} in "
                    f"{moving_name!r}; pass {say('match', kind)} to pair points by {kind}, or {say('match', 'row')} to "
                    f"pair them as they stand."
                )
