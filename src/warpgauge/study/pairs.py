"""One pair: what it is compared by, its evaluation, and what a missing case costs."""

from __future__ import annotations

import glob
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.candidates import targets_from_domain, targets_from_file, targets_from_mask
from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.power_law import SMALLEST, default_posterior
from warpgauge.core.rater_fusion import fuse_raters
from warpgauge.errors import FileFormatError, InvalidInputError, WarpgaugeError
from warpgauge.evaluation import Comparison, Scene, evaluate_comparison, project_comparison
from warpgauge.evaluation.project_evaluation import BASELINE, project_centre, with_baseline
from warpgauge.geometry import Grid
from warpgauge.io.files import read_text
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import Landmarks, read_landmarks
from warpgauge.io.transforms import AffineTransform, MappedPoints, Transform, read_transform
from warpgauge.project import Project
from warpgauge.project.document import grid_from_dict
from warpgauge.project.transforms import IDENTITY
from warpgauge.study.challenges import CHALLENGES, Case, Figures, mapped_landmarks
from warpgauge.study.description import Method, Pair, Study, StudySettings, fill

# A transform that is undefined at more than this share of the targets counts as missing.
MOST_OUTSIDE = 0.5
NORM = "2"  # the score that is compared: the RMS error
GRID_SUFFIX = ".grid.json"
# Without an image, the smallest scale of the model is this share of the extent of all points.
_SHARE_OF_EXTENT = 64.0


@dataclass(frozen=True, eq=False)
class PairOutcome:
    """Result of one pair, with all K methods of the study.

    ``missing`` says which methods have no usable transform, and why. ``draws`` (S, K) are posterior draws of the score
    and ``scores`` (K,) the score; those of a missing method are what its absence costs. ``landmark_errors`` are mean
    classical errors at the annotated points, before registration for a missing method, and ``initial_error`` is the
    same of the identity. ``verdict`` and ``sentence`` are those of the calibration. ``evaluation`` is everything else,
    as :meth:`warpgauge.evaluation.Evaluation.to_dict` returns it, the identity among its transforms. ``official`` are a
    challenge's own figures of each method, where the study names one.
    """

    name: str
    methods: tuple[str, ...]
    missing: dict[str, str]
    draws: Floats
    scores: Floats
    landmark_errors: dict[str, float]
    initial_error: float
    verdict: str
    sentence: str
    evaluation: dict[str, Any] = field(default_factory=dict)
    official: dict[str, Figures] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class OpenedPair:
    """What a pair is judged by: its comparison, the moving points of each rater (R, n, d), and the grids."""

    comparison: Comparison
    placements: Floats
    grids: tuple[Grid | None, Grid | None]
    centre: str

    def among(self, names: Collection[str], broken: Mapping[str, str]) -> OpenedPair:
        """Return the same with some of the transforms; ``broken`` are others, and why they are missing."""
        transforms = {name: one for name, one in self.comparison.transforms.items() if name in names}
        panel = tuple(name for name in self.comparison.panel if name in transforms)
        problems = {**self.comparison.problems, **broken}
        comparison = replace(self.comparison, transforms=transforms, panel=panel, problems=problems, _known={})
        return replace(self, comparison=comparison)


def compute_pair(study: Study, pair: Pair) -> PairOutcome:
    """Evaluate all methods on a pair; one that cannot be evaluated at all is missing there, and stops no other."""
    with opened(study, pair) as found:
        always = {BASELINE, *found.comparison.panel}
        others = set(found.comparison.transforms) - always
        try:
            return _outcome(study, pair, found)
        except Exception:
            broken = {}
            for name in sorted(others):
                try:
                    _outcome(study, pair, found.among({name, *always}, {}))
                except Exception as error:
                    named = isinstance(error, WarpgaugeError)
                    broken[name] = str(error) if named else f"it cannot be evaluated ({type(error).__name__})"
            if not broken:
                raise
            return _outcome(study, pair, found.among(always | (others - broken.keys()), broken))


