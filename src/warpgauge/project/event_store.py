"""The log together with the state that results from it, followed and written by one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from warpgauge.project.chain import Row
from warpgauge.project.errors import StorageError, project_content
from warpgauge.project.event_log import EventLog
from warpgauge.project.events import Event, advance, check_sequence, read_events, replay
from warpgauge.project.state import State

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
            self._state = replay(read_events(self.log.read()), d)
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

    def sync(self) -> None:
        """Read what other processes have written since."""
        with self.lock:
            self._apply(self.log.read(self._state.generation))
            self.lock.fresh = True

    def _apply(self, rows: Iterable[Row]) -> None:
        """Advance the state by what others wrote."""
        with project_content("The annotation log", _ADVICE):
            fresh = read_events(row for row in rows if row[0] > self._state.generation)
            replay(fresh, self.d, self._state)

    def append(self, *events: Event) -> tuple[Event, ...]:
        """Write events, all or none; see `Project.append`."""

        def decide(state: State) -> Sequence[Event]:
            check_sequence(state, events, self.d)
            return events

        return self.write(decide)

    def write(self, decide: Callable[[State], Sequence[Event]]) -> tuple[Event, ...]:
        """Write the events that ``decide`` returns while no other process can write; none where it raises."""
        with self.lock:
            decided: list[Event] = []

            def on_fresh(fresh: list[Row]) -> Sequence[Event]:
                # Called again when the log had to try again: what is known is not applied twice.
                self._apply(fresh)
                decided[:] = decide(self._state)
                return decided

            try:
                rows = self.log.append(self._state.generation, on_fresh)
            except StorageError as error:
                self._refused = time.monotonic(), error
                raise
            self._refused = None
            written = [
                event.model_copy(update={"generation": row[0], "time": row[1]})
                for event, row in zip(decided, rows, strict=True)
            ]
            for event in written:
                advance(self._state, event)
            self.lock.fresh = True
            return tuple(written)
