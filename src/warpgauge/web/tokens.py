"""Secrets that let people in: made at random, compared in constant time, and never stored but as a hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from warpgauge.project import Project

LONGEST_TOKEN = 200


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


def new_token() -> str:
    """Give a secret of 256 random bits that can stand in a link."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Give what is stored of a token; it is random and long, so that one round of a plain hash cannot be searched."""
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Gate:
    """Knows whose a token is.

    Parameters
    ----------
    project : Project
        Its log holds the hashes of the raters' tokens.
    launch : mapping of token to name
        Tokens of this launch; they are kept in memory only and end with the process.
    """

    def __init__(self, project: Project, launch: Mapping[str, str]) -> None:
        self._project = project
        self._launch = [(token_hash(token), name) for token, name in launch.items()]

    def person(self, token: str | None) -> Person | None:
        """Give whose token this is, with the role that they have now, or None."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        state, given = self._project.state, token_hash(token)
        known = list(self._launch)
        known += [(r.token_hash, r.name) for r in state.raters.values() if r.token_hash and not r.revoked]
        # Every hash is compared, so that the time tells nothing about which one was near.
        names = [name for stored, name in known if hmac.compare_digest(stored, given)]
        return Person(names[0], state.role(names[0])) if names else None
