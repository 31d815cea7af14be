"""Limits on the number and duration of connections without a valid token.

A request must be complete within a time, and only so many connections may be open that have not shown a valid token.
A further one closes the oldest of them, but neither one whose request is being answered nor, below a higher limit,
one that was opened a moment ago: whoever has a token gets in even while others open hundreds of connections a second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
BODY_SECONDS = 20.0
MOST_STRANGERS = 64
MOST_AT_ONCE = 512  # for a moment
GRACE_SECONDS = 2.0
_QUIET_SECONDS = 60.0
_LOGGERS = ("asyncio", "uvicorn.error")


class Strangers:
    """The open connections without a valid token, oldest first.

    Parameters
    ----------
    most : int
        How many of them may be open for longer than a moment.
    at_once : int
        How many of them may be open at all, but for those that are being answered.
    """

    def __init__(self, most: int = MOST_STRANGERS, at_once: int = MOST_AT_ONCE) -> None:
        self.most, self.at_once = most, at_once
        self._open: OrderedDict[BoundedProtocol, float] = OrderedDict()

    def add(self, connection: BoundedProtocol) -> None:
        """Take in a new connection, and close older ones where there are too many."""
        now = time.monotonic()
        self._open[connection] = now
        while len(self._open) > self.most:
            oldest = next((one for one in self._open if not one.is_answering), None)
            if oldest is None:
                return
            if now - self._open[oldest] < GRACE_SECONDS and len(self._open) <= self.at_once:
                return
            del self._open[oldest]
            oldest.give_up()

    def drop(self, connection: BoundedProtocol) -> None:
        """Forget a connection that has ended or has shown a valid token."""
        self._open.pop(connection, None)


class BoundedProtocol(H11Protocol):
    """HTTP with a time limit for headers and body, and a limit on connections without a token."""

    strangers: Strangers

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._waits_for = ""

    @property
    def is_answering(self) -> bool:
        """Whether a complete request is being answered: whose it is has yet to be found out."""
        return self.cycle is not None and not self.cycle.response_complete and self.cycle.more_body is False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin: the headers have to come soon."""
        super().connection_made(transport)
        self.strangers.add(self)
        self._wait("headers", HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.strangers.drop(self)
        self._wait("", 0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, and set the time limit for what is still missing."""
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE:
            self._wait("headers", HEADER_SECONDS)
        elif state is h11.SEND_BODY:
            self._wait("body", BODY_SECONDS)
        else:
            self._wait("", 0)

    def on_response_complete(self) -> None:
        """Note whether the visitor had a token, and go on."""
        if self.scope is not None and self.scope.get("state", {}).get("person") is not None:
            self.strangers.drop(self)
        super().on_response_complete()

    def give_up(self) -> None:
        """Close at once, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()

    def _wait(self, what: str, seconds: float) -> None:
        if what == self._waits_for and what:
            return  # bytes that trickle in do not extend the time
        if self._timer is not None:
            self._timer.cancel()
        self._waits_for = what
        self._timer = self.loop.call_later(seconds, self.give_up) if what else None


def bounded_protocol(files: int) -> type[BoundedProtocol]:
    """Return the protocol of one server that may open so many files, with a count of connections of its own."""
    strangers = Strangers(max(8, min(MOST_STRANGERS, files // 4)), max(8, min(MOST_AT_ONCE, files // 2)))
    return type("ServerProtocol", (BoundedProtocol,), {"strangers": strangers})


class _Once(logging.Filter):
    """Let the same message pass once a minute: strangers must not fill a log."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, key = time.monotonic(), str(record.msg)[:200]
        if now - self._last.get(key, -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[key] = now
        return True


def keep_logs_quiet() -> None:
    """Have repeated messages of the server's libraries shown once a minute."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, _Once) for one in logger.filters):
            logger.addFilter(_Once())


def raise_file_limit() -> int:
    """Allow this process as many open files as the system lets it have, and return how many."""
    try:
        import resource
    except ImportError:
        return 2048
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    aim = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft == resource.RLIM_INFINITY or soft >= aim:
        return int(soft) if soft > 0 else 65_536
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (aim, hard))
    except (OSError, ValueError):
        return int(soft)
    return int(aim)
