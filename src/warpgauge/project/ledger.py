"""The log and the state that it amounts to, kept together: what may be written is decided where both are known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from warpgauge.project.errors import NotAllowedError
from warpgauge.project.events import Draft, Event, checked
from warpgauge.project.log import EventLog
from warpgauge.project.rules import check
from warpgauge.project.state import State, advance, replay

ORGANISER = "organiser"
_FOR_ORGANISERS = ("exclude", "include", "resolve", "rater")


class Ledger:
    """A log that is followed and written by one process, from any of its threads.

    Parameters
    ----------
    path : Path
        The log's file.
    d : int
        Dimension of the points in it.
    """

    def __init__(self, path: Path, d: int) -> None:
        self.log = EventLog(path)
        self.d = d
        self.lock = threading.RLock()
        self._state = replay(self.log.read())
        self.on_note: Callable[[], None] = lambda: None

    @property
    def state(self) -> State:
        """What the log says now, events of other processes included."""
        self.sync()
        return self._state

    def sync(self) -> list[Event]:
        """Read what other processes have written since, and give it."""
        with self.lock:
            return self._apply(self.log.read(self._state.generation))

    def _apply(self, events: Iterable[Event]) -> list[Event]:
        """Advance the state by what others wrote; notes tell that they changed ``project.json``."""
        fresh = [event for event in events if event.generation > self._state.generation]
        replay(fresh, self._state)
        if any(event.kind == "note" for event in fresh):
            self.on_note()
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
            return tuple(written)

    @staticmethod
    def _allowed(state: State, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Check drafts one after the other, each on the state that the former leave; raises at the first that fails."""
        after = state if len(drafts) == 1 else state.copy()
        for draft in drafts:
            authorise(after, draft)
            check(after, draft)
            if len(drafts) > 1:
                advance(after, Event(**{**vars(draft), "base_generation": None}, generation=after.generation + 1))
        return drafts


def authorise(state: State, draft: Draft) -> None:
    """Raise when the role of who acts does not allow it."""
    role = state.role(draft.rater)
    organising = draft.kind in _FOR_ORGANISERS or (draft.kind == "query" and draft.payload["origin"] == "again")
    if role == "viewer" or (organising and role != ORGANISER):
        article = "an" if role[0] in "aeiou" else "a"
        raise NotAllowedError(f"{draft.rater} is {article} {role} of this project and may not {draft.kind}.")
