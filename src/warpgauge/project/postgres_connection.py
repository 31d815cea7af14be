"""Connections to PostgreSQL: addresses that a project may name, and a thread that hears what others have written."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line, require

# Addresses of PostgreSQL databases: what ``project.json`` may name, and how a connection is made from it.
#
# A password is never stored: PostgreSQL's library takes it from `PGPASSWORD`, from a passfile (``~/.pgpass``), or from
# the address in the variable `WARPGAUGE_DATABASE`, which replaces the stored one.

CHANNEL = "warpgauge"  # the name that the triggers of `postgres_schema` notify
VARIABLE = "WARPGAUGE_DATABASE"
SCHEMES = ("postgresql://", "postgres://")
# What a stored address may say; anything else could make the library read other files of the person who opens it.
_STORED = ("user", "host", "port", "dbname", "sslmode")
CONNECT_SECONDS = 5
# A host that has vanished is noticed within about half a minute.
_KEEPALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


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
        found = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidInputError(
            f"The address of the database cannot be understood ({one_line(error)}); it looks like "
            f"postgresql://user@host:5432/name."
        ) from error
    return {key: value for key, value in found.items() if value not in (None, "")}


def stored_address(address: str) -> str:
    """Return an address as ``project.json`` may keep it: without the password, and with nothing but where it is."""
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
    return f"{parts.get('dbname', '?')} at {parts.get('host', 'this machine')}"


def connect(address: str) -> Any:
    """Connect to a database; what PostgreSQL's library raises is left to the caller."""
    psycopg = require("psycopg", "postgres")
    wanted = {"connect_timeout": CONNECT_SECONDS, "application_name": "warpgauge", **_KEEPALIVE, **_parts(address)}
    return psycopg.connect(**wanted, autocommit=True)


def address_in_force(stored: str) -> str:
    """Return the address to connect to: that of the variable `WARPGAUGE_DATABASE` where it is set."""
    return os.environ.get(VARIABLE) or stored


# A thread that hears from PostgreSQL when another server has written to a project (LISTEN and NOTIFY).

_LOOK_SECONDS = 0.5  # between two looks whether it is over
_AGAIN_SECONDS = 1.0  # after a lost connection


class Listener:
    """Calls back when events of a project were written; begins at once, and again after a lost connection.

    Parameters
    ----------
    address : str
        Of the database.
    project_id : str
    wake : callable
        Called from this thread, also once after each connection: something may have been missed before it.
    """

    def __init__(self, address: str, project_id: str, wake: Callable[[], None]) -> None:
        self._address, self._id, self._wake = address, project_id, wake
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warpgauge-listen", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection."""
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(10)

    def _run(self) -> None:
        psycopg = require("psycopg", "postgres")
        while not self._over.is_set():
            connection = None
            try:
                connection = connect(self._address)
                connection.execute(f"LISTEN {CHANNEL}")
                self._hear(connection)
            except psycopg.Error:
                self._over.wait(_AGAIN_SECONDS)  # requests say what is wrong; this only tries again
            finally:
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()

    def _hear(self, connection: Any) -> None:
        self._wake()
        while not self._over.is_set():
            for notice in connection.notifies(timeout=_LOOK_SECONDS):
                if notice.payload == self._id:
                    self._wake()
                if self._over.is_set():
                    return
