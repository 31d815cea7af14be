"""The log of a project: an append-only table of events with a chain of digests, in one of several stores.

`EventLog` is what the rest of warpgauge knows. `warpgauge.project.sqlite_log` keeps the events in a file of the
project's folder, `warpgauge.project.postgres_log` in a database that several hosts share.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.project.chain import Row, chained
from warpgauge.project.events import Event
from warpgauge.project.log_head import Head
from warpgauge.project.mirror import Mirror

BUSY_SECONDS = 60.0
COLUMNS = "generation, time, rater, kind, query, duration, base_generation, payload"
Decide = Callable[[list[Row]], Sequence[Event]]


@dataclass(frozen=True)
class Integrity:
    """What a store says about itself: problems, what was checked, and what could not be, one sentence each."""

    problems: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...] = ()


def now() -> str:
    """Return the time in UTC, as the log keeps it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def chained_rows(events: Iterable[Event], generation: int, digest: str) -> list[Row]:
    """Return the rows of new events, which follow the entry with this generation and digest."""
    rows: list[Row] = []
    for event in events:
        generation += 1
        row = (generation, now(), *event.columns())
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
    def read(self, after: int = 0) -> list[Row]:
        """Return the events with a generation above ``after``, in order."""

    @abstractmethod
    def append(self, after: int, decide: Decide) -> list[Row]:
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
        list of Row
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

    def _note(self, rows: Sequence[Row]) -> None:
        """Remember the last of what was read or written."""
        if rows and (self._last is None or rows[-1][0] > self._last.generation):
            generation, time, *_, digest = rows[-1]
            self._last = Head(generation, digest, time)

    def use_mirror(self, folder: Path) -> None:
        """Append every further event to a second copy in another folder, too, before it is acknowledged."""

        def begun() -> Mirror:
            mirror, rows = Mirror(folder, self.folder, self.project_id), self.rows()
            mirror.check(rows)
            mirror.copy_files()
            mirror.append(rows)
            return mirror

        def decide(fresh: list[Row]) -> list[Event]:
            self.mirror = begun()  # while no other server can write to the log, and so to the mirror
            return []

        with self._lock:
            if self.readonly:
                self.mirror = begun()
            else:
                self.append(0 if self._last is None else self._last.generation, decide)
