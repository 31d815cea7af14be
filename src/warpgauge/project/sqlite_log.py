"""The log in SQLite, a file of the project's folder: written through before anything is acknowledged.

WAL mode lets readers and one writer work at once; full synchronisation puts every commit on the disk before `append`
returns; the write lock is taken before the last generation is read, so that no two processes can give the same one.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from warpgauge.errors import SuspiciousDataWarning
from warpgauge.io.files import one_line
from warpgauge.project import sqlite_schema as schema
from warpgauge.project.chain import Row
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.event_log import BUSY_SECONDS, Decide, EventLog, Integrity, chained_rows
from warpgauge.project.log_head import FILE as HEAD
from warpgauge.project.log_head import Head, head_path, head_problem, newest, read_head, write_head
from warpgauge.project.witness import Witness

FILE = "annotations.sqlite"
_T = TypeVar("_T")
_CHECKPOINT_PAGES = 16
_NO_WITNESS = (
    "Whether the ends of the log and of 'annotations.head' were removed together: your state folder has no record of "
    "this log in this folder. It gets one when you write to the project; a mirror is a witness, too."
)


class SqliteLog(EventLog):
    """The log of one project in a file; see `EventLog`.

    Parameters
    ----------
    path : Path
        ``annotations.sqlite``; must exist (see `create`).
    busy_seconds : float
        How long to wait for other writers before giving up.
    """

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        super().__init__(path.parent, busy_seconds)
        self.path = path
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._file: tuple[int, int] | None = None
        self._looked: tuple[int, int] | None = None
        self._connected()

    @classmethod
    def create(cls, path: Path, project_id: str, rows: Sequence[Row] = ()) -> None:
        """Make a log, empty or with the rows of another one; a file that is there is replaced."""
        path.unlink(missing_ok=True)
        connection = schema.open_file(path, "mode=rwc")
        try:
            connection.execute("PRAGMA synchronous = FULL")
            schema.create(connection, project_id)
            connection.execute("BEGIN")
            connection.executemany(schema.INSERT, rows)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise schema.unsaved(path, error) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None
            if self._copy is not None:
                self._copy.cleanup()
                self._copy = None

    @property
    def project_id(self) -> str:
        """Identifier of the project that the log belongs to."""
        with self.reading() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'project'").fetchone()
        return str(row[0]) if row else ""

    def rows(self, after: int = 0) -> list[Row]:
        """Return the rows with a generation above ``after``, in order, unchecked."""
        with self.reading() as connection:
            return connection.execute(f"{schema.SELECT} WHERE generation > ? ORDER BY generation", (after,)).fetchall()

    def ping(self) -> None:
        """Raise when the file cannot be read now."""
        with self.reading() as connection:
            self._check_same(connection)

    def read(self, after: int = 0) -> list[Row]:
        """Return the events with a generation above ``after``, in order."""
        with self.reading() as connection:
            events = _read(self._check_same(connection), after)
        self._note(events)
        return events

    def _check_same(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Raise when the log is not any more the one that was opened, or has lost events that were seen in it.

        Returns the connection to go on with: another one where the same events are in another file now.

        A restored copy or a sync client replaces, moves or deletes the file under a running server, whose open file
        then is in no folder any more: whatever is written to it is lost.
        """
        if self._copy is None and not self.readonly:
            try:
                status = self.path.stat()
            except OSError:
                self.close()
                raise self._replaced("has been deleted or moved") from None
            if self._file != (status.st_dev, status.st_ino):
                self.close()
                return self._check_same(self._connected())  # the same events in another file are as good
        if self._last is not None:
            row = connection.execute("SELECT digest FROM events WHERE generation = ?", (self._last.generation,))
            found = row.fetchone()
            if found is None or found[0] != self._last.digest:
                self.close()
                raise self._replaced(
                    f"has been replaced by one that {'lacks' if found is None else 'has another'} event "
                    f"{self._last.generation}"
                )
            self._check_content()
        return connection

    def _check_content(self) -> None:
        """Read the last digest with a fresh connection where the file was written to since the last look.

        An older copy that is written over the file, in place, is not seen through pages that are still in memory.
        Digests are chained: the last one stands for all events before it.
        """
        status = self.path.stat()
        looked = status.st_mtime_ns, status.st_size
        if self._last is None or self.readonly or looked == self._looked:
            return
        fresh = schema.open_file(self.path, "mode=rw")
        try:
            fresh.execute("PRAGMA trusted_schema = OFF")
            row = fresh.execute("SELECT digest FROM events WHERE generation = ?", (self._last.generation,)).fetchone()
        finally:
            fresh.close()
        if row is None or row[0] != self._last.digest:
            self.close()
            raise self._replaced("has been overwritten with other events")
        self._looked = looked

    def _replaced(self, what: str) -> StorageError:
        return StorageError(
            f"{self.path.name!r} in {str(self.path.parent)!r} {what} while it was in use, so the action was not saved: "
            f"put the former file back, or stop the server and run warpgauge verify."
        )

    def _check_head(self, connection: sqlite3.Connection) -> None:
        """Raise when the log lacks what was acknowledged, before anything is written after the gap."""
        problem = head_problem(self._acknowledged(), connection)
        if problem is not None:
            raise StorageError(f"{problem} Nothing is written until warpgauge recover has settled it.")

    def append(self, after: int, decide: Decide) -> list[Row]:
        """Write events in one transaction; see `EventLog.append`."""
        with self._lock:
            if self.readonly:
                self.close()  # the disk may have been mounted or freed since
            return self._patiently(lambda: self._append(after, decide))

    def _patiently(self, act: Callable[[], _T]) -> _T:
        """Try again while other processes hold the file, up to the time that is allowed for it."""
        deadline = time.monotonic() + self.busy_seconds
        while True:
            try:
                return act()
            except schema.ERRORS as error:
                if schema.code(error) not in schema.BUSY or time.monotonic() > deadline:
                    raise schema.unsaved(self.path, error) from error
                time.sleep(random.uniform(0, 0.02))

    def _append(self, after: int, decide: Decide) -> list[Row]:
        connection = self._connected()
        if self.readonly:
            raise StorageError(
                f"The project cannot be written in {str(self.path.parent)!r} (read-only folder, missing permission or "
                f"full disk), so the action was not saved; all that was saved before is still there."
            )
        connection.execute("BEGIN IMMEDIATE")
        size: int | None = None
        try:
            self._check_same(connection)
            if self._connection is not connection:
                raise schema.operational("the file was replaced", sqlite3.SQLITE_BUSY)  # try again with the new one
            self._check_head(connection)
            events = decide(_read(connection, after))
            found = connection.execute("SELECT generation, digest FROM events ORDER BY generation DESC LIMIT 1")
            last = found.fetchone() or (0, "")
            rows = chained_rows(events, *last)
            connection.executemany(schema.INSERT, rows)
            if self.mirror is not None:
                self.mirror.settle(last[0])
                size = self.mirror.append(self.rows(self.mirror.known()))
            connection.execute("COMMIT")
        except BaseException:
            if size is not None and self.mirror is not None:
                self.mirror.cut(size)
            # A file that was replaced has been closed, which ends the transaction too.
            if self._connection is connection and connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._note(rows)
        self._check_same(connection)
        if rows:
            self._keep_head()
        return rows

    def _keep_head(self) -> None:
        try:
            if self._last is not None:
                write_head(self.path, self._last)
                self._witness.record(self._last)
        except OSError as error:
            warnings.warn(
                f"{head_path(self.path).name!r} could not be written ({one_line(error)}), so that a later loss of "
                f"events may not be noticed.",
                SuspiciousDataWarning,
                stacklevel=2,
            )

    def begin(self) -> None:
        """Keep the head of a log that has none yet, as older versions left it; warn where acknowledged events miss."""
        with self.reading() as connection:
            problem = head_problem(self._acknowledged(), connection)
        if problem is not None:
            warnings.warn(f"{problem} See warpgauge recover.", SuspiciousDataWarning, stacklevel=2)
        elif not self.readonly and read_head(self.path) is None:
            self._keep_head()

    def retire(self, take: Callable[[list[Row]], None], place: str) -> str:
        """Hand all rows over, and put the file aside under another name; see `EventLog.retire`."""
        with self._lock:
            connection = self._connected()
            if self.readonly:
                raise StorageError(f"The folder {str(self.folder)!r} cannot be written, so nothing was copied.")
            try:
                connection.execute("BEGIN IMMEDIATE")
                self._check_same(connection)
                self._check_head(connection)
                take(self.rows())
                return schema.put_aside(self.path)
            except schema.ERRORS as error:
                raise schema.unsaved(self.path, error) from error
            finally:
                self.close()  # which ends the transaction

    def lease(self, rater: str, wanted: Sequence[tuple[int, int]], seconds: float) -> int | None:
        """Reserve a query for a rater; see `EventLog.lease`."""
        with self._lock:
            return self._patiently(lambda: self._lease(rater, wanted, seconds))

    def _lease(self, rater: str, wanted: Sequence[tuple[int, int]], seconds: float) -> int | None:
        connection = self._connected()
        if self.readonly:
            return wanted[0][0] if wanted else None  # nobody can answer
        connection.execute("BEGIN IMMEDIATE")
        try:
            free = schema.take_lease(connection, rater, wanted, seconds)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return free

    def watch(self, wake: Callable[[], None]) -> None:
        """Do nothing: SQLite cannot tell, and looking again costs microseconds."""

    def integrity(self) -> Integrity:
        """Have SQLite check the file, and compare the end of the log with what was acknowledged."""
        problems, checked = [], []
        with self.reading() as connection:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
            if lines == ["ok"]:
                checked.append("SQLite reports no errors in the log.")
            else:
                problems.append(f"SQLite finds the log damaged: {one_line(Exception('; '.join(lines)))}.")
            problems += schema.trigger_problems(connection)
            problem = head_problem(self._acknowledged(), connection)
            if problem is not None:
                problems.append(f"{problem} Put back the log, or rebuild it with warpgauge recover.")
            elif read_head(self.path) is not None:
                checked.append("The log holds all events that were acknowledged.")
            elif connection.execute("SELECT MAX(generation) FROM events").fetchone()[0]:
                checked.append(f"{HEAD!r} is missing or damaged; the next time the project is opened writes it anew.")
        unchecked = () if self._witness.head() is not None else (_NO_WITNESS,)
        return Integrity(tuple(problems), tuple(checked), unchecked)

    def _acknowledged(self) -> Head | None:
        """Return the last acknowledged event by what stands beside the log and in this person's own state folder."""
        return newest(read_head(self.path), self._witness.head())

    @cached_property
    def _witness(self) -> Witness:
        return Witness(self.folder, self.project_id)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Return the connection, to read with; what SQLite raises becomes a sentence."""
        with self._lock:
            try:
                yield self._connected()
            except schema.ERRORS as error:
                raise schema.unreadable(self.path, error) from error

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        # A connection must not cross a fork: the child leaves the parent's alone and opens its own.
        self._pid = os.getpid()
        if not self.path.is_file():
            if self._last is not None:
                raise self._replaced("has been deleted or moved")
            raise ProjectError(f"There is no annotation log at {str(self.path)!r}; the project is not complete.")
        try:
            status = self.path.stat()
            self._file = status.st_dev, status.st_ino
            self._connection, self.readonly = self._open_for_writing(), False
        except schema.ERRORS as error:
            if schema.code(error) not in schema.UNWRITABLE:
                raise schema.unreadable(self.path, error) from error
            self._connection, self.readonly = self._open_for_reading(), True
        return self._connection

    def _open_for_writing(self) -> sqlite3.Connection:
        if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            raise schema.operational("not writable", sqlite3.SQLITE_READONLY)
        connection = schema.open_file(self.path, "mode=rw")
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            # Few events wait in the write-ahead file: whoever copies or deletes it apart from the log loses few.
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            schema.migrate(connection, self.path)
            if (mode := connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]) != "wal":
                raise StorageError(
                    f"{self.path.name!r} cannot be put into write-ahead mode (it stays in {mode!r}); the file system "
                    f"does not support it: move the project to a local disk."
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_for_reading(self) -> sqlite3.Connection:
        """Open without writing; what is still in the write-ahead file needs a private copy, as no index can be made."""
        path, ahead = self.path, self.path.with_name(self.path.name + "-wal")
        schema.check_alone(path)
        try:
            if ahead.exists() and ahead.stat().st_size > 0:
                self._copy = tempfile.TemporaryDirectory(prefix="warpgauge-")
                for file in (path, ahead):
                    shutil.copyfile(file, Path(self._copy.name) / file.name)
                connection = schema.open_file(Path(self._copy.name) / path.name, "mode=rw")
            else:
                connection = schema.open_file(path, "mode=ro&immutable=1")
            connection.execute("PRAGMA trusted_schema = OFF")
            found = schema.version(connection, path.name)
        except OSError as error:
            raise ProjectError(f"{str(path)!r} cannot be read: {one_line(error)}.") from error
        except schema.ERRORS as error:
            raise schema.unreadable(path, error) from error
        if found < schema.READABLE:
            connection.close()
            raise StorageError(
                f"{path.name!r} has the older log version {found} and must be brought to version {schema.VERSION}, but "
                f"its folder cannot be written; copy the project to a folder that can."
            )
        return connection


def _read(connection: sqlite3.Connection, after: int) -> list[Row]:
    return connection.execute(f"{schema.SELECT} WHERE generation > ? ORDER BY generation", (after,)).fetchall()
