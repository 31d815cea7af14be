"""The shared list of queries: what a rater is shown, its order for each rater, and how it grows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import confidence_radius, ellipse_from_covariance
from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats, Grid
from warpgauge.project import Cell, Project, QueryRecord, Settings, State
from warpgauge.project.events import Ask
from warpgauge.project.values import Answer

PROGRAM = "warpgauge"  # who acts where nobody does: suggestions and automatic fits
START_MARKS = 3  # landmarks of a guided start: they settle rotation, mirroring and scale


@dataclass(frozen=True, eq=False)
class Query:
    """A query as it is handed to a rater.

    Whether it repeats an earlier one is not told.

    Attributes
    ----------
    number : int
        Place in the shared list, from 0; what `place`, `skip` and the others take.
    rater : str
        To whom it was handed.
    point : tuple of float
        In the fixed image's world.
    position, total : int, int or None
        1-based position among this rater's placements (skips do not count), and of how many, where a budget says.
    gain : float or None
        Expected gain in nats when it was chosen.
    why : str
        Why it is asked, in a sentence.
    prediction : Prediction or None
        Where the model expects the match; None where the project hides it.
    cell : Cell
        What the rater has said to it already.
    generation : int
        Of the state that this rests on: to be given back as ``base_generation``.
    fit_generation : int
        Generation of the fit whose weights predicted it; 0 for weights that no fit of the project has changed. While a
        further fit is prepared, questions come from the former.
    """

    number: int
    rater: str
    point: tuple[float, ...]
    position: int
    total: int | None
    gain: float | None
    why: str
    prediction: Prediction | None
    cell: Cell
    generation: int
    fit_generation: int = 0

    @property
    def answer(self) -> Answer:
        """The rater's answer so far."""
        return self.cell.answer


def number_of(query: int | Query) -> int:
    """Return the number of a query however it is given."""
    return query.number if isinstance(query, Query) else int(query)


OWN = 2**40  # where the names of queries begin that are for one rater only


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


def number_named(state: State, rater: str, name: int) -> int | None:
    """Return the number of the query that has this name for a rater, or None."""
    for query in state.queries:
        if query.asks(rater) and name_for(state, query.number) == name:
            return query.number
    return None


def order_for(state: State, settings: Settings, rater: str) -> list[int]:
    """Return the queries that a rater is asked, in this rater's order.

    In random order each stretch of the list as long as a batch is shuffled, for each rater in another way and always in
    the same.
    """
    numbers = [query.number for query in state.queries if query.asks(rater)]
    if settings.order == "list":
        return numbers
    length = settings.growth

    def key(number: int) -> tuple[int, bytes]:
        name = name_for(state, number)
        return name // length, hashlib.sha256(f"{settings.seed}\0{rater}\0{name}".encode()).digest()

    return sorted(numbers, key=key)


