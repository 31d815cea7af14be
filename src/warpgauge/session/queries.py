"""The shared list of queries as functions of the state: what a rater is asked, in which order, and what comes next."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import confidence_radius, ellipse_from_covariance
from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats, Grid
from warpgauge.project import Ask, Cell, Event, Settings, State
from warpgauge.project.values import PROGRAM, Origin

START_MARKS = 3  # landmarks of a guided start: they settle rotation, mirroring and scale
OWN = 2**40  # where the names of queries begin that are for one rater only


@dataclass(frozen=True, eq=False)
class Prediction:
    """The posterior at one location, in the moving image's world."""

    mean: Floats
    """Expected match, (d,)."""
    covariance: Floats
    """Of the true match, (d, d)."""
    half_lengths: Floats
    """Of the ellipse or ellipsoid that holds the match with probability ``1 - alpha``, longest first."""
    axes: Floats
    """Its directions, as columns."""
    alpha: float
    sd: float
    """Root mean variance over the directions, in world units."""
    inside: bool
    """Whether the expected match lies within the moving image."""


@dataclass(frozen=True, eq=False)
class Query:
    """A query as it is handed to a rater; whether it repeats an earlier one is not told."""

    number: int
    """Place in the shared list, from 0; what `place`, `skip` and the others take."""
    rater: str
    """To whom it was handed."""
    point: tuple[float, ...]
    """In the fixed image's world."""
    radius: float
    """The rater may choose a place no farther than this from the point; 0 where everybody is asked exactly there."""
    position: int
    """1-based position among this rater's placements; skips do not count."""
    total: int | None
    """Of how many, where a budget says."""
    gain: float | None
    """Expected gain in nats when it was chosen."""
    prediction: Prediction | None
    """Where the model expects the match; None where the project hides it."""
    cell: Cell
    """What the rater has said to it already."""
    generation: int
    """Of the state that this rests on: to be given back as ``base_generation``."""

    @property
    def answer(self) -> Event | None:
        """The event by which the rater has answered so far."""
        return self.cell.answer


def number_of(query: int | Query) -> int:
    """Return the number of a query however it is given."""
    return query.number if isinstance(query, Query) else int(query)


