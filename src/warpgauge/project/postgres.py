"""The log in PostgreSQL, for servers on several hosts: one database holds any number of projects.

`DatabaseLog` is the same log as the one in a file, with another connection: a writer holds the project's advisory lock
from before it reads the last event until it has committed. A commit whose answer was lost with the connection is looked
up, under the lock, before anything is said about it.

A password is never stored: PostgreSQL's library takes it from `PGPASSWORD`, from a passfile (``~/.pgpass``), or from
the address in the variable `WARPGAUGE_DATABASE`, which replaces the stored one.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, urlencode

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line, require
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.log import COLUMNS, Log, Row

VARIABLE = "WARPGAUGE_DATABASE"
SCHEMES = ("postgresql://", "postgres://")
# What a stored address may say; anything else could make the library read other files of the person who opens it.
_STORED = ("user", "host", "port", "dbname", "sslmode")
# A host that has vanished is noticed within about half a minute.
_PATIENCE = {"connect_timeout": 5, "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5,
             "keepalives_count": 3}  # fmt: skip
CONFIRM_SECONDS, _PAUSE = 10.0, 0.5
_MOST_IDLE = 4  # connections that wait for the next request

# Addresses.


def is_address(text: str) -> bool:
    """Return whether a text is the address of a PostgreSQL database."""
    return text.startswith(SCHEMES)


def _parts(address: str) -> dict[str, Any]:
    psycopg = require("psycopg", "postgres")
    if not is_address(address):
        raise InvalidInputError(
            f"The address of a database must begin with postgresql://, got {address.partition('@')[2][:40]!r}."
        )
    try:
        parts = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidInputError(
            f"The address of the database cannot be understood ({one_line(error)}); it looks like "
            f"postgresql://user@host:5432/name."
        ) from error
    return {key: value for key, value in parts.items() if value not in (None, "")}


def stored_address(address: str) -> str:
    """Return an address as ``project.json`` may keep it: where the database is, without the password."""
    parts = _parts(address)
    unknown = sorted(set(parts) - {*_STORED, "password"})
    if unknown:
        raise InvalidInputError(
            f"The address of the database says {unknown[0]!r}, which is not kept in a project; give only "
            f"{', '.join(_STORED)}, and the rest by the variables of PostgreSQL or by {VARIABLE}."
        )
    if "dbname" not in parts:
        raise InvalidInputError("The address names no database; it looks like postgresql://user@host:5432/name.")
    user = f"{quote(str(parts['user']), safe='')}@" if "user" in parts else ""
    query = {key: parts[key] for key in ("sslmode",) if key in parts}
    host = str(parts.get("host", ""))
    if "/" in host or "," in host or "," in str(parts.get("port", "")):
        query |= {key: parts[key] for key in ("host", "port") if key in parts}
        place = ""
    else:
        place = f"[{host}]" if ":" in host else host
        place += f":{parts['port']}" if "port" in parts else ""
    tail = f"?{urlencode(query, safe='/,')}" if query else ""
    return f"postgresql://{user}{place}/{quote(str(parts['dbname']), safe='')}{tail}"


def shown_address(address: str) -> str:
    """Return where a database is, for a sentence; never its password."""
    parts = _parts(address)
    return f"the database {parts.get('dbname', '?')} at {parts.get('host', 'this machine')}"


def named_address(address: str) -> str:
    """Return where a database is, to begin a sentence with."""
    return f"The {shown_address(address).removeprefix('the ')}"


def address_in_force(stored: str) -> str:
    """Return the address to connect to: that of the variable `WARPGAUGE_DATABASE` where it is set."""
    return os.environ.get(VARIABLE) or stored_address(stored)


# Connections, which wait for the next request. A child that was forked leaves those of its parent alone.

_idle: dict[tuple[str, int], list[Any]] = {}
_lock = threading.Lock()


@contextmanager
def connection_to(address: str) -> Iterator[Any]:
    """Yield a connection for one transaction; errors of PostgreSQL's library are passed on."""
    connection = _waiting(address) or _connect(address)
    try:
        yield connection
    finally:
        ready = not connection.closed and connection.info.transaction_status == 0
        with _lock:
            waiting = _idle.setdefault((address, os.getpid()), [])
            ready = ready and len(waiting) < _MOST_IDLE
            if ready:
                waiting.append(connection)
        if not ready:
            connection.close()


def _waiting(address: str) -> Any:
    """Return a connection that waits and is still good, or None."""
    while True:
        with _lock:
            waiting = _idle.get((address, os.getpid()))
            connection = waiting.pop() if waiting else None
        if connection is None:
            return None
        with suppress(require("psycopg", "postgres").Error):
            connection.execute("SELECT 1")  # which fails where it was cut meanwhile
            return connection
        connection.close()


def _connect(address: str) -> Any:
    psycopg = require("psycopg", "postgres")
    connection = psycopg.connect(**{"application_name": "warpgauge", **_PATIENCE, **_parts(address)}, autocommit=True)
    # A lost host must not hold others up.
    connection.execute(
        "SET idle_in_transaction_session_timeout = 20000; SET client_min_messages = warning; "
        "SET synchronous_commit = on"
    )
    return connection


