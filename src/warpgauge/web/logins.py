"""Who signs on: names from a proxy that has signed people on, a log of logins and refusals, a limit on wrong tokens."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from warpgauge.errors import InvalidInputError

# Names of people from a proxy that has signed them on, in a header that the administrator names.
#
# Off unless configured. The header is believed only in requests that come from the proxy itself: whoever reaches the
# server past the proxy could write any name into it.


class TrustedProxy:
    """The proxy in front of a server.

    Parameters
    ----------
    addresses : iterable of str
        Addresses or networks of the proxy, such as ``"10.0.0.0/24"``.
    user_header : str, optional
        Header in which the proxy says who was signed on, such as ``"X-Forwarded-User"``; None for no sign-on.
    """

    def __init__(self, addresses: Iterable[str] = (), user_header: str | None = None) -> None:
        try:
            self._networks = [ipaddress.ip_network(text.strip(), strict=False) for text in addresses]
        except ValueError as error:
            raise InvalidInputError(
                f"The address of a trusted proxy must look like 10.0.0.5 or 10.0.0.0/24: {error}."
            ) from error
        self.user_header = user_header
        if user_header is not None:
            if re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{2,60}", user_header) is None:
                raise InvalidInputError(f"The header of the user must look like X-Forwarded-User, got {user_header!r}.")
            if user_header.lower() in _OTHERS:
                raise InvalidInputError(f"The header {user_header!r} has another meaning and cannot name the user.")
            if not self._networks:
                raise InvalidInputError(
                    "A header that names the user is believed from the proxy only: say its address with "
                    "--trusted-proxy, such as --trusted-proxy 10.0.0.5."
                )

    def is_peer(self, scope: Scope) -> bool:
        """Return whether a request comes from the proxy."""
        try:
            peer = ipaddress.ip_address(str((scope.get("client") or ("", 0))[0]))
        except ValueError:
            return False
        return any(peer in network for network in self._networks)

    def user(self, scope: Scope, headers: Headers) -> str | None:
        """Return who was signed on; None where the proxy says nothing, or somebody else says it."""
        if self.user_header is None or not self.is_peer(scope):
            return None
        given = headers.getlist(self.user_header)
        return given[0].strip() or None if len(given) == 1 else None

    def client(self, scope: Scope, headers: Headers) -> str:
        """Return the address that a request comes from: what the proxy says where it is trusted."""
        peer = str((scope.get("client") or ("unknown", 0))[0])
        if not self._networks or not self.is_peer(scope):
            return peer
        last = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        try:
            return str(ipaddress.ip_address(last))
        except ValueError:
            return peer


_OTHERS = frozenset({"host", "origin", "cookie", "content-type", "content-length", "x-forwarded-for", "user-agent"})


# Log of logins and refusals beside the project, and a limit on wrong tokens.

FILE = "access.log"
LARGEST = 2 * 2**20
WRONG_TOKENS = 20  # per address and minute
_MINUTE = 60.0
_ADDRESSES = 10_000


class LoginLog:
    """Logins and refusals, one JSON object per line: time, address, what, who; never a token.

    Parameters
    ----------
    folder : Path or None
        Of the project; None writes nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._lock = threading.Lock()
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def write(self, address: str, what: str, who: str = "") -> None:
        """Add a line; the same one for the same address is written once a minute."""
        key, now = (address, what, who), time.monotonic()
        with self._lock:
            if self._path is None or now - self._told.get(key, -_MINUTE) < _MINUTE:
                return
            self._told[key] = now
            while len(self._told) > _ADDRESSES:
                self._told.popitem(last=False)
            entry = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "address": address, "what": what}
            line = json.dumps({**entry, "who": who} if who else entry) + "\n"
            with suppress(OSError):  # a log that cannot be written does not keep people from working
                if self._path.exists() and self._path.stat().st_size > LARGEST:
                    self._path.replace(self._path.with_suffix(".log.1"))
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
                handle = os.open(self._path, flags, 0o600)
                try:
                    os.write(handle, line.encode())
                finally:
                    os.close(handle)


class WrongTokens:
    """Counts wrong tokens by address, so that guessing is answered with 429."""

    def __init__(self, most: int = WRONG_TOKENS) -> None:
        self.most = most
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, address: str) -> None:
        """Count one more."""
        began, count = self._seen.pop(address, (time.monotonic(), 0))
        if time.monotonic() - began > _MINUTE:
            began, count = time.monotonic(), 0
        self._seen[address] = began, count + 1
        while len(self._seen) > _ADDRESSES:
            self._seen.popitem(last=False)

    def too_many(self, address: str) -> bool:
        """Return whether this address has to wait."""
        began, count = self._seen.get(address, (0.0, 0))
        return count >= self.most and time.monotonic() - began <= _MINUTE
