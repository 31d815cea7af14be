"""The log together with the state that results from it; checks of new events need both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from warpgauge.project.errors import project_content
from warpgauge.project.events import Draft, Event
from warpgauge.project.kinds import advance, authorise, check, checked, replay, sound_events
from warpgauge.project.log import EventLog
from warpgauge.project.names import check_new_name
from warpgauge.project.state import State

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
        """Give it back, as often as it was taken."""
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
        """Read what other processes have written since, and give it."""
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
