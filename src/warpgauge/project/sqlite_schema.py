"""The file of a log in SQLite: opening it, its tables, and the migration from each version of them to the next."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.io.inside import own_file
from warpgauge.project.chain import chained
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.event_log import COLUMNS

# Opening the file of a log in SQLite, and the sentences that its errors become.

_WAIT_STEP = 0.25  # seconds that SQLite waits at a time, before we look at the clock
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL,
               sqlite3.SQLITE_IOERR)  # fmt: skip
ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite quotes damaged bytes in its message
_LONGEST = 64 * 2**20  # bytes of a value: a log of somebody else may hold texts that fill the memory
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def code(error: Exception) -> int:
    """Primary result code; extended codes keep it in their low byte."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def open_file(path: Path, options: str) -> sqlite3.Connection:
    """Open the file with options of a URI, such as ``mode=rw``, after `check_alone`."""
    check_alone(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=_WAIT_STEP,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    return connection


def check_alone(path: Path) -> None:
    """Refuse a log that leads SQLite to another file; nothing is repaired or deleted.

    SQLite plays a journal back and then deletes the file that the journal's last bytes name, wherever that is. No
    transaction of ours writes such a name. A link as the log moves the journal elsewhere, and a journal that is the log
    under a second name can get such an end while it is played back.
    """
    log = None
    with suppress(FileNotFoundError):
        log = path.lstat()
    if log is not None and not (stat.S_ISREG(log.st_mode) and log.st_nlink == 1):
        raise ProjectError(
            f"{path.name!r} in {str(path.parent)!r} is a link, has a second name or is not a plain file, so it is not "
            f"opened: put the file itself there."
        )
    if not _is_plain_journal(path.with_name(f"{path.name}-journal")):
        raise ProjectError(
            f"'{path.name}-journal' in {str(path.parent)!r} is a link, has a second name, is not a plain file, or "
            f"names a file that SQLite would delete, so {path.name!r} is not opened: move that file away."
        )


def _is_plain_journal(journal: Path) -> bool:
    try:
        handle = own_file(journal, os.O_RDONLY)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        # SQLite looks for the end by the size of the file.
        os.lseek(handle, max(0, os.fstat(handle).st_size - len(_JOURNAL_MAGIC)), os.SEEK_SET)
        return os.read(handle, len(_JOURNAL_MAGIC)) != _JOURNAL_MAGIC
    finally:
        os.close(handle)


def operational(text: str, result: int) -> sqlite3.OperationalError:
    """Return an error as SQLite would raise it, with a result code."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = result
    return error


def unsaved(path: Path, error: Exception) -> WarpgaugeError:
    """Return in one sentence why an action was not saved."""
    found, tail = code(error), "the action was not saved; all that was saved before is still there."
    if found in _BROKEN:
        return unreadable(path, error)
    if found == sqlite3.SQLITE_FULL:
        return StorageError(f"The disk of {str(path.parent)!r} is full: free some space and try again; {tail}")
    if found in BUSY:
        return StorageError(f"{path.name!r} was held by other processes for too long: try again; {tail}")
    if found in UNWRITABLE:
        return StorageError(
            f"The project in {str(path.parent)!r} cannot be written ({one_line(error)}): check permissions and space; "
            f"{tail}"
        )
    return StorageError(f"{path.name!r} refused the action ({one_line(error)}); {tail}")


def unreadable(path: Path, error: Exception) -> ProjectError:
    """Return in one sentence why the log cannot be read."""
    if code(error) in _BROKEN:
        return ProjectError(
            f"{path.name!r} is damaged ({one_line(error)}); put back a copy of the project, or recover the file with "
            f"'sqlite3 {path.name} .recover'."
        )
    return ProjectError(f"{path.name!r} cannot be read: {one_line(error)}.")


def put_aside(path: Path) -> str:
    """Rename the file of a log, and what SQLite keeps beside it, to a name with the time; return that name."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    kept = path.with_name(f"{path.stem}.before-{stamp}{path.suffix}")
    for ending in ("", "-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.rename(kept.with_name(kept.name + ending))
    return kept.name


# The tables of the log in SQLite, their versions, and the migration from each version to the next.
#
# Version 1 had neither the base generation nor the chain of digests; both came with version 2. Version 3 has leases of
# queries, and versions 3 and 4 have kinds of events that an older warpgauge does not know.

VERSION = 6
READABLE = 2  # the events of this version read the same
APPLICATION_ID = 0x57474C47  # "WGLG", so that `file` and we can tell the log from other databases
SELECT = f"SELECT {COLUMNS}, digest FROM events"  # nosec B608  # constants of this package
INSERT = f"INSERT INTO events ({COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # nosec B608  # constants only

_TABLE = """
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
) STRICT
"""
_LEASES = """
CREATE TABLE leases (
    query INTEGER NOT NULL,
    rater TEXT NOT NULL,
    until REAL NOT NULL,
    PRIMARY KEY (query, rater)
) STRICT
"""
# The database itself refuses to change or drop an event and to leave a gap, whoever writes.
TRIGGERS: dict[str, str] = {
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


def create(connection: sqlite3.Connection, project_id: str) -> None:
    """Make the tables of a new log."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")
    connection.execute("INSERT INTO meta VALUES ('project', ?)", (project_id,))
    _make_events(connection)
    connection.execute(_LEASES)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _make_events(connection: sqlite3.Connection) -> None:
    connection.execute(_TABLE)
    for trigger in TRIGGERS.values():
        connection.execute(trigger)


def version(connection: sqlite3.Connection, name: str) -> int:
    """Version of the log, after a check that it is one."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application != APPLICATION_ID or found < 1:
        raise ProjectError(f"{name!r} is an SQLite file, but not the annotation log of a warpgauge project.")
    if found > VERSION:
        raise ProjectError(
            f"{name!r} was written by a newer warpgauge (log version {found}, this one knows up to {VERSION}); "
            f"install the newer warpgauge to open this project."
        )
    if found >= READABLE:
        _check_objects(connection, name)
    return found


def _check_objects(connection: sqlite3.Connection, name: str) -> None:
    """Refuse a log whose tables are views, or that has triggers of others: a view can be endless, a trigger can lie."""
    for kind, title, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        plain = "".join(str(text).split()).lower().replace('"', "")
        if kind == "table" and title == "events":
            sound = plain == "".join(_TABLE.split()).lower()
        elif kind == "table":
            sound = plain.startswith(f"createtable{title.lower()}(") and "generatedalways" not in plain
        else:
            sound = kind == "index" or (kind == "trigger" and title in TRIGGERS)
        if not sound:
            raise ProjectError(
                f"{name!r} has the {kind} {str(title)[:40]!r}, which no annotation log has; put back a copy of it."
            )
    found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"events", "meta"} <= found:
        raise ProjectError(f"{name!r} lacks the tables of an annotation log; put back a copy of it.")


def trigger_problems(connection: sqlite3.Connection) -> list[str]:
    """Return which triggers are missing or changed, one sentence each."""
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall())
    return [
        f"The trigger {name!r} of the log is missing or changed, so that events may have been altered."
        for name, text in TRIGGERS.items()
        if "".join(found.get(name, "").split()) != "".join(text.split())
    ]


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring an older log to this version, in one transaction; a copy is put beside it where events are rewritten."""
    found = version(connection, path.name)
    if found == VERSION:
        return
    kept = path.with_name(f"{path.stem}.version{found}{path.suffix}")
    if found < READABLE and not kept.exists():
        with sqlite3.connect(kept) as backup:
            connection.backup(backup)
        backup.close()
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated it while this one waited for the lock.
        found = version(connection, path.name)
        for step in range(found, VERSION):
            _STEPS[step](connection)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _from_1_to_2(connection: sqlite3.Connection) -> None:
    """Add the base generation (unknown) and the chain of digests; the rows are written anew into a new table."""
    connection.execute("ALTER TABLE events RENAME TO events_1")
    triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (trigger,) in triggers:
        connection.execute(f'DROP TRIGGER "{trigger}"')
    _make_events(connection)
    digest = ""
    rows = connection.execute(
        "SELECT generation, time, rater, kind, query, duration, NULL, payload FROM events_1 ORDER BY generation"
    ).fetchall()
    for row in rows:
        digest = chained(digest, row)
        connection.execute(INSERT, (*row, digest))
    connection.execute("DROP TABLE events_1")


def _from_2_to_3(connection: sqlite3.Connection) -> None:
    """Add the leases; the events stay as they are."""
    connection.execute(_LEASES)


def _from_3_to_4(_: sqlite3.Connection) -> None:
    """Change nothing: the version keeps out an older warpgauge, which cannot read the proposals of Snap."""


def _from_4_to_5(_: sqlite3.Connection) -> None:
    """Change nothing: the version keeps out an older warpgauge, which does not know seals, references and doubts."""


def _from_5_to_6(_: sqlite3.Connection) -> None:
    """Change nothing: the version keeps out an older warpgauge, which does not know areas that were drawn."""


_STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {
    1: _from_1_to_2,
    2: _from_2_to_3,
    3: _from_3_to_4,
    4: _from_4_to_5,
    5: _from_5_to_6,
}


def take_lease(
    connection: sqlite3.Connection, rater: str, wanted: Sequence[tuple[int, int]], seconds: float
) -> int | None:
    """Reserve the first query with room for a rater, who gives up any other; within a transaction."""
    moment = time.time()
    connection.execute("DELETE FROM leases WHERE rater = ? OR until <= ?", (rater, moment))
    held = dict(connection.execute("SELECT query, COUNT(*) FROM leases GROUP BY query").fetchall())
    free = next((query for query, most in wanted if held.get(query, 0) < most), None)
    if free is not None:
        connection.execute("INSERT INTO leases VALUES (?, ?, ?)", (free, rater, moment + seconds))
    return free
