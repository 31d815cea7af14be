"""`check_transform`: compare a transform with landmarks as given, and under the usual misreadings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from warpgauge.errors import InvalidInputError, Message, SuspiciousDataWarning, WarpgaugeError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field_meaning import AmbiguousFieldError, Meaning
from warpgauge.io.transforms.reader import read_transform

AS_GIVEN = "as given"
NO_TRANSFORM = "no transform"
# Ratios of resolutions that are usual between an image and the one that a transform was made for.
_SCALES = (0.1, 0.125, 0.2, 0.25, 0.5, 2.0, 4.0, 5.0, 8.0, 10.0)
_RATIO = 2 / 3  # another reading is clearly better below this share of the mean error as given ...
_STANDARD_ERRORS = 3  # ... if the paired gain is also this many standard errors
_COVERAGE = 0.9  # ... and it maps at least this share of the points that the reading as given maps

_Prediction = tuple[Floats, Floats]  # predicted and true points
_Readings = Iterator[tuple[str, Callable[[], _Prediction]]]


@dataclass(frozen=True)
class Reading:
    """Mean error of the landmarks under one reading of a transform.

    Parameters
    ----------
    name : str
        The reading.
    mean_error : float
        Mean distance in world units over the mapped landmarks; NaN where none was mapped.
    count, outside : int
        Landmarks that were mapped, and that were not.
    """

    name: str
    mean_error: float
    count: int
    outside: int


@dataclass(frozen=True)
class TransformCheck:
    """Result of `check_transform`.

    Parameters
    ----------
    readings : tuple of Reading
        The reading as given first, then no transform, then the misreadings.
    better : tuple of str
        Names of the misreadings that fit clearly better, best first.
    message : str
        The finding in one sentence.
    units : str
        Of the errors.
    """

    readings: tuple[Reading, ...]
    better: tuple[str, ...]
    message: str
    units: str

    @property
    def as_given(self) -> Reading:
        """The reading as given."""
        return self.readings[0]

    @property
    def worse_than_nothing(self) -> bool:
        """Whether the mean error as given is larger than that of no transform at all."""
        return bool(self.as_given.mean_error > self.readings[1].mean_error)

    @property
    def suspicious(self) -> bool:
        """Whether another reading is clearly better."""
        return bool(self.better)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a mean over no points is None."""
        plain = asdict(self)
        plain["better"] = list(self.better)
        plain["readings"] = [asdict(reading) for reading in self.readings]
        for reading in plain["readings"]:
            if np.isnan(reading["mean_error"]):
                reading["mean_error"] = None
        return plain


def check_transform(
    transform: Transform, landmarks: Any, *, reference: Grid | None = None, moving: Grid | None = None
) -> TransformCheck:
    """Compare a transform with landmarks, as given and under the usual misreadings.

    Warns with a `SuspiciousDataWarning` where a misreading fits clearly better: its mean error is less than two thirds
    of that as given, by more than three standard errors, and below that of no transform at all; or, where none does,
    where the transform is worse than no transform at all.

    Parameters
    ----------
    transform : Transform
        As `read_transform` gives it.
    landmarks : object
        With ``fixed_points`` and ``moving_points``, or a pair of (n, d) arrays; rows marked inactive are left out.
    reference, moving : Grid, optional
        Grids of the fixed and the moving image, for the readings that take voxels for world units; the grid of a field
        is used where no reference is given.
    """
    fixed, true = _landmarks(landmarks, transform.d)
    errors: dict[str, Floats] = {}
    for name, predict in _readings(transform, fixed, true, reference or transform.support, moving):
        try:
            predicted, target = predict()
        except InvalidInputError:  # for instance a transform without an inverse
            predicted = target = np.full(fixed.shape, np.nan)
        errors[name] = np.asarray(np.linalg.norm(predicted - target, axis=1))
    better = sorted(
        (name for name in errors if _clearly_better(errors, name)), key=lambda name: float(np.nanmean(errors[name]))
    )
    units = transform.description.units
    readings = tuple(_summary(name, values) for name, values in errors.items())
    message = _message(errors, better, units, transform.description.source or "The transform")
    found = TransformCheck(readings, tuple(better), message, units)
    if found.suspicious or found.worse_than_nothing:
        warnings.warn(message, SuspiciousDataWarning, stacklevel=2)
    return found


