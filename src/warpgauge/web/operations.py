"""Running a server: several processes on one port, probes of life and readiness, a log line per request, metrics."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess  # nosec B404  # starts this program again
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import require

if TYPE_CHECKING:
    from warpgauge.project import Project


# What those who run a server look at: whether it lives, whether it is ready, a line per request, and figures.
#
# ``/healthz`` answers as long as the process does; ``/readyz`` only while the log can be read. Both need no token and
# say nothing about the project. Figures for Prometheus have a port of their own, so that no proxy serves them by
# mistake.

access = logging.getLogger("warpgauge.access")
_KEPT_SECONDS = 0.5  # strangers must not make the database work by asking whether it does
_ANSWERS = ("place", "skip", "volunteer")


class Metrics:
    """Figures for Prometheus, of one process or, through `PROMETHEUS_MULTIPROC_DIR`, of all workers."""

    def __init__(self) -> None:
        prometheus = require("prometheus_client", "metrics")
        # A registry of its own: several servers may live in one process.
        self.registry = prometheus.CollectorRegistry()
        self._requests = prometheus.Counter(
            "warpgauge_requests_total", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self._seconds = prometheus.Histogram(
            "warpgauge_request_seconds", "Time to answer, by route.", ["route"], registry=self.registry
        )
        self._answers = prometheus.Counter(
            "warpgauge_answers_total", "Acknowledged answers by kind.", ["kind"], registry=self.registry
        )
        self._generation = prometheus.Gauge(
            "warpgauge_log_generation", "Last event of the log that this server knows.",
            registry=self.registry, multiprocess_mode="max",
        )  # fmt: skip

    def add(self, route: str, status: int, seconds: float, generation: int) -> None:
        """Count one request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._generation.set(generation)
        kind = route.rpartition("/")[2]
        if status == 200 and kind in _ANSWERS:
            self._answers.labels(kind).inc()


def serve_metrics(host: str, port: int, metrics: Metrics | None) -> Any:
    """Serve figures in a thread of its own, without ``metrics`` those of all workers, and return the server."""
    prometheus = require("prometheus_client", "metrics")
    if metrics is not None:
        registry = metrics.registry
    else:
        registry = prometheus.CollectorRegistry()
        require("prometheus_client.multiprocess", "metrics").MultiProcessCollector(registry)
    server, _ = prometheus.start_http_server(port, addr=host, registry=registry)
    return server


