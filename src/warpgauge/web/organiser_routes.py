"""The organiser's view and actions (raters, locations, adjudication, links), and their routes."""

from __future__ import annotations

import math
from typing import Any, Literal

from fastapi import APIRouter, Request

from warpgauge.core.annotations import ellipse_from_covariance
from warpgauge.errors import InvalidInputError
from warpgauge.project import Event
from warpgauge.project.state import State
from warpgauge.session import IntraRater, LocationAgreement, Mark, RaterSummary
from warpgauge.session.control_questions import rater_certificate
from warpgauge.session.seals import sealed_answers
from warpgauge.web.app_state import AtDesk, Desk
from warpgauge.web.auth import Organising, Person, new_token, token_hash
from warpgauge.web.failures import WRITE_REFUSALS, NotFoundError
from warpgauge.web.rater_routes import Number
from warpgauge.web.wire import (
    AskAgainRequest,
    EllipseAnswer,
    MarkRequest,
    RaterRequest,
    ResolveRequest,
    SavedAnswer,
    same_fields,
)
from warpgauge.web.wire_reports import (
    IntraAnswer,
    LinkAnswer,
    LocationAnswer,
    LocationsAnswer,
    MarkAnswer,
    RaterAnswer,
    RatersAnswer,
)

Act = Literal["resolve", "exclude", "include", "ask_again"]


