"""Where the log of a project is kept: a file of its folder, or a database; and its way from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.project import postgres
from warpgauge.project.document import Document, read_document, write_document
from warpgauge.project.errors import ProjectError
from warpgauge.project.log import FILE, MEND, FileLog, Log, Row, unbroken
from warpgauge.project.permission import check_permission, permit_new

SQLITE = "sqlite"


def open_log(folder: Path, document: Document) -> Log:
    """Open the log of a project."""
    if document.database is None:
        return FileLog(folder / FILE)
    return postgres.DatabaseLog(postgres.address_in_force(document.database), document.id)


def create_log(folder: Path, project_id: str, database: str | None, rows: Sequence[Row] = ()) -> None:
    """Make a log with these rows in a database, or in a file of the folder, which must not be there yet."""
    if database is None:
        FileLog.create(folder / FILE, project_id, rows)
    else:
        postgres.store_rows(database, project_id, rows)


def _shown(database: str | None) -> str:
    return f"the file {FILE!r}" if database is None else postgres.shown_address(database)


@dataclass(frozen=True)
class Copied:
    """What was copied: the number of events, from where to where, and what the former log is called now."""

    events: int
    source: str
    target: str
    kept: str


def copy_log(folder: Path, target: str) -> Copied:
    """Copy the log of a project to another store and use it from there; the former one is kept, read-only.

    ``target`` is ``postgresql://user@host/name``, or ``"sqlite"`` for a file in the project's folder.
    """
    if target != SQLITE and not postgres.is_address(target):
        raise InvalidInputError(f"A log can be copied to postgresql://user@host/name or to {SQLITE!r}, got {target!r}.")
    document = read_document(folder)
    check_permission(folder, document, None)
    database = None if target == SQLITE else postgres.stored_address(target)
    if database == document.database:
        raise InvalidInputError(f"The log of {folder.name!r} is in {_shown(database)} already.")
    if database is None and (folder / FILE).exists():
        raise InvalidInputError(f"There is a file {FILE!r} in {str(folder)!r} already; move it away first.")
    changed = document.model_copy(update={"database": database})
    source, events = open_log(folder, document), 0

    def take(rows: Sequence[Row]) -> None:
        nonlocal events
        events = len(list(unbroken(rows)))
        if events < len(rows):
            raise ProjectError(f"Event {events + 1} of the log is damaged, so nothing was copied; {MEND}.")
        # The password in the address as it was given is used to make the log, and not kept.
        create_log(folder, document.id, None if database is None else target, rows)
        write_document(folder, changed)

    try:
        if source.project_id != document.id:
            raise ProjectError("The annotation log belongs to another project than project.json; nothing was copied.")
        kept = source.retire(take, _shown(database))
    except BaseException:
        if read_document(folder).database != document.database:  # it failed after the last step: take that back
            write_document(folder, document)
        if database is None:
            (folder / FILE).unlink(missing_ok=True)
        raise
    finally:
        source.close()
    permit_new(folder, changed)
    return Copied(events, _shown(document.database), _shown(database), kept)
