"""Pairing of two landmark files, one per image, into one table: by name, by index or by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from warpgauge.display import counted
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.io.landmarks.base import Side, Table
from warpgauge.io.landmarks.text import count_up

MATCHES: tuple[str, ...] = ("row", "name", "index")


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
    used = match or _best(fixed.fixed, side)
    if used == "row":
        note = "Row order was used to pair the points of the two files."
        if match is None:
            _refuse_displaced(fixed.fixed, side, fixed_name, moving_name)
    else:
        side, note = _reordered(fixed.fixed, side, fixed_name, moving_name, used)
    assumptions = list(dict.fromkeys([*fixed.assumptions, *moving.assumptions, note]))
    if used == "row" and side.names is not None and fixed.fixed.names is not None and side.names != fixed.fixed.names:
        assumptions.append("The two files name their points differently; rows correspond and the fixed names are kept.")
    fixed_side = fixed.fixed if fixed.fixed.names is not None else replace(fixed.fixed, names=side.names)
    return replace(fixed, fixed=fixed_side, moving=side, assumptions=assumptions)


def _labels(side: Side, kind: str) -> tuple[str, ...] | None:
    return side.names if kind == "name" else side.indices


def _identifies(labels: tuple[str, ...] | None) -> bool:
    """Return whether every point has a label of its own."""
    return labels is not None and len(set(labels)) == len(labels) and "" not in labels


def _best(fixed: Side, moving: Side) -> str:
    """Return by what two files can be paired: the first kind of label that identifies all points of both."""
    for kind in ("name", "index"):
        ours, theirs = _labels(fixed, kind), _labels(moving, kind)
        if ours is not None and theirs is not None and _identifies(ours) and set(ours) == set(theirs):
            return kind
    return "row"


def _reordered(fixed: Side, moving: Side, fixed_name: str, moving_name: str, kind: str) -> tuple[Side, str]:
    """Return the moving points in the order of the fixed ones, and a sentence that says how they were paired."""
    for side, name in ((fixed, fixed_name), (moving, moving_name)):
        if not _identifies(_labels(side, kind)):
            article = "a name" if kind == "name" else "an index"
            raise FileFormatError(
                f"{name!r} does not give every point {article} of its own; use {say('match', 'row')}."
            )
    labels, others = _labels(fixed, kind) or (), _labels(moving, kind) or ()
    missing = sorted(set(labels) - set(others))
    if missing:
        raise FileFormatError(
            f"{moving_name!r} has no point {missing[0]!r}, which {fixed_name!r} has; add or remove it."
        )
    places = {label: row for row, label in enumerate(others)}
    order = [places[label] for label in labels]
    moved = sum(place != row for row, place in enumerate(order))
    rows = f"; {moved} of {len(order)} stand in another row" if moved else ""
    names = None if moving.names is None else tuple(moving.names[row] for row in order)
    note = f"Points of the two files were paired by {'name' if kind == 'name' else 'their index'}{rows}."
    return replace(moving, points=moving.points[order], names=names, indices=labels), note


def _refuse_displaced(fixed: Side, moving: Side, fixed_name: str, moving_name: str) -> None:
    """Refuse to pair by row where a name or index that both files have stands in different rows."""
    for kind in ("name", "index"):
        ours, theirs = _labels(fixed, kind), _labels(moving, kind)
        if ours is None or theirs is None or (kind == "index" and count_up(ours) and count_up(theirs)):
            continue
        once, counts = Counter(theirs), Counter(ours)
        places = {label: row for row, label in enumerate(theirs) if label and once[label] == 1}
        for row, label in enumerate(ours):
            if counts[label] == 1 and places.get(label, row) != row:
                raise AmbiguousFileError(
                    f"The point {label!r} is number {row + 1} in {fixed_name!r} and number {places[label] + 1} in "
                    f"{moving_name!r}; pass {say('match', kind)} to pair points by {kind}, or {say('match', 'row')} to "
                    f"pair them as they stand."
                )