def tried_meanings(
    source: Any, error: AmbiguousFieldError, landmarks: Any, *, reference: Grid, moving: Grid, **options: Any
) -> AmbiguousFieldError:
    """Return an error about an ambiguous field that also says what each of its readings does to landmarks.

    Parameters
    ----------
    source : path or list of paths
        What was refused.
    error : AmbiguousFieldError
        Why.
    landmarks : object
        As in `check_transform`.
    reference, moving : Grid
        Of the fixed and the moving image.
    **options
        Of `read_transform`, as given by the caller.
    """
    found: list[tuple[float, Meaning]] = []
    nothing = float("nan")
    for meaning in error.meanings:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SuspiciousDataWarning)
                told = {**options, **meaning.options}
                transform = read_transform(source, reference=reference, moving=moving, **told)
        except WarpgaugeError:
            continue
        fixed, true = _landmarks(landmarks, transform.d)
        errors = np.linalg.norm(transform.map(fixed) - true, axis=1)
        nothing = float(np.linalg.norm(fixed - true, axis=1).mean())
        if np.isfinite(errors).mean() >= _COVERAGE:
            found.append((float(np.nanmean(errors)), meaning))
    if not found:
        return error
    found.sort(key=lambda one: one[0])
    shown = "; ".join(f"{size:.3g} {reference.units} as {meaning}" for size, meaning in found[:3])
    text = f"{Message(error.args[0]).marked.rstrip('.')}. The mean error at the landmarks is {shown}"
    return AmbiguousFieldError(f"{text}, and {nothing:.3g} {reference.units} without any transform.", error.meanings)


def share_outside(transform: Transform, points_world: Floats, moving: Grid) -> float:
    """Return the share of fixed points that are mapped outside the moving image, or not mapped at all."""
    mapped = transform.map(points_world)
    known = np.flatnonzero(np.isfinite(mapped).all(axis=1))
    inside = int(np.count_nonzero(moving.contains(mapped[known])))
    return 1 - inside / len(mapped) if len(mapped) else 0.0


def _landmarks(landmarks: Any, d: int) -> tuple[Floats, Floats]:
    active = None
    if isinstance(landmarks, tuple | list) and len(landmarks) == 2:
        pair = tuple(landmarks)
    elif hasattr(landmarks, "fixed_points") and hasattr(landmarks, "moving_points"):
        pair = (landmarks.fixed_points, landmarks.moving_points)
        active = getattr(landmarks, "active", None)
    else:
        raise InvalidInputError(
            f"Landmarks need fixed_points and moving_points, or must be a pair of arrays, got "
            f"{type(landmarks).__name__}."
        )
    if any(side is None for side in pair):
        raise InvalidInputError("check_transform needs fixed and moving landmarks, but one side is missing.")
    fixed, moving = (np.asarray(side, dtype=np.float64) for side in pair)
    if fixed.shape != moving.shape or fixed.ndim != 2 or fixed.shape[1] != d or not len(fixed):
        raise InvalidInputError(
            f"check_transform needs as many fixed as moving landmarks in {d}D, got shapes {fixed.shape} and "
            f"{moving.shape}."
        )
    kept = np.isfinite(fixed).all(axis=1) & np.isfinite(moving).all(axis=1)
    if active is not None:
        kept &= np.asarray(active, dtype=np.bool_)
    if not kept.any():
        raise InvalidInputError("check_transform needs at least one landmark pair that is finite and active.")
    return fixed[kept], moving[kept]


def _readings(t: Transform, fixed: Floats, true: Floats, grid: Grid | None, moving: Grid | None) -> _Readings:
    """List the readings: a name, and how to predict under it."""
    mapped = t.map(fixed)
    shift = mapped - fixed
    signs = np.array([-1.0, -1.0, 1.0])[: t.d]
    yield AS_GIVEN, lambda: (mapped, true)
    yield NO_TRANSFORM, lambda: (fixed, true)
    yield "inverse", lambda: (t.inverse().map(fixed), true)
    yield "fixed and moving landmarks swapped", lambda: (t.map(true), fixed)
    yield "LPS/RAS flip of points", lambda: (t.map(fixed * signs) * signs, true)
    yield "LPS/RAS flip of displacements", lambda: (fixed + shift * signs, true)
    yield "axes of points reversed", lambda: (t.map(fixed[:, ::-1])[:, ::-1], true)
    yield "axes of displacements reversed", lambda: (fixed + shift[:, ::-1], true)
    yield "displacements negated", lambda: (fixed - shift, true)
    yield "positions for displacements", lambda: (shift, true)
    yield "displacements for positions", lambda: (fixed + mapped, true)
    if grid is not None:
        scale = grid.direction * grid.spacing
        yield "displacements in voxels for world units", lambda: (fixed + shift @ scale.T, true)
        yield "displacements in world units for voxels", lambda: (fixed + shift @ np.linalg.inv(scale).T, true)
    if grid is not None and moving is not None:
        yield (
            "points in voxels for world units",
            lambda: (moving.index_to_world(t.map(grid.world_to_index(fixed))), true),
        )
    own = t.support
    if own is not None and grid is not None and not np.allclose(own.spacing, grid.spacing):
        nodes = own.direction * own.spacing
        yield "displacements in voxels of the field for world units", lambda: (fixed + shift @ nodes.T, true)
    for axis, letter in enumerate("xyz"[: t.d]):
        yield f"displacements along {letter} negated", partial(_components, fixed, shift, true, _flip(t.d, axis))
    for order in list(permutations(range(t.d)))[1:-1]:  # the last is the reversed one
        words = f"displacements in the order {', '.join('xyz'[at] for at in np.argsort(order))}"
        yield words, partial(_components, fixed, shift, true, np.eye(t.d)[list(order)])
    if own is not None:
        yield from _elsewhere(t, fixed, true, own, grid)
    # Still smaller ones come near to no transform.
    for factor in (*(one for one in _SCALES if one >= 0.5), 1000.0):
        yield f"displacements times {factor:g}", partial(_components, fixed, shift, true, factor * np.eye(t.d))
    for factor in _SCALES:
        name = Message(f"coordinates times {factor:g} ({say('scale', factor)})")
        yield name, partial(_at_scale, t, fixed, true, factor)
    if isinstance(t, Chain) and len(t.transforms) > 1:
        yield "order of the chain reversed", lambda: (t.reversed_order().map(fixed), true)


