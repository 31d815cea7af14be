"""Access: tokens (random, compared in constant time, stored only as a hash), and who may do what."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from warpgauge.project import ORGANISER, NotAllowedError, ProjectError, State

LONGEST_TOKEN = 200
_FRESH_SECONDS = 0.25
_STALE_SECONDS = 10.0


@dataclass(frozen=True)
class Person:
    """Who asks, and what they may do.

    Attributes
    ----------
    name : str
        Under which their actions stand in the log.
    role : {"rater", "organiser"}
    """

    name: str
    role: str

    @property
    def organises(self) -> bool:
        """Whether this is an organiser."""
        return self.role == "organiser"


@dataclass(frozen=True)
class _Known:
    """People with the hashes of their tokens, as of a moment.

    ``former`` has the hashes of tokens that were valid while this server ran, and why they are not any more.
    """

    time: float
    people: tuple[tuple[str, Person], ...] = ()
    former: Mapping[str, str] = field(default_factory=dict)


def new_token() -> str:
    """Return a secret of 256 random bits that can stand in a link."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return what is stored of a token; it is random and long, so that one round of a plain hash cannot be searched."""
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def valid_link(state: State, name: str) -> str | None:
    """Return what is stored of the token of a person's link, or None where they have none that is valid now."""
    record = state.raters.get(name)
    return None if record is None or record.revoked else record.token_hash


def _why_ended(state: State, name: str) -> str:
    """Return what happened to the former link of a person, and whom to ask."""
    record = state.raters.get(name)
    if record is not None and record.revoked:
        return "The organiser has revoked your link. All that you saved is kept; ask the organiser how to go on."
    return "Your link was replaced by a newer one: open that one, or ask the organiser for it."


class House(Protocol):
    """What people sign in to: a project, or the roster of a folder of projects."""

    folder: Path

    @property
    def id(self) -> str:
        """Identifier."""

    @property
    def readonly(self) -> bool:
        """Whether nothing can be written."""

    @property
    def lock(self) -> Any:
        """Held while the state changes."""

    @property
    def state(self) -> State:
        """Who is registered."""

    def close(self) -> None:
        """Close it."""

    def add_rater(self, name: str, role: Any = "rater", *, token_hash: str | None = None, by: str = ORGANISER) -> Any:
        """Register a person, or change their role or token."""


class Gate:
    """Finds the owner of a token.

    A tile must not wait for a suggestion that is being computed, so who is known is looked up afresh only when the
    project is free. The log decides on every write once more, by the roles of that very moment.

    Parameters
    ----------
    house : House
        Its log holds the hashes of the raters' tokens.
    launch : mapping of token to name
        Tokens of this launch; they are valid as long as the process.
    """

    def __init__(self, house: House, launch: Mapping[str, str]) -> None:
        self._house = house
        self._launch = [(token_hash(token), name) for token, name in launch.items()]
        self._known = _Known(0.0)
        self._known = self._look()

    def at_once(self, token: str | None) -> Person | None:
        """Return the owner of a token that was looked up a moment ago; None where one must look again."""
        if not token or len(token) > LONGEST_TOKEN or time.monotonic() - self._known.time > _FRESH_SECONDS:
            return None
        return self._find(token_hash(token))

    def person(self, token: str | None, *, again: bool = True) -> Person | None:
        """Return the owner of a token, with their current role, or None.

        With ``again`` the log is read once more where the token is not known: its rater may have been registered a
        moment ago.
        """
        if not token or len(token) > LONGEST_TOKEN:
            return None
        given = token_hash(token)
        self._renew_if_old()
        found = self._find(given)
        if found is None and again:
            self._renew(wait=True)
            found = self._find(given)
        return found

    def why_ended(self, token: str | None) -> str | None:
        """Return why a token is not valid any more; None for one that was not valid while this server ran."""
        return self._known.former.get(token_hash(token)) if token and len(token) <= LONGEST_TOKEN else None

    def renew(self) -> None:
        """Take note of people who were registered or revoked just now."""
        self._renew(wait=True)

    def _renew_if_old(self) -> None:
        age = time.monotonic() - self._known.time
        if age > _FRESH_SECONDS:
            with suppress(ProjectError):  # who was known a moment ago may go on looking; a write is decided by the log
                self._renew(wait=age > _STALE_SECONDS)

    def _find(self, given: str) -> Person | None:
        # Every hash is compared, so that the time tells nothing about which one was near.
        found = [person for stored, person in self._known.people if hmac.compare_digest(stored, given)]
        return found[0] if found else None

    def _renew(self, *, wait: bool) -> None:
        if not self._house.lock.acquire(blocking=wait):
            return
        try:
            self._known = self._look()
        finally:
            self._house.lock.release()

    def _look(self) -> _Known:
        with self._house.lock:
            now, state = time.monotonic(), self._house.state
            known = list(self._launch)
            linked = [(valid_link(state, name), name) for name in state.raters]
            known += [(stored, name) for stored, name in linked if stored]
            people = tuple((stored, Person(name, state.role(name))) for stored, name in known)
            valid = {stored for stored, _ in people}
            gone = {stored: _why_ended(state, one.name) for stored, one in self._known.people if stored not in valid}
            return _Known(now, people, {**self._known.former, **gone})


async def _asking(request: Request) -> Person:
    person = request.state.person
    assert isinstance(person, Person)
    return person


async def _organising(request: Request) -> Person:
    person = await _asking(request)
    if not person.organises:
        raise NotAllowedError(f"{person.name} is not an organiser of this project; ask the organiser.")
    return person


Asking = Annotated[Person, Depends(_asking)]
"""Anybody with a token."""
Organising = Annotated[Person, Depends(_organising)]
"""An organiser."""
