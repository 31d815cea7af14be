"""Routes for the list, the progress, and the organiser's page."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from warpgauge.web.access import Asking, Organising
from warpgauge.web.desk import Desk
from warpgauge.web.failures import WRITE_REFUSALS
from warpgauge.web.query_routes import Number
from warpgauge.web.wire import SavedAnswer
from warpgauge.web.wire_reports import LinkAnswer, ListAnswer, LocationsAnswer, ProgressAnswer, RatersAnswer
from warpgauge.web.wire_sent import AskAgainRequest, MarkRequest, RaterRequest, ResolveRequest


def report_router(desk: Desk) -> APIRouter:
    """Return the routes of what has been done."""
    router = APIRouter()

    @router.get("/api/list", response_model=ListAnswer)
    def listing(asking: Asking) -> dict[str, Any]:
        """Return all answers that this person may see."""
        return desk.reports.listing(asking)

    @router.get("/api/progress", response_model=ProgressAnswer)
    def progress(asking: Asking) -> dict[str, Any]:
        """Return the progress."""
        return desk.reports.progress(asking)

    return router


def organiser_router(desk: Desk) -> APIRouter:
    """Return the routes that are for organisers only."""
    router = APIRouter()
    organisation = desk.organisation

    @router.get("/api/raters", response_model=RatersAnswer)
    def raters(organising: Organising) -> dict[str, Any]:
        """Return a row for each rater."""
        return organisation.raters()

    @router.post("/api/raters", response_model=LinkAnswer, responses=WRITE_REFUSALS)
    def register(body: RaterRequest, request: Request, organising: Organising) -> dict[str, Any]:
        """Register a person or give them a new link (its secret is shown this once), or revoke them."""
        return organisation.register(body, f"{request.url.scheme}://{request.headers['host']}", organising)

    @router.get("/api/locations", response_model=LocationsAnswer)
    def locations(organising: Organising) -> dict[str, Any]:
        """Return a row for each location, with all raters' marks."""
        return organisation.locations()

    @router.post("/api/locations/{n}/resolve", response_model=SavedAnswer, responses=WRITE_REFUSALS)
    def resolve(n: Number, body: ResolveRequest, organising: Organising) -> dict[str, Any]:
        """Settle a location as it stands; its raters cannot change it any more."""
        return organisation.adjudicate("resolve", n, body.generation, organising, text=body.text)

    @router.post("/api/locations/{n}/exclude", response_model=SavedAnswer, responses=WRITE_REFUSALS)
    def exclude(n: Number, body: MarkRequest, organising: Organising) -> dict[str, Any]:
        """Take a rater's mark out of the model."""
        return organisation.adjudicate("exclude", n, body.generation, organising, rater=body.rater, text=body.text)

    @router.post("/api/locations/{n}/include", response_model=SavedAnswer, responses=WRITE_REFUSALS)
    def include(n: Number, body: MarkRequest, organising: Organising) -> dict[str, Any]:
        """Put an excluded mark back."""
        return organisation.adjudicate("include", n, body.generation, organising, rater=body.rater, text=body.text)

    @router.post("/api/locations/{n}/ask_again", response_model=SavedAnswer, responses=WRITE_REFUSALS)
    def ask_again(n: Number, body: AskAgainRequest, organising: Organising) -> dict[str, Any]:
        """Ask a location once more, of one rater or of all."""
        return organisation.adjudicate("ask_again", n, body.generation, organising, rater=body.rater)

    return router
