"""The tables of the log in PostgreSQL, their versions and migrations, and the writing of a whole log into them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from warpgauge.io.files import one_line, require
from warpgauge.project.chain import Row
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.event_log import COLUMNS
from warpgauge.project.postgres_connection import connect, shown_address

# The tables of the log in PostgreSQL, their versions, and the migration from each version to the next.
#
# All projects of a database share the tables in the schema ``warpgauge``. The database itself refuses to change or drop
# an event, to leave a gap, and to write to a project that was copied elsewhere, whoever writes.

VERSION = 4
SELECT = f"SELECT {COLUMNS}, digest FROM warpgauge.events WHERE project = %s"  # nosec B608  # constants of this package
INSERT = (
    f"INSERT INTO warpgauge.events (project, {COLUMNS}, digest) "  # nosec B608  # constants of this package
    f"VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)

_TABLES = """
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
CREATE TABLE warpgauge.leases (
    project text NOT NULL REFERENCES warpgauge.projects (id),
    query bigint NOT NULL,
    holders jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (project, query)
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
        RAISE EXCEPTION 'the project was copied to % and is used from there', place USING ERRCODE = 'WG001';
    END IF;
    SELECT COALESCE(MAX(generation), 0) INTO last FROM warpgauge.events WHERE project = NEW.project;
    IF NEW.generation <> last + 1 THEN
        RAISE EXCEPTION 'generations have no gaps';
    END IF;
    PERFORM pg_notify('warpgauge', NEW.project);
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
MOVED = "WG001"


def lock_key(name: str) -> int:
    """Return the number of the advisory lock of a project, or of the tables themselves."""
    return int.from_bytes(hashlib.sha256(f"warpgauge {name}".encode()).digest()[:8], "big", signed=True)


def version(connection: Any) -> int:
    """Return the version of the tables; 0 where there are none."""
    if connection.execute("SELECT to_regclass('warpgauge.meta')").fetchone()[0] is None:
        return 0
    found = int(connection.execute("SELECT version FROM warpgauge.meta").fetchone()[0])
    if found > VERSION:
        raise ProjectError(
            f"The tables of the database were made by a newer warpgauge (version {found}, this one knows up to "
            f"{VERSION}); install the newer warpgauge to open this project."
        )
    return found


def migrate(connection: Any) -> None:
    """Make the tables, or bring them to this version, in one transaction."""
    if version(connection) == VERSION:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(""),))
        for step in range(version(connection), VERSION):  # another process may have done it meanwhile
            _STEPS[step](connection)
            connection.execute("UPDATE warpgauge.meta SET version = %s", (step + 1,))


def _first(connection: Any) -> None:
    """Make the tables."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS warpgauge")
    connection.execute(_TABLES)
    for name, body in _FUNCTIONS.items():
        connection.execute(
            f"CREATE FUNCTION warpgauge.{name}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog "
            f"AS $body${body}$body$"
        )
    for name, (when, function) in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION warpgauge.{function}()")
    connection.execute("INSERT INTO warpgauge.meta VALUES (1)")


def _from_1_to_2(_: Any) -> None:
    """Change nothing: the version keeps out an older warpgauge, which cannot read the proposals of Snap."""


def _from_2_to_3(_: Any) -> None:
    """Change nothing: the version keeps out an older warpgauge, which does not know seals, references and doubts."""


def _from_3_to_4(_: Any) -> None:
    """Change nothing: the version keeps out an older warpgauge, which does not know areas that were drawn."""


_STEPS = {0: _first, 1: _from_1_to_2, 2: _from_2_to_3, 3: _from_3_to_4}


def trigger_problems(connection: Any) -> list[str]:
    """Return which triggers are missing, switched off or changed, one sentence each."""
    rows = connection.execute(
        "SELECT t.tgname, t.tgenabled, p.proname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE t.tgrelid = 'warpgauge.events'::regclass AND NOT t.tgisinternal"
    ).fetchall()
    found = {name: (enabled in ("O", b"O", "A", b"A"), function, source) for name, enabled, function, source in rows}
    return [
        f"The trigger {name!r} of the log is missing or changed, so that events may have been altered."
        for name, (_, function) in _TRIGGERS.items()
        if found.get(name) != (True, function, _FUNCTIONS[function])
    ]


# Reading a whole log from a PostgreSQL database, and writing one into it.


def stored_rows(address: str, project_id: str) -> list[Row]:
    """Return the events of a project in a database, in order, unchecked; none where it does not hold the project."""
    psycopg = require("psycopg", "postgres")
    try:
        with connect(address) as connection:
            if version(connection) == 0:
                return []
            return list(connection.execute(f"{SELECT} ORDER BY generation", (project_id,)).fetchall())
    except psycopg.Error as error:
        raise StorageError(f"The database {shown_address(address)} cannot be read ({one_line(error)}).") from error


def store_rows(address: str, project_id: str, rows: Sequence[Row]) -> None:
    """Store the events of a project, all or none; events that the database has already must be the same.

    Parameters
    ----------
    address : str
        Of the database; its tables are made where they are missing.
    project_id : str
    rows : sequence of Row
        From the first event on.
    """
    psycopg = require("psycopg", "postgres")
    try:
        with connect(address) as connection:
            migrate(connection)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(project_id),))
                connection.execute(
                    "INSERT INTO warpgauge.projects (id) VALUES (%s) ON CONFLICT (id) DO UPDATE SET moved = NULL",
                    (project_id,),
                )
                found = connection.execute(f"{SELECT} ORDER BY generation", (project_id,)).fetchall()
                if [row[-1] for row in found] != [row[-1] for row in rows[: len(found)]]:
                    raise ProjectError(
                        f"The database {shown_address(address)} holds other events of this project than its log, so "
                        f"nothing was copied: two copies of the project went on apart."
                    )
                with connection.cursor() as cursor:
                    cursor.executemany(INSERT, [(project_id, *row) for row in rows[len(found) :]])
    except psycopg.Error as error:
        raise StorageError(
            f"The log could not be stored in the database {shown_address(address)} ({one_line(error)}); nothing was "
            f"changed."
        ) from error
