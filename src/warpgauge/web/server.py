"""Serving a project: the socket, the links, the browser, and a clean end."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import threading
import time
import webbrowser
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from warpgauge.core.parallel import one_blas_thread
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line
from warpgauge.project import Project, State
from warpgauge.project.kinds import ORGANISER
from warpgauge.web.app import create_app
from warpgauge.web.auth import has_ended, launcher_token, new_token, token_hash
from warpgauge.web.connections import MOST_STRANGERS, bounded_protocol, keep_logs_quiet, raise_file_limit
from warpgauge.web.security import is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI

_BACKLOG = 2048
_FIRST_PORT, _PORTS = 49152, 16384  # those that no service is assigned to


class _Server(uvicorn.Server):
    """A server that ends in good order however often it is interrupted.

    uvicorn takes a second interrupt for an order to leave the application's own ending out, which is then cancelled and
    reported with a traceback. Here it takes 3 seconds at most.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if sig == signal.SIGINT:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)


@dataclass(frozen=True)
class Link:
    """A link for one person; the secret in it is shown this once."""

    name: str
    role: str
    url: str


@dataclass
class Launch:
    """A server that is bound to its port and ready to run.

    Attributes
    ----------
    app : FastAPI
    socket : socket
        Bound and listening, so that a browser that comes too early waits instead of failing.
    url : str
        Address without a token.
    links : list of Link
        The first one is that of whoever launched.
    kept : list of str
        Raters who had a link already, which goes on being valid.
    certfile, keyfile : str or None
        Certificate and key for TLS.
    """

    app: FastAPI
    socket: socket.socket
    url: str
    links: list[Link]
    kept: list[str] = field(default_factory=list)
    certfile: str | None = None
    keyfile: str | None = None

    def close(self) -> None:
        """Release the port and the project without serving."""
        self.socket.close()
        self.app.state.desk.project.close()

    def run(self, *, open_browser: bool = False) -> None:
        """Serve until interrupted or, from another thread, stopped."""
        if open_browser:
            threading.Thread(target=self._open, daemon=True).start()
        try:
            with one_blas_thread():
                self.server.run(sockets=[self.socket])
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def stop(self) -> None:
        """Make `run` return soon."""
        self.server.should_exit = True

    @cached_property
    def server(self) -> uvicorn.Server:
        """What runs the application."""
        keep_logs_quiet()
        # A quarter of the files that may be open for strangers, the rest for people with a token, images and the log.
        strangers = max(8, min(MOST_STRANGERS, raise_file_limit() // 4))
        return _Server(
            uvicorn.Config(
                self.app,
                http=bounded_protocol(strangers),
                ssl_certfile=self.certfile,
                ssl_keyfile=self.keyfile,
                log_level="warning",
                access_log=False,  # it would write the tokens of links into a log
                server_header=False,
                ws="none",
                timeout_keep_alive=30,
                timeout_graceful_shutdown=3,
                backlog=_BACKLOG,
            )
        )

    def _open(self) -> None:
        while not self.server.started:
            if self.server.should_exit:
                return
            time.sleep(0.05)
        webbrowser.open(self.links[0].url)


def prepare(
    project_folder: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    rater: str | None = None,
    raters: Sequence[str] | None = None,
    allowed_hosts: Iterable[str] = (),
    token: str | None = None,
    certfile: str | Path | None = None,
    keyfile: str | Path | None = None,
    root_path: str = "",
    mirror: str | Path | None = None,
    link_days: float | None = None,
    new_links: bool = False,
) -> Launch:
    """Open a project, register raters, and bind the port; see `serve`."""
    hosts = list(allowed_hosts)
    root_path = _checked_root(root_path)
    _check_certificate(certfile, keyfile)
    if link_days is not None and not 0 < link_days <= 3650:
        raise InvalidInputError(f"Links may be valid for up to 3650 days, got {link_days:g}.")
    project = Project.open(project_folder)
    listening: socket.socket | None = None
    try:
        named = _distinct(raters or ())
        if not is_loopback(host) and not named and not _has_tokens(project):
            raise InvalidInputError(
                f"A server on {host!r} can be reached from other machines, so each rater needs a token of their own; "
                f"name the raters (--raters ada,ben), or serve on 127.0.0.1."
            )
        launcher = rater or ORGANISER
        if rater is not None and not project.readonly and (named or project.state.raters):
            _make_organiser(project, launcher)
        if mirror is not None:
            project.use_mirror(mirror)
        secret = token or launcher_token(project, launcher, renew=new_links)
        proxied = bool(hosts) and certfile is None
        app = create_app(
            project, {secret: launcher}, host=host, allowed_hosts=hosts, root_path=root_path, https=proxied
        )
        listening = _bind_near(host, port, project.id)
        url = _url(host, listening.getsockname()[1], certfile is not None) + root_path
        fresh, kept = _register(project, named, link_days, new_links)
        app.state.desk.gate.renew()  # former links end before the first request, not a moment later
    except BaseException:
        if listening is not None:
            listening.close()
        project.close()
        raise
    links = [Link(launcher, project.state.role(launcher), f"{url}/?token={secret}")]
    links += [Link(name, project.state.role(name), f"{url}/?token={each}") for name, each in fresh.items()]
    files = [None if file is None else str(file) for file in (certfile, keyfile)]
    return Launch(app, listening, url, links, kept, *files)


def serve(
    project_folder: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    rater: str | None = None,
    raters: Sequence[str] | None = None,
    open_browser: bool = True,
    allowed_hosts: Iterable[str] = (),
    token: str | None = None,
    certfile: str | Path | None = None,
    keyfile: str | Path | None = None,
    root_path: str = "",
    mirror: str | Path | None = None,
    link_days: float | None = None,
    new_links: bool = False,
    echo: Callable[[str], object] = print,
) -> None:
    """Serve the annotator of a project until interrupted.

    Parameters
    ----------
    project_folder : path
    host : str
        Address to bind to. Any other than this machine's own needs raters with tokens.
    port : int
        0 takes the project's usual one, always the same, or another one where that is not free.
    rater : str, optional
        Name of whoever launches, under which their answers are logged; ``"organiser"`` by default.
    raters : sequence of str, optional
        People who each get a link of their own. One who has a link already keeps it; the organiser's page makes new
        ones and revokes.
    open_browser : bool
        Open the launcher's link in the default browser.
    allowed_hosts : iterable of str
        Further names that the server answers to, for instance a proxy's.
    token : str, optional
        The launcher's secret, at least 32 characters; by default a random one that outlives restarts.
    certfile, keyfile : path, optional
        Certificate (with its chain) and private key in PEM form: the server then speaks TLS.
    root_path : str
        Path below which a proxy serves the page, as in ``"/lesion"``.
    mirror : path, optional
        Folder for a second copy of the log, to which every event is appended before it is acknowledged.
    link_days : float, optional
        New links of raters end after so many days.
    new_links : bool
        Give the named raters and the launcher new links, also where they have one; the former ones end at once.
    echo : callable
        Prints a line for people.
    """
    if token is not None and not 32 <= len(token) <= 200:
        raise InvalidInputError("A token that is given must have 32 to 200 characters; leave it out for a random one.")
    launch = prepare(
        project_folder,
        host=host,
        port=port,
        rater=rater,
        raters=raters,
        allowed_hosts=allowed_hosts,
        token=token,
        certfile=certfile,
        keyfile=keyfile,
        root_path=root_path,
        mirror=mirror,
        link_days=link_days,
        new_links=new_links,
    )
    with _interrupt_stops(launch):
        for line in announcement(launch, host):
            echo(line)
        launch.run(open_browser=open_browser)


@contextmanager
def _interrupt_stops(launch: Launch) -> Iterator[None]:
    """Let an interrupt end the server in good order from before it is announced until it has given everything up.

    uvicorn takes the signal only once it runs and raises it again when it has ended; with Python's own handler in
    place that would be an exception in the middle of whatever is at work.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: launch.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def announcement(launch: Launch, host: str) -> list[str]:
    """Return the lines that tell people where to go."""
    first, *others = launch.links
    lines = [f"The annotator is at {first.url} ({first.name}, {first.role})."]
    lines += [f"Link for {link.name} ({link.role}): {link.url}" for link in others]
    lines += [f"{name} has a link already, which stays valid at {launch.url} ." for name in launch.kept]
    if others:
        lines.append("Each link holds a secret that is shown only now; give each rater their own.")
    if not is_loopback(host) and launch.certfile is None:
        lines.append("Connections are not encrypted: use a trusted network, a tunnel, or a proxy with TLS.")
    lines.append("Press Ctrl-C to end; everything acknowledged is saved.")
    return lines


def _distinct(names: Sequence[str]) -> list[str]:
    clean = [name.strip() for name in names]
    if len(set(clean)) < len(clean) or not all(clean):
        raise InvalidInputError(f"The raters must be different names, got {', '.join(clean)!r}.")
    return clean


def _checked_root(root_path: str) -> str:
    clean = root_path.rstrip("/")
    if clean and re.fullmatch(r"(/[A-Za-z0-9_.~-]+)+", clean) is None:
        raise InvalidInputError(
            f"The root path must look like /lesion, of plain letters and digits, got {root_path!r}."
        )
    return clean


def _check_certificate(certfile: str | Path | None, keyfile: str | Path | None) -> None:
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


def _make_organiser(project: Project, launcher: str) -> None:
    """Register whoever launches as an organiser where nobody is registered, or where they are not known yet.

    Whoever can start the server can write the project's files; a registered rater stays what they are.
    """
    state = project.state
    if launcher not in state.raters:
        by = launcher if not state.raters else _an_organiser(state)
        if by is not None:
            project.add_rater(launcher, "organiser", by=by)


def _an_organiser(state: State) -> str | None:
    return next((r.name for r in state.raters.values() if r.role == ORGANISER and not r.revoked), None)


def _has_tokens(project: Project) -> bool:
    return any(
        record.token_hash and not record.revoked and not has_ended(record.token_hash)
        for record in project.state.raters.values()
    )


def _register(
    project: Project, names: Sequence[str], days: float | None, new_links: bool
) -> tuple[dict[str, str], list[str]]:
    """Return each name a token, unless they have one; give the new tokens by name, and who had one."""
    fresh: dict[str, str] = {}
    kept: list[str] = []
    for name in names:
        known = project.state.raters.get(name)
        valid = known is not None and known.token_hash and not known.revoked and not has_ended(known.token_hash)
        if valid and not new_links:
            kept.append(name)
            continue
        secret = new_token()
        role = known.role if known is not None else "rater"
        by = _an_organiser(project.state) or ORGANISER
        project.add_rater(name, role, token_hash=token_hash(secret, days), by=by)  # type: ignore[arg-type]
        fresh[name] = secret
    return fresh, kept


def _bind_near(host: str, port: int, project_id: str) -> socket.socket:
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
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidInputError(
            f"The server cannot be bound to {host!r}, port {port}: {error}; choose another port or host."
        ) from error
    return listening


def _url(host: str, port: int, tls: bool) -> str:
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # nosec B104
    scheme = "https" if tls else "http"
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"
