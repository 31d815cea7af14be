"""Learning the weights from the project's own annotations as they come.

In the default model the weights are averaged over a power law's amplitude and slope, given the annotations
(:func:`~warpgauge.core.power_law.fit_power_law`). That needs no shrinkage: a leave-one-out fit of all weights to the
first 10 annotations is overconfident. The paper's model, where a fit is asked for, has its leave-one-out fit.

The extra noise is not learned: annotations that lie farther apart than the smallest scale cannot tell
noise from deformation at that scale, and what is called noise is left out of the posterior at the targets, so that the
error would be overconfident.
"""

from __future__ import annotations

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.hyperparameters import fit_kernel
from warpgauge.core.power_law import fit_power_law
from warpgauge.core.process import TransformationPrior
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project, Settings, State
from warpgauge.project.events import Fit
from warpgauge.session.fused_annotations import LocatedAnnotations
from warpgauge.session.prior import PAPER, default_prior, fit_event
from warpgauge.session.queries import PROGRAM

FEWEST = 3
GROWTH = 1.5  # from one number of annotations at which weights are refitted to the next


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
    return fit_power_law(initial, [annotations], project.fixed_grid.extent)


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
