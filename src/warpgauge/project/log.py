"""The log of a project: an append-only table of events, on the disk before anything is acknowledged.

`Log` is what all logs have in common. `FileLog` keeps the events in a file of the project's folder, with SQLite;
`warpgauge.project.postgres.DatabaseLog` in a database that several hosts share.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpgauge.io.files import one_line
from warpgauge.io.inside import own_file
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.own_state import LastEvent, Witness

if TYPE_CHECKING:
    from warpgauge.project.mirror import Mirror

Row = tuple[Any, ...]
"""Generation, time, rater, kind, query, duration, base generation, payload and digest, as in the table."""
Decide = Callable[[list[Row]], Iterable[Row]]

COLUMNS = "generation, time, rater, kind, query, duration, base_generation, payload, digest"
MEND = "run warpgauge verify --mend to recover what is left"


def now() -> str:
    """Return the time in UTC, as the log keeps it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def chained(previous: str, row: Row) -> str:
    """Digest of a row of the log and of all rows before it, through the digest of the row before."""
    text = json.dumps([previous, *row], separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def unbroken(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the leading rows that have the next number and the digest of what was written."""
    digest = ""
    for number, row in enumerate(rows, 1):
        try:
            digest = chained(digest, row[:-1])
        except (TypeError, ValueError):
            return
        if row[0] != number or row[-1] != digest:
            return
        yield row


def lost_end(acknowledged: LastEvent | None, rows: Sequence[Row]) -> str | None:
    """Return a sentence where the last rows of a log lack an acknowledged event, or None."""
    if acknowledged is None or acknowledged.generation < (rows[0][0] if rows else 1):
        return None
    first, last = (rows[-1][0] + 1 if rows else 1), acknowledged.generation
    if first <= last:
        several = f"{last - first + 1} events are missing (numbers {first} to {last})"
        missing = "it is missing" if first == last else several
        return (
            f"The log ends at event {first - 1}, but event {last} was acknowledged at {acknowledged.time}: {missing}."
        )
    if acknowledged.digest in (row[-1] for row in rows if row[0] == last):
        return None
    return (
        f"Event {last} of the log is not the one that was acknowledged at {acknowledged.time}: the log was replaced by "
        f"another one."
    )


class Log(ABC):
    """The log of one project, for any number of threads and processes."""

    busy_seconds = 60.0
    """How long to wait for other writers before giving up."""

    def __init__(self, project_id: str, witness: Witness | None) -> None:
        self.project_id = project_id
        self.witness = witness
        self.mirror: Mirror | None = None
        self._seen = LastEvent(0, "", "")
        self._turn = threading.Lock()

    @property
    @abstractmethod
    def name(self) -> str:
        """Where it is, for sentences; never a password."""

    @property
    @abstractmethod
    def readonly(self) -> bool:
        """Whether it cannot be written now."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """Open a connection to read with."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Any]:
        """Open a transaction while nobody else can write; it is committed at the end, unless something was raised."""

    @abstractmethod
    def _rows(self, connection: Any, after: int) -> list[Row]:
        """Return the rows with a generation above ``after``, in order."""

    @abstractmethod
    def _insert(self, connection: Any, rows: Sequence[Row]) -> None:
        """Write rows within a transaction."""

    @abstractmethod
    def problems(self) -> list[str]:
        """Have the store check itself; one sentence for each problem."""

    @abstractmethod
    def retire(self, take: Callable[[list[Row]], None], place: str) -> str:
        """Hand all rows to ``take`` while nobody can write, refuse to write from then on, and return the new name.

        What ``take`` raises leaves everything as it was. ``place`` is where the rows are then, for sentences.
        """

    @abstractmethod
    def close(self) -> None:
        """Release connections, where any are kept; they are opened again when needed."""

    def _since(self, connection: Any, after: int) -> list[Row]:
        """Return the rows from the last one that was seen on; raise where the log lacks that one."""
        seen = self._seen
        start = max(0, min(after, seen.generation - 1))
        rows = self._rows(connection, start)
        at = seen.generation - start - 1
        if seen.generation and (at >= len(rows) or rows[at][-1] != seen.digest):
            raise StorageError(
                f"{self.name} {'lacks' if at >= len(rows) else 'has another'} event {seen.generation} of this project, "
                f"which was acknowledged at {seen.time}, so the action was not saved: put back the newer one, or stop "
                f"the server and run warpgauge verify."
            )
        return rows

    def _saw(self, rows: Sequence[Row]) -> None:
        if rows and rows[-1][0] > self._seen.generation:
            generation, time, *_, digest = rows[-1]
            self._seen = LastEvent(generation, digest, time)

    def read(self, after: int = 0) -> list[Row]:
        """Return the rows with a generation above ``after``, in order."""
        with self._reading() as connection:
            rows = self._since(connection, after)
        self._saw(rows)
        return [row for row in rows if row[0] > after]

    def append(self, after: int, decide: Decide) -> list[Row]:
        """Write events in one transaction, all of them or none, and return their rows; they are on the disk then.

        ``decide`` is given the rows after generation ``after`` while no other process can write, and returns rows
        without number, time and digest; whatever it raises ends the transaction without a trace.
        """
        # Threads take turns, as SQLite would have them sleep and try again; its own lock is the one that counts.
        with self._turn:
            with self._writing() as connection:
                rows = self._since(connection, after)
                self._check_end(rows)
                if self.mirror is not None:
                    self.mirror.follow(lambda start: self._rows(connection, start))
                generation, digest = (rows[-1][0], rows[-1][-1]) if rows else (0, "")
                written: list[Row] = []
                for event in decide([row for row in rows if row[0] > after]):
                    generation += 1
                    row = (generation, now(), *event)
                    digest = chained(digest, row)
                    written.append((*row, digest))
                self._insert(connection, written)
            self._saw([*rows, *written])
            if written and self.witness is not None:
                self.witness.record(self._seen)
        if written and self.mirror is not None:
            self.mirror.follow(self.read)
        return written

    def missing_end(self, rows: Sequence[Row]) -> str | None:
        """Return a sentence where the last rows lack an event that was acknowledged here before, or None."""
        return lost_end(self.witness.last_event(), rows) if self.witness is not None else None

    def _check_end(self, rows: Sequence[Row]) -> None:
        problem = self.missing_end(rows)
        if problem is not None:
            raise StorageError(f"{problem} Nothing is written until that is settled: {MEND}.")

    def use_mirror(self, mirror: Mirror) -> None:
        """Have all events in a second copy, and every further one before it is acknowledged."""
        if self.readonly:
            mirror.follow(self.read)
        else:
            with self._turn, self._writing() as connection:
                self._check_end(self._rows(connection, 0))
                mirror.follow(lambda after: self._rows(connection, after))
        mirror.copy_files()
        self.mirror = mirror

    def last_generation(self) -> int:
        """Return the generation of the last event, those of other processes included; 0 where there is none."""
        self.read(self._seen.generation)
        return self._seen.generation


FILE = "annotations.sqlite"
VERSION = 7
APPLICATION_ID = 0x57474C47  # "WGLG", so that `file` and we can tell the log from other databases
LONGEST_VALUE = 64 * 2**20  # bytes: a log of somebody else may hold texts that fill the memory
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
SELECT = f"SELECT {COLUMNS} FROM events WHERE generation > ? ORDER BY generation"  # nosec B608  # constants only
_INSERT = f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # nosec B608  # constants only
_TABLES = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "events": """
CREATE TABLE events (
    generation INTEGER PRIMARY KEY CHECK (generation > 0),
    time TEXT NOT NULL,
    rater TEXT NOT NULL,
    kind TEXT NOT NULL,
    query INTEGER,
    duration REAL,
    base_generation INTEGER,
    payload TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT""",
}
# The database itself refuses to change or drop an event and to leave a gap, whoever writes.
_TRIGGERS = {
    "events_are_never_changed": """
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END""",
    "events_are_never_deleted": """
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END""",
    "generations_have_no_gaps": """
CREATE TRIGGER generations_have_no_gaps BEFORE INSERT ON events
WHEN NEW.generation IS NOT (SELECT COALESCE(MAX(generation), 0) + 1 FROM events)
BEGIN SELECT RAISE(ABORT, 'generations have no gaps'); END""",
}
_DAMAGED = f"it is damaged: put back a copy of the project, or {MEND}"
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and try again",
    sqlite3.SQLITE_BUSY: "it was held by other processes for too long: try again",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
_UNSAVED = "the action was not saved; all that was saved before is still there"


class FileLog(Log):
    """The log in ``annotations.sqlite``, a file of the project's folder.

    Every transaction has a connection of its own: nothing is kept over a fork, from thread to thread, or over a file
    that was replaced meanwhile. The journal is the classic one, so that between two transactions the log is this file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # the working folder may change
        with self._reading() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'project'").fetchone()
        project_id = str(row[0]) if row else ""
        super().__init__(project_id, Witness(path.parent, project_id))

    @classmethod
    def create(cls, path: Path, project_id: str, rows: Sequence[Row] = ()) -> None:
        """Make a log, empty or with the rows of another one, where no file is yet."""
        path.touch(exist_ok=False)
        check_alone(path)
        with ExitStack() as stack:
            connection = connected(path, "rw", stack, cls.busy_seconds)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("BEGIN IMMEDIATE")
            for statement in (*_TABLES.values(), *_TRIGGERS.values()):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('project', ?)", (project_id,))
            connection.executemany(_INSERT, rows)
            connection.execute("COMMIT")

    @property
    def name(self) -> str:
        """Where it is, for sentences."""
        return f"The file {self.path.name!r}"

    @property
    def readonly(self) -> bool:
        """Whether the file or its folder cannot be written now."""
        return not (os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK))

    @contextmanager
    def _opened(self, outcome: str) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, with the ``outcome`` for sentences about what SQLite raises."""
        try:
            with ExitStack() as stack:
                connection = self._connection(stack)
                check_schema(connection, self.path.name)
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where SQLite quotes damaged bytes
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            advice = _ADVICE.get(code, "check permissions, space and the disk, or run warpgauge verify")
            raise StorageError(
                f"{self.path.name!r} in {str(self.path.parent)!r} cannot be used now ({one_line(error)}): {advice}; "
                f"{outcome}."
            ) from error

    @contextmanager
    def _unchanged(self) -> Iterator[Callable[[], None]]:
        """Raise where the file was replaced meanwhile: whatever was written to it is in no folder any more."""
        before = check_alone(self.path)

        def check() -> None:
            if check_alone(self.path) != before:
                raise StorageError(
                    f"{self.path.name!r} in {str(self.path.parent)!r} was replaced while it was in use, so the action "
                    f"was not saved: put the former file back, or stop the server and run warpgauge verify."
                )

        yield check
        check()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._unchanged(), self._opened("nothing was changed") as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._unchanged() as check:
            if self.readonly:
                raise StorageError(
                    f"The project cannot be written in {str(self.path.parent)!r} (read-only folder, missing permission "
                    f"or full disk), so {_UNSAVED}."
                )
            with self._opened(_UNSAVED) as connection:
                connection.execute("BEGIN IMMEDIATE")  # before the last generation is read; waits for other writers
                check()
                yield connection
                connection.execute("COMMIT")  # closing without it takes everything back

    def _connection(self, stack: ExitStack) -> sqlite3.Connection:
        """Connect, to a copy where a killed writer left a journal and the folder cannot be written."""
        try:
            # A reader, too, must be able to roll back what a killed writer left.
            return connected(self.path, "ro" if self.readonly else "rw", stack, self.busy_seconds)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warpgauge-"))) / FILE
        shutil.copyfile(self.path, copy)
        shutil.copyfile(f"{self.path}-journal", f"{copy}-journal", follow_symlinks=False)
        check_alone(copy)
        return connected(copy, "rw", stack, self.busy_seconds)

    def _rows(self, connection: sqlite3.Connection, after: int) -> list[Row]:
        return connection.execute(SELECT, (after,)).fetchall()

    def _insert(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        connection.executemany(_INSERT, rows)

    def problems(self) -> list[str]:
        """Have SQLite check its file, and look for triggers that were taken out."""
        with self._reading() as connection:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
            triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        problems = []
        if lines != ["ok"]:
            problems.append(f"SQLite finds the log damaged: {one_line(Exception('; '.join(lines)))}.")
        missing = sorted(_TRIGGERS.keys() - {trigger[0] for trigger in triggers})
        return problems + [f"The trigger {name!r} of the log is missing, so events may be altered." for name in missing]

    def retire(self, take: Callable[[list[Row]], None], place: str) -> str:
        """Hand all rows over, and put the file aside under another name; see `Log.retire`."""
        check_alone(self.path)
        if self.readonly:
            raise StorageError(f"The folder {str(self.path.parent)!r} cannot be written, so nothing was copied.")
        with self._turn, self._opened("nothing was copied") as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._since(connection, 0)
            rows = self._rows(connection, 0)
            self._check_end(rows)
            take(rows)
            return put_aside(self.path)

    def close(self) -> None:
        """Do nothing: no connection is kept."""


def connected(path: Path, mode: str, stack: ExitStack, busy_seconds: float) -> sqlite3.Connection:
    """Open a file that `check_alone` has passed, until the stack ends."""
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=busy_seconds, isolation_level=None)
    stack.callback(connection.close)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    for setting in ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF"):
        connection.execute(f"PRAGMA {setting}")  # the first one reads the file, and rolls a journal back
    return connection


def check_alone(path: Path) -> tuple[int, int]:
    """Return which file the log is; refuse what leads SQLite to another one. Nothing is repaired or deleted.

    SQLite plays back a journal that it finds, and then deletes the file that the journal's last bytes name, wherever it
    is. It reads them again after that, which changes a journal that is the log under a second name. A link as the log
    moves the journal elsewhere, and a write-ahead file replaces what the log says. No transaction of ours leaves any of
    these.
    """
    try:
        log = path.lstat()
    except OSError as error:
        raise StorageError(
            f"There is no {path.name!r} in {str(path.parent)!r} ({error.strerror}): it has been deleted or moved, so "
            f"the action was not saved; put the file back, or {MEND}."
        ) from error
    alone = stat.S_ISREG(log.st_mode) and log.st_nlink == 1 and not os.path.lexists(f"{path}-wal")
    if not (alone and all(_is_plain(path.with_name(f"{path.name}-{ending}")) for ending in ("journal", "shm"))):
        raise StorageError(
            f"{path.name!r} in {str(path.parent)!r} or its journal is a link, has a second name, is not a plain file "
            f"or names another file, or a write-ahead file lies beside it, which no log of ours has, so it is not "
            f"opened: use a copy without links, and move away what lies beside it."
        )
    return log.st_dev, log.st_ino


def _is_plain(beside: Path) -> bool:
    """Return whether what lies beside a log is absent, or a plain file that does not end as one that names another."""
    try:
        handle = own_file(beside, os.O_RDONLY)
    except FileNotFoundError:  # nobody writes, or another process has just committed
        return True
    except OSError:
        return False
    try:
        # SQLite looks for the end by the size of the file.
        os.lseek(handle, max(0, os.fstat(handle).st_size - len(_JOURNAL_MAGIC)), os.SEEK_SET)
        return os.read(handle, len(_JOURNAL_MAGIC)) != _JOURNAL_MAGIC
    finally:
        os.close(handle)


def check_schema(connection: sqlite3.Connection, name: str) -> None:
    """Refuse another file, another version, and tables or triggers that are not ours: a view can be endless."""
    application, version, journal = (
        connection.execute(f"PRAGMA {setting}").fetchone()[0]
        for setting in ("application_id", "user_version", "journal_mode")
    )
    if application != APPLICATION_ID:
        raise ProjectError(f"{name!r} is an SQLite file, but not the annotation log of a warpgauge project.")
    if version != VERSION or journal != "delete":
        raise ProjectError(
            f"{name!r} was written by another version of warpgauge (log version {version} with the journal mode "
            f"{journal}; this one reads {VERSION} with delete); open it with that version."
        )
    ours = {title: _plain(text) for title, text in {**_TABLES, **_TRIGGERS}.items()}
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())
    for title, text in found.items():
        if ours.get(title) != _plain(text):
            raise ProjectError(f"{name!r} has {str(title)[:40]!r}, which no annotation log has; put back a copy of it.")
    if not _TABLES.keys() <= found.keys():
        raise ProjectError(f"{name!r} lacks the tables of an annotation log; put back a copy of it.")


def _plain(statement: object) -> str:
    return "".join(str(statement).split())


def put_aside(path: Path) -> str:
    """Rename the file of a log, and what lies beside it, to a name with the time; return that name."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    kept = path.with_name(f"{path.stem}.before-{stamp}{path.suffix}")
    for ending in ("", "-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.rename(kept.with_name(kept.name + ending))
    return kept.name
