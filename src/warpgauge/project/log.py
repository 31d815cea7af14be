"""The log: an append-only table of events in SQLite, written through before anything is acknowledged.

WAL mode lets readers and one writer work at once; full synchronisation puts every commit on the disk before `append`
returns; the write lock is taken before the last generation is read, so that no two processes can give the same one.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sqlite3
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.errors import SuspiciousDataWarning, WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.project import schema
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.events import Draft, Event, canonical, chained
from warpgauge.project.head import Head, head_path, read_head, write_head
from warpgauge.project.mirror import Mirror
from warpgauge.project.rows import SELECT, event_of

BUSY_SECONDS = 60.0
_CHECKPOINT_PAGES = 16
_WAIT_STEP = 0.25  # seconds within SQLite's own waiting, between which we look at the clock
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL,
               sqlite3.SQLITE_IOERR)  # fmt: skip
_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite quotes damaged bytes in its message
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: Exception) -> int:
    """Primary result code; extended codes keep it in their low byte."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def now() -> str:
    """Return the time in UTC, as the log keeps it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class EventLog:
    """The log of one project; may be used by several threads, and by several processes each with its own.

    Parameters
    ----------
    path : Path
        ``annotations.sqlite``; must exist (see `create`).
    busy_seconds : float
        How long to wait for other writers before giving up.
    """

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self.busy_seconds = busy_seconds
        self._lock = threading.RLock()
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._file: tuple[int, int] | None = None
        self._last: Head | None = None
        self._digests = hashlib.sha256()
        self._looked: tuple[int, int] | None = None
        self.mirror: Mirror | None = None
        self.readonly = False
        self._connected()

    @classmethod
    def create(cls, path: Path, project_id: str) -> None:
        """Make an empty log."""
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            schema.create(connection, project_id)
        except sqlite3.Error as error:
            raise _unsaved(path, error) from error
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

    def read(self, after: int = 0) -> list[Event]:
        """Return the events with a generation above ``after``, in order."""
        with self.reading() as connection:
            self._check_same(connection)
            events = _read(connection, after)
        self._note(events)
        return events

    def _note(self, events: Sequence[Event]) -> None:
        """Remember what was read or written, in order."""
        for event in events:
            known = 0 if self._last is None else self._last.generation
            if event.generation == known + 1:
                self._digests.update(event.digest.encode("ascii", "replace"))
                self._last = Head(event.generation, event.digest, event.time)

    def _check_same(self, connection: sqlite3.Connection) -> None:
        """Raise when the log is not any more the one that was opened, or has lost events that were seen in it.

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
                self._check_same(self._connected())  # the same events in another file are as good
                return
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

    def _check_content(self) -> None:
        """Read the digests with a fresh connection where the file was written to since the last look.

        An older copy that is written over the file, in place, is not seen through pages that are still in memory.
        """
        status = self.path.stat()
        looked = status.st_mtime_ns, status.st_size
        if self._last is None or self.readonly or looked == self._looked:
            return
        fresh = _open(self.path, "mode=rw")
        try:
            fresh.execute("PRAGMA trusted_schema = OFF")
            rows = fresh.execute(
                "SELECT digest FROM events WHERE generation <= ? ORDER BY generation", (self._last.generation,)
            )
            found = hashlib.sha256()
            for (digest,) in rows:
                found.update(str(digest).encode("ascii", "replace"))
        finally:
            fresh.close()
        if found.digest() != self._digests.digest():
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
        problem = head_problem(self.path, connection)
        if problem is not None:
            raise StorageError(f"{problem} Nothing is written until warpgauge recover has settled it.")

    def append(self, after: int, decide: Callable[[list[Event]], Sequence[Draft]]) -> list[Event]:
        """Write events in one transaction: all of them or none.

        Parameters
        ----------
        after : int
            Generation that the caller knows.
        decide : callable
            Is given the events since then, while no other process can write, and says what is to be written; whatever
            it raises ends the transaction without a trace.

        Returns
        -------
        list of Event
            What was written. When this returns, it is on the disk.
        """
        with self._lock:
            if self.readonly:
                self.close()  # the disk may have been mounted or freed since
            deadline = time.monotonic() + self.busy_seconds
            while True:
                try:
                    return self._append(after, decide)
                except _ERRORS as error:
                    if _code(error) not in _BUSY or time.monotonic() > deadline:
                        raise _unsaved(self.path, error) from error
                    time.sleep(random.uniform(0, 0.02))

    def _append(self, after: int, decide: Callable[[list[Event]], Sequence[Draft]]) -> list[Event]:
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
                raise _operational("the file was replaced", sqlite3.SQLITE_BUSY)  # try again with the new one
            self._check_head(connection)
            drafts = decide(_read(connection, after))
            last = connection.execute("SELECT generation, digest FROM events ORDER BY generation DESC LIMIT 1")
            generation, digest = last.fetchone() or (0, "")
            written = []
            for draft in drafts:
                generation += 1
                row = (
                    generation,
                    now(),
                    draft.rater,
                    draft.kind,
                    draft.query,
                    draft.duration,
                    draft.base_generation,
                    canonical(draft.payload),
                )
                digest = chained(digest, row)
                connection.execute(schema.INSERT, (*row, digest))
                written.append(event_of((*row, digest)))
            if self.mirror is not None:
                rows = connection.execute(
                    f"{SELECT} WHERE generation > ? ORDER BY generation", (self.mirror.generation,)
                )
                size = self.mirror.append(rows.fetchall())
            connection.execute("COMMIT")
        except BaseException:
            if size is not None and self.mirror is not None:
                self.mirror.cut(size)
            # A file that was replaced has been closed, which ends the transaction too.
            if self._connection is connection and connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._note(written)
        self._check_same(connection)
        if written:
            self._keep_head()
        return written

    def _keep_head(self) -> None:
        try:
            if self._last is not None:
                write_head(self.path, self._last)
        except OSError as error:
            warnings.warn(
                f"{head_path(self.path).name!r} could not be written ({one_line(error)}), so that a later loss of "
                f"events may not be noticed.",
                SuspiciousDataWarning,
                stacklevel=2,
            )

    def begin_head(self) -> None:
        """Keep the head of a log that has none yet, as older versions left it; warn where acknowledged events miss."""
        with self.reading() as connection:
            problem = head_problem(self.path, connection)
        if problem is not None:
            warnings.warn(f"{problem} See warpgauge recover.", SuspiciousDataWarning, stacklevel=2)
        elif not self.readonly and read_head(self.path) is None:
            self._keep_head()

    def use_mirror(self, folder: Path) -> None:
        """Append every further event to a second copy in another folder, too, before it is acknowledged."""
        with self._lock, self.reading() as connection:
            mirror = Mirror(folder, self.path.parent, self.project_id)
            rows = connection.execute(f"{SELECT} ORDER BY generation").fetchall()
            mirror.check(rows)
            mirror.append(rows)
            self.mirror = mirror

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Return the connection, to read with; what SQLite raises becomes a sentence."""
        with self._lock:
            try:
                yield self._connected()
            except _ERRORS as error:
                raise _unreadable(self.path, error) from error

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        # A connection must not cross a fork: the child leaves the parent's alone and opens its own.
        self._pid = os.getpid()
        if not self.path.is_file():
            raise ProjectError(f"There is no annotation log at {str(self.path)!r}; the project is not complete.")
        try:
            status = self.path.stat()
            self._file = status.st_dev, status.st_ino
            self._connection, self.readonly = self._open_for_writing(), False
        except _ERRORS as error:
            if _code(error) not in _UNWRITABLE:
                raise _unreadable(self.path, error) from error
            self._connection, self.readonly = self._open_for_reading(), True
        return self._connection

    def _open_for_writing(self) -> sqlite3.Connection:
        if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            raise _operational("not writable", sqlite3.SQLITE_READONLY)
        connection = _open(self.path, "mode=rw")
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            # Few events wait in the write-ahead file: whoever copies or deletes it apart from the log loses few.
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            schema.migrate(connection, self.path)
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
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
        try:
            if ahead.exists() and ahead.stat().st_size > 0:
                self._copy = tempfile.TemporaryDirectory(prefix="warpgauge-")
                for file in (path, ahead):
                    shutil.copyfile(file, Path(self._copy.name) / file.name)
                connection = _open(Path(self._copy.name) / path.name, "mode=rw")
            else:
                connection = _open(path, "mode=ro&immutable=1")
            connection.execute("PRAGMA trusted_schema = OFF")
            found = schema.version(connection, path.name)
        except OSError as error:
            raise ProjectError(f"{str(path)!r} cannot be read: {one_line(error)}.") from error
        except _ERRORS as error:
            raise _unreadable(path, error) from error
        if found < schema.VERSION:
            connection.close()
            raise StorageError(
                f"{path.name!r} has the older log version {found} and must be brought to version {schema.VERSION}, but "
                f"its folder cannot be written; copy the project to a folder that can."
            )
        return connection


def _open(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=_WAIT_STEP,
        isolation_level=None,
        check_same_thread=False,
    )


def _operational(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def _read(connection: sqlite3.Connection, after: int) -> list[Event]:
    rows = connection.execute(f"{SELECT} WHERE generation > ? ORDER BY generation", (after,))
    return [event_of(row) for row in rows]


def head_problem(path: Path, connection: sqlite3.Connection) -> str | None:
    """Return in a sentence what a log lacks of what was acknowledged, or None.

    Parameters
    ----------
    path : Path
        Of the log.
    connection : sqlite3.Connection
        To the log.
    """
    head = read_head(path)
    if head is None or head.generation == 0:
        return None
    row = connection.execute("SELECT digest FROM events WHERE generation = ?", (head.generation,)).fetchone()
    if row is not None and row[0] == head.digest:
        return None
    last = connection.execute("SELECT MAX(generation) FROM events").fetchone()[0] or 0
    if row is None:
        return (
            f"The log ends at event {last}, but event {head.generation} was acknowledged at {head.time}: "
            f"{head.generation - last} events are missing (numbers {last + 1} to {head.generation})."
        )
    return (
        f"Event {head.generation} of the log is not the one that was acknowledged at {head.time}: the log was replaced "
        f"by another one."
    )


def _unsaved(path: Path, error: Exception) -> WarpgaugeError:
    """Return in one sentence why an action was not saved."""
    code, tail = _code(error), "the action was not saved; all that was saved before is still there."
    if code in _BROKEN:
        return _unreadable(path, error)
    if code == sqlite3.SQLITE_FULL:
        return StorageError(f"The disk of {str(path.parent)!r} is full: free some space and try again; {tail}")
    if code in _BUSY:
        return StorageError(f"{path.name!r} was held by other processes for too long: try again; {tail}")
    if code in _UNWRITABLE:
        return StorageError(
            f"The project in {str(path.parent)!r} cannot be written ({one_line(error)}): check permissions and space; "
            f"{tail}"
        )
    return StorageError(f"{path.name!r} refused the action ({one_line(error)}); {tail}")


def _unreadable(path: Path, error: Exception) -> ProjectError:
    if _code(error) in _BROKEN:
        return ProjectError(
            f"{path.name!r} is damaged ({one_line(error)}); put back a copy of the project, or recover the file with "
            f"'sqlite3 {path.name} .recover'."
        )
    return ProjectError(f"{path.name!r} cannot be read: {one_line(error)}.")
