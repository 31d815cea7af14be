"""Progress of a session: uncertainty over the targets and its curve, stop rules, lists of marks and skips."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import thinned_rows
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.landmarks import Landmarks
from warpgauge.project import Project, Skip, State
from warpgauge.project.names import checked_name
from warpgauge.session.agreement import Agreement, agreement, median_seconds
from warpgauge.session.blindness import Blindness
from warpgauge.session.fused_annotations import all_marks
from warpgauge.session.landmark_exchange import fused_landmarks, own_landmarks, raters_landmarks
from warpgauge.session.mark_list import ListRow, list_rows
from warpgauge.session.model import Model, View
from warpgauge.session.queries import (
    open_queries,
    placed_count,
    region_radius,
    standing_placements,
)

CURVE_TARGETS = 300


@dataclass(frozen=True)
class StopRule:
    """A stop rule: its limit, whether it is met, and a sentence about it."""

    name: str
    limit: float
    met: bool
    sentence: str

    @property
    def plain(self) -> str:
        """The stop reason without numbers, for blind raters, who must not learn about the answers of others."""
        if self.name == "budget":
            return self.sentence
        return f"The project's stop rule {self.name!r} ({self.limit:.3g}) is met."


@dataclass(frozen=True, eq=False)
class Progress:
    """Result of `Session.progress`."""

    annotations: int
    """Locations that the model rests on, or will when what is sealed is opened."""
    queries: int
    """Length of the shared list."""
    placed: int
    """What a budget counts, of the rater asked about; of all, imports too."""
    skipped: int
    mean_sd: float
    """Mean standard deviation over the targets, world units."""
    max_sd: float
    targets: int
    expected_gain: float | None
    """Of the next query, nats; None where there is none."""
    curve: Floats
    """Mean standard deviation over a fixed sample of the targets after the first 0, 1, ... annotations, in the order of
    the list, under the present model, (L + 1,)."""
    stop_rules: tuple[StopRule, ...]
    reasons: tuple[str, ...]
    """Why the list will not be extended: the sentences of the rules that are met, or that no candidate is left."""
    median_seconds: float | None
    """Time for an answer."""
    weights: str
    """Where the weights of the model come from, in a sentence."""
    region: float
    """Standard deviations times this are the half-width of the region at the project's level: what "±" means."""


def uncertainty_curve(posterior: Posterior, targets: Floats, seed: int) -> Floats:
    """Follow the mean standard deviation over the annotations, all at once, at a sample of the targets.

    A location that was annotated again counts from its first annotation on with what all of them say.
    """
    points = targets[thinned_rows(len(targets), CURVE_TARGETS, seed)]
    variances = posterior.conditioned.history(points)[0]
    if posterior.spots is not posterior.annotations:
        variances = variances[np.concatenate([[0], np.maximum.accumulate(posterior.spot_of) + 1])]
    return np.asarray(np.sqrt(posterior.scale * variances).mean(axis=1))


