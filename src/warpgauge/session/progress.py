"""Progress of a session: uncertainty over the targets and its curve, stop rules, and the part that reports them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import thinned_rows
from warpgauge.core.gains import entropy_constant
from warpgauge.core.process import Posterior
from warpgauge.display import counted
from warpgauge.geometry import Floats
from warpgauge.project import Settings, Skip, State
from warpgauge.session.agreement import median_seconds
from warpgauge.session.blindness import Blindness
from warpgauge.session.fused_annotations import all_marks
from warpgauge.session.mark_list import ListRow, list_rows
from warpgauge.session.model import View
from warpgauge.session.queries import (
    locations_in_list,
    open_queries,
    placed_count,
    region_radius,
    standing_placements,
)
from warpgauge.session.refit import next_refit

CURVE_TARGETS = 300


@dataclass(frozen=True)
class StopRule:
    """A stop rule: its limit, its current value, whether it is met, and a sentence about it."""

    name: str
    limit: float
    value: float | None
    met: bool
    sentence: str

    @property
    def plain(self) -> str:
        """The stop reason without numbers, for blind raters, who must not learn about the answers of others."""
        if self.name == "budget":
            return self.sentence
        return f"The project's stop rule {self.name!r} ({self.limit:.3g}) is met."


@dataclass(frozen=True, eq=False)
class Curve:
    """Uncertainty after the first 0, 1, ... annotations, in the order of the list, under the present model.

    Attributes
    ----------
    annotations : (L + 1,) array of int
    mean_sd : (L + 1,) array
        Mean over the targets of the standard deviation, world units.
    mean_entropy : (L + 1,) array
        Mean over the targets of the entropy, nats.
    targets : int
        A fixed sample of so many targets was used.
    """

    annotations: np.ndarray
    mean_sd: Floats
    mean_entropy: Floats
    targets: int


@dataclass(frozen=True, eq=False)
class Progress:
    """Result of `Session.progress`."""

    annotations: int
    """Locations that the model rests on, or will when what is sealed is opened."""
    queries: int
    """Length of the shared list."""
    locations: int
    """The same without repeats and what is for one rater only."""
    answered: int
    """Of the rater asked about, or of all, as the three that follow."""
    placed: int
    """What a budget counts; of all, imports too."""
    skipped: int
    deferred: int
    mean_sd: float
    """Mean standard deviation over the targets, world units."""
    max_sd: float
    units: str
    targets: int
    expected_gain: float | None
    """Of the next query, nats; None where there is none."""
    curve: Curve
    stop_rules: tuple[StopRule, ...]
    done: bool
    """Whether the list will not be extended: a rule is met, or no candidate is left."""
    reasons: tuple[str, ...]
    """The sentences of the rules that are met."""
    median_seconds: float | None
    """Time for an answer."""
    weights: str
    """Where the weights of the model come from, in a sentence."""
    next_refit: int | None
    """Number of annotations at which they are refitted next."""
    scale: float
    """Factor on the posterior covariance from the leave-one-out calibration."""
    region: float
    """Standard deviations times this are the half-width of the region at the project's level: what "±" means."""


def uncertainty_curve(posterior: Posterior, targets: Floats, seed: int) -> Curve:
    """Follow the uncertainty over the annotations, all at once, at a sample of the targets.

    A location that was annotated again counts from its first annotation on with what all of them say.
    """
    points, d = targets[thinned_rows(len(targets), CURVE_TARGETS, seed)], posterior.d
    variances, logs = posterior.conditioned.history(points)
    if posterior.spots is not posterior.annotations:
        spots_so_far = np.concatenate([[0], np.maximum.accumulate(posterior.spot_of) + 1])
        variances, logs = variances[spots_so_far], logs[spots_so_far]
    entropies = 0.5 * logs + entropy_constant(d) + 0.5 * d * np.log(posterior.scale)
    mean_sd = np.sqrt(posterior.scale * variances).mean(axis=1)
    return Curve(np.arange(len(mean_sd)), mean_sd, entropies.mean(axis=1), len(points))


