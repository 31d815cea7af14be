"""Where the log of a project is kept: one class for each kind of store.

Each answers for what differs: what the document names, how a log is opened and made there, what that reaches outside
the project's folder, and how a lost log is rebuilt.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.project.chain import Row
from warpgauge.project.document import Document
from warpgauge.project.errors import ProjectError
from warpgauge.project.event_log import EventLog
from warpgauge.project.log_head import Head, write_head
from warpgauge.project.postgres_connection import VARIABLE, address_in_force, is_address, shown_address, stored_address
from warpgauge.project.recovery import Lost, Recovery, recover_file
from warpgauge.project.sqlite_log import FILE, SqliteLog

SQLITE = "sqlite"


class LogStore(ABC):
    """Where the log of one project is kept.

    Attributes
    ----------
    address : str or None
        What ``project.json`` names; None for a file in the project's folder.
    outside : tuple of str
        What opening it reaches outside the project's folder.
    """

    address: str | None = None
    outside: tuple[str, ...] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """Where that is, for sentences; never a password."""

    def file(self, folder: Path) -> Path | None:
        """Return the file of the project's folder that the log is in, if it is in one."""
        return None

    @abstractmethod
    def open(self, folder: Path, project_id: str) -> EventLog:
        """Open the log of the project in a folder."""

    @abstractmethod
    def create(self, folder: Path, project_id: str, rows: Sequence[Row] = ()) -> None:
        """Make a log with these rows."""

    @abstractmethod
    def recover(self, lost: Lost) -> Recovery:
        """Rebuild the log from what can be read of it and from a mirror; nothing is deleted."""


class FileStore(LogStore):
    """A SQLite file in the project's folder."""

    @property
    def name(self) -> str:
        """Where that is, for sentences."""
        return f"the file {FILE!r}"

    def file(self, folder: Path) -> Path:
        """Return the file."""
        return folder / FILE

    def open(self, folder: Path, project_id: str) -> EventLog:
        """Open the file."""
        return SqliteLog(folder / FILE)

    def create(self, folder: Path, project_id: str, rows: Sequence[Row] = ()) -> None:
        """Write a file aside, and put it in its place when it is complete."""
        fresh = folder / f"{FILE}.new"
        SqliteLog.create(fresh, project_id, rows)
        fresh.rename(folder / FILE)
        if rows:
            last = rows[-1]
            write_head(folder / FILE, Head(int(last[0]), str(last[-1]), str(last[1])), backwards=True)

    def recover(self, lost: Lost) -> Recovery:
        """Rebuild the file; the former one stays beside it."""
        return recover_file(lost.folder / FILE, lost)


class DatabaseStore(LogStore):
    """Tables of a PostgreSQL database, which several hosts share.

    Parameters
    ----------
    address : str
        As ``project.json`` names it, without a password.
    target : str, optional
        As a person gave it; the password in it is used to make a log, and not kept.
    """

    def __init__(self, address: str, target: str | None = None) -> None:
        self.address: str = address
        self._target = target or address
        # A database that the variable names is this person's own choice.
        self.outside = () if os.environ.get(VARIABLE) else (address,)

    @property
    def name(self) -> str:
        """Where that is, for sentences."""
        return f"the database {shown_address(self.address)}"

    @property
    def _in_force(self) -> str:
        return address_in_force(stored_address(self.address))

    def open(self, folder: Path, project_id: str) -> EventLog:
        """Connect to the database."""
        from warpgauge.project.postgres_log import PostgresLog

        return PostgresLog(self._in_force, project_id, folder)

    def create(self, folder: Path, project_id: str, rows: Sequence[Row] = ()) -> None:
        """Store rows in the database."""
        from warpgauge.project.postgres_schema import store_rows

        store_rows(self._target, project_id, rows)

    def recover(self, lost: Lost) -> Recovery:
        """Add the events that the database lacks and the mirror has; those that it holds are never changed."""
        from warpgauge.project.postgres_schema import store_rows, stored_rows

        theirs, where = lost.mirrored, shown_address(self._in_force)
        if theirs is None:
            raise InvalidInputError(
                "The log of this project is in a database: give --mirror with the folder of annotate --mirror, or put "
                "a backup of the database back."
            )
        ours = stored_rows(self._in_force, lost.project_id)
        for one, other in zip(ours, theirs, strict=False):
            if one[-1] != other[-1]:
                raise ProjectError(
                    f"Event {one[0]} in the database {where} is another one than in the mirror, so nothing was "
                    f"changed: name an empty database in {VARIABLE} to rebuild the log of the mirror there."
                )
        if len(theirs) <= len(ours):
            return Recovery(len(ours), len(ours), 0, 0, "", where)
        lost.check(theirs)
        store_rows(self._in_force, lost.project_id, theirs)
        return Recovery(len(theirs), len(ours), len(theirs) - len(ours), 0, "", where)


def store_of(document: Document) -> LogStore:
    """Return where the log of a project is kept."""
    return FileStore() if document.database is None else DatabaseStore(document.database)


def store_at(target: str | None) -> LogStore:
    """Return the store that a person names: an address ``postgresql://user@host/name``, or None for a file."""
    return FileStore() if target is None else DatabaseStore(stored_address(target), target)


def store_named(target: str) -> LogStore:
    """Return the store that the command line names: an address, or ``"sqlite"`` for a file."""
    if target != SQLITE and not is_address(target):
        raise InvalidInputError(f"A log can be copied to postgresql://user@host/name or to {SQLITE!r}, got {target!r}.")
    return store_at(None if target == SQLITE else target)
