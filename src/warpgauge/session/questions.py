"""Hands out questions, the next one, another, an earlier one; and makes the list longer when a rater is at its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.landmarks import Landmarks
from warpgauge.project import Ask, Event, NotAllowedError, Project, State
from warpgauge.project.events import Defer
from warpgauge.project.values import ORGANISER, PROGRAM, Origin
from warpgauge.session.audit_questions import audit_question, audit_round, needs_round
from warpgauge.session.circle import circle_radius
from warpgauge.session.control_questions import EVERY, next_control
from warpgauge.session.model import View
from warpgauge.session.progress import Overview
from warpgauge.session.queries import (
    Query,
    answered_before,
    asked_anew,
    counts,
    draw,
    may_choose,
    number_of,
    open_queries,
    position,
    predict,
    repeat_due,
    room,
    shared_out,
)


@dataclass(frozen=True, eq=False)
class _Held:
    """The current query of a rater, and the model as it was when the query was handed out."""

    number: int
    radius: float
    view: View


class Questions(Overview):
    """Hands out the queries of one shared list, and remembers the current query of each rater."""

    def __init__(self, project: Project, rater: str | None) -> None:
        super().__init__(project, rater)
        self._held: dict[str, _Held] = {}

    def next_query(self, rater: str | None = None, *, beyond: bool = False) -> Query | None:
        """Hand out the first query of the list that the rater has not answered.

        At the end of the list it is extended, unless a stop rule is met (``beyond`` goes on all the same). When nothing
        else is left, queries that were put aside come again, the oldest first; None means that the rater is done.
        """
        who = self._who(rater)
        settings = self.project.settings
        with self.project.lock:
            while True:
                state = self.project.state
                waiting, aside = open_queries(state, settings, who, beyond=beyond)
                if not beyond and self.blindness.apart(state) and self._has_enough(state, who, len(aside)):
                    # Others may have made the list longer than this rater's own answers need.
                    waiting = [number for number in waiting if not counts(state.queries[number])]
                waiting, of_others = shared_out(state, settings, who, waiting)
                if waiting:
                    return self._hand_out(state, waiting[0], who)
                if not self._extend(state, who, len(aside), beyond):
                    last = [*of_others, *aside]
                    return self._hand_out(state, last[0], who) if last else None

    def another(self, query: int | Query, rater: str | None = None) -> Query | None:
        """Put a query aside and hand out the next best instead; it comes again when nothing else is left."""
        who = self._who(rater)
        self.project.append(Defer(rater=who, query=number_of(query)))
        return self.next_query(who)

    def previous(self, query: int | Query | None = None, rater: str | None = None) -> Query | None:
        """Hand out the query that the rater answered or put aside before this one (or last); None at the first."""
        who = self._who(rater)
        with self.project.lock:
            state = self.project.state
            former = answered_before(state, who, None if query is None else number_of(query))
            return self._hand_out(state, former[-1], who) if former else None

    def go_to(self, query: int | Query, rater: str | None = None) -> Query:
        """Hand out any query of the list."""
        who = self._who(rater)
        with self.project.lock:
            state = self.project.state
            asked = _query_at(state, number_of(query))
            if not asked.asks(who):
                raise InvalidInputError(f"Query {asked.number} is for {asked.for_rater} only, not for {who}.")
            return self._hand_out(state, asked.number, who)

    def _hand_out(self, state: State, number: int, who: str) -> Query:
        """Hand a query of the list to a rater, and remember it with the model as it is now."""
        asked = state.queries[number]
        settings = self.project.settings
        self.blindness.hand_out(state, who, number)
        view = self.blindness.view(state, who, number)
        held = _Held(number, self._radius(state, asked, view), view)
        self._held[who] = held
        prediction = None
        if not settings.hide_prediction:
            prediction = predict(view.posterior, asked.point, self.project.moving_grid, settings.alpha)
        return Query(
            number=number,
            rater=who,
            point=asked.point,
            radius=held.radius,
            position=position(state, who, number),
            total=settings.budget,
            gain=asked.gain,
            prediction=prediction,
            cell=state.cell(who, number),
            generation=state.generation,
        )

    def radius(self, who: str, number: int) -> float:
        """Return how far from a query's point the rater may choose the place; 0 where it is asked exactly there."""
        held = self._held.get(who)
        if held is not None and held.number == number:
            return held.radius
        state = self.project.state
        return self._radius(state, state.queries[number], self.blindness.view(state, who, number))

    def _radius(self, state: State, asked: Ask, view: View) -> float:
        """Return the radius of a query's circle; what an organiser chose is asked exactly there."""
        if asked.origin != "suggested" or asked.candidate is None or not may_choose(state, self.project.settings):
            return 0.0
        return circle_radius(self.project, view.posterior, asked.point)

    def view(self, rater: str | None = None, *, everybody: bool = False) -> Posterior:
        """Return the posterior of a rater's linked views; it does not change while a query is shown.

        With ``everybody``, for a person who may see them, that of the answers of all, as they are now. An answer of
        their own at the place that they have before them is left out of either.
        """
        who = self._who(rater)
        with self.project.lock:
            held = self._held.get(who)
            if everybody:
                number = None if held is None else held.number
                return self.blindness.view(self.project.state, who, number, everybody=True).posterior
            view = self.blindness.view(self.project.state, who) if held is None else held.view
            return view.posterior

    def warm(self) -> None:
        """Bring the model and the gains up to date now, so that the first query does not wait for it."""
        with self.project.lock:
            state = self.project.state
            self._model.view(state, None).posterior  # noqa: B018  # made when it is asked for
            self._model.suggester(state).best()

    # What organisers ask

    def ask_again(self, query: int | Query, of: str | None = None, *, rater: str | None = None) -> Event:
        """Ask one rater or all for a location again; the new answer replaces the previous one."""
        with self.project.lock:
            state = self.project.state
            first = state.queries[_query_at(state, number_of(query)).location]
            return self.project.append(asked_anew(state, first, "again", first.gain, self._who(rater), of))[0]

    def choose_places(
        self, points: ArrayLike | None = None, rater: str | None = None
    ) -> tuple[tuple[float, ...], float] | None:
        """Ask all raters at chosen places of the fixed image, exactly there, before anybody has answered.

        Returns
        -------
        (point, radius) or None
            The next circle to choose a place in, in the fixed image's world: by the places chosen so far and nobody's
            answers. None where no candidate is left.
        """
        who = self._who(rater)
        with self.project.lock:
            state = self.project.state
            if state.role(who) != ORGANISER:
                raise NotAllowedError(f"{who} does not organise this project: organisers choose places.")
            if state.cells:
                raise InvalidInputError("Places are chosen before anybody has answered, in the fixed image alone.")
            if points is not None:
                chosen = as_points(points, "Chosen places", self.project.d)
                self.project.append(*asked_by_organiser(self.project, who, chosen))
                state = self.project.state
            best = self._model.suggester(state).best()
            if best is None:
                return None
            point = tuple(self.project.candidates[best[0]].tolist())
            return point, circle_radius(self.project, self._model.view(state, None).posterior, point)

    # Making the list longer

    def _extend(self, state: State, who: str, aside: int, beyond: bool) -> bool:
        """Make the list one question longer; False where it has come to its end for a rater.

        Of what the budget leaves to the rater, the queries that they have put aside are kept free.
        """
        if not beyond and self._has_enough(state, who, aside):
            return False
        best = self._model.suggester(state).best()
        if best is None:
            return False
        new = self._following(state, *best)
        try:
            self.project.append(*new)
        except InvalidInputError:
            # Another process extended the list first: its question serves as well.
            if len(self.project.state.queries) == new[-1].at:
                raise
        return True

    def _has_enough(self, state: State, who: str, aside: int) -> bool:
        """Return whether a rater's own answers, and what they have put aside, leave nothing more to ask."""
        allowed = room(state, self.project.settings, who)
        return (allowed is not None and allowed <= aside) or self._is_stopped(state, who)

    def _following(self, state: State, candidate: int, gain: float) -> list[Event]:
        """Return the events that make the list one question longer; what is due first.

        Where a draw falls depends on the rank alone. A question keeps the gain of the suggestion that it replaces, so
        that nothing gives it away.
        """
        settings = self.project.settings
        seed = self.project.draw_seed
        first = repeat_due(state, settings, seed)
        if first is not None:
            return [asked_anew(state, first, "repeat", gain)]
        rank = sum(query.for_rater is None for query in state.queries)
        control = next_control(state, gain)
        if control is not None and draw(seed, "control", rank) < 1 / EVERY:
            return [control]
        if draw(seed, "drawn", rank) < settings.audit:
            if not needs_round(self.project, state):
                return [audit_question(state, state.audits[-1], gain)]
            drawn = audit_round(self.project, state, self._model.expected)
            if drawn is not None:  # else no target is left
                return [drawn, audit_question(state, drawn, gain)]
        point = tuple(self.project.candidates[candidate].tolist())
        number = len(state.queries)
        return [Ask(rater=PROGRAM, query=number, point=point, candidate=candidate, origin="suggested", gain=gain)]


