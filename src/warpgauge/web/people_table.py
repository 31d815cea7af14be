"""People in PostgreSQL, for a project whose log is there: a revocation on one host counts on all within a moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warpgauge.io.files import one_line, require
from warpgauge.project.postgres import connection_to, lock_key, named_address
from warpgauge.web.people import PeopleFile

_FRESH_SECONDS = 0.25  # a page asks for dozens of tiles at once
_STALE_SECONDS = 10.0  # while the database is away, who was known a moment ago may go on looking
_TABLE = "CREATE TABLE IF NOT EXISTS warpgauge.people (place text PRIMARY KEY, version bigint, content text NOT NULL)"
_WRITE = """
INSERT INTO warpgauge.people (place, version, content) VALUES (%s, 1, %s)
ON CONFLICT (place) DO UPDATE SET version = warpgauge.people.version + 1, content = excluded.content
"""


class PeopleTable:
    """A row of the database; a store of `warpgauge.web.people.People`, which the file of the folder begins."""

    def __init__(self, address: str, project_id: str, file: PeopleFile) -> None:
        self.address, self.project_id, self.file = address, project_id, file
        self.name = named_address(address)
        self._looked, self._version = -_STALE_SECONDS, None

    def stamp(self) -> object:
        """Return the number of the last change, as of a moment ago; None where nothing is stored."""
        age = time.monotonic() - self._looked
        if age > _FRESH_SECONDS:
            try:
                self._version = self._value("version")
                self._looked = time.monotonic()
            except OSError:
                if age > _STALE_SECONDS:
                    raise
        return self._version

    def read(self) -> bytes:
        """Return what is stored."""
        return str(self._value("content")).encode()

    def initial(self) -> bytes:
        """Return the file of the folder, where the project has been served from it before."""
        return self.file.read() if self.file.stamp() is not None else b""

    def _value(self, column: str) -> Any:
        with self._connection() as connection:
            if connection.execute("SELECT to_regclass('warpgauge.people')").fetchone()[0] is None:
                return None
            rows = f"SELECT {column} FROM warpgauge.people WHERE place = %s"  # nosec B608  # constants only
            row = connection.execute(rows, (self.project_id,)).fetchone()
            return None if row is None else row[0]

    @contextmanager
    def changing(self) -> Iterator[Callable[[bytes], None]]:
        """Hold the lock of the row, made where it is missing, until the transaction has ended."""
        with self._connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(f"people {self.project_id}"),))
            connection.execute(_TABLE)
            self._looked = -_STALE_SECONDS  # what others have written meanwhile counts
            yield lambda data: connection.execute(_WRITE, (self.project_id, data.decode()))
        self._looked = -_STALE_SECONDS

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            with connection_to(self.address) as connection:
                yield connection
        except require("psycopg", "postgres").Error as error:
            raise OSError(one_line(error)) from error
