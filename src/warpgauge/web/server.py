"""Serving a project: the socket, the links, the browser, and a clean end."""

from __future__ import annotations

import signal
import socket
import threading
import time
import webbrowser
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from warpgauge.errors import InvalidInputError
from warpgauge.project import Project
from warpgauge.project.ledger import ORGANISER
from warpgauge.web.app import create_app
from warpgauge.web.hosts import is_loopback
from warpgauge.web.tokens import new_token, token_hash

if TYPE_CHECKING:
    from fastapi import FastAPI

_BACKLOG = 2048
_FIRST_PORT, _PORTS = 49152, 16384  # those that no service is assigned to


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
    """

    app: FastAPI
    socket: socket.socket
    url: str
    links: list[Link]
    kept: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Give up the port and the project without serving."""
        self.socket.close()
        self.app.state.desk.project.close()

    def run(self, *, open_browser: bool = False) -> None:
        """Serve until interrupted or, from another thread, stopped."""
        if open_browser:
            threading.Thread(target=self._open, daemon=True).start()
        try:
            with single_threaded_algebra():
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
        return uvicorn.Server(
            uvicorn.Config(
                self.app,
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


def single_threaded_algebra() -> AbstractContextManager[object]:
    """Keep linear algebra to one thread of its own while serving, where threadpoolctl is installed.

    The products behind an answer are small. On a machine that does other work too, BLAS threads that wait for each
    other made an answer of 20 ms take 200 to 700 ms.
    """
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]
    except ModuleNotFoundError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1, "blas")
    return limits


def prepare(
    project_folder: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    rater: str | None = None,
    raters: Sequence[str] | None = None,
    allowed_hosts: Iterable[str] = (),
    token: str | None = None,
) -> Launch:
    """Open a project, register raters, and bind the port; see `serve`."""
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
        secret = token or new_token()
        app = create_app(project, {secret: launcher}, host=host, allowed_hosts=allowed_hosts)
        listening = _bind_near(host, port, project.id)
        url = _url(host, listening.getsockname()[1])
        fresh, kept = _register(project, named)
    except BaseException:
        if listening is not None:
            listening.close()
        project.close()
        raise
    links = [Link(launcher, project.state.role(launcher), f"{url}/?token={secret}")]
    links += [Link(name, project.state.role(name), f"{url}/?token={each}") for name, each in fresh.items()]
    return Launch(app, listening, url, links, kept)


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
        The launcher's secret, at least 32 characters; a random one by default.
    echo : callable
        Prints a line for people.
    """
    if token is not None and not 32 <= len(token) <= 200:
        raise InvalidInputError("A token that is given must have 32 to 200 characters; leave it out for a random one.")
    launch = prepare(
        project_folder, host=host, port=port, rater=rater, raters=raters, allowed_hosts=allowed_hosts, token=token
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
    """Give the lines that tell people where to go."""
    first, *others = launch.links
    lines = [f"The annotator is at {first.url} ({first.name}, {first.role})."]
    lines += [f"Link for {link.name} ({link.role}): {link.url}" for link in others]
    lines += [f"{name} has a link already, which stays valid at {launch.url} ." for name in launch.kept]
    if others:
        lines.append("Each link holds a secret that is shown only now; give each rater their own.")
    if not is_loopback(host):
        lines.append("Connections are not encrypted: use a trusted network, a tunnel, or a proxy with TLS.")
    lines.append("Press Ctrl-C to end; everything acknowledged is saved.")
    return lines


def _distinct(names: Sequence[str]) -> list[str]:
    clean = [name.strip() for name in names]
    if len(set(clean)) < len(clean) or not all(clean):
        raise InvalidInputError(f"The raters must be different names, got {', '.join(clean)!r}.")
    return clean


def _has_tokens(project: Project) -> bool:
    return any(record.token_hash and not record.revoked for record in project.state.raters.values())


def _register(project: Project, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Give each name a token, unless they have one; give the new tokens by name, and who had one."""
    fresh: dict[str, str] = {}
    kept: list[str] = []
    for name in names:
        known = project.state.raters.get(name)
        if known is not None and known.token_hash and not known.revoked:
            kept.append(name)
            continue
        secret = new_token()
        role = known.role if known is not None else "rater"
        project.add_rater(name, role, token_hash=token_hash(secret))  # type: ignore[arg-type]
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


def _url(host: str, port: int) -> str:
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