# The tables. The database itself refuses to change or drop an event, to leave a gap, and to write to a project that was
# copied elsewhere, whoever writes.

VERSION = 5
_SELECT = f"SELECT {COLUMNS} FROM warpgauge.events WHERE project = %s AND generation > %s ORDER BY generation"  # nosec B608  # constants only
_INSERT = f"INSERT INTO warpgauge.events (project, {COLUMNS}) VALUES ({', '.join(['%s'] * 10)})"  # nosec B608  # constants only
_TABLES = """
CREATE SCHEMA IF NOT EXISTS warpgauge;
CREATE TABLE warpgauge.meta (version integer NOT NULL);
CREATE TABLE warpgauge.projects (
    id text PRIMARY KEY,
    created timestamptz NOT NULL DEFAULT now(),
    moved text
);
CREATE TABLE warpgauge.events (
    project text NOT NULL REFERENCES warpgauge.projects (id),
    generation bigint NOT NULL CHECK (generation > 0),
    time text NOT NULL,
    rater text NOT NULL,
    kind text NOT NULL,
    query bigint,
    duration double precision,
    base_generation bigint,
    payload text NOT NULL,
    digest text NOT NULL,
    PRIMARY KEY (project, generation)
);
"""
_REFUSE = """
BEGIN
    RAISE EXCEPTION 'events are never changed or deleted';
END
"""
_NEXT = """
DECLARE
    place text;
    last bigint;
BEGIN
    SELECT moved INTO place FROM warpgauge.projects WHERE id = NEW.project;
    IF place IS NOT NULL THEN
        RAISE EXCEPTION 'the project was copied to % and is used from there', place;
    END IF;
    SELECT COALESCE(MAX(generation), 0) INTO last FROM warpgauge.events WHERE project = NEW.project;
    IF NEW.generation <> last + 1 THEN
        RAISE EXCEPTION 'generations have no gaps';
    END IF;
    RETURN NEW;
END
"""
_FUNCTIONS = {"refuse_change": _REFUSE, "check_next": _NEXT}
# Name: when, and the function.
_TRIGGERS = {
    "events_are_never_changed": ("BEFORE UPDATE OR DELETE ON warpgauge.events FOR EACH ROW", "refuse_change"),
    "events_are_never_dropped": ("BEFORE TRUNCATE ON warpgauge.events FOR EACH STATEMENT", "refuse_change"),
    "generations_have_no_gaps": ("BEFORE INSERT ON warpgauge.events FOR EACH ROW", "check_next"),
}


def lock_key(name: str) -> int:
    """Return the number of the advisory lock of a project, or of the tables themselves."""
    return int.from_bytes(hashlib.sha256(f"warpgauge {name}".encode()).digest()[:8], "big", signed=True)


def _has_tables(connection: Any) -> bool:
    """Return whether the tables are there; raise where they are of another version."""
    if connection.execute("SELECT to_regclass('warpgauge.meta')").fetchone()[0] is None:
        return False
    version = int(connection.execute("SELECT version FROM warpgauge.meta").fetchone()[0])
    if version != VERSION:
        raise ProjectError(
            f"The tables of the database were made by a{' newer' if version > VERSION else 'n older'} warpgauge "
            f"(version {version}, this one reads {VERSION}); use that version, or another database."
        )
    return True


def _make_tables(connection: Any) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(""),))
    if _has_tables(connection):  # another process may have made them meanwhile
        return
    connection.execute(_TABLES)
    for name, body in _FUNCTIONS.items():
        connection.execute(
            f"CREATE FUNCTION warpgauge.{name}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog "
            f"AS $body${body}$body$"
        )
    for name, (when, function) in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION warpgauge.{function}()")
    connection.execute("INSERT INTO warpgauge.meta VALUES (%s)", (VERSION,))


def stored_rows(address: str, project_id: str) -> list[Row]:
    """Return the events of a project in a database; none where it does not hold the project."""
    psycopg = require("psycopg", "postgres")
    try:
        with _connect(address) as connection:
            return connection.execute(_SELECT, (project_id, 0)).fetchall() if _has_tables(connection) else []
    except psycopg.Error as error:
        raise StorageError(f"{named_address(address)} cannot be read ({one_line(error)}).") from error


def store_rows(address: str, project_id: str, rows: Sequence[Row]) -> None:
    """Store the events of a project, all or none; those that the database has must be the same.

    The tables are made where they are missing.
    """
    psycopg = require("psycopg", "postgres")
    try:
        with _connect(address) as connection, connection.transaction():
            if not _has_tables(connection):
                _make_tables(connection)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(project_id),))
            stored = connection.execute(_SELECT, (project_id, 0)).fetchall()
            check_same(stored, rows, address)
            connection.execute(
                "INSERT INTO warpgauge.projects (id) VALUES (%s) ON CONFLICT (id) DO UPDATE SET moved = NULL",
                (project_id,),
            )
            with connection.cursor() as cursor:
                cursor.executemany(_INSERT, [(project_id, *row) for row in rows[len(stored) :]])
    except psycopg.Error as error:
        raise StorageError(
            f"The log could not be stored in {shown_address(address)} ({one_line(error)}); nothing was changed."
        ) from error


