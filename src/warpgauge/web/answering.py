"""Queries and answers: one lock, one rater at a time.

A write is answered only when the log has it; what comes next is computed after that.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, FastAPI, Path, Query, Request
from pydantic import Field
from starlette.responses import JSONResponse

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.project import ConflictError, Event, NotAllowedError, Place, Placement, Skip, State
from warpgauge.session import Query as Question
from warpgauge.session import Saved as SavedEvent
from warpgauge.session import UnconfirmedError
from warpgauge.session.queries import is_settled, number_for, placed_count
from warpgauge.web.desk import Visit, Visiting
from warpgauge.web.failures import NotFoundError
from warpgauge.web.wire import (
    Alpha,
    Based,
    Duration,
    Given,
    Numbers,
    Point,
    Rows,
    Saved,
    Spread,
    Text,
)

Number = Annotated[int, Path(ge=0, le=2**53, description="Number of the query, as this person knows it.")]
Reason = Literal["not_visible", "ambiguous", "torn_or_missing", "outside_image", "other"]
router = APIRouter()


class StartAnswer(Given):
    """The guided start: places that the rater recognises in both images, before the first suggestion."""

    due: bool
    volunteered: int
    wanted: int


class PredictionAnswer(Given):
    """Where the model expects the match: its region is an ellipse or ellipsoid along the columns of ``axes``."""

    mean: Numbers
    covariance: Rows
    half_lengths: Numbers
    axes: Rows
    alpha: float
    inside: bool


class PlaceAnswer(Given):
    """An answer that placed the match; flagged if it lies outside the image or far from a well known prediction."""

    kind: Literal["place"] = "place"
    point: list[float]
    covariance: list[list[float]]
    alpha: float
    fixed: list[float] | None
    flagged: bool
    generation: int
    time: str


class SkipAnswer(Given):
    """An answer that declined."""

    kind: Literal["skip"] = "skip"
    reason: str
    text: str
    generation: int
    time: str


Answer = Annotated[PlaceAnswer | SkipAnswer, Field(discriminator="kind")]


class Steps(Given):
    """How far a person has come: the one way to count, whatever the list shows."""

    placed: int
    skipped: int
    total: int | None
    can_undo: bool
    can_redo: bool
    start: StartAnswer
    generation: int


class QueryAnswer(Steps):
    """A query as this rater sees it; whether it repeats another one is not told.

    The rater may mark a place so far from the location as ``radius`` says; 0 where all are asked exactly there.
    ``number`` counts the queries of this rater from 1.
    """

    query: int
    number: int
    location: list[float]
    radius: float
    name: str
    own_choice: bool
    prediction: PredictionAnswer | None
    answer: Answer | None
    disabled: bool
    locked: bool


class DoneAnswer(Steps):
    """Nothing is left to ask of this rater."""

    done: Literal[True] = True
    reasons: list[str]


class WriteAnswer(Given):
    """A write, and what is shown after it: what comes next, or the query that it changed."""

    saved: Saved
    next: QueryAnswer | DoneAnswer


class ConfirmAnswer(Given):
    """The placement looks like a slip; nothing was written. Send it again with ``confirmed`` to keep it."""

    kind: Literal["confirm"] = "confirm"
    error: str
    generation: int


class ConflictAnswer(Given):
    """Another tab or device changed this answer meanwhile; nothing was written."""

    kind: Literal["conflict"] = "conflict"
    error: str
    theirs: Answer | None
    query: int | None
    generation: int


class PlaceRequest(Based):
    """Place, or move, the match of a query; whether its rater was asked about it, and how long it took."""

    point: Point
    fixed: Point | None = None
    covariance: Spread
    alpha: Alpha
    confirmed: bool = False
    duration: Duration | None = None

    def placement(self, d: int) -> Placement:
        """Return what the rater drew; refuse another dimension than the project's."""
        if not len(self.point) == len(self.covariance) == d or any(len(row) != d for row in self.covariance):
            raise InvalidInputError(f"A placement in this project has {d} coordinates and a {d} x {d} matrix.")
        return Placement.drawn(self.point, self.covariance, alpha=self.alpha, fixed=self.fixed)


