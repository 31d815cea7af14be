"""The log of a project: an append-only table of events with a chain of digests, in one of several stores.

`EventLog` is what the rest of warpgauge knows. `warpgauge.project.sqlite_log` keeps the events in a file of the
project's folder, `warpgauge.project.postgres_log` in a database that several hosts share.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warpgauge.project.errors import ProjectError
from warpgauge.project.events import Event, stored_text
from warpgauge.project.log_head import Head
from warpgauge.project.mirror import Mirror
from warpgauge.project.values import Entry, chained

BUSY_SECONDS = 60.0
_LONGEST_TIME = 40
COLUMNS = "generation, time, rater, kind, query, duration, base_generation, payload"
Row = tuple[Any, ...]
Decide = Callable[[list[Entry]], Sequence[Event]]


@dataclass(frozen=True)
class Integrity:
    """What a store says about itself: problems, what was checked, and what could not be, one sentence each."""

    problems: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...] = ()


def now() -> str:
    """Return the time in UTC, as the log keeps it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of(time: object, generation: object) -> datetime:
    """Return the time of an event; raise where it is not a valid time, as the store is damaged then."""
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) and len(time) <= _LONGEST_TIME else None
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise ProjectError(
            f"Event {generation!s:.20} of the log is damaged: its time is {time!r:.60}, but a date and time with its "
            f"time zone is expected, such as 2026-05-14T09:30:00Z."
        )
    return moment


def entry_of(row: Row) -> Entry:
    """Read one row, its digest last; raise where the payload is not a JSON object, as the store is damaged then."""
    generation, time, rater, kind, query, duration, base, text, digest = row
    moment_of(time, generation)
    try:
        payload = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise ProjectError(f"Event {generation} of the log cannot be read: its content is damaged.")
    return Entry(kind, rater, query, payload, duration, base, generation, time, digest)


def chained_rows(events: Iterable[Event], generation: int, digest: str) -> list[Row]:
    """Return the rows of new events, which follow the entry with this generation and digest."""
    rows: list[Row] = []
    for event in events:
        generation += 1
        about = event.rater, event.kind, event.query, event.duration, event.base_generation
        row = (generation, now(), *about, stored_text(event))
        digest = chained(digest, row)
        rows.append((*row, digest))
    return rows


class EventLog(ABC):
    """The log of one project; may be used by several threads, and by several processes each with its own.

    Parameters
    ----------
    folder : Path
        Of the project.
    busy_seconds : float
        How long to wait for other writers before giving up.

    Attributes
    ----------
    readonly : bool
        Whether it could not be opened for writing.
    """

    def __init__(self, folder: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self.folder, self.busy_seconds = folder, busy_seconds
        self.readonly = False
        self.mirror: Mirror | None = None
        self._lock = threading.RLock()
        self._last: Head | None = None

    @property
    @abstractmethod
    def project_id(self) -> str:
        """Identifier of the project that the log belongs to."""

    @abstractmethod
    def rows(self, after: int = 0) -> list[Row]:
        """Return the rows with a generation above ``after``, in order, unchecked."""

    @abstractmethod
    def read(self, after: int = 0) -> list[Entry]:
        """Return the events with a generation above ``after``, in order."""

    @abstractmethod
    def append(self, after: int, decide: Decide) -> list[Entry]:
        """Write events in one transaction: all of them or none.

        Parameters
        ----------
        after : int
            Generation that the caller knows.
        decide : callable
            Is given the events since then, while no other process can write, and says what is to be written; whatever
            it raises ends the transaction without a trace. It may be called again where the store had to try again.

        Returns
        -------
        list of Entry
            What was written. When this returns, it is on the disk.
        """

    @abstractmethod
    def retire(self, take: Callable[[list[Row]], None], place: str) -> str:
        """Hand all rows over while nobody can write, and refuse to write from then on.

        Parameters
        ----------
        take : callable
            Is given all rows; what it raises leaves everything as it was.
        place : str
            Where they are from now on, for sentences.

        Returns
        -------
        str
            What the former log is called now.
        """

    @abstractmethod
    def lease(self, rater: str, wanted: Sequence[tuple[int, int]], seconds: float) -> int | None:
        """Reserve a query for a rater, who gives up any other.

        Parameters
        ----------
        rater : str
        wanted : sequence of (query, most)
            In order of preference, each with how many raters may hold it at once.
        seconds : float
            After which the query is free again.

        Returns
        -------
        int or None
            The first query with room; None where others hold them all.
        """

    @abstractmethod
    def integrity(self) -> Integrity:
        """Have the store check itself; nothing is repaired."""

    @abstractmethod
    def ping(self) -> None:
        """Raise when the store cannot be read now."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; it is opened again when needed."""

    @abstractmethod
    def begin(self) -> None:
        """Do what is due once after the log was opened and replayed."""

    @abstractmethod
    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` soon after another process has written, where the store can tell."""

    def last_generation(self) -> int:
        """Return the generation of the last event, those of other processes included; 0 where there is none."""
        self.read(0 if self._last is None else self._last.generation)
        return 0 if self._last is None else self._last.generation

    def _note(self, events: Sequence[Entry]) -> None:
        """Remember the last of what was read or written."""
        if events and (self._last is None or events[-1].generation > self._last.generation):
            last = events[-1]
            self._last = Head(last.generation, last.digest, last.time)

    def use_mirror(self, folder: Path) -> None:
        """Append every further event to a second copy in another folder, too, before it is acknowledged."""

        def begun() -> Mirror:
            mirror, rows = Mirror(folder, self.folder, self.project_id), self.rows()
            mirror.check(rows)
            mirror.copy_files()
            mirror.append(rows)
            return mirror

        def decide(fresh: list[Entry]) -> list[Event]:
            self.mirror = begun()  # while no other server can write to the log, and so to the mirror
            return []

        with self._lock:
            if self.readonly:
                self.mirror = begun()
            else:
                self.append(0 if self._last is None else self._last.generation, decide)
