"""Routes of raters: queries and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import JSONResponse

from warpgauge.project import ConflictError
from warpgauge.session import UnconfirmedError
from warpgauge.web.answers import Answering
from warpgauge.web.app_state import AtDesk, Desk
from warpgauge.web.auth import Asking, Person
from warpgauge.web.failures import WRITE_REFUSALS
from warpgauge.web.wire import (
    Based,
    ConfirmAnswer,
    ConflictAnswer,
    DisableRequest,
    DoneAnswer,
    NearbyAnswer,
    PlaceRequest,
    QueryAnswer,
    SkipRequest,
    StartSkippedAnswer,
    StepAnswer,
    VolunteeredAnswer,
    VolunteerRequest,
    WriteAnswer,
    described,
)

Number = Annotated[int, Path(ge=0, le=2**53, description="Number of the query in the shared list.")]
_WRITE: dict[int | str, dict[str, Any]] = {
    **WRITE_REFUSALS,
    409: {"model": ConflictAnswer, "description": "Another tab changed this answer; nothing was written."},
}
_PLACE: dict[int | str, dict[str, Any]] = {
    **WRITE_REFUSALS,
    409: {
        "model": ConflictAnswer | ConfirmAnswer,
        "description": "Another tab changed this answer, or it looks like a slip; nothing was written.",
    },
}


router = APIRouter()


@router.get("/api/query", response_model=QueryAnswer | DoneAnswer)
def current(desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return the rater's current query, or that nothing is left."""
    return Answering(desk).current(asking)


@router.get("/api/query/{n}", response_model=QueryAnswer)
def former(n: Number, desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return a query by its number."""
    return Answering(desk).former(n, asking)


@router.get("/api/query/{n}/nearby", response_model=NearbyAnswer)
def nearby(n: Number, desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return places near a query that are easier to recognise, found in the fixed image alone."""
    return {"points": []}


@router.get("/api/previous", response_model=QueryAnswer)
def previous(
    desk: AtDesk, asking: Asking, query: Annotated[int | None, Query(ge=0, le=2**53)] = None
) -> dict[str, Any]:
    """Return the query that the rater answered or put aside before this one, or last."""
    return Answering(desk).previous(query, asking)


@router.post("/api/query/{n}/place", response_model=WriteAnswer, responses=_PLACE)
def place(n: Number, body: PlaceRequest, desk: AtDesk, writing: Asking) -> Any:
    """Place the match of a query, or move it; answered when it is on the disk."""
    return written(desk, body, writing, lambda: Answering(desk).place(n, body, writing))


@router.post("/api/volunteer", response_model=VolunteeredAnswer, responses=_PLACE)
def volunteer(body: VolunteerRequest, desk: AtDesk, writing: Asking) -> Any:
    """Save a landmark of the rater's own choice."""
    return written(desk, body, writing, lambda: Answering(desk).volunteer(body, writing))


@router.post("/api/start/skip", response_model=StartSkippedAnswer, responses=WRITE_REFUSALS)
def skip_start(body: Based, desk: AtDesk, writing: Asking) -> Any:
    """Go on without the guided start."""
    return Answering(desk).skip_start(body.generation, writing)


@router.post("/api/query/{n}/skip", response_model=WriteAnswer, responses=_WRITE)
def skip(n: Number, body: SkipRequest, desk: AtDesk, writing: Asking) -> Any:
    """Decline a query, with a reason."""
    return written(desk, body, writing, lambda: Answering(desk).skip(n, body, writing))


@router.post("/api/query/{n}/another", response_model=QueryAnswer | DoneAnswer, responses=_WRITE)
def another(n: Number, body: Based, desk: AtDesk, writing: Asking) -> Any:
    """Put a query aside and get the next best; it comes again when nothing else is left."""
    return written(desk, body, writing, lambda: Answering(desk).another(n, body.generation, writing))


@router.post("/api/query/{n}/disable", response_model=StepAnswer, responses=_WRITE)
def disable(n: Number, body: DisableRequest, desk: AtDesk, writing: Asking) -> Any:
    """Take one's own placement out of the model, or put it back."""
    return written(desk, body, writing, lambda: Answering(desk).disable(n, body.disabled, body.generation, writing))


@router.post("/api/undo", response_model=StepAnswer, responses=_WRITE)
def undo(body: Based, desk: AtDesk, writing: Asking) -> Any:
    """Undo the rater's last action."""
    return written(desk, body, writing, lambda: Answering(desk).step("undo", body.generation, writing))


@router.post("/api/redo", response_model=StepAnswer, responses=_WRITE)
def redo(body: Based, desk: AtDesk, writing: Asking) -> Any:
    """Redo what was undone last."""
    return written(desk, body, writing, lambda: Answering(desk).step("redo", body.generation, writing))


def written(desk: Desk, body: Based, person: Person, write: Callable[[], dict[str, Any]]) -> Any:
    """Return what a write gives, or the answer 409: another tab was faster, or it looks like a slip."""
    try:
        return write()
    except ConflictError as error:
        return _conflict(desk, error, body.model_dump(), person)
    except UnconfirmedError as error:
        return _unconfirmed(desk, error, body.model_dump(), person)


def _unconfirmed(desk: Desk, error: UnconfirmedError, yours: dict[str, Any], person: Person) -> JSONResponse:
    """Answer a placement that looks like a slip: the question, and nothing written."""
    answer = ConfirmAnswer.model_validate(
        {
            "error": str(error),
            "outside": error.doubt.outside,
            "deviation": error.doubt.deviation if desk.predicts(person) else None,
            "yours": yours,
            "generation": desk.project.state.generation,
        }
    )
    return JSONResponse(answer.model_dump(), 409)


def _conflict(desk: Desk, error: ConflictError, yours: dict[str, Any], person: Person) -> JSONResponse:
    """Answer a write that another tab of the same rater overtook: both versions, and nothing written."""
    state, newer = desk.project.state, error.newer
    hidden = newer.query is None or state.is_sealed(newer.query)
    theirs = None if hidden else state.answer(person.name, newer.query or 0)
    answer = ConflictAnswer.model_validate(
        {
            "error": str(error),
            "yours": yours,
            "theirs": described(theirs, hidden=not desk.predicts(person)),
            "query": None if newer.query is None else desk.session.blindness.name(state, person.name, newer.query),
            "generation": state.generation,
        }
    )
    return JSONResponse(answer.model_dump(), 409)
