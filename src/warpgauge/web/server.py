"""Serving a project: the socket, the links, the browser, and a clean end."""

from __future__ import annotations

import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from warpgauge.core.parallel import one_blas_thread
from warpgauge.errors import InvalidInputError
from warpgauge.project import ORGANISER, Project
from warpgauge.web.address import BACKLOG, bind_near, url_of
from warpgauge.web.app import create_app
from warpgauge.web.auth import House
from warpgauge.web.hosts import is_loopback
from warpgauge.web.links import Link, has_tokens, launcher_token, make_organiser, register
from warpgauge.web.monitoring import Probes
from warpgauge.web.settings import ServerSettings
from warpgauge.web.site import Site, create_site

# A proxy must forget its idle connections before the server closes them, or a request meets a closed one: most of them
# do so after 60 seconds.
KEEP_ALIVE_SECONDS = 75


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
    settings : ServerSettings
    links : list of Link
        The first one is that of whoever launched.
    kept : list of str
        Raters who had a link already, which goes on being valid.
    """

    app: FastAPI
    socket: socket.socket
    url: str
    settings: ServerSettings
    links: list[Link] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Release the port and the project without serving."""
        self.socket.close()
        self.app.state.house.close()

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
        return _Server(
            uvicorn.Config(
                Probes(self.app, self.app.state.ping, self.settings.root_path),
                ssl_certfile=self.settings.certfile,
                ssl_keyfile=self.settings.keyfile,
                log_level="warning",
                access_log=False,  # it would write the tokens of links into a log
                server_header=False,
                ws="none",
                proxy_headers=False,  # any process of this machine could write them
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=3,
                backlog=BACKLOG,
            )
        )

    def _open(self) -> None:
        while not self.server.started:
            if self.server.should_exit:
                return
            time.sleep(0.05)
        webbrowser.open(self.links[0].url)


def prepare(project_folder: str | Path, settings: ServerSettings | None = None, **options: Any) -> Launch:
    """Open a project, register raters, and bind the port.

    Parameters
    ----------
    project_folder : path
    settings : ServerSettings, optional
    **options
        Single fields of `ServerSettings` by name, as in ``raters=["ada", "ben"]``.
    """
    settings = replace(settings or ServerSettings(), **options)
    project = Project.open(project_folder)
    return _launched(project, lambda tokens: _annotator(project, tokens, settings), settings)


def _annotator(project: Project, tokens: Mapping[str, str], settings: ServerSettings) -> FastAPI:
    if settings.mirror is not None:
        project.use_mirror(settings.mirror)
    return create_app(project, tokens, settings)


def prepare_site(place: str | Path, settings: ServerSettings | None = None, **options: Any) -> Launch:
    """Find the projects of a folder or study, register raters, and bind the port; see `prepare`."""
    settings = replace(settings or ServerSettings(), **options)
    site = Site(Path(place), settings)
    return _launched(site.roster, lambda tokens: create_site(site, tokens, settings), settings)


def _launched(house: House, make_app: Callable[[Mapping[str, str]], FastAPI], settings: ServerSettings) -> Launch:
    """Register people, and bind the port."""
    listening: socket.socket | None = None
    try:
        launcher = _launcher(house, settings)
        secret = settings.token or launcher_token(house, launcher, renew=settings.new_links)
        app = make_app({secret: launcher})
        listening = bind_near(settings.host, settings.port, house.id)
        own = url_of(settings.host, listening.getsockname()[1], settings.certfile is not None)
        url = own if settings.public is None else str(settings.public)
        fresh, kept = register(house, settings.raters, settings.new_links)
        app.state.gate.renew()  # former links end before the first request, not a moment later
    except BaseException:
        if listening is not None:
            listening.close()
        house.close()
        raise
    tokens = [(launcher, secret), *fresh.items()]
    links = [Link(name, house.state.role(name), f"{url}/?token={each}") for name, each in tokens]
    return Launch(app, listening, url, settings, links, kept)


def _launcher(project: House, settings: ServerSettings) -> str:
    """Return the name of the person who starts the server; refuse a server that nobody could use safely."""
    invited = settings.raters or settings.token or has_tokens(project)
    if not is_loopback(settings.host) and not invited:
        raise InvalidInputError(
            f"A server on {settings.host!r} can be reached from other machines, so each rater needs a token of their "
            f"own; name the raters (--raters ada,ben), give a token of yours (--token-file), or serve on 127.0.0.1."
        )
    launcher = settings.rater or ORGANISER
    several = settings.raters or project.state.raters
    if settings.rater is not None and not project.readonly and several:
        make_organiser(project, launcher)
    return launcher


def serve(
    project_folder: str | Path,
    settings: ServerSettings | None = None,
    *,
    open_browser: bool = True,
    echo: Callable[[str], object] = print,
    **options: Any,
) -> None:
    """Serve the annotator of a project until interrupted.

    Parameters
    ----------
    project_folder : path
    settings : ServerSettings, optional
    open_browser : bool
        Open the launcher's link in the default browser.
    echo : callable
        Prints a line for people.
    **options
        Single fields of `ServerSettings` by name, as in ``raters=["ada", "ben"]``.
    """
    launch = prepare(project_folder, settings, **options)
    launch.app.state.desk.tell = echo
    _serve(launch, open_browser, echo)


def serve_many(
    place: str | Path,
    settings: ServerSettings | None = None,
    *,
    open_browser: bool = True,
    echo: Callable[[str], object] = print,
    **options: Any,
) -> None:
    """Serve the projects of a folder or study until interrupted; see `serve`."""
    launch = prepare_site(place, settings, **options)
    _serve(launch, open_browser, echo)


def _serve(launch: Launch, open_browser: bool, echo: Callable[[str], object]) -> None:
    with _interrupt_stops(launch):
        for line in announcement(launch):
            echo(line)
        launch.run(open_browser=open_browser)


@contextmanager
def _interrupt_stops(launch: Launch) -> Iterator[None]:
    """Let Ctrl-C or SIGTERM end the server in good order, from before it is announced until it has ended.

    uvicorn takes the signal only once it runs and raises it again when it has ended; with Python's own handler in
    place that would be an exception in the middle of whatever is at work.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: launch.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def announcement(launch: Launch) -> list[str]:
    """Return the lines that tell people where to go."""
    first, *others = launch.links
    if not launch.settings.show_links:
        return [f"The annotator is at {launch.url} (the organiser is {first.name}; links are not printed)."]
    lines = [f"The annotator is at {first.url} ({first.name}, {first.role})."]
    lines += [f"Link for {link.name} ({link.role}): {link.url}" for link in others]
    lines += [f"{name} has a link already, which stays valid at {launch.url} ." for name in launch.kept]
    if others:
        lines.append("Each link holds a secret that is shown only now; give each rater their own.")
    if launch.settings.is_open_to_listeners:
        lines.append("Connections are not encrypted: use a trusted network, a tunnel, or a proxy with TLS.")
    lines.append("Press Ctrl-C to end; everything acknowledged is saved.")
    return lines
