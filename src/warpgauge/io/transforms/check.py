"""`check_transform`: compare a transform with landmarks as given, and under the usual misreadings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np

from warpgauge.errors import (
    InvalidInputError,
    Message,
    SuspiciousDataWarning,
    WarpgaugeError,
    say,
    warn_suspicious,
)
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field_meaning import AmbiguousFieldError, Meaning
from warpgauge.io.transforms.ome_field import LargeField
from warpgauge.io.transforms.reader import read_transform

AS_GIVEN = "as given"
NO_TRANSFORM = "no transform"
# Ratios of resolutions that are usual between an image and the one that a transform was made for.
_SCALES = (0.1, 0.125, 0.2, 0.25, 0.5, 2.0, 4.0, 5.0, 8.0, 10.0)
_RATIO = 2 / 3  # another reading is clearly better below this share of the mean error as given ...
_STANDARD_ERRORS = 3  # ... if the paired gain is also this many standard errors
_COVERAGE = 0.9  # ... and it maps at least this share of the points that the reading as given maps
# What a file has lost is fitted where there are so many landmarks for each number in a row of an affine transform.
_LANDMARKS = 4
# Chosen on fields of DIR-Lab's 4DCT and of CIMA's lung-lesion_1: a moved field needs this share of the error, and of a
# lost part the transform has less than this share.
_MOVED_RATIO = 0.5
_LITTLE = 0.5
_ADDS = 0.9  # and what is left of the error without the transform, beside the lost part, is below this share
_FIRST_MOVE = 0.05  # share of the field by which the search for its place begins

_Readings = Iterator[tuple[str, Floats]]  # names, and predicted less true points


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
    grid = reference or transform.support
    errors = _errors(_readings(transform, fixed, true, grid, moving))
    better = [name for name in errors if _clearly_better(errors, name)]
    field, after = _field(transform)
    if field is not None and len(fixed) > 1:
        other = _errors(_elsewhere(field, after, fixed, true, grid))
        errors |= other
        # A constant is the same at all nodes: a reading that errs more has found nothing.
        alone = _crossed(_mean, np.add, fixed, true)
        better += [name for name in other if _clearly_better(errors, name) and np.nanmean(other[name] - alone) < 0]
    better = better or list(_lost(transform, fixed, true, errors))
    means = {name: float(np.nanmean(errors[name])) for name in better}
    better = sorted((name for name in means if means[name] <= min(means.values()) / _RATIO), key=means.__getitem__)
    units = transform.description.units
    readings = tuple(_summary(name, values) for name, values in errors.items())
    message = _message(errors, better, units, transform.description.source or "The transform")
    found = TransformCheck(readings, tuple(better), message, units)
    if found.suspicious or found.worse_than_nothing:
        warn_suspicious(message)
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
    """List the readings: a name, and how far each lands from the landmarks; NaN where it does not map."""
    mapped = t.map(fixed)
    shift, apart = mapped - fixed, true - fixed
    signs = np.array([-1.0, -1.0, 1.0])[: t.d]
    yield AS_GIVEN, mapped - true
    yield NO_TRANSFORM, -apart
    try:
        yield "inverse", t.inverse().map(fixed) - true
    except InvalidInputError:  # it has none
        yield "inverse", np.full(fixed.shape, np.nan)
    yield "fixed and moving landmarks swapped", t.map(true) - fixed
    yield "LPS/RAS flip of points", t.map(fixed * signs) * signs - true
    yield "axes of points reversed", t.map(fixed[:, ::-1])[:, ::-1] - true
    for turn in _turns(t.d):
        yield _turned_displacements(turn), shift @ turn.T - apart
    yield "positions for displacements", shift - true
    yield "displacements for positions", mapped - apart
    if grid is not None:
        scale = grid.direction * grid.spacing
        yield "displacements in voxels for world units", shift @ scale.T - apart
        yield "displacements in world units for voxels", shift @ np.linalg.inv(scale).T - apart
    if grid is not None and moving is not None:
        yield "points in voxels for world units", moving.index_to_world(t.map(grid.world_to_index(fixed))) - true
    own = t.support
    if own is not None and grid is not None and not np.allclose(own.spacing, grid.spacing):
        nodes = own.direction * own.spacing
        yield "displacements in voxels of the field for world units", shift @ nodes.T - apart
    # Still smaller ones come near to no transform.
    for factor in (*(one for one in _SCALES if one >= 0.5), 1000.0):
        yield f"displacements times {factor:g}", factor * shift - apart
    for factor in _SCALES:
        yield Message(f"coordinates times {factor:g} ({say('scale', factor)})"), t.map(fixed / factor) * factor - true
    if isinstance(t, Chain) and len(t.transforms) > 1:
        yield "order of the chain reversed", t.reversed_order().map(fixed) - true


def _errors(readings: _Readings) -> dict[str, Floats]:
    return {name: np.asarray(np.linalg.norm(apart, axis=1)) for name, apart in readings}


def _turns(d: int) -> list[Floats]:
    """Return the matrices that exchange axes or reverse their sense, without the one that does neither."""
    signs = list(product((1.0, -1.0), repeat=d))
    return [np.diag(sign)[list(order)] for order in permutations(range(d)) for sign in signs][1:]


def _axes(turn: Floats) -> str:
    """Name the rows of a turn: ``y, -x`` has the second axis first, and the first backwards."""
    return ", ".join(f"{'-' * bool(row.min() < 0)}{'xyz'[int(np.abs(row).argmax())]}" for row in turn)


def _turned_displacements(turn: Floats) -> str:
    d = len(turn)
    usual = {
        "displacements negated": -np.eye(d),
        "LPS/RAS flip of displacements": np.diag([-1.0, -1.0, 1.0][:d]),
        "axes of displacements reversed": np.eye(d)[::-1],
    }
    words = f"displacements along {_axes(turn.T)}"
    return next((name for name, one in usual.items() if np.array_equal(one, turn)), words)


def _field(t: Transform) -> tuple[Transform | None, Sequence[Transform]]:
    """Return the field that a transform begins with, if it does and if it is in memory, and what comes after it."""
    first, *after = t.transforms if isinstance(t, Chain) else [t]
    return (None if first.support is None or isinstance(first, LargeField) else first), after


def _elsewhere(
    field: Transform, after: Sequence[Transform], fixed: Floats, true: Floats, grid: Grid | None
) -> _Readings:
    """List the readings that take displacements from other nodes: axes of the array exchanged or counted backwards.

    The nodes are taken to span what they span as given, and the fixed image.
    """
    own, still = field.support, np.eye(field.d)
    assert own is not None

    def taken(share: Floats, turned: Floats) -> Floats:
        places = own.index_to_world((share + 0.5) * own.size - 0.5)
        predicted = fixed + (field.map(places) - places) @ turned.T
        for one in after:
            predicted = one.map(predicted)
        return np.asarray(predicted - true)

    frames = {"": own, " laid over the whole fixed image": grid or own}
    shares = {words: (frame.world_to_index(fixed) + 0.5) / frame.size - 0.5 for words, frame in frames.items()}
    for words, share in shares.items():
        if words and np.allclose(share, shares[""], atol=1e-3):
            continue
        if words:
            yield f"the field{words}", taken(share, still)
        for turn in _turns(field.d):
            yield f"nodes along {_axes(turn)}{words}", taken(share @ turn.T, still)
            turned = own.direction @ turn.T @ own.direction.T
            yield f"nodes and displacements along {_axes(turn)}{words}", taken(share @ turn.T, turned)


def _lost(t: Transform, fixed: Floats, true: Floats, errors: dict[str, Floats]) -> Iterator[str]:
    """Find what a transform has lost that landmarks can tell: a constant, its affine part, its place; add the errors.

    Each is fitted to every other landmark, and its errors are those at the others. It counts only where the transform
    adds to it, since landmarks alone improve a registration that does nothing, and a constant or an affine part only
    where the transform has little of it: one that moves things half as far as it should has not lost anything.
    """
    mapped = t.map(fixed)
    known = np.isfinite(mapped).all(axis=1)
    if np.count_nonzero(known) < _LANDMARKS * (t.d + 1):
        return
    mapped, start, end = mapped[known], fixed[known], true[known]

    def counts(name: str, found: Floats, alone: Floats, ratio: float = _RATIO) -> bool:
        errors[name] = np.full(len(fixed), np.nan)
        errors[name][known] = found
        adds = _surely_lower(found, alone) and found.mean() < _ADDS * alone.mean()
        return _clearly_better(errors, name, ratio) and bool(adds)

    for words, fit, apply in (("a lost displacement of {}", _mean, np.add), ("a lost affine part", _affine, _applied)):
        missing, there = apply(mapped, fit(mapped, end)) - mapped, apply(start, fit(start, mapped)) - start
        name = words.format(_tuple(missing.mean(axis=0)))
        little = np.linalg.norm(there) < _LITTLE * np.linalg.norm(missing)
        if counts(name, _crossed(fit, apply, mapped, end), _crossed(fit, apply, start, end)) and little:
            yield name
    if _field(t)[0] is t:
        place, moved = partial(_place, t), partial(_moved, t)
        name = f"the field moved by {_tuple(place(start, end))}"
        if counts(name, _crossed(place, moved, start, end), _crossed(_mean, np.add, start, end), _MOVED_RATIO):
            yield name


def _crossed(
    fit: Callable[[Floats, Floats], Floats], apply: Callable[[Floats, Floats], Floats], points: Floats, true: Floats
) -> Floats:
    """Return the errors at each half of the landmarks after a fit to the other half."""
    errors, odd = np.empty(len(points)), np.arange(len(points)) % 2 == 1
    for half in (odd, ~odd):
        errors[half] = np.linalg.norm(apply(points[half], fit(points[~half], true[~half])) - true[half], axis=1)
    return errors


def _tuple(values: Floats) -> str:
    return f"({', '.join(f'{one:.3g}' for one in values)})"


def _mean(points: Floats, true: Floats) -> Floats:
    return np.asarray((true - points).mean(axis=0))


def _affine(points: Floats, true: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(np.column_stack([points, np.ones(len(points))]), true, rcond=None)[0], np.float64)


def _applied(points: Floats, affine: Floats) -> Floats:
    return np.asarray(points @ affine[:-1] + affine[-1])


def _place(t: Transform, points: Floats, true: Floats) -> Floats:
    """Return by how much a field has to be moved to fit best."""
    from scipy.optimize import minimize

    assert t.support is not None
    first = np.vstack([np.zeros(t.d), np.diag(_FIRST_MOVE * t.support.extent)])

    def error(move: Floats) -> float:
        return float(np.nan_to_num(np.linalg.norm(_moved(t, points, move) - true, axis=1).mean(), nan=np.inf))

    exact = {"xatol": 0.01 * t.support.pixel, "fatol": np.inf}
    return np.asarray(minimize(error, first[0], method="Nelder-Mead", options={"initial_simplex": first, **exact}).x)


def _moved(t: Transform, points: Floats, move: Floats) -> Floats:
    places = points - move
    return np.asarray(points + t._extended(places) - places)


def _clearly_better(errors: dict[str, Floats], name: str, ratio: float = _RATIO) -> bool:
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
    if not _surely_lower(other[both], given[both]):
        return False
    return bool(other[both].mean() < min(ratio * given[both].mean(), nothing[both].mean()))


def _surely_lower(errors: Floats, than: Floats) -> bool:
    """Return whether paired errors are lower by several standard errors."""
    gain = than - errors
    return len(gain) < 2 or bool(gain.mean() > _STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(len(gain)))


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