def _outcome(study: Study, pair: Pair, found: OpenedPair) -> PairOutcome:
    settings = study.settings
    names = tuple(method.name for method in study.methods)
    missing = dict(found.comparison.problems)
    outside = (~found.comparison.defined).mean(axis=1)
    for name, share in zip(found.comparison.transforms, outside, strict=True):
        if share > MOST_OUTSIDE and name in names:
            missing[name] = f"it is undefined at {share:.0%} of the targets"
    compared = found.comparison.among(name for name in found.comparison.transforms if name not in missing)
    compared = replace(compared, problems={})
    for name in names:
        if name not in compared.transforms:
            missing.setdefault(name, "it was left out")
    result = evaluate_comparison(
        compared,
        centre=found.centre,
        samples=settings.samples,
        seed=settings.seed,
        tolerance=settings.tolerance,
    )
    about = result.to_dict()
    about["read_as"] = {name: one.description.to_dict() for name, one in compared.transforms.items()}
    about["panel"] = list(compared.panel)
    columns = dict(zip(result.scores, result.draws["rms"].T, strict=True))
    scores = {name: one.score[NORM] for name, one in result.scores.items()}
    # What absence costs: the worst of no registration and the references, of all methods where there are none. Leaving
    # out what is hard must not gain, and what is said of one method must not depend on others.
    counted = {compared.baseline, *compared.panel} if compared.panel else set(scores)
    cost_draws = np.max([columns[name] for name in scores if name in counted], axis=0)
    cost = max(scores[name] for name in scores if name in counted)
    annotations = compared.annotations
    initial = _rater_errors(annotations.fixed_points, found.placements)
    mapped = dict(zip(compared.transforms, compared.values.annotations, strict=True))
    errors = {name: _rater_errors(points, found.placements) for name, points in mapped.items()}
    present = {name: errors.get(name) for name in names}
    trusted = (
        ("undetermined", "")
        if result.verdict.trust is None
        else (result.verdict.trust.verdict, result.verdict.trust.sentence)
    )
    return PairOutcome(
        name=pair.name,
        methods=names,
        missing={name: missing[name] for name in names if name in missing},
        draws=np.stack([cost_draws if name in missing else columns[name] for name in names], axis=1),
        scores=np.array([cost if name in missing else scores[name] for name in names]),
        landmark_errors={
            name: float(np.mean(initial if one is None else np.where(np.isfinite(one), one, initial)))
            for name, one in present.items()
        },
        initial_error=float(initial.mean()),
        verdict=trusted[0],
        sentence=trusted[1],
        evaluation=about,
        official={
            method.name: _official(study, pair, method, found, annotations, present[method.name], initial)
            for method in study.methods
        },
    )


def _rater_errors(mapped: Floats, placements: Floats) -> Floats:
    """Return the error at each landmark, as the mean of the distances from all raters' points."""
    lengths = np.linalg.norm(mapped - placements, axis=2)
    placed = np.isfinite(placements).all(axis=2)
    return np.asarray(np.where(placed, lengths, 0.0).sum(axis=0) / placed.sum(axis=0))


def _official(
    study: Study,
    pair: Pair,
    method: Method,
    found: OpenedPair,
    annotations: Annotations,
    errors: Floats | None,
    initial: Floats,
) -> Figures:
    """Return the figures of the challenge that the study names, of one method on this pair."""
    if study.settings.challenge is None or not len(initial):
        return {}
    files = method_files(study, pair, method) if method.patterns else []
    file = files[0] if isinstance(files, list) and len(files) == 1 else None
    diagonal = pair.diagonal
    if diagonal is None and found.grids[0] is not None:
        diagonal = found.grids[0].diagonal
    case = Case(pair, method, file, annotations, found.grids, errors, initial, diagonal)
    return CHALLENGES[study.settings.challenge].case(case)


# Reading


@contextmanager
def opened(study: Study, pair: Pair) -> Iterator[OpenedPair]:
    """Read the annotations and the transforms of a pair; a project stays open meanwhile."""
    if pair.project is not None:
        with Project.open(pair.project, check_images=False) as project:
            yield _of_project(study, pair, project)
        return
    fixed, moving = pair_grids(pair)
    annotations, placements = pair_annotations(pair, study.settings, fixed, moving)
    targets = pair_targets(pair, study.settings, fixed)
    read = {one.name: read_method(study, pair, one, (fixed, moving), annotations.d) for one in study.methods}
    present = {name: one for name, one in read.items() if not isinstance(one, str)}
    region = "file" if pair.targets is not None else "domain" if pair.mask is None else "mask"
    comparison = Comparison.of(
        with_baseline(present, annotations.d),
        targets,
        _posterior(annotations, targets, fixed),
        baseline=BASELINE,
        panel=tuple(name for name in study.references if name in present),
        problems={name: one for name, one in read.items() if isinstance(one, str)},
        scene=Scene(fixed, None if fixed is None else fixed.units, region),
    )
    yield OpenedPair(comparison, placements, (fixed, moving), study.settings.centre)


