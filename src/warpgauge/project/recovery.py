"""Rebuilding a log that was damaged, cut or replaced: from what can still be read of it, and from a mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line, sync_folder
from warpgauge.project import postgres
from warpgauge.project.document import read_document
from warpgauge.project.errors import ProjectError, project_content
from warpgauge.project.events import read_events, replay
from warpgauge.project.log import (
    FILE,
    SELECT,
    FileLog,
    Row,
    check_alone,
    check_schema,
    connected,
    lost_end,
    put_aside,
    unbroken,
)
from warpgauge.project.mirror import read_mirror
from warpgauge.project.own_state import LastEvent, Witness
from warpgauge.project.permission import check_permission


@dataclass(frozen=True)
class Recovery:
    """Result of a recovery."""

    events: int
    """In the log now."""
    from_log: int
    from_mirror: int
    lost: int
    """Events that had been acknowledged and are in neither."""
    kept: str
    """Name of the former log, kept beside the new one; empty where there was nothing to do, and for a database."""
    database: str = ""
    """The database that holds the log, for sentences; empty for a file."""


def recover_project(folder: Path, mirror: Path | None = None, *, accept_loss: bool = False) -> Recovery:
    """Rebuild the log of a project; nothing is deleted, the former log stays beside the new one.

    A log in a database gets what it lacks from the mirror; an empty database gets all of it. ``mirror`` is the folder
    that was given to ``annotate --mirror``, or one project's folder in it. Where acknowledged events are in neither,
    that is an error and nothing is changed, unless ``accept_loss``.
    """
    document = read_document(folder)
    check_permission(folder, document, None)
    mirrored = None if mirror is None else read_mirror(mirror, document.id)

    def check(rows: list[Row]) -> None:
        with project_content("The recovered log", "use another copy"):
            replay(read_events(rows), document.images["fixed"].grid.d)

    if document.database is None:
        return _recover_file(folder, document.id, mirrored or [], accept_loss, check)
    if mirrored is None:
        raise InvalidInputError(
            "The log of this project is in a database: give --mirror with the folder of annotate --mirror, or put a "
            "backup of the database back."
        )
    address = postgres.address_in_force(document.database)
    stored = postgres.stored_rows(address, document.id)
    if len(mirrored) > len(stored):
        check(mirrored)
        postgres.store_rows(address, document.id, mirrored)
    else:
        postgres.check_same(mirrored, stored, address)
    events = max(len(mirrored), len(stored))
    return Recovery(events, len(stored), events - len(stored), 0, "", postgres.named_address(address))


def _recover_file(
    folder: Path, project_id: str, mirrored: list[Row], accept_loss: bool, check: Callable[[list[Row]], None]
) -> Recovery:
    log = folder / FILE
    rows = _readable_rows(log)
    if any(one[-1] != other[-1] for one, other in zip(rows, mirrored, strict=False)):
        rows = []  # the log was replaced by another one: the mirror holds what was acknowledged
    readable = len(rows)
    rows = max(rows, mirrored, key=len)
    check(rows)
    witness = Witness(folder, project_id)
    acknowledged = witness.last_event()
    lost = 0
    if acknowledged is not None and lost_end(acknowledged, rows) is not None:
        lost = max(1, acknowledged.generation - len(rows))
        if not accept_loss:
            raise ProjectError(
                f"{lost} acknowledged events (up to number {acknowledged.generation}) are neither in the log nor in "
                f"the mirror; put back a newer copy, give --mirror, or accept the loss with --accept-loss."
            )
    if lost == 0 and _is_whole(log, rows):
        return Recovery(len(rows), len(rows), 0, 0, "")
    kept = _replaced(log, project_id, rows)
    generation, time, *_, digest = rows[-1] if rows else (0, "", "")
    witness.record(LastEvent(generation, digest, time), backwards=True)
    return Recovery(len(rows), readable, len(rows) - readable, lost, kept)


def _readable_rows(log: Path) -> list[Row]:
    """Return the leading events that can be read and whose digests fit; none where the file is lost."""
    rows: list[Row] = []
    if not log.is_file():
        return rows
    check_alone(log)
    try:
        with ExitStack() as stack:
            connection = connected(log, "rw", stack, FileLog.busy_seconds)
            check_schema(connection, log.name)
            rows.extend(unbroken(connection.execute(SELECT, (0,))))  # what comes before an error stays
    except (sqlite3.Error, WarpgaugeError, UnicodeDecodeError):
        pass  # what was read until here is what can be read
    return rows


def _is_whole(log: Path, rows: list[Row]) -> bool:
    try:
        opened = FileLog(log)
        return not opened.problems() and opened.read() == rows
    except WarpgaugeError:
        return False


def _replaced(log: Path, project_id: str, rows: list[Row]) -> str:
    """Write a new log beside the old one, and exchange them at the end."""
    fresh = log.with_name(f"{log.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        FileLog.create(fresh, project_id, rows)
        kept = put_aside(log)
        fresh.rename(log)
        sync_folder(log.parent)
    except (OSError, sqlite3.Error) as error:
        raise ProjectError(f"The log could not be rebuilt ({one_line(error)}); nothing was deleted.") from error
    return kept
