"""The model of a project as it stands: the prior in force, and posteriors that grow with the annotations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from warpgauge.core.annotations import Annotations, warn_of_one_spot
from warpgauge.core.power_law import fitted_posterior
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.core.slips import Screening, screen
from warpgauge.geometry import Floats
from warpgauge.project import Project, State
from warpgauge.project.events import Fit
from warpgauge.session.answer_chances import Anchors, Chances
from warpgauge.session.fused_annotations import LocatedAnnotations, located_annotations
from warpgauge.session.live_suggester import LiveSuggester, wanted_records
from warpgauge.session.prior import PAPER, aligned, current_prior, default_covariance, fit_in_force

# Beyond so many annotations a few slips no longer change the weights, and learning them anew takes too long.
_MOST_LEARNED = 60


@dataclass(frozen=True, eq=False)
class View:
    """Annotations of one rater (or of all, fused), and the posterior given them, made when it is asked for first."""

    located: LocatedAnnotations
    prior: TransformationPrior
    calibrates: bool
    """Whether the residuals scale the deviations."""

    @cached_property
    def posterior(self) -> Posterior:
        """Posterior given the annotations.

        From scratch, never by an update: how it was reached must not show in its last digits.
        """
        return self.prior.condition(self.located.annotations, calibrate=self.calibrates)

    def without(self, locations: Collection[int]) -> View:
        """Return the view of the annotations at all other locations, with the same weights."""
        located = self.located.without(locations)
        return self if len(located) == len(self.located) else replace(self, located=located)


def view_of(project: Project, rater: str | None = None) -> View:
    """Return the annotations of all raters, fused, or of one, with the posterior given them."""
    with project.lock:
        return Model(project).view(project.state, rater)


class Model:
    """Everything computed from a project's state, brought up to date when it is asked for."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._made: dict[Hashable, tuple[object, Any]] = {}
        self._screenings: WeakKeyDictionary[View, Screening | None] = WeakKeyDictionary()

    @property
    def default_covariance(self) -> Floats:
        """Covariance of a plain click."""
        return default_covariance(self.project.fixed_grid, self.project.settings)

    def _kept(self, name: Hashable, key: object, make: Callable[[], Any]) -> Any:
        """Return the value of a name as it was made last, or made now where what it depends on, the key, is another."""
        former = self._made.get(name)
        if former is None or former[0] != key:
            former = self._made[name] = key, make()
        return former[1]

    # The prior

    def fit(self, state: State) -> Fit | None:
        """Return the current fit, or None for the initial weights."""
        fit: Fit | None = self._kept("fit", (state.model_generation, len(state.fits)), lambda: fit_in_force(state))
        return fit

    def _key(self, state: State) -> object:
        """Return what the prior depends on: the current fit, the settings, and an accepted alignment."""
        fit = self.fit(state)
        return None if fit is None else fit.generation, self.project.settings, aligned(state)

    def prior(self, state: State) -> TransformationPrior:
        """Return the current prior."""
        prior: TransformationPrior = self._kept(
            "prior", self._key(state), lambda: current_prior(self.project, self.fit(state))
        )
        return prior

    def untaught_prior(self, state: State) -> TransformationPrior:
        """Return the prior that no answer of this project has changed: initial weights, or those learned elsewhere."""
        return current_prior(self.project, next((fit for fit in reversed(state.fits) if not fit.rests_on), None))

    def untaught_key(self, state: State) -> tuple[object, ...]:
        """Return what `untaught_prior` depends on."""
        return sum(not fit.rests_on for fit in state.fits), self.project.settings, aligned(state)

    def learns(self, state: State) -> bool:
        """Return whether weights are learned from the answers of this project."""
        settings = self.project.settings
        taught = any(not fit.rests_on for fit in state.fits)
        return settings.refit != "never" and settings.model != PAPER and not taught

    # Posteriors

    @property
    def calibrates(self) -> bool:
        """Whether residuals scale the deviations."""
        return self.project.settings.model != PAPER

    def view(self, state: State, rater: str | None = None) -> View:
        """Return the posterior given one rater's annotations, or all raters' fused ones."""

        def make() -> View:
            located = located_annotations(state, self.project.d, self.default_covariance, rater)
            warn_of_one_spot(located.annotations, float(prior.kernel.scales.min()))
            return View(located, prior, self.calibrates)

        prior = self.prior(state)
        view: View = self._kept(("view", rater), (prior, state.model_generation), make)
        return view

    def view_with_sealed(self, state: State, rater: str | None = None) -> View:
        """Return a view whose uncertainty includes sealed answers, so that progress does not reveal them."""

        def make() -> View:
            located = located_annotations(state, self.project.d, self.default_covariance, rater, sealed=True)
            return self.counting_sealed(state, view, located)

        view = self.view(state, rater)
        if not state.sealed_locations():
            return view
        counting: View = self._kept(("sealed", rater), (view, state.model_generation), make)
        return counting

    def counting_sealed(self, state: State, view: View, located: LocatedAnnotations) -> View:
        """Return the view of annotations with sealed ones among them, each as if it lay where ``view`` predicts it."""
        annotations = located.annotations
        hidden = np.array([state.is_sealed(location) for location in located.locations], dtype=bool)
        if not hidden.any():
            return view
        moving = annotations.moving_points.copy()
        moving[hidden] = view.posterior.mean(annotations.fixed_points[hidden])
        predicted = Annotations(annotations.fixed_points, moving, np.asarray(annotations.covariances))
        return replace(view, located=replace(located, annotations=predicted))

    def screening(self, state: State, view: View) -> Screening | None:
        """Return what the annotations of a view say about each other; None where they are too few."""
        if view not in self._screenings:
            annotations = view.located.annotations
            self._screenings[view] = screen(annotations, self._learning(state, view, len(annotations)))
        return self._screenings[view]

    def _learning(self, state: State, view: View, count: int) -> Callable[[Annotations], Posterior]:
        """Return what conditions on some of so many annotations: few of them teach the weights, if any are learned."""
        if count > _MOST_LEARNED:
            return partial(view.prior.condition, calibrate=view.calibrates)
        prior = self.untaught_prior(state)
        if not self.learns(state):
            return partial(prior.condition, calibrate=view.calibrates)
        return partial(fitted_posterior, prior, extent=self.project.fixed_grid.extent)

    # Suggestions

    def apart(self, state: State) -> bool:
        """Return whether each rater has a model of their own; then the list of places depends on nobody's answers."""
        return self.project.settings.blind and state.has_raters

    @cached_property
    def chances(self) -> Chances:
        """Chances that places can be answered."""
        return Chances(self.project, Anchors.among(self.project.candidates))

    def suggester(self, state: State) -> LiveSuggester:
        """Return the live suggester, up to date."""

        def make() -> LiveSuggester:
            prior = self.untaught_prior(state) if fixed else self.prior(state)
            chances = self.chances if self.project.settings.strategy == "information" else None
            return LiveSuggester(self.project, prior, self.default_covariance, chances)

        fixed = self.apart(state)
        key = self.untaught_key(state) if fixed else self._key(state)
        suggester: LiveSuggester = self._kept("suggester", key, make)
        suggester.follow(wanted_records(state, self.default_covariance, with_answers=not fixed))
        suggester.close(state, with_answers=not fixed)
        suggester.weigh(State() if fixed else state, lambda: self.expected(state))
        return suggester

    def expected(self, state: State) -> Posterior:
        """Return by what questions are chosen and drawn: the answers, or nothing where places depend on none."""
        if not self.apart(state):
            return self.view(state, None).posterior
        return self.untaught_prior(state).condition(Annotations.empty(self.project.d))