def _of_project(study: Study, pair: Pair, project: Project) -> OpenedPair:
    grids = (project.fixed_grid, project.moving_grid)
    read = {}
    for method in study.methods:
        if method.patterns:
            read[method.name] = read_method(study, pair, method, grids, project.d)
        else:
            read[method.name] = _project_transform(project, method)
    present = {name: one for name, one in read.items() if not isinstance(one, str)}
    # A method with files of its own is none of the project's references, whatever its name is.
    own = {method.name for method in study.methods if method.patterns}
    references = [name for name in project.reference_names() if name not in own]
    beside = {name: project.transform(name) for name in references if name not in present}
    comparison = replace(
        project_comparison(project, {**present, **beside}),
        panel=tuple(name for name in (*present, *beside) if name in (*references, *study.references)),
        problems={name: one for name, one in read.items() if isinstance(one, str)},
    )
    placements = comparison.annotations.moving_points[None]
    return OpenedPair(comparison, placements, grids, project_centre(project, study.settings.centre))


def _project_transform(project: Project, method: Method) -> Transform | str:
    """Read the transform of that name within a project, or return why it is missing."""
    if method.name not in project.transform_names():
        return f"the project {project.folder.name!r} has no transform {method.name!r}"
    try:
        return project.transform(method.name, options=method.options)
    except WarpgaugeError as error:
        return str(error)


def method_files(study: Study, pair: Pair, method: Method) -> list[Path] | str:
    """Return the files of a method for a pair, or the reason why it is missing."""
    found: list[Path] = []
    if method.transform == (IDENTITY,):
        return found
    for pattern in method.patterns:
        filled = fill(pattern, glob.escape(pair.name), glob.escape(method.name))
        # Not Path.glob, which refuses absolute patterns.
        matches = sorted(glob.glob(filled, root_dir=study.folder))  # noqa: PTH207
        shown = fill(pattern, pair.name, method.name)
        if len(matches) > 1:
            return f"the pattern {shown!r} fits {len(matches)} files; it has to fit one"
        if not matches:
            return f"there is no file {shown!r}"
        found.append(study.folder / matches[0])
    return found


def read_method(
    study: Study, pair: Pair, method: Method, grids: tuple[Grid | None, Grid | None], d: int
) -> Transform | str:
    """Read a method's transform of a pair, or return why it is missing; ``"identity"`` means no registration."""
    if method.transform == (IDENTITY,):
        return AffineTransform(np.eye(d), np.zeros(d), IDENTITY)
    files = method_files(study, pair, method)
    if isinstance(files, str):
        return files
    fixed, moving = grids
    options: dict[str, Any] = dict(method.options)
    try:
        if method.mapped_landmarks is None:
            source = files[0] if len(files) == 1 else list(files)
            return read_transform(source, reference=fixed, moving=moving, **options)
        if pair.landmarks is None:
            raise InvalidInputError(f"The pair {pair.name!r} has no landmarks that could have been mapped.")
        points, mapped = mapped_landmarks(files[0], pair, method, {"fixed_grid": fixed, "moving_grid": moving})
    except WarpgaugeError as error:
        return str(error)
    note = "The method gave mapped landmarks, so that it is known at the landmarks alone."
    return MappedPoints(points, mapped, notes=(note,)).described(format="mapped landmarks", source=files[0].name)


def read_grid(path: Path) -> Grid:
    """Return the grid of an image, or of a file ``*.grid.json`` with its size, spacing, origin, direction and units."""
    if not path.name.endswith(GRID_SUFFIX):
        return read_image(path).grid
    try:
        return grid_from_dict(json.loads(read_text(path, "grid")))
    except (ValueError, KeyError, TypeError, RecursionError, InvalidInputError) as error:
        raise FileFormatError(
            f"{path.name!r} is not a grid: it needs size, spacing, origin, direction and units as JSON."
        ) from error


