"""Routes of raters: queries and answers, the list of answers, and the progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import JSONResponse

from warpgauge.project import ConflictError, Skipped, State
from warpgauge.session import ListRow, UnconfirmedError
from warpgauge.session.agreement import seconds
from warpgauge.session.queries import number_for, snap_use
from warpgauge.web.answers import Answering
from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Asking, Person, Writing
from warpgauge.web.failures import WRITE_REFUSALS
from warpgauge.web.wire import (
    Based,
    ConfirmAnswer,
    ConflictAnswer,
    DisableRequest,
    DoneAnswer,
    PlaceRequest,
    QueryAnswer,
    RefitAnswer,
    SkipRequest,
    SnapAnswer,
    SnapRequest,
    StartSkippedAnswer,
    StepAnswer,
    VolunteeredAnswer,
    VolunteerRequest,
    WriteAnswer,
    described,
    rough,
    same_fields,
)
from warpgauge.web.wire_reports import ListAnswer, ListRowAnswer, ProgressAnswer

# Routes for queries and answers.

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


def query_router(desk: Desk) -> APIRouter:
    """Return the routes of asking and answering."""
    router = APIRouter()
    answering = Answering(desk)

    @router.get("/api/query", response_model=QueryAnswer | DoneAnswer)
    def current(asking: Asking) -> dict[str, Any]:
        """Return the rater's current query, or that nothing is left."""
        return answering.current(asking)

    @router.get("/api/query/{n}", response_model=QueryAnswer)
    def former(n: Number, asking: Asking) -> dict[str, Any]:
        """Return a query by its number."""
        return answering.former(n, asking)

    @router.get("/api/previous", response_model=QueryAnswer)
    def previous(asking: Asking, query: Annotated[int | None, Query(ge=0, le=2**53)] = None) -> dict[str, Any]:
        """Return the query that the rater answered or put aside before this one, or last."""
        return answering.previous(query, asking)

    @router.post("/api/query/{n}/place", response_model=WriteAnswer, responses=_PLACE)
    def place(n: Number, body: PlaceRequest, writing: Writing) -> Any:
        """Place the match of a query, or move it; answered when it is on the disk."""
        return written(desk, body, writing, lambda: answering.place(n, body, writing))

    @router.post("/api/snap", response_model=SnapAnswer, responses=WRITE_REFUSALS)
    def snap(body: SnapRequest, writing: Writing) -> Any:
        """Propose a better place for a mark from the images around it; the mark stays, and the log has the proposal."""
        return answering.snap(body, writing)

    @router.post("/api/volunteer", response_model=VolunteeredAnswer, responses=_PLACE)
    def volunteer(body: VolunteerRequest, writing: Writing) -> Any:
        """Save a landmark of the rater's own choice."""
        return written(desk, body, writing, lambda: answering.volunteer(body, writing))

    @router.post("/api/start/skip", response_model=StartSkippedAnswer, responses=WRITE_REFUSALS)
    def skip_start(body: Based, writing: Writing) -> Any:
        """Go on without the guided start."""
        return answering.skip_start(body.generation, writing)

    @router.post("/api/refit", response_model=RefitAnswer, responses=WRITE_REFUSALS)
    def refit(body: Based, writing: Writing) -> Any:
        """Refit the weights to the current annotations."""
        return answering.refit(body.generation)

    @router.post("/api/query/{n}/skip", response_model=WriteAnswer, responses=_WRITE)
    def skip(n: Number, body: SkipRequest, writing: Writing) -> Any:
        """Decline a query, with a reason."""
        return written(desk, body, writing, lambda: answering.skip(n, body, writing))

    @router.post("/api/query/{n}/another", response_model=QueryAnswer | DoneAnswer, responses=_WRITE)
    def another(n: Number, body: Based, writing: Writing) -> Any:
        """Put a query aside and get the next best; it comes again when nothing else is left."""
        return written(desk, body, writing, lambda: answering.another(n, body.generation, writing))

    @router.post("/api/query/{n}/disable", response_model=StepAnswer, responses=_WRITE)
    def disable(n: Number, body: DisableRequest, writing: Writing) -> Any:
        """Take one's own placement out of the model, or put it back."""
        return written(desk, body, writing, lambda: answering.disable(n, body.disabled, body.generation, writing))

    @router.post("/api/undo", response_model=StepAnswer, responses=_WRITE)
    def undo(body: Based, writing: Writing) -> Any:
        """Undo the rater's last action."""
        return written(desk, body, writing, lambda: answering.step("undo", body.generation, writing))

    @router.post("/api/redo", response_model=StepAnswer, responses=_WRITE)
    def redo(body: Based, writing: Writing) -> Any:
        """Redo what was undone last."""
        return written(desk, body, writing, lambda: answering.step("redo", body.generation, writing))

    return router


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
    theirs = None if newer.query is None else state.answer(person.name, newer.query)
    answer = ConflictAnswer.model_validate(
        {
            "error": str(error),
            "yours": yours,
            "theirs": described(theirs, hidden=not desk.predicts(person)),
            "query": newer.query,
            "generation": state.generation,
        }
    )
    return JSONResponse(answer.model_dump(), 409)


