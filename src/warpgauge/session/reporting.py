"""Read access to the model: predictions, the posterior, progress, and the list of marks."""

from __future__ import annotations

from typing import Literal

from warpgauge.core.annotations import Annotations
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.errors import InvalidInputError
from warpgauge.project import Placement, Project, Skipped, State
from warpgauge.session.agreement import IntraRater, intra_rater, median_seconds
from warpgauge.session.base import SessionBase, number_of
from warpgauge.session.fitting import next_refit
from warpgauge.session.gather import all_marks
from warpgauge.session.listing import ListRow, list_rows
from warpgauge.session.model import View
from warpgauge.session.predictions import Prediction, predict
from warpgauge.session.progress import Curve, Progress, StopRule, stop_rules, uncertainty_curve
from warpgauge.session.queries import Query, locations_in_list, open_queries, placed_locations


class Reporting(SessionBase):
    """The part of a session that reports."""

    def __init__(self, project: Project, rater: str | None = None, *, auto_refit: bool = True) -> None:
        super().__init__(project, rater, auto_refit=auto_refit)
        # By rater, None for all: several blind raters ask in turn, each about a posterior of their own.
        self._curves: dict[str | None, tuple[Posterior, Curve]] = {}
        self._spreads: dict[str | None, tuple[Posterior, float, float]] = {}

    def warm(self) -> None:
        """Bring the model and the gains up to date now, so that the first query does not wait for it."""
        with self._lock:
            state = self.project.state
            self._model.view(state, None)
            self._model.follower(state).best(1)

    def prediction(self, query: int | Query, rater: str | None = None) -> Prediction:
        """Predict the match of a query, in the moving frame, from what the rater may see.

        For the query that the rater has before them this is the prediction of the moment at which it was handed out.
        """
        who, number = self._who(rater), number_of(query)
        with self._lock:
            held = self._held.get(who)
            if held is not None and held.number == number:
                return held.prediction
            state = self.project.state
            if not 0 <= number < len(state.queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}.")
            posterior = self._shown(state, who).posterior
            return predict(
                posterior, state.queries[number].point, self.project.moving_grid, self.project.settings.alpha
            )

    def view(self, rater: str | None = None) -> Posterior:
        """Return the posterior that a rater's linked views and overlays go by.

        It rests on what the rater may see, and stays the same while they have a query before them.
        """
        who = self._who(rater)
        with self._lock:
            held = self._held.get(who)
            return (held.view if held is not None else self._shown(self.project.state, who)).posterior

    def posterior(self, rater: str | None = None) -> Posterior:
        """Return the posterior given all annotations (raters fused), or given one rater's own."""
        return self._view(rater).posterior

    def annotations(self, rater: str | None = None) -> Annotations:
        """Return all annotations, raters fused where several answered, or one rater's own with their covariances."""
        return self._view(rater).located.annotations

    def prior(self) -> TransformationPrior:
        """Return the prior in force."""
        with self._lock:
            return self._model.prior(self.project.state)

    def _view(self, rater: str | None) -> View:
        with self._lock:
            return self._model.view(self.project.state, rater)

    def listing(self, rater: str | None = None) -> list[ListRow]:
        """List marks with leave-one-out residuals and flags: one rater's, or, for None, those of all.

        In a blind project a rater's marks are compared with that rater's other marks, otherwise with all marks.
        """
        with self._lock:
            state = self.project.state
            view = self._model.view(state, None) if rater is None else self._shown(state, rater)
            marks = list(all_marks(state, rater))
        return list_rows(marks, view, self.project.units)

    def skipped(self, rater: str | None = None) -> list[tuple[str, int, Skipped]]:
        """List the skips that stand, as rater, query and reason: one rater's, or, for None, those of all."""
        with self._lock:
            return [
                (who, number, cell.answer)
                for (who, number), cell in sorted(self.project.state.cells.items(), key=lambda item: item[0][1])
                if isinstance(cell.answer, Skipped) and rater in (None, who)
            ]

    def intra_rater(self, rater: str | None = None) -> IntraRater | None:
        """Return the error of a rater against themselves, from repeated queries; None where there are none yet."""
        with self._lock:
            return intra_rater(self.project.state, self._who(rater))

    def progress(self, rater: str | None = None) -> Progress:
        """Return the progress of one rater (counts and times), or, for None, of all.

        A rater of a blind project is told the uncertainty that their own answers leave, also in the sentences of the
        stop rules. Whether the list has come to its end is the same for all.
        """
        with self._lock:
            state, settings = self.project.state, self.project.settings
            own = rater if settings.blind else None
            view = self._model.view(state, own)
            mean_sd, max_sd = self._spread(view.posterior, own)
            gain = self._next_gain(state, rater)
            shared = self._rules(state, gain, rater=rater)
            rules = shared if own is None else self._rules(state, gain, own, rater)
            left = self._model.follower(state).left()
            reasons = [rule.sentence if own is None else rule.plain for rule in shared if rule.met]
            if left == 0:
                reasons.append("No candidate is left to ask for.")
            cells = [cell for (who, _), cell in state.cells.items() if rater in (None, who)]
            placed = sum(isinstance(cell.answer, Placement) for cell in cells)
            skipped = sum(isinstance(cell.answer, Skipped) for cell in cells)
            return Progress(
                len(view.located),
                len(state.queries),
                len(locations_in_list(state)),
                placed + skipped,
                placed,
                skipped,
                sum(rater in (None, who) for who, _ in state.deferred),
                mean_sd,
                max_sd,
                self.project.units,
                len(self.project.targets),
                gain,
                self._curve(view.posterior, own),
                rules,
                bool(reasons),
                tuple(reasons),
                median_seconds(state, rater),
                self._weights_sentence(state),
                next_refit(settings, self._model.fit(state)),
                view.posterior.scale,
            )

    def _spread(self, posterior: Posterior, whose: str | None = None) -> tuple[float, float]:
        """Mean and largest standard deviation over the targets."""
        known = self._spreads.get(whose)
        if known is None or known[0] is not posterior:
            sd = posterior.standard_deviation(self.project.targets)
            known = self._spreads[whose] = posterior, float(sd.mean()), float(sd.max())
        return known[1:]

    def _curve(self, posterior: Posterior, whose: str | None) -> Curve:
        known = self._curves.get(whose)
        if known is None or known[0] is not posterior:
            curve = uncertainty_curve(posterior, self.project.targets, self.project.settings.seed)
            known = self._curves[whose] = posterior, curve
        return known[1]

    def _next_gain(self, state: State, rater: str | None) -> float | None:
        """Return the expected gain of the next query: of the list where one waits, else of what would be suggested."""
        if rater is None:
            answered = {number for (_, number), cell in state.cells.items() if cell.answer is not None}
            waiting = [query.number for query in state.queries if query.number not in answered]
        else:
            waiting = open_queries(state, self.project.settings, rater)[0]
        if waiting:
            return state.queries[waiting[0]].gain
        best = self._model.follower(state).best(1)
        return best[0][1] if best else None

    def _rules(
        self,
        state: State,
        gain: float | Literal["later"] | None = "later",
        whose: str | None = None,
        rater: str | None = None,
    ) -> tuple[StopRule, ...]:
        """Hold the stop rules against the state; numbers not asked for are not made.

        Parameters
        ----------
        whose : str, optional
            Take the uncertainty that this rater's own answers leave.
        rater : str, optional
            Whose placements count for the budget; by default of those who have answered the one with the fewest.
        """
        settings = self.project.settings
        if settings.stop_mean_sd is None and settings.stop_max_sd is None:
            mean_sd = max_sd = float("nan")
        else:
            mean_sd, max_sd = self._spread(self._model.view(state, whose).posterior, whose)
        known = None if gain == "later" else gain
        raters = state.who_answered() if rater is None else [rater]
        placed = min((placed_locations(state, name) for name in raters), default=0)
        return stop_rules(settings, self.project.units, placed, mean_sd, max_sd, known)

    def weights(self) -> str:
        """Return in a sentence where the weights of the kernel come from."""
        with self._lock:
            return self._weights_sentence(self.project.state)

    def _weights_sentence(self, state: State) -> str:
        fit = self._model.fit(state)
        if fit is None and state.fits:
            return (
                "The weights of the kernel are the initial ones: those that were learned rested on answers that have "
                "been changed or taken back since."
            )
        if fit is None:
            return "The weights of the kernel are the initial ones; nothing has been learned yet."
        count = fit.payload["annotations"]
        if fit.payload["source"] == "projects":
            return f"The weights were learned from {len(fit.payload['projects'])} other projects ({count} annotations)."
        return f"The weights were refitted to {count} annotations (generation {fit.generation})."