class Probes:
    """Middleware outside of everything else: health, readiness, and a line and figures for each request.

    Parameters
    ----------
    app : ASGI application
    project : Project
    metrics : Metrics, optional
    root_path : str
        Path below which a proxy serves the page.
    """

    def __init__(self, app: ASGIApp, project: Project, metrics: Metrics | None = None, root_path: str = "") -> None:
        self.app, self.project, self.metrics, self.root_path = app, project, metrics, root_path
        self._looked: tuple[float, str | None] = (-1.0, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe, or hand on and take note."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix(self.root_path)
        if path == "/healthz" and scope["method"] in ("GET", "HEAD"):
            await JSONResponse({"status": "alive"})(scope, receive, send)
        elif path == "/readyz" and scope["method"] in ("GET", "HEAD"):
            problem = await run_in_threadpool(self._problem)
            content = {"status": "ready"} if problem is None else {"status": "not ready", "error": problem}
            await JSONResponse(content, 200 if problem is None else 503)(scope, receive, send)
        elif self.metrics is None and not access.isEnabledFor(logging.INFO):
            await self.app(scope, receive, send)
        else:
            await self._noted(scope, receive, send)

    def _problem(self) -> str | None:
        now = time.monotonic()
        if now - self._looked[0] > _KEPT_SECONDS:
            try:
                self.project.log.ping()
                self._looked = now, None
            except WarpgaugeError:
                self._looked = now, "The log cannot be read now."
        return self._looked[1]

    async def _noted(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, began = 500, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            spent = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", None) or ("static" if status == 200 else "refused")
            if self.metrics is not None:
                self.metrics.add(route, status, spent, self.project.known.generation)
            person = scope.get("state", {}).get("person")
            access.info(
                "%s %s %d",
                scope["method"],
                route,
                status,
                # Never the query: the token of a link stands there.
                extra={"fields": {"method": scope["method"], "path": scope["path"], "route": route, "status": status,
                                  "seconds": round(spent, 4), "rater": getattr(person, "name", None)}},
            )  # fmt: skip


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, process, message, and fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": os.getpid(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=True)


def log_as_json() -> None:
    """Write the server's log to standard error as JSON, with a line for each request."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("warpgauge", "uvicorn.error", "asyncio", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.captureWarnings(True)
    access.setLevel(logging.INFO)


# Several processes that serve one project on one port, and the process that starts, watches and ends them.
#
# Each worker opens the project for itself and takes connections from the socket that all of them share. One that dies
# is started again; an answer that it had acknowledged is in the log.

MOST_WORKERS = 64
_STOP_SECONDS = 10.0
_YOUNG_SECONDS, _MOST_FAILURES = 10.0, 3


@dataclass(frozen=True)
class Job:
    """What a worker needs to serve a project; handed over through its standard input, as it holds a secret."""

    folder: str
    descriptor: int
    tokens: dict[str, str]
    url: str
    app: dict[str, Any] = field(default_factory=dict)
    certfile: str | None = None
    keyfile: str | None = None
    mirror: str | None = None
    log_json: bool = False
    metrics: bool = False


def check_workers(count: int) -> None:
    """Refuse a number of workers that cannot be."""
    if not 1 <= count <= MOST_WORKERS:
        raise InvalidInputError(f"The number of workers must be 1 to {MOST_WORKERS}, got {count}.")
    if count > 1 and os.name != "posix":
        raise InvalidInputError("Several workers need Linux or macOS; serve with one here.")


class Workers:
    """The workers of a server.

    Parameters
    ----------
    job : Job
    listening : socket
        Bound and listening.
    count : int
    echo : callable
        Prints a line for people.
    """

    def __init__(self, job: Job, listening: socket.socket, count: int, echo: Callable[[str], object]) -> None:
        self._job, self._socket, self._echo = job, listening, echo
        self._over = threading.Event()
        self._running: list[tuple[subprocess.Popen[str], float]] = []
        self._count, self._failures = count, 0
        self._environment = dict(os.environ)
        self._figures = tempfile.mkdtemp(prefix="warpgauge-metrics-") if job.metrics else None
        if self._figures is not None:
            self._environment["PROMETHEUS_MULTIPROC_DIR"] = os.environ["PROMETHEUS_MULTIPROC_DIR"] = self._figures

    def run(self) -> None:
        """Serve until interrupted; a worker that dies is started again."""
        with self._signals():
            try:
                self._running = [self._start() for _ in range(self._count)]
                while not self._over.wait(0.1):
                    self._running = [self._watched(*one) for one in self._running]
            finally:
                self._end()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._over.set()

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid for process, _ in self._running]

    def _start(self) -> tuple[subprocess.Popen[str], float]:
        process = subprocess.Popen(  # nosec B603  # this program's own interpreter and module
            [sys.executable, "-c", "from warpgauge.web.operations import main; main()"],
            stdin=subprocess.PIPE,
            pass_fds=[self._job.descriptor],
            env=self._environment,
            text=True,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once, which is seen when it is looked at
            process.stdin.write(json.dumps(asdict(self._job)) + "\n")
            process.stdin.flush()
        return process, time.monotonic()

    def _watched(self, process: subprocess.Popen[str], since: float) -> tuple[subprocess.Popen[str], float]:
        code = process.poll()
        if code is None or self._over.is_set():
            return process, since
        _close(process)
        young = time.monotonic() - since < _YOUNG_SECONDS
        self._failures = self._failures + 1 if young else 1
        if self._failures > _MOST_FAILURES:
            raise WarpgaugeError(
                f"The workers of the server end soon after they start (exit code {code}); what they said above tells "
                f"why. Everything acknowledged is saved."
            )
        self._echo(f"Worker {process.pid} ended (exit code {code}) and is started again.")
        if young:
            self._over.wait(1.0)
        return self._start()

    def _end(self) -> None:
        """End all workers in good order; those that do not end are killed."""
        for process, _ in self._running:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process, _ in self._running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close(process)
        self._socket.close()
        if self._figures is not None:
            shutil.rmtree(self._figures, ignore_errors=True)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: FrameType | None) -> None:
            self._over.set()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _close(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def main() -> None:
    """Serve as one worker: the job comes through standard input, and its end means that the parent is gone."""
    from warpgauge.web.server import worker_launch

    job = Job(**json.loads(sys.stdin.readline()))
    try:
        launch = worker_launch(job)
    except WarpgaugeError as error:
        print(f"warpgauge: {error}", file=sys.stderr)
        sys.exit(1)

    def follow() -> None:
        sys.stdin.read()
        launch.stop()

    threading.Thread(target=follow, daemon=True).start()
    launch.run()