class VolunteerRequest(PlaceRequest):
    """Save a landmark of the rater's own choice."""

    fixed: Point


class SkipRequest(Based):
    """Decline a query."""

    reason: Reason
    text: Text = ""
    duration: Duration | None = None


class DisableRequest(Based):
    """Take one's own placement out of the model, or put it back."""

    disabled: bool


def start_of(visit: Visit) -> StartAnswer:
    """Return whether the guided start is due, and how many landmarks it still needs."""
    return StartAnswer.model_validate(visit.session.start(visit.name))


def described(answer: Event | None, *, hidden: bool) -> PlaceAnswer | SkipAnswer | None:
    """Describe an answer; where predictions are hidden, not whether it was far from one."""
    if isinstance(answer, Place):
        placement = answer.placement
        return PlaceAnswer(
            point=list(placement.moving),
            covariance=[list(row) for row in placement.covariance],
            alpha=placement.alpha,
            fixed=None if placement.fixed is None else list(placement.fixed),
            flagged=not hidden and answer.doubt is not None,
            generation=answer.generation,
            time=answer.time,
        )
    return SkipAnswer.model_validate(answer) if isinstance(answer, Skip) else None


def _steps(visit: Visit, state: State, start: StartAnswer) -> Steps:
    name = visit.name
    return Steps(
        placed=placed_count(state, name),
        skipped=sum(isinstance(state.answer(name, number), Skip) for number in state.trails.get(name, ())),
        total=visit.project.settings.budget,
        can_undo=bool(state.done.get(name)),
        can_redo=bool(state.undone.get(name)),
        start=start,
        generation=state.generation,
    )


def shown(visit: Visit, question: Question) -> QueryAnswer:
    """Describe a query to a person."""
    state = visit.project.state
    hidden = not visit.predicts
    asked = state.queries[question.number]
    steps = _steps(visit, state, start_of(visit)).model_dump()
    return QueryAnswer(
        **{**steps, "generation": question.generation, "total": question.total},
        query=visit.session.blindness.name(state, visit.name, question.number),
        number=number_for(state, visit.name, question.number),
        location=list(question.point),
        radius=0.0 if hidden else question.radius,  # it follows from what the model knows
        name=state.queries[asked.location].name,  # a repeat has the name of the first
        own_choice=asked.origin == "volunteered",
        prediction=None if question.prediction is None else PredictionAnswer.model_validate(question.prediction),
        answer=described(question.answer, hidden=hidden),
        disabled=question.cell.disabled,
        locked=_is_locked(visit, question.number),
    )


def next_for(visit: Visit) -> QueryAnswer | DoneAnswer:
    """Return the person's current query, or that there is none."""
    question = visit.session.next_query(visit.name)
    if question is not None:
        return shown(visit, question)
    reasons = list(visit.session.progress(None if visit.person.organises else visit.name).reasons)
    reasons = reasons or ["Every location has been answered and no candidate is left."]
    steps = _steps(visit, visit.project.state, start_of(visit))
    return DoneAnswer(**steps.model_dump(), reasons=reasons)


def _is_locked(visit: Visit, number: int) -> bool:
    """Return whether the location was settled after it was asked, for all but organisers."""
    return is_settled(visit.project.state, number) and not visit.person.organises


def _inner(visit: Visit, number: int) -> int:
    """Return the query that this person knows under a number."""
    inner = visit.session.blindness.number(visit.project.state, visit.name, number)
    if inner is None:
        raise NotFoundError(f"There is no query {number} for {visit.name}.")
    return inner


def _recent(visit: Visit, generation: int) -> State:
    state = visit.project.state
    if generation > state.generation:
        raise InvalidInputError(f"Generation {generation} has not been reached; the log is at {state.generation}.")
    return state


