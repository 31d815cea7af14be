"""Serving a project: the socket, the links, the browser, and a clean end."""

from __future__ import annotations

import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from warpgauge.core.parallel import one_blas_thread
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line
from warpgauge.project import Project
from warpgauge.project.kinds import ORGANISER
from warpgauge.web.app import create_app
from warpgauge.web.auth import Link, distinct, has_tokens, launcher_token, make_organiser, register
from warpgauge.web.connections import (
    BACKLOG,
    bind_near,
    bounded_protocol,
    check_certificate,
    checked_root,
    keep_logs_quiet,
    raise_file_limit,
    url_of,
)
from warpgauge.web.logins import TrustedProxy
from warpgauge.web.operations import Job, Metrics, Probes, Workers, check_workers, log_as_json, serve_metrics
from warpgauge.web.security import is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI


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
    links : list of Link
        The first one is that of whoever launched.
    kept : list of str
        Raters who had a link already, which goes on being valid.
    certfile, keyfile : str or None
        Certificate and key for TLS.
    metrics_address : (host, port) or None
        Where figures for Prometheus are served.
    """

    app: FastAPI
    socket: socket.socket
    url: str
    links: list[Link]
    kept: list[str] = field(default_factory=list)
    certfile: str | None = None
    keyfile: str | None = None
    metrics_address: tuple[str, int] | None = None

    def close(self) -> None:
        """Release the port and the project without serving."""
        self.socket.close()
        self.app.state.desk.project.close()

    def run(self, *, open_browser: bool = False) -> None:
        """Serve until interrupted or, from another thread, stopped."""
        if open_browser:
            threading.Thread(target=self._open, daemon=True).start()
        figures = None if self.metrics_address is None else _figures(self.metrics_address, self.app.state.metrics)
        try:
            with one_blas_thread():
                self.server.run(sockets=[self.socket])
        except KeyboardInterrupt:
            pass
        finally:
            self.close()
            if figures is not None:
                figures.shutdown()
                figures.server_close()

    def stop(self) -> None:
        """Make `run` return soon."""
        self.server.should_exit = True

    @cached_property
    def server(self) -> uvicorn.Server:
        """What runs the application."""
        keep_logs_quiet()
        # A quarter of the files that may be open for strangers, the rest for people with a token, images and the log.
        return _Server(
            uvicorn.Config(
                Probes(self.app, self.app.state.desk.project, self.app.state.metrics, self.app.state.root_path),
                http=bounded_protocol(raise_file_limit()),
                ssl_certfile=self.certfile,
                ssl_keyfile=self.keyfile,
                log_level="warning",
                access_log=False,  # it would write the tokens of links into a log
                server_header=False,
                ws="none",
                timeout_keep_alive=30,
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
    metrics_port: int | None = None,
    user_header: str | None = None,
    trusted_proxies: Sequence[str] = (),
) -> Launch:
    """Open a project, register raters, and bind the port; see `serve`."""
    hosts = list(allowed_hosts)
    root_path = checked_root(root_path)
    check_certificate(certfile, keyfile)
    proxy = TrustedProxy(trusted_proxies, user_header)
    if link_days is not None and not 0 < link_days <= 3650:
        raise InvalidInputError(f"Links may be valid for up to 3650 days, got {link_days:g}.")
    project = Project.open(project_folder)
    listening: socket.socket | None = None
    try:
        named = distinct(raters or ())
        signs_on = user_header is not None
        if signs_on and rater is None and not project.state.raters:
            raise InvalidInputError(
                "With --user-header, say who organises, by the name that the proxy gives: --rater ann@example.org."
            )
        if not is_loopback(host) and not named and not signs_on and not has_tokens(project):
            raise InvalidInputError(
                f"A server on {host!r} can be reached from other machines, so each rater needs a token of their own; "
                f"name the raters (--raters ada,ben), or serve on 127.0.0.1."
            )
        launcher = rater or ORGANISER
        if rater is not None and not project.readonly and (named or signs_on or project.state.raters):
            make_organiser(project, launcher)
        if mirror is not None:
            project.use_mirror(mirror)
        secret = token or launcher_token(project, launcher, renew=new_links)
        proxied = bool(hosts) and certfile is None
        metrics = Metrics() if metrics_port is not None else None
        app = create_app(
            project,
            {secret: launcher},
            host=host,
            allowed_hosts=hosts,
            root_path=root_path,
            https=proxied,
            proxy=proxy,
            metrics=metrics,
        )
        listening = bind_near(host, port, project.id)
        url = url_of(host, listening.getsockname()[1], certfile is not None) + root_path
        fresh, kept = register(project, named, link_days, new_links)
        app.state.desk.gate.renew()  # former links end before the first request, not a moment later
    except BaseException:
        if listening is not None:
            listening.close()
        project.close()
        raise
    links = [Link(launcher, project.state.role(launcher), f"{url}/?token={secret}")]
    links += [Link(name, project.state.role(name), f"{url}/?token={each}") for name, each in fresh.items()]
    certificate, key = (None if file is None else str(file) for file in (certfile, keyfile))
    figures = None if metrics_port is None else (host, metrics_port)
    return Launch(app, listening, url, links, kept, certificate, key, figures)


def worker_launch(job: Job) -> Launch:
    """Return a server as one of several workers on a socket that is open already."""
    if job.log_json:
        log_as_json()
    project = Project.open(job.folder)
    if job.mirror is not None:
        project.use_mirror(job.mirror)
    options = {**job.app, "proxy": TrustedProxy(*job.app.get("proxy", ((), None)))}
    app = create_app(project, job.tokens, **options, metrics=Metrics() if job.metrics else None)
    return Launch(app, socket.socket(fileno=job.descriptor), job.url, [], [], job.certfile, job.keyfile)


def _figures(address: tuple[str, int], metrics: Metrics | None) -> Any:
    try:
        return serve_metrics(*address, metrics)
    except (OSError, OverflowError) as error:
        raise InvalidInputError(
            f"Figures cannot be served on port {address[1]}: {one_line(error)}; choose another --metrics-port."
        ) from error


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
    workers: int = 1,
    metrics_port: int | None = None,
    log_format: str = "text",
    user_header: str | None = None,
    trusted_proxies: Sequence[str] = (),
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
    workers : int
        Number of processes that serve the project on this port.
    metrics_port : int, optional
        Port on which figures for Prometheus are served.
    log_format : {"text", "json"}
        With ``"json"``, one JSON object per line on standard error, also one for each request.
    user_header : str, optional
        Header in which a trusted proxy names the person whom it signed on.
    trusted_proxies : sequence of str
        Addresses or networks of that proxy.
    echo : callable
        Prints a line for people.
    """
    check_workers(workers)
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
        metrics_port=metrics_port,
        user_header=user_header,
        trusted_proxies=trusted_proxies,
    )
    if log_format == "json":
        log_as_json()
    launch.app.state.desk.tell = echo
    with _interrupt_stops(launch):
        for line in announcement(launch, host):
            echo(line)
        if workers == 1:
            launch.run(open_browser=open_browser)
            return
    app = {"host": host, "allowed_hosts": list(allowed_hosts), "root_path": checked_root(root_path),
           "https": launch.app.state.https, "proxy": [list(trusted_proxies), user_header]}  # fmt: skip
    job = Job(
        str(project_folder),
        launch.socket.fileno(),
        launch.app.state.launch_tokens,
        launch.url,
        app,
        launch.certfile,
        launch.keyfile,
        None if mirror is None else str(mirror),
        log_format == "json",
        metrics_port is not None,
    )
    _run_workers(launch, job, workers, open_browser, echo)


def _run_workers(launch: Launch, job: Job, workers: int, open_browser: bool, echo: Callable[[str], object]) -> None:
    """Serve with several processes; this one keeps the socket and the figures only."""
    launch.app.state.desk.project.close()
    group = Workers(job, launch.socket, workers, echo)
    figures = None if launch.metrics_address is None else _figures(launch.metrics_address, None)
    if open_browser:
        webbrowser.open(launch.links[0].url)  # the socket listens already: the page waits for the first worker
    try:
        group.run()
    finally:
        if figures is not None:
            figures.shutdown()
            figures.server_close()


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
