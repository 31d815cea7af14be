"""From the description of a pair to a posterior, targets and transforms."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.candidates import targets_from_domain, targets_from_file, targets_from_mask
from warpgauge.core.annotations import Annotations, fuse_raters
from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.power_law import SMALLEST, default_posterior, default_prior, fit_power_law
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.geometry import Grid
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import Landmarks, read_landmarks
from warpgauge.io.transforms import AffineTransform, Description, Transform, read_transform
from warpgauge.project import Project
from warpgauge.project.transforms import IDENTITY
from warpgauge.study.description import MethodSpec, ModelSettings, PairSpec, Study, StudySettings, fill
from warpgauge.study.pair_files import read_grid, read_mapped

_SHARE_OF_EXTENT = 64.0


@dataclass(frozen=True, eq=False)
class LoadedPair:
    """What one pair's evaluation needs; ``placements`` (R, n, d) are each rater's moving points, NaN if missing."""

    annotations: Annotations
    placements: Floats
    targets: Floats
    region: str
    fixed: Grid | None
    moving: Grid | None


def load_pair(pair: PairSpec, settings: StudySettings) -> LoadedPair:
    """Read landmarks, grids and targets of a pair that is not a project."""
    fixed = None if pair.fixed is None else read_grid(pair.fixed)
    moving = None if pair.moving is None else read_grid(pair.moving)
    if pair.landmarks is None:
        raise InvalidInputError(f"The pair {pair.name!r} has no landmarks.")
    landmarks = read_landmarks(
        pair.landmarks, pair.moving_landmarks, fixed_grid=fixed, moving_grid=moving, **pair.landmark_options
    )
    targets, region = _targets(pair, settings, fixed)
    if pair.raters:
        annotations, placements = _fused(pair, landmarks, fixed, moving)
        return LoadedPair(annotations, placements, targets, region, fixed, moving)
    sd = settings.sd if pair.sd is None else pair.sd
    if sd is None and not landmarks.has_covariance[landmarks.active].all():
        raise InvalidInputError(
            f"Landmarks of the pair {pair.name!r} carry no covariance; give sd (their standard deviation in world "
            "units) in [settings] or in the pair."
        )
    annotations = Annotations(*landmarks.to_annotation_arrays(None if sd is None else sd**2))
    return LoadedPair(annotations, annotations.moving_points[None], targets, region, fixed, moving)


def _fused(pair: PairSpec, first: Landmarks, fixed: Grid | None, moving: Grid | None) -> tuple[Annotations, Floats]:
    """Fuse the moving points of all raters of a pair; their scatter says how uncertain they are."""
    if first.moving_points is None:
        raise InvalidInputError(f"The landmarks of the pair {pair.name!r} are points of one image alone.")
    keep = np.flatnonzero(first.active)
    start = first.fixed_points[keep]
    placed = [first.moving_points[keep]]
    for file in pair.raters:
        one = read_landmarks(file, fixed_grid=fixed, moving_grid=moving, **pair.landmark_options)
        rows = _same_rows(pair, first, one, file)[keep]
        if one.moving_points is None:
            raise InvalidInputError(f"{file.name!r} of the pair {pair.name!r} lists points of one image alone.")
        known = rows >= 0
        if not np.allclose(one.fixed_points[rows[known]], start[known], rtol=1e-6, atol=1e-6):
            raise InvalidInputError(
                f"The raters of the pair {pair.name!r} did not answer for the same fixed points: those of "
                f"{file.name!r} differ from the first rater's."
            )
        points = np.full(start.shape, np.nan)
        points[known] = np.where(one.active[rows[known], None], one.moving_points[rows[known]], np.nan)
        placed.append(points)
    fused = fuse_raters(placed)
    return Annotations(start, fused.points, fused.covariances), np.stack(placed)


def _same_rows(pair: PairSpec, first: Landmarks, other: Landmarks, file: Path) -> Ints:
    """Return the row of another rater's file for each landmark of the first rater, by name or by order; -1 if none."""
    if first.names is not None and other.names is not None:
        place = {name: row for row, name in enumerate(other.names)}
        return np.array([place.get(name, -1) for name in first.names])
    if len(first) != len(other):
        raise InvalidInputError(
            f"{file.name!r} of the pair {pair.name!r} has {len(other)} landmarks where the first rater has "
            f"{len(first)}; give them names, so that they can be matched."
        )
    return np.arange(len(first))


def _targets(pair: PairSpec, settings: StudySettings, fixed: Grid | None) -> tuple[Floats, str]:
    if pair.targets is not None:
        return targets_from_file(pair.targets, grid=fixed), "file"
    if fixed is None:
        raise InvalidInputError(f"The pair {pair.name!r} has neither a fixed image nor a file of targets.")
    if pair.mask is None:
        return targets_from_domain(fixed, settings.targets), "domain"
    image = read_image(pair.mask)
    if image.grid.shape != fixed.shape:
        raise InvalidInputError(
            f"The mask of the pair {pair.name!r} has the size {image.grid.size}, but its fixed image {fixed.size}."
        )
    mask = image.read()
    count = min(settings.targets, int(np.count_nonzero(mask)))
    return targets_from_mask(mask, fixed, count, seed=settings.seed), "mask"


