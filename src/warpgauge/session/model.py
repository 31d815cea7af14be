"""The model of a project as it stands: the prior in force, and posteriors that grow with the annotations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from warpgauge.core.annotations import Annotations, warn_of_one_spot
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.geometry import Floats
from warpgauge.project import Project, State
from warpgauge.project.values import FitRecord
from warpgauge.session.answer_chances import Anchors, Chances
from warpgauge.session.fused_annotations import LocatedAnnotations, located_annotations
from warpgauge.session.live_suggester import LiveSuggester, wanted_records
from warpgauge.session.prior import PAPER, aligned, current_prior, default_covariance, fit_in_force


@dataclass(frozen=True, eq=False)
class View:
    """Annotations of one rater (or of all, fused) and the posterior given them, with the generation of its weights."""

    located: LocatedAnnotations
    posterior: Posterior
    fit_generation: int

    def without(self, location: int) -> Posterior:
        """Posterior given the annotations at all other locations: what they say about this one."""
        kept = [row for row, here in enumerate(self.located.locations) if here != location]
        if len(kept) == len(self.located):
            return self.posterior
        others = self.posterior.annotations[np.array(kept, dtype=np.int64)]
        return self.posterior.prior.condition(others, calibrate=self.posterior.calibrates)


class Model:
    """Everything computed from a project's state, brought up to date when it is asked for.

    Parameters
    ----------
    project : Project
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._views: dict[str | None, tuple[int, View]] = {}
        self._sealed_views: dict[str | None, tuple[View, int, View]] = {}
        self._fit: tuple[tuple[int, int], FitRecord | None] | None = None
        self._prior: tuple[tuple[int, object], TransformationPrior] | None = None
        self._live: tuple[tuple[int, object], LiveSuggester] | None = None

    @property
    def default_covariance(self) -> Floats:
        """Covariance of a plain click."""
        return default_covariance(self.project.fixed_grid, self.project.settings)

    def fit(self, state: State) -> FitRecord | None:
        """Return the current fit, or None for the initial weights."""
        key = state.model_generation, len(state.fits)
        if self._fit is None or self._fit[0] != key:
            self._fit = key, fit_in_force(state)
        return self._fit[1]

    def _key(self, state: State) -> tuple[int, object]:
        """Return what the prior depends on: the current fit, the settings, and an accepted alignment."""
        fit = self.fit(state)
        return 0 if fit is None else fit.generation, (self.project.settings, aligned(state))

    def prior(self, state: State) -> TransformationPrior:
        """Return the current prior."""
        key = self._key(state)
        if self._prior is None or self._prior[0] != key:
            self._prior = key, current_prior(self.project, self.fit(state))
            self._views.clear()
        return self._prior[1]

    def view(self, state: State, rater: str | None = None) -> View:
        """Return the posterior given one rater's annotations, or all raters' fused ones."""
        prior = self.prior(state)
        known = self._views.get(rater)
        if known is not None and known[0] == state.model_generation:
            return known[1]
        located = located_annotations(state, self.project.d, self.default_covariance, rater)
        warn_of_one_spot(located.annotations, float(prior.kernel.scales.min()))
        posterior = self._posterior(prior, located.annotations, known[1].posterior if known else None)
        view = View(located, posterior, self._key(state)[0])
        self._views[rater] = state.model_generation, view
        return view

    def view_with_sealed(self, state: State, rater: str | None = None) -> View:
        """Return a view whose uncertainty includes sealed answers, so that progress does not reveal them.

        Each counts at its place with its uncertainty, as if it lay where the other answers predict it.
        """
        view = self.view(state, rater)
        if not state.sealed_locations():
            return view
        known = self._sealed_views.get(rater)
        if known is not None and known[0] is view and known[1] == state.model_generation:
            return known[2]
        located = located_annotations(state, self.project.d, self.default_covariance, rater, sealed=True)
        given = located.annotations
        hidden = np.array([state.is_sealed(location) for location in located.locations], dtype=bool)
        if hidden.any():
            moving = given.moving_points.copy()
            moving[hidden] = view.posterior.mean(given.fixed_points[hidden])
            given = Annotations(given.fixed_points, moving, np.asarray(given.covariances))
        posterior = self._posterior(view.posterior.prior, given, None) if hidden.any() else view.posterior
        found = View(replace(located, annotations=given), posterior, view.fit_generation)
        self._sealed_views[rater] = view, state.model_generation, found
        return found

    def shown(self, state: State, who: str) -> View:
        """Return the view that a rater may see: that of their own answers in a blind project."""
        return self.view(state, who if self.project.settings.blind else None)

    def _posterior(self, prior: TransformationPrior, wanted: Annotations, former: Posterior | None) -> Posterior:
        """Condition by a block update where annotations were only added, else from scratch."""
        if former is not None and former.prior is prior:
            known = former.annotations
            count = len(known)
            if count <= len(wanted) and _same(known, wanted[np.arange(count)]):
                return former if count == len(wanted) else former.append(wanted[np.arange(count, len(wanted))])
        return prior.condition(wanted, calibrate=self.project.settings.model != PAPER)

    def suggester(self, state: State) -> LiveSuggester:
        """Return the live suggester, up to date."""
        key = self._key(state)
        if self._live is None or self._live[0] != key:
            self._live = key, self._new_suggester(self.prior(state))
        return self._followed(self._live[1], state, lambda: self.view(state, None).posterior)

    def prepared(self, state: State) -> tuple[tuple[int, object], LiveSuggester]:
        """Build a suggester for the current fit, without touching the one in use."""
        prior = current_prior(self.project, self.fit(state))
        located = located_annotations(state, self.project.d, self.default_covariance)
        suggester = self._followed(
            self._new_suggester(prior), state, lambda: self._posterior(prior, located.annotations, None)
        )
        suggester.best(1)  # brings the gains up to date, which is most of the work
        return self._key(state), suggester

    def _new_suggester(self, prior: TransformationPrior) -> LiveSuggester:
        chances = None
        if self.project.settings.chosen_strategy == "information":
            chances = Chances(self.project, self._anchors)
        return LiveSuggester(self.project, prior, self.default_covariance, chances)

    @cached_property
    def _anchors(self) -> Anchors:
        return Anchors.among(self.project.candidates)

    def _followed(self, suggester: LiveSuggester, state: State, posterior: Callable[[], Posterior]) -> LiveSuggester:
        """Bring a suggester to the state."""
        with_answers = self.project.settings.suggest_with == "answers"
        suggester.follow(wanted_records(state, self.default_covariance, with_answers))
        suggester.close(state)
        if with_answers:
            suggester.weigh(state, posterior)
        else:
            # The list does not depend on the answers: all that is known is the prior.
            suggester.weigh(State(), lambda: suggester.prior.condition(Annotations.empty(self.project.d)))
        return suggester

    def take(self, prepared: tuple[tuple[int, object], LiveSuggester]) -> None:
        """Use a prepared suggester from now on."""
        self._live = prepared


def _same(one: Annotations, other: Annotations) -> bool:
    return (
        np.array_equal(one.fixed_points, other.fixed_points)
        and np.array_equal(one.moving_points, other.moving_points)
        and np.array_equal(one.covariances, other.covariances)
    )
