"""Transforms side by side: what is accepted as one, values at points, the targets that all map, and errors.

As estimates of the truth they are a `CandidateSet`: their median, their differences from it, and where they disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, as_points, thinned_rows
from warpgauge.core.error_scores import Truth
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.io.transforms.in_memory import as_transform, speaks_for_itself


@runtime_checkable
class MapsPoints(Protocol):
    """Anything with ``map(points_world) -> points_world``, as ``read_transform`` gives."""

    def map(self, points_world: Floats) -> Floats:
        """Map (n, d) fixed world points to moving world points."""
        ...


Candidate = MapsPoints | Callable[[Floats], ArrayLike] | ArrayLike


def converted(transforms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the transforms with files and those of other libraries (SimpleITK, ITK, ANTsPy) as warpgauge's own."""
    return {name: as_transform(one) if speaks_for_itself(one) else one for name, one in transforms.items()}


def function_of(candidate: Any) -> Callable[[Floats], ArrayLike] | None:
    """Return the function of points behind a candidate, or None where it is an array of mapped targets."""
    if isinstance(candidate, MapsPoints):
        return candidate.map
    return candidate if callable(candidate) else None


def mapped_points(name: str, candidate: Any, points: Floats) -> Floats:
    """Values of a candidate at points; NaN rows where it is not defined."""
    function = function_of(candidate)
    # A copy, since a function that works in place must not change the caller's points.
    values = candidate if function is None else function(points.copy())
    try:
        array = np.asarray(object() if values is None else values, dtype=np.float64)  # NumPy takes None for NaN
    except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's, for tensors with a gradient
        what = "an object" if function is None else "a function that returns an object"
        raise InvalidInputError(
            f"Transform {name!r} is {what} of type {type(values).__name__}, which cannot be taken as points; give a "
            "path, a function of points, a transform, or what warpgauge.as_transform makes of an array or tensor."
        ) from error
    if array.shape != points.shape:
        field = (
            ""
            if function
            else (
                "; an array given as it is holds mapped targets, and a field goes through "
                "warpgauge.as_transform(array, convention=..., grid=...)"
            )
        )
        raise InvalidInputError(
            f"Transform {name!r} must give an array of shape {points.shape} for the targets, got {array.shape}{field}."
        )
    return array


class Remembered:
    """A transform that remembers what it mapped: variations of a model ask for the same points many times."""

    def __init__(self, name: str, candidate: Any) -> None:
        self.name, self.candidate = name, candidate
        self._known: dict[bytes, Floats] = {}

    def map(self, points_world: Floats) -> Floats:
        """Map points, each only once."""
        keys = [point.tobytes() for point in points_world + 0.0]
        new = [row for row, key in enumerate(keys) if key not in self._known]
        if new:
            for row, value in zip(new, mapped_points(self.name, self.candidate, points_world[new]), strict=True):
                self._known[keys[row]] = value
        return np.array([self._known[key] for key in keys]).reshape(points_world.shape)


def landmark_values(name: str, candidate: Any, points: Floats, at_targets: Floats, fixed: Floats) -> Floats | None:
    """Values at the annotated points; for an array of mapped targets only where they are among the targets."""
    if function_of(candidate) is not None:
        return mapped_points(name, candidate, fixed)
    rows = {point.tobytes(): row for row, point in enumerate(points + 0.0)}
    found = [rows.get(point.tobytes()) for point in fixed + 0.0]
    if any(row is None for row in found):
        return None
    return np.asarray(at_targets[[row for row in found if row is not None]])


@dataclass(frozen=True, eq=False)
class Comparable:
    """Transforms at the targets that all of them map.

    Attributes
    ----------
    points : (n, d) array
        The targets kept.
    mapped : (K, n, d) array
    outside : (K,) array
        Share of all targets outside each one's domain.
    excluded : int
        Number of targets left out.
    landmark_lengths : list of arrays
        Classical errors at the annotated points inside each one's domain; None where the values there are not known.
    """

    points: Floats
    mapped: Floats
    outside: Floats
    excluded: int
    landmark_lengths: list[Floats | None]

    def part(self, most: int, seed: int | Sequence[int]) -> tuple[Floats, Floats]:
        """Return the targets and their images, or a random part of at most so many."""
        rows = thinned_rows(len(self.points), most, seed)
        return self.points[rows], self.mapped[:, rows]


