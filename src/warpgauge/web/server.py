"""Serving a place: the socket, the links, the browser, and a clean end."""

from __future__ import annotations

import signal
import socket
import threading
import webbrowser
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from warpgauge.core.parallel import one_blas_thread
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line
from warpgauge.project import ORGANISER
from warpgauge.web.people import launcher_token, links_of
from warpgauge.web.settings import ServerSettings
from warpgauge.web.site import Site, create_app

# A proxy must forget its idle connections before the server closes them, or a request meets a closed one: most of them
# do so after 60 seconds.
KEEP_ALIVE_SECONDS = 75
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

    The socket listens already, so that a browser that comes too early waits instead of failing. The first link is that
    of whoever launched; ``kept`` are raters who had a link already, which goes on being valid.
    """

    site: Site
    socket: socket.socket
    links: list[Link]
    kept: list[str]
    is_stopped: bool = False

    def close(self) -> None:
        """Release the port and the projects without serving."""
        self.socket.close()
        self.site.projects.close()

    def run(self, *, open_browser: bool = False) -> None:
        """Serve until interrupted or, from another thread, stopped."""
        server = self.server
        server.should_exit |= self.is_stopped
        if open_browser:  # in a thread, for a browser of the terminal takes it over; the socket listens already
            threading.Thread(target=webbrowser.open, args=(self.links[0].url,), daemon=True).start()
        try:
            with one_blas_thread():
                server.run(sockets=[self.socket])
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def stop(self) -> None:
        """Make `run` return soon; a signal may come while it makes the server."""
        self.is_stopped = True
        if "server" in vars(self):
            self.server.should_exit = True

    @cached_property
    def server(self) -> uvicorn.Server:
        """What runs the application."""
        return _Server(
            uvicorn.Config(
                create_app(self.site),
                ssl_certfile=self.site.settings.certfile,
                log_level="warning",
                access_log=False,  # it would write the tokens of links into a log
                server_header=False,
                ws="none",
                proxy_headers=False,  # any process of this machine could write them
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=3,
                backlog=_BACKLOG,
            )
        )


def prepare(place: str | Path, **options: Any) -> Launch:
    """Find the pairs of a project, a folder or a study, register raters, and bind the port.

    The options are the fields of `ServerSettings`, as in ``raters=["ada", "ben"]``.
    """
    settings = ServerSettings(**options)
    site = Site(Path(place), settings)
    listening: socket.socket | None = None
    try:
        name = settings.rater or ORGANISER
        secret = launcher_token(site.people.id, site.place, name, renew=settings.new_links)
        launcher = site.people.launch(secret, name)
        listening = _bind_near(settings.host, settings.port, site.people.id)
        scheme = "http" if settings.certfile is None else "https"
        own = f"{scheme}://{_shown(settings.host)}:{listening.getsockname()[1]}"
        site.url = own if settings.public is None else str(settings.public)
        secrets = links_of(site.people, settings.raters, new_links=settings.new_links)
    except BaseException:
        if listening is not None:
            listening.close()
        site.projects.close()
        raise
    people = site.people.content.people
    links = [Link(name, launcher.role, site.link(secret))]
    links += [Link(rater, people[rater].role, site.link(one)) for rater, one in secrets.items() if one is not None]
    return Launch(site, listening, links, [rater for rater, one in secrets.items() if one is None])


def _bind_near(host: str, port: int, place_id: str) -> socket.socket:
    """Bind to the port, or for 0 to the place's usual one, so that links and open pages outlive a restart."""
    if port == 0:
        usual = _FIRST_PORT + zlib.crc32(place_id.encode()) % _PORTS
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


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def serve(
    place: str | Path, *, open_browser: bool = True, echo: Callable[[str], object] = print, **options: Any
) -> None:
    """Serve the annotator of a project, a folder or a study until interrupted; see `prepare`.

    The launcher's link is opened in the default browser; ``echo`` prints a line for people.
    """
    launch = prepare(place, **options)
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
    """Return the lines that tell people where to go; links go to a file where one is named."""
    first, *others = launch.links
    file = launch.site.settings.links_file
    if file is not None:
        _write_links(Path(file), launch.links)
        lines = [f"The annotator is at {launch.site.url} (links are in {str(file)!r})."]
    else:
        lines = [f"The annotator is at {first.url} ({first.name}, {first.role})."]
        lines += [f"Link for {link.name} ({link.role}): {link.url}" for link in others]
    lines += [f"{name} has a link already, which stays valid at {launch.site.url} ." for name in launch.kept]
    if others:
        lines.append("Each link holds a secret that is told only now; give each rater their own.")
    if launch.site.settings.public is not None and not launch.site.settings.is_encrypted:
        lines.append("Connections are not encrypted: use a trusted network, a tunnel, or a proxy with TLS.")
    lines.append("Press Ctrl-C to end; everything acknowledged is saved.")
    return lines


def _write_links(file: Path, links: list[Link]) -> None:
    try:
        file.unlink(missing_ok=True)
        file.touch(mode=0o600, exist_ok=False)
        file.write_text("".join(f"{link.name} ({link.role}): {link.url}\n" for link in links), encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"The links cannot be written to {str(file)!r}: {one_line(error)}.") from error
