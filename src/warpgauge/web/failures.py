"""Errors as the page gets them: one sentence and a status, never a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from warpgauge.errors import WarpgaugeError
from warpgauge.project import ConflictError, NotAllowedError, ProjectError, StorageError
from warpgauge.session import UnconfirmedError
from warpgauge.web.security import failure
from warpgauge.web.wire import ErrorAnswer

# Descriptions for OpenAPI of what every route may answer.
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request cannot be read."},
    401: {"model": ErrorAnswer, "description": "No valid token."},
    403: {"model": ErrorAnswer, "description": "The role does not allow it, or another site asked."},
    404: {"model": ErrorAnswer, "description": "There is no such thing."},
    422: {"model": ErrorAnswer, "description": "A value is missing, malformed or out of range."},
    503: {"model": ErrorAnswer, "description": "The project cannot be read or written now; nothing was changed."},
}
WRITE_REFUSALS: dict[int | str, dict[str, Any]] = {
    413: {"model": ErrorAnswer, "description": "The body is too large."},
    415: {"model": ErrorAnswer, "description": "The body is not JSON."},
}


class NotFoundError(WarpgaugeError):
    """What was asked for is not there."""


class LockedError(NotAllowedError):
    """The organiser has settled this location."""


def status_of(error: WarpgaugeError) -> int:
    """Return the status that an error is answered with."""
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, NotAllowedError):
        return 403
    if isinstance(error, ConflictError | UnconfirmedError):
        return 409
    if isinstance(error, StorageError | ProjectError):
        return 503
    return 422


def add_handlers(app: FastAPI) -> None:
    """Register how errors are answered."""

    @app.exception_handler(WarpgaugeError)
    async def on_known(request: Request, error: WarpgaugeError) -> JSONResponse:
        return failure(status_of(error), str(error))

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return failure(422, sentence_of(error.errors()))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        answer = failure(error.status_code, _plain(error))
        answer.headers.update(error.headers or {})
        return answer


def _plain(error: HTTPException) -> str:
    if error.status_code == 404:
        return "There is nothing at this address."
    if error.status_code == 405:
        return "This address does not take that kind of request."
    if error.status_code == 400:
        return "The body of the request is not valid JSON."
    return str(error.detail)


def sentence_of(problems: Sequence[Any]) -> str:
    """Return the first problem of a request in a sentence, without repeating what was sent."""
    first = problems[0]
    place = ".".join(str(part) for part in first.get("loc", ()) if part not in ("body", "query", "path"))
    text = str(first.get("msg", "it is not valid")).removeprefix("Value error, ")
    if first.get("type") == "json_invalid":
        return "The body of the request is not valid JSON."
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    subject = f"The field {place!r}" if place else "The request"
    return f"{subject} was refused: {text[:1].lower()}{text[1:]}{more}."
