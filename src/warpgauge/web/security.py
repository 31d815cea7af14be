"""The guard: checks before every route (Host, Origin, sizes, cookie), and the headers of every response.

Nobody gets past it without a valid token, whatever routes there are behind it.
"""

from __future__ import annotations

import hmac
import html
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl, quote, unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warpgauge.project import ProjectError
from warpgauge.web.auth import Gate, House, Person
from warpgauge.web.hosts import split_host
from warpgauge.web.logins import LoginLog, WrongTokens
from warpgauge.web.settings import ServerSettings

logger = logging.getLogger("warpgauge.web")
LARGEST_BODY = 64 * 1024
COOKIE_SECONDS = 30 * 24 * 3600
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Within a notebook of this machine: any port of it may show the page in a frame, and so may the notebook's own server.
_FRAMES = "'self' http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:*"
_EMBEDDED = {name: value for name, value in _HEADERS.items() if name != "X-Frame-Options"} | {
    "Content-Security-Policy": _HEADERS["Content-Security-Policy"].replace(
        "frame-ancestors 'none'", f"frame-ancestors {_FRAMES}"
    )
}
_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">{head}<title>warpgauge</title></head>'
    "<body><p>{text}</p></body></html>"
)
_REFRESH = '<meta http-equiv="refresh" content="0; url={}">'
_ASK = (
    "You are signed in here as <strong>{now}</strong>, but this link is that of <strong>{then}</strong>. Every answer "
    'is stored under the name that is signed in.</p><p><a href="{stay}">Stay {now}</a></p>'
    '<p><a href="{link}">Go on as {then}</a>'
)
_ASKED_SECONDS = 600
VISITOR = "X-Warpgauge-Visitor"  # for whom the page was opened, by its own word: the rater's name, percent-encoded
_NO_TOKEN = "A valid link is needed: ask the organiser for yours, or open the one that warpgauge annotate printed."


def failure(status: int, sentence: str) -> JSONResponse:
    """Return the answer to a request that is refused."""
    return JSONResponse({"error": sentence}, status)