def draw(seed: int, purpose: str, rank: int) -> float:
    """Return a number from 0 to 1 that nobody can guess who does not know the seed."""
    digest = hashlib.sha256(f"{seed}\0{purpose}\0{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


# Names and positions


def name_for(state: State, number: int) -> int:
    """Return the name of a query for a rater: unlike its number, it does not tell what others have done.

    What all are asked counts from 0, what one rater alone is asked or has volunteered from `OWN`.
    """
    named: list[int] = state.derived.setdefault("names of queries", [])
    counts: dict[str | None, int] = state.derived.setdefault("counts of queries", {})
    for query in state.queries[len(named) :]:
        rank = counts.get(query.for_rater, 0)
        counts[query.for_rater] = rank + 1
        named.append(rank if query.for_rater is None else OWN + rank)
    return named[number]


def answered_before(state: State, rater: str, number: int | None) -> list[int]:
    """Return what the rater answered or put aside before a query: everything for None or one that is not answered."""
    trail = state.trails.get(rater, [])
    return trail[: trail.index(number)] if number in trail else trail


def position(state: State, rater: str, number: int) -> int:
    """Return the 1-based position of a query among those that a rater has placed or put aside."""
    return 1 + sum(
        state.placement(rater, other) is not None or (rater, other) in state.deferred
        for other in answered_before(state, rater, number)
    )


def number_for(state: State, rater: str, number: int) -> int:
    """Return the 1-based number of a query for a rater: in the order in which this rater answered or put aside."""
    return 1 + sum(
        state.answer(rater, other) is not None or (rater, other) in state.deferred
        for other in answered_before(state, rater, number)
    )


# What is asked


def is_settled(state: State, number: int) -> bool:
    """Return whether the organiser settled the location after this query was asked; asking again opens it."""
    query = state.queries[number]
    settled = state.resolved.get(query.location)
    return settled is not None and settled.generation > query.generation


def is_retracted(state: State, query: Ask) -> bool:
    """Return whether nobody is asked this query: chosen by a rater, or of an import that was undone."""
    if query.batch is not None and not state.batches.get(query.batch):
        return True
    return query.origin == "volunteered"


def is_free(state: State, query: Ask) -> bool:
    """Return whether the place may be suggested (again): nobody is asked there, and nobody has answered."""
    return is_retracted(state, query) and not state.is_taken(query.number)


def may_choose(state: State, settings: Settings) -> bool:
    """Return whether raters choose the place within the circle of a question.

    Answers are fused, repeated, controlled and audited only at one fixed place, so only a single rater does, in a
    project without repeats, controls and audits.
    """
    if settings.circle == 0 or settings.repeat_fraction > 0 or settings.audit > 0:
        return False
    people = {name for name in state.raters if state.role(name) == "rater"} | set(state.who_answered())
    return len(people) <= 1 and not state.audits and state.controls is None


def open_queries(state: State, settings: Settings, rater: str, *, beyond: bool = False) -> tuple[list[int], list[int]]:
    """Return the queries that the rater has not answered: those not put aside, and those put aside, oldest first.

    Locations that the organiser has settled are no longer asked, nor those that a rater chose. A rater who has placed
    the budget is asked only what is asked again.
    """
    used_up = room(state, settings, rater) == 0 and not beyond
    unanswered = [
        query.number
        for query in state.queries
        if query.asks(rater)
        and state.answer(rater, query.number) is None
        and not is_settled(state, query.number)
        and not is_retracted(state, query)
        and not (used_up and counts(query))
    ]
    aside = [number for number in unanswered if (rater, number) in state.deferred]
    aside.sort(key=lambda number: state.deferred[rater, number])
    return [number for number in unanswered if (rater, number) not in state.deferred], aside


def shared_out(state: State, settings: Settings, rater: str, waiting: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the questions that the rater is to answer now, and those that are left to others for the moment.

    Only with ``answers_per_location``: each question has its raters by its rank in the list. One that they have left
    behind by two rounds is everybody's, and so is what is asked again, or of one rater only.
    """
    most = settings.answers_per_location
    if most is None:
        return list(waiting), []
    registered = {name for name in state.raters if state.role(name) == "rater"}
    people = sorted(registered | set(state.who_answered()) | {rater})
    newest = max((name_for(state, query.number) for query in state.queries if query.for_rater is None), default=0)
    own: list[int] = []
    left_behind: list[int] = []
    of_others: list[int] = []
    for number in waiting:
        query = state.queries[number]
        if query.origin != "suggested" or query.for_rater is not None:
            own.append(number)
            continue
        keys = state.cells_at.get(number, ())
        others = sum(who != rater and state.cells[who, at].placement is not None for who, at in keys if at == number)
        if others >= most:
            continue
        rank = name_for(state, number)
        if (people.index(rater) - most * rank) % len(people) < most:
            own.append(number)
        elif newest - rank >= 2 * len(people):
            left_behind.append(number)
        else:
            of_others.append(number)
    return own + left_behind, of_others


def locations_in_list(state: State) -> list[Ask]:
    """Return the first query at each location that all are asked."""
    return [query for query in state.queries if query.same_as is None and query.for_rater is None and not query.known]


def counts(query: Ask) -> bool:
    """Return whether a placement of this query counts for the budget.

    Everything that a rater is asked does, repeats and control questions too, so that no count gives them away; not what
    an organiser asks again, nor an import of one rater.
    """
    return query.origin != "again" and (query.origin != "given" or query.for_rater is None)


def placed_count(state: State, rater: str) -> int:
    """Return how many placements of the rater count for the budget: those that nobody has taken out."""
    return sum(counts(state.queries[number]) for number in standing_placements(state, rater))


def standing_placements(state: State, rater: str) -> list[int]:
    """Return the queries that the rater has placed, imports too, and that nobody has taken out."""
    return [
        number
        for number in state.trails.get(rater, ())
        if state.placement(rater, number) is not None
        and not state.cell(rater, number).disabled
        and (rater, number) not in state.excluded
    ]


def room(state: State, settings: Settings, rater: str) -> int | None:
    """Return how many placements the rater's budget still allows; None without a budget. Skips do not count."""
    return None if settings.budget is None else max(0, settings.budget - placed_count(state, rater))


# What comes next


def asked_anew(
    state: State, first: Ask, origin: Origin, gain: float | None, rater: str = PROGRAM, of: str | None = None
) -> Ask:
    """Ask for a location once more, of one rater or of all."""
    return Ask(
        rater=rater,
        query=len(state.queries),
        point=first.point,
        candidate=first.candidate,
        origin=origin,
        same_as=first.number,
        for_rater=of,
        gain=gain,
    )


def repeat_due(state: State, settings: Settings, seed: int) -> Ask | None:
    """Return the first query of the location that is to be asked again now, or None.

    Of every ``1 / repeat_fraction`` locations one, picked at random, is asked again ``repeat_lag`` to twice as many
    queries later, but not beyond the budget.
    """
    if settings.repeat_fraction == 0:
        return None
    repeated = {query.same_as for query in state.queries if query.origin == "repeat"}
    shared = locations_in_list(state)
    asked = sum(query.for_rater is None for query in state.queries)
    for rank in _picked(settings, seed, len(shared)):
        query = shared[rank]
        earliest, spread = name_for(state, query.number) + settings.repeat_lag, settings.repeat_lag
        if settings.budget is not None and earliest < settings.budget:
            spread = min(spread, settings.budget - 1 - earliest)
        due = earliest + int(draw(seed, "lag", rank) * (spread + 1))
        if asked >= due and query.number not in repeated and not is_retracted(state, query):
            return query
    return None


def _picked(settings: Settings, seed: int, count: int) -> list[int]:
    """Ranks of the locations that are repeated: one in each stretch of ``1 / repeat_fraction``."""
    picked: list[int] = []
    stretch, last = 0, 0
    if settings.budget is not None:
        last = int((settings.budget - settings.repeat_lag) / (1 + settings.repeat_fraction))
    while True:
        low = int(np.ceil(stretch / settings.repeat_fraction))
        high = int(np.ceil((stretch + 1) / settings.repeat_fraction))
        if low < last < high:
            high = last  # what is asked later cannot be asked again within the budget, unless something is skipped
        if high > count:
            return picked
        picked.append(low + int(draw(seed, "pick", stretch) * (high - low)))
        stretch += 1


# What is predicted


def region_radius(posterior: Posterior, alpha: float) -> float:
    """Half-width, in standard deviations, of the region that holds a match with probability ``1 - alpha``.

    This is what "±" means wherever something is said to be known to ± a length.
    """
    if np.isinf(posterior.prior.tails):
        return float(confidence_radius(posterior.d, alpha))
    return float(np.sqrt(posterior.squared_radius(1 - alpha)))


def predict(posterior: Posterior, point: ArrayLike, moving_grid: Grid, alpha: float) -> Prediction:
    """Predict the match of one fixed point."""
    at = np.asarray(point, dtype=np.float64)[None]
    mean = posterior.mean(at)[0]
    covariance = posterior.covariance(at)[0]
    half_lengths, axes = ellipse_from_covariance(covariance, alpha)
    # From the Gaussian region to that of the tails: same axes, another radius.
    half_lengths *= region_radius(posterior, alpha) / confidence_radius(posterior.d, alpha)
    sd = float(np.sqrt(np.trace(covariance) / posterior.d))
    return Prediction(mean, covariance, half_lengths, axes, alpha, sd, bool(moving_grid.contains(mean)))
