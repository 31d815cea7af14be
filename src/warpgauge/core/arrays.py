"""Checks of the arrays that cross the public interface, and the array type of the core."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def readonly(array: Floats) -> Floats:
    """Return the array marked read-only, so that a frozen value really is one."""
    array.flags.writeable = False
    return array


def thinned_rows(count: int, most: int, seed: int | Sequence[int] = 0) -> Ints:
    """Rows of a random part, at most ``most`` of ``count``, ascending; all of them where there are few enough."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def first_bad_row(bad: Bools) -> int:
    """Index of the first row in which anything is marked."""
    return int(np.argmax(bad.reshape(len(bad), -1).any(axis=1)))


def as_numbers(values: ArrayLike, name: str, what: str) -> Floats:
    """Return real numbers as a contiguous array of float64; refuse what would lose a part in silence.

    Complex numbers, masked entries, times, text and objects other than numbers are not what they would become.
    """
    if isinstance(values, np.ma.MaskedArray) and np.any(values.mask):
        raise InvalidInputError(f"{name} has masked entries, whose values are unknown; leave those rows out.")
    try:
        given = np.asarray(values)
        wrong = [] if given.dtype.kind in "iufb" else [given.dtype.name]
        if given.dtype.kind == "O":
            kinds = {type(one) for one in given.flat}
            wrong = sorted(kind.__name__ for kind in kinds if not issubclass(kind, numbers.Real))
        if wrong:
            raise TypeError(f"it holds {wrong[0]}")
        return np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        told = f"{type(values).__name__}: {' '.join(str(error).split())[:80]}"
        raise InvalidInputError(f"{name} must be {what}, got {told}.") from error


def as_points(points: ArrayLike, name: str, d: int | None = None) -> Floats:
    """Check that ``points`` is an (n, d) array of finite world coordinates with d = 2 or 3."""
    array = as_numbers(points, name, "an (n, d) array of numbers")
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InvalidInputError(f"{name} must be an (n, 2) or (n, 3) array of world points, got shape {array.shape}.")
    if d is not None and array.shape[1] != d:
        raise InvalidInputError(f"{name} must have {d} columns like the other points, got shape {array.shape}.")
    finite = np.isfinite(array)
    if not finite.all():
        row = first_bad_row(~finite)
        raise InvalidInputError(f"{name} row {row} is not finite: {array[row].tolist()}; remove it or mark it missing.")
    return array


def as_covariances(covariances: ArrayLike, count: int, d: int, name: str = "covariances") -> Floats:
    """Check that ``covariances`` is a (count, d, d) array of symmetric positive definite matrices."""
    array = as_numbers(covariances, name, "an (n, d, d) array of numbers")
    if array.shape != (count, d, d):
        raise InvalidInputError(f"{name} must have shape ({count}, {d}, {d}), one matrix per row, got {array.shape}.")
    if count == 0:
        return array
    if not np.isfinite(array).all():
        row = first_bad_row(~np.isfinite(array))
        raise InvalidInputError(f"{name} row {row} is not finite: {array[row].tolist()}.")
    transposed = array.transpose(0, 2, 1)
    asymmetric = np.abs(array - transposed) > 1e-8 * np.abs(array).max(axis=(1, 2), keepdims=True)
    if asymmetric.any():
        row = first_bad_row(asymmetric)
        raise InvalidInputError(f"{name} row {row} is not symmetric: {array[row].tolist()}.")
    array = (array + transposed) / 2
    smallest = np.linalg.eigvalsh(array)[:, 0]
    if not (smallest > 0).all():
        row = int(np.argmax(~(smallest > 0)))
        raise InvalidInputError(
            f"{name} row {row} is not positive definite (smallest eigenvalue {smallest[row]:.3g}): "
            "every annotation needs some uncertainty in every direction."
        )
    return array


def tied_ranks(values: Floats) -> Floats:
    """Return ranks from 1 along the last axis; equal values share the mean of theirs.

    As `scipy.stats.rankdata`, which takes longer to load than all of the core.
    """
    below = (values[..., None, :] < values[..., :, None]).sum(axis=-1)
    equal = (values[..., None, :] == values[..., :, None]).sum(axis=-1)
    return np.asarray(below + (equal + 1) / 2)
