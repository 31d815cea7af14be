"""The log in PostgreSQL, for servers on several hosts: one database holds any number of projects.

A writer holds the project's advisory lock from before it reads the last event until it has committed, so that no two
hosts can give the same generation. All open projects of a process share a few connections. One that was cut is made
anew with the next request; a commit whose answer was lost is looked up, under the lock, before anything is said about
it.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import one_line, require
from warpgauge.project import postgres_schema as schema
from warpgauge.project.chain import Row
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.event_log import BUSY_SECONDS, Decide, EventLog, Integrity, chained_rows
from warpgauge.project.postgres_connection import shown_address
from warpgauge.project.postgres_listener import listen
from warpgauge.project.postgres_pool import Line, Pool

_PAUSE = 0.5  # seconds after a failed connection within which no other is tried
_NO_WITNESS = (
    "Whether the database was put back to an earlier state: only a mirror can tell (annotate --mirror); warpgauge "
    "recover compares it."
)
_UNSAVED = "the action was not saved; all that was saved before is still there."


class _LostAnswerError(Exception):
    """The connection was lost while a commit was on its way, and the outcome cannot be looked up."""


class PostgresLog(EventLog):
    """The log of one project in a database; see `EventLog`.

    Parameters
    ----------
    address : str
        ``postgresql://...``, of the database.
    project_id : str
    folder : Path
        Of the project.
    busy_seconds : float
        How long to wait for other writers before giving up.
    """

    def __init__(self, address: str, project_id: str, folder: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        super().__init__(folder, busy_seconds)
        self.address = address
        self._id = project_id
        self._psycopg = require("psycopg", "postgres")
        self._pool = Pool.of(address, busy_seconds)
        self._line: Line | None = None
        self._holds, self._pid = 0, os.getpid()
        self._leave: Callable[[], object] | None = None
        self._failed: tuple[float, WarpgaugeError] | None = None
        self._stop: Callable[[], None] | None = None
        with self._reading() as connection:
            schema.migrate(connection)
            known = connection.execute("SELECT moved FROM warpgauge.projects WHERE id = %s", (project_id,)).fetchone()
            if known is None:
                raise ProjectError(
                    f"The database {self._where} does not hold this project; copy it there with warpgauge copy, or "
                    f"check the address in project.json."
                )

    # --- the connection ----------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return shown_address(self.address)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the lock; afterwards other logs may have the connection."""
        with self._lock:
            self._holds += 1
            try:
                yield
            finally:
                self._holds -= 1
                if not self._holds and self._line is not None:
                    line, self._line = self._line, None
                    self._pool.give_back(line)

    def _connected(self) -> Any:
        """Return the connection that is held, or take one."""
        if self._line is not None and not self._line.connection.closed:
            return self._line.connection
        if self._failed is not None and time.monotonic() - self._failed[0] < _PAUSE:
            raise self._failed[1]
        if self._leave is None or self._pid != os.getpid():
            self._pool, self._pid = Pool.of(self.address, self.busy_seconds), os.getpid()
            self._pool.join()
            self._leave = weakref.finalize(self, self._pool.leave)  # also where nobody closes this log
        try:
            self._line = self._pool.take()
        except self._psycopg.Error as error:
            told = StorageError(
                f"The database {self._where} cannot be reached ({one_line(error)}), so nothing was changed: try again "
                f"in a moment; a password is taken from PGPASSWORD or a passfile."
            )
            self._failed = time.monotonic(), told
            raise told from error
        self.readonly, self._failed = self._line.readonly, None
        return self._line.connection

    def _drop(self) -> None:
        """Close a connection that has failed."""
        if self._line is not None:
            self._pool.lost(self._line)
        self._line = None

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with self._held():
            try:
                yield self._connected()
            except self._psycopg.Error as error:
                raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StorageError:
        self._drop()
        return StorageError(
            f"The database {self._where} cannot be read now ({one_line(error)}); nothing was changed: try again in a "
            f"moment."
        )

    def close(self) -> None:
        """Release the connections, which the last log closes; they are opened again when needed."""
        with self._lock:
            stop, self._stop = self._stop, None
            leave, self._leave = self._leave, None
        for end in (stop, leave):
            if end is not None:
                end()

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def project_id(self) -> str:
        """Identifier of the project that the log belongs to."""
        return self._id

    def _query(self, connection: Any, after: int) -> list[Row]:
        found = connection.execute(f"{schema.SELECT} AND generation > %s ORDER BY generation", (self._id, after))
        return list(found.fetchall())

    def rows(self, after: int = 0) -> list[Row]:
        """Return the rows with a generation above ``after``, in order, unchecked."""
        with self._reading() as connection:
            return self._query(connection, after)

    def read(self, after: int = 0) -> list[Row]:
        """Return the events with a generation above ``after``, in order."""
        with self._held():
            for attempt in (1, 2):  # a connection that was cut since is seen only now
                try:
                    events = self._since(self._connected(), after)[0]
                    break
                except self._psycopg.Error as error:
                    if attempt == 2 or not self._is_lost():
                        raise self._unreadable(error) from error
                    self._drop()
            self._note(events)
            return events

    def _since(self, connection: Any, after: int) -> tuple[list[Row], Row]:
        """Return the events after a generation, and the last row; raise when the log lacks what was seen in it."""
        rows = self._query(connection, max(0, after - 1))
        known = self._last
        if known is not None and known.generation >= after:
            found = next((row for row in rows if row[0] == known.generation), None)
            if found is None or found[-1] != known.digest:
                raise StorageError(
                    f"The database {self._where} {'lacks' if found is None else 'has another'} event "
                    f"{known.generation} of this project, which was acknowledged at {known.time}: an older copy of it "
                    f"was put back, so the action was not saved; stop the server and run warpgauge verify."
                )
        return [row for row in rows if row[0] > after], rows[-1] if rows else (0, "")

    def _is_lost(self) -> bool:
        return self._line is None or bool(self._line.connection.closed or self._line.connection.broken)

    def ping(self) -> None:
        """Raise when the database cannot be read now."""
        with self._reading() as connection:
            connection.execute("SELECT 1")

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, after: int, decide: Decide) -> list[Row]:
        """Write events in one transaction; see `EventLog.append`."""
        with self._held():
            for attempt in (1, 2):
                connection = self._connected()
                if self.readonly:
                    raise StorageError(f"The database {self._where} may only be read by this role, so {_UNSAVED}")
                try:
                    return self._append(connection, after, decide)
                except _LostAnswerError as error:
                    raise StorageError(
                        f"The connection to the database {self._where} was lost while the action was being saved, so "
                        f"it is not known whether it was: look at the page again before you repeat it."
                    ) from error
                except self._psycopg.Error as error:
                    lost = connection.closed or connection.broken
                    self._drop()
                    if attempt == 2 or not lost:
                        raise self._unsaved(error) from error
            raise AssertionError  # both attempts return or raise

    def _append(self, connection: Any, after: int, decide: Decide) -> list[Row]:
        size: int | None = None
        rows: list[Row] = []
        try:
            connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({schema.lock_key(self._id)})")
            fresh, last = self._since(connection, after)
            rows = chained_rows(decide(fresh), last[0], last[-1])
            with connection.cursor() as cursor:
                cursor.executemany(schema.INSERT, [(self._id, *row) for row in rows])
            if self.mirror is not None:
                self.mirror.settle(last[0])
                size = self.mirror.append(self._query(connection, self.mirror.known()))
            self._commit(connection, rows)
        except BaseException:
            if size is not None and self.mirror is not None:
                self.mirror.cut(size)
            with suppress(self._psycopg.Error):
                if not connection.closed:
                    connection.execute("ROLLBACK")
            raise
        self._note([*fresh, *rows])
        return rows

    def _commit(self, connection: Any, rows: Sequence[Row]) -> None:
        """Commit; where the answer is lost, look whether it was done."""
        try:
            connection.execute("COMMIT")
        except self._psycopg.Error:
            if not rows or not (connection.closed or connection.broken):
                raise
            if not self._is_there(rows[-1]):
                raise

    def _is_there(self, row: Row) -> bool:
        """Return whether an event was committed; the lock is free only when the lost transaction has ended."""
        deadline = time.monotonic() + CONFIRM_SECONDS
        while True:
            self._drop()
            try:
                connection = self._connected()
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (schema.lock_key(self._id),))
                    found = self._query(connection, row[0] - 1)[:1]
                return bool(found) and found[0][-1] == row[-1]
            except (StorageError, self._psycopg.Error) as error:
                if time.monotonic() > deadline:
                    raise _LostAnswerError from error
                time.sleep(_PAUSE)

    def _unsaved(self, error: Exception) -> StorageError:
        """Return in one sentence why an action was not saved."""
        state = getattr(error, "sqlstate", None)
        if state == schema.MOVED:
            return StorageError(f"It cannot be saved here: {one_line(error)}; stop the server and start it anew.")
        if state == "55P03":
            return StorageError(f"The project was held by other servers for too long: try again; {_UNSAVED}")
        return StorageError(
            f"The database {self._where} cannot be written now ({one_line(error)}): try again; {_UNSAVED}"
        )

    def retire(self, take: Callable[[list[Row]], None], place: str) -> str:
        """Hand all rows over, and mark the project as moved; see `EventLog.retire`."""
        with self._reading() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (schema.lock_key(self._id),))
            connection.execute("UPDATE warpgauge.projects SET moved = %s WHERE id = %s", (place, self._id))
            take(self._query(connection, 0))
        return f"the rows of project {self._id} in {self._where}"

    def begin(self) -> None:
        """Do nothing: the head of the log is the database's own business."""

    # --- leases, notifications, integrity ----------------------------------------------------------------------------

    def lease(self, rater: str, wanted: Sequence[tuple[int, int]], seconds: float) -> int | None:
        """Reserve a query for a rater; see `EventLog.lease`.

        Of two servers that choose at the same moment, each skips the row that the other is looking at.
        """
        queries, most = [query for query, _ in wanted], [count for _, count in wanted]
        with self._reading() as connection:
            if self.readonly:
                return queries[0] if queries else None
            with connection.transaction():
                connection.execute(
                    "UPDATE warpgauge.leases SET holders = holders - %s::text WHERE project = %s AND holders ? %s",
                    (rater, self._id, rater),
                )
                if not queries:
                    return None
                connection.execute(
                    "INSERT INTO warpgauge.leases (project, query) SELECT %s, unnest(%s::bigint[]) "
                    "ON CONFLICT DO NOTHING",
                    (self._id, queries),
                )
                found = connection.execute(_FREE, (queries, most, self._id)).fetchone()
                if found is None:
                    return None
                connection.execute(_HOLD, (rater, seconds, self._id, found[0]))
                return int(found[0])

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` soon after another server has written, from another thread."""
        self._stop = listen(self.address, self._id, wake)

    def integrity(self) -> Integrity:
        """Check the triggers that keep the table append-only."""
        with self._reading() as connection:
            problems = schema.trigger_problems(connection)
            moved = connection.execute("SELECT moved FROM warpgauge.projects WHERE id = %s", (self._id,)).fetchone()[0]
        if moved is not None:
            problems.append(f"The project was copied to {moved} and is used from there; project.json names this one.")
        checked = () if problems else (f"The log is in the database {self._where}.",)
        return Integrity(tuple(problems), checked, (_NO_WITNESS,))


CONFIRM_SECONDS = 10.0
# The first query with room; array_position keeps the order of preference.
_FREE = """
SELECT l.query FROM warpgauge.leases l
JOIN unnest(%s::bigint[], %s::bigint[]) WITH ORDINALITY AS w (query, most, rank) ON w.query = l.query
WHERE l.project = %s
  AND (SELECT count(*) FROM jsonb_each_text(l.holders) h WHERE h.value::timestamptz > now()) < w.most
ORDER BY w.rank LIMIT 1 FOR UPDATE OF l SKIP LOCKED
"""
_HOLD = """
UPDATE warpgauge.leases SET holders = (
    SELECT COALESCE(jsonb_object_agg(h.key, h.value), '{}') FROM jsonb_each_text(holders) h
    WHERE h.value::timestamptz > now()
) || jsonb_build_object(%s::text, now() + %s * interval '1 second')
WHERE project = %s AND query = %s
"""
