"""The model of a project: its prior, with or without learned weights, and posteriors that grow with the annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from warpgauge.core import power_law
from warpgauge.core.annotations import Annotations, confidence_radius, warn_of_one_spot
from warpgauge.core.hyperparameters import FitReport
from warpgauge.core.kernels import KernelBundle
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.geometry import Floats, Grid
from warpgauge.project import Event, Project, Settings, State
from warpgauge.session.fused_annotations import LocatedAnnotations, located_annotations, standing_marks
from warpgauge.session.live_suggester import Anchors, Chances, LiveSuggester, wanted_records

# The prior of a project: sensible before anything is learned, then with the weights of the last fit.
#
# Scales double from ``smallest_scale_px`` pixels (times the geometric mean of the fixed image's spacing) until one
# reaches the longest side of the image. The default model (:mod:`warpgauge.core.power_law`) has an affine trend about
# the middle of the image, weights that follow a power law of the scale, and Student-t tails. The paper's model has the
# identity as its mean and Gaussian tails; as it does not say what weights to begin with, they grow with the square of
# the scale, as smooth deformations do, and add up to the square of 2 % of the image's diagonal.

TYPICAL_SHARE = 0.02
# Uncertainty of an accepted rough alignment: of its shift, as a share of the diagonal, and of each matrix entry.
ALIGNED_SHARE, ALIGNED_LINEAR_SD = 0.1, 0.2
PAPER = "paper"


def default_scales(grid: Grid, settings: Settings) -> Floats:
    """Scales in world units, doubling until one reaches the image's longest side."""
    smallest = settings.smallest_scale_px * grid.pixel
    return power_law.doubling_scales(smallest, float(grid.extent.max()))


def aligned(state: State) -> int | None:
    """Return the generation at which a rough alignment of the two images was accepted, or None."""
    event = state.alignment
    return event.generation if event is not None and event.payload["accepted"] else None


def default_prior(grid: Grid, settings: Settings) -> TransformationPrior:
    """Return the prior of a project that has learned nothing yet."""
    if settings.model != PAPER:
        smallest = settings.smallest_scale_px * grid.pixel
        return power_law.default_prior(grid.extent, center=grid.centre, smallest=smallest, family=settings.family)
    scales = default_scales(grid, settings)
    weights = (TYPICAL_SHARE * grid.diagonal) ** 2 * scales**2 / np.sum(scales**2)
    return TransformationPrior(KernelBundle(settings.family, scales, weights))


def fit_in_force(state: State) -> Event | None:
    """Return the last fit whose annotations are all unchanged, or None for the initial weights.

    A fit that rested on an answer which was since undone, changed or taken out is not used; it counts again when the
    answer is back.
    """
    standing: set[int] | None = None
    for fit in reversed(state.fits):
        rests_on = state.fit_marks[fit.generation]
        if rests_on and standing is None:  # costs as much as there are answers, so only where it matters
            standing = {mark.placement.generation for marks in standing_marks(state).values() for mark in marks}
        if not rests_on or (standing is not None and rests_on <= standing):
            return fit
    return None


def current_prior(project: Project, fit: Event | None) -> TransformationPrior:
    """Return the prior with the weights of the current fit, if there is one."""
    prior = default_prior(project.fixed_grid, project.settings)
    alignment = project.alignment
    if alignment is not None and project.settings.model != PAPER:
        # As sure as a trend of images that lie nearly alike, twice over: a person has looked at it.
        shift_sd = ALIGNED_SHARE * project.fixed_grid.diagonal
        prior = replace(prior, about=alignment.map, translation_sd=shift_sd, linear_sd=ALIGNED_LINEAR_SD)
    if fit is None:
        return prior
    content = fit.payload
    kernel = KernelBundle(content["family"], content["scales"], content["weights"])
    if "linear_sd" in content:  # fits of earlier versions left the trend as it was
        prior = replace(prior, linear_sd=content["linear_sd"], translation_sd=content["translation_sd"])
    return prior.with_kernel(kernel, float(content["noise"]))


def default_covariance(grid: Grid, settings: Settings) -> Floats:
    """Covariance of a plain click: the disc or ball of the default radius at the project's level."""
    sd = default_radius(grid, settings) / confidence_radius(grid.d, settings.alpha)
    return np.asarray(sd**2 * np.eye(grid.d))


def default_radius(grid: Grid, settings: Settings) -> float:
    """Radius of a plain click in world units; a tenth of the smallest scale unless the settings say otherwise."""
    if settings.default_radius is not None:
        return settings.default_radius
    return 0.1 * settings.smallest_scale_px * grid.pixel


def fit_payload(prior: TransformationPrior, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a fitted prior for the log, with where its weights came from."""
    report = prior.fit
    return {
        "family": prior.kernel.family,
        "scales": prior.kernel.scales.tolist(),
        "weights": prior.kernel.weights.tolist(),
        "noise": float(prior.noise),
        "linear_sd": prior.linear_sd,
        "translation_sd": prior.translation_sd,
        "report": dict(vars(report)) if isinstance(report, FitReport | power_law.PowerLawReport) else None,
        **provenance,
    }


# The model as it stands: the prior in force, and posteriors that grow with the annotations.


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
        self._fit: tuple[tuple[int, int], Event | None] | None = None
        self._prior: tuple[tuple[int, object], TransformationPrior] | None = None
        self._live: tuple[tuple[int, object], LiveSuggester] | None = None

    @property
    def default_covariance(self) -> Floats:
        """Covariance of a plain click."""
        return default_covariance(self.project.fixed_grid, self.project.settings)

    def fit(self, state: State) -> Event | None:
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
        if not any(state.is_sealed_round(drawn) for drawn in state.audits):
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
