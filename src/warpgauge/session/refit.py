"""Learning the weights: from the project's own annotations as they come, or from other projects.

In the default model the weights are averaged over a power law's amplitude and slope, given the annotations
(:func:`~warpgauge.core.power_law.fit_power_law`). That needs no shrinkage: a leave-one-out fit of all weights to the
first 10 annotations is overconfident. The paper's model, where a fit is asked for, has its leave-one-out fit.

The extra noise is not learned unless asked for: annotations that lie farther apart than the smallest scale cannot tell
noise from deformation at that scale, and what is called noise is left out of the posterior at the targets, so that the
error would be overconfident.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.hyperparameters import fit_kernel
from warpgauge.core.power_law import fit_power_law
from warpgauge.core.process import TransformationPrior
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import PathLike
from warpgauge.project import ConflictError, Project, Settings, State
from warpgauge.project.events import Fit
from warpgauge.session.fused_annotations import LocatedAnnotations, located_annotations, standing_marks
from warpgauge.session.model import Model
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
    return FEWEST if fit is None else next_step(fit.annotations)


def next_step(last: int) -> int:
    """Return the number of annotations at which weights are learned after so many."""
    return max(FEWEST, last + 1, int(np.ceil(last * GROWTH)))


def refit_steps(count: int) -> tuple[int, int]:
    """Return the last number of annotations up to ``count`` at which weights are learned (0 for none), and the next."""
    step, following = 0, next_step(0)
    while following <= count:
        step, following = following, next_step(following)
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
    fitted = fitted_prior(project, [located.annotations], noise)
    marks = sorted(mark.generation for group in located.marks for mark in group)
    return fit_event(
        fitted,
        PROGRAM,
        source="annotations",
        annotations=count,
        rests_on=marks,
        fitted_noise=noise,
        replaces=state.fits[-1].generation if state.fits else 0,
    )


def trained_fit(project: Project, others: Sequence[Project], noise: bool, rater: str) -> Fit:
    """Fit the weights to the annotations of other projects and describe the result for the log."""
    if not others:
        raise InvalidInputError("Learning from other projects needs at least one of them.")
    sets, sources = [], []
    for other in others:
        found = _shifted(project, other)
        sets.append(found)
        sources.append(
            {
                "project": other.id,
                "name": other.folder.resolve().name,
                "log": other.fingerprint(),
                "annotations": len(found),
            }
        )
    fitted = fitted_prior(project, sets, noise, of_others=True)
    total = sum(len(found) for found in sets)
    return fit_event(fitted, rater, source="projects", annotations=total, projects=sources, fitted_noise=noise)


def _shifted(project: Project, other: Project) -> Annotations:
    """Return another project's annotations, moved so that the middles of the fixed images coincide.

    Fixed and moving points are moved alike, which leaves displacements as they are and makes the affine trend of both
    act about the same point.
    """
    name = other.folder.resolve().name
    if (other.d, other.units) != (project.d, project.units):
        raise InvalidInputError(
            f"The project {name!r} is {other.d}D in {other.units}, this one {project.d}D in {project.units}; weights "
            f"can only be learned in the same dimension and unit."
        )
    default = default_covariance(other.fixed_grid, other.settings)
    found = located_annotations(other.state, other.d, default).annotations
    if len(found) < FEWEST:
        raise InvalidInputError(
            f"The project {name!r} has {counted(len(found), 'annotation')}; learning from it needs at least {FEWEST}."
        )
    shift = project.fixed_grid.centre - other.fixed_grid.centre
    return Annotations(found.fixed_points + shift, found.moving_points + shift, np.asarray(found.covariances))


class Refitter:
    """The part of a session that learns the weights; ``notes`` lists harmless failures."""

    def __init__(self, model: Model) -> None:
        self.project = model.project
        self.model = model
        self.notes: list[str] = []
        self._busy = threading.Lock()
        self._failed_at = 0

    def refit(self, noise: bool = False) -> Fit | None:
        """Refit the weights to the annotations and log them; None where another process did meanwhile."""
        with self.project.lock:
            state = self.project.state.copy()
        return self._refit(state, noise)

    def _refit(self, state: State, noise: bool) -> Fit | None:
        """Refit to the annotations of a state; None where its last fit has been replaced meanwhile."""
        located = located_annotations(state, self.project.d, self.model.default_covariance)
        try:
            return self._log(own_fit(self.project, located, state, noise))
        except ConflictError:
            return None

    def _log(self, fit: Fit) -> Fit:
        written = self.project.append(fit)[0]
        assert isinstance(written, Fit)
        return written

    def refit_if_due(self) -> Fit | None:
        """Refit when the number of annotations has reached the next step; a failure goes to ``notes``."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            with self.project.lock:
                state = self.project.state
                due = next_refit(self.project.settings, self.model.fit(state))
                count = 0 if due is None else len(standing_marks(state))
                if due is None or count < due or state.model_generation == self._failed_at or self.project.readonly:
                    return None
                # The state that says so is the one to fit to: in a later one another process may have refitted.
                state = state.copy()
            try:
                return self._refit(state, noise=False)
            except WarpgaugeError as error:
                self._failed_at = state.model_generation
                self.notes.append(f"The weights could not be refitted to {counted(count, 'annotation')}: {error}")
                return None
        finally:
            self._busy.release()

    def fit_from(self, others: Sequence[Project | PathLike], noise: bool, rater: str) -> Fit:
        """Learn the weights from other projects; from then on they are not refitted automatically."""
        opened = [other if isinstance(other, Project) else Project.open(other, check_images=False) for other in others]
        try:
            if any(other.id == self.project.id for other in opened):
                raise InvalidInputError("A project cannot be among the other projects that it learns from.")
            fit = trained_fit(self.project, opened, noise, rater)
        finally:
            for given, project in zip(others, opened, strict=True):
                if not isinstance(given, Project):
                    project.close()
        return self._log(fit)
