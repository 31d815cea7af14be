"""Access: tokens (random, compared in constant time, stored only as a hash), who may do what, and people's links."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from warpgauge.errors import InvalidInputError
from warpgauge.project import NotAllowedError, Project, State, StorageError
from warpgauge.project.kinds import ORGANISER
from warpgauge.project.records import checked_name
from warpgauge.project.trust import is_private, state_files

# Access: tokens (random, compared in constant time, stored only as a hash), and who may do what.
#
# The last lines are the person behind a request, as a dependency of the routes.

LONGEST_TOKEN = 200
_UNTIL = ";until="
_FRESH_SECONDS = 0.25
_STALE_SECONDS = 10.0
_KEPT_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True)
class Person:
    """Who asks, and what they may do.

    Attributes
    ----------
    name : str
        Under which their actions stand in the log.
    role : {"rater", "organiser", "viewer"}
    """

    name: str
    role: str

    @property
    def organises(self) -> bool:
        """Whether this is an organiser."""
        return self.role == "organiser"

    @property
    def writes(self) -> bool:
        """Whether this person may answer queries."""
        return self.role != "viewer"


@dataclass(frozen=True)
class _Known:
    """People with the hashes of their tokens, and by name (None for those who were revoked), as of a moment."""

    time: float
    people: tuple[tuple[str, Person], ...]
    registered: Mapping[str, Person | None] = field(default_factory=dict)


def new_token() -> str:
    """Return a secret of 256 random bits that can stand in a link."""
    return secrets.token_urlsafe(32)


def launcher_token(project: Project, name: str, *, renew: bool = False) -> str:
    """Return the secret of the person who starts the server; it stays the same, so their link keeps working.

    It is kept in a file that only this person can read, in their state folder, never in the project. Where that cannot
    be kept, or others could read it, the secret is new at each start.

    Parameters
    ----------
    project : Project
    name : str
    renew : bool
        Make a new one; the former link ends.
    """
    key = hashlib.sha256(json.dumps([project.id, str(project.folder.resolve()), name]).encode()).hexdigest()
    for file in state_files(f"links/{key}"):
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not is_private(file.parent):
                continue
            known = _kept_token(file)
            if known and not renew:
                return known
            secret, fresh = new_token(), file.with_name(f"{file.name}.{secrets.token_hex(4)}")
            fresh.touch(mode=0o600, exist_ok=False)
            fresh.write_text(secret, encoding="ascii")
            fresh.replace(file)
            return secret
        except OSError:
            continue
    return new_token()


def _kept_token(file: Path) -> str | None:
    """Return the token in a file that nobody else can read and that is not older than the cookie's life."""
    try:
        found = file.stat()
        if (os.name == "posix" and found.st_mode & 0o077) or time.time() - found.st_mtime > _KEPT_SECONDS:
            return None
        text = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return text if 32 <= len(text) <= LONGEST_TOKEN else None


def token_hash(token: str, days: float | None = None) -> str:
    """Return what is stored of a token; it is random and long, so that one round of a plain hash cannot be searched.

    Parameters
    ----------
    token : str
    days : float, optional
        After so many days the token is not valid any more.
    """
    plain = "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    if days is None:
        return plain
    until = datetime.now(UTC) + timedelta(days=days)
    return f"{plain}{_UNTIL}{until.isoformat(timespec='seconds')}"


def valid_until(stored: str) -> datetime | None:
    """Return when a stored token ends, or None where it does not; one that cannot be read has ended."""
    _, mark, text = stored.partition(_UNTIL)
    if not mark:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def has_ended(stored: str) -> bool:
    """Return whether a stored token was valid for some time only, and that is over."""
    until = valid_until(stored)
    try:
        return until is not None and until <= datetime.now(UTC)
    except TypeError:  # a time without its zone
        return True


