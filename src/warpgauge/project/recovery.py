"""Rebuilding a log that was damaged, cut or replaced: from what can still be read of it, and from a mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line, sync_folder
from warpgauge.io.inside import Inside
from warpgauge.project import sqlite_schema as schema
from warpgauge.project.chain import Row, chained
from warpgauge.project.errors import ProjectError
from warpgauge.project.log_head import Head, newest, read_head, write_head
from warpgauge.project.mirror import EVENTS, read_mirror
from warpgauge.project.sqlite_log import SqliteLog
from warpgauge.project.sqlite_schema import SELECT, put_aside
from warpgauge.project.witness import Witness


@dataclass(frozen=True)
class Recovery:
    """Result of a recovery.

    Attributes
    ----------
    events : int
        In the log now.
    from_log, from_mirror : int
        Where they came from.
    lost : int
        Events that had been acknowledged and are in neither.
    kept : str
        Name of the former log, kept beside the new one; empty where there was nothing to do, and for a database.
    database : str
        The address, without a password, of the database that holds the log; empty for a file.
    """

    events: int
    from_log: int
    from_mirror: int
    lost: int
    kept: str
    database: str = ""


@dataclass(frozen=True)
class Lost:
    """A log that is to be rebuilt.

    Attributes
    ----------
    folder, project_id
        Of the project.
    mirrored : list of Row or None
        What a mirror has, where there is one.
    accept_loss : bool
        Whether to go on where acknowledged events are in neither.
    check : callable
        Replays rows, and raises where that is impossible.
    """

    folder: Path
    project_id: str
    mirrored: list[Row] | None
    accept_loss: bool
    check: Callable[[list[Row]], None]


def recover_file(log: Path, wanted: Lost) -> Recovery:
    """Rebuild the file of a log; see `warpgauge.project.integrity.recover_project`."""
    ours, theirs = readable_rows(log), wanted.mirrored or []
    common = min(len(ours), len(theirs))
    if common and ours[common - 1][-1] != theirs[common - 1][-1]:
        common = next((i for i in range(common) if ours[i][-1] != theirs[i][-1]), common)
        ours = ours[:common]  # the log was replaced by another one: the mirror holds what was acknowledged
    rows = theirs if len(theirs) > len(ours) else ours
    wanted.check(rows)
    witness = Witness(log.parent, wanted.project_id)
    head = newest(read_head(log), witness.head())
    lost = _lost(head, rows)
    if lost and not wanted.accept_loss:
        raise ProjectError(
            f"{lost} acknowledged events (up to number {head.generation if head else 0}) are neither in the log nor in "
            f"the mirror; put back a newer copy, give --mirror, or accept the loss with --accept-loss."
        )
    if lost == 0 and _is_whole(log, rows):
        return Recovery(len(rows), len(rows), 0, 0, "")
    kept = _replaced(log, wanted.project_id, rows)
    last = rows[-1] if rows else (0, "", "")
    now = Head(int(last[0]), str(last[-1]), str(last[1]))
    write_head(log, now, backwards=True)
    witness.record(now, backwards=True)
    return Recovery(len(rows), min(len(ours), len(rows)), max(0, len(rows) - len(ours)), lost, kept)


def mirror_rows(mirror: Path, project_id: str) -> list[Row]:
    """Return the rows of a project's mirror in a folder of mirrors, or in its own."""
    for file in (Inside(mirror, f"{project_id}/{EVENTS}", "mirror").path, mirror / EVENTS):
        if file.is_file():
            return read_mirror(file)
    raise InvalidInputError(f"There is no mirror of this project in {str(mirror)!r}; check the path.")


def _lost(head: Head | None, rows: list[Row]) -> int:
    if head is None or head.generation == 0:
        return 0
    if len(rows) < head.generation:
        return head.generation - len(rows)
    return 0 if rows[head.generation - 1][-1] == head.digest else 1


def readable_rows(log: Path) -> list[Row]:
    """Return the leading events that can be read and whose digests fit; none where the file is lost."""
    rows: list[Row] = []
    if not log.is_file():
        return rows
    connection = schema.open_file(log, "mode=rw")
    digest = ""
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        schema.version(connection, log.name)
        while True:
            row = connection.execute(f"{SELECT} WHERE generation = ?", (len(rows) + 1,)).fetchone()
            if row is None:
                break
            digest = chained(digest, row[:-1])
            if digest != row[-1]:
                break
            rows.append(row)
    except (sqlite3.Error, WarpgaugeError, TypeError, ValueError):
        pass  # what was read until here is what can be read
    finally:
        connection.close()
    return rows


def _is_whole(log: Path, rows: list[Row]) -> bool:
    try:
        opened = SqliteLog(log)
    except WarpgaugeError:
        return False
    try:
        with opened.reading() as connection:
            sound = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)")] == ["ok"]
            count = connection.execute("SELECT COUNT(*) FROM events").fetchone()[0]
        return sound and count == len(rows)
    except WarpgaugeError:
        return False
    finally:
        opened.close()


def _replaced(log: Path, project_id: str, rows: list[Row]) -> str:
    """Write a new log beside the old one, and exchange them at the end."""
    fresh = log.with_name(f"{log.name}.new")
    try:
        SqliteLog.create(fresh, project_id, rows)
        kept = put_aside(log)
        fresh.rename(log)
        sync_folder(log.parent)
    except (OSError, sqlite3.Error) as error:
        raise ProjectError(f"The log could not be rebuilt ({one_line(error)}); nothing was deleted.") from error
    return kept
