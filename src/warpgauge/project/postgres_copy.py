"""Reading a whole log from a PostgreSQL database, and writing one into it."""

from __future__ import annotations

from collections.abc import Sequence

from warpgauge.io.files import one_line, require
from warpgauge.project import postgres_schema as schema
from warpgauge.project.database import connect, shown_address
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.log import Row


def stored_rows(address: str, project_id: str) -> list[Row]:
    """Return the events of a project in a database, in order, unchecked; none where it does not hold the project."""
    psycopg = require("psycopg", "postgres")
    try:
        with connect(address) as connection:
            if schema.version(connection) == 0:
                return []
            return list(connection.execute(f"{schema.SELECT} ORDER BY generation", (project_id,)).fetchall())
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
            schema.migrate(connection)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (schema.lock_key(project_id),))
                connection.execute(
                    "INSERT INTO warpgauge.projects (id) VALUES (%s) ON CONFLICT (id) DO UPDATE SET moved = NULL",
                    (project_id,),
                )
                found = connection.execute(f"{schema.SELECT} ORDER BY generation", (project_id,)).fetchall()
                if [row[-1] for row in found] != [row[-1] for row in rows[: len(found)]]:
                    raise ProjectError(
                        f"The database {shown_address(address)} holds other events of this project than its log, so "
                        f"nothing was copied: two copies of the project went on apart."
                    )
                with connection.cursor() as cursor:
                    cursor.executemany(schema.INSERT, [(project_id, *row) for row in rows[len(found) :]])
    except psycopg.Error as error:
        raise StorageError(
            f"The log could not be stored in the database {shown_address(address)} ({one_line(error)}); nothing was "
            f"changed."
        ) from error
