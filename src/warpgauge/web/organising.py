"""What the organiser of a pair sees and decides: raters, locations, adjudication, and the places that all are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from warpgauge.errors import InvalidInputError
from warpgauge.project import Event
from warpgauge.project.state import State
from warpgauge.session import LocationAgreement, Mark, RaterSummary
from warpgauge.session.control_questions import rater_certificate
from warpgauge.session.seals import sealed_answers
from warpgauge.web.answering import Number
from warpgauge.web.desk import Organising, Visit
from warpgauge.web.failures import NotFoundError
from warpgauge.web.people import Record
from warpgauge.web.wire import (
    Based,
    Given,
    Numbers,
    PersonName,
    Point,
    Role,
    Rows,
    Saved,
    Sent,
    Text,
)

Act = Literal["resolve", "exclude", "include", "ask_again"]
router = APIRouter()


class CertificateAnswer(Given):
    """How exact a rater is, by control questions and repeats, with 95 % intervals; lengths in world units."""

    controls: int
    bias: Numbers | None
    bias_low: Numbers | None
    bias_high: Numbers | None
    sd: float | None
    sd_low: float | None
    sd_high: float | None
    inside: int
    repeat_sd: float | None
    repeat_low: float | None
    repeat_high: float | None


class RaterAnswer(Given):
    """A rater's work, as the organiser sees it."""

    name: str
    role: Role
    has_link: bool
    placed: int
    skipped: dict[str, int]
    median_seconds: float | None
    bias: list[float] | None
    repeats: int
    certificate: CertificateAnswer | None


class RatersAnswer(Given):
    """All raters, and at how many locations answers are sealed; at which is not told."""

    raters: list[RaterAnswer]
    pooled_sd: float | None
    sealed: int


class MarkAnswer(Given):
    """A rater's mark at a location; where the match is known (``control``) it only measures the rater."""

    rater: str
    point: list[float]
    covariance: list[list[float]]
    alpha: float
    disabled: bool
    excluded: bool
    control: bool


class FusedAnswer(Given):
    """What the model uses at a location."""

    point: Numbers
    covariance: Rows


class LocationAnswer(Given):
    """A location as its raters see it."""

    query: int
    location: Numbers
    marks: list[MarkAnswer]
    skips: dict[str, str]
    max_distance: float | None
    fused: FusedAnswer | None
    resolved: str | None
    locked: bool


class LocationsAnswer(Given):
    """All locations."""

    locations: list[LocationAnswer]
    generation: int


class PlacesAnswer(Given):
    """The next circle of the fixed image to choose a place in; none where no candidate is left."""

    point: list[float] | None
    radius: float


class JudgeRequest(Based):
    """What is decided about a location: by words, and about the mark of a rater or (asking again) of all."""

    rater: PersonName | None = None
    text: Text = ""


class PlacesRequest(Sent):
    """Places in the fixed image that all raters are to be asked."""

    points: Annotated[list[Point], Field(min_length=1, max_length=1000)]


def _rater(state: State, one: RaterSummary, has_link: bool) -> RaterAnswer:
    certificate = rater_certificate(state, one.name)
    excluded = sum(who == one.name for who, _ in state.excluded)
    return RaterAnswer(
        name=one.name,
        role=one.role,  # type: ignore[arg-type]  # a word of the log
        has_link=has_link,
        placed=one.placed + excluded,  # a count that falls would tell whose mark was excluded
        skipped=one.skipped,
        median_seconds=one.median_seconds,
        bias=None if one.bias is None else one.bias.tolist(),
        repeats=0 if certificate is None else certificate.repeats,
        certificate=None if certificate is None else CertificateAnswer.model_validate(certificate),
    )


def _location(state: State, one: LocationAgreement) -> LocationAnswer:
    fused = None
    if one.fused_point is not None:
        fused = FusedAnswer.model_validate({"point": one.fused_point, "covariance": one.fused_covariance})
    settled = state.resolved.get(one.location)
    return LocationAnswer(
        query=one.location,
        location=one.fixed_point.tolist(),
        marks=[_mark(mark) for mark in one.marks],
        skips=one.skips,
        max_distance=one.max_distance,
        fused=fused,
        resolved=one.resolved,
        locked=settled is not None and settled.generation > _last_asked(state, one.location),
    )


