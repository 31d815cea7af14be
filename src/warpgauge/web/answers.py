"""Queries and answers, between the session and the wire: one lock, one rater at a time.

A write is answered only when the log has it; what comes next is computed after that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.project import ConflictError, Skip, State
from warpgauge.session import Query, Saved
from warpgauge.session.queries import is_settled, number_for, placed_count
from warpgauge.web.app_state import NO_START, Desk
from warpgauge.web.auth import Person
from warpgauge.web.failures import LockedError, NotFoundError
from warpgauge.web.wire import (
    PlaceRequest,
    SkipRequest,
    VolunteerRequest,
    described,
    predicted,
    rough,
)


class Answering:
    """What raters do to queries."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.session, self.project = desk, desk.session, desk.project

    def current(self, person: Person) -> dict[str, Any]:
        """Return the person's current query, or that there is none."""
        with self.desk.lock:
            query = self.session.next_query(person.name)
            return self._done(person, self._reasons(person)) if query is None else self.shown(query, person)

    def former(self, number: int, person: Person) -> dict[str, Any]:
        """Return a query by its number."""
        with self.desk.lock:
            return self.shown(self.session.go_to(self._known(number, person), person.name), person)

    def previous(self, number: int | None, person: Person) -> dict[str, Any]:
        """Return the query that the person saw before this one."""
        with self.desk.lock:
            inner = None if number is None else self._known(number, person)
            query = self.session.previous(inner, person.name)
            if query is None:
                raise NotFoundError("There is no former query.")
            return self.shown(query, person)

    def shown(self, query: Query, person: Person) -> dict[str, Any]:
        """Describe a query to a person; whether it repeats another one is not told."""
        state, hidden = self.project.state, not self.desk.predicts(person)
        return {
            "query": self.session.blindness.name(state, person.name, query.number),
            "number": number_for(state, person.name, query.number),
            "position": query.position,
            "total": query.total,
            "location": list(query.point),
            "radius": 0.0 if hidden else query.radius,  # it follows from what the model knows
            "name": state.queries[state.queries[query.number].location].name,  # a repeat has the name of the first
            "unaided": False,
            "own_choice": state.queries[query.number].origin == "volunteered",
            "gain": rough(query.gain) if hidden and query.gain is not None else query.gain,
            "generation": query.generation,
            "prediction": None if query.prediction is None else predicted(query.prediction),
            "answer": described(query.answer, hidden=hidden),
            "disabled": query.cell.disabled,
            "locked": self._locked(state, query.number, person),
            **_steps(state, person),
            "start": self.desk.guided_start(person),
        }

    def _done(self, person: Person, reasons: list[str]) -> dict[str, Any]:
        return self._over(self.project.state, person, reasons, self.desk.guided_start(person))

    def _over(self, state: State, person: Person, reasons: list[str], start: dict[str, Any]) -> dict[str, Any]:
        told = {"total": self.project.settings.budget, **_steps(state, person)}
        return {"done": True, "reasons": reasons, "generation": state.generation, **told, "start": start}

    def _unknown(self, person: Person, reason: str) -> dict[str, Any]:
        """Return why there is no next query now; the log may be out of reach, so it is not read."""
        state = self.project.known
        return self._over(state, person, [reason], NO_START)

    def _reasons(self, person: Person) -> list[str]:
        reasons = list(self.session.progress(person.name if person.role == "rater" else None).reasons)
        return reasons or ["Every location has been answered and no candidate is left."]

    def place(self, number: int, request: PlaceRequest, person: Person) -> dict[str, Any]:
        """Save a placement, or the change of one, and give what comes next."""
        placement = request.placement(self.project.d)

        def write(inner: int) -> Saved:
            return self.session.place(
                inner,
                placement,
                confirmed=request.confirmed,
                duration=request.duration,
                base_generation=request.generation,
                rater=person.name,
            )

        return self._written(number, request.generation, person, write)

    def volunteer(self, request: VolunteerRequest, person: Person) -> dict[str, Any]:
        """Save a landmark of the person's own choice."""
        placement = request.placement(self.project.d)
        with self.desk.lock:
            self._recent(request.generation)
            saved = self.session.place(
                None,
                placement,
                name=request.name,
                confirmed=request.confirmed,
                duration=request.duration,
                rater=person.name,
            )
            self.desk.changed()
            name = self.session.blindness.name(self.project.state, person.name, saved.query)
            return {"saved": _saved(saved), "query": name, "start": self.desk.guided_start(person)}

    def skip_start(self, generation: int, person: Person) -> dict[str, Any]:
        """Save that the person skips the guided start."""
        with self.desk.lock:
            self._recent(generation)
            event = self.session.skip_start(person.name)
            saved = {"generation": event.generation, "time": event.time}
            return {"saved": saved, "start": self.desk.guided_start(person)}

    def skip(self, number: int, request: SkipRequest, person: Person) -> dict[str, Any]:
        """Save that a query was declined, and give what comes next."""

        def write(inner: int) -> Saved:
            base: int | None = request.generation
            if isinstance(self.project.state.answer(person.name, inner), Skip):
                # Another reason: the former skip is taken back first, so that both can be undone one by one.
                self.session.restore(inner, base_generation=base, rater=person.name)
                base = None
            told: dict[str, Any] = {"duration": request.duration, "base_generation": base, "rater": person.name}
            return self.session.skip(inner, request.reason, request.text, **told)

        return self._written(number, request.generation, person, write)

    def _written(self, number: int, generation: int, person: Person, write: Callable[[int], Saved]) -> dict[str, Any]:
        with self.desk.lock:
            saved = write(self._open(number, generation, person))
            self.desk.changed()
            try:
                following = self.current(person)
            except WarpgaugeError as error:  # what is on the disk is acknowledged, whatever comes after it
                following = self._unknown(person, str(error))
            return {"saved": _saved(saved), "next": following}

    def another(self, number: int, generation: int, person: Person) -> dict[str, Any]:
        """Put a query aside and give the next best."""
        with self.desk.lock:
            inner, state = self._open(number, generation, person), self.project.state
            aside = state.deferred.get((person.name, inner), 0)
            if aside > generation:
                raise InvalidInputError(f"Query {number} has been put aside already; reload to see what comes next.")
            touched = state.touched.get((person.name, inner))
            if touched is not None and touched.generation > generation:
                raise ConflictError(f"Query {number} was answered meanwhile; look at it and decide again.", touched)
            query = self.session.another(inner, person.name)
            self.desk.changed()
            return self._done(person, self._reasons(person)) if query is None else self.shown(query, person)

    def disable(self, number: int, disabled: bool, generation: int, person: Person) -> dict[str, Any]:
        """Take a placement out of the model, or put it back."""
        with self.desk.lock:
            inner = self._open(number, generation, person)
            act = self.session.disable if disabled else self.session.enable
            saved = act(inner, base_generation=generation, rater=person.name)
            self.desk.changed()
            return {"saved": _saved(saved), "query": self.shown(self.session.go_to(inner, person.name), person)}

    def step(self, kind: str, generation: int, person: Person) -> dict[str, Any]:
        """Undo or redo."""
        with self.desk.lock:
            state = self._recent(generation)
            steps = (state.done if kind == "undo" else state.undone).get(person.name, [])
            if steps and self._locked(state, steps[-1].query, person):
                raise LockedError("The organiser has settled that location, so this cannot be changed any more.")
            act = self.session.undo if kind == "undo" else self.session.redo
            saved = act(person.name, base_generation=generation)
            if saved is None:
                raise InvalidInputError(f"There is nothing to {kind}.")
            self.desk.changed()
            retracted = self.project.state.queries[saved.query].origin == "volunteered" and saved.answer is None
            if retracted:
                return {"saved": _saved(saved), "query": self.current(person)}
            return {"saved": _saved(saved), "query": self.shown(self.session.go_to(saved.query, person.name), person)}

    def _recent(self, generation: int) -> State:
        state = self.project.state
        if generation > state.generation:
            raise InvalidInputError(f"Generation {generation} has not been reached; the log is at {state.generation}.")
        return state

    def _known(self, number: int, person: Person) -> int:
        """Return the query that this person knows under a number."""
        inner = self.session.blindness.number(self.project.state, person.name, number)
        if inner is None:
            raise NotFoundError(f"There is no query {number} for {person.name}.")
        return inner

    def _open(self, number: int, generation: int, person: Person) -> int:
        """Return the query of a write; refuse one that is not there, not yet known to the sender, or settled."""
        state, inner = self._recent(generation), self._known(number, person)
        if generation < state.queries[inner].generation:
            raise InvalidInputError(f"Query {number} was not yet asked at generation {generation}; reload the page.")
        if self._locked(state, inner, person):
            raise LockedError("The organiser has settled this location, so it cannot be changed any more.")
        return inner

    @staticmethod
    def _locked(state: State, number: int, person: Person) -> bool:
        """Return whether the location was settled after it was asked, for all but organisers."""
        return is_settled(state, number) and not person.organises


def _saved(saved: Saved) -> dict[str, Any]:
    return {"generation": saved.generation, "time": saved.time}


def _steps(state: State, person: Person) -> dict[str, Any]:
    """Return how far a person has come: the one way to count, whatever the list shows."""
    name = person.name
    skipped = sum(isinstance(state.answer(name, number), Skip) for number in state.trails.get(name, ()))
    return {
        "placed": placed_count(state, name),
        "skipped": skipped,
        "can_undo": bool(state.done.get(name)),
        "can_redo": bool(state.undone.get(name)),
    }