def check_same(stored: Sequence[Row], rows: Sequence[Row], address: str) -> None:
    """Refuse events of a database that are not the first ones of these rows."""
    for number, row in enumerate(stored):
        if number >= len(rows) or row[-1] != rows[number][-1]:
            raise ProjectError(
                f"Event {number + 1} in {shown_address(address)} is another one than here, so nothing was changed: two "
                f"copies of the project went on apart."
            )


class DatabaseLog(Log):
    """The log of one project in a database, at the address ``postgresql://...``."""

    def __init__(self, address: str, project_id: str) -> None:
        super().__init__(project_id, None)
        self.address = address
        self._error = require("psycopg", "postgres").Error
        self._sent: list[Row] = []  # what a transaction has written that is to be committed
        with self._reading() as connection:
            project = None
            if _has_tables(connection):
                rows = connection.execute("SELECT moved FROM warpgauge.projects WHERE id = %s", (project_id,))
                project = rows.fetchone()
        if project is None:
            raise ProjectError(
                f"{self.name} does not hold this project; copy it there with warpgauge copy, or check the address in "
                f"project.json."
            )

    @property
    def name(self) -> str:
        """Where it is, for sentences."""
        return named_address(self.address)

    @property
    def readonly(self) -> bool:
        """False: what a role may not do is said when it tries."""
        return False

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        try:
            with connection_to(self.address) as connection:
                yield connection
        except self._error as error:
            raise StorageError(
                f"{self.name} cannot be read now ({one_line(error)}); nothing was changed: try again in a moment. A "
                f"password is taken from PGPASSWORD or a passfile."
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        self._sent = []
        try:
            with connection_to(self.address) as connection, connection.transaction():
                connection.execute(
                    f"SET LOCAL lock_timeout = {int(1000 * self.busy_seconds)}; "
                    f"SELECT pg_advisory_xact_lock({lock_key(self.project_id)})"
                )
                yield connection
        except self._error as error:
            if not self._sent or not self._was_committed(self._sent[-1]):
                held = "it was held by other servers for too long: " if error.sqlstate == "55P03" else ""
                raise StorageError(
                    f"{self.name} cannot be written now ({one_line(error)}): {held}try again; the action was not "
                    f"saved; all that was saved before is still there."
                ) from error

    def _was_committed(self, row: Row) -> bool:
        """Return whether an event is there; the lock is free only when the lost transaction has ended."""
        deadline = time.monotonic() + CONFIRM_SECONDS
        while True:
            try:
                with connection_to(self.address) as connection, connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(self.project_id),))
                    return row[-1] in [stored[-1] for stored in self._rows(connection, row[0] - 1)]
            except self._error as error:
                if time.monotonic() > deadline:
                    raise StorageError(
                        f"The connection to {shown_address(self.address)} was lost while the action was being saved, "
                        f"so it is not known whether it was: look at the page again before you repeat it."
                    ) from error
                time.sleep(_PAUSE)

    def _rows(self, connection: Any, after: int) -> list[Row]:
        return list(connection.execute(_SELECT, (self.project_id, after)).fetchall())

    def _insert(self, connection: Any, rows: Sequence[Row]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(_INSERT, [(self.project_id, *row) for row in rows])
        self._sent = list(rows)

    def problems(self) -> list[str]:
        """Look for triggers that were taken out, switched off or changed, and whether the project is used from here."""
        with self._reading() as connection:
            triggers = connection.execute(
                "SELECT t.tgname, t.tgenabled::text, p.proname, p.prosrc FROM pg_trigger t "
                "JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = 'warpgauge.events'::regclass"
            ).fetchall()
            moved = connection.execute("SELECT moved FROM warpgauge.projects WHERE id = %s", (self.project_id,))
            place = moved.fetchone()[0]
        problems = []
        for name, (_, function) in _TRIGGERS.items():
            if not {(name, enabled, function, _FUNCTIONS[function]) for enabled in "OA"} & set(triggers):
                problems.append(
                    f"The trigger {name!r} of the log is missing or changed, so that events may have been altered."
                )
        if place is not None:
            problems.append(f"The project was copied to {place} and is used from there; project.json names this one.")
        return problems

    def retire(self, take: Callable[[list[Row]], None], place: str) -> str:
        """Hand all rows over, and mark the project as moved; see `Log.retire`."""
        with self._turn, self._writing() as connection:
            connection.execute("UPDATE warpgauge.projects SET moved = %s WHERE id = %s", (place, self.project_id))
            take(self._rows(connection, 0))
        return f"the rows of project {self.project_id} in {shown_address(self.address)}"

    def close(self) -> None:
        """Close the connections that wait; they are made anew when needed."""
        with _lock:
            waiting = _idle.pop((self.address, os.getpid()), [])
        for connection in waiting:
            connection.close()
