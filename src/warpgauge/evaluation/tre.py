"""Target registration errors from landmarks and transforms alone, and the other reading that fits far better, if any.

No project, no model, no image: the readers of `warpgauge.io` and the one rule of `warpgauge.io.misreadings`. What a TRE
cannot say (places between the landmarks, their own placement noise) is said below every table.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.display import csv_text, shown_units
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning, options_named
from warpgauge.geometry import Floats, Grid
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import Landmarks, read_landmarks
from warpgauge.io.misreadings import WORDS, Fit, every_reading, judge_reading
from warpgauge.io.transforms import Transform, as_transform, read_transform
from warpgauge.io.transforms.reader import Direction

LEVEL = 0.9
_RESAMPLES = 4000
_WORDS_OF_DIRECTION = {"fixed_to_moving": "fixed to moving", "moving_to_fixed": "moving to fixed"}


@dataclass(frozen=True)
class Summary:
    """Distances at landmarks, in world units; ``low`` and ``high`` are NaN for fewer than two."""

    n: int  # landmarks that were mapped
    outside: int  # and that were not: these are in no other figure
    mean: float
    median: float
    rms: float
    percentile90: float
    maximum: float
    low: float  # 90 % interval of the mean over landmarks, by a seeded bootstrap
    high: float

    @classmethod
    def of(cls, distances: Floats) -> Summary:
        """Summarise distances, those that are NaN apart."""
        known = distances[np.isfinite(distances)]
        n = len(known)
        if not n:
            return cls(0, len(distances), *[float("nan")] * 7)
        low, high = np.nan, np.nan
        if n > 1:
            rng = np.random.default_rng(0)
            means = [known[rng.integers(0, n, n)].mean() for _ in range(_RESAMPLES)]
            low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return cls(
            n,
            len(distances) - n,
            float(known.mean()),
            float(np.median(known)),
            float(np.sqrt(np.mean(known**2))),
            float(np.quantile(known, 0.9)),
            float(known.max()),
            float(low),
            float(high),
        )


@dataclass(frozen=True, eq=False)
class TransformErrors:
    """Errors of one transform at the landmarks."""

    name: str
    errors: Floats  # (n, d) mapped less true moving points in world units; NaN where the transform is not defined
    before: Floats  # (n, d) moving less fixed points: the error before registration
    fit: Fit  # how it fits as given, and the reading that fits far better, if any
    read_as: str | None  # the reading that was asked for; None for the transform as given
    assumed: str  # what was taken for granted to read it

    @property
    def distances(self) -> Floats:
        """(n,) target registration errors."""
        return np.asarray(np.linalg.norm(self.errors, axis=1))

    @property
    def summary(self) -> Summary:
        """Figures of the distances."""
        return Summary.of(self.distances)

    def sentence(self, units: str) -> str:
        """Return which other reading fits far better, and the option that takes it; empty where there is none."""
        if self.read_as is not None or not self.fit.kinds:
            return ""
        fit = self.fit
        words = " or ".join(WORDS[kind] for kind in fit.kinds)
        given = "no landmark is mapped as given" if np.isnan(fit.given) else f"{fit.given:.4g} as given"
        text = f"{self.name} fits better {words}: {fit.better:.4g} {units}, {given}"
        if fit.option == "inverse":
            text += " (measured in the fixed image)"
        if len(fit.kinds) > 1:
            return f"{text}. These two cannot be told apart here, or the transform belongs to other images."
        return f"{text}. Nothing was changed; to read it so: --read-as {fit.option}. Or it belongs to other images."


@dataclass(frozen=True, eq=False)
class TreResult:
    """What `tre` returns; printed, it is the table of ``warpgauge tre``."""

    fixed_points: Floats  # (n, d) of the landmarks that count, in world units
    moving_points: Floats
    names: tuple[str, ...]  # of the landmarks, as far as they have any
    transforms: tuple[TransformErrors, ...]
    units: str
    assumed: tuple[str, ...]  # what was taken for granted about the landmarks and the images
    fixed_grid: Grid | None = None  # of the images, where they were given
    moving_grid: Grid | None = None
    _pairing: str = field(default="", repr=False)

    @property
    def before(self) -> Summary:
        """Figures before registration, of all landmarks."""
        return Summary.of(np.asarray(np.linalg.norm(self.moving_points - self.fixed_points, axis=1)))

    def __getitem__(self, name: str) -> TransformErrors:
        """Errors of the transform with this name."""
        for transform in self.transforms:
            if transform.name == name:
                return transform
        raise KeyError(name)

    def challenge_figures(self, transform: TransformErrors) -> dict[str, float]:
        """Return DIR-Lab's snapped mean and ANHIR's rTRE, as far as the images they need are known.

        ``snapped_mean``: mapped points moved to the nearest voxel of the moving image before the distance is taken.
        ``rtre_mean``, ``rtre_median``: distance over the diagonal of the fixed image.
        """
        figures = {}
        known = np.isfinite(transform.errors).all(axis=1)
        if transform.read_as is not None or not known.any():
            return {}
        if self.moving_grid is not None:
            mapped = (self.moving_points + transform.errors)[known]
            snapped = self.moving_grid.index_to_world(np.round(self.moving_grid.world_to_index(mapped)))
            figures["snapped_mean"] = float(np.linalg.norm(snapped - self.moving_points[known], axis=1).mean())
        if self.fixed_grid is not None:
            relative = transform.distances[known] / self.fixed_grid.diagonal
            figures["rtre_mean"] = float(relative.mean())
            figures["rtre_median"] = float(np.median(relative))
        return figures

    def mean_error_in_voxels(self, transform: TransformErrors) -> Floats | None:
        """Return the mean error vector in voxels of the moving image: half a voxel is seen here, if anywhere."""
        known = np.isfinite(transform.errors).all(axis=1)
        if self.moving_grid is None or transform.read_as is not None or not known.any():
            return None
        steps = self.moving_grid.direction * self.moving_grid.spacing
        return np.asarray(transform.errors[known].mean(axis=0) @ np.linalg.inv(steps).T)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rows = []
        for transform in self.transforms:
            vector = self.mean_error_in_voxels(transform)
            fit = transform.fit
            better = {"kinds": list(fit.kinds), "read_as": fit.option, "mean": fit.better, "given": fit.given}
            rows.append({
                "name": transform.name,
                **asdict(transform.summary),
                "before": asdict(Summary.of(np.asarray(np.linalg.norm(transform.before, axis=1)))),
                "read_as": transform.read_as,
                "fits_better": better if fit.kinds and transform.read_as is None else None,
                "worse_than_before": transform.read_as is None and fit.worse_than_nothing,
                "mean_error_voxels": None if vector is None else vector.tolist(),
                **self.challenge_figures(transform),
                "assumed": transform.assumed,
            })  # fmt: skip
        return {
            "landmarks": len(self.fixed_points),
            "units": self.units,
            "level": LEVEL,
            "before": asdict(self.before),
            "transforms": rows,
            "assumed": list(self.assumed),
        }

    def per_landmark(self) -> str:
        """Return a CSV with a row per landmark: both points, the distance before, and with each transform."""
        axes = "xyz"[: self.fixed_points.shape[1]]
        titles = [f"{side}_{axis}" for side in ("fixed", "moving") for axis in axes]
        before = np.linalg.norm(self.moving_points - self.fixed_points, axis=1)
        columns = [self.fixed_points, self.moving_points, before[:, None]]
        columns += [transform.distances[:, None] for transform in self.transforms]
        rows = [["" if np.isnan(value) else repr(float(value)) for value in row] for row in np.hstack(columns)]
        header = ["name", *titles, "before", *(transform.name for transform in self.transforms)]
        return csv_text([header, *([name, *row] for name, row in zip(self.names, rows, strict=True))])

    def __str__(self) -> str:
        return "\n".join([*self.table(), *self.sentences()])

    def sentences(self) -> list[str]:
        """Return what was assumed, which other reading fits, and what a TRE cannot say."""
        units = shown_units(self.units)
        lines = [f"Assumed: {'; '.join([*self.assumed, *self._transform_assumptions()])}."]
        for transform in self.transforms:
            lines += self._notes(transform, units)
        if not self.transforms:
            return [*lines, "No transform was given: this is the error before registration."]
        if not any(transform.sentence(units) or transform.read_as for transform in self.transforms):
            lines.append(
                "No other reading fits far better; one would show where a transform leaves at most a third of the "
                "error before, and a shift of both sides by a voxel, or of one by half a voxel, never would."
            )
        return [
            *lines,
            f"Errors at {len(self.fixed_points)} places: for the places between them, warpgauge map; for their own "
            "placement noise, a second rater (warpgauge annotate --rater).",
        ]

    def table(self) -> list[str]:
        """Return the lines of the table, from how many pairs it is; 80 columns for names of up to 20 letters."""
        lines = [f"{len(self.fixed_points)} landmark pairs, {shown_units(self.units)}{self._pairing}."]
        width = max([len("before registration"), *(len(one.name) for one in self.transforms)])
        titles = "".join(f"{title:>8}" for title in ("median", "RMS", "90th", "max"))
        lines.append(f"{'':{width}}{'n':>5}{'mean':>8}  {'90 % interval':16}{titles}")
        named: list[tuple[str, Summary, str]] = [("before registration", self.before, "")]
        for transform in self.transforms:
            remark = f"   read as {transform.read_as}" if transform.read_as else ""
            if not transform.read_as and transform.fit.worse_than_nothing:
                remark = "   worse than before"
            named.append((transform.name, transform.summary, remark))
        for name, summary, remark in named:
            figures = (summary.median, summary.rms, summary.percentile90, summary.maximum)
            cells = "".join(f"{_shown(figure):>8}" for figure in figures)
            interval = f"{_shown(summary.low)} to {_shown(summary.high)}"
            lines.append(f"{name:{width}}{summary.n:>5}{_shown(summary.mean):>8}  {interval:16}{cells}{remark}")
        return lines

    def _transform_assumptions(self) -> list[str]:
        """Return what was assumed about transforms, each text once with the names that share it."""
        names: dict[str, list[str]] = {}
        for transform in self.transforms:
            names.setdefault(transform.assumed, []).append(transform.name)
        return [f"{text} ({', '.join(group)})" if len(names) > 1 else text for text, group in names.items()]

    def _notes(self, transform: TransformErrors, units: str) -> list[str]:
        lines = []
        summary = transform.summary
        if summary.outside:
            lines.append(
                f"{transform.name} does not map {summary.outside} of {len(self.fixed_points)} landmarks; they are in "
                "none of its figures."
            )
        figures = self.challenge_figures(transform)
        vector = self.mean_error_in_voxels(transform)
        parts = []
        if "snapped_mean" in figures:
            parts.append(f"mean with mapped points snapped to voxels (DIR-Lab) {_shown(figures['snapped_mean'])}")
        if "rtre_mean" in figures:
            parts.append(f"rTRE (ANHIR) mean {figures['rtre_mean']:.3g}, median {figures['rtre_median']:.3g}")
        if vector is not None:
            parts.append(f"mean error vector ({', '.join(f'{value:.2f}' for value in vector)}) voxels")
        if parts:
            lines.append(f"{transform.name}: {'; '.join(parts)}.")
        sentence = transform.sentence(units)
        return [*lines, sentence] if sentence else lines


def _shown(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.2f}" if 0.1 <= value < 1e6 else f"{value:.3g}"


def tre(
    fixed: Any,
    moving: Any = None,
    transforms: Any = (),
    *,
    read_as: str | None = None,
    direction: Direction = "fixed_to_moving",
    fixed_image: Any = None,
    moving_image: Any = None,
    frame: str | None = None,
    units: str | None = None,
    match: str | None = None,
    transform_options: Mapping[str, Any] | None = None,
) -> TreResult:
    """Return the target registration errors of transforms at landmarks, before and after, with what was assumed.

    Says which other reading of the files fits far better, if any (the other direction, axes exchanged, LPS for RAS,
    positions for displacements, voxels); it never applies one by itself.

    Parameters
    ----------
    fixed, moving : path, (n, d) array or Landmarks
        Landmarks of each image, corresponding by name, index or row. A file that holds pairs, or `Landmarks` with both
        sides, is given as ``fixed`` alone. Arrays are world points in the order x, y[, z].
    transforms : path, object, list or mapping of them
        Each as `as_transform` takes it; a list inside the list is a chain, in the order of application to points. With
        none: the error before registration.
    read_as : str, optional
        Take another reading, one that a result has named: ``"inverse"``, ``"lps-landmarks"``.
    direction : {"fixed_to_moving", "moving_to_fixed"}
        What transforms map.
    fixed_image, moving_image : path, image or Grid, optional
        Where a file counts voxels, or a field stands on the image's grid. The moving image is taken to have the grid of
        the fixed one where only that is given.
    frame, units, match : str, optional
        Of landmark files that do not say, as in `read_landmarks`.
    transform_options : mapping, optional
        Further arguments of `read_transform` for files, or of `as_transform` for objects.

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> fixed = np.random.default_rng(0).uniform(0, 100, (40, 2))
    >>> moving = fixed + [6.0, -3.0] + 0.05 * fixed[:, ::-1]
    >>> affine = wg.as_transform(lambda x: x + [6.0, -3.0] + 0.05 * x[:, ::-1] + [0.3, 0.4], d=2)
    >>> result = wg.tre(fixed, moving, {"affine": affine, "wrong way": affine.inverse()})
    >>> round(result["affine"].summary.mean, 3)
    0.5
    >>> result["wrong way"].fit.option
    'inverse'
    >>> round(wg.tre(fixed, moving, affine.inverse(), read_as="inverse")["transform"].summary.mean, 3)
    0.5
    """
    fixed_grid = _grid(fixed_image)
    moving_grid = _grid(moving_image) or fixed_grid
    pairs = _landmarks(fixed, moving, fixed_grid, moving_grid, frame, units, match)
    if pairs.moving_points is None:
        raise InvalidInputError("The landmarks have one side only; give those of the moving image as well.")
    if not pairs.active.any():
        raise InvalidInputError("No landmark is active, so there is nothing to measure.")
    starts = pairs.fixed_points[pairs.active]
    ends = pairs.moving_points[pairs.active]
    names = pairs.names or ("",) * len(pairs)
    given = _named(transforms)
    options = dict(transform_options or {})
    rows = []
    for name, source in given.items():
        if isinstance(source, str | os.PathLike) or _all_paths(source):
            with options_named(frame="field_frame", moving="moving_image"):
                transform = read_transform(
                    source, reference=fixed_grid, moving=moving_grid, direction=direction, **options
                )
        else:
            about = {"grid": fixed_grid, "moving": moving_grid, "d": starts.shape[1], "at": starts, "name": name}
            transform = as_transform(source, direction=direction, **{**about, **options})
        if transform.d != starts.shape[1]:
            raise InvalidInputError(f"{name!r} is {transform.d}D, but the landmarks are {starts.shape[1]}D.")
        rows.append(_errors(name, transform, starts, ends, (fixed_grid, moving_grid), read_as))
    grid_note = []
    if fixed_image is not None and moving_image is None:
        grid_note.append("the moving image has the grid of the fixed one")
    if given and isinstance(fixed_image, str | os.PathLike):
        grid_note += [text for text in (read_image(fixed_image).print_note,) if text]
    rule = "" if not pairs.format else f", read as {pairs.format}"
    return TreResult(
        starts,
        ends,
        tuple(name for name, active in zip(names, pairs.active, strict=True) if active),
        tuple(rows),
        pairs.units if fixed_grid is None else fixed_grid.units,
        tuple(text.rstrip(".") for text in (_landmark_assumption(pairs), *pairs.assumptions, *grid_note)),
        fixed_grid,
        moving_grid,
        rule,
    )


def has_pairs(
    path: str | os.PathLike[str],
    *,
    fixed_image: Any = None,
    moving_image: Any = None,
    frame: str | None = None,
    units: str | None = None,
    match: str | None = None,
) -> bool:
    """Return whether a landmark file holds the points of both images."""
    fixed_grid = _grid(fixed_image)
    moving_grid = _grid(moving_image) or fixed_grid
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousDataWarning)  # they are said when the pairs are read
        found = _landmarks(path, None, fixed_grid, moving_grid, frame, units, match)
    return found.moving_points is not None


def _errors(
    name: str,
    transform: Transform,
    fixed: Floats,
    moving: Floats,
    grids: tuple[Grid | None, Grid | None],
    read_as: str | None,
) -> TransformErrors:
    """Return the errors of one transform, read as given or as asked."""
    fit = judge_reading(transform, fixed, moving, *grids)
    about = transform.description
    world = about.frame if about.frame != "world" else "world of the images"
    flow = _WORDS_OF_DIRECTION[about.direction]
    stated = f"{about.units}" if about.units != "unstated" else "in the units of the landmarks"
    text = f"transforms map {flow} points, x before y, {world}, {stated}"
    if about.format not in ("memory", "callable"):
        text += f", read as {about.format}"
    if read_as is None:
        return TransformErrors(name, transform.map(fixed) - moving, moving - fixed, fit, None, text)
    if read_as == "inverse":
        errors = transform.inverse().map(fixed) - moving
        return TransformErrors(name, errors, moving - fixed, fit, read_as, text)
    readings = {reading.option: reading for reading in every_reading(transform, *grids)}
    if read_as not in readings:
        needs = "; readings in voxels need the fixed image" if "voxel" in read_as or "one" in read_as else ""
        raise InvalidInputError(f"There is no reading {read_as!r}; there are {', '.join(readings)}{needs}.")
    reading = readings[read_as]
    starts, ends = reading.points(fixed, moving)
    errors = reading.transform(transform.map)(starts) - ends
    return TransformErrors(name, errors, ends - starts, fit, read_as, text)


def _landmarks(
    fixed: Any,
    moving: Any,
    fixed_grid: Grid | None,
    moving_grid: Grid | None,
    frame: str | None,
    units: str | None,
    match: str | None,
) -> Landmarks:
    """Return the pairs of files, arrays or landmarks that are in memory already."""
    if isinstance(fixed, Landmarks):
        if moving is None:
            return fixed
        if not isinstance(moving, Landmarks):
            raise InvalidInputError("The fixed landmarks are Landmarks; give the moving ones as Landmarks, too.")
        return _joined(fixed, moving)
    if isinstance(fixed, str | os.PathLike):
        return read_landmarks(
            fixed,
            moving,
            fixed_grid=fixed_grid,
            moving_grid=moving_grid,
            frame=frame,
            units=units,
            match=match,
        )
    if moving is None:
        raise InvalidInputError("An array holds the landmarks of one image; give those of the moving image as well.")
    stated = units or (fixed_grid.units if fixed_grid is not None else "px")
    return Landmarks(_points(fixed), _points(moving), units=stated)


def _joined(fixed: Landmarks, moving: Landmarks) -> Landmarks:
    """Return the pairs of two sets of points, which correspond by row."""
    if fixed.units != moving.units:
        raise InvalidInputError(
            f"The fixed landmarks are in {fixed.units} and the moving ones in {moving.units}; give both in one unit."
        )
    if fixed.names != moving.names and sorted(fixed.names or ()) == sorted(moving.names or ()):
        raise InvalidInputError("Fixed and moving landmarks have the same names in another order; sort one of them.")
    pairs = Landmarks(fixed.fixed_points, moving.fixed_points, names=fixed.names, frame=fixed.frame, units=fixed.units)
    return replace(pairs, active=fixed.active & moving.active)


def _points(values: ArrayLike) -> Floats:
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 2 or not len(points):
        raise InvalidInputError(f"Landmarks are an (n, 2) or (n, 3) array, got shape {points.shape}.")
    return points


def _landmark_assumption(pairs: Landmarks) -> str:
    world = "LPS" if pairs.frame == "LPS" else "the world of the images"
    return f"landmarks are in {world}, {shown_units(pairs.units)}, x before y"


def _grid(image: Any) -> Grid | None:
    """Return the grid of an image, a path, or a grid."""
    if image is None or isinstance(image, Grid):
        return image
    if isinstance(image, str | os.PathLike):
        return read_image(image).grid
    grid = getattr(image, "grid", None)
    if not isinstance(grid, Grid):
        raise InvalidInputError(f"An image is a path, an image of read_image or a Grid, got {type(image).__name__}.")
    return grid


def _all_paths(source: Any) -> bool:
    return isinstance(source, list | tuple) and all(isinstance(one, str | os.PathLike) for one in source)


def _named(transforms: Any) -> dict[str, Any]:
    """Return transforms by name: the names given, those of files, or transform, transform 2."""
    if transforms is None:
        return {}
    if isinstance(transforms, Mapping) and "fwdtransforms" not in transforms:
        return dict(transforms)
    listed: Sequence[Any] = transforms if isinstance(transforms, list | tuple) else [transforms]
    names: dict[str, Any] = {}
    for source in listed:
        files = [source] if isinstance(source, str | os.PathLike) else source if _all_paths(source) else []
        name = " + ".join(Path(file).name for file in files) or "transform"
        count = 1
        while (name if count == 1 else f"{name} {count}") in names:
            count += 1
        names[name if count == 1 else f"{name} {count}"] = source
    return names
