"""Points that a program has already mapped: a transform that is known at these points and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.files import read_text
from warpgauge.io.transforms.meaning import Options
from warpgauge.io.transforms.transform import Transform

TOLERANCE = 1e-4
_LONGEST_LINE = 4096
_OUTPUT = re.compile(r"(InputPoint|OutputPoint)\s*=\s*\[([^\]]*)\]")
_TRANSFORMIX = re.compile(rb"\s*Point\s+\d+\s*;")
_TITLES = re.compile(rb"[^\n]*[A-Za-z_][^\n]*,", re.MULTILINE)


class MappedPoints(Transform):
    """A table of fixed points and where they were mapped, (n, d) world points; NaN was outside, others are masked.

    A point within the ``tolerance`` of a listed one, in world units, counts as that one.
    """

    def __init__(
        self,
        fixed_points: ArrayLike,
        mapped_points: ArrayLike,
        *,
        tolerance: float = TOLERANCE,
        units: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        from scipy.spatial import cKDTree

        self._fixed = np.array(fixed_points, dtype=np.float64)
        self._mapped = np.array(mapped_points, dtype=np.float64)
        if self._fixed.ndim != 2 or self._fixed.shape[1] not in (2, 3) or self._fixed.shape != self._mapped.shape:
            raise InvalidInputError(
                f"Mapped points need two (n, d) arrays of one shape, got {self._fixed.shape} and {self._mapped.shape}."
            )
        if len(self._fixed) == 0 or not np.isfinite(self._fixed).all():
            raise InvalidInputError("Mapped points need at least one fixed point, and finite coordinates of all.")
        if not tolerance >= 0:
            raise InvalidInputError(f"The tolerance of mapped points must not be negative, got {tolerance!r}.")
        super().__init__(self._fixed.shape[1], "already mapped points", units=units, notes=notes)
        self._mapped[~np.isfinite(self._mapped).all(axis=1)] = np.nan
        self._tolerance = tolerance
        self._tree = cKDTree(self._fixed)
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        count = int(self._tree.count_neighbors(self._tree, 2 * self._tolerance))
        if count > 100 * len(self._fixed):  # before they are listed
            raise InvalidInputError(
                f"The {len(self._fixed)} fixed points lie closer together than the tolerance of {self._tolerance:g}, "
                f"so they cannot be distinguished."
            )
        # Even where points must agree exactly, their images may differ by rounding.
        apart = 2 * max(self._tolerance, TOLERANCE)
        for a, b in self._tree.query_pairs(2 * self._tolerance):
            if not np.allclose(self._mapped[a], self._mapped[b], rtol=0, atol=apart, equal_nan=True):
                raise InvalidInputError(
                    f"Rows {a + 1} and {b + 1} list the same fixed point {self._fixed[a].tolist()} with two different "
                    f"mapped points."
                )

    @property
    def anywhere(self) -> bool:
        """False: nothing is known between the listed points."""
        return False

    def _map(self, points: Floats) -> Floats:
        mapped = np.full(points.shape, np.nan)
        rows = np.flatnonzero(np.isfinite(points).all(axis=1))
        distance, nearest = self._tree.query(points[rows])
        listed = distance <= self._tolerance
        mapped[rows[listed]] = self._mapped[nearest[listed]]
        return mapped

    def inverse(self) -> Transform:
        """Return the table read from right to left."""
        known = np.isfinite(self._mapped).all(axis=1)
        inverse = MappedPoints(self._mapped[known], self._fixed[known], tolerance=self._tolerance)
        return inverse.described(**self._turned())


def is_mapped_points(head: bytes, suffix: str) -> bool:
    """Return whether a file is ``outputpoints.txt`` of transformix, or a CSV with titles."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in text:
        return False
    return _TRANSFORMIX.match(text) is not None or (suffix == ".csv" and _TITLES.match(text) is not None)


def read_mapped_points(path: Path, options: Options) -> Transform:
    """Read ``outputpoints.txt`` of transformix, or a CSV of fixed and mapped points (columns fixed_*, moving_*)."""
    from warpgauge.io.landmarks import read_landmarks

    text = read_text(path, "file of mapped points")
    if _TRANSFORMIX.match(text.encode("utf-8", "replace")):
        fixed, mapped = _transformix(text, path.name)
        note = "transformix prints six decimals, so points are known to 5e-7."
        return MappedPoints(fixed, mapped, notes=(note,)).described(format="transformix output points")
    pairs = read_landmarks(path)
    if pairs.moving_points is None:
        raise FileFormatError(f"{path.name!r} lists one set of points, but mapped points need fixed and mapped ones.")
    notes = ("The moving points of the file are taken as the mapped ones.", *pairs.assumptions)
    return MappedPoints(pairs.fixed_points, pairs.moving_points, units=pairs.units, notes=notes)


def _transformix(text: str, name: str) -> tuple[Floats, Floats]:
    rows: list[list[list[float]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if len(line) > _LONGEST_LINE:
            raise FileFormatError(f"{name!r}, line {number}: {len(line)} characters are too many for one point.")
        values = dict(_OUTPUT.findall(line))
        try:
            rows.append([[float(word) for word in values[key].split()] for key in ("InputPoint", "OutputPoint")])
        except (KeyError, ValueError) as error:
            raise FileFormatError(
                f"{name!r}, line {number}: expected 'InputPoint = [ ... ] ; OutputPoint = [ ... ]'."
            ) from error
    if len({len(point) for row in rows for point in row}) != 1:
        raise FileFormatError(f"{name!r} mixes points of different dimensions.")
    points = np.array(rows)
    return points[:, 0], points[:, 1]
