"""Who may enter which pairs of a place: people, roles, hashes of their links, and assignments, in one `people.json`.

The file is replaced whole, under a lock, so that several servers share it and a reader sees one state of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import locked, one_line, require, write_whole
from warpgauge.io.inside import checked_id
from warpgauge.project import ORGANISER, ProjectError, StorageError
from warpgauge.project.names import check_new_name, checked_name
from warpgauge.project.own_state import private_folder, state_files
from warpgauge.project.postgres import connection_to, lock_key, named_address
from warpgauge.project.values import Name, Role, Value
from warpgauge.web.failures import NotFoundError

LONGEST_TOKEN = 200
COOKIE_SECONDS = 30 * 24 * 3600
_FRESH_SECONDS = 0.25  # a page asks for dozens of tiles at once
_STALE_SECONDS = 10.0  # while the database is away, who was known a moment ago may go on looking
_TABLE = "CREATE TABLE IF NOT EXISTS warpgauge.people (place text PRIMARY KEY, version bigint, content text NOT NULL)"
_WRITE = """
INSERT INTO warpgauge.people (place, version, content) VALUES (%s, 1, %s)
ON CONFLICT (place) DO UPDATE SET version = warpgauge.people.version + 1, content = excluded.content
"""


@dataclass(frozen=True)
class Person:
    """Who asks: the name under which their actions stand in the log, and their role."""

    name: str
    role: str

    @property
    def organises(self) -> bool:
        """Whether this is an organiser."""
        return self.role == ORGANISER


class Record(Value):
    """What is stored of a person; without a token their link has been revoked."""

    role: Role = "rater"
    token: Annotated[str, Field(max_length=100)] | None = None
    pairs: tuple[Annotated[str, Field(max_length=100)], ...] = ()


class Content(Value):
    """All people of a place by their names; ``id`` is the same for all servers that share the file."""

    id: Annotated[str, AfterValidator(checked_id)]
    people: dict[Name, Record] = Field(default_factory=dict)


def new_token() -> str:
    """Return a secret of 256 random bits that can stand in a link."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return what is stored of a token; it is random and long, so that one round of a plain hash cannot be searched."""
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class PeopleFile:
    """Where people are kept: a file of one's own folder."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = f"the file {file.name!r}"

    def stamp(self) -> object:
        """Return what changes with every write, as a replaced file has another inode; None where nothing is stored."""
        try:
            found = self.file.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> bytes:
        """Return the file's bytes."""
        return self.file.read_bytes()

    def initial(self) -> bytes:
        """Return nothing: it begins without people."""
        return b""

    @contextmanager
    def changing(self) -> Iterator[Callable[[bytes], None]]:
        """Hold all other writers off, and yield a function that replaces the bytes."""
        with locked(self.file.with_suffix(".lock")):
            yield lambda data: write_whole(self.file, data, durable=True)


class PeopleTable(PeopleFile):
    """A row of PostgreSQL, which the file of the folder begins: a revocation on one host counts on all in a moment."""

    def __init__(self, address: str, project_id: str, file: Path) -> None:
        super().__init__(file)
        self.address, self.project_id = address, project_id
        self.name = named_address(address)
        self._looked, self._version = -_STALE_SECONDS, None

    def stamp(self) -> object:
        """Return the number of the last change, as of a moment ago; None where nothing is stored."""
        age = time.monotonic() - self._looked
        if age > _FRESH_SECONDS:
            try:
                self._version = self._value("version")
                self._looked = time.monotonic()
            except OSError:
                if age > _STALE_SECONDS:
                    raise
        return self._version

    def read(self) -> bytes:
        """Return what is stored."""
        return str(self._value("content")).encode()

    def initial(self) -> bytes:
        """Return the file of the folder, where the project has been served from it before."""
        return super().read() if super().stamp() is not None else b""

    def _value(self, column: str) -> Any:
        with self._connection() as connection:
            if connection.execute("SELECT to_regclass('warpgauge.people')").fetchone()[0] is None:
                return None
            rows = f"SELECT {column} FROM warpgauge.people WHERE place = %s"  # nosec B608  # constants only
            row = connection.execute(rows, (self.project_id,)).fetchone()
            return None if row is None else row[0]

    @contextmanager
    def changing(self) -> Iterator[Callable[[bytes], None]]:
        """Hold the lock of the row, made where it is missing, until the transaction has ended."""
        with self._connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(f"people {self.project_id}"),))
            connection.execute(_TABLE)
            self._looked = -_STALE_SECONDS  # what others have written meanwhile counts
            yield lambda data: connection.execute(_WRITE, (self.project_id, data.decode()))
        self._looked = -_STALE_SECONDS

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            with connection_to(self.address) as connection:
                yield connection
        except require("psycopg", "postgres").Error as error:
            raise OSError(one_line(error)) from error