def stop_rules(settings: Settings, units: str, placed: int, mean_sd: float) -> tuple[StopRule, ...]:
    """Evaluate the stop rules of the settings with the current numbers."""
    rules = []
    if settings.budget is not None:
        met = placed >= settings.budget
        sentence = f"{placed} of the budget of {settings.budget} landmarks {'is' if placed == 1 else 'are'} placed."
        rules.append(StopRule("budget", settings.budget, placed, met, sentence))
    limit = settings.stop_mean_sd
    if limit is not None:
        met = mean_sd < limit
        now = f"The mean standard deviation over the targets, {mean_sd:.3g} {units}"
        sentence = f"{now}, is {'below' if met else 'not yet below'} {limit:.3g} {units}."
        rules.append(StopRule("mean_sd", limit, mean_sd, met, sentence))
    return tuple(rules)


class Overview:
    """The part of a session that reports; it changes nothing.

    Parameters
    ----------
    blindness : Blindness
        Says what a rater may see.
    """

    def __init__(self, blindness: Blindness) -> None:
        self.project = blindness.project
        self.model = blindness.model
        self.blindness = blindness
        # By rater, None for all: several blind raters ask in turn, each about a posterior of their own.
        self._curves: dict[str | None, tuple[Posterior, Curve]] = {}
        self._spreads: dict[str | None, tuple[Posterior, float, float]] = {}

    def listing(self, rater: str | None, viewer: str | None = None) -> list[ListRow]:
        """List marks with leave-one-out residuals and flags, but for sealed ones: one rater's, or, for None, all.

        What the rater, or the viewer, must not see while their next query is open is left out.
        """
        with self.project.lock:
            state, own = self.project.state, viewer if rater is None else rater
            view = self._shown(state, rater, viewer, sealed=False)
            gone = frozenset() if own is None else self.blindness.left_out(state, own)
            # Authors see their own answers to drawn questions, too; nobody else does.
            every = all_marks(state, rater, sealed=rater is not None and viewer in (None, rater))
            marks = [mark for mark in every if mark.rater != own or mark.query.number not in gone]
            screening = self.model.screening(state, view)
        return list_rows(marks, view, screening, self.project.units)

    def detectable(self, rater: str | None, viewer: str | None = None) -> float | None:
        """Return the length from which on a slip would have been found; None where marks are too few."""
        with self.project.lock:
            state = self.project.state
            screening = self.model.screening(state, self._shown(state, rater, viewer, sealed=False))
        return None if screening is None else screening.detectable

    def skipped(self, rater: str | None, viewer: str | None = None) -> list[tuple[str, int, Skip]]:
        """List the skips in force as rater, query and reason; as `listing` does."""
        with self.project.lock:
            state, own = self.project.state, viewer if rater is None else rater
            gone = frozenset() if own is None else self.blindness.left_out(state, own)
            return [
                (who, number, cell.answer)
                for (who, number), cell in sorted(state.cells.items(), key=lambda item: item[0][1])
                if isinstance(cell.answer, Skip)
                and rater in (None, who)
                and (who == own or not state.is_sealed(number))
                and (who != own or number not in gone)
            ]

    def progress(self, rater: str | None, viewer: str | None = None) -> Progress:
        """Return the progress of one rater, or, for None, of all; see `Session.progress`."""
        with self.project.lock:
            state, settings = self.project.state, self.project.settings
            own, apart = rater if settings.blind else None, rater is not None and self.blindness.apart(state)
            view = self._shown(state, rater, viewer)
            mean_sd, max_sd = self._spread(view.posterior, own)
            gain = self._next_gain(state, rater)
            shared = self.rules(state, rater)
            rules = shared if own is None or apart else self.rules(state, rater, own)
            left = self.model.suggester(state).left()
            reasons = [rule.sentence if own is None or apart else rule.plain for rule in shared if rule.met]
            if left == 0:
                reasons.append("No candidate is left to ask for.")
            cells = [cell for (who, _), cell in state.cells.items() if rater in (None, who)]
            if rater is None:  # what there is, imports too, whatever a budget counts
                placed = sum(len(standing_placements(state, who)) for who in state.who_answered())
            else:
                placed = placed_count(state, rater)
            skipped = sum(isinstance(cell.answer, Skip) for cell in cells)
            asked = len(state.trails.get(rater or "", ())) if apart else None  # others have made the list longer
            weights, refit = self._weights(state, rater if apart else None)
            return Progress(
                len(view.located),
                len(state.queries) if asked is None else asked,
                len(locations_in_list(state)) if asked is None else asked,
                placed + skipped,
                placed,
                skipped,
                sum(rater in (None, who) for who, _ in state.deferred),
                mean_sd,
                max_sd,
                self.project.units,
                len(self.project.judged_targets),
                gain,
                self._curve(view.posterior, own),
                rules,
                bool(reasons),
                tuple(reasons),
                median_seconds(state, rater),
                weights,
                refit,
                view.posterior.scale,
                region_radius(view.posterior, settings.alpha),
            )

    def _shown(self, state: State, rater: str | None, viewer: str | None = None, *, sealed: bool = True) -> View:
        """Return the view of a rater's answers, or of those of all for whoever looks at them."""
        if rater is not None:
            return self.blindness.view(state, rater, sealed=sealed)
        if viewer is not None:
            return self.blindness.view(state, viewer, sealed=sealed, everybody=True)
        return self.model.view_with_sealed(state, None) if sealed else self.model.view(state, None)

    def _weights(self, state: State, rater: str | None) -> tuple[str, int | None]:
        """Return where the weights come from, in a sentence, and when they are learned next; for a rater apart."""
        if rater is not None:
            return self.blindness.weights(state, rater)
        return self._weights_sentence(state), next_refit(self.project.settings, self.model.fit(state))

    def _spread(self, posterior: Posterior, whose: str | None = None) -> tuple[float, float]:
        """Mean and largest standard deviation over the targets."""
        known = self._spreads.get(whose)
        if known is None or known[0] is not posterior:
            sd = posterior.standard_deviation(self.project.judged_targets)
            known = self._spreads[whose] = posterior, float(sd.mean()), float(sd.max())
        return known[1:]

    def _curve(self, posterior: Posterior, whose: str | None) -> Curve:
        known = self._curves.get(whose)
        if known is None or known[0] is not posterior:
            curve = uncertainty_curve(posterior, self.project.judged_targets, self.project.settings.seed)
            known = self._curves[whose] = posterior, curve
        return known[1]

    def _next_gain(self, state: State, rater: str | None) -> float | None:
        """Return the expected gain of the next query: the first open one of the list, or else the next suggestion."""
        if rater is not None and self.blindness.apart(state):
            number = self.blindness.next(state, rater)
            return None if number is None else state.queries[number].gain
        if rater is None:
            answered = {number for (_, number), cell in state.cells.items() if cell.answer is not None}
            waiting = [query.number for query in state.queries if query.number not in answered]
        else:
            waiting = open_queries(state, self.project.settings, rater)[0]
        if waiting:
            return state.queries[waiting[0]].gain
        best = self.model.suggester(state).best()
        return None if best is None else best[1]

    def rules(self, state: State, rater: str | None = None, whose: str | None = None) -> tuple[StopRule, ...]:
        """Evaluate the stop rules on the state; figures that no rule needs are not computed.

        Parameters
        ----------
        rater : str, optional
            Whose placements count for the budget; by default of those who have answered the one with the fewest. A
            rater who is kept apart has rules of their own in all.
        whose : str, optional
            Take the uncertainty that this rater's own answers leave.
        """
        settings = self.project.settings
        whose = rater if rater is not None and self.blindness.apart(state) else whose
        mean_sd = float("nan")
        if settings.stop_mean_sd is not None:
            mean_sd = self._spread(self._shown(state, whose).posterior, whose)[0]
        raters = state.who_answered() if rater is None else [rater]
        placed = min((placed_count(state, name) for name in raters), default=0)
        return stop_rules(settings, self.project.units, placed, mean_sd)

    def _weights_sentence(self, state: State) -> str:
        fit = self.model.fit(state)
        if fit is None and state.fits:
            return (
                "The weights of the kernel are the initial ones: those that were learned rested on answers that have "
                "been changed or taken back since."
            )
        if fit is None:
            return "The weights of the kernel are the initial ones; nothing has been learned yet."
        count = counted(fit.annotations, "annotation")
        if fit.from_projects:
            return f"The weights were learned from {counted(len(fit.projects), 'other project')} ({count})."
        return f"The weights were refitted to {count}."
