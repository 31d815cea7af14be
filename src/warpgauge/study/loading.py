"""From the description of a pair to a posterior, targets and transforms."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.candidates import targets_from_domain, targets_from_file, targets_from_mask
from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.hyperparameters import fit_kernel
from warpgauge.core.kernels import KernelBundle
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.geometry import Grid
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import read_landmarks
from warpgauge.io.transforms import Transform, read_transform
from warpgauge.project import Project
from warpgauge.study.description import MethodSpec, ModelSettings, PairSpec, Study, StudySettings, fill

_PIXELS = 10.0
_SHARE_OF_EXTENT = 64.0
# Fitting needs more annotations than the affine trend has coefficients.
_FEWEST_TO_FIT = 8


@dataclass(frozen=True, eq=False)
class LoadedPair:
    """What one pair's evaluation needs."""

    annotations: Annotations
    targets: Floats
    fixed: Grid | None
    moving: Grid | None


def load_pair(pair: PairSpec, settings: StudySettings) -> LoadedPair:
    """Read landmarks, grids and targets of a pair that is not a project."""
    fixed = None if pair.fixed is None else read_image(pair.fixed).grid
    moving = None if pair.moving is None else read_image(pair.moving).grid
    if pair.landmarks is None:
        raise InvalidInputError(f"The pair {pair.name!r} has no landmarks.")
    landmarks = read_landmarks(
        pair.landmarks, pair.moving_landmarks, fixed_grid=fixed, moving_grid=moving, **pair.landmark_options
    )
    sd = settings.sd if pair.sd is None else pair.sd
    if sd is None and not landmarks.has_covariance[landmarks.active].all():
        raise InvalidInputError(
            f"Landmarks of the pair {pair.name!r} carry no covariance; give sd (their standard deviation in world "
            "units) in [settings] or in the pair."
        )
    annotations = Annotations(*landmarks.to_annotation_arrays(None if sd is None else sd**2))
    return LoadedPair(annotations, _targets(pair, settings, fixed), fixed, moving)


def _targets(pair: PairSpec, settings: StudySettings, fixed: Grid | None) -> Floats:
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
    count = min(settings.targets, int(np.count_nonzero(mask)))
    return targets_from_mask(mask, fixed, count, seed=settings.seed)


def starting_prior(loaded: LoadedPair, model: ModelSettings) -> TransformationPrior:
    """Prior before learning: scales double from the smallest to the extent, with equal weights.

    Together the weights are the mean squared displacement that an affine map leaves (all of it for an identity mean).
    """
    points = np.concatenate([loaded.targets, loaded.annotations.fixed_points])
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    smallest = model.smallest_scale
    if smallest is None:
        smallest = _PIXELS * float(loaded.fixed.spacing.mean()) if loaded.fixed else extent / _SHARE_OF_EXTENT
    levels = max(1, 1 + int(np.ceil(np.log2(max(extent / smallest, 1.0)))))
    given = loaded.annotations
    left = given.moving_points - given.fixed_points
    if model.mean == "affine" and len(given) > given.d + 1:
        design = np.column_stack([np.ones(len(given)), given.fixed_points])
        left = left - design @ np.linalg.lstsq(design, left, rcond=None)[0]
    spread = float(np.mean(np.square(left))) if len(given) else 0.0
    noise = float(np.mean(np.trace(given.covariances, axis1=1, axis2=2))) / given.d if len(given) else 1.0
    kernel = KernelBundle.pyramid(
        model.family, smallest=smallest, levels=levels, weight=max(spread, noise, 1e-12 * smallest**2) / levels
    )
    center = points.mean(axis=0) if model.mean == "affine" else None
    return TransformationPrior(kernel, mean="affine" if model.mean == "affine" else "identity", center=center)


def pair_posterior(
    loaded: LoadedPair, model: ModelSettings, learned: tuple[Sequence[float], float] | None = None
) -> Posterior:
    """Condition on a pair's annotations, with weights learned here, or given with a noise."""
    prior = starting_prior(loaded, model)
    if learned is not None:
        prior = prior.with_kernel(prior.kernel.with_weights(learned[0]), learned[1])
    elif model.fit == "pair" and len(loaded.annotations) >= _FEWEST_TO_FIT:
        prior = fit_kernel(prior, loaded.annotations, noise=model.noise)
    return prior.condition(loaded.annotations, calibrate=model.calibrate)


def fit_together(loaded: Sequence[LoadedPair], model: ModelSettings) -> tuple[list[float], float]:
    """Weights (and noise) learned on all pairs at once, with the scales of the first."""
    prior = starting_prior(loaded[0], model)
    scales = {tuple(starting_prior(one, model).kernel.scales) for one in loaded}
    if len(scales) > 1:
        raise InvalidInputError(
            "fit = 'together' needs the same scales in all pairs, but their images differ; give smallest_scale, and "
            "pairs of one size, or use fit = 'pair'."
        )
    fitted = fit_kernel(prior, [one.annotations for one in loaded], noise=model.noise)
    return fitted.kernel.weights.tolist(), float(fitted.noise)


def transform_files(study: Study, pair: PairSpec, method: MethodSpec) -> list[Path] | str:
    """Files of a method's transform for a pair, or the reason why it is missing."""
    found = []
    for pattern in method.transform:
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


def read_method(files: Sequence[Path], method: MethodSpec, fixed: Grid | None, moving: Grid | None) -> Transform | str:
    """Read a transform, or say why it cannot be read."""
    options: dict[str, Any] = dict(method.options)
    try:
        source = files[0] if len(files) == 1 else list(files)
        return read_transform(source, reference=fixed, moving=moving, **options)
    except WarpgaugeError as error:
        return str(error)


def project_transform(project: Project, method: MethodSpec) -> Transform | str:
    """Read the transform of that name within a project, or say why it is missing."""
    record = project.state.transforms.get(method.name)
    if record is None:
        return f"the project {project.folder.name!r} has no transform {method.name!r}"
    files = [project.folder / file for file in record.files]
    spec = MethodSpec(method.name, (), {**record.options, **method.options})
    return read_method(files, spec, project.fixed_grid, project.moving_grid)
