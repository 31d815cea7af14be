"""People and their links at the start of a server: who organises, who gets a new token, who keeps theirs."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.project import ORGANISER, State
from warpgauge.project.own_state import private_folder, state_files
from warpgauge.web.auth import LONGEST_TOKEN, House, new_token, token_hash, valid_link

_KEPT_SECONDS = 30 * 24 * 3600


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


def make_organiser(house: House, launcher: str) -> None:
    """Register the person who starts the server as an organiser, unless they are registered already.

    Whoever can start the server can write the project's files; a registered rater stays what they are.
    """
    state = house.state
    if launcher not in state.raters:
        by = launcher if not state.raters else an_organiser(state)
        if by is not None:
            house.add_rater(launcher, "organiser", by=by)


def an_organiser(state: State) -> str | None:
    """Return the name of somebody who organises, if there is anybody."""
    return next((r.name for r in state.raters.values() if r.role == ORGANISER and not r.revoked), None)


def has_tokens(house: House) -> bool:
    """Return whether anybody has a link that is still valid."""
    return any(valid_link(house.state, name) for name in house.state.raters)


def register(house: House, names: Sequence[str], new_links: bool) -> tuple[dict[str, str], list[str]]:
    """Make a link for each person who has none; return the new tokens by name, and who had a link already."""
    fresh: dict[str, str] = {}
    kept: list[str] = []
    for name in names:
        known = house.state.raters.get(name)
        if valid_link(house.state, name) and not new_links:
            kept.append(name)
            continue
        secret = new_token()
        role = known.role if known is not None else "rater"
        by = an_organiser(house.state) or ORGANISER
        house.add_rater(name, role, token_hash=token_hash(secret), by=by)
        fresh[name] = secret
    return fresh, kept


def launcher_token(house: House, name: str, *, renew: bool = False) -> str:
    """Return the secret of the person who starts the server; unless renewed it stays the same, and so does their link.

    It is kept in a file that only this person can read, in their state folder, never in the project. Where that cannot
    be kept, or others could read it, the secret is new at each start.
    """
    key = hashlib.sha256(json.dumps([house.id, str(house.folder.resolve()), name]).encode()).hexdigest()
    for file in state_files(f"links/{key}"):
        try:
            if not private_folder(file):
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
