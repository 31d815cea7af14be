"""Learning the weights: from the project's own annotations as they come, or from other projects.

In the default model the weights are averaged over a power law's amplitude and slope, given the annotations
(:func:`~warpgauge.core.power_law.fit_power_law`). That needs no shrinkage: a leave-one-out fit of all weights to the
first 10 annotations is overconfident. The paper's model, where a fit is asked for, has its leave-one-out fit.

The extra noise is not learned unless asked for: annotations that lie farther apart than the smallest scale cannot tell
noise from deformation at that scale, and what is called noise is left out of the posterior at the targets, so that the
error would be overconfident.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.hyperparameters import fit_kernel
from warpgauge.core.power_law import fit_power_law
from warpgauge.core.process import TransformationPrior
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import PathLike
from warpgauge.project import Project, Settings, State
from warpgauge.project.events import Fit
from warpgauge.session.fused_annotations import LocatedAnnotations, located_annotations
from warpgauge.session.prior import PAPER, default_covariance, default_prior, fit_event
from warpgauge.session.queries import PROGRAM

FEWEST = 3
GROWTH = 1.5  # from one number of annotations at which weights are refitted to the next


def next_refit(settings: Settings, fit: Fit | None) -> int | None:
    """Return at how many annotations the weights are refitted next, given the fit in force; None for never.

    Where the last fit rests on an answer that was taken back or changed since, that is at once.
    """
    if settings.refit == "never" or settings.model == PAPER or (fit and fit.from_projects):
        return None
    return FEWEST if fit is None else _next_step(fit.annotations)


def _next_step(last: int) -> int:
    return max(FEWEST, last + 1, int(np.ceil(last * GROWTH)))


def refit_steps(count: int) -> tuple[int, int]:
    """Return the last number of annotations up to ``count`` at which weights are learned (0 for none), and the next."""
    step = 0
    following = _next_step(0)
    while following <= count:
        step = following
        following = _next_step(step)
    return step, following


def fitted_prior(
    project: Project, sets: Sequence[Annotations], noise: bool, *, of_others: bool = False
) -> TransformationPrior:
    """Return the project's prior with weights learned from the sets, by the method of its model.

    Regions are the project's own: they say nothing about annotations of other projects.
    """
    regions = None if of_others else project.regions
    initial = default_prior(project.fixed_grid, project.settings, regions)
    if project.settings.model == PAPER:
        return fit_kernel(initial, sets, noise)
    return fit_power_law(initial, sets, project.fixed_grid.extent, noise)


def own_fit(project: Project, located: LocatedAnnotations, state: State, noise: bool) -> Fit:
    """Fit the weights to the project's own annotations and describe the result for the log."""
    count = len(located)
    if count < FEWEST:
        raise InvalidInputError(f"Refitting the weights needs at least {FEWEST} annotations, there are {count}.")
    return fit_event(
        fitted_prior(project, [located.annotations], noise),
        PROGRAM,
        source="annotations",
        annotations=count,
        rests_on=sorted(located.generations),
        fitted_noise=noise,
        replaces=state.fits[-1].generation if state.fits else 0,
    )


def trained_fit(project: Project, others: Sequence[Project | PathLike], noise: bool, rater: str) -> Fit:
    """Fit the weights to the annotations of other projects and describe the result for the log."""
    if not others:
        raise InvalidInputError("Learning from other projects needs at least one of them.")
    sets = []
    sources = []
    with ExitStack() as stack:
        for source in others:
            if isinstance(source, Project):
                other = source
            else:
                other = stack.enter_context(Project.open(source, check_images=False))
            annotations = _shifted(project, other)
            sets.append(annotations)
            sources.append(
                {
                    "project": other.id,
                    "name": other.folder.resolve().name,
                    "log": other.fingerprint(),
                    "annotations": len(annotations),
                }
            )
    fitted = fitted_prior(project, sets, noise, of_others=True)
    total = sum(len(annotations) for annotations in sets)
    return fit_event(fitted, rater, source="projects", annotations=total, projects=sources, fitted_noise=noise)


def _shifted(project: Project, other: Project) -> Annotations:
    """Return another project's annotations, moved so that the middles of the fixed images coincide.

    Fixed and moving points are moved alike, which leaves displacements as they are and makes the affine trend of both
    act about the same point.
    """
    name = other.folder.resolve().name
    if other.id == project.id:
        raise InvalidInputError("A project cannot be among the other projects that it learns from.")
    if (other.d, other.units) != (project.d, project.units):
        raise InvalidInputError(
            f"The project {name!r} is {other.d}D in {other.units}, this one {project.d}D in {project.units}; weights "
            f"can only be learned in the same dimension and unit."
        )
    default = default_covariance(other.fixed_grid, other.settings)
    annotations = located_annotations(other.state, other.d, default).annotations
    if len(annotations) < FEWEST:
        raise InvalidInputError(
            f"The project {name!r} has {counted(len(annotations), 'annotation')}; learning from it needs at least "
            f"{FEWEST}."
        )
    shift = project.fixed_grid.centre - other.fixed_grid.centre
    return Annotations(
        annotations.fixed_points + shift, annotations.moving_points + shift, np.asarray(annotations.covariances)
    )
