"""How a place is served: address, people and certificate, as one checked value."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line
from warpgauge.web.people import distinct

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_PUBLIC = re.compile(
    r"(?P<origin>https?://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)(?P<path>(/[A-Za-z0-9_.~-]+)*)"
)


@dataclass(frozen=True)
class PublicAddress:
    """Where people reach the server: the origin, such as ``https://annotate.example.org``, and the path below it."""

    origin: str
    host: str
    path: str

    @classmethod
    def read(cls, url: str) -> PublicAddress:
        """Read an address; refuse one that cannot be."""
        found = _PUBLIC.fullmatch(url.strip().rstrip("/"))
        if found is None:
            raise InvalidInputError(
                f"The public address must look like https://annotate.example.org/lesion, got {url!r}."
            )
        return cls(found["origin"].lower(), found["host"].strip("[]").lower(), found["path"])

    def __str__(self) -> str:
        """Address without a slash at its end."""
        return f"{self.origin}{self.path}"


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server; settings that cannot work are refused when the value is made."""

    host: str = "127.0.0.1"
    """Address to bind to; any that other machines reach needs ``public_url``."""
    port: int = 0
    """0 takes the place's usual one, always the same, or another one where that is not free."""
    rater: str | None = None
    """Name of whoever launches, under which their answers are logged; ``"organiser"`` by default."""
    raters: Sequence[str] = ()
    """People who each get a link of their own; one who has a link already keeps it."""
    public_url: str | None = None
    """Address at which people reach the server, as in ``"https://annotate.example.org/lesion"``. Links, the host name
    that is answered to, and the origin of the page come from it, and never from what a request says."""
    certfile: str | Path | None = None
    """Certificate with its chain and private key in PEM form: the server then speaks TLS."""
    mirror: str | Path | None = None
    """Folder for a second copy of the logs, to which every event is appended before it is acknowledged."""
    new_links: bool = False
    """Give the named raters and the launcher new links, also where they have one; the former ones end at once."""
    embedded: bool = False
    """Whether pages of this machine, such as a notebook, may show the page in a frame."""
    links_file: str | Path | None = None
    """File for the links, which only its owner can read, instead of printing them: what a container prints is kept."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "raters", distinct(self.raters))
        if self.public is None and not is_loopback(self.host):
            raise InvalidInputError(
                f"A server on {self.host!r} is reached from other machines; say by which address (--public-url "
                f"http://HOST:PORT, or https with --certfile or a proxy), or serve on 127.0.0.1."
            )
        if self.certfile is not None:
            _check_certificate(Path(self.certfile))

    @cached_property
    def public(self) -> PublicAddress | None:
        """Address by which people reach it, if it is another one than this machine's own."""
        return None if self.public_url is None else PublicAddress.read(self.public_url)

    @property
    def path(self) -> str:
        """Path below which people reach it, with a slash at its end."""
        return "/" if self.public is None else f"{self.public.path}/"

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers speak TLS with the server, or with the proxy before it."""
        return self.certfile is not None if self.public is None else self.public.origin.startswith("https:")

    def answers_to(self, name: str) -> bool:
        """Return whether the server answers to a host name: its public one, and this machine's own."""
        return name in LOOPBACK or (self.public is not None and name == self.public.host)


def is_loopback(host: str) -> bool:
    """Return whether a host to bind to can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """Return the name in a Host header; empty where the header is malformed."""
    try:
        parts = urlsplit(f"//{header.strip().lower()}")
        _ = parts.port  # refused where it is no number
    except ValueError:
        return ""
    return parts.hostname or "" if parts.netloc == header.strip().lower() and "@" not in header else ""


def _check_certificate(file: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, password=lambda: "")
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"The certificate {file.name!r} cannot be used ({one_line(error)}); the file must hold it and its key, "
            f"both in PEM form, the key without a password."
        ) from error
