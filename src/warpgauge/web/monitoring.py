"""What those who run a server look at: whether it lives, whether it is ready, a line per request, and figures.

``/healthz`` answers as long as the process does; ``/readyz`` only while the log can be read and written.
Both need no token and say nothing about the project. Figures for Prometheus have a port of their own, so that no proxy
serves them by mistake.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import require

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
    """Serve figures in a separate thread and return the server; without ``metrics``, those of all workers."""
    prometheus = require("prometheus_client", "metrics")
    if metrics is not None:
        registry = metrics.registry
    else:
        registry = prometheus.CollectorRegistry()
        require("prometheus_client.multiprocess", "metrics").MultiProcessCollector(registry)
    server, _ = prometheus.start_http_server(port, addr=host, registry=registry)
    return server


@dataclass(frozen=True)
class Watched:
    """What the probes look at: ``ping`` raises while the log cannot be used, ``generation`` is its last known event."""

    ping: Callable[[], object]
    generation: Callable[[], int]


class Probes:
    """Middleware outside of everything else: health, readiness, and a line and figures for each request."""

    def __init__(self, app: ASGIApp, watched: Watched, metrics: Metrics | None = None, root_path: str = "") -> None:
        self.app, self.watched, self.metrics, self.root_path = app, watched, metrics, root_path
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
                self.watched.ping()
                self._looked = now, None
            except WarpgaugeError:
                self._looked = now, "The log cannot be read or written now."
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
                self.metrics.add(route, status, spent, self.watched.generation())
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
