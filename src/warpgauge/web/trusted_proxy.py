"""Names of people from a proxy that has signed them on, in a header that the administrator names.

Off unless configured. The header is believed only in requests that come from the proxy itself: whoever reaches the
server past the proxy could write any name into it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import Scope

from warpgauge.errors import InvalidInputError

_OTHERS = frozenset({"host", "origin", "cookie", "content-type", "content-length", "x-forwarded-for", "user-agent"})


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
        """Return who was signed on; None where the proxy names nobody, or the request is not from the proxy."""
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
