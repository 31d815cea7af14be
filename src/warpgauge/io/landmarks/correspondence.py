"""Which fixed point belongs to which moving one: pairing of two files, and checks of landmarks that look wrong."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warpgauge.display import counted
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.landmarks.base import Side, Table

# Pairing of two files, one per image, into one table; and a search for rows that probably do not correspond.
#
# The threshold was chosen on the 50 pairs of stains of five CIMA regions and on ten DIR-Lab cases: none of the 60 is
# reported as published, all are with their rows shuffled or moved by one, and 55 with two random rows exchanged.

MATCHES: tuple[str, ...] = ("row", "name", "index")


def pair(fixed: Table, moving: Table, fixed_name: str, moving_name: str, match: str | None) -> Table:
    """Join the points of two files.

    Parameters
    ----------
    fixed, moving : Table
        Two sets of points.
    fixed_name, moving_name : str
        Names of the files, for messages.
    match : {"row", "name", "index", None}
        How points correspond. None is by name where both files name the same points, else by the number that each
        point has in its file, else by row; a name that stands in different rows of files that cannot be paired by
        name is refused.
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
            raise FileFormatError(f"{name!r} does not give every point {article} of its own; use match='row'.")
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
        if ours is None or theirs is None or (kind == "index" and _counting(ours) and _counting(theirs)):
            continue
        once, counts = Counter(theirs), Counter(ours)
        places = {label: row for row, label in enumerate(theirs) if label and once[label] == 1}
        for row, label in enumerate(ours):
            if counts[label] == 1 and places.get(label, row) != row:
                raise AmbiguousFileError(
                    f"The point {label!r} is number {row + 1} in {fixed_name!r} and number {places[label] + 1} in "
                    f"{moving_name!r}; pass match={kind!r} to pair points by {kind}, or match='row' to pair them as "
                    f"they stand."
                )


def _counting(labels: tuple[str, ...]) -> bool:
    """Return whether labels count the rows without a gap, from wherever they start."""
    if not labels[0].isascii() or not labels[0].isdigit():
        return False
    first = int(labels[0])
    return labels == tuple(str(first + row) for row in range(len(labels)))


# An assignment takes the cube of the number of points; above this the check is left out.
_MOST = 600
_ROUNDS = 12
_REWEIGHTINGS = 10
# A pairing is reported when the mean residual of the pairs that it changes drops below this share.
_RATIO = 0.4


@dataclass(frozen=True, eq=False)
class Permutation:
    """A pairing that fits far better than the one given.

    Attributes
    ----------
    order : (n,) array of int
        The moving row that fits each fixed row.
    rows : tuple of int
        Fixed rows whose partner changes, counted from 0.
    given, better : float
        Mean residual of these rows about an affine map, as paired and paired anew, in world units.
    """

    order: NDArray[np.intp]
    rows: tuple[int, ...]
    given: float
    better: float

    def sentence(self, units: str) -> str:
        """Return the finding as one sentence."""
        shown = ", ".join(str(row + 1) for row in self.rows[:6]) + (", ..." if len(self.rows) > 6 else "")
        return (
            f"the rows probably do not correspond: {len(self.rows)} pairs (rows {shown}) lie {self.given:.3g} {units} "
            f"from an affine map as paired, and {self.better:.3g} {units} with the moving points in another order"
        )