def pair_grids(pair: Pair) -> tuple[Grid | None, Grid | None]:
    """Return the grids of a pair's images."""
    fixed = None if pair.fixed is None else read_grid(pair.fixed)
    moving = None if pair.moving is None else read_grid(pair.moving)
    return fixed, moving


def pair_annotations(
    pair: Pair, settings: StudySettings, fixed: Grid | None, moving: Grid | None
) -> tuple[Annotations, Floats]:
    """Return the annotations of a pair that is not a project, and each rater's moving points."""
    assert pair.landmarks is not None
    landmarks = read_landmarks(
        pair.landmarks, pair.moving_landmarks, fixed_grid=fixed, moving_grid=moving, **pair.landmark_options
    )
    if pair.raters:
        return _fused(pair, landmarks, fixed, moving)
    sd = settings.sd if pair.sd is None else pair.sd
    if sd is None and not landmarks.has_covariance[landmarks.active].all():
        raise InvalidInputError(
            f"Landmarks of the pair {pair.name!r} carry no covariance; give sd (their standard deviation in world "
            "units) in [settings] or in the pair."
        )
    annotations = Annotations(*landmarks.to_annotation_arrays(None if sd is None else sd**2))
    return annotations, annotations.moving_points[None]


def _fused(pair: Pair, first: Landmarks, fixed: Grid | None, moving: Grid | None) -> tuple[Annotations, Floats]:
    """Fuse the moving points of all raters of a pair; their scatter says how uncertain they are."""
    if first.moving_points is None:
        raise InvalidInputError(f"The landmarks of the pair {pair.name!r} are points of one image alone.")
    active = np.flatnonzero(first.active)
    start = first.fixed_points[active]
    placed = [first.moving_points[active]]
    for file in pair.raters:
        other = read_landmarks(file, fixed_grid=fixed, moving_grid=moving, **pair.landmark_options)
        rows = _same_rows(pair, first, other, file)[active]
        if other.moving_points is None:
            raise InvalidInputError(f"{file.name!r} of the pair {pair.name!r} lists points of one image alone.")
        known = rows >= 0
        if not np.allclose(other.fixed_points[rows[known]], start[known], rtol=1e-6, atol=1e-6):
            raise InvalidInputError(
                f"The raters of the pair {pair.name!r} did not answer for the same fixed points: those of "
                f"{file.name!r} differ from the first rater's."
            )
        points = np.full(start.shape, np.nan)
        points[known] = np.where(other.active[rows[known], None], other.moving_points[rows[known]], np.nan)
        placed.append(points)
    fused = fuse_raters(placed)
    return Annotations(start, fused.points, fused.covariances), np.stack(placed)


def _same_rows(pair: Pair, first: Landmarks, other: Landmarks, file: Path) -> Ints:
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


def pair_targets(pair: Pair, settings: StudySettings, fixed: Grid | None) -> Floats:
    """Return the targets of a pair that is not a project."""
    if pair.targets is not None:
        return targets_from_file(pair.targets, grid=fixed)
    if fixed is None:
        raise InvalidInputError(f"The pair {pair.name!r} has neither a fixed image nor a file of targets.")
    if pair.mask is None:
        return targets_from_domain(fixed, settings.targets)
    image = read_image(pair.mask)
    if image.grid.shape != fixed.shape:
        raise InvalidInputError(
            f"The mask of the pair {pair.name!r} has the size {image.grid.size}, but its fixed image {fixed.size}."
        )
    mask = image.read()
    return targets_from_mask(mask, fixed, min(settings.targets, int(np.count_nonzero(mask))), seed=settings.seed)


def _posterior(annotations: Annotations, targets: Floats, fixed: Grid | None) -> Any:
    """Return the default model about where the fixed image lies, or the points where there is no image."""
    if fixed is not None:
        return default_posterior(annotations, fixed.extent, SMALLEST * fixed.pixel, center=fixed.centre)
    points = np.concatenate([targets, annotations.fixed_points])
    low = points.min(axis=0)
    high = points.max(axis=0)
    longest = float(np.linalg.norm(high - low))
    if longest == 0:
        raise InvalidInputError("All landmarks and targets of a pair lie at one point; check its files.")
    smallest = longest / _SHARE_OF_EXTENT
    # A flat set of points still has a frame: no side is shorter than the smallest scale.
    return default_posterior(annotations, np.maximum(high - low, smallest), smallest, center=(low + high) / 2)
