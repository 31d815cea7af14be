"""Which query a rater gets: next, another, the former one, and how the list grows when somebody reaches its end."""

from __future__ import annotations

from warpgauge.errors import InvalidInputError
from warpgauge.project import Draft, State
from warpgauge.session.base import number_of
from warpgauge.session.learning import Learning
from warpgauge.session.queries import (
    Query,
    after,
    before,
    open_queries,
    repeat_drafts,
    room,
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
                state = self.project.state
                waiting, aside = open_queries(state, self.project.settings, who)
                if waiting:
                    return self._hand_out(state, waiting[0], who)
                if not self._extend(state, beyond):
                    return self._hand_out(state, aside[0], who) if aside else None

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

    def _extend(self, state: State, beyond: bool) -> bool:
        """Make the list longer; False where it has come to its end."""
        settings = self.project.settings
        follower = self._model.follower(state)
        count = min(settings.growth, follower.left())
        if not beyond:
            allowed = room(state, settings)
            count = count if allowed is None else min(count, allowed)
            if count and any(rule.met for rule in self._rules(state)):
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