class Organisation:
    """The organiser's page."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.session, self.project = desk, desk.session, desk.project

    def raters(self) -> dict[str, Any]:
        """Return a row for each rater."""
        with self.desk.lock:
            state, found = self.project.state, self.session.agreement()
            rows = [_rater(state, one) for one in found.raters]
            sealed = sealed_answers(state)
            return {"raters": rows, "pooled_sd": found.pooled_sd, "sealed": sealed, "generation": state.generation}

    def locations(self) -> dict[str, Any]:
        """Return a row for each location."""
        with self.desk.lock:
            state, found = self.project.state, self.session.agreement()
            rows = [_location(state, one) for one in found.locations]
            return {"locations": rows, "alpha": self.project.settings.alpha, "generation": state.generation}

    def register(self, request: RaterRequest, base: str, person: Person) -> dict[str, Any]:
        """Register a person, give them a new link (below the server's address ``base``), or revoke them."""
        name, gate = request.name, self.desk.gate
        if gate is None:
            raise InvalidInputError("People of this pair are registered on the page of all pairs; go there.")
        with self.desk.lock:
            if name == person.name:
                raise InvalidInputError("You cannot change your own role or link here.")
            if request.action == "revoke":
                if name not in self.project.state.raters:
                    raise NotFoundError("There is no registered rater of that name.")
                event, secret = self.project.revoke_rater(name, by=person.name), None
            else:
                secret = new_token()
                event = self.project.add_rater(name, request.role, token_hash=token_hash(secret), by=person.name)
            role = self.project.state.role(name)
        gate.renew()
        link = None if secret is None else f"{base}/?token={secret}"
        return {"name": name, "role": role, "link": link, "saved": _saved(event)}

    def adjudicate(
        self, act: Act, number: int, generation: int, person: Person, *, rater: str | None = None, text: str = ""
    ) -> dict[str, Any]:
        """Settle a location, take a mark out or in, or ask again."""
        with self.desk.lock:
            state = self.project.state
            if not 0 <= number < len(state.queries):
                raise NotFoundError(f"There is no query {number}.")
            if generation > state.generation:
                raise InvalidInputError(
                    f"Generation {generation} has not been reached; the log is at {state.generation}."
                )
            self._unchanged(state, number, generation)
            if act == "resolve":
                event = self.session.resolve(number, text, rater=person.name)
            elif act == "ask_again":
                if rater is not None and rater not in {*state.raters, *state.who_answered()}:
                    raise NotFoundError("There is no rater of that name.")
                event = self.session.ask_again(number, rater, rater=person.name)
            else:
                change = self.session.exclude if act == "exclude" else self.session.include
                event = change(number, rater or "", text, rater=person.name)
            self.desk.changed()
            return {"saved": _saved(event)}

    @staticmethod
    def _unchanged(state: State, number: int, generation: int) -> None:
        """Refuse to judge what the organiser has not seen: a location that was changed since, or judged already."""
        location = state.queries[number].location
        changes = [*state.touched.items(), *state.excluded.items()]
        stamps = [stamp for (_, query), stamp in changes if state.queries[query].location == location]
        settled = state.resolved.get(location)
        asked = max(query.generation for query in state.queries if query.location == location)
        newest = max([asked, *(stamp.generation for stamp in stamps), settled.generation if settled else 0])
        if newest > generation:
            raise InvalidInputError(
                f"The location of query {number} was changed at generation {newest}, after what you saw; reload and "
                f"decide again."
            )


def _saved(event: Event) -> dict[str, Any]:
    return {"generation": event.generation, "time": event.time}


def _rater(state: State, one: RaterSummary) -> dict[str, Any]:
    record = state.raters.get(one.name)
    return {
        **same_fields(RaterAnswer, one),
        "registered": record is not None,
        "has_link": record is not None and bool(record.token_hash),
        "revoked": record is not None and record.revoked,
        "bias_se": None if one.bias_se is None else [_finite(value) for value in one.bias_se.tolist()],
        "intra": None if one.intra is None else _intra(one.intra),
        "certificate": rater_certificate(state, one.name),
    }


def _intra(intra: IntraRater) -> dict[str, Any]:
    told = same_fields(IntraAnswer, intra)
    return {**told, "mean_distance": _finite(intra.mean_distance), "sd": _finite(intra.sd)}


def _location(state: State, one: LocationAgreement) -> dict[str, Any]:
    fused = None
    if one.fused_point is not None:
        ellipse = same_fields(EllipseAnswer, one)
        fused = {"point": one.fused_point, "covariance": one.fused_covariance, "ellipse": ellipse}
    settled = state.resolved.get(one.location)
    asked = max(query.generation for query in state.queries if query.location == one.location)
    return {
        **same_fields(LocationAnswer, one),
        "query": one.location,
        "location": one.fixed_point,
        "marks": [_mark(mark) for mark in one.marks],
        "fused": fused,
        "locked": settled is not None and settled.generation > asked,
    }


def _mark(mark: Mark) -> dict[str, Any]:
    placement = mark.placement
    half_lengths, axes = ellipse_from_covariance(placement.covariance_world, placement.alpha)
    return {
        "point": placement.moving,
        **same_fields(MarkAnswer, placement),
        **same_fields(MarkAnswer, mark),
        "query": mark.query.number,
        "origin": "suggested" if mark.origin == "audit" else mark.origin,
        "fixed": mark.fixed_point,
        "flagged": mark.placed.doubt is not None,
        "ellipse": {"half_lengths": half_lengths, "axes": axes},
        "time": mark.placed.time,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


router = APIRouter()


@router.get("/api/raters", response_model=RatersAnswer)
def raters(desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Return a row for each rater."""
    return Organisation(desk).raters()


@router.post("/api/raters", response_model=LinkAnswer, responses=WRITE_REFUSALS)
def register(body: RaterRequest, request: Request, desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Register a person or give them a new link (its secret is shown this once), or revoke them."""
    return Organisation(desk).register(body, request.state.base, organising)


@router.get("/api/locations", response_model=LocationsAnswer)
def locations(desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Return a row for each location, with all raters' marks."""
    return Organisation(desk).locations()


@router.post("/api/locations/{n}/resolve", response_model=SavedAnswer, responses=WRITE_REFUSALS)
def resolve(n: Number, body: ResolveRequest, desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Settle a location as it stands; its raters cannot change it any more."""
    return Organisation(desk).adjudicate("resolve", n, body.generation, organising, text=body.text)


@router.post("/api/locations/{n}/exclude", response_model=SavedAnswer, responses=WRITE_REFUSALS)
def exclude(n: Number, body: MarkRequest, desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Take a rater's mark out of the model."""
    return Organisation(desk).adjudicate("exclude", n, body.generation, organising, rater=body.rater, text=body.text)


@router.post("/api/locations/{n}/include", response_model=SavedAnswer, responses=WRITE_REFUSALS)
def include(n: Number, body: MarkRequest, desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Put an excluded mark back."""
    return Organisation(desk).adjudicate("include", n, body.generation, organising, rater=body.rater, text=body.text)


@router.post("/api/locations/{n}/ask_again", response_model=SavedAnswer, responses=WRITE_REFUSALS)
def ask_again(n: Number, body: AskAgainRequest, desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Ask a location once more, of one rater or of all."""
    return Organisation(desk).adjudicate("ask_again", n, body.generation, organising, rater=body.rater)