def likely_permutation(fixed_points: Floats, moving_points: Floats) -> Permutation | None:
    """Return a pairing that fits an affine map far better than the one given; None where there is none.

    The affine map is fitted robustly, and points are assigned to each other so that the squared residuals are least,
    in turns, from several starts (the pairs as given; both sets laid over each other by centre and moments).
    """
    n, d = fixed_points.shape
    if not 2 * d + 4 <= n <= _MOST or not (_spread(fixed_points) and _spread(moving_points)):
        return None
    as_given = _robust(fixed_points, moving_points)
    residuals = _residuals(as_given, fixed_points, moving_points)
    found = [_settled(as_given, fixed_points, moving_points)]
    if np.array_equal(found[0][0], np.arange(n)):  # each point is best where it is, which most files are quick to show
        return None
    found += [_settled(start, fixed_points, moving_points) for start in _starts(fixed_points, moving_points)]
    order, better = min(found, key=lambda one: float(np.median(one[1])))
    rows = np.flatnonzero(order != np.arange(n))
    if not len(rows) or not better[rows].mean() < _RATIO * residuals[rows].mean():
        return None
    return Permutation(
        order, tuple(int(row) for row in rows), float(residuals[rows].mean()), float(better[rows].mean())
    )


def _spread(points: Floats) -> bool:
    values = np.linalg.eigvalsh(np.cov(points.T))
    return bool(values[0] > 1e-6 * values[-1] > 0)


def _design(points: Floats) -> Floats:
    return np.column_stack([np.ones(len(points)), points])


def _residuals(coefficients: Floats, fixed: Floats, moving: Floats) -> Floats:
    return np.asarray(np.linalg.norm(moving - _design(fixed) @ coefficients, axis=1))


def _robust(fixed: Floats, moving: Floats) -> Floats:
    """Return the coefficients (d + 1, d) of an affine map, with pairs far from it given little weight."""
    design, weights = _design(fixed), np.ones(len(fixed))
    coefficients: Floats = np.zeros((fixed.shape[1] + 1, fixed.shape[1]))
    for _ in range(_REWEIGHTINGS):
        root = weights[:, None]
        coefficients = np.asarray(np.linalg.lstsq(design * root, moving * root, rcond=None)[0], dtype=np.float64)
        residuals = _residuals(coefficients, fixed, moving)
        scale = max(float(np.median(residuals)), 1e-12 * float(np.abs(moving).max() + 1))
        weights = 1 / (1 + (residuals / scale) ** 2)
    return coefficients


def _starts(fixed: Floats, moving: Floats) -> Iterator[Floats]:
    d = fixed.shape[1]
    centres = fixed.mean(axis=0), moving.mean(axis=0)
    yield np.vstack([centres[1] - centres[0], np.eye(d)])
    (sizes, axes), (other_sizes, other_axes) = (np.linalg.eigh(np.cov(points.T)) for points in (fixed, moving))
    for signs in itertools.product((1.0, -1.0), repeat=d):
        matrix = other_axes @ np.diag(np.array(signs) * np.sqrt(other_sizes / sizes)) @ axes.T
        if np.linalg.det(matrix) > 0:
            yield np.vstack([centres[1] - matrix @ centres[0], matrix.T])


def _settled(coefficients: Floats, fixed: Floats, moving: Floats) -> tuple[NDArray[np.intp], Floats]:
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    order: NDArray[np.intp] = np.arange(len(fixed))
    for turn in range(_ROUNDS):
        found = linear_sum_assignment(cdist(_design(fixed) @ coefficients, moving, "sqeuclidean"))[1]
        if turn and np.array_equal(found, order):
            break
        order = found
        coefficients = _robust(fixed, moving[order])
    return order, _residuals(coefficients, fixed, moving[order])


# Checks for landmarks that are valid but probably wrong: a mirror, points outside, fixed and moving exchanged.

# Points that nearly lie on a line (2D) or in a plane (3D) do not fix the sign of a determinant.
_FLATTEST = 0.02
# A swap is reported when more than this share of the points lies outside, and the other way round far fewer do.
_SWAP_OUTSIDE, _SWAP_RATIO = 0.1, 0.2


def _warn(message: str) -> None:
    warnings.warn(message, SuspiciousDataWarning, stacklevel=4)


def _flatness(points: Floats) -> float:
    singular = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return float(singular[-1] / singular[0]) if singular[0] > 0 else 0.0