def _last_asked(state: State, location: int) -> int:
    return max(query.generation for query in state.queries if query.location == location)


def _mark(mark: Mark) -> MarkAnswer:
    placement = mark.placement
    return MarkAnswer(
        rater=mark.rater,
        point=list(placement.moving),
        covariance=[list(row) for row in placement.covariance],
        alpha=placement.alpha,
        disabled=mark.disabled,
        excluded=mark.excluded,
        control=mark.control,
    )


@router.get("/raters")
def raters(visit: Organising, request: Request) -> RatersAnswer:
    """Return a row for each rater."""
    people: Mapping[str, Record] = request.app.state.site.people.content.people
    linked = {name for name, record in people.items() if record.token is not None}
    with visit.desk.lock:
        state = visit.project.state
        agreement = visit.session.agreement()
        return RatersAnswer(
            raters=[_rater(state, one, one.name in linked) for one in agreement.raters],
            pooled_sd=agreement.pooled_sd,
            sealed=sealed_answers(state),
        )


@router.get("/locations")
def locations(visit: Organising) -> LocationsAnswer:
    """Return a row for each location, with all raters' marks."""
    with visit.desk.lock:
        state = visit.project.state
        agreement = visit.session.agreement()
        rows = [_location(state, one) for one in agreement.locations]
        return LocationsAnswer(locations=rows, generation=state.generation)


@router.post("/locations/{n}/{act}")
def judge(n: Number, act: Act, body: JudgeRequest, visit: Organising) -> Saved:
    """Settle a location as it stands, take a rater's mark out of the model or in again, or ask once more."""
    with visit.desk.lock:
        state = visit.project.state
        if n >= len(state.queries):
            raise NotFoundError(f"There is no query {n}.")
        if body.generation > state.generation:
            raise InvalidInputError(
                f"Generation {body.generation} has not been reached; the log is at {state.generation}."
            )
        _check_unchanged(state, n, body.generation)
        event = _judged(visit, state, n, act, body)
        visit.desk.changed()
        return Saved.model_validate(event)


def _judged(visit: Visit, state: State, number: int, act: Act, body: JudgeRequest) -> Event:
    if act == "resolve":
        return visit.session.resolve(number, body.text, rater=visit.name)
    if act == "ask_again":
        if body.rater is not None and body.rater not in {*state.raters, *state.who_answered()}:
            raise NotFoundError("There is no rater of that name.")
        return visit.session.ask_again(number, body.rater, rater=visit.name)
    if body.rater is None:
        raise InvalidInputError("Say whose mark is meant: the field 'rater' is missing.")
    change = visit.session.exclude if act == "exclude" else visit.session.include
    return change(number, body.rater, body.text, rater=visit.name)


def _check_unchanged(state: State, number: int, generation: int) -> None:
    """Refuse to judge what the organiser has not seen: a location that was changed since, or judged already."""
    location = state.queries[number].location
    stamps = [_last_asked(state, location)]
    for changes in (state.touched, state.excluded):
        stamps += [
            event.generation for (_, query), event in changes.items() if state.queries[query].location == location
        ]
    settled = state.resolved.get(location)
    if settled is not None:
        stamps.append(settled.generation)
    if max(stamps) > generation:
        raise InvalidInputError(
            f"The location of query {number} was changed at generation {max(stamps)}, after what you saw; reload and "
            f"decide again."
        )


@router.get("/places")
def next_place(visit: Organising) -> PlacesAnswer:
    """Return the next circle in which the organiser may choose a place, before anybody has answered."""
    return _places(visit, None)


@router.post("/places")
def choose_places(body: PlacesRequest, visit: Organising) -> PlacesAnswer:
    """Have all raters asked at these exact places, and return the next circle."""
    return _places(visit, body.points)


def _places(visit: Visit, points: list[list[float]] | None) -> PlacesAnswer:
    with visit.desk.lock:
        circle = visit.session.choose_places(points, visit.name)
    if circle is None:
        return PlacesAnswer(point=None, radius=0.0)
    return PlacesAnswer(point=list(circle[0]), radius=circle[1])