def comparable(truth: Truth, transforms: Mapping[str, Any], targets: ArrayLike) -> Comparable:
    """Map the targets by every transform and keep those that all map, so that all are compared on the same points."""
    points = as_points(targets, "targets", truth.d)
    if not transforms or len(points) == 0:
        raise InvalidInputError("evaluate needs at least one transform and one target.")
    every = np.stack([mapped_points(name, one, points) for name, one in transforms.items()])
    undefined: NDArray[np.bool_] = np.asarray(~np.isfinite(every).all(axis=2))
    kept = ~undefined.any(axis=0)
    if not kept.any():
        raise InvalidInputError("No target lies within the domain of all transforms; check their frames and units.")
    lengths = [
        _landmark_lengths(truth, landmark_values(name, one, points, values, truth.annotations.fixed_points))
        for (name, one), values in zip(transforms.items(), every, strict=True)
    ]
    return Comparable(points[kept], every[:, kept], undefined.mean(axis=1), int((~kept).sum()), lengths)


def _landmark_lengths(truth: Truth, values: Floats | None) -> Floats | None:
    if values is None:
        return None
    lengths = np.linalg.norm(values - truth.annotations.moving_points, axis=1)
    defined = np.asarray(lengths[np.isfinite(lengths)])
    return defined if len(defined) else None


