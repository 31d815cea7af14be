"""Errors as the page gets them: one sentence and a status, never a traceback."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from warpgauge.errors import WarpgaugeError
from warpgauge.project import ConflictError, NotAllowedError, ProjectError, StorageError
from warpgauge.session import UnconfirmedError

_PLAIN = {
    400: "The body of the request is not valid JSON.",
    404: "There is nothing at this address.",
    405: "This address does not take that kind of request.",
}


class NotFoundError(WarpgaugeError):
    """What was asked for is not there."""


def failure(status: int, sentence: str) -> JSONResponse:
    """Return the answer to a request that is refused."""
    return JSONResponse({"error": sentence}, status)


def plain_page(status: int, text: str) -> Response:
    """Return a page of one paragraph of HTML."""
    page = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>warpgauge</title></head><body><p>{text}'
    return HTMLResponse(f"{page}</p></body></html>", status)


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
    async def on_known(request: Request, error: WarpgaugeError) -> Response:
        if request.url.path.endswith("/"):  # a page, not what a page asks for
            back = '</p><p><a href="../../">All pairs</a>'
            return plain_page(status_of(error), f"{html.escape(str(error))}{back}")
        return failure(status_of(error), str(error))

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return failure(422, sentence_of(error.errors()))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        answer = failure(error.status_code, _PLAIN.get(error.status_code, str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer


def sentence_of(problems: Sequence[Any]) -> str:
    """Return the first problem of a request in a sentence, without repeating what was sent."""
    first = problems[0]
    if first.get("type") == "json_invalid":
        return _PLAIN[400]
    place = ".".join(str(part) for part in first.get("loc", ()) if part not in ("body", "query", "path"))
    text = str(first.get("msg", "it is not valid")).removeprefix("Value error, ")
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    subject = f"The field {place!r}" if place else "The request"
    return f"{subject} was refused: {text[:1].lower()}{text[1:]}{more}."
