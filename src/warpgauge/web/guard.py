"""The guard: checks before every route (Host, Origin, size, cookie), and the headers of every answer.

Nobody gets past it without a valid link, whatever routes there are behind it.
"""

from __future__ import annotations

import html
import logging
from urllib.parse import parse_qs, unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warpgauge.project import ProjectError
from warpgauge.web.failures import failure, plain_page
from warpgauge.web.people import COOKIE_SECONDS, People
from warpgauge.web.settings import LOOPBACK, ServerSettings, host_name

logger = logging.getLogger("warpgauge.web")
LARGEST_BODY = 64 * 1024
OPEN = ("/healthz", "/readyz")  # without a link
VISITOR = "x-warpgauge-visitor"  # for whom the page was opened, by its own word: the rater's name, percent-encoded
_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Within a notebook of this machine: any port of it may show the page in a frame, and so may the notebook's own server.
_FRAMES = "'self' http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:*"
_NO_LINK = "A valid link is needed: ask the organiser for yours, or open the one that warpgauge annotate printed."
_ELSEWHERE = "The request comes from the page of another site and was refused."
_ASK = (
    "You are signed in here as <strong>{now}</strong>, but this link is that of <strong>{then}</strong>. Every answer "
    'is stored under the name that is signed in.</p><p><a href="./">Stay {now}</a></p>'
    '<form method="post" action="./"><input type="hidden" name="token" value="{token}">'
    "<button>Go on as {then}</button></form><p>"
)


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, people: People, settings: ServerSettings) -> None:
        self.app, self.people, self.settings = app, people, settings
        self.cookie = f"warpgauge-{people.id[:8]}"
        self._headers = dict(_HEADERS)
        if settings.embedded:
            del self._headers["X-Frame-Options"]
            policy = _POLICY.replace("frame-ancestors 'none'", f"frame-ancestors {_FRAMES}")
            self._headers["Content-Security-Policy"] = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on, one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        self._below_prefix(scope)
        request = Request(scope, receive)
        try:
            refused = None if scope["path"] in OPEN else await self._refused(request)
            await (refused or self.app)(scope, receive, sending)
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise
            sentence = "The server failed at this request; the window in which it runs says more."
            await failure(500, sentence)(scope, receive, sending)

    def _below_prefix(self, scope: Scope) -> None:
        """Remove the proxy's prefix from the path, if the proxy has not removed it already."""
        prefix = self.settings.path.rstrip("/")
        if prefix and f"{scope['path']}/".startswith(f"{prefix}/"):
            scope["path"] = scope["path"][len(prefix) :] or "/"
            scope["raw_path"] = scope["path"].encode("utf-8")

    async def _refused(self, request: Request) -> Response | None:
        """Return why a request is not handed on, or the answer to whoever signs in; else note whose it is."""
        refused = self._foreign(request) or self._unfit(request)
        if refused is not None:
            return refused
        try:
            person = await run_in_threadpool(self.people.of_token, request.cookies.get(self.cookie))
            if request.url.path == "/" and (request.method == "POST" or "token" in request.query_params):
                return await self._signed_in(request, None if person is None else person.name)
        except ProjectError as error:
            return failure(503, str(error))
        if person is None:
            page = request.method == "GET" and "/api/" not in request.url.path
            return plain_page(401, _NO_LINK) if page else failure(401, _NO_LINK)
        visitor = request.headers.get(VISITOR)
        if visitor is not None and unquote(visitor) != person.name:
            return failure(401, f"This page was opened by somebody else than {person.name}, who is signed in here now.")
        request.state.person = person
        return None

    def _foreign(self, request: Request) -> Response | None:
        """Refuse what another site's page asks for."""
        hosts = request.headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        if not self.settings.answers_to(name):
            return failure(403, "This server does not answer to that host name; use the link that it printed.")
        origins = {f"{request.scope['scheme']}://{hosts[0]}"} if name in LOOPBACK else set()
        if self.settings.public is not None:
            origins.add(self.settings.public.origin)
        origin = request.headers.get("origin")
        if origin is not None:
            return None if origin in origins else failure(403, _ELSEWHERE)
        if request.headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
            return None
        # Following a link to the page itself is all that another site may do.
        navigates = request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
        return None if navigates and request.url.path == "/" else failure(403, _ELSEWHERE)

    def _unfit(self, request: Request) -> Response | None:
        """Refuse what is too long or of another type than JSON, before it is read."""
        if request.method in ("GET", "HEAD", "OPTIONS"):
            return None
        length = request.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):  # the reader of the connection holds a body to its length
            return failure(411, "A request with a body must say its length.")
        if len(length) > 15 or int(length) > LARGEST_BODY:
            return failure(413, f"The body of a request may have {LARGEST_BODY} bytes at most.")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.url.path == "/" and kind == "application/x-www-form-urlencoded" and "origin" in request.headers:
            return None  # the form by which one link takes the place of another; a browser says where it comes from
        if kind != "application/json":
            return failure(415, "The body of a request must be JSON: send it with Content-Type application/json.")
        return None

    async def _signed_in(self, request: Request, now: str | None) -> Response:
        """Turn the token of a link into a cookie, and take it out of the address; who would be another one is asked."""
        token = request.query_params.get("token", "")
        if request.method == "POST":
            token = parse_qs((await request.body()).decode("ascii", "replace")).get("token", [""])[0]
        person = await run_in_threadpool(self.people.of_token, token)
        if person is None:
            return plain_page(401, _NO_LINK)
        if now not in (None, person.name) and request.method == "GET":
            words = {"now": html.escape(now or ""), "then": html.escape(person.name), "token": html.escape(token)}
            return plain_page(200, _ASK.format(**words))
        logger.info("%s has signed in", person.name)
        response = RedirectResponse("./", 303)
        response.set_cookie(
            self.cookie,
            token,
            max_age=COOKIE_SECONDS,
            path=self.settings.path,
            httponly=True,
            samesite="lax",  # sent when a link is followed, and with nothing else that another site does
            secure=self.settings.is_encrypted,
        )
        return response
