"""The shared list of queries: in which order a rater goes through it, and how it grows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpgauge.project import Cell, Draft, Placement, Project, QueryRecord, Settings, Skipped, State
from warpgauge.session.predictions import Prediction

PROGRAM = "warpgauge"  # who acts where nobody does: suggestions and automatic fits


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
        The how-manieth it is for this rater, and of how many, where a budget says.
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

    @property
    def answer(self) -> Placement | Skipped | None:
        """The rater's answer so far."""
        return self.cell.answer


def order_for(state: State, settings: Settings, rater: str) -> list[int]:
    """Give the queries that a rater is asked, in this rater's order.

    In random order each stretch of the list as long as a batch is shuffled, for each rater in another way and always in
    the same.
    """
    numbers = [query.number for query in state.queries if query.asks(rater)]
    if settings.order == "list":
        return numbers
    length = settings.growth

    def key(number: int) -> tuple[int, bytes]:
        text = f"{settings.seed}\0{rater}\0{number}"
        return number // length, hashlib.sha256(text.encode()).digest()

    return sorted(numbers, key=key)


def is_settled(state: State, number: int) -> bool:
    """Whether the organiser settled the location after this query was asked; asking again opens it."""
    query = state.queries[number]
    settled = state.resolved.get(query.location)
    return settled is not None and settled.generation > query.generation


def open_queries(state: State, settings: Settings, rater: str) -> tuple[list[int], list[int]]:
    """Give the queries that the rater has not answered: those not put aside, and those put aside, oldest first.

    Locations that the organiser has settled are no longer asked.
    """
    unanswered = [
        number
        for number in order_for(state, settings, rater)
        if state.answer(rater, number) is None and not is_settled(state, number)
    ]
    aside = [number for number in unanswered if (rater, number) in state.deferred]
    aside.sort(key=lambda number: state.deferred[rater, number])
    return [number for number in unanswered if (rater, number) not in state.deferred], aside


def before(state: State, rater: str, number: int | None) -> int | None:
    """Give the query that the rater saw before this one; the last one for None or one that is not answered."""
    trail = state.trails.get(rater, [])
    if number is None or number not in trail:
        return trail[-1] if trail else None
    place = trail.index(number)
    return trail[place - 1] if place > 0 else None


def after(state: State, rater: str, number: int) -> int | None:
    """Give the query that the rater saw after this one, or None where a new one is due."""
    trail = state.trails.get(rater, [])
    if number not in trail or number == trail[-1]:
        return None
    return trail[trail.index(number) + 1]


def locations_in_list(state: State) -> list[QueryRecord]:
    """Give the first query at each location that all are asked."""
    return [query for query in state.queries if query.same_as is None and query.for_rater is None]


def room(state: State, settings: Settings) -> int | None:
    """Say how many locations the budget still allows; None for any number."""
    return None if settings.budget is None else max(0, settings.budget - len(locations_in_list(state)))


def suggestion_drafts(project: Project, state: State, chosen: Sequence[tuple[int, float]]) -> list[Draft]:
    """Write suggestions as the next queries of the list."""
    drafts = []
    for step, (candidate, gain) in enumerate(chosen):
        payload = {
            "point": project.candidates[candidate].tolist(),
            "candidate": int(candidate),
            "origin": "suggested",
            "gain": gain,
        }
        drafts.append(Draft("query", PROGRAM, len(state.queries) + step, payload))
    return drafts


def repeat_drafts(state: State, settings: Settings, last_chance: bool) -> list[Draft]:
    """Write the repeats that are due.

    Of every ``1 / repeat_fraction`` locations one, picked at random, is asked again ``repeat_lag`` to twice as many
    queries later (a batch more in random order). When the list comes to its end, those that wait are asked at once.
    """
    if settings.repeat_fraction == 0:
        return []
    repeated = {query.same_as for query in state.queries if query.origin == "repeat"}
    shared = locations_in_list(state)
    drafts: list[Draft] = []
    for rank in _picked(settings, len(shared)):
        query = shared[rank]
        extra = int(_generator(settings, "lag", rank).integers(settings.repeat_lag + 1))
        due = query.number + settings.repeat_lag + extra + (settings.growth if settings.order == "random" else 0)
        if query.number in repeated or (not last_chance and len(state.queries) < due):
            continue
        payload = {
            "point": list(query.point),
            "candidate": query.candidate,
            "origin": "repeat",
            "same_as": query.number,
            "gain": query.gain,
        }
        drafts.append(Draft("query", PROGRAM, len(state.queries) + len(drafts), payload))
    return drafts


def _picked(settings: Settings, count: int) -> list[int]:
    """Ranks of the locations that are repeated: one in each stretch of ``1 / repeat_fraction``."""
    picked: list[int] = []
    stretch = 0
    while True:
        low, high = (int(np.ceil(part / settings.repeat_fraction)) for part in (stretch, stretch + 1))
        if high > count:
            return picked
        picked.append(int(_generator(settings, "pick", stretch).integers(low, high)))
        stretch += 1


def _generator(settings: Settings, purpose: str, number: int) -> np.random.Generator:
    digest = hashlib.sha256(f"{settings.seed}\0{purpose}\0{number}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