class Overview:
    """What a session reports; it changes nothing."""

    def __init__(self, project: Project, rater: str | None) -> None:
        self.project = project
        self.rater = None if rater is None else checked_name(rater)
        self._model = Model(project)
        self.blindness = Blindness(self._model)
        self._curves: WeakKeyDictionary[Posterior, Floats] = WeakKeyDictionary()
        self._spreads: WeakKeyDictionary[Posterior, tuple[float, float]] = WeakKeyDictionary()

    def _who(self, rater: str | None) -> str:
        who = rater if rater is not None else self.rater
        if who is None:
            raise InvalidInputError("Say who acts: give the session or the call a rater.")
        return who

    # The model

    def posterior(self, rater: str | None = None) -> Posterior:
        """Return the posterior given all annotations (raters fused), or given one rater's own."""
        return self._view(rater).posterior

    def annotations(self, rater: str | None = None) -> Annotations:
        """Return all annotations, raters fused where several answered, or one rater's own with their covariances."""
        return self._view(rater).located.annotations

    def _view(self, rater: str | None) -> View:
        with self.project.lock:
            return self._model.view(self.project.state, rater)

    def prior(self) -> TransformationPrior:
        """Return the current prior."""
        with self.project.lock:
            return self._model.prior(self.project.state)

    # Marks and skips

    def listing(self, rater: str | None = None, *, viewer: str | None = None) -> list[ListRow]:
        """List marks with leave-one-out residuals and flags: one rater's, or, for None, those of all.

        In a blind project a rater's marks are compared with that rater's other marks, otherwise with all marks. What
        the rater or the ``viewer`` must not see now is left out (`Blindness`), and so are sealed answers of others.
        """
        with self.project.lock:
            state = self.project.state
            view = self._shown(state, rater, viewer, sealed=False)
            reader = viewer if rater is None else rater
            hidden = self._hidden(state, reader)
            # Authors see their own answers to drawn questions, too; nobody else does.
            sealed = rater is not None and viewer in (None, rater)
            marks = [
                mark
                for mark in all_marks(state, rater, sealed=sealed)
                if mark.rater != reader or mark.query.number not in hidden
            ]
            screening = self._model.screening(state, view)
        return list_rows(marks, view, screening)

    def detectable(self, rater: str | None = None, *, viewer: str | None = None) -> float | None:
        """Return how long a slip must be, in world units, to be found among the marks that `listing` shows.

        None where there are too few marks to compare them with each other.
        """
        with self.project.lock:
            state = self.project.state
            screening = self._model.screening(state, self._shown(state, rater, viewer, sealed=False))
        return None if screening is None else screening.detectable

    def skipped(self, rater: str | None = None, *, viewer: str | None = None) -> list[tuple[str, int, Skip]]:
        """List the skips in force as rater, query and reason: one rater's, or, for None, those of all."""
        with self.project.lock:
            state = self.project.state
            reader = viewer if rater is None else rater
            hidden = self._hidden(state, reader)
            return [
                (who, number, cell.answer)
                for (who, number), cell in sorted(state.cells.items(), key=lambda item: item[0][1])
                if isinstance(cell.answer, Skip)
                and rater in (None, who)
                and (number not in hidden if who == reader else not state.is_sealed(number))
            ]

    def _hidden(self, state: State, reader: str | None) -> frozenset[int]:
        """Return the queries of whoever reads of which nothing is sent now."""
        return frozenset() if reader is None else self.blindness.left_out(state, reader)

    def agreement(self) -> Agreement:
        """Show raters and locations side by side: progress, bias, scatter, distances, fused ellipses."""
        with self.project.lock:
            state = self.project.state
            return agreement(state, self._model.view(state, None).located)

    def own_landmarks(self, rater: str | None = None) -> Landmarks:
        """Return a rater's marks and skips as that rater may have them now; see `Blindness`."""
        who = self._who(rater)
        with self.project.lock:
            state = self.project.state
            return own_landmarks(self.project, state, who, self.blindness.left_out(state, who))

    def landmarks(self, rater: str | None = None, *, fused: bool = False) -> Landmarks:
        """Return all current marks and skips (of all raters or one), or, with ``fused``, what the model uses."""
        with self.project.lock:
            state = self.project.state
            if fused:
                return fused_landmarks(self.project, state, self._model.view(state, rater).located)
            return raters_landmarks(self.project, state, rater)

    # Progress

    def progress(self, rater: str | None = None, *, viewer: str | None = None) -> Progress:
        """Return the progress of one rater (counts and times), or, for None, of all, as the ``viewer`` may see it.

        A rater of a blind project is told the uncertainty that their own answers leave, and, where raters are
        registered, whether the list has come to its end by their own answers.
        """
        with self.project.lock:
            state = self.project.state
            settings = self.project.settings
            apart = rater is not None and self.blindness.apart(state)
            view = self._shown(state, rater, viewer)
            mean_sd, max_sd = self._spread(view.posterior)
            if rater is None:  # what there is, imports too, whatever a budget counts
                placed = sum(len(standing_placements(state, who)) for who in state.who_answered())
            else:
                placed = placed_count(state, rater)
            answers = [cell.answer for (who, _), cell in state.cells.items() if rater in (None, who)]
            skipped = sum(isinstance(answer, Skip) for answer in answers)
            # The list ends for all by the same rules; blind raters are shown the figures of their own answers.
            shared = self._rules(state, rater, view if apart else None)
            shows_own = rater is not None and settings.blind
            rules = self._rules(state, rater, view) if shows_own else shared
            reasons = [rule.plain if shows_own and not apart else rule.sentence for rule in shared if rule.met]
            if self._model.suggester(state).left() == 0:
                reasons.append("No candidate is left to ask for.")
            return Progress(
                annotations=len(view.located),
                # Raters who are kept apart must not see that others have made the list longer.
                queries=len(state.trails.get(str(rater), ()) if apart else state.queries),
                placed=placed,
                skipped=skipped,
                mean_sd=mean_sd,
                max_sd=max_sd,
                targets=len(self.project.judged_targets),
                expected_gain=self._next_gain(state, rater),
                curve=self._curve(view.posterior),
                stop_rules=rules,
                reasons=tuple(reasons),
                median_seconds=median_seconds(state, rater),
                weights=self.blindness.weights(state, str(rater)) if apart else self._weights(state),
                region=region_radius(view.posterior, settings.alpha),
            )

    def _shown(self, state: State, rater: str | None, viewer: str | None, *, sealed: bool = True) -> View:
        """Return the view of a rater's answers, or of those of all for whoever looks at them."""
        if rater is not None:
            return self.blindness.view(state, rater, sealed=sealed)
        if viewer is not None:
            return self.blindness.view(state, viewer, sealed=sealed, everybody=True)
        return self._model.view_with_sealed(state, None) if sealed else self._model.view(state, None)

    def _rules(self, state: State, rater: str | None, view: View | None = None) -> tuple[StopRule, ...]:
        """Evaluate the stop rules of the settings by the uncertainty of a view, by default that of all.

        For all raters the budget counts the placements of the one with the fewest.
        """
        settings = self.project.settings
        rules = []
        if settings.budget is not None:
            raters = state.who_answered() if rater is None else [rater]
            placed = min((placed_count(state, name) for name in raters), default=0)
            sentence = f"{placed} of the budget of {settings.budget} landmarks {'is' if placed == 1 else 'are'} placed."
            rules.append(StopRule("budget", settings.budget, placed >= settings.budget, sentence))
        limit = settings.stop_mean_sd
        if limit is not None:
            shown = self._shown(state, None, None) if view is None else view
            mean_sd = self._spread(shown.posterior)[0]
            met = mean_sd < limit
            units = self.project.units
            now = f"The mean standard deviation over the targets, {mean_sd:.3g} {units}"
            sentence = f"{now}, is {'below' if met else 'not yet below'} {limit:.3g} {units}."
            rules.append(StopRule("mean_sd", limit, met, sentence))
        return tuple(rules)

    def _is_stopped(self, state: State, who: str) -> bool:
        """Return whether a stop rule other than the budget is met for a rater; apart, by their own answers."""
        if self.project.settings.stop_mean_sd is None:
            return False
        own = self._shown(state, who, None) if self.blindness.apart(state) else None
        return any(rule.met for rule in self._rules(state, who, own) if rule.name != "budget")

    def _spread(self, posterior: Posterior) -> tuple[float, float]:
        """Mean and largest standard deviation over the targets."""
        if posterior not in self._spreads:
            sd = posterior.standard_deviation(self.project.judged_targets)
            self._spreads[posterior] = float(sd.mean()), float(sd.max())
        return self._spreads[posterior]

    def _curve(self, posterior: Posterior) -> Floats:
        if posterior not in self._curves:
            targets = self.project.judged_targets
            self._curves[posterior] = uncertainty_curve(posterior, targets, self.project.settings.seed)
        return self._curves[posterior]

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
        best = self._model.suggester(state).best()
        return None if best is None else best[1]

    def _weights(self, state: State) -> str:
        """Return in a sentence where the weights come from."""
        fit = self._model.fit(state)
        if fit is None and state.fits:
            return (
                "The weights of the kernel are the initial ones: those that were learned rested on answers that have "
                "been changed or taken back since."
            )
        if fit is None:
            return "The weights of the kernel are the initial ones; nothing has been learned yet."
        if not fit.rests_on:
            return "The weights were learned elsewhere."
        return f"The weights were refitted to {counted(fit.annotations, 'annotation')}."
