"""Another reading of landmarks and a transform that fits far better: the one list of misreadings, and the one rule.

Each `Reading` changes the fixed points, the moving points or the map, and so mends one usual misreading.
`judge_reading` compares the errors at the landmarks as given with those under every reading, and names one only where
it explains most of the error before registration, which a bad registration does not. Importing landmarks, adding a
transform, the verdict and ``warpgauge tre`` all come here; nothing is ever changed by it. What cannot be told apart
stands in ``docs/tre.md`` with the measured rates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from warpgauge.errors import InvalidInputError, SuspiciousDataWarning, WarpgaugeError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import AmbiguousFieldError, Chain, Transform, read_transform
from warpgauge.io.transforms.formats import TABLE
from warpgauge.io.transforms.meaning import DISPLACEMENT, Meaning
from warpgauge.io.transforms.transform import OTHER_WAY

Map = Callable[[Floats], Floats]

RATIO = 0.62  # another reading leaves less than this share of the error as given ...
SHIFT_RATIO = 0.75  # ... (a shift by a voxel: less than this)
STANDARD_ERRORS = 3.0  # ... by this many standard errors of the paired gain
STRENGTH, RIVAL = 3.0, 0.85  # ... and of what the given displacements leave at their best strength, 1/3 to 3
ALONE, FEW_ALONE, FEW = 0.1, 0.05, 12  # and the d-th root of this share of the error before (few landmarks: the second)
WITH_SHAPE, SHAPE = 0.3, 0.66  # or of this share, where what is not constant falls to two thirds as well
GROSS, NEAR = 0.2, 2.0  # gross misreadings: a fifth of the given error, and at most twice that of nothing
SHIFT, SHIFT_ERROR = 0.3, 0.25  # a shift is met to this share of a voxel, and known to this one
TIE = 1.25  # readings of two kinds within this factor are not told apart
COVERAGE = 0.9  # of the landmarks that the given reading maps
SCALES = (0.001, 0.1, 0.125, 0.2, 0.25, 4.0, 5.0, 8.0, 10.0, 1000.0)  # 1/3 to 3: a weak or strong registration
RAS = np.array([-1.0, -1.0, 1.0])

WORDS = {
    "inverse": "in the other direction, or with the sides swapped",
    "xy": "with x and y exchanged",
    "reversed": "with the axes reversed",
    "lps": "with LPS and RAS exchanged",
    "positions": "with positions and displacements exchanged",
    "voxel": "in voxels where world units were taken, or the reverse",
    "scale": "on images of another scale",
    "one": "with one side counted from one and the other from zero",
    "order": "with the members in the other order",
}


def _same(points: Any) -> Any:
    return points


@dataclass(frozen=True)
class Reading:
    """One other way to read landmarks and a transform.

    ``kind`` is a key of `WORDS` (readings of one kind are not told apart), ``option`` what ``--read-as`` takes. The
    callables change the world points (n, d) of each side, and the map. Where ``swapped``, fixed and moving points
    change places, and errors are measured in the fixed image.
    """

    kind: str
    option: str
    fixed: Map = _same
    moving: Map = _same
    transform: Callable[[Map], Map] = _same
    swapped: bool = False

    def points(self, fixed: Floats, moving: Floats) -> tuple[Floats, Floats]:
        """Return both sides as this reading has them."""
        changed = self.fixed(fixed), self.moving(moving)
        return changed[::-1] if self.swapped else changed


def landmark_readings(d: int, fixed_grid: Grid | None = None, moving_grid: Grid | None = None) -> Iterator[Reading]:
    """Yield the other readings of landmark files: of both sides, then of one side alone."""
    yield Reading("inverse", "inverse", swapped=True)
    for kind, change in _exchanges(d).items():
        yield Reading(kind, f"{kind}-landmarks", change, change)
        yield Reading(kind, f"{kind}-fixed", fixed=change)
        yield Reading(kind, f"{kind}-moving", moving=change)
    if fixed_grid is not None and moving_grid is not None:
        yield Reading("voxel", "voxel-landmarks", fixed_grid.index_to_world, moving_grid.index_to_world)
        yield Reading("voxel", "voxel-landmarks-twice", fixed_grid.world_to_index, moving_grid.world_to_index)
        yield Reading("voxel", "voxel-fixed", fixed=fixed_grid.index_to_world)
        yield Reading("voxel", "voxel-moving", moving=moving_grid.index_to_world)
        for name, sign in (("up", 1.0), ("down", -1.0)):
            step = sign * (fixed_grid.direction @ fixed_grid.spacing)
            yield Reading("one", f"one-fixed-{name}", fixed=partial(np.add, step))
            yield Reading("one", f"one-moving-{name}", moving=partial(np.add, step))


def transform_readings(transform: Transform, fixed_grid: Grid | None, moving_grid: Grid | None) -> Iterator[Reading]:
    """Yield the other readings of a transform."""
    for kind, change in _exchanges(transform.d).items():
        yield Reading(kind, f"{kind}-displacements", transform=_displaced(change))
        if fixed_grid is not None and kind != "lps":
            nodes = _nodes(fixed_grid, change)
            yield Reading(kind, f"{kind}-array", transform=_displaced(_same, nodes))
            yield Reading(kind, f"{kind}-array-displacements", transform=_displaced(change, nodes))
    yield Reading("positions", "positions", transform=lambda f: lambda x: f(x) - x)
    yield Reading("positions", "displacements", transform=lambda f: lambda x: f(x) + x)
    if fixed_grid is not None and moving_grid is not None:
        enter, leave = fixed_grid.world_to_index, moving_grid.index_to_world
        yield Reading("voxel", "voxel-transform", transform=lambda f: lambda x: leave(f(enter(x))))
    own_grid = _field_grid(transform)
    for words, grid in (("", fixed_grid), ("-field", None if own_grid == fixed_grid else own_grid)):
        if grid is None:
            continue
        if grid.spacing.max() <= STRENGTH and grid.spacing.min() >= 1 / STRENGTH:
            continue  # it would look like a registration that moves too far or too little
        steps = grid.direction * grid.spacing
        for option, matrix in (("", steps), ("-twice", np.asarray(np.linalg.inv(steps), np.float64))):
            scaled = _displaced(partial(_times, matrix.T))
            yield Reading("voxel", f"voxel-displacements{words}{option}", transform=scaled)
    for factor in SCALES:
        yield Reading("scale", f"scale-{factor:g}", transform=partial(_scaled, factor))
    if isinstance(transform, Chain) and len(transform.transforms) > 1:
        yield Reading("order", "order", transform=lambda f: Chain(transform.transforms[::-1]).map)


def _exchanges(d: int) -> Mapping[str, Map]:
    """Return the exchanges of axes; in 2D reversed axes are x and y exchanged, and LPS against RAS is a negation."""
    exchanges: dict[str, Map] = {"xy": lambda points: points[:, [1, 0, 2][:d]]}
    if d == 3:
        exchanges |= {"reversed": lambda points: points[:, ::-1], "lps": lambda points: points * RAS}
    return exchanges


def _displaced(change: Map, at: Map = _same) -> Callable[[Map], Map]:
    """Return what changes the displacements of a map, and where they are taken from."""
    return lambda f: lambda x: x + change(f(at(x)) - at(x))


def _times(matrix: Floats, vectors: Floats) -> Floats:
    return vectors @ matrix


def _scaled(factor: float, f: Map) -> Map:
    return lambda x: factor * f(x / factor)


def _nodes(grid: Grid, change: Map) -> Map:
    return lambda x: grid.index_to_world(change(grid.world_to_index(x)))


@dataclass(frozen=True)
class Fit:
    """How a transform fits landmarks as given, and which other reading fits far better, if any.

    ``given`` and ``before`` are mean errors in world units with the transform (NaN where no landmark is mapped) and
    without any. The better reading: its ``kinds`` (keys of `WORDS`; two where they are not told apart), its ``option``
    as ``--read-as`` takes it, its mean error, and the arguments of `read_transform` that ``mend`` the reading of the
    file; none where the landmarks or the file have to be mended.
    """

    given: float
    before: float
    count: int
    outside: int
    kinds: tuple[str, ...] = ()
    option: str | None = None
    better: float = float("nan")
    mend: tuple[tuple[str, str], ...] = ()

    @property
    def worse_than_nothing(self) -> bool:
        """Whether the mean error as given is larger than that of no transform at all."""
        return bool(self.given > self.before)

    @property
    def words(self) -> str:
        """How it fits better, to follow "read", with the options that read it so: ``in the other direction ...``."""
        words = " or ".join(WORDS[kind] for kind in self.kinds)
        if len(self.kinds) > 1:
            return f"{words} (the landmarks do not tell which)"
        options = "".join(f"--{name} {value} " for name, value in self.mend)
        return f"{words} ({options}--replace)" if options else words


def judge_reading(
    transform: Transform,
    fixed: Floats,
    moving: Floats,
    fixed_grid: Grid | None = None,
    moving_grid: Grid | None = None,
) -> Fit:
    """Compare a transform with landmarks, (n, d) world points, as given and under every other reading.

    Rows that are not finite are left out. Readings in voxels need the grids of the images; without the first a field's
    own grid serves.
    """
    points = np.asarray(fixed, dtype=np.float64)
    matches = np.asarray(moving, dtype=np.float64)
    if points.shape != matches.shape or points.ndim != 2 or points.shape[1] != transform.d:
        raise InvalidInputError(
            f"A {transform.d}D transform needs as many fixed as moving landmarks in {transform.d}D, got shapes "
            f"{points.shape} and {matches.shape}."
        )
    finite = np.isfinite(points).all(axis=1) & np.isfinite(matches).all(axis=1)
    if not finite.any():
        raise InvalidInputError("No landmark pair is finite, so there is nothing to compare the transform with.")
    points = points[finite]
    matches = matches[finite]
    mapped = transform.map(points)
    errors = np.linalg.norm(mapped - matches, axis=1)
    known = np.isfinite(errors)
    given = float(errors[known].mean()) if known.any() else float("nan")
    before = float(np.linalg.norm(matches - points, axis=1).mean())
    plain = Fit(given, before, int(known.sum()), int((~known).sum()))
    grid = fixed_grid or _field_grid(transform)
    found = []
    for reading in every_reading(transform, fixed_grid, moving_grid):
        trial = _Trial.of(reading, transform.map, points, matches, mapped)
        if trial is not None and trial.is_better(grid):
            found.append((trial.share, reading.kind, reading.option, trial.size))
    if not found:
        return plain
    share, kind, option, size = min(found)
    rivals = [other for value, other, *_ in sorted(found) if other != kind and value <= TIE * share]
    mend = () if rivals else _mend(option, transform, fixed_grid)
    return replace(plain, kinds=(kind, *rivals[:1]), option=option, better=size, mend=mend)


def every_reading(transform: Transform, fixed_grid: Grid | None, moving_grid: Grid | None) -> list[Reading]:
    """Return all readings of landmarks and of a transform."""
    grid = fixed_grid or _field_grid(transform)
    landmarks = landmark_readings(transform.d, grid, moving_grid or grid)
    return [*landmarks, *transform_readings(transform, grid, moving_grid or grid)]


def _field_grid(transform: Transform) -> Grid | None:
    """Return the grid of a field; the control grid of a B-spline is none of the voxels."""
    for part in (transform, *(transform.transforms[:1] if isinstance(transform, Chain) else ())):
        if part.description.kind.startswith("dense"):
            return part.support
    return None


def _mend(option: str, transform: Transform, fixed_grid: Grid | None) -> tuple[tuple[str, str], ...]:
    """Return the arguments that read a file so, other than those it was read with; none if its format has none."""
    entries = {entry.title: entry for entry in TABLE}
    parts = [entries.get(title) for title in transform.description.format.split(" + ")]
    takes: dict[str, Sequence[str]] = {"direction": ()}
    if not any(part is not None and part.on_reference for part in parts):
        takes["scale"] = ()
    if len(parts) == 1 and parts[0] is not None:
        takes.update(parts[0].takes)
    arguments = _arguments(option, transform, fixed_grid, is_field="convention" in takes)
    if any(name not in takes or (takes[name] and value not in takes[name]) for name, value in arguments.items()):
        return ()
    return tuple(arguments.items())


def _arguments(option: str, transform: Transform, fixed_grid: Grid | None, *, is_field: bool) -> dict[str, str]:
    """Return the arguments of `read_transform` that stand for a reading, whatever the format takes; none if none do."""
    read = transform.read_with
    frame = read.get("frame", "LPS")
    if option == "inverse" and not read.get("stated"):
        return {"direction": OTHER_WAY[read.get("direction", "fixed_to_moving")]}
    if option.startswith("scale-"):
        return {"scale": f"{float(option.removeprefix('scale-')) * read.get('scale', 1.0):g}"}
    if option == "inverse" or frame not in ("LPS", "RAS", "world"):
        return {}
    if option == ("lps-displacements" if is_field else "lps-landmarks"):
        return {"frame": "LPS" if frame == "RAS" else "RAS"}
    if option in ("positions", "displacements"):
        return {"convention": option.removesuffix("s")}
    own = _field_grid(transform)
    # Vectors in voxels are read by the grid of their own file.
    same = own is None or fixed_grid is None or np.allclose(own.affine, fixed_grid.affine)
    by_own_grid = option == "voxel-displacements-field" or (option == "voxel-displacements" and same)
    return {"convention": DISPLACEMENT, "frame": "index"} if by_own_grid and frame != "RAS" else {}


@dataclass(frozen=True)
class _Trial:
    """What a reading leaves at the landmarks that it and the given one map, in the units of the reading.

    ``errors`` are those of the reading, ``given`` those as given, ``wanted`` the true displacements, all (n, d);
    ``nothing`` is the mean error before registration, ``blind`` whether as given few landmarks are mapped.
    """

    reading: Reading
    errors: Floats
    given: Floats
    wanted: Floats
    nothing: float
    blind: bool
    few: bool

    @classmethod
    def of(cls, reading: Reading, given_map: Map, fixed: Floats, moving: Floats, mapped: Floats) -> _Trial | None:
        """Return the trial of a reading, None where it maps too few landmarks."""
        starts, ends = reading.points(fixed, moving)
        errors = reading.transform(given_map)(starts) - ends
        before = np.linalg.norm(ends - starts, axis=1)
        if reading.option == "voxel-transform":  # grids of two origins: a transform that does nothing is not misread
            before = np.minimum(before, np.linalg.norm(reading.transform(_same)(starts) - ends, axis=1))
        change = _same if reading.swapped else reading.moving
        given = change(mapped) - change(moving)
        there = np.isfinite(errors).all(axis=1)
        known = np.isfinite(given).all(axis=1)
        blind = bool(known.mean() < 0.5)  # that is no rival
        used = there if blind else there & known
        n, d = fixed.shape
        if used.sum() < max(d + 1, COVERAGE * (n if blind else known.sum())):
            return None
        wanted = (ends - starts)[used]
        return cls(reading, errors[used], given[used], wanted, float(before[used].mean()), blind, n < FEW)

    @property
    def size(self) -> float:
        """Mean error of the reading."""
        return _mean_length(self.errors)

    @property
    def share(self) -> float:
        """What the reading leaves of the error as given, or where that is not known, of the error before."""
        return self.size / (self.nothing if self.blind else _mean_length(self.given))

    def is_better(self, grid: Grid | None) -> bool:
        """Return whether the reading fits far better, by the rule."""
        kind = self.reading.kind
        coarse = kind in ("voxel", "scale")
        if self.nothing == 0 or (coarse and self.few) or not (self.blind or self._is_surely_smaller()):
            return False
        if kind == "one":
            return not self.blind and self._meets_shift(grid)
        sided = self.reading.option.endswith(("-fixed", "-moving"))
        shaped = not self.blind and _spread(self.errors) < SHAPE * min(_spread(self.given), _spread(self.wanted))
        if not (self.blind or shaped) and (sided or self.reading.option == "voxel-transform"):
            return False  # no more than a shift, which images of two origins have
        gross = not self.blind and (kind == "positions" or sided)
        if gross and self.size < min(GROSS * _mean_length(self.given), NEAR * self.nothing):
            return True
        share = FEW_ALONE if self.few else WITH_SHAPE if shaped and not coarse else ALONE
        explained = self.size < share ** (1 / self.errors.shape[1]) * self.nothing
        return explained and (self.blind or not self._is_strength())

    def _is_surely_smaller(self) -> bool:
        given = np.linalg.norm(self.given, axis=1)
        gain = given - np.linalg.norm(self.errors, axis=1)
        ratio = SHIFT_RATIO if self.reading.kind == "one" else RATIO
        sure = gain.mean() > STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(len(gain))
        return bool(sure and self.size < ratio * given.mean())

    def _meets_shift(self, grid: Grid | None) -> bool:
        if grid is None:
            return False
        left = np.abs(self.errors.mean(axis=0)) < SHIFT * grid.spacing
        known = self.errors.std(axis=0) / np.sqrt(len(self.errors)) < SHIFT_ERROR * grid.spacing
        return bool(left.all() and known.all())

    def _is_strength(self) -> bool:
        """Return whether the given displacements do as well when they are made weaker or stronger."""
        wanted = -self.wanted if self.reading.swapped else self.wanted  # where the given displacements were measured
        displacements = wanted + self.given
        strength = float((displacements * wanted).sum() / max((displacements**2).sum(), 1e-300))
        left = _mean_length(strength * displacements - wanted)
        return bool(1 / STRENGTH <= strength <= STRENGTH and self.size > RIVAL * left)


def _mean_length(vectors: Floats) -> float:
    return float(np.linalg.norm(vectors, axis=1).mean())


def _spread(vectors: Floats) -> float:
    return float(np.linalg.norm(vectors - vectors.mean(axis=0)))


def tried_meanings(
    source: Any, error: AmbiguousFieldError, fixed: Floats, moving: Floats, *, grids: tuple[Grid, Grid], **options: Any
) -> AmbiguousFieldError:
    """Return the error of an ambiguous field with what each of its readings leaves at landmarks, in world units.

    ``options`` are those of `read_transform` that the caller gave.
    """
    found: list[tuple[float, Meaning]] = []
    for meaning in error.meanings:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SuspiciousDataWarning)
                told = {**options, **meaning.options}
                transform = read_transform(source, reference=grids[0], moving=grids[1], **told)
        except WarpgaugeError:
            continue
        errors = np.linalg.norm(transform.map(fixed) - moving, axis=1)
        if np.isfinite(errors).mean() >= COVERAGE:
            found.append((float(np.nanmean(errors)), meaning))
    if not found:
        return error
    found.sort(key=lambda one: one[0])
    units = grids[0].units
    nothing = float(np.linalg.norm(fixed - moving, axis=1).mean())
    shown = "; ".join(f"{size:.3g} {units} as {meaning}" for size, meaning in found[:3])
    text = f"{str(error).rstrip('.')}. The mean error at the landmarks is {shown}"
    return AmbiguousFieldError(f"{text}, and {nothing:.3g} {units} without any transform.", error.meanings)
