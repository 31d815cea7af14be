"""Which store holds the log of a project, and copying it from one to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.project.document import Document, read_document, write_document
from warpgauge.project.errors import ProjectError
from warpgauge.project.event_log import EventLog, Row
from warpgauge.project.postgres_connection import address_in_force, is_address, shown_address, stored_address
from warpgauge.project.safeguards import Head, write_head
from warpgauge.project.sqlite_log import FILE, SqliteLog
from warpgauge.project.trust import check_trust, trust_new
from warpgauge.project.values import chained

SQLITE = "sqlite"


def open_log(folder: Path, document: Document) -> EventLog:
    """Open the log of the project in a folder."""
    if document.database is None:
        return SqliteLog(folder / FILE)
    from warpgauge.project.postgres_log import PostgresLog

    return PostgresLog(address_in_force(stored_address(document.database)), document.id, folder)


@dataclass(frozen=True)
class Copied:
    """What was copied: the number of events, from where to where, and what the former log is called now."""

    events: int
    source: str
    target: str
    kept: str


def copy_log(folder: Path, target: str) -> Copied:
    """Copy the log of a project to another store and use it from there; the former one is kept but takes no more.

    Parameters
    ----------
    folder : Path
        Of the project.
    target : str
        ``postgresql://user@host/name``, or ``"sqlite"`` for a file in the project's folder.
    """
    document = read_document(folder)
    check_trust(folder, document, None)
    address = None if target == SQLITE else stored_address(target) if is_address(target) else ""
    if address == "":
        raise InvalidInputError(f"A log can be copied to postgresql://user@host/name or to {SQLITE!r}, got {target!r}.")
    if address == document.database:
        raise InvalidInputError(f"The log of {folder.name!r} is in {_name(address)} already.")
    if address is None and (folder / FILE).exists():
        raise InvalidInputError(f"There is a file {FILE!r} in {str(folder)!r} already; move it away first.")
    changed = replace(document, database=address)
    copied = 0

    def take(rows: Sequence[Row]) -> None:
        nonlocal copied
        copied = _check_chain(rows)
        if address is None:
            _to_sqlite(folder, document.id, rows)
        else:
            from warpgauge.project.postgres_schema import store_rows

            store_rows(target, document.id, rows)
        write_document(folder, changed)

    source = open_log(folder, document)
    try:
        if source.project_id != document.id:
            raise ProjectError("The annotation log belongs to another project than project.json; nothing was copied.")
        kept = source.retire(take, _name(address))
    except BaseException:
        if read_document(folder).database != document.database:  # it failed after the last step: take that back
            write_document(folder, document)
            if address is None:
                (folder / FILE).unlink(missing_ok=True)
        raise
    finally:
        source.close()
    trust_new(folder, changed)
    return Copied(copied, _name(document.database), _name(address), kept)


def _name(address: str | None) -> str:
    return f"the file {FILE!r}" if address is None else f"the database {shown_address(address)}"


def _check_chain(rows: Sequence[Row]) -> int:
    digest = ""
    for number, row in enumerate(rows, start=1):
        digest = chained(digest, row[:-1])
        if row[0] != number or row[-1] != digest:
            raise ProjectError(
                f"Event {number} of the log is damaged, so nothing was copied; run warpgauge verify, and warpgauge "
                f"recover where there is a mirror."
            )
    return len(rows)


def _to_sqlite(folder: Path, project_id: str, rows: Sequence[Row]) -> None:
    """Write a file aside, and put it in its place when it is complete."""
    fresh = folder / f"{FILE}.new"
    SqliteLog.create(fresh, project_id, rows)
    fresh.rename(folder / FILE)
    last = rows[-1] if rows else (0, "", "")
    write_head(folder / FILE, Head(int(last[0]), str(last[-1]), str(last[1])), backwards=True)
