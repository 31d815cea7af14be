"""Addresses of PostgreSQL databases: what ``project.json`` may name, and how a connection is made from it.

A password is never stored: PostgreSQL's library takes it from `PGPASSWORD`, from a passfile (``~/.pgpass``), or from
the address in the variable `WARPGAUGE_DATABASE`, which replaces the stored one.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote, urlencode

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line, require

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
    return f"{parts.get('dbname', '?')} at {parts.get('host', 'this machine')}"


def connect(address: str) -> Any:
    """Connect to a database; errors of PostgreSQL's library are passed on."""
    psycopg = require("psycopg", "postgres")
    wanted = {"connect_timeout": CONNECT_SECONDS, "application_name": "warpgauge", **_KEEPALIVE, **_parts(address)}
    return psycopg.connect(**wanted, autocommit=True)


def address_in_force(stored: str) -> str:
    """Return the address to connect to: that of the variable `WARPGAUGE_DATABASE` where it is set."""
    return os.environ.get(VARIABLE) or stored
