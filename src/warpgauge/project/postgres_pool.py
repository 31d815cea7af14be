"""Connections to PostgreSQL that all open logs of a process share: each log holds one only while it reads or writes."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from warpgauge.io.files import require
from warpgauge.project import postgres_schema as schema
from warpgauge.project.postgres_connection import connect

_MOST_IDLE = 4  # connections that wait for the next request; under load there are as many as requests at work
_pools: dict[tuple[str, float, int], Pool] = {}
_making = threading.Lock()


@dataclass(frozen=True)
class Line:
    """A connection that is ready for use, and whether its role may only read."""

    connection: Any
    readonly: bool


class Pool:
    """The connections of this process to one database.

    Parameters
    ----------
    address : str
        ``postgresql://...``, of the database.
    wait : float
        Seconds that a connection waits for a lock.
    """

    def __init__(self, address: str, wait: float) -> None:
        self._address, self._wait, self._pid = address, wait, os.getpid()
        self._lock = threading.Lock()
        self._idle: list[Line] = []
        self._logs = 0

    @classmethod
    def of(cls, address: str, wait: float) -> Pool:
        """Return the pool of this process; a child that was forked leaves the connections of its parent alone."""
        with _making:
            return _pools.setdefault((address, wait, os.getpid()), cls(address, wait))

    def join(self) -> None:
        """Count one more log that uses the pool."""
        with self._lock:
            self._logs += 1

    def leave(self) -> None:
        """Count one log less; with the last one all idle connections are closed."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._logs -= 1
            closed, self._idle = ([], self._idle) if self._logs else (self._idle, [])
        for line in closed:
            _close(line.connection)

    def take(self) -> Line:
        """Return a connection of one's own, until it is given back."""
        while (line := self._waiting()) is not None:
            with suppress(require("psycopg", "postgres").Error):
                line.connection.pgconn.consume_input()  # which fails where the server has ended it meanwhile
                return line
            _close(line.connection)
        connection = connect(self._address)
        try:
            return Line(connection, self._prepared(connection))
        except BaseException:
            connection.close()
            raise

    def _waiting(self) -> Line | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _prepared(self, connection: Any) -> bool:
        """Set limits, so that a lost host cannot hold others up, and return whether this role may only read."""
        connection.execute(
            f"SET lock_timeout = {int(1000 * self._wait)}; SET idle_in_transaction_session_timeout = 20000; "
            f"SET client_min_messages = warning; SET synchronous_commit = on"
        )
        if not schema.version(connection):
            return False
        may = "SELECT has_table_privilege('warpgauge.events', 'INSERT') AND NOT pg_is_in_recovery()"
        return not connection.execute(may).fetchone()[0]

    def give_back(self, line: Line) -> None:
        """Leave a connection to others; one that is lost, or in the middle of something, is closed."""
        ready = not line.connection.closed and line.connection.info.transaction_status == 0
        with self._lock:
            if ready and self._logs and len(self._idle) < _MOST_IDLE:
                self._idle.append(line)
                return
        _close(line.connection)

    def lost(self, line: Line) -> None:
        """Close a connection that has failed, and the idle ones: what cut it has probably cut them, too."""
        with self._lock:
            closed, self._idle = [line, *self._idle], []
        for one in closed:
            _close(one.connection)


def _close(connection: Any) -> None:
    with suppress(require("psycopg", "postgres").Error):
        connection.close()