def asked_by_organiser(
    project: Project, who: str, points: Floats, names: tuple[str, ...] | None = None, origin: Origin = "suggested"
) -> list[Ask]:
    """Return the events that ask all raters for points of the fixed image, in their order."""
    outside = ~project.fixed_grid.contains(points)
    if outside.any():
        at = ", ".join(f"{value:.4g}" for value in points[outside][0])
        raise InvalidInputError(f"A chosen place lies outside the fixed image, at {at}; choose one within it.")
    first = len(project.state.queries)
    return [
        Ask(rater=who, query=first + step, point=tuple(point), origin=origin, name=names[step] if names else "")
        for step, point in enumerate(points.tolist())
    ]


def check_named(landmarks: Landmarks, grid: Grid, file: str) -> None:
    """Refuse landmarks that cannot be asked for by name in the fixed image; ``file`` is their name for messages."""
    if landmarks.moving_points is not None:
        raise InvalidInputError(
            f"{file!r} holds pairs; named landmarks are points of the fixed image alone. Import pairs with warpgauge "
            f"import."
        )
    names = landmarks.names or ()
    if not all(name.strip() for name in names) or len(names) != len(landmarks) or len(set(names)) != len(names):
        raise InvalidInputError(f"Every point of {file!r} needs a name of its own to be asked for by it.")
    outside = np.flatnonzero(~grid.contains(landmarks.fixed_points))
    if len(outside):
        at = ", ".join(f"{value:.4g}" for value in landmarks.fixed_points[outside[0]])
        raise InvalidInputError(
            f"{names[outside[0]]!r} of {file!r} lies outside the fixed image, at {at}; is it of another image?"
        )


def _query_at(state: State, number: int) -> Ask:
    if not 0 <= number < len(state.queries):
        raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}, from 0 on.")
    return state.queries[number]