@dataclass(frozen=True, eq=False)
class Box:
    """Where the fixed image of a pair lies, or its points where there is no image: what the default model needs."""

    extent: Floats
    centre: Floats
    smallest: float


def pair_box(loaded: LoadedPair, model: ModelSettings) -> Box:
    """Return the frame of a pair and its smallest scale."""
    if loaded.fixed is not None:
        smallest = SMALLEST * loaded.fixed.pixel if model.smallest_scale is None else model.smallest_scale
        return Box(loaded.fixed.extent, loaded.fixed.centre, smallest)
    points = np.concatenate([loaded.targets, loaded.annotations.fixed_points])
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float(np.linalg.norm(high - low))
    if longest == 0:
        raise InvalidInputError("All landmarks and targets of a pair lie at one point; check its files.")
    # A flat set of points still has a frame: no side is shorter than the smallest scale.
    smallest = longest / _SHARE_OF_EXTENT if model.smallest_scale is None else model.smallest_scale
    return Box(np.maximum(high - low, smallest), (low + high) / 2, smallest)


@dataclass(frozen=True)
class Learned:
    """Weights and noise learned on all pairs together, for the scales of the largest image."""

    extent: tuple[float, ...]
    smallest: float
    weights: tuple[float, ...]
    noise: float


def pair_posterior(loaded: LoadedPair, model: ModelSettings, learned: Learned | None = None) -> Posterior:
    """Condition the default model on a pair's annotations, with weights learned here, or on all pairs."""
    box = pair_box(loaded, model)
    if learned is None:
        return default_posterior(
            loaded.annotations, box.extent, box.smallest, center=box.centre, family=model.family, noise=model.noise
        )
    prior = default_prior(learned.extent, center=box.centre, smallest=learned.smallest, family=model.family)
    fitted = prior.with_kernel(prior.kernel.with_weights(learned.weights), learned.noise)
    return fitted.condition(loaded.annotations, calibrate=True)


def fit_together(loaded: Sequence[LoadedPair], model: ModelSettings) -> Learned:
    """Weights (and noise) learned on all pairs at once, each about its own middle."""
    boxes = [pair_box(one, model) for one in loaded]
    smallest, centre = boxes[0].smallest, boxes[0].centre
    if any(not np.isclose(box.smallest, smallest, rtol=1e-6) for box in boxes):
        raise InvalidInputError(
            "fit = 'together' needs the same scales in all pairs, but the pixels of their images differ; give "
            "smallest_scale, or use fit = 'pair'."
        )
    extent = np.max([box.extent for box in boxes], axis=0)
    sets = []
    for one, box in zip(loaded, boxes, strict=True):
        given, shift = one.annotations, centre - box.centre
        sets.append(Annotations(given.fixed_points + shift, given.moving_points + shift, given.covariances))
    prior = default_prior(extent, center=centre, smallest=smallest, family=model.family)
    fitted = fit_power_law(prior, sets, extent, model.noise)
    return Learned(tuple(extent.tolist()), smallest, tuple(fitted.kernel.weights.tolist()), float(fitted.noise))


def transform_files(study: Study, pair: PairSpec, method: MethodSpec) -> list[Path] | str:
    """Files of a method's transform for a pair, or the reason why it is missing."""
    found: list[Path] = []
    if method.transform == (IDENTITY,):
        return found
    for pattern in method.patterns:
        filled = fill(pattern, glob.escape(pair.name), glob.escape(method.name))
        # Not Path.glob, which refuses absolute patterns.
        matches = sorted(glob.glob(filled, root_dir=study.folder))  # noqa: PTH207
        shown = fill(pattern, pair.name, method.name)
        if len(matches) > 1:
            raise InvalidInputError(
                f"The pattern {shown!r} of the method {method.name!r} fits {len(matches)} files of the pair "
                f"{pair.name!r}; it has to fit one."
            )
        if not matches:
            return f"there is no file {shown!r}"
        found.append(study.folder / matches[0])
    return found


def read_method(
    files: Sequence[Path], pair: PairSpec, method: MethodSpec, fixed: Grid | None, moving: Grid | None, d: int
) -> Transform | str:
    """Read a transform, or return why it cannot be read; ``transform = "identity"`` means no registration."""
    options: dict[str, Any] = dict(method.options)
    if method.transform == (IDENTITY,):
        return AffineTransform(np.eye(d), np.zeros(d), Description(kind=IDENTITY))
    try:
        if method.mapped_landmarks is not None:
            return read_mapped(files[0], pair, method, fixed, moving)
        source = files[0] if len(files) == 1 else list(files)
        return read_transform(source, reference=fixed, moving=moving, **options)
    except WarpgaugeError as error:
        return str(error)


def project_transform(project: Project, method: MethodSpec) -> Transform | str:
    """Read the transform of that name within a project, or return why it is missing."""
    if method.name not in project.transform_names():
        return f"the project {project.folder.name!r} has no transform {method.name!r}"
    try:
        return project.transform(method.name, options=method.options)
    except WarpgaugeError as error:
        return str(error)