def _open(visit: Visit, number: int, generation: int) -> int:
    """Return the query of a write; refuse one that is not there, not yet known to the sender, or settled."""
    state = _recent(visit, generation)
    inner = _inner(visit, number)
    if generation < state.queries[inner].generation:
        raise InvalidInputError(f"Query {number} was not yet asked at generation {generation}; reload the page.")
    if _is_locked(visit, inner):
        raise NotAllowedError("The organiser has settled this location, so it cannot be changed any more.")
    return inner


@router.get("/query")
def current(visit: Visiting) -> QueryAnswer | DoneAnswer:
    """Return the rater's current query, or that nothing is left."""
    with visit.desk.lock:
        return next_for(visit)


@router.get("/query/{n}")
def former(n: Number, visit: Visiting) -> QueryAnswer:
    """Return a query by its number."""
    with visit.desk.lock:
        return shown(visit, visit.session.go_to(_inner(visit, n), visit.name))


@router.get("/previous")
def previous(visit: Visiting, query: Annotated[int | None, Query(ge=0, le=2**53)] = None) -> QueryAnswer:
    """Return the query that the rater answered or put aside before this one, or last."""
    with visit.desk.lock:
        question = visit.session.previous(None if query is None else _inner(visit, query), visit.name)
        if question is None:
            raise NotFoundError("There is no former query.")
        return shown(visit, question)


def _written(visit: Visit, event: SavedEvent | Event) -> WriteAnswer:
    """Acknowledge what is on the disk, whatever comes after it, and return what comes next."""
    visit.desk.changed()
    following: QueryAnswer | DoneAnswer
    try:
        following = next_for(visit)
    except WarpgaugeError as error:  # the log may be out of reach, so it is not read
        nothing = StartAnswer(due=False, volunteered=0, wanted=0)
        steps = _steps(visit, visit.project.known, nothing)
        following = DoneAnswer(**steps.model_dump(), reasons=[str(error)])
    return WriteAnswer(saved=Saved.model_validate(event), next=following)


def _stored_since(visit: Visit, inner: int, generation: int) -> Event | None:
    """Return the answer that was stored after what the sender saw: the same once more is its lost acknowledgement."""
    stored = visit.project.state.answer(visit.name, inner)
    return stored if stored is not None and stored.generation > generation else None


@router.post("/query/{n}/place")
def place(n: Number, body: PlaceRequest, visit: Visiting) -> WriteAnswer:
    """Place the match of a query, or move it; answered when it is on the disk."""
    placement = body.placement(visit.project.d)
    with visit.desk.lock:
        inner = _open(visit, n, body.generation)
        stored = _stored_since(visit, inner, body.generation)
        if isinstance(stored, Place) and stored.placement == placement:
            return _written(visit, stored)
        event = visit.session.place(
            inner,
            placement,
            confirmed=body.confirmed,
            duration=body.duration,
            base_generation=body.generation,
            rater=visit.name,
        )
        return _written(visit, event)


@router.post("/volunteer")
def volunteer(body: VolunteerRequest, visit: Visiting) -> WriteAnswer:
    """Save a landmark of the rater's own choice."""
    placement = body.placement(visit.project.d)
    with visit.desk.lock:
        trail = _recent(visit, body.generation).trails.get(visit.name, [])
        last = _stored_since(visit, trail[-1], body.generation) if trail else None
        sent = (placement.moving, placement.covariance)
        if isinstance(last, Place) and (last.placement.moving, last.placement.covariance) == sent:
            return _written(visit, last)
        event = visit.session.place(None, placement, confirmed=body.confirmed, duration=body.duration, rater=visit.name)
        return _written(visit, event)


@router.post("/start/skip")
def skip_start(body: Based, visit: Visiting) -> WriteAnswer:
    """Go on without the guided start."""
    with visit.desk.lock:
        _recent(visit, body.generation)
        return _written(visit, visit.session.skip_start(visit.name))