def cookie_name(house_id: str, port: int | None = None) -> str:
    """Name of the cookie of a project or folder; browsers share cookies between ports, so the port may be in it."""
    return f"warpgauge-{house_id[:8]}" + ("" if port is None else f"-{port}")


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, gate: Gate, house: House, settings: ServerSettings) -> None:
        self.app, self.gate, self.settings = app, gate, settings
        self.log, self.wrong = LoginLog(None if house.readonly else house.folder), WrongTokens()
        self._house = house.id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on, one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send, _EMBEDDED if self.settings.embedded else _HEADERS)
        self._below_root(scope)
        headers = Headers(scope=scope)
        address = str((scope.get("client") or ("unknown", 0))[0])
        refused = self._foreign(scope, headers) or self._unfit(scope, headers)
        if refused is not None:
            self.log.write(address, f"refused with {refused.status_code}")
        if refused is None:
            token = _query_token(scope)
            if token is not None:
                refused = await self._login(scope, headers, token, address)
        if refused is None:
            refused = await self._identified(scope, headers, address)
        if refused is not None:
            await refused(scope, receive, send)
            return
        await self._bounded(scope, receive, send)

    async def _identified(self, scope: Scope, headers: Headers, address: str) -> Response | None:
        """Note whose request this is; a stranger's is refused."""
        token = _cookie(headers, self._cookie_name(scope))
        try:
            # A page asks for dozens of files and tiles at once: only the first has to go through a thread.
            person = self.gate.at_once(token)
            if person is None and token:
                again = not self.wrong.too_many(address)
                person = await run_in_threadpool(self.gate.person, token, again=again)
        except ProjectError as error:
            return failure(503, str(error))
        if person is None:
            return self._stranger(scope, headers, address, token)
        visitor = headers.get(VISITOR)
        if visitor is not None and unquote(visitor) != person.name:
            return failure(401, f"This page was opened by somebody else than {person.name}, who is signed in here now.")
        base = self.settings.public or f"{scope['scheme']}://{headers['host']}"
        scope.setdefault("state", {}).update(person=person, base=str(base))
        return None

    @property
    def _is_behind_tls(self) -> bool:
        return self.settings.public is not None and self.settings.public.is_encrypted

    def _cookie_name(self, scope: Scope) -> str:
        # Behind a proxy several servers with different ports share the cookie of the project.
        server = scope.get("server") or ("", 0)
        return cookie_name(self._house, None if self.settings.public else server[1])

    def _foreign(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse what another site's page asks for."""
        given = headers.getlist("host")
        name, _ = split_host(given[0]) if len(given) == 1 else ("", None)
        if not self.settings.hosts.allows(name):
            return failure(403, "This server does not answer to that host name; use the link that it printed.")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins(scope, name, given[0]):
            return failure(403, "The request comes from the page of another site and was refused.")
        site = headers.get("sec-fetch-site")
        if origin is None and site not in (None, "same-origin", "none"):
            # Following a link to the page itself is all that another site may do.
            to_page = scope["path"] == "/" and scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
            if not to_page:
                return failure(403, "The request comes from the page of another site and was refused.")
        return None

    def _below_root(self, scope: Scope) -> None:
        """Remove the proxy's prefix from the path, if the proxy has not removed it already."""
        path, root = scope["path"], self.settings.root_path
        if root and (path == root or path.startswith(f"{root}/")):
            scope["path"] = path[len(root) :] or "/"
            scope["raw_path"] = scope["path"].encode("utf-8")

    def _origins(self, scope: Scope, name: str, host: str) -> set[str]:
        """Origins that our own page may have in a browser that asks by this host name."""
        public = self.settings.public
        if public is None:
            return {f"{scope['scheme']}://{host}"}
        return {public.origin} if name == public.host else {public.origin, f"{scope['scheme']}://{host}"}

    def _stranger(self, scope: Scope, headers: Headers, address: str, token: str | None) -> Response:
        """Answer a request without a valid token: count a wrong one, and say why a former one has ended."""
        waits = self._counted(scope, address, token) if token else None
        return waits or _stranger(scope, headers, self.settings.root_path, self.gate.why_ended(token) or _NO_TOKEN)

    def _counted(self, scope: Scope, address: str, token: str) -> Response | None:
        """Count a wrong token, unless it was valid before; an address with too many of them has to wait."""
        if self.gate.why_ended(token) is not None:
            return None
        self.wrong.add(address)
        self.log.write(address, "wrong token")
        return _wait(scope) if self.wrong.too_many(address) else None

    def _unfit(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse what is too long or of another type than JSON, before it is read."""
        if scope["method"] in _SAFE:
            return None
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return failure(400, "The length of the request's body is not a number.")
        if len(length) > 15 or int(length) > LARGEST_BODY:
            return _too_large()
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return failure(415, "The body of a request must be JSON: send it with Content-Type application/json.")
        return None

    async def _login(self, scope: Scope, headers: Headers, token: str, address: str) -> Response:
        """Turn the token of a link into a cookie, and take it out of the address; who would be another one is asked."""
        try:
            person = await run_in_threadpool(self.gate.person, token, again=not self.wrong.too_many(address))
            signed_in = await run_in_threadpool(self.gate.person, _cookie(headers, self._cookie_name(scope)))
        except ProjectError as error:
            return failure(503, str(error))
        if person is None:
            return self._counted(scope, address, token) or plain_page(401, self.gate.why_ended(token) or _NO_TOKEN)
        asked = self._asked(scope, headers, token, person, signed_in)
        if asked is not None:
            return asked
        self.log.write(address, "login", person.name)
        response = RedirectResponse(f"{self.settings.root_path}/", 303)
        self._set_cookie(response, scope, self._cookie_name(scope), token, COOKIE_SECONDS)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _asked(
        self, scope: Scope, headers: Headers, token: str, person: Person, signed_in: Person | None
    ) -> Response | None:
        """Return the page that asks before a link changes who is signed in; None where the link may be followed.

        A way that began at another site brings no strict cookie, so that nobody is known to be signed in: such a link
        is followed once more from a page of ours. That it was, and that a person has answered, is proved by a nonce
        that stands in the link of that page and in a strict cookie, which another site can neither read nor send.
        """
        ours = _cookie(headers, f"{self._cookie_name(scope)}-asked")
        kind, _, given = (_query(scope, "via") or "").partition("-")
        proved = kind if ours is not None and hmac.compare_digest(ours.encode(), given.encode()) else None
        if proved == "yes" or (signed_in is not None and signed_in.name == person.name):
            return None
        # Browsers say where a request comes from, except to plain http of another machine.
        browser = "text/html" in headers.get("accept", "") and "sec-fetch-site" not in headers
        elsewhere = browser or headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if signed_in is None and (proved == "here" or not elsewhere):
            return None
        if given and ours is None:
            return plain_page(
                400, "The browser has kept no cookie of this page; allow cookies, then open the link again."
            )
        nonce = secrets.token_urlsafe(16)
        link = f"{self.settings.root_path}/?token={quote(token, safe='')}&amp;via="
        if signed_in is None:
            answer = plain_page(200, "Opening the annotator ...", _REFRESH.format(f"{link}here-{nonce}"))
        else:
            words = {"now": html.escape(signed_in.name), "then": html.escape(person.name)}
            stay = f"{self.settings.root_path}/"
            answer = plain_page(200, _ASK.format(**words, link=f"{link}yes-{nonce}", stay=stay))
        self._set_cookie(answer, scope, f"{self._cookie_name(scope)}-asked", nonce, _ASKED_SECONDS)
        return answer

    def _set_cookie(self, response: Response, scope: Scope, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            path=f"{self.settings.root_path}/",
            httponly=True,
            samesite="strict",
            secure=scope["scheme"] == "https" or self._is_behind_tls,
        )

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on, but end a body that grows beyond the bound whatever its header said."""
        seen, started = 0, False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > LARGEST_BODY:
                raise _TooLargeError
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except _TooLargeError:
            if not started:
                await _too_large()(scope, receive, send)
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise
            sentence = "The server failed at this request; the window in which it runs says more."
            await failure(500, sentence)(scope, receive, send)


def _too_large() -> Response:
    return failure(413, f"The body of a request may have {LARGEST_BODY} bytes at most.")


class _TooLargeError(BaseException):
    """Not an Exception, so that no code between here and the reader of the body catches it."""


def _with_headers(send: Send, added: Mapping[str, str]) -> Callable[[Message], Awaitable[None]]:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending


def _query_token(scope: Scope) -> str | None:
    return _query(scope, "token") if scope["path"] == "/" and scope["method"] == "GET" else None


def _query(scope: Scope, name: str) -> str | None:
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=None)
    return next((value for key, value in pairs if key == name), None)


def _cookie(headers: Headers, name: str) -> str | None:
    # A lenient parser: other programs on this machine share the browser's cookies, and theirs may be odd.
    found = [cookie_parser(header).get(name) for header in headers.getlist("cookie")]
    return next((value for value in found if value is not None), None)


def _wait(scope: Scope) -> Response:
    sentence = (
        "There were too many wrong tokens from this address; wait a minute, then open the link that you were given."
    )
    answer = failure(429, sentence) if scope["path"].startswith("/api/") else plain_page(429, sentence)
    answer.headers["Retry-After"] = "60"
    return answer


def _stranger(scope: Scope, headers: Headers, root_path: str, sentence: str) -> Response:
    if scope["path"].startswith("/api/") or scope["method"] != "GET":
        return failure(401, sentence)
    if scope["path"] == "/" and headers.get("sec-fetch-site") == "cross-site":
        # A strict cookie is not sent on a way that began at another site (a link in a mail); going on from our own
        # page sends it. That second request comes from this site, so that this cannot go round in circles.
        return plain_page(200, "Opening the annotator ...", _REFRESH.format(f"{root_path}/"))
    return plain_page(401, sentence)


def plain_page(status: int, text: str, head: str = "") -> Response:
    """Return a page of one paragraph; ``text`` and ``head`` are HTML."""
    return HTMLResponse(_PAGE.format(text=text, head=head), status, headers={"Cache-Control": "no-store"})
