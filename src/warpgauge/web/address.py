"""The address of a server: its port, its certificate, and where a proxy serves it."""

from __future__ import annotations

import re
import socket
import ssl
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line

BACKLOG = 2048
_PUBLIC = re.compile(
    r"(?P<origin>https?://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)(?P<path>(/[A-Za-z0-9_.~-]+)*)"
)
_FIRST_PORT, _PORTS = 49152, 16384  # those that no service is assigned to


@dataclass(frozen=True)
class PublicAddress:
    """Where a proxy serves the page: the origin, such as ``https://annotate.example.org``, and the path below it."""

    origin: str
    host: str
    path: str

    @classmethod
    def read(cls, url: str) -> PublicAddress:
        """Read an address; refuse one that no proxy would serve."""
        found = _PUBLIC.fullmatch(url.strip().rstrip("/"))
        if found is None:
            raise InvalidInputError(
                f"The public address must look like https://annotate.example.org/lesion, got {url!r}."
            )
        return cls(found["origin"].lower(), found["host"].strip("[]").lower(), found["path"])

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers speak TLS with the proxy."""
        return self.origin.startswith("https:")

    def __str__(self) -> str:
        """Address without a slash at its end."""
        return f"{self.origin}{self.path}"


def check_certificate(certfile: str | Path | None, keyfile: str | Path | None) -> None:
    """Refuse a certificate and key that the server could not use."""
    if certfile is None:
        if keyfile is not None:
            raise InvalidInputError("A key without a certificate is of no use: give --certfile as well.")
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password=lambda: "")
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"The certificate {Path(certfile).name!r} and its key cannot be used ({one_line(error)}); both must be PEM "
            f"files, the key without a password."
        ) from error


def bind_near(host: str, port: int, project_id: str) -> socket.socket:
    """Bind to the port, or for 0 to the project's usual one, so that links and open pages outlive a restart."""
    if port == 0:
        usual = _FIRST_PORT + zlib.crc32(project_id.encode()) % _PORTS
        with suppress(InvalidInputError):
            return _bind(host, usual)
    return _bind(host, port)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named asyncio turns off the delaying of small packets, which costs 40 ms a request.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidInputError(
            f"The server cannot be bound to {host!r}, port {port}: {error}; choose another port or host."
        ) from error
    return listening


def url_of(host: str, port: int, tls: bool) -> str:
    """Return the address of a server, for people."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # nosec B104
    scheme = "https" if tls else "http"
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"
