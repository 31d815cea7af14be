"""Events, the entries of the log: a `Draft` is what a caller wants written, an `Event` is what stands in the log.

What each kind of event holds, who may write it and what it does is the table in `warpgauge.project.kinds`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks.model import text_problem

SKIP_REASONS: tuple[str, ...] = ("not_visible", "ambiguous", "torn_or_missing", "outside_image", "other")
ROLES: tuple[str, ...] = ("rater", "organiser", "viewer")
ORIGINS: tuple[str, ...] = ("suggested", "repeat", "again", "given", "volunteered", "audit", "control")
DESIGNS: tuple[str, ...] = ("uniform", "disagreement")
LARGEST_NAME = 100


@dataclass(frozen=True)
class Draft:
    """An event that is to be written.

    Attributes
    ----------
    kind : str
        A key of `warpgauge.project.kinds.KINDS`.
    rater : str
        Who acts.
    query : int, optional
        Number of the query that it is about.
    payload : mapping
        What the kind demands; plain JSON values.
    duration : float, optional
        Seconds that the rater took.
    base_generation : int, optional
        Generation of the state that the rater saw; a newer change by the same rater of the same query is a conflict.
    """

    kind: str
    rater: str
    query: int | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    duration: float | None = None
    base_generation: int | None = None


@dataclass(frozen=True)
class Event(Draft):
    """An event of the log; ``generation`` counts from 1 without gaps, ``time`` is UTC, ``digest`` chains the log."""

    generation: int = 0
    time: str = ""
    digest: str = ""


def canonical(payload: Mapping[str, Any]) -> str:
    """Write a payload as JSON text, always the same for the same values."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def chained(previous: str, row: tuple[Any, ...]) -> str:
    """Digest of a row of the log and of all rows before it, through the digest of the row before."""
    text = json.dumps([previous, *row], separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def checked_name(name: object, what: str = "The name of a rater") -> str:
    """Refuse a name that could not be shown, stored or distinguished."""
    if not isinstance(name, str) or not name.strip() or name != name.strip() or len(name) > LARGEST_NAME:
        raise InvalidInputError(
            f"{what} must be 1 to {LARGEST_NAME} characters without blanks at the ends, got {name!r}."
        )
    if "\n" in name or "\t" in name or text_problem(name):
        raise InvalidInputError(f"{what} {text_problem(name) or 'has a line break or tab'}; use plain characters.")
    return name
