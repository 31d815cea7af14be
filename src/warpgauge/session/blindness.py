"""What a rater may receive: the one owner of blindness.

Two promises are kept here, and everything that is sent to a rater comes through here.

*Others.* In a blind project with registered raters, what a rater receives depends on their own answers alone: their
model has weights of its own, learned from their answers when these reach the next step, never at a time that a
background job decides; queries have names that do not count what others do; and the list of places depends on
nobody's answers, unless a setting shares the places (``answers_per_location``).

*Their own former answer.* At a query whose place the rater has answered before (a repeat, or one that is asked again),
everything is made from their answers at other places, as if this one had never been answered: prediction, linked
views, maps, list, progress, doubts. So that the answer which is missing does not give a repeat away, a project with
repeats leaves out one former answer at every other query too, as far back as a repeat would lie.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from warpgauge.core.process import TransformationPrior
from warpgauge.display import counted
from warpgauge.errors import WarpgaugeError
from warpgauge.project import State
from warpgauge.project.values import Vector
from warpgauge.session.fused_annotations import LocatedAnnotations, own_annotations
from warpgauge.session.model import Model, View
from warpgauge.session.prior import fitted_prior, refit_step, with_weights
from warpgauge.session.queries import draw, name_for, open_queries

_KEPT_PER_RATER = 3  # views: of the query, of the progress, of a former answer


class Blindness:
    """Says what each rater of a session may see."""

    def __init__(self, model: Model) -> None:
        self.project, self.model = model.project, model
        self._handed: dict[str, int] = {}
        self._kept: dict[str, OrderedDict[Hashable, Any]] = {}

    def apart(self, state: State) -> bool:
        """Return whether each rater has a model of their own."""
        return self.model.apart(state)

    def described(self, state: State) -> str:
        """Return in a few words whether the project is blind, and if not, why."""
        settings = self.project.settings
        if not settings.blind:
            return "no: raters see the answers of all"
        if not state.has_raters:
            return "nobody is registered as a rater yet"
        if settings.answers_per_location is not None:
            return "own marks only, but the answers of all decide the places (answers_per_location)"
        return "yes: what a rater receives depends on nobody else's answers"

    # Names

    def _named(self, state: State, who: str) -> bool:
        """Return whether a person knows queries by names of their own: organisers see the whole list."""
        return self.apart(state) and state.role(who) == "rater"

    def name(self, state: State, who: str, number: int) -> int:
        """Return the number under which a query is shown to a person."""
        return name_for(state, number) if self._named(state, who) else number

    def number(self, state: State, who: str, name: int) -> int | None:
        """Return the query that is shown to a person under a number; None where there is none for them.

        Raters who are kept apart know the queries that they have answered or put aside, and the one that is next.
        """
        if not self._named(state, who):
            return name if 0 <= name < len(state.queries) and state.queries[name].asks(who) else None
        asked = (query.number for query in state.queries if query.asks(who))
        number = next((number for number in asked if name_for(state, number) == name), None)
        if number is None or state.queries[number].for_rater == who or number in state.trails.get(who, ()):
            return number
        return number if number in (self.next(state, who), self._handed.get(who)) else None

    # Former answers

    def hand_out(self, state: State, who: str, number: int) -> None:
        """Take note of the query that a rater has before them."""
        if state.answer(who, number) is None:
            self._handed[who] = number

    def next(self, state: State, who: str) -> int | None:
        """Return the query that the rater is to answer next, as far as the list goes."""
        handed = self._handed.get(who)
        if handed is not None and (who, handed) not in state.deferred and state.answer(who, handed) is None:
            return handed
        waiting, aside = open_queries(state, self.project.settings, who)
        return next(iter((*waiting, *aside)), None)

    def left_out(self, state: State, who: str) -> frozenset[int]:
        """Return the rater's answered queries of which nothing is sent while the next query is open."""
        number = self.next(state, who)
        if number is None:
            return frozenset()
        trail = [at for at in state.trails.get(who, ()) if state.answer(who, at) is not None and at != number]
        here = state.queries[number]
        reach = 0.5 * self.project.fixed_grid.pixel
        twins = [
            at
            for at in trail
            if state.queries[at].location == here.location or _distance(state, who, at, here.point) <= reach
        ]
        return frozenset(twins or self._decoy(state, who, number, trail))

    def _decoy(self, state: State, who: str, number: int, trail: list[int]) -> list[int]:
        """Return a former answer that is left out where no repeat is asked, as a repeat would leave one out."""
        settings = self.project.settings
        if settings.repeat_fraction == 0:
            return []
        lag = settings.repeat_lag
        asked = [at for at in trail if state.queries[at].for_rater is None]
        window = asked[max(0, len(asked) - 2 * lag) : max(0, len(asked) - lag + 1)]
        if not window:
            return []
        at = draw(self.project.draw_seed, f"decoy\0{who}", name_for(state, number))
        return [window[int(at * len(window))]]

    # Views

    def view(
        self, state: State, who: str, number: int | None = None, *, sealed: bool = False, everybody: bool = False
    ) -> View:
        """Return the model that a rater may see with a query before them (by default the next one).

        It rests on their answers at other places. ``sealed`` answers may count for the uncertainty, so that progress
        does not reveal them. A person who may see the answers of ``everybody`` has only a former answer of their own
        left out.
        """
        hidden = {state.queries[at].location for at in self.left_out(state, who)}
        if number is not None:
            hidden.add(state.queries[number].location)
        if self.apart(state) and not everybody:
            return self._own(state, who, hidden, sealed)
        whose = who if self.project.settings.blind and not everybody else None
        whole = self.model.view_with_sealed(state, whose) if sealed else self.model.view(state, whose)
        if not hidden & set(whole.located.locations):
            return whole
        key = (id(whole), tuple(sorted(hidden)))
        view: View = self._keep(who, key, lambda: (whole, whole.without(hidden)))[1]
        return view

    def _own(self, state: State, who: str, hidden: set[int], sealed: bool) -> View:
        located = own_annotations(state, self.project.d, who).without(hidden)
        key = ("view", self.model.untaught_key(state), located.generations)
        view: View = self._keep(
            who, key, lambda: View(located, self._prior(state, who, located), self.model.calibrates)
        )
        if not sealed or not state.sealed_locations():
            return view
        whole = own_annotations(state, self.project.d, who, sealed=True).without(hidden)
        sealed_key = ("sealed", id(view), whole.generations)
        counting: View = self._keep(who, sealed_key, lambda: (view, self.model.counting_sealed(state, view, whole)))[1]
        return counting

    def _prior(self, state: State, who: str, located: LocatedAnnotations) -> TransformationPrior:
        """Return the prior with the weights that a rater's own answers teach: as many of the first as a step has."""
        untaught = self.model.untaught_prior(state)
        count = self._taught_by(state, len(located))
        if count == 0:
            return untaught
        first = located.annotations[np.arange(count)]

        def learn() -> TransformationPrior:
            try:
                fitted = fitted_prior(self.project, first)
            except WarpgaugeError:  # as with the initial weights: the next step may succeed
                return untaught
            return with_weights(untaught, fitted.kernel, (fitted.linear_sd, fitted.translation_sd), fitted.noise)

        key = ("prior", self.model.untaught_key(state), located.generations[:count])
        prior: TransformationPrior = self._keep(who, key, learn)
        return prior

    def _taught_by(self, state: State, count: int) -> int:
        return refit_step(count) if self.model.learns(state) else 0

    def weights(self, state: State, who: str) -> str:
        """Return in a sentence where the weights of a rater's own model come from."""
        step = self._taught_by(state, len(self.view(state, who).located))
        if step == 0:
            return "The weights of the kernel do not depend on your answers yet."
        return f"The weights were learned from {counted(step, 'answer')} of yours."

    def _keep(self, who: str, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return a value that is kept for a rater, made now where it is missing."""
        kept = self._kept.setdefault(who, OrderedDict())
        if key not in kept:
            kept[key] = make()
        kept.move_to_end(key)
        while len(kept) > 3 * _KEPT_PER_RATER:
            kept.popitem(last=False)
        return kept[key]


def _distance(state: State, who: str, at: int, point: Vector) -> float:
    """Return how far from a point of the fixed image an answer marks one, along the axis where that is most."""
    placement = state.placement(who, at)
    marked = state.queries[at].point if placement is None or placement.fixed is None else placement.fixed
    return max([abs(a - b) for a, b in zip(marked, point, strict=True)])
