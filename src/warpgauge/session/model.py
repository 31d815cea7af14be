"""The model as it stands: the prior in force, and posteriors that grow with the annotations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.geometry import Floats
from warpgauge.project import Project, State
from warpgauge.session.follower import Follower, wanted_records
from warpgauge.session.gather import LocatedAnnotations, located_annotations
from warpgauge.session.prior import PAPER, current_prior, default_covariance


@dataclass(frozen=True, eq=False)
class View:
    """Annotations of somebody (or of all, fused) and the posterior given them, with the generation of its weights."""

    located: LocatedAnnotations
    posterior: Posterior
    fit_generation: int


class Model:
    """Everything computed from a project's state, brought up to date when it is asked for.

    Parameters
    ----------
    project : Project
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._views: dict[str | None, tuple[int, View]] = {}
        self._prior: tuple[tuple[int, object], TransformationPrior] | None = None
        self._follower: tuple[tuple[int, object], Follower] | None = None

    @property
    def default_covariance(self) -> Floats:
        """Covariance of a plain click."""
        return default_covariance(self.project.fixed_grid, self.project.settings)

    def _key(self, state: State) -> tuple[int, object]:
        """Name what the prior depends on: the last fit and the settings."""
        return (state.fits[-1].generation if state.fits else 0), self.project.settings

    def prior(self, state: State) -> TransformationPrior:
        """Give the prior in force."""
        key = self._key(state)
        if self._prior is None or self._prior[0] != key:
            self._prior = key, current_prior(self.project, state.fits)
            self._views.clear()
        return self._prior[1]

    def view(self, state: State, rater: str | None = None) -> View:
        """Give the posterior given one rater's annotations, or all raters' fused ones."""
        prior = self.prior(state)
        known = self._views.get(rater)
        if known is not None and known[0] == state.model_generation:
            return known[1]
        located = located_annotations(state, self.project.d, self.default_covariance, rater)
        posterior = self._posterior(prior, located.annotations, known[1].posterior if known else None)
        view = View(located, posterior, self._key(state)[0])
        self._views[rater] = state.model_generation, view
        return view

    def _posterior(self, prior: TransformationPrior, wanted: Annotations, former: Posterior | None) -> Posterior:
        """Condition by a block update where annotations were only added, else from scratch."""
        if former is not None and former.prior is prior:
            known = former.annotations
            count = len(known)
            if count <= len(wanted) and _same(known, wanted[np.arange(count)]):
                return former if count == len(wanted) else former.append(wanted[np.arange(count, len(wanted))])
        return prior.condition(wanted, calibrate=self.project.settings.model != PAPER)

    def follower(self, state: State) -> Follower:
        """Give the Suggester's follower, up to date."""
        key = self._key(state)
        if self._follower is None or self._follower[0] != key:
            self._follower = key, Follower(self.project, self.prior(state), self.default_covariance)
        return self.followed(self._follower[1], state)

    def followed(self, follower: Follower, state: State) -> Follower:
        """Bring a follower to the state."""
        with_answers = self.project.settings.suggest_with == "answers"
        follower.follow(wanted_records(state, self.default_covariance, with_answers))
        follower.close(state)
        return follower

    def prepared(self, state: State) -> tuple[tuple[int, object], Follower]:
        """Build a follower for the state's last fit, without touching the one in use."""
        prior = current_prior(self.project, state.fits)
        follower = self.followed(Follower(self.project, prior, self.default_covariance), state)
        follower.best(1)  # brings the gains up to date, which is most of the work
        return self._key(state), follower

    def take(self, prepared: tuple[tuple[int, object], Follower]) -> None:
        """Use a prepared follower from now on."""
        self._follower = prepared


def _same(one: Annotations, other: Annotations) -> bool:
    return (
        np.array_equal(one.fixed_points, other.fixed_points)
        and np.array_equal(one.moving_points, other.moving_points)
        and np.array_equal(one.covariances, other.covariances)
    )