def affine_determinant(fixed_points: Floats, moving_points: Floats) -> tuple[float, float] | None:
    """Return the determinant and root mean square residual of the best affine map, None where it is not determined."""
    n, d = fixed_points.shape
    if n <= d or min(_flatness(fixed_points), _flatness(moving_points)) < _FLATTEST:
        return None
    centred = fixed_points - fixed_points.mean(axis=0)
    target = moving_points - moving_points.mean(axis=0)
    matrix = np.linalg.lstsq(centred, target, rcond=None)[0]
    residual = target - centred @ matrix
    return float(np.linalg.det(matrix)), float(np.sqrt(np.mean(np.sum(residual**2, axis=1))))


def warn_of_mirror(name: str, fixed_points: Floats, moving_points: Floats, units: str) -> None:
    """Warn when the best affine map of the pairs turns left into right.

    A map that explains less than half of the points' spread says nothing: its pairs do not correspond.
    """
    fit = affine_determinant(fixed_points, moving_points)
    spread = float(np.sqrt(moving_points.var(axis=0).sum())) if fit is not None else 0.0
    if fit is not None and fit[0] < 0 and fit[1] ** 2 < spread**2 / 2:
        _warn(
            f"{name!r}: the best affine map of the {len(fixed_points)} pairs has the negative determinant {fit[0]:.4g} "
            f"(residual {fit[1]:.4g} {units}), so it is a mirror; is an axis flipped (LPS/RAS) or a slide turned over?"
        )


def warn_of_permutation(name: str, fixed_points: Floats, moving_points: Floats, units: str) -> None:
    """Warn when another pairing of the same points fits an affine map far better."""
    found = likely_permutation(fixed_points, moving_points)
    if found is not None:
        _warn(f"{name!r}: {found.sentence(units)}; is the order of the rows the same in both files?")


def distance_outside(points_world: Floats, grid: Grid) -> Floats:
    """How far each point lies outside the pixels of a grid, in world units; 0 inside."""
    index = grid.world_to_index(points_world)
    beyond = np.maximum(-0.5 - index, index - (np.asarray(grid.size) - 0.5))
    return np.asarray(np.linalg.norm(np.maximum(beyond, 0.0) * grid.spacing, axis=1))


def warn_of_outside(name: str, points_world: Floats, grid: Grid, side: str) -> None:
    """Warn when points lie outside the image that they should lie in."""
    outside = ~grid.contains(points_world)
    if np.any(outside):
        distances = distance_outside(points_world, grid)
        worst = int(np.argmax(distances))
        _warn(
            f"{name!r}: {int(outside.sum())} of {len(points_world)} {side} points lie outside the {side} image, the "
            f"farthest (point {worst + 1}) by {distances[worst]:.4g} {grid.units}; is "
            f"this the right image, frame and scale?"
        )


def warn_of_swap(name: str, as_given: tuple[int, int], swapped: tuple[int, int], n: int) -> bool:
    """Warn when the points fit the images much better with fixed and moving exchanged.

    Parameters
    ----------
    as_given, swapped : pair of int
        How many fixed and moving points lie outside their images as read, and with the images exchanged.
    n : int
        Number of pairs.
    """
    given, other = sum(as_given), sum(swapped)
    suspicious = given > _SWAP_OUTSIDE * 2 * n and other < _SWAP_RATIO * given
    if suspicious:
        _warn(
            f"{name!r}: {as_given[0]} fixed and {as_given[1]} moving points of {n} pairs lie outside their images, but "
            f"only {swapped[0]} and {swapped[1]} with the images exchanged; are fixed and moving swapped?"
        )
    return suspicious


def warn_of_zero_index(name: str, points_file: Floats) -> None:
    """Warn when voxel indices that should count from 1 seem to count from 0."""
    smallest = float(np.min(points_file, where=~np.isnan(points_file), initial=np.inf))
    if smallest < 1:
        _warn(
            f"{name!r} has the voxel index {smallest:g}, but its indices should count from 1; if they count from 0, "
            f"pass frame='index'."
        )