class People:
    """The people of a place; every look sees what other servers have written.

    ``place``, of the pairs, stands for them where nothing can be stored.
    """

    def __init__(self, store: PeopleFile, place: Path) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._stamp: object = None
        self._launch: dict[str, str] = {}
        self._content = Content(id=str(uuid.uuid5(uuid.NAMESPACE_URL, str(place.resolve()))))
        self.readonly = False
        if store.stamp() is None:
            self._begin()
        self.id = self.content.id

    def _begin(self) -> None:
        """Store that there is nobody yet, unless nothing can be stored here."""
        try:
            with self._store.changing() as write:
                if self._store.stamp() is None:
                    write(self._store.initial() or _bytes(Content(id=str(uuid.uuid4()))))
        except OSError:
            self.readonly = True

    @property
    def content(self) -> Content:
        """What is stored now."""
        with self._lock:
            return self._read()

    def _read(self) -> Content:
        try:
            stamp = self._store.stamp()
            if stamp == self._stamp:
                return self._content
            if stamp is None:
                raise StorageError(f"It seems that {self._store.name} was deleted; put it back.")
            data = self._store.read()
        except OSError as error:
            raise StorageError(f"Now {self._store.name} cannot be read ({one_line(error)}).") from error
        try:
            self._content = Content(**json.loads(data))
        except (WarpgaugeError, ValueError, TypeError, RecursionError) as error:
            raise ProjectError(
                f"It is not understood what {self._store.name} says ({one_line(error)}); put a copy of it back."
            ) from error
        self._stamp = stamp
        return self._content

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Record]]:
        """Yield the people to be changed; they are on the disk when the block has ended, or nothing is changed."""
        if self.readonly:
            raise StorageError(f"Here {self._store.name} cannot be written, so nothing was changed.")
        try:
            with self._lock, self._store.changing() as write:
                people = dict(self._read().people)
                yield people
                write(_bytes(Content(id=self.id, people=people)))
        except OSError as error:
            raise StorageError(
                f"Now {self._store.name} cannot be written ({one_line(error)}), so nothing was changed."
            ) from error

    def launch(self, token: str, name: str) -> Person:
        """Let in whoever starts the server, by a token that is valid as long as the process."""
        self._launch[token_hash(token)] = name
        return self._launcher(name)

    def _launcher(self, name: str) -> Person:
        record = self.content.people.get(name)
        return Person(name, ORGANISER if record is None else record.role)

    def of_token(self, token: str | None) -> Person | None:
        """Return the owner of a token as of now; None for one that is not valid."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        digest = token_hash(token)
        if digest in self._launch:
            return self._launcher(self._launch[digest])
        owners = (Person(name, one.role) for name, one in self.content.people.items() if one.token == digest)
        return next(owners, None)

    def invite(self, name: str, role: str | None = None) -> str:
        """Give a person a new link, which ends the former one, and return its secret; the role stays by default."""
        secret = new_token()
        with self._changing() as people:
            known = people.get(checked_name(name))
            if known is None:
                check_new_name(name, [*people, *self._launch.values()])
                known = Record()
            people[name] = known.model_copy(update={"token": token_hash(secret), "role": role or known.role})
        return secret

    def revoke(self, name: str) -> None:
        """End a person's link; what they did stays."""
        with self._changing() as people:
            if name not in people:
                raise NotFoundError("There is no registered person of that name.")
            people[name] = people[name].model_copy(update={"token": None})

    def assign(self, names: Sequence[str], pairs: Sequence[str], *, remove: bool = False) -> int:
        """Assign pairs to people, or take them from them, all or none; return how many assignments have changed."""
        changed = 0
        with self._changing() as people:
            for name in dict.fromkeys(names):
                record = people.get(name)
                if record is None or record.token is None:
                    raise NotFoundError(f"There is no rater {name!r}; make a link for them first.")
                others = tuple(key for key in record.pairs if key not in pairs)
                added = tuple(key for key in dict.fromkeys(pairs) if key not in record.pairs)
                after = others if remove else (*record.pairs, *added)
                changed += abs(len(after) - len(record.pairs))
                people[name] = record.model_copy(update={"pairs": after})
        return changed

    def raters_of(self, key: str, *, alone: bool) -> list[str]:
        """Return the raters to whom a pair is assigned; a pair that stands alone is that of all."""
        people = self.content.people.items()
        return [name for name, one in people if one.role == "rater" and one.token and (alone or key in one.pairs)]


def _bytes(content: Content) -> bytes:
    return json.dumps(content.model_dump(), indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")


def launcher_token(people_id: str, place: Path, name: str, *, renew: bool = False) -> str:
    """Return the secret of the person who starts the server; unless renewed it stays the same, and so does their link.

    It is kept in a file that only this person can read, in their state folder, never beside the pairs. Where that
    cannot be kept, or others could read it, the secret is new at each start.
    """
    key = hashlib.sha256(json.dumps([people_id, str(place.resolve()), name]).encode()).hexdigest()
    for file in state_files(f"links/{key}"):
        with suppress(OSError):
            if not private_folder(file):
                continue
            known = _kept_token(file)
            if known and not renew:
                return known
            secret = new_token()
            fresh = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
            fresh.touch(mode=0o600, exist_ok=False)
            fresh.write_text(secret, encoding="ascii")
            fresh.replace(file)
            return secret
    return new_token()


def _kept_token(file: Path) -> str | None:
    """Return the token in a file that nobody else can read and that is not older than the cookie's life."""
    try:
        found = file.stat()
        if (os.name == "posix" and found.st_mode & 0o077) or time.time() - found.st_mtime > COOKIE_SECONDS:
            return None
        text = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return text if 32 <= len(text) <= LONGEST_TOKEN else None


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without blanks around them; two that are the same are an error."""
    clean = tuple(name.strip() for name in names)
    if len(set(clean)) < len(clean) or not all(clean):
        raise InvalidInputError(f"The raters must be different names, got {', '.join(clean)!r}.")
    return clean


def links_of(people: People, names: Sequence[str], *, new_links: bool) -> Mapping[str, str | None]:
    """Give each person who has no link a new one; None for those who have one already."""
    known = people.content.people
    secret_of: dict[str, str | None] = {}
    for name in names:
        has_link = name in known and known[name].token is not None
        secret_of[name] = None if has_link and not new_links else people.invite(name)
    return secret_of
