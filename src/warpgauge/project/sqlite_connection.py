"""Opening the file of a log in SQLite, and the sentences that its errors become."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.project.errors import ProjectError, StorageError

_WAIT_STEP = 0.25  # seconds within SQLite's own waiting, between which we look at the clock
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL,
               sqlite3.SQLITE_IOERR)  # fmt: skip
ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite quotes damaged bytes in its message
_LONGEST = 64 * 2**20  # bytes of a value: a log of somebody else may hold texts that fill the memory
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def code(error: Exception) -> int:
    """Primary result code; extended codes keep it in their low byte."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def open_file(path: Path, options: str) -> sqlite3.Connection:
    """Open the file with options of a URI, such as ``mode=rw``."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=_WAIT_STEP,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    return connection


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
    """Give the file of a log, and what SQLite keeps beside it, a name with the time; return that name."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    kept = path.with_name(f"{path.stem}.before-{stamp}{path.suffix}")
    for ending in ("", "-wal", "-shm"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.rename(kept.with_name(kept.name + ending))
    return kept.name
