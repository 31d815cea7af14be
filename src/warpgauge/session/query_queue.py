"""Hands out queries: the next one, another, an earlier one; and extends the list when a rater reaches its end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.project import Cell, Entry, State
from warpgauge.project.events import Ask, DrawAudit, Withdraw
from warpgauge.session.audit_questions import (
    Expected,
    asked_of,
    audit_question,
    audit_round,
    needs_round,
    round_between,
    slots,
)
from warpgauge.session.blindness import Blindness
from warpgauge.session.control_questions import with_controls
from warpgauge.session.model import View
from warpgauge.session.progress import Overview
from warpgauge.session.queries import (
    PROGRAM,
    Prediction,
    Query,
    after,
    asked_anew,
    before,
    counts,
    is_shuffled,
    open_queries,
    position,
    predict,
    repeats,
    room,
    shared_out,
    stale_suggestions,
    suggestions,
)
from warpgauge.session.seals import with_seals

UNKNOWN = 0.25  # share of the image's diagonal: a standard deviation beyond it says nothing
# Said where a rater goes back to a question whose answer is sealed.
_SEALED = "You have answered this; the answer is sealed until the organiser opens it, and a new mark replaces it."
LEASE_SECONDS = 900.0  # a rater who has not answered by then has gone


@dataclass(frozen=True, eq=False)
class _Held:
    """The current query of a rater, and the model as it was when the query was handed out."""

    number: int
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
    excluded : callable
        Returns the transforms that answers exclude from being the best: questions are drawn for the others.
    """

    def __init__(
        self, blindness: Blindness, overview: Overview, excluded: Callable[[], Collection[str]] = tuple
    ) -> None:
        self.project, self.model, self.blindness = blindness.project, blindness.model, blindness
        self.overview, self.excluded = overview, excluded
        self._held: dict[str, _Held] = {}
        self._new: set[str] = set()

    def next(self, who: str, beyond: bool) -> Query | None:
        """Hand out the first query that the rater has not answered; see `Session.next_query`."""
        with self.project.lock:
            while True:
                self._withdraw_stale()
                state = self.project.state
                waiting, aside = open_queries(state, self.project.settings, who, beyond=beyond)
                if not beyond and self.blindness.apart(state) and self._stopped(state, who):
                    # Others may have made the list longer than this rater's own answers need.
                    waiting = [number for number in waiting if not counts(state.queries[number])]
                # Which of a stretch comes first must not depend on how far others have come.
                if waiting and self._is_torn(state, waiting[0]) and self._extend(state, who, len(aside), beyond):
                    continue
                chosen = self._reserved(state, who, waiting)
                if chosen is not None:
                    return self._hand_out(state, chosen, who)
                if not self._extend(state, who, len(aside), beyond):
                    return self._hand_out(state, aside[0], who) if aside else None

    def _is_torn(self, state: State, number: int) -> bool:
        return self.model.fixes_places(state) and not is_shuffled(state, self.project.settings, number)

    def _stopped(self, state: State, who: str) -> bool:
        """Return whether a stop rule other than the budget is met for a rater."""
        return any(rule.met for rule in self.overview.rules(state, rater=who) if rule.name != "budget")

    def _reserved(self, state: State, who: str, waiting: list[int]) -> int | None:
        """Return the first query, reserved for the rater where raters share the locations; None where there is none."""
        settings = self.project.settings
        if settings.answers_per_location is None:
            return waiting[0] if waiting else None
        return self.project.log.lease(who, shared_out(state, settings, who, waiting), LEASE_SECONDS)

    def previous(self, who: str, number: int | None) -> Query | None:
        """Hand out the query that the rater answered or put aside before this one (or last); None at the first."""
        with self.project.lock:
            state = self.project.state
            found = before(state, who, number)
            return None if found is None else self._hand_out(state, found, who)

    def following(self, who: str, number: int) -> Query | None:
        """Hand out the query that came after this one; None where a new one is due."""
        with self.project.lock:
            state = self.project.state
            found = after(state, who, number)
            return None if found is None else self._hand_out(state, found, who)

    def at(self, who: str, number: int) -> Query:
        """Hand out any query of the list."""
        with self.project.lock:
            state = self.project.state
            if not 0 <= number < len(state.queries) or not state.queries[number].asks(who):
                raise InvalidInputError(f"There is no query {number} for {who}; the list has {len(state.queries)}.")
            return self._hand_out(state, number, who)

    def ask_again(self, who: str, number: int, of: str | None) -> Entry:
        """Ask one rater or all for a location again; the new answer replaces the previous one."""
        with self.project.lock:
            queries = self.project.state.queries
            if not 0 <= number < len(queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(queries)}.")
            first = queries[queries[number].location]
            return self.project.append(asked_anew(self.project.state, first, "again", first.gain, rater=who, of=of))[0]

    def newly_handed_out(self) -> dict[str, int]:
        """Return the current query of each rater to whom one was handed out since this was last asked."""
        with self.project.lock:
            found, self._new = {who: self._held[who].number for who in self._new}, set()
            return found

    def prediction(self, who: str, number: int) -> Prediction:
        """Predict the match of a query; for the rater's current query, as predicted when it was handed out."""
        with self.project.lock:
            held = self._held.get(who)
            if held is not None and held.number == number:
                return held.prediction
            state = self.project.state
            if not 0 <= number < len(state.queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}.")
            view, alpha = self.blindness.view(state, who, number), self.project.settings.alpha
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

    def _hand_out(self, state: State, number: int, who: str) -> Query:
        record, settings = state.queries[number], self.project.settings
        self.blindness.hand_out(state, who, number)
        view = self.blindness.view(state, who, number)
        prediction = predict(view.posterior, record.point, self.project.moving_grid, settings.alpha)
        self._held[who] = _Held(number, view, prediction)
        self._new.add(who)
        cell, why = state.cell(who, number), self._why(record.origin, record.gain, prediction)
        if cell.placement is not None and state.is_sealed(number):
            cell, why = Cell(), _SEALED  # also to the rater, an answer is not shown again
        return Query(
            number,
            who,
            record.point,
            position(state, who, number),
            settings.budget,
            record.gain,
            why,
            None if settings.hide_prediction else prediction,
            cell,
            state.generation,
            view.fit_generation,
        )

    def _why(self, origin: str, gain: float | None, prediction: Prediction) -> str:
        settings = self.project.settings
        known = f"its match is known to ± {self._size(prediction)} {self.project.units}"
        if prediction.sd > UNKNOWN * self.project.moving_grid.diagonal:
            known = "nothing is known about its match yet"
        if origin == "volunteered":
            return f"You chose this location; {known}."
        if origin == "given" or (gain is None and origin not in ("audit", "control")):
            return f"The organiser asks for this location; {known}."
        if settings.chosen_strategy not in ("information", "entropy"):
            return f"Chosen by the strategy {settings.chosen_strategy!r}; {known}."
        return f"This is the most informative location; {known}."

    def _size(self, prediction: Prediction) -> str:
        """Return the size of a predicted region as it is drawn: one half-axis where it is round, else all."""
        lengths = prediction.half_lengths.tolist()
        if self.project.settings.hide_prediction:
            # The calibration scales deviations by the residuals: further digits would tell where the prediction is.
            lengths = [float(f"{lengths[0]:.0e}")]
        elif lengths[0] < 1.1 * lengths[-1]:
            lengths = [float(np.sqrt(np.mean(np.square(lengths))))]
        return " x ".join(f"{one:.2g}" if one < 100 else f"{one:.0f}" for one in lengths)  # no exponent

    def _withdraw_stale(self) -> None:
        """Withdraw unanswered suggestions that were based on answers which have since changed."""
        if self.model.fixes_places(self.project.state):
            return
        stale = stale_suggestions(self.project.state)
        if stale:
            try:
                self.project.append(*(Withdraw(rater=PROGRAM, query=number) for number in stale))
            except InvalidInputError:
                # Somebody answered one meanwhile, in another process: it stays, and so do the others until next time.
                return

    def _with_audit(self, state: State, asked: list[Ask]) -> list[Ask]:
        """Replace some suggestions by drawn questions, in the share that the settings state."""
        share = self.project.settings.audit
        if share == 0 or not asked:
            return asked
        first = asked[0].at
        if not state.audits and not self._draw_round(state):
            return asked
        state = self.project.state
        chosen = slots(state, share, len(asked))
        if any(chosen) and needs_round(self.project, state) and not self._draw_round(state):
            return asked
        state = self.project.state
        if len(state.queries) != first:  # another process extended the list meanwhile; writing will find out
            return asked
        used, left = 0, len(state.audits[-1].targets) - asked_of(state, state.audits[-1])
        result = list(asked)
        for step, audited in enumerate(chosen):
            if audited and used < left:
                result[step] = audit_question(state, first + step, asked[step].gain, used)
                used += 1
        return result

    def ask_between(self, pair: Callable[[Floats], Floats], count: int) -> int:
        """Put questions at the end of the list that are drawn for one transform against another.

        Drawn questions that wait already count: the list never holds more than ``count`` because of this. Returns how
        many wait.
        """
        with self.project.lock:
            state = self.project.state
            waiting = sum(query.audit is not None and not state.is_taken(query.number) for query in state.queries)
            # A question tells as much as the suggestion whose place it takes, as all drawn ones do.
            gains = [gain for _, gain in self.model.suggester(state).best(max(0, count - waiting))]
            chance = self._expected(state).chance
            if not gains or not self._logged(round_between(self.project, state, pair, len(gains), chance)):
                return waiting
            state = self.project.state
            asked = [
                audit_question(state, len(state.queries) + ahead, gain, ahead)
                for ahead, gain in enumerate(gains[: len(state.audits[-1].targets)])
            ]
            self.project.append(*asked)
            return waiting + len(asked)

    def _draw_round(self, state: State) -> bool:
        """Draw and log a round of audit questions; False where no target is left."""
        return self._logged(audit_round(self.project, state, lambda: self._expected(state)))

    def _logged(self, drawn: DrawAudit | None) -> bool:
        """Log a round; False where there is none."""
        if drawn is None:
            return False
        with suppress(InvalidInputError):  # another process drew the round: it serves as well
            self.project.append(drawn)
            self.project.draw_witness.record(drawn.drawn.seed)
        return True

    def _expected(self, state: State) -> Expected:
        """Return what audit questions are drawn by: nobody's answers where the list depends on none."""
        excluded: Callable[[], Collection[str]] = self.excluded
        if self.model.fixes_places(state):
            nothing, excluded = Annotations.empty(self.project.d), tuple
            state, posterior = State(), self.model.conditioned(self.model.untaught_prior(state), nothing)
        else:
            posterior = self.model.view(state, None).posterior
        chances = self.model.chances
        return Expected(
            posterior,
            self.model.default_covariance,
            lambda points: chances.field(state).at(points) * chances.inside(posterior, points),
            excluded,
        )

    def _count(self, state: State, who: str, aside: int, beyond: bool) -> int:
        """Return by how many locations the list grows for a rater; 0 where it has come to its end for them.

        Of what the budget leaves to the rater, the queries that they have put aside are kept free.
        """
        settings, fixed = self.project.settings, self.model.fixes_places(state)
        count = min(settings.growth, self.model.suggester(state).left())
        if beyond:
            return count
        allowed = room(state, settings, who)
        if allowed is not None:
            # A list that is the same for all is cut for nobody: only its order would tell who needed less.
            count = min(count, max(0, allowed - aside)) if not fixed else count * (allowed > aside)
        return 0 if count and self._stopped(state, who) else count

    def _extend(self, state: State, who: str, aside: int, beyond: bool) -> bool:
        """Make the list longer; False where it has come to its end."""
        settings = self.project.settings
        count = self._count(state, who, aside, beyond)
        if count == 0:
            return False
        chosen = self.model.suggester(state).best(count)
        asked = repeats(state, settings, chosen[0][1] if chosen else None)
        if not asked:
            if not beyond and settings.stop_gain is not None:
                chosen = [(index, gain) for index, gain in chosen if gain >= settings.stop_gain]
            asked = self._with_audit(state, suggestions(self.project, state, chosen))
            asked = with_seals(self.project, with_controls(self.project.state, asked))
        if not asked:
            return False
        try:
            self.project.append(*asked)
        except InvalidInputError:
            # Another process extended the list first: its queries serve as well.
            if len(self.project.state.queries) == asked[0].at:
                raise
        return True
