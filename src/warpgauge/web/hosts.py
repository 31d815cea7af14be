"""Which host names a server answers to."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_ANY = frozenset({"0.0.0.0", "::"})  # nosec B104  # compared with, not bound to


def is_loopback(host: str) -> bool:
    """Return whether a host to bind to can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def split_host(header: str) -> tuple[str, int | None]:
    """Split a Host header into name and port; the name is empty where the header is malformed."""
    text, port = header.strip().lower(), ""
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return "", None
        port = rest[1:]
    else:
        name, _, port = text.partition(":")
    if port and not (port.isascii() and port.isdigit() and len(port) <= 5):
        return "", None
    return name, int(port) if port else None


class AllowedHosts:
    """The names that may stand in a Host header.

    Parameters
    ----------
    host : str
        What the server is bound to. A server bound to every address answers to any address written in digits (no
        foreign page can make a browser send that for another site) and to the machine's own name.
    public : str, optional
        Name of the proxy in front.
    """

    def __init__(self, host: str = "127.0.0.1", public: str | None = None) -> None:
        self.host = host
        names = {host.lower(), *LOOPBACK_NAMES} - _ANY
        if not is_loopback(host):
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        if public is not None:
            names.add(public)
        self.names = frozenset(names)
        self._any_address = host in _ANY

    def allows(self, name: str) -> bool:
        """Return whether this server answers to a name."""
        if name in self.names:
            return True
        if not self._any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