@router.post("/query/{n}/skip")
def skip(n: Number, body: SkipRequest, visit: Visiting) -> WriteAnswer:
    """Decline a query, with a reason."""
    with visit.desk.lock:
        inner = _open(visit, n, body.generation)
        stored = _stored_since(visit, inner, body.generation)
        if isinstance(stored, Skip) and (stored.reason, stored.text) == (body.reason, body.text):
            return _written(visit, stored)
        base: int | None = body.generation
        if isinstance(visit.project.state.answer(visit.name, inner), Skip):
            # Another reason: the former skip is taken back first, so that both can be undone one by one.
            visit.session.restore(inner, base_generation=base, rater=visit.name)
            base = None
        event = visit.session.skip(
            inner, body.reason, body.text, duration=body.duration, base_generation=base, rater=visit.name
        )
        return _written(visit, event)


@router.post("/query/{n}/another")
def another(n: Number, body: Based, visit: Visiting) -> QueryAnswer | DoneAnswer:
    """Put a query aside and get the next best; it comes again when nothing else is left."""
    with visit.desk.lock:
        inner = _open(visit, n, body.generation)
        state = visit.project.state
        if state.deferred.get((visit.name, inner), 0) > body.generation:
            raise InvalidInputError(f"Query {n} has been put aside already; reload to see what comes next.")
        touched = state.touched.get((visit.name, inner))
        if touched is not None and touched.generation > body.generation:
            raise ConflictError(f"Query {n} was answered meanwhile; look at it and decide again.", touched)
        visit.session.another(inner, visit.name)
        visit.desk.changed()
        return next_for(visit)


@router.post("/query/{n}/disable")
def disable(n: Number, body: DisableRequest, visit: Visiting) -> WriteAnswer:
    """Take one's own placement out of the model, or put it back."""
    with visit.desk.lock:
        inner = _open(visit, n, body.generation)
        act = visit.session.disable if body.disabled else visit.session.enable
        event = act(inner, base_generation=body.generation, rater=visit.name)
        visit.desk.changed()
        query = shown(visit, visit.session.go_to(inner, visit.name))
        return WriteAnswer(saved=Saved.model_validate(event), next=query)


@router.post("/undo")
def undo(body: Based, visit: Visiting) -> WriteAnswer:
    """Undo the rater's last action."""
    return _step(visit, "undo", body.generation)


@router.post("/redo")
def redo(body: Based, visit: Visiting) -> WriteAnswer:
    """Redo what was undone last."""
    return _step(visit, "redo", body.generation)


def _step(visit: Visit, kind: Literal["undo", "redo"], generation: int) -> WriteAnswer:
    with visit.desk.lock:
        state = _recent(visit, generation)
        steps = (state.done if kind == "undo" else state.undone).get(visit.name, [])
        if steps and _is_locked(visit, steps[-1].query):
            raise NotAllowedError("The organiser has settled that location, so this cannot be changed any more.")
        act = visit.session.undo if kind == "undo" else visit.session.redo
        event = act(visit.name, base_generation=generation)
        if event is None:
            raise InvalidInputError(f"There is nothing to {kind}.")
        if visit.project.state.queries[event.query].origin == "volunteered" and event.answer is None:
            return _written(visit, event)
        visit.desk.changed()
        query = shown(visit, visit.session.go_to(event.query, visit.name))
        return WriteAnswer(saved=Saved.model_validate(event), next=query)


def add_conflict_handlers(app: FastAPI) -> None:
    """Register how a write is refused that another tab overtook, or that looks like a slip."""

    @app.exception_handler(ConflictError)
    def on_conflict(request: Request, error: ConflictError) -> JSONResponse:
        visit: Visit = request.state.visit
        state, number = visit.project.state, error.newer.query
        theirs, name = None, None
        if number is not None:
            name = visit.session.blindness.name(state, visit.name, number)
            theirs = described(state.answer(visit.name, number), hidden=not visit.predicts)
        conflict = ConflictAnswer(error=str(error), theirs=theirs, query=name, generation=state.generation)
        return JSONResponse(conflict.model_dump(), 409)

    @app.exception_handler(UnconfirmedError)
    def on_doubt(request: Request, error: UnconfirmedError) -> JSONResponse:
        visit: Visit = request.state.visit
        question = ConfirmAnswer(error=str(error), generation=visit.project.state.generation)
        return JSONResponse(question.model_dump(), 409)