def landmark_table(annotations: Annotations, transforms: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per annotation and transform.

    Columns: ``annotation`` (from 1), ``transform``, ``fixed_x`` ..., ``moving_x`` ... (the expert's match), ``sd``
    (root mean variance that the expert stated), ``mapped_x`` ... (where the transform puts the point), ``error`` (its
    distance from the match) and ``error_in_sd``. World units; NaN where a transform is undefined.
    """
    axes = "xyz"[: annotations.d]
    sd = np.sqrt(np.trace(annotations.covariances, axis1=1, axis2=2) / annotations.d)
    rows = []
    for name, transform in converted(transforms).items():
        mapped = mapped_points(name, transform, annotations.fixed_points)
        errors = np.linalg.norm(mapped - annotations.moving_points, axis=1)
        for at in range(len(annotations)):
            row: dict[str, Any] = {"annotation": at + 1, "transform": name}
            for kind, points in (
                ("fixed", annotations.fixed_points),
                ("moving", annotations.moving_points),
                ("mapped", mapped),
            ):
                row |= {f"{kind}_{axis}": float(value) for axis, value in zip(axes, points[at], strict=True)}
            row |= {"sd": float(sd[at]), "error": float(errors[at]), "error_in_sd": float(errors[at] / sd[at])}
            rows.append(row)
    return rows


# Transforms nearer to each other than this share of the smallest landmark error share one weight.
_ALIKE = 0.2
# A transform nearer to another than this share of the smallest landmark error is a copy of it.
_COPY = 0.05
# Differences and disagreements below this share of the typical one count as that much.
_FLOOR = 0.1
# An error at the annotations below this share of their noise counts as that much.
_NOISE_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class CandidateValues:
    """What the candidates say at points.

    Attributes
    ----------
    median : (n, d) array
        Weighted componentwise median.
    directions : (n, d, K) array
        Differences from the median, each scaled to unit size at the annotations and by the root of its weight.
    disagreement : (n,) array
        Weighted median distance from the median, 1 where it is typical and never far below.
    affine : (n, d + 1) array
        1 and the coordinates, standardised by the annotations'; of unit size there together.
    """

    median: Floats
    directions: Floats
    disagreement: Floats
    affine: Floats

    def __getitem__(self, rows: Any) -> CandidateValues:
        """Return the values at some of the points."""
        return CandidateValues(self.median[rows], self.directions[rows], self.disagreement[rows], self.affine[rows])


class CandidateSet:
    """Transforms that may be near the truth, weighted so that those alike do not outvote the others.

    Of copies only the first is kept. The weight of a transform is one over its root mean square error at the
    annotations, shared with the transforms that are like it there. Where a transform is not defined the others decide,
    and where none is the posterior's mean stands in.

    Parameters
    ----------
    transforms : mapping of name to transform
        Objects with ``map``, or callables: mapped targets alone do not say what happens at the annotations.
    posterior : Posterior
        Brings the annotations.
    """

    def __init__(self, transforms: Mapping[str, Any], posterior: Posterior) -> None:
        if not transforms or any(function_of(one) is None for one in transforms.values()):
            raise InvalidInputError(
                "Judging transforms against each other needs transforms that can be evaluated anywhere: objects with "
                "map, or callables; mapped targets alone do not say what happens at the annotations."
            )
        self.transforms, self.fallback = dict(transforms), posterior
        given = posterior.annotations
        every = self._mapped(given.fixed_points)
        first = _without_copies(every, _COPY * float(_errors(every, given).min()))
        names = list(transforms)
        self.transforms, every = {names[k]: transforms[names[k]] for k in first}, every[first]
        self.weights = _weights(every, given)
        median = _filled(every, self.weights)[1]
        differences = np.where(np.isnan(every), 0.0, every - median)
        sizes = np.sqrt(np.mean(np.square(differences), axis=(1, 2)))
        least = _FLOOR * float(weighted_median(sizes[:, None], self.weights)[0])
        shares = np.sqrt(self.weights / self.weights.sum())
        self._scales = shares / np.where(np.maximum(sizes, least) > 0, np.maximum(sizes, least), 1.0)
        apart = weighted_median(np.linalg.norm(differences, axis=2), self.weights)
        self._typical = float(np.sqrt(np.mean(np.square(apart))))

    def _mapped(self, points: Floats) -> Floats:
        """Values (K, n, d); NaN where not defined, the fallback where none is."""
        mapped = np.stack([mapped_points(name, one, points) for name, one in self.transforms.items()])
        mapped[~np.isfinite(mapped).all(axis=2)] = np.nan
        nowhere = np.isnan(mapped[:, :, 0]).all(axis=0)
        if nowhere.any():
            mapped[:, nowhere] = self.fallback.mean(points[nowhere])
        return mapped

    def at(self, points: Floats) -> CandidateValues:
        """Return what the candidates say at (n, d) points."""
        every, median = _filled(self._mapped(points), self.weights)
        differences = every - median
        directions = (differences * self._scales[:, None, None]).transpose(1, 2, 0)
        apart = weighted_median(np.linalg.norm(differences, axis=2), self.weights)
        if self._typical == 0:
            return CandidateValues(median, directions, np.ones(len(points)), self._affine(points))
        relative = (np.square(apart / self._typical) + _FLOOR**2) / (1 + _FLOOR**2)
        return CandidateValues(median, directions, np.asarray(np.sqrt(relative)), self._affine(points))

    def _affine(self, points: Floats) -> Floats:
        known = self.fallback.annotations.fixed_points
        size = float(np.sqrt(np.mean(np.square(known - known.mean(axis=0))))) or 1.0
        basis = np.column_stack([np.ones(len(points)), (points - known.mean(axis=0)) / size])
        return np.asarray(basis / np.sqrt(basis.shape[1]))


def _errors(every: Floats, given: Annotations) -> Floats:
    """Root mean square errors of (K, L, d) values at the annotations, where each is defined; not far below the noise.

    A transform that is defined at no annotation has nothing that speaks for it: its error is infinite.
    """
    squares = np.square(every - given.moving_points).sum(axis=2)
    known = ~np.isnan(squares)
    noise = float(np.mean(np.trace(given.covariances, axis1=1, axis2=2)))
    mean = np.where(known, squares, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.where(known.any(axis=1), np.sqrt(np.maximum(mean, _NOISE_SHARE * noise)), np.inf)


def _weights(every: Floats, given: Annotations) -> Floats:
    """Weights from (K, L, d) values at the annotations."""
    errors = _errors(every, given)
    unit = _ALIKE * float(errors.min())
    if not np.isfinite(unit):
        return np.ones(len(every))
    alike = np.exp(-0.5 * np.square(_distances(every) / unit))
    return np.asarray(errors.min() / errors / alike.sum(axis=1))


def _without_copies(every: Floats, limit: float) -> list[int]:
    """Return the rows of (K, L, d) values that lie farther than the limit from every row kept before."""
    apart = _distances(every)
    kept: list[int] = []
    for row in range(len(every)):
        if not any(apart[row, other] < limit < np.inf for other in kept):
            kept.append(row)
    return kept


def _distances(every: Floats) -> Floats:
    """Root mean square distances (K, K) of (K, L, d) values; infinite where no place is common to two of them."""
    apart = np.full((len(every), len(every)), np.inf)
    for k, one in enumerate(every):
        squares = np.square(every - one).sum(axis=2)
        both = ~np.isnan(squares)
        mean = np.where(both, squares, 0.0).sum(axis=1) / np.maximum(both.sum(axis=1), 1)
        apart[k, both.any(axis=1)] = np.sqrt(mean[both.any(axis=1)])
    np.fill_diagonal(apart, 0.0)
    return apart


def _filled(every: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Replace what is not defined by the weighted median of what is; return both."""
    median = weighted_median(every, weights)
    return np.where(np.isnan(every), median, every), median


def weighted_median(values: Floats, weights: Floats) -> Floats:
    """Median over the first axis of (K, ...) values with a weight each; NaN counts nothing."""
    shares = np.broadcast_to(weights.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
    shares = np.where(np.isnan(values), 0.0, shares)
    order = np.argsort(values, axis=0)  # NaN last
    ordered = np.take_along_axis(values, order, axis=0)
    below = np.cumsum(np.take_along_axis(shares, order, axis=0), axis=0)
    below /= below[-1]
    # The middle of the two values about half the weight, as the usual median of an even number.
    low = np.take_along_axis(ordered, np.argmax(below >= 0.5 - 1e-12, axis=0)[None], axis=0)[0]
    high = np.take_along_axis(ordered, np.argmax(below > 0.5 + 1e-12, axis=0)[None], axis=0)[0]
    return np.asarray((low + high) / 2)
