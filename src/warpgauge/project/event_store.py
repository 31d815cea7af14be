"""The log together with the state that results from it, followed and written by one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from warpgauge.project import snapshots
from warpgauge.project.errors import StorageError, project_content
from warpgauge.project.event_log import EventLog
from warpgauge.project.events import Event, advance, check_sequence, read_event, replay
from warpgauge.project.state import State
from warpgauge.project.values import Entry

# So long after a refused write others are expected to be refused: pages that wait try again at least every 5 seconds.
REFUSED_SECONDS = 6.0
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
        """Take the lock; return False where another thread holds it and ``blocking`` is False."""
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
        self._refused: tuple[float, StorageError] | None = None
        self._opened_readonly = log.readonly
        with project_content("The annotation log", _ADVICE):
            self._state, entries = snapshots.restored(self.log, d)
            replay(entries, d, self._state)
        if len(entries) >= snapshots.FEWEST:
            snapshots.keep(self.log, self._state, d, entries[-1])
        self.log.begin()

    @property
    def known(self) -> State:
        """What the log said when it was last looked at."""
        return self._state

    @property
    def state(self) -> State:
        """What the log says, with events of other processes: now, or as first read since the caller took the lock."""
        with self.lock:
            if not self.lock.fresh:
                self.sync()
            return self._state

    def check_ready(self) -> None:
        """Raise while the log cannot be read, or writes are refused; one that was opened to be read is ready."""
        self.log.ping()
        refused = self._refused
        if refused is not None and time.monotonic() - refused[0] < REFUSED_SECONDS:
            raise refused[1]
        if self.log.readonly and not self._opened_readonly:
            raise StorageError("The log may only be read now, so nothing can be saved.")

    def sync(self) -> list[Entry]:
        """Read what other processes have written since, and return it."""
        with self.lock:
            found = self._apply(self.log.read(self._state.generation))
            self.lock.fresh = True
            return found

    def _apply(self, entries: Iterable[Entry]) -> list[Entry]:
        """Advance the state by what others wrote."""
        fresh = [entry for entry in entries if entry.generation > self._state.generation]
        with project_content("The annotation log", _ADVICE):
            replay(fresh, self.d, self._state)
        return fresh

    def append(self, *events: Event) -> tuple[Entry, ...]:
        """Write events, all or none; see `Project.append`."""
        clean = [read_event(event, self.d) for event in events]

        def decide(state: State) -> Sequence[Event]:
            check_sequence(state, clean)
            return clean

        return self.write(decide)

    def write(self, decide: Callable[[State], Sequence[Event]]) -> tuple[Entry, ...]:
        """Write the events that ``decide`` returns while no other process can write; none where it raises."""
        with self.lock:
            decided: list[Event] = []

            def on_fresh(fresh: list[Entry]) -> Sequence[Event]:
                # Called again when the log had to try again: what is known is not applied twice.
                self._apply(fresh)
                decided[:] = decide(self._state)
                return decided

            try:
                written = self.log.append(self._state.generation, on_fresh)
            except StorageError as error:
                self._refused = time.monotonic(), error
                raise
            self._refused = None
            for event, entry in zip(decided, written, strict=True):
                advance(self._state, event, entry.stamp)
            self.lock.fresh = True
            return tuple(written)