# The list of answers and the progress, as each person may see them, and their routes.


class Reports:
    """What has been done.

    Parameters
    ----------
    desk : Desk
    """

    def __init__(self, desk: Desk) -> None:
        self.desk, self.session, self.project = desk, desk.session, desk.project

    def listing(self, person: Person) -> dict[str, Any]:
        """Return all answers that a person may see: placements with how well the others predict them, and skips."""
        whose = None if self.desk.sees_all(person) else person.name
        hidden = not self.desk.predicts(person)
        with self.desk.lock:
            state = self.project.state
            marks = self.session.listing(whose, viewer=person.name)
            skips = self.session.skipped(whose, viewer=person.name)
            rows = [_placed(row, state, hidden) for row in marks]
            rows += [_skipped(*skip, state) for skip in skips]
            generation = state.generation
            for row in rows:
                row["snap"] = snap_use(state, row["rater"], row["query"])
        if whose is not None:
            for row in rows:
                row["rater"] = None
        return {"rows": sorted(rows, key=lambda row: (row["query"], row["rater"] or "")), "generation": generation}

    def progress(self, person: Person) -> dict[str, Any]:
        """Return the progress: a rater's own counts and times, or those of all raters for other roles."""
        whose = person.name if person.role == "rater" else None
        with self.desk.lock:
            found = self.session.progress(whose)
            times = seconds(self.project.state, whose)
        ranking, compares = None, self.desk.compares(person)
        # Who is kept from the transforms is not told what the audit says of them.
        stop = [
            {"rule": rule.name, "met": rule.met, "sentence": rule.sentence}
            for rule in found.stop_rules
            if compares or rule.name != "decided"
        ]
        if compares:
            ranking = self.desk.ranking.summary()
            audit = self.desk.audit.verdict()
            if audit is not None and not any(rule["rule"] == "decided" for rule in stop):
                stop.append({"rule": "decided", "met": audit.best is not None, "sentence": audit.sentence})
        # The calibration scales every uncertainty by the residuals: its last digits would tell of them.
        shown = float if self.desk.predicts(person) else rough
        curve = zip(found.curve.annotations.tolist(), found.curve.mean_sd.tolist(), strict=True)
        return {
            **same_fields(ProgressAnswer, found),
            "mean_sd": shown(found.mean_sd),
            "max_sd": shown(found.max_sd),
            "curve": [{"annotations": count, "mean_sd": shown(sd)} for count, sd in curve],
            "next_gain": None if found.expected_gain is None else shown(found.expected_gain),
            "stop": stop,
            "seconds": times,
            "model": found.weights,
            "ranking": ranking,
        }


# What a row of the list says where there is nothing to say, as of a placement that was skipped.
_BLANK: dict[str, Any] = {
    **dict.fromkeys(("point", "covariance", "alpha", "residual", "distance", "mahalanobis", "p", "partner", "reason")),
    **dict.fromkeys(("outlier", "swapped", "disabled", "excluded", "skipped", "flagged"), False),
    **dict.fromkeys(("sentence", "text"), ""),
}
# Each of these would give away where the model expects the match: three distances locate it, and a flag does so by
# halves.
_PREDICTED = ("residual", "distance", "mahalanobis", "p", "outlier", "swapped", "partner", "sentence", "flagged")


def _shown_origin(origin: str) -> str:
    """Return an origin as a rater may see it: repeats are not announced."""
    return origin if origin in ("moved", "volunteered") else "asked"


def _placed(row: ListRow, state: State, hidden: bool) -> dict[str, Any]:
    told = {
        **_BLANK,
        **same_fields(ListRowAnswer, row),
        "number": number_for(state, row.rater, row.query),
        "location": row.fixed_point,
        "point": row.moving_point,
        "outlier": row.flag == "outlier",
        "swapped": row.flag == "swapped",
        "chosen": _shown_origin(row.origin),
        "flagged": row.questioned is not None,
    }
    return {**told, **{name: _BLANK[name] for name in _PREDICTED}} if hidden else told


def _skipped(who: str, number: int, skip: Skipped, state: State) -> dict[str, Any]:
    return {
        **_BLANK,
        **same_fields(ListRowAnswer, skip),
        "query": number,
        "number": number_for(state, who, number),
        "location": state.queries[number].point,
        "skipped": True,
        "duration": skip.stamp.duration,
        "rater": who,
        "chosen": _shown_origin(state.queries[number].origin),
    }


def report_router(desk: Desk) -> APIRouter:
    """Return the routes of what has been done."""
    router, reports = APIRouter(), Reports(desk)

    @router.get("/api/list", response_model=ListAnswer)
    def listing(asking: Asking) -> dict[str, Any]:
        """Return all answers that this person may see."""
        return reports.listing(asking)

    @router.get("/api/progress", response_model=ProgressAnswer)
    def progress(asking: Asking) -> dict[str, Any]:
        """Return the progress."""
        return reports.progress(asking)

    return router
