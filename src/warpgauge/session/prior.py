"""The prior of a project: sensible before anything is learned, then with the weights that the answers teach.

Scales double from ``smallest_scale_px`` pixels (times the geometric mean of the fixed image's spacing) until one
reaches the longest side of the image. The default model (:mod:`warpgauge.core.power_law`) has an affine trend about
the middle of the image, weights that follow a power law of the scale, and Student-t tails. The paper's model has the
identity as its mean and Gaussian tails; as it does not say what weights to begin with, they grow with the square of
the scale, as smooth deformations do, and add up to the square of 2 % of the image's diagonal.

Weights are averaged over a power law's amplitude and slope, given the annotations. That needs no shrinkage: a
leave-one-out fit of all weights to the first 10 annotations is overconfident. The paper's model, where a fit is asked
for, has its leave-one-out fit. The extra noise is not learned: annotations that lie farther apart than the smallest
scale cannot tell it from deformation at that scale, and what is called noise is left out of the posterior at the
targets, so that the error would be overconfident.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from warpgauge.core import power_law
from warpgauge.core.annotations import Annotations, confidence_radius
from warpgauge.core.hyperparameters import fit_kernel
from warpgauge.core.kernels import KernelBundle, Regions
from warpgauge.core.process import TransformationPrior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.project import Project, Settings, State
from warpgauge.project.events import Fit
from warpgauge.project.values import PROGRAM
from warpgauge.session.fused_annotations import LocatedAnnotations, standing_marks

TYPICAL_SHARE = 0.02
# Uncertainty of an accepted rough alignment: of its shift, as a share of the diagonal, and of each matrix entry.
ALIGNED_SHARE, ALIGNED_LINEAR_SD = 0.1, 0.2
PAPER = "paper"
FEWEST = 3
GROWTH = 1.5  # from one number of annotations at which weights are refitted to the next


def aligned(state: State) -> int | None:
    """Return the generation at which a rough alignment of the two images was accepted, or None."""
    record = state.alignment
    return record.generation if record is not None and record.accepted else None


def default_prior(grid: Grid, settings: Settings, regions: Regions | None = None) -> TransformationPrior:
    """Return the prior of a project that has learned nothing yet."""
    smallest = settings.smallest_scale_px * grid.pixel
    if settings.model != PAPER:
        return power_law.default_prior(
            grid.extent, center=grid.centre, smallest=smallest, family=settings.family, regions=regions
        )
    scales = power_law.doubling_scales(smallest, float(grid.extent.max()))
    weights = (TYPICAL_SHARE * grid.diagonal) ** 2 * scales**2 / np.sum(scales**2)
    return TransformationPrior(KernelBundle(settings.family, scales, weights))


def fit_in_force(state: State) -> Fit | None:
    """Return the last fit where its annotations are all unchanged, or None for the initial weights."""
    last = state.fits[-1] if state.fits else None
    standing = {mark.generation for marks in standing_marks(state).values() for mark in marks}
    return last if last is not None and standing.issuperset(last.rests_on) else None


def current_prior(project: Project, fit: Fit | None) -> TransformationPrior:
    """Return the prior with the weights of the current fit, if there is one."""
    prior = default_prior(project.fixed_grid, project.settings, project.regions)
    alignment = project.alignment
    if alignment is not None and project.settings.model != PAPER:
        # Twice as wide as the narrow trend of nearly aligned images: a person has accepted the alignment.
        shift_sd = ALIGNED_SHARE * project.fixed_grid.diagonal
        prior = replace(prior, about=alignment.map, translation_sd=shift_sd, linear_sd=ALIGNED_LINEAR_SD)
    if fit is None:
        return prior
    kernel = KernelBundle(fit.family, fit.scales, fit.weights)
    if project.regions is not None:
        # Weights that were learned elsewhere say nothing of what slides here: the prior's share stays.
        own = fit.own or np.full(len(fit.scales), prior.kernel.own_share)
        kernel = kernel.with_own(project.regions, own)
    return with_weights(prior, kernel, (fit.linear_sd, fit.translation_sd), fit.noise)


def with_weights(
    prior: TransformationPrior, kernel: KernelBundle, trend: tuple[Any, Any], noise: float
) -> TransformationPrior:
    """Return the prior with learned weights, standard deviations of the trend (linear, shift) and noise."""
    return replace(prior, linear_sd=trend[0], translation_sd=trend[1]).with_kernel(kernel, noise)


def default_covariance(grid: Grid, settings: Settings) -> Floats:
    """Covariance of a plain click: the disc or ball of the default radius at the project's level."""
    sd = default_radius(grid, settings) / confidence_radius(grid.d, settings.alpha)
    return np.asarray(sd**2 * np.eye(grid.d))


def default_radius(grid: Grid, settings: Settings) -> float:
    """Radius of a plain click in world units; a tenth of the smallest scale unless the settings say otherwise."""
    if settings.default_radius is not None:
        return settings.default_radius
    return 0.1 * settings.smallest_scale_px * grid.pixel


def fit_event(prior: TransformationPrior, rater: str, **provenance: Any) -> Fit:
    """Return the event that logs a fitted prior, with where its weights came from."""
    kernel = prior.kernel
    return Fit(
        rater=rater,
        family=kernel.family,
        scales=kernel.scales.tolist(),
        weights=kernel.weights.tolist(),
        noise=float(prior.noise),
        own=() if kernel.regions is None else kernel.own.tolist(),
        linear_sd=prior.linear_sd,
        translation_sd=prior.translation_sd,
        report=None if prior.fit is None else dict(vars(prior.fit)),
        **provenance,
    )


def next_refit(settings: Settings, fit: Fit | None) -> int | None:
    """Return at how many annotations the weights are refitted next, given the fit in force; None for never.

    Where the last fit rests on an answer that was taken back or changed since, that is at once.
    """
    if settings.refit == "never" or settings.model == PAPER or (fit and not fit.rests_on):
        return None
    return FEWEST if fit is None else _next_step(fit.annotations)


def _next_step(last: int) -> int:
    return max(FEWEST, last + 1, int(np.ceil(last * GROWTH)))


def refit_step(count: int) -> int:
    """Return the last number of annotations up to ``count`` at which weights are learned; 0 for none."""
    step = 0
    following = _next_step(step)
    while following <= count:
        step = following
        following = _next_step(step)
    return step


def fitted_prior(project: Project, annotations: Annotations) -> TransformationPrior:
    """Return the project's prior with weights learned from annotations, by the method of its model."""
    initial = default_prior(project.fixed_grid, project.settings, project.regions)
    if project.settings.model == PAPER:
        return fit_kernel(initial, [annotations])
    return power_law.fit_power_law(initial, [annotations], project.fixed_grid.extent)


def own_fit(project: Project, located: LocatedAnnotations, state: State) -> Fit:
    """Fit the weights to the project's own annotations and describe the result for the log."""
    count = len(located)
    if count < FEWEST:
        raise InvalidInputError(f"Refitting the weights needs at least {FEWEST} annotations, there are {count}.")
    return fit_event(
        fitted_prior(project, located.annotations),
        PROGRAM,
        annotations=count,
        rests_on=sorted(located.generations),
        replaces=state.fits[-1].generation if state.fits else 0,
    )
