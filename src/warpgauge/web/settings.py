"""How a project is served: address, people and certificate, as one checked value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from warpgauge.errors import InvalidInputError
from warpgauge.web.address import PublicAddress, check_certificate
from warpgauge.web.auth import LONGEST_TOKEN
from warpgauge.web.hosts import AllowedHosts, is_loopback
from warpgauge.web.links import distinct


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server; settings that cannot work are refused when the value is made.

    Attributes
    ----------
    host : str
        Address to bind to. Any other than this machine's own needs raters with tokens.
    port : int
        0 takes the project's usual one, always the same, or another one where that is not free.
    rater : str, optional
        Name of whoever launches, under which their answers are logged; ``"organiser"`` by default.
    raters : sequence of str
        People who each get a link of their own. One who has a link already keeps it; the organiser's page makes new
        ones and revokes.
    public_url : str, optional
        Address at which a proxy serves the page, as in ``"https://annotate.example.org/lesion"``. Links, the host name
        that is answered to, and the origin of the page come from it, and never from what a request says.
    token : str, optional
        The launcher's secret, at least 32 characters; by default a random one that outlives restarts.
    certfile, keyfile : path, optional
        Certificate (with its chain) and private key in PEM form: the server then speaks TLS.
    mirror : path, optional
        Folder for a second copy of the log, to which every event is appended before it is acknowledged.
    new_links : bool
        Give the named raters and the launcher new links, also where they have one; the former ones end at once.
    contexts : sequence of str
        Further images of the same frame to look at, as in ``"fixed=CD31.tif"``.
    embedded : bool
        Whether pages of this machine, such as a notebook, may show the page in a frame.
    show_links : bool
        Whether the secrets of links are printed; what a container prints is kept by others.
    most_open : int
        Number of projects that a server of many keeps open.
    """

    host: str = "127.0.0.1"
    port: int = 0
    rater: str | None = None
    raters: tuple[str, ...] = ()
    public_url: str | None = None
    token: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    mirror: str | None = None
    new_links: bool = False
    contexts: tuple[str, ...] = ()
    embedded: bool = False
    show_links: bool = True
    most_open: int = 100

    def __post_init__(self) -> None:
        if self.raters and not self.show_links:
            raise InvalidInputError(
                "With --no-links nobody would see the links of --raters; leave these out, and invite people on "
                "the organiser's page."
            )
        if not 1 <= self.most_open <= 10_000:
            raise InvalidInputError(f"The number of open projects must be 1 to 10000, got {self.most_open}.")
        if self.token is not None and not 32 <= len(self.token) <= LONGEST_TOKEN:
            raise InvalidInputError(
                "A token that is given must have 32 to 200 characters; leave it out for a random one."
            )
        plain: dict[str, object] = {"raters": tuple(distinct(self.raters or ())), "contexts": tuple(self.contexts)}
        files = {name: getattr(self, name) for name in ("certfile", "keyfile", "mirror")}
        plain |= {name: str(file) for name, file in files.items() if file is not None}
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        check_certificate(self.certfile, self.keyfile)
        self.public  # noqa: B018  # an address that cannot be is refused now

    @cached_property
    def hosts(self) -> AllowedHosts:
        """The host names that the server answers to."""
        return AllowedHosts(self.host, None if self.public is None else self.public.host)

    @cached_property
    def public(self) -> PublicAddress | None:
        """Address of the proxy in front, if there is one."""
        return None if self.public_url is None else PublicAddress.read(self.public_url)

    @property
    def is_open_to_listeners(self) -> bool:
        """Whether what people send and get crosses a network without encryption."""
        if self.public is not None:
            return not self.public.is_encrypted
        return self.certfile is None and not is_loopback(self.host)

    @property
    def root_path(self) -> str:
        """Path below which a proxy serves the page, without a slash at its end."""
        return "" if self.public is None else self.public.path