def _elsewhere(t: Transform, fixed: Floats, true: Floats, own: Grid, grid: Grid | None) -> _Readings:
    """List the readings that take displacements from another node: flipped nodes, and a field at another place."""
    index = own.world_to_index(fixed)
    for axis, letter in enumerate("xyz"[: t.d]):
        other = index.copy()
        other[:, axis] = own.size[axis] - 1 - other[:, axis]
        places, turned = own.index_to_world(other), own.direction @ _flip(t.d, axis) @ own.direction.T
        yield f"nodes counted from the other end of {letter}", partial(_taken, t, fixed, places, true, np.eye(t.d))
        yield f"the field flipped along {letter}", partial(_taken, t, fixed, places, true, turned)
    if grid is not None:
        share = (grid.world_to_index(fixed) + 0.5) / np.asarray(grid.size)
        places = own.index_to_world(share * np.asarray(own.size) - 0.5)
        yield "the field laid over the whole fixed image", partial(_taken, t, fixed, places, true, np.eye(t.d))


def _flip(d: int, axis: int) -> Floats:
    return np.diag(np.where(np.arange(d) == axis, -1.0, 1.0))


def _taken(t: Transform, fixed: Floats, places: Floats, true: Floats, turned: Floats) -> _Prediction:
    return fixed + (t.map(places) - places) @ turned.T, true


def _components(fixed: Floats, shift: Floats, true: Floats, matrix: Floats) -> _Prediction:
    return fixed + shift @ matrix.T, true


def _at_scale(t: Transform, fixed: Floats, true: Floats, scale: float) -> _Prediction:
    return t.map(fixed / scale) * scale, true


def _clearly_better(errors: dict[str, Floats], name: str) -> bool:
    if name in (AS_GIVEN, NO_TRANSFORM):
        return False
    given, nothing, other = errors[AS_GIVEN], errors[NO_TRANSFORM], errors[name]
    mapped, by_other = np.isfinite(given), np.isfinite(other)
    if (
        not mapped.any()
    ):  # as given it maps nothing: any reading that maps most points, and brings them nearer, is better
        return bool(by_other.mean() >= _COVERAGE and other[by_other].mean() < _RATIO * nothing[by_other].mean())
    both = mapped & by_other
    if both.sum() < max(1, _COVERAGE * mapped.sum()):
        return False
    gain = given[both] - other[both]
    if len(gain) > 1 and not gain.mean() > _STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(len(gain)):
        return False
    return bool(other[both].mean() < min(_RATIO * given[both].mean(), nothing[both].mean()))


def _summary(name: str, errors: Floats) -> Reading:
    mapped = np.isfinite(errors)
    mean = float(errors[mapped].mean()) if mapped.any() else float("nan")
    return Reading(name, mean, int(mapped.sum()), int((~mapped).sum()))


def _message(errors: dict[str, Floats], better: list[str], units: str, source: str) -> str:
    unit = "" if units == "unstated" else f" {units}"
    given, nothing = _summary(AS_GIVEN, errors[AS_GIVEN]), _summary(NO_TRANSFORM, errors[NO_TRANSFORM])
    text = f"{source}: the mean landmark error is {given.mean_error:.3g}{unit} at {given.count} points as given"
    if given.outside:
        text += f" ({given.outside} outside its domain)"
    text += f" and {nothing.mean_error:.3g}{unit} without any transform"
    if better:
        found = [_summary(name, errors[name]) for name in better[:3]]
        listed = " or ".join(
            f"{reading.mean_error:.3g}{unit} if read as '{Message(reading.name).marked}'" for reading in found
        )
        text += f", but {listed}; check how the file is meant"
    elif given.mean_error > nothing.mean_error:
        text += ", so it makes things worse; check that it belongs to these images, and its direction, units and scale"
    return Message(text + ".")