class Gate:
    """Knows whose a token is.

    A tile must not wait for a suggestion that is being computed, so who is known is looked up afresh only when the
    project is free. The log decides on every write once more, by the roles of that very moment.

    Parameters
    ----------
    project : Project
        Its log holds the hashes of the raters' tokens.
    launch : mapping of token to name
        Tokens of this launch; they are valid as long as the process.
    """

    def __init__(self, project: Project, launch: Mapping[str, str]) -> None:
        self._project = project
        self._launch = [(token_hash(token), name) for token, name in launch.items()]
        self._known = self._look()

    def at_once(self, token: str | None) -> Person | None:
        """Return whose token this is where that was looked up a moment ago; None where one must look again."""
        if not token or len(token) > LONGEST_TOKEN or time.monotonic() - self._known.time > _FRESH_SECONDS:
            return None
        return self._find(token_hash(token))

    def person(self, token: str | None, *, again: bool = True) -> Person | None:
        """Return whose token this is, with the role that they have now, or None.

        Parameters
        ----------
        token : str
        again : bool
            Look into the log once more where it is not known: a rater may have been registered a moment ago.
        """
        if not token or len(token) > LONGEST_TOKEN:
            return None
        given, age = token_hash(token), time.monotonic() - self._known.time
        if age > _FRESH_SECONDS:
            with suppress(StorageError):  # who was known a moment ago may go on looking; a write is decided by the log
                self._renew(wait=age > _STALE_SECONDS)
        found = self._find(given)
        if found is None and again:
            self._renew(wait=True)  # a rater who was registered a moment ago
            found = self._find(given)
        return found

    def signed_on(self, name: str) -> Person | None:
        """Return the person whom a trusted proxy has signed on: a rater, unless the project says otherwise."""
        age = time.monotonic() - self._known.time
        if age > _FRESH_SECONDS:
            with suppress(StorageError):
                self._renew(wait=age > _STALE_SECONDS)
        known = self._known.registered
        try:
            return known[name] if name in known else Person(checked_name(name), "rater")
        except InvalidInputError:
            return None

    def renew(self) -> None:
        """Take note of people who were registered or revoked just now."""
        self._renew(wait=True)

    def _find(self, given: str) -> Person | None:
        # Every hash is compared, so that the time tells nothing about which one was near.
        found = [person for stored, person in self._known.people if hmac.compare_digest(stored, given)]
        return found[0] if found else None

    def _renew(self, *, wait: bool) -> None:
        if not self._project.lock.acquire(blocking=wait):
            return
        try:
            self._known = self._look()
        finally:
            self._project.lock.release()

    def _look(self) -> _Known:
        with self._project.lock:
            now, state = time.monotonic(), self._project.state
            known = list(self._launch)
            known += [
                (r.token_hash.partition(_UNTIL)[0], r.name)
                for r in state.raters.values()
                if r.token_hash and not r.revoked and not has_ended(r.token_hash)
            ]
            people = tuple((stored, Person(name, state.role(name))) for stored, name in known)
            named = {r.name: None if r.revoked else Person(r.name, r.role) for r in state.raters.values()}
            return _Known(now, people, named)


async def _asking(request: Request) -> Person:
    person = request.state.person
    assert isinstance(person, Person)
    return person


async def _writing(request: Request) -> Person:
    person = await _asking(request)
    if not person.writes:
        raise NotAllowedError(f"{person.name} may look at this project but not change it.")
    return person


async def _organising(request: Request) -> Person:
    person = await _asking(request)
    if not person.organises:
        raise NotAllowedError(f"{person.name} is not an organiser of this project; ask the organiser.")
    return person


Asking = Annotated[Person, Depends(_asking)]
"""Anybody with a token."""
Writing = Annotated[Person, Depends(_writing)]
"""A rater or an organiser."""
Organising = Annotated[Person, Depends(_organising)]
"""An organiser."""


# People and their links at the start of a server: who organises, who gets a new token, who keeps theirs.


@dataclass(frozen=True)
class Link:
    """A link for one person; the secret in it is shown this once."""

    name: str
    role: str
    url: str


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names without blanks around them; two that are the same are an error."""
    clean = [name.strip() for name in names]
    if len(set(clean)) < len(clean) or not all(clean):
        raise InvalidInputError(f"The raters must be different names, got {', '.join(clean)!r}.")
    return clean


def make_organiser(project: Project, launcher: str) -> None:
    """Register whoever launches as an organiser where nobody is registered, or where they are not known yet.

    Whoever can start the server can write the project's files; a registered rater stays what they are.
    """
    state = project.state
    if launcher not in state.raters:
        by = launcher if not state.raters else _an_organiser(state)
        if by is not None:
            project.add_rater(launcher, "organiser", by=by)


def _an_organiser(state: State) -> str | None:
    return next((r.name for r in state.raters.values() if r.role == ORGANISER and not r.revoked), None)


def has_tokens(project: Project) -> bool:
    """Return whether anybody has a link that is still valid."""
    return any(
        record.token_hash and not record.revoked and not has_ended(record.token_hash)
        for record in project.state.raters.values()
    )


def register(
    project: Project, names: Sequence[str], days: float | None, new_links: bool
) -> tuple[dict[str, str], list[str]]:
    """Return each name a token, unless they have one; give the new tokens by name, and who had one."""
    fresh: dict[str, str] = {}
    kept: list[str] = []
    for name in names:
        known = project.state.raters.get(name)
        valid = known is not None and known.token_hash and not known.revoked and not has_ended(known.token_hash)
        if valid and not new_links:
            kept.append(name)
            continue
        secret = new_token()
        role = known.role if known is not None else "rater"
        by = _an_organiser(project.state) or ORGANISER
        project.add_rater(name, role, token_hash=token_hash(secret, days), by=by)  # type: ignore[arg-type]
        fresh[name] = secret
    return fresh, kept
