"""Checks of single values that events hold: numbers, points, matrices, texts. Each returns plain, hashable values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import as_covariances, as_points
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.landmarks.model import LARGEST_COORDINATE, text_problem

Vector = tuple[float, ...]
Matrix = tuple[tuple[float, ...], ...]


def numbers(values: ArrayLike, what: str) -> Floats:
    """Return values as an array of floats, of any shape, or raise."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be numbers, got {values!r}.") from error


def number(value: Any, what: str) -> float:
    """Return a finite number, or raise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{what} must be a finite number, got {value!r}.")
    return float(value)


def text(payload: Mapping[str, Any], key: str) -> str:
    """Return a text that can be shown, empty where there is none."""
    found = payload.get(key) or ""
    problem = "is not text" if not isinstance(found, str) else text_problem(found)
    if problem:
        raise InvalidInputError(f"The text of {key!r} {problem}; replace it.")
    return str(found)


def vector(value: Any, d: int, what: str) -> Vector:
    """Return a point of ``d`` coordinates that are not absurdly large."""
    point = tuple(as_points([value], what, d)[0].tolist())
    if max(map(abs, point)) > LARGEST_COORDINATE:
        raise InvalidInputError(f"{what} {list(point)} is beyond {LARGEST_COORDINATE:g}; correct it.")
    return point


def points(value: Any, d: int, what: str) -> tuple[Vector, ...]:
    """Return rows of ``d`` coordinates."""
    return plain_rows(as_points(value, what, d))


def matrix(value: Any, d: int, what: str) -> Matrix:
    """Return a covariance matrix: symmetric, positive definite, with entries that are not absurdly large."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be a {d} x {d} matrix of numbers, got {str(value)[:60]!r}.") from error
    if array.size and np.abs(array).max() > LARGEST_COORDINATE**2:
        raise InvalidInputError(f"{what} has an entry beyond {LARGEST_COORDINATE**2:g}; correct it.")
    return plain_rows(as_covariances(array[None], 1, d, what)[0])


def alpha(value: Any) -> float:
    """Return a level strictly between 0 and 1."""
    level = number(value, "alpha")
    if not 0 < level < 1:
        raise InvalidInputError(f"alpha must lie between 0 and 1, got {level!r}.")
    return level


def plain_rows(array: Any) -> tuple[tuple[float, ...], ...]:
    """Return the rows of an array as tuples."""
    return tuple(tuple(row) for row in array.tolist())


def whole(value: Any) -> int | None:
    """Return a whole number; None stays None."""
    return None if value is None else int(value)
