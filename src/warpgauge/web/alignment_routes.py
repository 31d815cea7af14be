"""Routes for a proposed rough alignment: how it lies, and the yes or no to it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from warpgauge.geometry import Floats
from warpgauge.project import NotAllowedError
from warpgauge.project.alignments import alignment_of
from warpgauge.web.app_state import AtDesk, Desk
from warpgauge.web.auth import Asking, Person, Writing
from warpgauge.web.failures import WRITE_REFUSALS, NotFoundError
from warpgauge.web.plane_answers import RAW, Axis, Channels, LevelNumber, Small, parsed_part, plane_response
from warpgauge.web.wire import Based, Given, Saved

router = APIRouter()


class AlignmentAnswer(Given):
    """A rough alignment: how the moving image lies to the fixed one."""

    status: Literal["none", "proposed", "accepted", "refused"]
    method: str = Field(description="How it was found, in a sentence.")
    asks: bool = Field(description="Whether this visitor is asked about it.")


class AlignmentRequest(Based):
    """A yes or a no to the proposed alignment."""

    accepted: bool


class AlignedAnswer(Given):
    """A yes or a no was saved."""

    saved: Saved


class Aligned:
    """The proposed alignment in the place of a posterior, for the warped picture."""

    def __init__(self, desk: Desk) -> None:
        event = desk.project.state.alignment
        if event is None:
            raise NotFoundError("No alignment was proposed.")
        self._alignment = alignment_of(event)

    def mean(self, points: Floats) -> Floats:
        """Map fixed to moving points."""
        return np.asarray(self._alignment.map(points))


@router.get("/api/alignment", response_model=AlignmentAnswer)
def alignment(desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return the rough alignment that was proposed last, and what was said to it."""
    return _described(desk, asking)


@router.post("/api/alignment", response_model=AlignedAnswer, responses=WRITE_REFUSALS)
def answer(body: AlignmentRequest, desk: AtDesk, writing: Writing) -> dict[str, Any]:
    """Accept or refuse the proposed alignment; an accepted one is what predictions begin with."""
    if not _described(desk, writing)["asks"]:
        raise NotAllowedError("There is no alignment that you are asked about.")
    with desk.lock:
        event = desk.project.answer_alignment(body.accepted, writing.name)
        desk.changed()
    return {"saved": {"generation": event.generation, "time": event.time}}


@router.get("/api/alignment/warped", response_class=Response, responses={200: RAW})
def warped(
    desk: AtDesk,
    asking: Asking,
    axis: Axis = 2,
    index: Small = 0,
    level: LevelNumber = 0,
    part: str | None = None,
    channels: Channels = "",
) -> Response:
    """Return the moving image as the proposed alignment lays it over a plane of the fixed one, as /api/warped."""
    desk.check_predicts(asking)
    box = None if part is None else parsed_part(part)
    samples, within, grid = desk.overlays.warped(Aligned(desk), axis, index, level, box, channels)
    return plane_response(samples, grid, axis, after=within.astype(np.uint8))


def _described(desk: Desk, person: Person) -> dict[str, Any]:
    record = desk.project.state.alignment
    if record is None or not desk.predicts(person):
        return {"status": "none", "method": "", "asks": False}
    # What one says counts for all: in a blind project the organiser decides.
    decides = person.writes and (person.organises or not desk.project.settings.blind)
    return {"status": record.status, "method": record.method, "asks": record.accepted is None and decides}
