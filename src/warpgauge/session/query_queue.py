"""Hands out queries: the next one, another, an earlier one; and makes the list longer when a rater reaches its end."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.project import Ask, Event, State
from warpgauge.project.values import ORGANISER
from warpgauge.session import circle
from warpgauge.session.audit_questions import Expected, audit_question, audit_round, needs_round
from warpgauge.session.blindness import Blindness
from warpgauge.session.control_questions import EVERY, next_control
from warpgauge.session.model import View
from warpgauge.session.progress import Overview
from warpgauge.session.queries import (
    Prediction,
    Query,
    after,
    asked_anew,
    before,
    counts,
    draw,
    may_choose,
    open_queries,
    position,
    predict,
    repeat_due,
    room,
    shared_out,
    suggestion,
)


@dataclass(frozen=True, eq=False)
class _Held:
    """The current query of a rater, and the model as it was when the query was handed out."""

    number: int
    radius: float
    view: View
    prediction: Prediction


class QueryQueue:
    """The part of a session that hands out queries and remembers the current query of each rater.

    Parameters
    ----------
    blindness : Blindness
        Says what a rater may see.
    overview : Overview
        Knows whether a stop rule is met.
    """

    def __init__(self, blindness: Blindness, overview: Overview) -> None:
        self.project = blindness.project
        self.model = blindness.model
        self.blindness = blindness
        self.overview = overview
        self._held: dict[str, _Held] = {}

    # Handing out

    def next(self, who: str, beyond: bool) -> Query | None:
        """Hand out the first query that the rater has not answered; see `Session.next_query`."""
        settings = self.project.settings
        with self.project.lock:
            while True:
                state = self.project.state
                waiting, aside = open_queries(state, settings, who, beyond=beyond)
                if not beyond and self.blindness.apart(state) and self._is_stopped(state, who):
                    # Others may have made the list longer than this rater's own answers need.
                    waiting = [number for number in waiting if not counts(state.queries[number])]
                waiting = shared_out(state, settings, who, waiting)
                if waiting:
                    return self.hand_out(state, waiting[0], who)
                if not self._extend(state, who, len(aside), beyond):
                    return self.hand_out(state, aside[0], who) if aside else None

    def previous(self, who: str, number: int | None) -> Query | None:
        """Hand out the query that the rater answered or put aside before this one (or last); None at the first."""
        with self.project.lock:
            state = self.project.state
            found = before(state, who, number)
            return None if found is None else self.hand_out(state, found, who)

    def following(self, who: str, number: int) -> Query | None:
        """Hand out the query that came after this one; None where a new one is due."""
        with self.project.lock:
            state = self.project.state
            found = after(state, who, number)
            return None if found is None else self.hand_out(state, found, who)

    def at(self, who: str, number: int) -> Query:
        """Hand out any query of the list."""
        with self.project.lock:
            state = self.project.state
            if not 0 <= number < len(state.queries) or not state.queries[number].asks(who):
                raise InvalidInputError(f"There is no query {number} for {who}; the list has {len(state.queries)}.")
            return self.hand_out(state, number, who)

    def hand_out(self, state: State, number: int, who: str) -> Query:
        """Hand a query of the list to a rater, and remember it with the model as it is now."""
        asked, settings = state.queries[number], self.project.settings
        self.blindness.hand_out(state, who, number)
        view = self.blindness.view(state, who, number)
        prediction = predict(view.posterior, asked.point, self.project.moving_grid, settings.alpha)
        radius = self._radius(state, asked, view)
        self._held[who] = _Held(number, radius, view, prediction)
        return Query(
            number=number,
            rater=who,
            point=asked.point,
            radius=radius,
            position=position(state, who, number),
            total=settings.budget,
            gain=asked.gain,
            prediction=None if settings.hide_prediction else prediction,
            cell=state.cell(who, number),
            generation=state.generation,
            fit_generation=view.fit_generation,
        )

    # What was handed out

    def radius(self, who: str, number: int) -> float:
        """Return how far from a query's point the rater may choose the place; 0 where it is asked exactly there."""
        held = self._held.get(who)
        if held is not None and held.number == number:
            return held.radius
        state = self.project.state
        return self._radius(state, state.queries[number], self.blindness.view(state, who, number))

    def _radius(self, state: State, asked: Ask, view: View) -> float:
        if asked.origin != "suggested" or not may_choose(state, self.project.settings):
            return 0.0
        return circle.radius(self.model, state, view.posterior, asked.point)

    def prediction(self, who: str, number: int) -> Prediction:
        """Predict the match of a query; for the rater's current query, as predicted when it was handed out."""
        with self.project.lock:
            held = self._held.get(who)
            if held is not None and held.number == number:
                return held.prediction
            state = self.project.state
            if not 0 <= number < len(state.queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}.")
            view = self.blindness.view(state, who, number)
            alpha = self.project.settings.alpha
            return predict(view.posterior, state.queries[number].point, self.project.moving_grid, alpha)

    def view(self, who: str, everybody: bool = False) -> Posterior:
        """Return the posterior of the rater's current query, or the latest one if there is none.

        For a person who may see the answers of ``everybody`` it is the latest one, their own answer there left out.
        """
        with self.project.lock:
            held = self._held.get(who)
            if everybody:
                at = None if held is None else held.number
                return self.blindness.view(self.project.state, who, at, everybody=True).posterior
            return (held.view if held is not None else self.blindness.view(self.project.state, who)).posterior

    # Making the list longer

    def ask_again(self, who: str, number: int, of: str | None) -> Event:
        """Ask one rater or all for a location again; the new answer replaces the previous one."""
        with self.project.lock:
            state = self.project.state
            if not 0 <= number < len(state.queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}.")
            first = state.queries[state.queries[number].location]
            return self.project.append(asked_anew(state, first, "again", first.gain, rater=who, of=of))[0]

    def choose_places(self, points: ArrayLike | None, who: str) -> tuple[tuple[float, ...], float] | None:
        """Ask all raters for chosen places, and return the next circle to choose in; see `Session.choose_places`."""
        with self.project.lock:
            state = self.project.state
            if state.role(who) != ORGANISER:
                raise InvalidInputError(f"{who} does not organise this project: organisers choose places.")
            if state.cells:
                raise InvalidInputError("Places are chosen before anybody has answered, in the fixed image alone.")
            if points is not None:
                self.project.append(*self._chosen(state, as_points(points, "Chosen places", self.project.d), who))
                state = self.project.state
            best = self.model.suggester(state).best()
            if best is None:
                return None
            point = tuple(self.project.candidates[best[0]].tolist())
            return point, circle.radius(self.model, state, self.model.view(state, None).posterior, point)

    def _chosen(self, state: State, points: Floats, who: str) -> list[Ask]:
        if not self.project.fixed_grid.contains(points).all():
            raise InvalidInputError("A chosen place lies outside the fixed image; choose one within it.")
        first = len(state.queries)
        return [
            Ask(rater=who, query=first + step, point=tuple(point), origin="suggested")
            for step, point in enumerate(points.tolist())
        ]

    def _extend(self, state: State, who: str, aside: int, beyond: bool) -> bool:
        """Make the list one question longer; False where it has come to its end for a rater.

        Of what the budget leaves to the rater, the queries that they have put aside are kept free.
        """
        allowed = room(state, self.project.settings, who)
        if not beyond and allowed is not None and allowed <= aside:
            return False
        best = self.model.suggester(state).best()
        if best is None or (not beyond and self._is_stopped(state, who)):
            return False
        new = self._following(state, *best)
        try:
            self.project.append(*new)
        except InvalidInputError:
            # Another process extended the list first: its question serves as well.
            if len(self.project.state.queries) == new[-1].at:
                raise
        return True

    def _following(self, state: State, candidate: int, gain: float) -> list[Event]:
        """Return the events that make the list one question longer; what is due first.

        Where a draw falls depends on the rank alone. A question keeps the gain of the suggestion that it replaces, so
        that nothing gives it away.
        """
        settings, seed = self.project.settings, self.project.draw_seed
        first = repeat_due(state, settings, seed)
        if first is not None:
            return [asked_anew(state, first, "repeat", gain)]
        rank = sum(query.for_rater is None for query in state.queries)
        control = next_control(state, gain)
        if control is not None and draw(seed, "control", rank) < 1 / EVERY:
            return [control]
        if draw(seed, "drawn", rank) < settings.audit:
            drawn = self._drawn(state, gain)
            if drawn:
                return drawn
        return [suggestion(self.project, state, candidate, gain)]

    def _drawn(self, state: State, gain: float) -> list[Event]:
        """Return the next drawn question, after its round where a new one is due; nothing where no target is left."""
        if not needs_round(self.project, state):
            return [audit_question(state, state.audits[-1], gain)]
        drawn = audit_round(self.project, state, lambda: self._expected(state))
        return [] if drawn is None else [drawn, audit_question(state, drawn, gain)]

    def _expected(self, state: State) -> Expected:
        """Return what audit questions are drawn by: nobody's answers where the list depends on none."""
        if self.model.fixes_places(state):
            nothing = Annotations.empty(self.project.d)
            posterior = self.model.conditioned(self.model.untaught_prior(state), nothing)
            state = State()
        else:
            posterior = self.model.view(state, None).posterior
        chances = self.model.chances
        return Expected(
            posterior,
            self.model.default_covariance,
            lambda points: chances.field(state).at(points) * chances.inside(posterior, points),
        )

    def _is_stopped(self, state: State, who: str) -> bool:
        """Return whether a stop rule other than the budget is met for a rater."""
        return any(rule.met for rule in self.overview.rules(state, who) if rule.name != "budget")
