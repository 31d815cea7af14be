"""Selection of a rater's query (next, another, previous), and extension of the list when a rater reaches its end."""

from __future__ import annotations

from warpgauge.errors import InvalidInputError
from warpgauge.project import Draft, State
from warpgauge.session.base import number_of
from warpgauge.session.learning import Learning
from warpgauge.session.queries import (
    PROGRAM,
    Query,
    after,
    before,
    open_queries,
    repeat_drafts,
    room,
    stale_suggestions,
    suggestion_drafts,
)
from warpgauge.session.reporting import Reporting


class Asking(Reporting, Learning):
    """The part of a session that hands out queries."""

    def next_query(self, rater: str | None = None, *, beyond: bool = False) -> Query | None:
        """Hand out the first query of the list that the rater has not answered.

        At the end of the list it is extended, unless a stop rule is met (``beyond`` goes on all the same). When nothing
        else is left, queries that were put aside come again, the oldest first; None means that the rater is done.
        """
        who = self._who(rater)
        if self.auto_refit:
            self.refit_if_due()
        with self._lock:
            while True:
                self._withdraw_stale()
                state = self.project.state
                waiting, aside = open_queries(state, self.project.settings, who, beyond=beyond)
                if waiting:
                    return self._hand_out(state, waiting[0], who)
                if not self._extend(state, who, len(aside), beyond):
                    return self._hand_out(state, aside[0], who) if aside else None

    def _withdraw_stale(self) -> None:
        """Take suggestions from the list that nobody has taken up and that rest on answers no longer in force."""
        if self.project.settings.suggest_with != "answers":
            return
        stale = stale_suggestions(self.project.state)
        if stale:
            try:
                self.project.append(*(Draft("withdraw", PROGRAM, number) for number in stale))
            except InvalidInputError:
                # Somebody answered one meanwhile, in another process: it stays, and so do the others until next time.
                return

    def another(self, query: int | Query, rater: str | None = None) -> Query | None:
        """Put a query aside and hand out the next best instead; it comes again when nothing else is left."""
        who, number = self._who(rater), number_of(query)
        self.project.append(Draft("defer", who, number))
        return self.next_query(who)

    def previous(self, query: int | Query | None = None, rater: str | None = None) -> Query | None:
        """Hand out the query that the rater answered or put aside before this one (or last); None at the first."""
        who = self._who(rater)
        with self._lock:
            state = self.project.state
            number = before(state, who, None if query is None else number_of(query))
            return None if number is None else self._hand_out(state, number, who)

    def following(self, query: int | Query, rater: str | None = None) -> Query | None:
        """Hand out the query that came after this one, or a new one after the last."""
        who = self._who(rater)
        with self._lock:
            state = self.project.state
            number = after(state, who, number_of(query))
            return self.next_query(who) if number is None else self._hand_out(state, number, who)

    def go_to(self, query: int | Query, rater: str | None = None) -> Query:
        """Hand out any query of the list."""
        who, number = self._who(rater), number_of(query)
        with self._lock:
            state = self.project.state
            if not 0 <= number < len(state.queries) or not state.queries[number].asks(who):
                raise InvalidInputError(f"There is no query {number} for {who}; the list has {len(state.queries)}.")
            return self._hand_out(state, number, who)

    def _extend(self, state: State, who: str, aside: int, beyond: bool) -> bool:
        """Make the list longer; False where it has come to its end.

        Of what the budget leaves to the rater, the queries that they have put aside are kept free.
        """
        settings = self.project.settings
        follower = self._model.follower(state)
        count = min(settings.growth, follower.left())
        if not beyond:
            allowed = room(state, settings, who)
            count = count if allowed is None else min(count, max(0, allowed - aside))
            if count and any(rule.met for rule in self._rules(state) if rule.name != "budget"):
                count = 0
        drafts = repeat_drafts(state, settings, last_chance=count == 0)
        if not drafts and count:
            chosen = follower.best(count)
            if not beyond and settings.stop_gain is not None:
                chosen = [(index, gain) for index, gain in chosen if gain >= settings.stop_gain]
            drafts = suggestion_drafts(self.project, state, chosen)
            if not drafts:
                drafts = repeat_drafts(state, settings, last_chance=True)
        if not drafts:
            return False
        try:
            self.project.append(*drafts)
        except InvalidInputError:
            # Another process extended the list first: its queries serve as well.
            if len(self.project.state.queries) == int(drafts[0].query or 0):
                raise
        return True
