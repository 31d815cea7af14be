"""The log of a project: an append-only table of events with a chain of digests, and the state that results from it."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from warpgauge.project.errors import ProjectError, project_content
from warpgauge.project.kinds import advance, authorise, check, checked, replay, sound_events
from warpgauge.project.records import Draft, Event, canonical, chained
from warpgauge.project.rules import check_new_name
from warpgauge.project.safeguards import Head, Mirror
from warpgauge.project.state import State

# The log of a project: an append-only table of events with a chain of digests, in one of several stores.
#
# `EventLog` is what the rest of warpgauge knows. `warpgauge.project.sqlite_log` keeps the events in a file of the
# project's folder, `warpgauge.project.postgres_log` in a database that several hosts share.

BUSY_SECONDS = 60.0
_LONGEST_TIME = 40
COLUMNS = "generation, time, rater, kind, query, duration, base_generation, payload"
Row = tuple[Any, ...]
Decide = Callable[[list[Event]], Sequence[Draft]]


@dataclass(frozen=True)
class Integrity:
    """What a store says about itself: problems, and what was checked, one sentence each."""

    problems: tuple[str, ...]
    checked: tuple[str, ...]


def now() -> str:
    """Return the time in UTC, as the log keeps it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of(time: object, generation: object) -> datetime:
    """Return the time of an event; one that names no moment says that the store was damaged."""
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


def event_of(row: Row) -> Event:
    """Read one row, its digest last; a payload that is no JSON object says that the store was damaged."""
    generation, time, rater, kind, query, duration, base, text, digest = row
    moment_of(time, generation)
    try:
        payload = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise ProjectError(f"Event {generation} of the log cannot be read: its content is damaged.")
    return Event(kind, rater, query, payload, duration, base, generation, time, digest)


def chained_rows(drafts: Iterable[Draft], generation: int, digest: str) -> list[Row]:
    """Return the rows of new events, which follow the event with this generation and digest."""
    rows: list[Row] = []
    for draft in drafts:
        generation += 1
        row = (
            generation,
            now(),
            draft.rater,
            draft.kind,
            draft.query,
            draft.duration,
            draft.base_generation,
            canonical(draft.payload),
        )
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
    def read(self, after: int = 0) -> list[Event]:
        """Return the events with a generation above ``after``, in order."""

    @abstractmethod
    def append(self, after: int, decide: Decide) -> list[Event]:
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
        list of Event
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

    def use_mirror(self, folder: Path) -> None:
        """Append every further event to a second copy in another folder, too, before it is acknowledged."""
        with self._lock:
            mirror = Mirror(folder, self.folder, self.project_id)
            rows = self.rows()
            mirror.check(rows)
            mirror.append(rows)
            self.mirror = mirror


# The log together with the state that results from it; checks of new events need both.

_ADVICE = "run warpgauge verify, and warpgauge recover where there is a mirror"


class StateLock:
    """A lock that a thread may take several times over; while it is held, the log is read once and not again.

    Attributes
    ----------
    fresh : bool
        Whether the state was brought up to date since the lock was taken.
    """

    def __init__(self) -> None:
        self._lock, self._depth = threading.RLock(), 0
        self.fresh = False

    def acquire(self, blocking: bool = True) -> bool:
        """Take it; False where another thread has it and this one is not to wait."""
        taken = self._lock.acquire(blocking=blocking)
        if taken:
            self._depth += 1
            self.fresh = self.fresh and self._depth > 1
        return taken

    def release(self) -> None:
        """Release the lock once; it is free after as many calls as it was taken."""
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class EventStore:
    """A log that is followed and written by one process, from any of its threads.

    Parameters
    ----------
    log : EventLog
    d : int
        Dimension of the points in it.
    """

    def __init__(self, log: EventLog, d: int) -> None:
        self.log = log
        self.d = d
        self.lock = StateLock()
        self._state = State()
        with project_content("The annotation log", _ADVICE):
            replay(sound_events(self.log.read(), d), self._state)
        self.log.begin()

    @property
    def known(self) -> State:
        """What the log said when it was last looked at."""
        return self._state

    @property
    def state(self) -> State:
        """What the log says, events of other processes included: now, or when the caller took the lock and asked."""
        with self.lock:
            if not self.lock.fresh:
                self.sync()
            return self._state

    def sync(self) -> list[Event]:
        """Read what other processes have written since, and return it."""
        with self.lock:
            found = self._apply(self.log.read(self._state.generation))
            self.lock.fresh = True
            return found

    def _apply(self, events: Iterable[Event]) -> list[Event]:
        """Advance the state by what others wrote."""
        fresh = [event for event in events if event.generation > self._state.generation]
        with project_content("The annotation log", _ADVICE):
            replay(sound_events(fresh, self.d), self._state)
        return fresh

    def append(self, *drafts: Draft) -> tuple[Event, ...]:
        """Write events, all or none; see `Project.append`."""
        clean = [checked(draft, self.d) for draft in drafts]
        return self.write(lambda state: self._allowed(state, clean))

    def write(self, decide: Callable[[State], Sequence[Draft]]) -> tuple[Event, ...]:
        """Write what ``decide`` says, while no other process can write; what it raises ends it without a trace."""
        with self.lock:

            def on_fresh(fresh: list[Event]) -> Sequence[Draft]:
                # Called again when the log had to try again: what is known is not applied twice.
                self._apply(fresh)
                return decide(self._state)

            written = self.log.append(self._state.generation, on_fresh)
            replay(written, self._state)
            self.lock.fresh = True
            return tuple(written)

    @staticmethod
    def _allowed(state: State, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Check drafts one after the other, each on the state that the former leave; raises at the first that fails."""
        after = state if len(drafts) == 1 else state.copy()
        for draft in drafts:
            authorise(after, draft)
            _check_names(after, draft)
            check(after, draft)
            if len(drafts) > 1:
                advance(after, Event(**{**vars(draft), "base_generation": None}, generation=after.generation + 1))
        return drafts


def _check_names(state: State, draft: Draft) -> None:
    """Check the names that this draft would bring into the project."""
    known = {*state.raters, *state.trails}  # a trail has everybody who ever answered or put something aside
    names = [draft.rater] if state.raters or draft.kind != "rater" else []
    names += [draft.payload["name"]] if draft.kind == "rater" else []
    for name in names:
        if name not in known:
            check_new_name(name, known)
    if draft.kind == "transform" and draft.payload["name"] not in state.transforms:
        check_new_name(draft.payload["name"], state.transforms, "The name of a transform")