def is_shuffled(state: State, settings: Settings, number: int) -> bool:
    """Return whether all of the stretch in which a query is shuffled is in the list, so that its order is final."""
    if settings.order == "list" or state.queries[number].for_rater is not None:
        return True
    shared = sum(query.for_rater is None for query in state.queries)
    return shared >= (name_for(state, number) // settings.growth + 1) * settings.growth


def is_settled(state: State, number: int) -> bool:
    """Return whether the organiser settled the location after this query was asked; asking again opens it."""
    query = state.queries[number]
    settled = state.resolved.get(query.location)
    return settled is not None and settled.generation > query.generation


def is_retracted(state: State, query: QueryRecord) -> bool:
    """Return whether nobody is asked this query: withdrawn, chosen by a rater, or of an import that was undone."""
    if query.batch is not None and not state.batches.get(query.batch):
        return True
    return query.number in state.withdrawn or query.origin == "volunteered"


def is_free(state: State, query: QueryRecord) -> bool:
    """Return whether the place may be suggested (again): nobody is asked there, and nobody has answered."""
    return is_retracted(state, query) and not state.is_taken(query.number)


def stale_suggestions(state: State) -> list[int]:
    """Return the unanswered suggestions that would now be chosen differently.

    They rested on an answer that was changed or taken back since; or on next to nothing, before a rater volunteered
    the landmarks of a guided start.
    """
    stale = []
    for query in state.queries:
        if query.origin != "suggested" or query.number in state.withdrawn or state.is_taken(query.number):
            continue
        if state.rests_on_removed(query.generation) or _before_start(state, query.generation):
            stale.append(query.number)
    return stale


def _before_start(state: State, generation: int) -> bool:
    """Return whether the guided start was unfinished at a generation, and landmarks were volunteered since."""
    early = later = 0
    for who, number in state.cells:  # in the order of the first answers, so that the early ones are found at once
        answer = state.answer(who, number)
        if answer is None or not state.in_model(who, number):
            continue
        if answer.generation < generation:
            early += 1
            if early == START_MARKS:
                return False
        elif answer.generation > generation and state.queries[number].origin == "volunteered":
            later += 1
    return later > 0


def open_queries(state: State, settings: Settings, rater: str, *, beyond: bool = False) -> tuple[list[int], list[int]]:
    """Return the queries that the rater has not answered: those not put aside, and those put aside, oldest first.

    Locations that the organiser has settled are no longer asked, nor those that a rater chose or that were withdrawn.
    A rater who has placed the budget is asked only what is asked again.
    """
    used_up = room(state, settings, rater) == 0
    unanswered = [
        number
        for number in order_for(state, settings, rater)
        if state.answer(rater, number) is None
        and not is_settled(state, number)
        and not is_retracted(state, state.queries[number])
        and not (used_up and not beyond and counts(state.queries[number]))
    ]
    aside = [number for number in unanswered if (rater, number) in state.deferred]
    aside.sort(key=lambda number: state.deferred[rater, number])
    return [number for number in unanswered if (rater, number) not in state.deferred], aside


def shared_out(state: State, settings: Settings, rater: str, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the queries that still lack answers, each with the number of raters who may get it at once.

    Only with ``answers_per_location``; what is asked again, or of one rater only, is for everybody whom it asks.
    """
    most = settings.answers_per_location or len(state.raters) + 1
    wanted = []
    for number in numbers:
        query = state.queries[number]
        keys = state.cells_at.get(query.location, ())
        placed = sum(
            who != rater and asked == number and state.cells[who, asked].placement is not None for who, asked in keys
        )
        if query.origin != "suggested" or query.for_rater is not None:
            wanted.append((number, 1_000_000))
        elif placed < most:
            wanted.append((number, most - placed))
    return wanted


def position(state: State, rater: str, number: int) -> int:
    """Return the 1-based position of a query among those that a rater has placed or put aside."""
    return 1 + sum(
        state.placement(rater, other) is not None or (rater, other) in state.deferred
        for other in _earlier(state, rater, number)
    )


def number_for(state: State, rater: str, number: int) -> int:
    """Return the 1-based number of a query for a rater: in the order in which this rater answered or put aside."""
    return 1 + sum(
        state.answer(rater, other) is not None or (rater, other) in state.deferred
        for other in _earlier(state, rater, number)
    )


def is_unaided(state: State, settings: Settings, rater: str, number: int | None) -> bool:
    """Return whether a rater gets no proposals from the images at a query, or at the next place they choose (None).

    In a project with ``snap`` this is so at the share ``unaided`` of the places, drawn at random for each rater.
    """
    if not settings.snap:
        return False
    own = [query.number for query in state.queries if query.origin == "volunteered" and query.for_rater == rater]
    if number is None or number in own:
        draw = _generator(settings, f"unaided own\0{rater}", len(own) if number is None else own.index(number))
    else:
        draw = _generator(settings, f"unaided\0{rater}", name_for(state, state.queries[number].location))
    return bool(draw.random() < settings.unaided)


def snap_use(state: State, rater: str, number: int) -> str:
    """Return how proposals from the images were used at a query.

    ``"taken"``, ``"shown"`` (and not taken), ``"nothing found"``, ``"withheld"`` (`is_unaided` when it was placed), or
    ``""`` where none was asked for.
    """
    query, placement = state.queries[number], state.placement(rater, number)
    if placement is not None and placement.snapped_from is not None:
        return "taken"
    asked = list(state.proposals.get((rater, number), ()))
    if query.origin == "volunteered":  # its first proposals came before it was a query
        asked += [one for one in state.proposals.get((rater, None), ()) if one.fixed == query.point]
    if any(one.proposed is not None for one in asked):
        return "shown"
    if placement is not None and placement.unaided:
        return "withheld"
    return "nothing found" if asked else ""


def _earlier(state: State, rater: str, number: int | None) -> list[int]:
    """Return what the rater answered or put aside before a query: everything for None or one that is not answered."""
    trail = state.trails.get(rater, [])
    return trail[: trail.index(number)] if number in trail else trail


def before(state: State, rater: str, number: int | None) -> int | None:
    """Return the query that the rater saw before this one; the last one for None or one that is not answered."""
    return next(reversed(_earlier(state, rater, number)), None)


def after(state: State, rater: str, number: int) -> int | None:
    """Return the query that the rater saw after this one, or None where a new one is due."""
    trail = state.trails.get(rater, [])
    if number not in trail or number == trail[-1]:
        return None
    return trail[trail.index(number) + 1]


def locations_in_list(state: State) -> list[QueryRecord]:
    """Return the first query at each location that all are asked."""
    return [query for query in state.queries if query.same_as is None and query.for_rater is None and not query.known]


def counts(query: QueryRecord) -> bool:
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


def suggestions(project: Project, state: State, chosen: Sequence[tuple[int, float]]) -> list[Ask]:
    """Ask for candidates, each with its gain, as the next queries of the list."""
    first, points = len(state.queries), project.candidates
    return [
        Ask(
            rater=PROGRAM,
            query=first + step,
            point=tuple(points[candidate].tolist()),
            candidate=int(candidate),
            origin="suggested",
            gain=gain,
        )
        for step, (candidate, gain) in enumerate(chosen)
    ]


def repeats(state: State, settings: Settings, gain: float | None) -> list[Ask]:
    """Ask for the repeats that are due; they have the ``gain`` of the suggestion whose place they take.

    Of every ``1 / repeat_fraction`` locations one, picked at random, is asked again ``repeat_lag`` to twice as many
    queries later (a batch more in random order), but not beyond the budget.
    """
    if settings.repeat_fraction == 0:
        return []
    repeated = {query.same_as for query in state.queries if query.origin == "repeat"}
    shared = locations_in_list(state)
    asked = sum(query.for_rater is None for query in state.queries)
    least = settings.repeat_lag + (settings.growth if settings.order == "random" else 0)
    due_now: list[QueryRecord] = []
    for rank in _picked(settings, len(shared)):
        query = shared[rank]
        first, most = name_for(state, query.number), settings.repeat_lag
        if settings.budget is not None and first + least < settings.budget:
            most = min(most, settings.budget - 1 - first - least)
        due = first + least + int(_generator(settings, "lag", rank).integers(most + 1))
        if asked >= due and not is_retracted(state, query) and query.number not in repeated:
            due_now.append(query)
    return [asked_anew(state, query, "repeat", gain, ahead=step) for step, query in enumerate(due_now)]


def asked_anew(
    state: State,
    first: QueryRecord,
    origin: str,
    gain: float | None,
    *,
    rater: str = PROGRAM,
    of: str | None = None,
    ahead: int = 0,
) -> Ask:
    """Ask for a location once more, of one rater or of all; ``ahead`` queries are written before, at the same time."""
    return Ask(
        rater=rater,
        query=len(state.queries) + ahead,
        point=first.point,
        candidate=first.candidate,
        origin=origin,
        same_as=first.number,
        for_rater=of,
        gain=gain,
    )


def _picked(settings: Settings, count: int) -> list[int]:
    """Ranks of the locations that are repeated: one in each stretch of ``1 / repeat_fraction``."""
    picked: list[int] = []
    stretch, last = 0, 0
    if settings.budget is not None:
        last = int((settings.budget - settings.repeat_lag) / (1 + settings.repeat_fraction))
    while True:
        low, high = (int(np.ceil(part / settings.repeat_fraction)) for part in (stretch, stretch + 1))
        if low < last < high:
            high = last  # what is asked later cannot be asked again within the budget, unless something is skipped
        if high > count:
            return picked
        picked.append(int(_generator(settings, "pick", stretch).integers(low, high)))
        stretch += 1


def _generator(settings: Settings, purpose: str, number: int) -> np.random.Generator:
    digest = hashlib.sha256(f"{settings.seed}\0{purpose}\0{number}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@dataclass(frozen=True, eq=False)
class Prediction:
    """The posterior at one location, in the moving image's world.

    Attributes
    ----------
    mean : (d,) array
        Expected match.
    covariance : (d, d) array
        Of the true match.
    half_lengths, axes : (d,) and (d, d) arrays
        Credible ellipse or ellipsoid that holds the match with probability ``1 - alpha`` under the posterior's tails,
        longest first; axes are columns.
    alpha : float
    sd : float
        Root mean variance over the directions, in world units.
    inside : bool
        Whether the expected match lies within the moving image.
    """

    mean: Floats
    covariance: Floats
    half_lengths: Floats
    axes: Floats
    alpha: float
    sd: float
    inside: bool


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
    mean, covariance = posterior.mean(at)[0], posterior.covariance(at)[0]
    half_lengths, axes = ellipse_from_covariance(covariance, alpha)
    # From the Gaussian region to that of the tails: same axes, another radius.
    half_lengths *= region_radius(posterior, alpha) / confidence_radius(posterior.d, alpha)
    sd = float(np.sqrt(np.trace(covariance) / posterior.d))
    return Prediction(mean, covariance, half_lengths, axes, alpha, sd, bool(moving_grid.contains(mean)))
